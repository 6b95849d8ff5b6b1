"""The fast path against the general path; test_objective.py compares both with the reference."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cases import as_sparse, double_batch, double_model, generator, make_settings, random_graph
from graphlatent import GraphLaGraph, NodeLaGraph
from graphlatent.data.graph import GraphData
from graphlatent.methods.base import combine
from graphlatent.methods.lagraph.fast import can_share, choose_engine, compute_terms, shared_views
from graphlatent.methods.lagraph.masking import draw_mask
from graphlatent.methods.lagraph.method import LaGraph
from graphlatent.methods.lagraph.precomputed import EMPTY_CACHE, precompute
from graphlatent.methods.lagraph.reconstruction import SAFE_RATIO, blocked_error, gram_error
from graphlatent.methods.lagraph.views import general_views
from graphlatent.nn.encoders import GCNLayer


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 8), min_size=1, max_size=4),
    depth=st.integers(1, 4),
    ratio=st.floats(0.01, 1.0),
    kind=st.sampled_from(["gcn", "gin"]),
    sparse=st.booleans(),
    precomputed=st.booleans(),
    directed=st.booleans(),
    last_norm=st.booleans(),
    seed=st.integers(0, 9999),
)
def test_shared_views_equal_the_general_ones(
    sizes, depth, ratio, kind, sparse, precomputed, directed, last_norm, seed
):
    graph = random_graph(sizes, seed=seed, weighted=True, one_hot=sparse)
    if directed:
        keep = torch.rand(graph.num_edges, generator=generator(seed)) < 0.6
        graph = dataclasses.replace(
            graph,
            edge_index=graph.edge_index[:, keep],
            edge_weight=graph.edge_weight[keep],
            undirected=False,
        )
    graph = as_sparse(graph) if sparse else graph
    chosen = make_settings(
        "node", encoder=kind, num_layers=depth, mask_ratio=ratio, last_norm=last_norm
    )
    model = double_model(chosen, 4, seed)
    batch = double_batch(graph, model)
    cache = precompute(batch) if precomputed else EMPTY_CACHE
    mask = draw_mask(batch, chosen, generator=generator(seed))
    general = general_views(model, batch, mask)
    whole = shared_views(model, batch, mask, rows_only=False, cache=cache)
    rows = shared_views(model, batch, mask, rows_only=True, cache=cache)
    exact = {"rtol": 1e-9, "atol": 1e-9}
    for a, b in zip(general.plain + general.masked, whole.plain + whole.masked, strict=True):
        torch.testing.assert_close(a, b, **exact)
    if last_norm:
        # The statistics of the last norm need every row.
        assert rows.masked_rows is None and len(rows.masked) == depth
    else:
        torch.testing.assert_close(rows.plain_rows, general.plain[-1][mask.rows], **exact)
        torch.testing.assert_close(rows.masked_rows, general.masked[-1][mask.rows], **exact)


@settings(max_examples=150, deadline=None)
@given(
    level=st.sampled_from(["node", "graph"]),
    objective=st.sampled_from(["mse-embed", "mse-output", "ce-embed", "ce-output", "denoise"]),
    kind=st.sampled_from(["gcn", "gin"]),
    depth=st.integers(1, 4),
    decoder_layers=st.integers(1, 2),
    sizes=st.lists(st.integers(1, 8), min_size=1, max_size=4),
    sparse=st.booleans(),
    weighted=st.booleans(),
    density=st.sampled_from([0.0, 0.1, 0.5]),
    ratio=st.sampled_from([0.01, 0.3, 1.0]),
    reduction=st.sampled_from(["sum", "mean"]),
    precomputed=st.booleans(),
    some_count=st.booleans(),
    seed=st.integers(0, 9999),
)
@example(
    level="node",
    objective="mse-embed",
    kind="gcn",
    depth=4,
    decoder_layers=2,
    sizes=[3],
    sparse=False,
    weighted=False,
    density=0.0,
    ratio=0.01,
    reduction="sum",
    precomputed=False,
    some_count=True,
    seed=943,
)
def test_loss_and_gradient_equal_the_general_ones(
    level,
    objective,
    kind,
    depth,
    decoder_layers,
    sizes,
    sparse,
    weighted,
    density,
    ratio,
    reduction,
    precomputed,
    some_count,
    seed,
):
    values = {
        "objective": objective,
        "encoder": kind,
        "num_layers": depth,
        "decoder_layers": decoder_layers,
    }
    chosen = make_settings(level, mask_ratio=ratio, loss_reduction=reduction, **values)
    graph = random_graph(sizes, seed=seed, weighted=weighted, one_hot=True, density=density)
    graph = as_sparse(graph) if sparse else graph
    model = double_model(chosen, 4, seed)
    batch = double_batch(graph, model)
    if some_count:
        counts = torch.rand(batch.num_nodes, generator=generator(seed)) < 0.6
        batch = dataclasses.replace(batch, counts=counts)
    cache = precompute(batch) if precomputed else EMPTY_CACHE
    mask = draw_mask(batch, chosen, generator=generator(seed))
    parameters = list(model.parameters())

    def loss_and_gradient(name: str) -> tuple[torch.Tensor, list[torch.Tensor]]:
        engine = choose_engine(model, dataclasses.replace(chosen, engine=name))
        total = combine(compute_terms(model, batch, mask, chosen, engine, cache)).total
        found = torch.autograd.grad(total, parameters, allow_unused=True)
        pairs = zip(found, parameters, strict=True)
        return total, [torch.zeros_like(p) if g is None else g for g, p in pairs]

    (loss, general), (fast_loss, fast) = (loss_and_gradient(name) for name in ("general", "auto"))
    torch.testing.assert_close(loss, fast_loss, rtol=1e-9, atol=1e-12)
    scale = max(float(g.abs().max()) for g in general)
    atol = 1e-9 * max(scale, 1e-6)
    if all(torch.allclose(a, b, rtol=1e-7, atol=atol) for a, b in zip(fast, general, strict=True)):
        return
    # Ill-conditioned, such as four batch norms over three rows: the paths may then differ as much
    # as the general one does from itself when its weights change in the last bit.
    rounding = 0.0
    start = [p.detach().clone() for p in parameters]
    for draw in range(8):
        with torch.no_grad():
            for p, old in zip(parameters, start, strict=True):
                noise = torch.randn(p.shape, generator=generator(draw), dtype=torch.float64)
                p.copy_(old * (1 + 2.2e-16 * noise))
        moved = loss_and_gradient("general")[1]
        pairs = zip(moved, general, strict=True)
        rounding = max(rounding, *(float((a - b).abs().max()) for a, b in pairs))
    difference = max(float((a - b).abs().max()) for a, b in zip(fast, general, strict=True))
    assert difference <= 4 * rounding


def test_choice_of_the_engine():
    def chosen(level: str, **values: object) -> tuple[bool, bool, str]:
        resolved = make_settings(level, **values)
        engine = choose_engine(double_model(resolved, 4), resolved)
        return engine.share, engine.rows_only, engine.form

    assert chosen("node") == (True, True, "gram")
    assert chosen("node", engine="general") == (False, False, "output")
    assert chosen("node", invariance_on="all") == (True, False, "gram")
    assert chosen("node", objective="ce-embed") == (True, True, "output")
    assert chosen("node", objective="mse-output", decoder_layers=2) == (True, False, "gram")
    assert chosen("node", objective="denoise") == (True, True, "output")
    assert chosen("node", preset="released") == (True, True, "output")
    assert chosen("graph") == (True, False, "gram")
    assert chosen("graph", decoder="gnn") == (True, False, "output")


@pytest.mark.parametrize("sparse", [True, False])
class TestReconstruction:
    def case(self, sparse: bool, dtype: torch.dtype, *, noise: float, rows: int = 300):
        """Rows that a linear map reconstructs up to `noise`."""
        gen = generator(0)
        hidden = torch.randn(rows, 16, generator=gen, dtype=torch.float64)
        weight, bias = (
            torch.randn(s, generator=gen, dtype=torch.float64) for s in ((40, 16), (40,))
        )
        residual = noise * torch.randn(rows, 40, generator=gen, dtype=torch.float64)
        x = (hidden @ weight.T + bias + residual).to(dtype)
        row_weight = torch.rand(rows, generator=gen, dtype=torch.float64).to(dtype)
        features = x
        if sparse:
            features = as_sparse(GraphData(torch.zeros(2, 0), rows, torch.tensor([0, rows]), x=x)).x
        leaves = [t.to(dtype).requires_grad_() for t in (hidden, weight, bias)]
        return leaves, features, x, row_weight

    def gradients(self, form, leaves, features, x, row_weight):
        hidden, weight, bias = leaves
        if form == "dense":
            error = ((hidden @ weight.T + bias - x).square().sum(1) * row_weight).sum()
        elif form == "gram":
            error = gram_error(
                hidden, weight, bias, features, row_weight=row_weight, x_sq_norm=x.square().sum(1)
            )
        else:
            error = blocked_error(hidden, weight, bias, features, row_weight=row_weight)
        return error.detach(), torch.autograd.grad(3 * error, leaves)

    @pytest.mark.parametrize("form", ["gram", "blocks"])
    def test_equals_the_dense_computation_in_float64(self, sparse, form):
        case = self.case(sparse, torch.float64, noise=1.0)
        error, gradients = self.gradients(form, *case)
        exact_error, exact_gradients = self.gradients("dense", *case)
        torch.testing.assert_close(error, exact_error, rtol=1e-11, atol=0)
        for gradient, exact in zip(gradients, exact_gradients, strict=True):
            torch.testing.assert_close(gradient, exact, rtol=1e-9, atol=1e-9)

    def test_several_blocks_equal_one(self, sparse, monkeypatch):
        case = self.case(sparse, torch.float64, noise=1.0)
        whole = self.gradients("blocks", *case)
        monkeypatch.setattr("graphlatent.methods.lagraph.reconstruction._BLOCK", {"cpu": 40 * 7})
        parts = self.gradients("blocks", *case)
        torch.testing.assert_close(whole, parts, rtol=1e-11, atol=1e-11)

    def relative_error(self, form: str, sparse: bool, noise: float) -> float:
        """The largest relative error of a float32 gradient."""
        _, exact = self.gradients("dense", *self.case(sparse, torch.float64, noise=noise))
        _, ours = self.gradients(form, *self.case(sparse, torch.float32, noise=noise))
        return max(float((a - b).norm() / a.norm()) for a, b in zip(exact, ours, strict=True))

    def test_float32_precision_of_both_forms(self, sparse):
        """The Gram gradient is accurate to 1e-3 down to SAFE_RATIO; below it only blocks are."""
        # Mean square of an entry of x: ||W h||^2 / F + b^2.
        mean_square = 16.0 + 1.0
        noise = float(np.sqrt(mean_square * SAFE_RATIO))
        assert self.relative_error("gram", sparse, noise) < 1e-3
        assert self.relative_error("blocks", sparse, 1e-3) < 1e-3
        assert self.relative_error("gram", sparse, 1e-3) > 1e-3


def test_training_changes_to_blocks_when_the_reconstruction_is_very_good(monkeypatch):
    # The bias reconstructs constant features almost exactly.
    x = torch.ones(30, 3)
    graph = dataclasses.replace(random_graph([30]), x=x)
    seen: list[str] = []
    original = LaGraph.after_epoch

    def spy(self: LaGraph, values: dict[str, float]) -> bool:
        changed = original(self, values)
        seen.append(self.engine.form)
        return changed

    monkeypatch.setattr(LaGraph, "after_epoch", spy)
    values = {"preset": "paper", "hidden_dim": 8, "epochs": 300, "lr": 0.03, "alpha": 0.1}
    fitted = NodeLaGraph(**values, device="cpu").fit(graph)
    assert seen[0] == "gram" and seen[-1] == "blocks"
    reconstruction = fitted.history_.terms["reconstruction"]
    assert reconstruction[-1] < 0.03 * 3 and min(reconstruction) >= 0


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize(
    ("cls", "values"),
    [
        (NodeLaGraph, {}),
        (NodeLaGraph, {"objective": "mse-output", "decoder_layers": 2}),
        (NodeLaGraph, {"batching": "nodes", "nodes_per_step": 20}),
        (GraphLaGraph, {"batch_size": 4}),
        (GraphLaGraph, {"batch_size": 4, "objective": "denoise", "mask_ratio": 0.4}),
    ],
    ids=str,
)
def test_both_engines_give_the_same_loss_curve(cls, values, sparse):
    check_loss_curves(cls, {"preset": "paper", **values}, sparse=sparse)


@pytest.mark.usefixtures("random_biases")
@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize(
    ("cls", "values"),
    [
        (NodeLaGraph, {}),
        (NodeLaGraph, {"decoder_layers": 2, "alpha": 0.5, "momentum": 0.5}),
        (NodeLaGraph, {"encoder": "gin", "mask_value": "swap"}),
        (NodeLaGraph, {"batching": "nodes", "nodes_per_step": 20}),
        (GraphLaGraph, {"batch_size": 5}),
        (GraphLaGraph, {"batch_size": 4, "alpha": 0.5, "mask_value": "zeros"}),
    ],
    ids=str,
)
def test_both_engines_give_the_same_loss_curve_of_the_default(cls, values, sparse):
    # Rounding errors grow faster than those of the paper's objective.
    check_loss_curves(cls, {"epochs": 5, **values}, sparse=sparse)


def check_loss_curves(cls, values, *, sparse):
    graph = random_graph([5, 4, 3, 6, 2, 7, 4, 3, 5, 6], one_hot=sparse)
    graph = as_sparse(graph) if sparse else graph
    curves = [
        cls(**{"hidden_dim": 8, "epochs": 12, "engine": e, "device": "cpu", **values})
        .fit(graph)
        .history_.loss
        for e in ("auto", "general")
    ]
    assert curves[0][-1] != curves[0][0]
    np.testing.assert_allclose(curves[0], curves[1], rtol=2e-4)


def test_features_of_zeros_give_a_finite_loss():
    graph = dataclasses.replace(random_graph([9]), x=torch.zeros(9, 3))
    fitted = NodeLaGraph(hidden_dim=4, epochs=5, device="cpu").fit(graph)
    assert np.isfinite(fitted.history_.loss).all()


def test_float32_gradients_of_both_engines_agree():
    chosen = make_settings("node", hidden_dim=32, mask_ratio=0.1)
    graph = random_graph([200], num_features=50, density=0.03)
    model = double_model(chosen, 50).float()
    batch = double_batch(graph, model)
    structure = batch.structure.to("cpu", torch.float32)
    batch = dataclasses.replace(batch, x=batch.x.float(), structure=structure)
    mask = draw_mask(batch, chosen, generator=generator(0))
    grads = []
    for name in ("general", "auto"):
        engine = choose_engine(model, dataclasses.replace(chosen, engine=name))
        total = combine(compute_terms(model, batch, mask, chosen, engine)).total
        gradients = torch.autograd.grad(total, list(model.parameters()))
        grads.append(torch.cat([g.flatten() for g in gradients]))
    assert float((grads[0] - grads[1]).norm() / grads[0].norm()) < 1e-4


def test_only_the_built_in_layers_are_shared():
    class Scaled(GCNLayer):
        """A layer of the user's that is not linear in its input."""

    model = double_model(make_settings("node"), 4)
    assert can_share(model.encoder)
    model.encoder.convs[1] = Scaled(5, 5)
    assert not can_share(model.encoder)
    assert not can_share(torch.nn.Linear(4, 4))
