"""A graph by rows: its rows and subgraphs are those of the edge list."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphlatent import read_graphs
from graphlatent.data.csr import CSRGraph
from graphlatent.data.induced import induced_subgraph

pytestmark = [
    pytest.mark.filterwarnings("ignore:Edges are read as undirected"),
    pytest.mark.filterwarnings("ignore:The input has no edges"),
]


def drawn(seed: int, *, num_nodes: int = 12, num_edges: int = 30, directed: bool = False):
    generator = torch.Generator().manual_seed(seed)
    edges = torch.randint(0, num_nodes, (2, num_edges), generator=generator)
    weight = torch.rand(num_edges, generator=generator) + 0.1
    x = torch.rand(num_nodes, 3, generator=generator)
    return read_graphs((edges, x, weight), symmetrize=not directed, merge="max")


def dense(edges):
    """Entry [i, j] is the weight of the edge from j to i."""
    out = torch.zeros(edges.num_nodes, edges.num_nodes)
    out[edges.edge_index[1], edges.edge_index[0]] = edges.edge_weight
    return out


@pytest.mark.parametrize("directed", [False, True])
@given(seed=st.integers(0, 10**6))
def test_rows_and_subgraphs(directed, seed):
    graph = drawn(seed, directed=directed)
    rows, matrix = CSRGraph.of(graph), dense(graph)
    index = torch.arange(12)[torch.rand(12, generator=torch.Generator().manual_seed(seed)) < 0.6]
    position, node, weight = rows.edges_of(index)
    found = torch.zeros(len(index), 12)
    found[position, node] = weight
    assert torch.equal(found, matrix[index])
    assert torch.equal(rows.degree(index), (matrix[index] > 0).sum(1))
    part = rows.induced(index)
    assert torch.equal(dense(part), matrix[index][:, index])
    assert part.undirected == graph.undirected
    key = part.edge_index[0] * 12 + part.edge_index[1]
    assert torch.equal(key, torch.sort(key).values)


def test_subgraphs_are_those_of_the_edge_list():
    graph = drawn(3)
    index = torch.tensor([0, 2, 3, 7, 8, 11])
    chosen = torch.zeros(12, dtype=torch.bool)
    chosen[index] = True
    wanted, found = induced_subgraph(graph, chosen), CSRGraph.of(graph).induced(index)
    assert torch.equal(wanted.edge_index, found.edge_index)
    assert torch.equal(wanted.edge_weight, found.edge_weight)


def test_no_nodes_and_no_edges():
    graph = read_graphs((torch.zeros(2, 0, dtype=torch.int64), torch.ones(3, 2)))
    rows = CSRGraph.of(graph)
    assert rows.num_nodes == 3 and rows.num_edges == 0
    assert rows.induced(torch.tensor([1, 2])).edge_index.shape == (2, 0)
    assert rows.induced(torch.tensor([], dtype=torch.int64)).num_nodes == 0


def test_features_must_be_encoded():
    graph = read_graphs([("a", "b")])
    with pytest.raises(ValueError, match="encode the features"):
        CSRGraph.of(graph)
