"""Steps on pieces: with everything in one piece they are those of the full batch."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from cases import as_sparse, generator, random_graph
from graphlatent import NodeBGRL, NodeDGI, NodeLaGraph
from graphlatent.config import resolve
from graphlatent.data.batches import FullBatches, full_batch
from graphlatent.data.csr import CSRGraph
from graphlatent.methods.base import combine
from graphlatent.nn.norm import statistics_of
from piece_cases import CPU, drawn_graph, first_batch, neighbor_pieces, whole_pieces

SMALL = {"hidden_dim": 6, "epochs": 3, "device": "cpu", "progress": False}
METHODS = {
    "plus": (NodeLaGraph, {}),
    "plus, general": (NodeLaGraph, {"engine": "general"}),
    "plus, edges dropped": (NodeLaGraph, {"edge_drop": 0.3, "feature_drop": 0.2}),
    "plus, GIN": (NodeLaGraph, {"encoder": "gin", "decoder_layers": 2}),
    "plus, swap": (NodeLaGraph, {"mask_value": "swap", "momentum": 0.9}),
    "paper": (NodeLaGraph, {"preset": "paper"}),
    "paper, general": (NodeLaGraph, {"preset": "paper", "engine": "general"}),
    "paper, GIN": (NodeLaGraph, {"preset": "paper", "encoder": "gin"}),
    "paper, output": (NodeLaGraph, {"preset": "paper", "objective": "mse-output"}),
    "paper, deep decoder": (NodeLaGraph, {"preset": "paper", "decoder_layers": 2}),
    "released": (NodeLaGraph, {"preset": "released"}),
    "bgrl": (NodeBGRL, {"out_dim": 5, "predictor_dim": 7}),
    "dgi": (NodeDGI, {}),
}


def made(name, graph, **values):
    """A method and its model in float64."""
    cls, chosen = METHODS[name]
    estimator = cls(**{**SMALL, **chosen, **values})
    settings = resolve(estimator.settings_class(**estimator.get_params()), owner="test")
    method = cls.method(settings, level="node")
    model = method.build_with_head(graph.x.shape[1], generator=generator(1)).double()
    gen = generator(2)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.2 * torch.randn(parameter.shape, generator=gen, dtype=torch.float64)
    return method, model


def loss_and_gradient(method, model, batch, *, seed=5):
    model.train()
    model.zero_grad()
    with statistics_of(model, batch.counts):
        loss = combine(method.step(model, batch, generator=generator(seed)))
    loss.total.backward()
    gradients = {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
    return {"total": loss.total.detach(), **loss.values}, gradients


def prepared(method, model):
    return lambda edges: method.prepare(model, edges)


@pytest.mark.parametrize("kind", ["undirected", "directed", "unweighted", "sparse"])
@pytest.mark.parametrize("way", ["nodes", "clusters", "neighbors"])
@pytest.mark.parametrize("name", METHODS)
def test_all_in_one_piece_is_the_full_batch(name, way, kind):
    graph = drawn_graph(
        3, directed=kind == "directed", weighted=kind != "unweighted", one_hot=kind == "sparse"
    )
    graph = as_sparse(graph) if kind == "sparse" else graph
    method, model = made(name, graph)
    whole = full_batch(graph, prepare=prepared(method, model), device=CPU, dtype=torch.float64)
    method.begin(model, FullBatches(whole))
    wanted = loss_and_gradient(method, model, whole)
    again, _ = made(name, graph)
    source = again.begin(model, whole_pieces(graph, prepared(again, model))[way])
    found = loss_and_gradient(again, model, first_batch(source))
    for first, second in zip(wanted, found, strict=True):
        assert first.keys() == second.keys()
        for key, value in first.items():
            torch.testing.assert_close(second[key], value, rtol=1e-9, atol=1e-9, msg=key)


@pytest.mark.parametrize("name", ["plus", "paper", "bgrl", "dgi"])
@pytest.mark.parametrize("way", ["nodes", "clusters", "neighbors"])
def test_training_on_one_piece_is_training_on_the_full_batch(way, name):
    """Through an estimator, which makes the pieces itself, over several epochs in float32."""
    graph = drawn_graph(3, size=30, density=0.2)
    cls, chosen = METHODS[name]
    values = {**SMALL, **chosen, "nodes_per_step": 30, "num_neighbors": None}
    full = cls(**values, batching="full").fit(graph)
    pieces = cls(**values, batching=way).fit(graph)
    assert pieces.settings_.batching == way
    assert pieces.history_.loss == pytest.approx(full.history_.loss, rel=1e-4)
    # Later losses follow from earlier steps.
    assert len(set(full.history_.loss)) == SMALL["epochs"]


@pytest.mark.parametrize("name", ["plus", "paper", "paper, GIN", "dgi"])
@pytest.mark.parametrize("directed", [False, True])
def test_with_all_neighbours_seeds_have_the_embeddings_of_the_whole_graph(name, directed):
    graph = drawn_graph(4, size=30, density=0.07, directed=directed)
    method, model = made(name, graph, num_layers=2)
    encoder = model.encoder
    # Batch norm in evaluation is a fixed map of each row.
    model.eval()
    whole = full_batch(graph, prepare=prepared(method, model), device=CPU, dtype=torch.float64)
    wanted = encoder.layers(whole.x, whole.structure)[-1]
    source = neighbor_pieces(graph, prepared(method, model), num_layers=2)
    some_are_outside = False
    for index in source.plan(generator(0)):
        batch = source.take(index)
        seeds = torch.ones(batch.num_nodes, dtype=torch.bool)
        seeds = seeds if batch.counts is None else batch.counts
        assert torch.equal(batch.node_id[seeds], index[1:])
        found = encoder.layers(batch.x, batch.structure)[-1]
        torch.testing.assert_close(found[seeds], wanted[batch.node_id[seeds]], rtol=1e-9, atol=1e-9)
        some_are_outside |= not torch.allclose(found, wanted[batch.node_id])
    # Else the test would not tell seeds from others.
    assert some_are_outside


# DGI permutes the features of all rows.
@pytest.mark.parametrize("name", [name for name in METHODS if name != "dgi"])
def test_rows_that_do_not_count_have_no_part_in_the_loss(name):
    """Without edges from them, other features of uncounted rows change nothing."""
    graph = random_graph([12], seed=2, weighted=True)
    method, model = made(name, graph)
    source = neighbor_pieces(graph, prepared(method, model), num_layers=1, nodes_per_step=5)
    batch = first_batch(source)
    assert batch.counts is not None and not bool(batch.counts.all())
    method.begin(model, source)
    among_seeds = torch.isin(graph.edge_index, batch.node_id[batch.counts]).all(0)
    edges = CSRGraph.of(graph.with_edges(among_seeds)).induced(batch.node_id)
    structure = method.prepare(model, edges).to(CPU, torch.float64)
    first = dataclasses.replace(batch, structure=structure)
    other = torch.where(batch.counts[:, None], first.x, first.x.flip(1) + 1)
    wanted = loss_and_gradient(method, model, first)
    found = loss_and_gradient(method, model, dataclasses.replace(first, x=other))
    for before, after in zip(wanted, found, strict=True):
        torch.testing.assert_close(after, before, rtol=1e-9, atol=1e-9)
    # But they do with a neighbour that counts.
    seen = loss_and_gradient(method, model, dataclasses.replace(batch, x=other))
    assert not torch.allclose(seen[0]["total"], loss_and_gradient(method, model, batch)[0]["total"])
