"""Parts of the cosine objective: variance, weights of 0, dropped edges and features."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import reference_plus
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_cosine import gradients, plus, reference_terms
from torch import Tensor

from cases import as_sparse, double_batch, double_model, generator, make_method, random_graph
from graphlatent import GraphLaGraph, NodeLaGraph
from graphlatent.data.batches import Batch, full_batch
from graphlatent.methods.base import combine
from graphlatent.methods.lagraph import cosine
from graphlatent.methods.lagraph.cosine import variance_covariance
from graphlatent.methods.lagraph.fast import choose_engine, compute_terms
from graphlatent.methods.lagraph.masking import draw_mask
from graphlatent.methods.lagraph.views import draw_dropped
from graphlatent.ops.feature_views import PatchedRows
from graphlatent.ops.sparse import SparseMatrix

TERMS = {
    "reconstruction_weight": "reconstruction",
    "masked_weight": "masked_reconstruction",
    "latent_weight": "latent",
    "variance_weight": "variance",
    "alpha": "invariance",
}


@pytest.fixture(autouse=True)
def _same_constants(monkeypatch):
    """The reference clamps where the package does."""
    monkeypatch.setattr(reference_plus, "COSINE_EPS", cosine.COSINE_EPS)
    monkeypatch.setattr(reference_plus, "DEVIATION_EPS", cosine.DEVIATION_EPS)


class TestVarianceCovariance:
    @staticmethod
    def by_numpy(hidden: np.ndarray, counted: np.ndarray) -> float:
        """VICReg's formulas on directions, column by column."""
        rows = hidden[counted]
        width = rows.shape[1]
        norms = np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-6)
        directions = np.sqrt(width) * rows / norms
        centred = directions - directions.mean(0) if len(rows) else directions
        divisor = max(len(rows) - 1, 1)
        total = 0.0
        for i in range(width):
            deviation = np.sqrt((centred[:, i] ** 2).sum() / divisor + 1e-4)
            total += max(0.0, 1 - deviation) / width
            for j in range(width):
                if i != j:
                    total += 0.04 * ((centred[:, i] * centred[:, j]).sum() / divisor) ** 2 / width
        return total

    def test_by_hand(self):
        # Directions (+-sqrt(2), 0) and (0, +-sqrt(2)): variances 4 / 3, no covariance.
        spread = torch.tensor([[3.0, 0.0], [-1.0, 0.0], [0.0, 0.1], [0.0, -7.0]])
        assert variance_covariance(spread.double()).item() == 0.0
        # All alike: standard deviations are the root of 1e-4.
        same = torch.ones(5, 3, dtype=torch.float64)
        assert variance_covariance(same).item() == pytest.approx(0.99)
        # On a line: directions +-(1, 1), variances and covariances 2 with two rows.
        line = torch.tensor([[2.0, 2.0], [-5.0, -5.0]], dtype=torch.float64)
        assert variance_covariance(line).item() == pytest.approx(0.04 * (4 + 4) / 2)

    @settings(max_examples=60, deadline=None)
    @given(
        num_rows=st.integers(1, 8),
        width=st.integers(1, 5),
        zero_row=st.booleans(),
        some_count=st.sampled_from([None, 0.0, 0.6]),
        seed=st.integers(0, 999),
    )
    def test_equals_numpy(self, num_rows, width, zero_row, some_count, seed):
        gen = generator(seed)
        hidden = torch.randn(num_rows, width, dtype=torch.float64, generator=gen)
        if zero_row:
            hidden[0] = 0.0
        rows = None
        if some_count is not None:
            rows = torch.rand(num_rows, generator=gen) < some_count
        counted = np.ones(num_rows, dtype=bool) if rows is None else rows.numpy()
        found = variance_covariance(hidden, rows)
        assert found.item() == pytest.approx(self.by_numpy(hidden.numpy(), counted), abs=1e-12)
        if rows is not None:
            # Rows that do not count have neither influence nor gradient.
            other = torch.where(rows[:, None], hidden, 1e3).requires_grad_()
            value = variance_covariance(other, rows)
            assert value.item() == pytest.approx(found.item(), abs=1e-12)
            (grad,) = torch.autograd.grad(value, other)
            assert not grad[~rows].any() and torch.isfinite(grad).all()

    @settings(max_examples=20, deadline=None)
    @given(factors=st.lists(st.floats(0.1, 10), min_size=6, max_size=6))
    def test_lengths_of_rows_do_not_matter(self, factors):
        hidden = torch.randn(6, 3, dtype=torch.float64, generator=generator(1))
        scaled = hidden * torch.tensor(factors, dtype=torch.float64)[:, None]
        torch.testing.assert_close(variance_covariance(scaled), variance_covariance(hidden))

    @pytest.mark.parametrize("level", ["node", "graph"])
    def test_it_is_that_of_the_counted_rows_of_the_plain_view(self, level):
        graph = random_graph([6, 5], seed=2)
        chosen = plus(level, variance_weight=0.7)
        model = double_model(chosen, 4)
        counts = torch.arange(11) % 3 > 0
        batch = dataclasses.replace(double_batch(graph, model), counts=counts)
        mask = draw_mask(batch, chosen, generator=generator(0), token=model.token)
        terms = compute_terms(model, batch, mask, chosen, choose_engine(model, chosen))
        hidden = model.encode(batch.x, batch.structure)[-1].detach().numpy()
        expected = self.by_numpy(hidden, counts.numpy())
        assert combine(terms).values["variance"].item() == pytest.approx(expected, rel=1e-9)
        assert terms["variance"].weight == 0.7


ALL = {"reconstruction_weight": 1.0, "masked_weight": 1.0, "latent_weight": 1.0}
ALL |= {"variance_weight": 1.0, "alpha": 1.0}


@pytest.mark.parametrize("level", ["node", "graph"])
@pytest.mark.parametrize("engine", ["auto", "general"])
@pytest.mark.parametrize("name", TERMS)
def test_a_weight_of_0_removes_its_term(level, engine, name):
    graph, weights = random_graph([6, 5], seed=2), {**ALL, name: 0.0}
    chosen = plus(level, engine=engine, **weights)
    model = double_model(chosen, 4)
    batch = double_batch(graph, model)
    mask = draw_mask(batch, chosen, generator=generator(0), token=model.token)
    terms = compute_terms(model, batch, mask, chosen, choose_engine(model, chosen))
    expected = [TERMS[each] for each in weights if each != name]
    assert list(terms) == expected == list(make_method(level, **as_values(chosen)).term_names)
    # The others are what they are with all of them.
    whole = plus(level, engine=engine, **ALL)
    with_all = double_model(whole, 4)
    with_all.load_state_dict({**with_all.state_dict(), **model.state_dict()})
    full = compute_terms(with_all, batch, mask, whole, choose_engine(with_all, whole))
    for term in expected:
        torch.testing.assert_close(terms[term].value, full[term].value, rtol=1e-9, atol=1e-12)


def as_values(chosen):
    names = ("preset", "engine", *TERMS)
    return {name: getattr(chosen, name) for name in names}


@pytest.mark.parametrize(
    ("weights", "parts"),
    [
        ({"latent_weight": 0.0}, ["decoder", "encoder", "token"]),
        (
            {"reconstruction_weight": 0.0, "masked_weight": 0.0},
            ["encoder", "predictor", "token"],
        ),
        ({"masked_weight": 0.0, "latent_weight": 0.0}, ["decoder", "encoder"]),
    ],
    ids=str,
)
def test_only_parts_of_the_model_with_a_term_have_a_gradient(weights, parts):
    graph, chosen = random_graph([6, 5], seed=2), plus("node", **{**ALL, "alpha": 0.0, **weights})
    model = double_model(chosen, 4)
    batch = double_batch(graph, model)
    mask = draw_mask(batch, chosen, generator=generator(0), token=model.token)
    terms = compute_terms(model, batch, mask, chosen, choose_engine(model, chosen))
    found = gradients(combine(terms).total, model)
    assert sorted({name.partition(".")[0] for name, grad in found.items() if grad.any()}) == parts
    assert (model.predictor is None) == (weights.get("latent_weight") == 0.0)


@pytest.mark.parametrize("level", ["node", "graph"])
def test_the_moving_average_equals_the_reference(level):
    method = make_method(level, preset="plus", momentum=0.9)
    model = method.build(4, generator=generator(0))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator(1)))
    expected = reference_plus.moving_average(dict(model.named_parameters()), momentum=0.9)
    online = {n: p.clone() for n, p in model.named_parameters() if not n.startswith("target.")}
    method.after_step(model)
    after = dict(model.named_parameters())
    assert {name for name in after if name.startswith("target.")} == set(expected)
    for name, value in {**online, **expected}.items():
        torch.testing.assert_close(after[name], value, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("level", ["node", "graph"])
def test_training_moves_the_average_after_every_step(level):
    cls, graph = (NodeLaGraph, GraphLaGraph)[level == "graph"], random_graph([6, 5])
    values = {"hidden_dim": 4, "epochs": 2, "device": "cpu"}
    followed = cls(**values, momentum=0.0).fit(graph).model_
    for target, own in zip(
        followed.target.parameters(), followed.encoder.parameters(), strict=True
    ):
        assert torch.equal(target, own)
    kept, start = (cls(**{**values, "epochs": e}, momentum=1.0).fit(graph).model_ for e in (2, 0))
    for target, own in zip(kept.target.parameters(), start.encoder.parameters(), strict=True):
        assert torch.equal(target, own)


class TestDropped:
    @settings(max_examples=60, deadline=None)
    @given(
        case=st.sampled_from([("node", "gcn"), ("node", "gin"), ("graph", "gin")]),
        depth=st.integers(1, 2),
        edge_drop=st.sampled_from([0.0, 0.4, 0.99]),
        feature_drop=st.sampled_from([0.0, 0.4]),
        sizes=st.lists(st.integers(1, 6), min_size=1, max_size=3),
        sparse=st.booleans(),
        weighted=st.booleans(),
        seed=st.integers(0, 9999),
    )
    def test_terms_and_gradient_equal_the_reference(
        self, case, depth, edge_drop, feature_drop, sizes, sparse, weighted, seed
    ):
        level, kind = case
        graph = random_graph(sizes, seed=seed, one_hot=sparse, weighted=weighted)
        graph = as_sparse(graph) if sparse else graph
        values = {"edge_drop": edge_drop, "feature_drop": feature_drop, "mask_ratio": 0.4}
        chosen = plus(level, encoder=kind, num_layers=depth, **values)
        method = make_method(level, **{**dataclasses.asdict(chosen), "encoder": kind})
        model = double_model(chosen, 4, seed)
        batch = batch_of(graph, method, model)
        gen = generator(seed)
        mask = draw_mask(batch, chosen, generator=gen, token=model.token)
        dropped = draw_dropped(batch, chosen, generator=gen)
        assert (dropped is None) == (not edge_drop and not feature_drop)
        expected = reference_terms(model, graph, mask, chosen, dropped=dropped)
        engine = choose_engine(model, chosen)
        loss = combine(compute_terms(model, batch, mask, chosen, engine, dropped=dropped))
        torch.testing.assert_close(loss.total, expected.total, rtol=1e-8, atol=1e-8)
        found, wanted = gradients(loss.total, model), gradients(expected.total, model)
        scale = max(1.0, *(float(grad.abs().max()) for grad in wanted.values()))
        for name, grad in wanted.items():
            torch.testing.assert_close(found[name], grad, rtol=1e-6, atol=1e-7 * scale, msg=name)

    @pytest.mark.parametrize(
        ("level", "kind"), [("node", "gcn"), ("node", "gin"), ("graph", "gin")]
    )
    def test_the_matrix_is_that_of_the_remaining_edges(self, level, kind):
        """Drawn edges are dropped, nothing else; a GCN is normalised for those that remain."""
        graph = random_graph([9], seed=3, weighted=True)
        loops = graph.edge_index[0] == graph.edge_index[1]
        graph = dataclasses.replace(
            graph, edge_index=graph.edge_index[:, ~loops], edge_weight=graph.edge_weight[~loops]
        )
        chosen = plus(level, encoder=kind, edge_drop=0.5)
        method = make_method(level, preset="plus", encoder=kind, edge_drop=0.5)
        model = double_model(chosen, 4)
        batch = batch_of(graph, method, model)
        dropped = draw_dropped(batch, chosen, generator=generator(0))
        found = dropped.structure.to_dense()
        pairs = zip(graph.edge_index.T.tolist(), graph.edge_weight.tolist(), strict=True)
        kept = [(s, t, w) for (s, t), w in pairs if found[t, s] != 0]
        assert 0.2 * graph.num_edges < len(kept) < 0.8 * graph.num_edges
        expected = reference_plus.dense_matrix(kind, num_nodes=9, edges=kept)
        torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-7)
        # The plain view keeps all of them.
        everything = [
            (s, t, w)
            for (s, t), w in zip(
                graph.edge_index.T.tolist(), graph.edge_weight.tolist(), strict=True
            )
        ]
        whole = reference_plus.dense_matrix(kind, num_nodes=9, edges=everything)
        torch.testing.assert_close(batch.structure.to_dense(), whole, rtol=1e-6, atol=1e-7)

    @pytest.mark.parametrize("values", [{"edge_drop": 0.3}, {"feature_drop": 0.3}], ids=str)
    @pytest.mark.parametrize("cls", [NodeLaGraph, GraphLaGraph])
    def test_both_change_training(self, cls, values):
        graph, small = random_graph([8, 7]), {"hidden_dim": 4, "epochs": 3, "device": "cpu"}
        plain, dropped = (cls(**small, **v).fit(graph).history_ for v in ({}, values))
        assert np.isfinite(dropped.loss).all() and dropped != plain


def batch_of(graph, method, model) -> Batch:
    """The graph as training has it, in float64."""
    return full_batch(
        graph,
        prepare=lambda edges: method.prepare(model, edges),
        device=torch.device("cpu"),
        dtype=torch.float64,
    )


class TestSparseFeatures:
    @pytest.mark.parametrize(
        "values",
        [
            {},
            {"mask_value": "zeros"},
            {"mask_value": "swap"},
            {"engine": "general"},
            {"alpha": 0.5, "decoder_layers": 2},
            {"edge_drop": 0.3, "feature_drop": 0.3},
            {"momentum": 0.9},
            {"encoder": "gin"},
        ],
        ids=str,
    )
    @pytest.mark.parametrize("level", ["node", "graph"])
    def test_a_step_does_not_make_them_dense(self, level, values, monkeypatch):
        graph = as_sparse(random_graph([8, 7], one_hot=True, num_features=9))
        method = make_method(level, preset="plus", hidden_dim=4, **values)
        model = method.build(9, generator=generator(0))
        batch = full_batch(
            graph, prepare=lambda edges: method.prepare(model, edges), device=torch.device("cpu")
        )

        def refused(self) -> Tensor:
            raise AssertionError("sparse features were made dense")

        monkeypatch.setattr(SparseMatrix, "to_dense", refused)
        monkeypatch.setattr(PatchedRows, "to_dense", refused)
        loss = combine(method.step(model, batch, generator=generator(1)))
        loss.total.backward()
        assert torch.isfinite(loss.total)
