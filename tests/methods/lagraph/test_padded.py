"""Padded mini-batches have the loss and gradient of mini-batches without padding."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cases import double_batch, double_model, generator, make_settings, random_graph
from graphlatent.data.batches import GraphBatches
from graphlatent.methods.base import combine
from graphlatent.methods.lagraph.fast import choose_engine, compute_terms
from graphlatent.methods.lagraph.masking import MaskedView, draw_mask, num_masked
from graphlatent.methods.lagraph.padded import PaddedBatches
from graphlatent.methods.lagraph.precomputed import EMPTY_CACHE, precompute


def sources(sizes, chosen, *, directed: bool = False, seed: int = 0, batch_size: int = 3):
    graph = random_graph(sizes, seed=seed, weighted=True)
    if directed:
        keep = torch.rand(graph.num_edges, generator=generator(seed)) < 0.6
        graph = dataclasses.replace(
            graph,
            edge_index=graph.edge_index[:, keep],
            edge_weight=graph.edge_weight[keep],
            undirected=False,
        )
    model = double_model(chosen, 4, seed)
    everything = double_batch(graph, model)
    ratio, rounding = chosen.mask_ratio, str(chosen.mask_rounding)
    padded = PaddedBatches(
        everything,
        precompute(everything),
        graph.ptr,
        batch_size=batch_size,
        num_masked=num_masked(torch.diff(graph.ptr), ratio=ratio, rounding=rounding),
        mask_ratio=ratio,
    )
    return model, padded, GraphBatches(everything, graph.ptr, batch_size=batch_size)


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 8), min_size=1, max_size=7),
    kind=st.sampled_from(["gcn", "gin"]),
    depth=st.integers(1, 3),
    decoder_layers=st.integers(1, 2),
    reduction=st.sampled_from(["sum", "mean"]),
    readout=st.sampled_from(["sum", "mean"]),
    ratio=st.floats(0.01, 1.0),
    directed=st.booleans(),
    seed=st.integers(0, 9999),
)
def test_loss_and_gradient_equal_those_without_padding(
    sizes, kind, depth, decoder_layers, reduction, readout, ratio, directed, seed
):
    values = {
        "encoder": kind,
        "num_layers": depth,
        "decoder_layers": decoder_layers,
        "loss_reduction": reduction,
        "readout": readout,
    }
    chosen = make_settings("graph", mask_ratio=ratio, **values)
    model, padded, plain = sources(sizes, chosen, directed=directed, seed=seed)
    engine = choose_engine(model, chosen)
    for index in padded.plan(generator(seed)):
        batch = padded.take(index)
        cache, padding = batch.cache, batch.cache.padding
        mask = draw_mask(batch, chosen, generator=generator(seed), slots=cache.mask_slots)
        valid = mask.rows < int(padding.rows)
        assert int(valid.sum()) == int(padding.masked)
        small = plain.take(index[index < padded.num_graphs])
        assert int(padding.rows) == small.num_nodes
        ours = combine(compute_terms(model, batch, mask, chosen, engine, cache)).total
        valid_mask = MaskedView(mask.rows[valid], mask.values[valid])
        general = choose_engine(model, dataclasses.replace(chosen, engine="general"))
        exact = combine(compute_terms(model, small, valid_mask, chosen, general, EMPTY_CACHE)).total
        torch.testing.assert_close(ours, exact, rtol=1e-9, atol=1e-12)
        parameters = list(model.parameters())
        gradients = torch.autograd.grad(ours, parameters)
        exact_gradients = torch.autograd.grad(exact, parameters)
        scale = max(float(g.abs().max()) for g in exact_gradients)
        for a, b in zip(gradients, exact_gradients, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-7, atol=1e-9 * scale)


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 8), min_size=1, max_size=7),
    kind=st.sampled_from(["gcn", "gin"]),
    depth=st.integers(1, 3),
    decoder_layers=st.integers(1, 2),
    mask_value=st.sampled_from(["token", "zeros", "noise", "swap"]),
    alpha=st.sampled_from([0.0, 0.4]),
    variance_weight=st.sampled_from([0.0, 1.0]),
    momentum=st.sampled_from([None, 0.9]),
    ratio=st.floats(0.01, 1.0),
    seed=st.integers(0, 9999),
)
def test_the_cosine_objective_equals_that_without_padding(
    sizes, kind, depth, decoder_layers, mask_value, alpha, variance_weight, momentum, ratio, seed
):
    values = {
        "encoder": kind,
        "num_layers": depth,
        "decoder_layers": decoder_layers,
        "mask_value": mask_value,
        "alpha": alpha,
        "variance_weight": variance_weight,
        "momentum": momentum,
    }
    chosen = make_settings("graph", preset="plus", mask_ratio=ratio, **values)
    model, padded, plain = sources(sizes, chosen, seed=seed)
    engine = choose_engine(model, chosen)
    general = choose_engine(model, dataclasses.replace(chosen, engine="general"))
    parameters = {n: p for n, p in model.named_parameters() if p.requires_grad}
    for index in padded.plan(generator(seed)):
        batch = padded.take(index)
        cache, rows = batch.cache, int(batch.cache.padding.rows)
        mask = draw_mask(
            batch,
            chosen,
            generator=generator(seed),
            slots=cache.mask_slots,
            token=model.token,
            limit=cache.limit,
        )
        valid = mask.rows < rows
        assert int(valid.sum()) == int(cache.padding.masked)
        new = mask.values if mask.values.shape[0] == 1 else mask.values[valid]
        small = plain.take(index[index < padded.num_graphs])
        ours = combine(compute_terms(model, batch, mask, chosen, engine, cache))
        alone = MaskedView(mask.rows[valid], new)
        exact = combine(compute_terms(model, small, alone, chosen, general, EMPTY_CACHE))
        assert list(ours.values) == list(exact.values)
        for name, value in exact.values.items():
            torch.testing.assert_close(ours.values[name], value, rtol=1e-8, atol=1e-9, msg=name)
        found, wanted = (
            torch.autograd.grad(each.total, list(parameters.values()), allow_unused=True)
            for each in (ours, exact)
        )
        scale = max(float(g.abs().max()) for g in wanted if g is not None)
        for name, a, b in zip(parameters, found, wanted, strict=True):
            assert (a is None) == (b is None), name
            if b is not None:
                torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-8 * max(scale, 1.0), msg=name)


def test_a_plan_has_every_graph_once_and_few_shapes():
    chosen = make_settings("graph")
    _, padded, _ = sources([3, 5, 2, 8, 1, 4, 6], chosen, batch_size=3)
    plan = padded.plan(generator(0))
    assert [len(index) for index in plan] == [3, 3, 3]
    # 7 is the empty graph.
    assert sorted(i for index in plan for i in index.tolist()) == [0, 1, 2, 3, 4, 5, 6, 7, 7]
    assert {padded.shape_key(index) for index in plan} == {64}


@pytest.mark.parametrize("needed", [1, 63, 64, 1000, 12345])
def test_there_is_at_least_one_padding_row(needed):
    chosen = make_settings("graph", num_layers=1, mask_ratio=0.5)
    _, padded, _ = sources([3], chosen)
    padded.sizes = torch.tensor([needed])
    rows = padded.shape_key(torch.tensor([0, 1, 1]))
    assert needed < rows <= max(64, 1.2 * needed + 64)
