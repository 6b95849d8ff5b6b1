"""The fast way against the general one, where test_objective.py (float64, against the
reference) does not look.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cases import as_sparse, double_batch, double_model, generator, make_settings, random_graph
from graphlatent import GraphLaGraph, NodeLaGraph
from graphlatent.data.graph import GraphData
from graphlatent.methods.base import combine
from graphlatent.methods.lagraph.fast import choose_engine, compute_terms, shared_views
from graphlatent.methods.lagraph.masking import draw_mask
from graphlatent.methods.lagraph.method import LaGraph
from graphlatent.methods.lagraph.precomputed import EMPTY_CACHE, precompute
from graphlatent.methods.lagraph.reconstruction import SAFE_RATIO, blocked_error, gram_error
from graphlatent.methods.lagraph.views import general_views


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
def test_shared_views_are_the_general_ones(
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
    known = precompute(batch) if precomputed else EMPTY_CACHE
    mask = draw_mask(batch, chosen, generator=generator(seed))
    plain = general_views(model, batch, mask)
    whole, rows = (
        shared_views(model, batch, mask, rows_only=r, cache=known) for r in (False, True)
    )
    for a, b in zip(plain.plain + plain.masked, whole.plain + whole.masked, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)
    if last_norm:  # its statistics need every row
        assert rows.masked_rows is None and len(rows.masked) == depth
    else:
        torch.testing.assert_close(
            rows.plain_rows, plain.plain[-1][mask.rows], rtol=1e-9, atol=1e-9
        )
        torch.testing.assert_close(
            rows.masked_rows, plain.masked[-1][mask.rows], rtol=1e-9, atol=1e-9
        )


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
def test_loss_and_gradient_are_the_general_ones(
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
    known = precompute(batch) if precomputed else EMPTY_CACHE
    mask = draw_mask(batch, chosen, generator=generator(seed))
    found = []
    for name in ("general", "auto"):
        engine = choose_engine(model, dataclasses.replace(chosen, engine=name))
        total = combine(compute_terms(model, batch, mask, chosen, engine, known)).total
        found.append(
            (total, torch.autograd.grad(total, list(model.parameters()), allow_unused=True))
        )
    torch.testing.assert_close(found[0][0], found[1][0], rtol=1e-9, atol=1e-12)
    scale = max((float(g.abs().max()) for g in found[0][1] if g is not None), default=0.0)
    for one, other in zip(found[0][1], found[1][1], strict=True):
        one, other = (torch.zeros(()) if g is None else g for g in (one, other))
        torch.testing.assert_close(
            one.broadcast_to(other.shape),
            other,
            rtol=1e-7,
            atol=1e-9 * max(scale, 1e-6),
            check_dtype=False,
        )


def test_what_is_chosen():
    def chosen(level: str, **values: object) -> tuple[bool, bool, str]:
        wanted = make_settings(level, **values)
        engine = choose_engine(double_model(wanted, 4), wanted)
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
        x = (
            hidden @ weight.T
            + bias
            + noise * torch.randn(rows, 40, generator=gen, dtype=torch.float64)
        )
        row_weight = torch.rand(rows, generator=gen, dtype=torch.float64)
        hidden, weight, bias, x, row_weight = (
            t.to(dtype) for t in (hidden, weight, bias, x, row_weight)
        )
        features = (
            as_sparse(GraphData(torch.zeros(2, 0), rows, torch.tensor([0, rows]), x=x)).x
            if sparse
            else x
        )
        leaves = [t.requires_grad_() for t in (hidden, weight, bias)]
        return leaves, features, x, row_weight

    def gradients(self, how, leaves, features, x, row_weight):
        hidden, weight, bias = leaves
        if how == "dense":
            error = ((hidden @ weight.T + bias - x).square().sum(1) * row_weight).sum()
        elif how == "gram":
            error = gram_error(
                hidden, weight, bias, features, row_weight=row_weight, x_sq_norm=x.square().sum(1)
            )
        else:
            error = blocked_error(hidden, weight, bias, features, row_weight=row_weight)
        return error.detach(), torch.autograd.grad(3 * error, leaves)

    @pytest.mark.parametrize("how", ["gram", "blocks"])
    def test_equal_in_float64(self, sparse, how):
        case = self.case(sparse, torch.float64, noise=1.0)
        (a, left), (b, right) = self.gradients("dense", *case), self.gradients(how, *case)
        torch.testing.assert_close(a, b, rtol=1e-11, atol=0)
        for one, other in zip(left, right, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)

    def test_several_blocks_equal_one(self, sparse, monkeypatch):
        case = self.case(sparse, torch.float64, noise=1.0)
        whole = self.gradients("blocks", *case)
        monkeypatch.setattr("graphlatent.methods.lagraph.reconstruction._BLOCK", {"cpu": 40 * 7})
        parts = self.gradients("blocks", *case)
        torch.testing.assert_close(whole, parts, rtol=1e-11, atol=1e-11)

    def test_float32_where_the_identity_is_used_and_where_it_is_not(self, sparse):
        """Down to SAFE_RATIO the Gram gradient is good to 1e-3; far below, only the blocks are."""
        energy = 16.0 + 1.0  # of a row's entry: ||W h||^2 / F + b^2
        for noise, how in ((np.sqrt(energy * SAFE_RATIO), "gram"), (1e-3, "blocks")):
            _, exact = self.gradients(
                "dense", *self.case(sparse, torch.float64, noise=float(noise))
            )
            _, ours = self.gradients(how, *self.case(sparse, torch.float32, noise=float(noise)))
            for one, other in zip(exact, ours, strict=True):
                assert float((one - other).norm() / one.norm()) < 1e-3
        _, exact = self.gradients("dense", *self.case(sparse, torch.float64, noise=1e-3))
        _, gram = self.gradients("gram", *self.case(sparse, torch.float32, noise=1e-3))
        # The guard has a reason
        assert (
            max(float((a - b).norm() / a.norm()) for a, b in zip(exact, gram, strict=True)) > 1e-3
        )


def test_training_changes_to_blocks_when_the_reconstruction_gets_very_good(monkeypatch):
    x = torch.ones(30, 3)  # constant features are reconstructed almost exactly by the bias
    graph = dataclasses.replace(random_graph([30]), x=x)
    seen: list[str] = []
    original = LaGraph.after_epoch

    def spy(self: LaGraph, values: dict[str, float]) -> bool:
        changed = original(self, values)
        seen.append(self.engine.form)
        return changed

    monkeypatch.setattr(LaGraph, "after_epoch", spy)
    fitted = NodeLaGraph(hidden_dim=8, epochs=300, lr=0.03, alpha=0.1, device="cpu").fit(graph)
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
def test_the_loss_curve_is_the_same_whichever_way(cls, values, sparse):
    graph = random_graph([5, 4, 3, 6, 2, 7, 4, 3, 5, 6], one_hot=sparse)
    graph = as_sparse(graph) if sparse else graph
    curves = [
        cls(hidden_dim=8, epochs=12, engine=e, device="cpu", **values).fit(graph).history_.loss
        for e in ("auto", "general")
    ]
    np.testing.assert_allclose(curves[0], curves[1], rtol=2e-4)


def test_all_zero_features_are_no_reason_to_stop():
    graph = dataclasses.replace(random_graph([9]), x=torch.zeros(9, 3))
    assert np.isfinite(
        NodeLaGraph(hidden_dim=4, epochs=5, device="cpu").fit(graph).history_.loss
    ).all()


def test_float32_gradients_agree():
    chosen = make_settings("node", hidden_dim=32, mask_ratio=0.1)
    graph = random_graph([200], num_features=50, density=0.03)
    model = double_model(chosen, 50).float()
    batch = dataclasses.replace(double_batch(graph, model))
    batch = dataclasses.replace(
        batch, x=batch.x.float(), structure=batch.structure.to("cpu", torch.float32)
    )
    mask = draw_mask(batch, chosen, generator=generator(0))
    grads = []
    for name in ("general", "auto"):
        engine = choose_engine(model, dataclasses.replace(chosen, engine=name))
        total = combine(compute_terms(model, batch, mask, chosen, engine)).total
        grads.append(
            torch.cat([g.flatten() for g in torch.autograd.grad(total, list(model.parameters()))])
        )
    assert float((grads[0] - grads[1]).norm() / grads[0].norm()) < 1e-4
