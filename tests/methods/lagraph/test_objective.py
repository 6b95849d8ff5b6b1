"""Loss and gradient against an independent rewrite of the paper's formulas, to 1e-9 in float64."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import reference
from cases import (
    as_sparse,
    double_batch,
    double_model,
    generator,
    make_settings,
    random_graph,
    reference_layers,
    to_reference,
)
from graphlatent.data.graph import GraphData
from graphlatent.errors import InputError
from graphlatent.methods.base import Loss, Term, add_terms, combine, safe_sqrt
from graphlatent.methods.lagraph.fast import Engine, choose_engine, compute_terms
from graphlatent.methods.lagraph.masking import MaskedView, draw_mask
from graphlatent.methods.lagraph.model import LaGraphModel
from graphlatent.methods.lagraph.objective import check_features, loss_terms
from graphlatent.methods.lagraph.settings import LaGraphSettings
from graphlatent.methods.lagraph.views import general_views

OBJECTIVES = ("mse-embed", "mse-output", "ce-embed", "ce-output", "denoise")
SIZES = ([1], [7], [1, 1], [4, 1, 6], [3, 5, 2, 4])


def ours(
    model: LaGraphModel,
    graph: GraphData,
    mask: MaskedView,
    chosen: LaGraphSettings,
    engine: Engine | None = None,
) -> Loss:
    batch = double_batch(graph, model)
    engine = engine or choose_engine(model, dataclasses.replace(chosen, engine="general"))
    return combine(compute_terms(model, batch, mask, chosen, engine))


def engines(model: LaGraphModel, chosen: LaGraphSettings) -> list[Engine]:
    """The general engine, the fast one, and the fast one after a change from 'gram' to 'blocks'."""
    general, fast = (
        choose_engine(model, dataclasses.replace(chosen, engine=name))
        for name in ("general", "auto")
    )
    blocks = [dataclasses.replace(fast, form="blocks")] if fast.form == "gram" else []
    return [general, fast, *blocks]


def theirs(model: LaGraphModel, graph: GraphData, mask: MaskedView, chosen: LaGraphSettings) -> Any:
    encoder, decoder = reference_layers(model)
    return reference.loss(
        to_reference(graph, mask),
        level="graph" if hasattr(chosen, "readout") else "node",
        objective=chosen.objective,
        encoder_kind=chosen.encoder,
        encoder_layers=encoder,
        decoder_layers=decoder,
        alpha=chosen.alpha,
        invariance_on=chosen.invariance_on,
        readout=getattr(chosen, "readout", "sum"),
        reduction=chosen.loss_reduction,
        relu_output=chosen.output_activation == "relu",
    )


def check_equal(
    graph: GraphData, chosen: LaGraphSettings, *, seed: int = 0, mask: MaskedView | None = None
) -> None:
    model = double_model(chosen, graph.x.shape[1], seed)
    mask = mask or draw_mask(double_batch(graph, model), chosen, generator=generator(seed + 2))
    b = theirs(model, graph, mask, chosen)
    parameters = list(model.parameters())
    other = torch.autograd.grad(b.total, parameters, allow_unused=True)
    scale = max(float(g.abs().max()) for g in other if g is not None)
    for engine in engines(model, chosen):
        a = ours(model, graph, mask, chosen, engine)
        for name, value in {"total": a.total, **a.values}.items():
            torch.testing.assert_close(value, getattr(b, name), rtol=1e-9, atol=1e-12)
        mine = torch.autograd.grad(a.total, parameters, allow_unused=True)
        for left, right in zip(mine, other, strict=True):
            left, right = (torch.zeros(()) if g is None else g for g in (left, right))
            left, right = torch.broadcast_tensors(left.double(), right.double())
            torch.testing.assert_close(left, right, rtol=1e-9, atol=1e-9 * scale)


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("encoder", ["gcn", "gin"])
@pytest.mark.parametrize("level", ["node", "graph"])
def test_equals_the_reference(level, encoder, objective, sizes):
    graph = random_graph(sizes, seed=len(sizes), one_hot=objective.startswith("ce"))
    values = {"alpha": 2.5, "mask_ratio": 0.4, "decoder_layers": 2}
    check_equal(graph, make_settings(level, encoder=encoder, objective=objective, **values))


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("level", ["node", "graph"])
def test_equals_the_reference_with_everything_masked(level, objective):
    graph = random_graph([4, 1, 3], one_hot=objective.startswith("ce"))
    check_equal(graph, make_settings(level, objective=objective, mask_ratio=1.0))


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("level", ["node", "graph"])
def test_sparse_features_give_the_same_loss_and_gradient(level, objective):
    graph = as_sparse(random_graph([5, 3], one_hot=True))
    check_equal(graph, make_settings(level, objective=objective, mask_ratio=0.5))


@pytest.mark.parametrize(
    "values",
    [
        {"num_layers": 1},
        {"num_layers": 4},
        {"mask_value": "zeros"},
        {"activation": "relu"},
        {"encoder": "gin", "activation": "prelu"},
        {"preset": "released"},
        {"preset": "released", "objective": "mse-output"},
        {"preset": "released", "objective": "denoise"},
        {"loss_reduction": "mean", "objective": "ce-output"},
        {"objective": "mse-output", "invariance_on": "all"},
        {"objective": "ce-output", "invariance_on": "all"},
        {"decoder_layers": 3},
        {"alpha": 0.0},
    ],
    ids=str,
)
@pytest.mark.parametrize("level", ["node", "graph"])
def test_settings_equal_the_reference(level, values):
    one_hot = str(values.get("objective")).startswith("ce")
    graph = random_graph([5, 6], weighted=True, one_hot=one_hot)
    check_equal(graph, make_settings(level, **{"mask_ratio": 0.4, **values}))


def test_invariance_on_all_nodes_equals_the_reference():
    check_equal(random_graph([5, 6]), make_settings("node", invariance_on="all", mask_ratio=0.3))


@pytest.mark.parametrize("encoder", ["gcn", "gin"])
@pytest.mark.parametrize("layers", [1, 2])
def test_gnn_decoder_and_mean_readout_equal_the_reference(encoder, layers):
    values = {"decoder": "gnn", "decoder_layers": layers, "readout": "mean"}
    chosen = make_settings("graph", encoder=encoder, mask_ratio=0.4, **values)
    check_equal(random_graph([4, 5, 1], weighted=True), chosen)


@settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 7), min_size=1, max_size=4),
    ratio=st.floats(0.01, 1.0),
    objective=st.sampled_from(OBJECTIVES),
    level=st.sampled_from(["node", "graph"]),
    encoder=st.sampled_from(["gcn", "gin"]),
    seed=st.integers(0, 10_000),
)
def test_any_graph_equals_the_reference(sizes, ratio, objective, level, encoder, seed):
    one_hot = objective.startswith("ce")
    graph = random_graph(sizes, seed=seed, one_hot=one_hot, weighted=seed % 2 == 0)
    chosen = make_settings(level, encoder=encoder, objective=objective, mask_ratio=ratio)
    check_equal(graph, chosen, seed=seed)


def test_value_by_hand():
    # Two nodes, one edge, identity-like weights: A_hat = [[.5,.5],[.5,.5]], H = A_hat X, D(H) = H.
    chosen = make_settings("node", num_layers=1, hidden_dim=1, activation="relu", alpha=3.0)
    model = double_model(chosen, 1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.fill_(1.0 if "weight" in name else 0.0)
    graph = random_graph([2], num_features=1, density=1.1)
    graph = dataclasses.replace(
        graph, x=torch.tensor([[1.0], [3.0]]), edge_index=torch.tensor([[0, 1], [1, 0]])
    )
    mask = MaskedView(torch.tensor([0]), torch.tensor([[2.0]], dtype=torch.float64))
    loss = ours(model, graph, mask, chosen)
    # H = (2, 2): reconstruction = (1 + 1) / 2 = 1; H' = (2.5, 2.5), on J = {0}: root of 0.25 = 0.5;
    # L = 1 + 3 * 0.5
    assert loss.values["reconstruction"].item() == pytest.approx(1.0)
    assert loss.values["invariance"].item() == pytest.approx(0.5)
    assert loss.total.item() == pytest.approx(2.5)


def test_a_batch_of_graphs_is_the_double_sum_of_the_paper():
    # One layer, so that no batch norm connects the graphs.
    chosen = make_settings("node", last_norm=False, num_layers=1, mask_ratio=0.5)
    whole = random_graph([4, 3], seed=3)
    model = double_model(chosen, 4)
    batch = double_batch(whole, model)
    mask = draw_mask(batch, chosen, generator=generator(0))
    together = loss_terms(model, batch, mask, general_views(model, batch, mask), chosen)
    parts = []
    for start, stop in ((0, 4), (4, 7)):
        inside = (whole.edge_index[0] >= start) & (whole.edge_index[0] < stop)
        piece = GraphData(
            whole.edge_index[:, inside] - start,
            stop - start,
            torch.tensor([0, stop - start]),
            x=whole.x[start:stop],
        )
        chosen_rows = (mask.rows >= start) & (mask.rows < stop)
        part_mask = MaskedView(mask.rows[chosen_rows] - start, mask.values[chosen_rows])
        part = double_batch(piece, model)
        views = general_views(model, part, part_mask)
        parts.append(loss_terms(model, part, part_mask, views, chosen))
    added = add_terms(*parts)
    assert added["reconstruction"].count == together["reconstruction"].count == 2
    # round(2.0) + round(1.5)
    assert added["invariance"].count == together["invariance"].count == 4
    torch.testing.assert_close(combine(added).total, combine(together).total, rtol=1e-12, atol=0)


def test_root_of_zero_has_gradient_zero():
    value = torch.zeros((), requires_grad=True)
    root = safe_sqrt(value)
    root.backward()
    assert root.item() == 0.0
    assert value.grad is not None and value.grad.item() == 0.0


def test_invariance_is_zero_without_masked_nodes():
    terms = {
        "reconstruction": Term(torch.tensor(6.0), 2.0),
        "invariance": Term(torch.tensor(0.0), 0.0, 5.0, "root"),
    }
    assert combine(terms).total.item() == 3.0


def test_rows_that_do_not_count_are_not_in_the_loss():
    """A batch may contain rows that are context only."""
    chosen = make_settings("node", num_layers=1)
    graph = random_graph([6], seed=5)
    model = double_model(chosen, 4)
    batch = double_batch(graph, model)
    counts = torch.tensor([True, True, False, True, False, True])
    batch = dataclasses.replace(batch, counts=counts)
    mask = draw_mask(batch, dataclasses.replace(chosen, mask_ratio=1.0), generator=generator(1))
    assert mask.rows.tolist() == [0, 1, 3, 5]
    terms = loss_terms(model, batch, mask, general_views(model, batch, mask), chosen)
    hidden = model.encode(batch.x, batch.structure)[-1]
    error = (model.decode(hidden, batch.structure) - batch.x).square().sum(1)
    torch.testing.assert_close(terms["reconstruction"].sum, error[counts].sum() / 4)


@pytest.mark.parametrize(
    ("row", "what"), [([0.5, 0.6], "row 1 sums to 1.1"), ([-1.0, 2.0], "some are negative")]
)
def test_cross_entropy_rejects_rows_that_are_not_distributions(row, what):
    x = torch.tensor([[1.0, 0.0], row])
    with pytest.raises(
        InputError,
        match=f"objective='ce-embed' needs feature rows that are non-negative and sum to 1.*{what}",
    ):
        check_features(x, make_settings("node", objective="ce-embed"))
    check_features(x, make_settings("node", objective="mse-embed"))


@pytest.mark.parametrize("reduction", ["sum", "mean"])
@pytest.mark.parametrize("objective", ["mse-embed", "mse-output", "denoise"])
def test_a_graph_without_counted_rows_is_not_in_the_loss(objective, reduction):
    # Without batch norm, which would see the rows that do not count.
    layers = {"num_layers": 1, "decoder_layers": 1}
    values = {"objective": objective, "loss_reduction": reduction, **layers}
    chosen = make_settings("graph", mask_ratio=0.5, **values)
    model = double_model(chosen, 4)
    three, two = random_graph([4, 3, 5], seed=1), random_graph([4, 3], seed=1)
    inside = three.edge_index[0] < 7
    two = dataclasses.replace(two, x=three.x[:7], edge_index=three.edge_index[:, inside])
    counted = torch.arange(12) < 7
    batch = dataclasses.replace(double_batch(three, model), counts=counted)
    mask = draw_mask(batch, chosen, generator=generator(0))
    assert int(mask.rows.max()) < 7
    losses = []
    for each in (batch, double_batch(two, model)):
        views = general_views(model, each, mask)
        losses.append(combine(loss_terms(model, each, mask, views, chosen)).total)
    torch.testing.assert_close(*losses)
