"""Sampled neighbourhoods: which edges they have, and that their sums are unbiased."""

from __future__ import annotations

import itertools
from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cases import generator, random_graph
from graphlatent.data.assemble import assemble
from graphlatent.data.csr import CSRGraph
from graphlatent.data.graph import RawGraph
from graphlatent.data.pieces import degrees as degrees_module
from graphlatent.data.pieces.degrees import find_degrees, row_blocks
from graphlatent.data.pieces.sampling import random_subsets, sample_edges, sample_neighbourhood
from graphlatent.nn.propagation import gcn_matrix, gin_matrix
from piece_cases import drawn_graph, first_batch, neighbor_pieces


def dense(edges):
    """Entry [i, j] is the weight of the edge from j to i."""
    out = torch.zeros(edges.num_nodes, edges.num_nodes, dtype=torch.float64)
    weight = torch.ones(edges.edge_index.shape[1]) if edges.edge_weight is None else None
    out[edges.edge_index[1], edges.edge_index[0]] = (
        edges.edge_weight.double() if weight is None else weight.double()
    )
    return out


def whole(graph):
    rows = CSRGraph.of(graph)
    return rows, dense(rows.induced(torch.arange(graph.num_nodes))), find_degrees(rows)


def test_subsets_are_different_numbers_and_all_are_equally_likely():
    size, count, draws = 5, 3, 20_000
    sizes = torch.full((draws,), size)
    drawn = random_subsets(sizes, count, generator=generator(0))
    ordered = torch.sort(drawn, 1).values
    assert bool((ordered[:, 1:] > ordered[:, :-1]).all())
    assert int(drawn.min()) == 0 and int(drawn.max()) == size - 1
    subsets = list(itertools.combinations(range(size), count))
    found = [int((ordered == torch.tensor(each)).all(1).sum()) for each in subsets]
    expected = draws / len(subsets)
    chi_square = sum((number - expected) ** 2 / expected for number in found)
    # Of 9 degrees of freedom: exceeded once in 10^5 seeds.
    assert chi_square < 38


def test_subsets_of_rows_of_different_sizes():
    sizes = torch.tensor([3, 10, 4])
    drawn = random_subsets(sizes, 3, generator=generator(1))
    assert torch.sort(drawn[0]).values.tolist() == [0, 1, 2]
    assert bool((drawn < sizes[:, None]).all())


@pytest.mark.parametrize("directed", [False, True])
@settings(deadline=None)
@given(seed=st.integers(0, 9999), count=st.integers(1, 5))
def test_every_row_has_its_number_of_neighbours_and_its_self_loop(directed, seed, count):
    graph = drawn_graph(seed, directed=directed, density=0.5)
    rows, matrix, degrees = whole(graph)
    index = torch.arange(14)[torch.rand(14, generator=generator(seed)) < 0.7]
    position, pick, scale = sample_edges(
        rows, index, count, loop=degrees.loop, generator=generator(seed)
    )
    assert torch.equal(pick, torch.unique(pick))
    assert torch.equal(position, torch.sort(position).values)
    node, end = index[position], rows.indices[pick]
    assert bool((matrix[node, end] > 0).all())
    others = (matrix[index] > 0).sum(1) - (matrix.diagonal()[index] > 0).long()
    sampled = torch.bincount(position[node != end], minlength=len(index))
    assert sampled.tolist() == others.clamp(max=count).tolist()
    loops = torch.bincount(position[node == end], minlength=len(index))
    assert loops.tolist() == (matrix.diagonal()[index] > 0).long().tolist()
    wanted = torch.where(others > count, others / count, 1.0)[position]
    assert torch.equal(scale, torch.where(node == end, 1.0, wanted).double())


def test_all_neighbours_draw_nothing():
    graph = drawn_graph(1)
    rows, _, degrees = whole(graph)
    gen = generator(0)
    before = gen.get_state()
    sample_edges(rows, torch.arange(14), None, loop=degrees.loop, generator=gen)
    sample_edges(rows, torch.arange(14), 99, loop=degrees.loop, generator=gen)
    assert torch.equal(gen.get_state(), before)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("matrix_of", [gcn_matrix, gin_matrix])
def test_sums_over_sampled_neighbours_are_unbiased(matrix_of, directed):
    """The mean over draws of A_sampled @ X is A @ X, within five standard errors."""
    graph = drawn_graph(5, size=16, density=0.6, directed=directed)
    rows, _, degrees = whole(graph)
    everything = rows.induced(torch.arange(16))
    x = torch.randn(16, 3, generator=generator(0), dtype=torch.float64)
    wanted = matrix_of(everything).to_dense() @ x
    seeds, draws = torch.tensor([0, 3, 4, 9, 15]), 4000
    found = torch.empty(draws, len(seeds), 3, dtype=torch.float64)
    gen = generator(1)
    for draw in range(draws):
        around = sample_neighbourhood(
            rows, seeds, num_neighbors=3, num_layers=1, degrees=degrees, generator=gen
        )
        product = matrix_of(around.edges).to_dense() @ x[around.nodes]
        found[draw] = product[around.seed]
    assert int((rows.degree(seeds) > 4).sum()) >= 3
    error = found.std(0) / draws**0.5
    assert bool(((found.mean(0) - wanted[seeds]).abs() <= 5 * error + 1e-9).all())
    # The samples do differ, and without their factors the sums would be too small.
    assert float(error.max()) > 0


def test_neighbourhoods_by_hand():
    """A path 0 - 1 - 2 - 3 - 4: the last hop has no edges, degrees are those of the path."""
    path = assemble([RawGraph(np.array([[0, 1, 2, 3], [1, 2, 3, 4]]), 5, directed=False)])
    rows = CSRGraph.of(path.with_features(torch.eye(5)))
    around = sample_neighbourhood(
        rows,
        torch.tensor([0]),
        num_neighbors=None,
        num_layers=2,
        degrees=find_degrees(rows),
        generator=generator(0),
    )
    assert around.nodes.tolist() == [0, 1, 2] and around.seed.tolist() == [True, False, False]
    assert around.edges.edge_index.tolist() == [[0, 1, 2], [1, 0, 1]]
    assert around.edges.edge_weight is None and not around.edges.undirected
    assert around.edges.degree.tolist() == [2.0, 3.0, 3.0]


def test_every_node_is_a_seed_once_an_epoch_and_only_seeds_count():
    graph = drawn_graph(2, size=23, density=0.1)
    source = neighbor_pieces(graph, nodes_per_step=5, num_neighbors=2)
    gen = generator(0)
    first, second = source.plan(gen), source.plan(gen)
    assert [len(step) - 1 for step in first] == [5, 5, 5, 4, 4] and source.num_steps == 5
    for plan in (first, second):
        seeds = torch.cat([step[1:] for step in plan])
        assert torch.sort(seeds).values.tolist() == list(range(23))
    assert [s.tolist() for s in first] != [s.tolist() for s in second]
    for step in first:
        batch = source.take(step)
        assert batch.node_id[batch.counts].tolist() == step[1:].tolist()
        assert torch.equal(batch.x.float(), graph.x[batch.node_id])
        again = source.take(step)
        assert torch.equal(batch.structure.edge_index, again.structure.edge_index)
        assert torch.equal(batch.structure.edge_weight, again.structure.edge_weight)


def test_other_seeds_of_a_step_sample_other_neighbours():
    source = neighbor_pieces(drawn_graph(2, density=0.8), num_neighbors=2)
    step = source.plan(generator(0))[0]
    other = torch.cat([step[:1] + 1, step[1:]])
    first, second = (source.take(s).structure.edge_index.tolist() for s in (step, other))
    assert first != second


def test_graphs_stay_apart():
    graph = random_graph([6, 5, 7], density=0.7)
    batch = first_batch(neighbor_pieces(graph, nodes_per_step=4, num_neighbors=2))
    graphs = graph.graph_of_node[batch.node_id]
    assert batch.num_graphs == graphs.unique().numel()
    ends = graphs[batch.structure.edge_index]
    assert torch.equal(ends[0], ends[1])


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@settings(deadline=None)
@given(seed=st.integers(0, 9999), block=st.integers(1, 50))
def test_degrees_are_found_in_blocks(weighted, directed, seed, block):
    graph = drawn_graph(seed, weighted=weighted, directed=directed)
    rows, matrix, _ = whole(graph)
    with mock.patch.object(degrees_module, "BLOCK_EDGES", block):
        degrees = find_degrees(rows)
    diagonal = matrix.diagonal()
    torch.testing.assert_close(degrees.total, matrix.sum(1) + (diagonal == 0), rtol=0, atol=1e-12)
    if degrees.loop is None:
        assert not bool(diagonal.any())
    else:
        has = degrees.loop >= 0
        assert torch.equal(has, diagonal != 0)
        own = (rows.indptr[:-1] + degrees.loop)[has]
        assert torch.equal(rows.indices[own], torch.arange(14)[has])


def test_blocks_of_rows_cover_all_rows_once():
    indptr = torch.tensor([0, 0, 3, 3, 20, 21, 21])
    assert list(row_blocks(indptr, block_edges=4)) == [(0, 3), (3, 4), (4, 6)]
    assert list(row_blocks(torch.tensor([0]), block_edges=4)) == []


def test_no_edges_and_one_node():
    graph = random_graph([1], density=0.0)
    graph = graph.with_edges(torch.zeros(graph.num_edges, dtype=torch.bool))
    batch = first_batch(neighbor_pieces(graph, num_neighbors=1))
    assert batch.num_nodes == 1 and batch.counts is None
    assert batch.structure.edge_index.shape == (2, 0) and batch.structure.degree.tolist() == [1.0]
