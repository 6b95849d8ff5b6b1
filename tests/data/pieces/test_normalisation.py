"""How the adjacency of a piece is normalised, by hand, and on a star."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from cases import generator
from graphlatent.data.assemble import assemble
from graphlatent.data.csr import CSRGraph
from graphlatent.data.graph import RawGraph
from graphlatent.data.pieces import ClusterPieces, NodePieces
from graphlatent.data.pieces.degrees import find_degrees
from graphlatent.data.pieces.sampling import sample_neighbourhood
from graphlatent.nn.propagation import gcn_matrix, gin_matrix
from piece_cases import CPU

CENTRE, LEAVES = 0, 4


@pytest.fixture
def star():
    """Node 0 with four neighbours, of which each has no other."""
    leaves = np.arange(1, LEAVES + 1)
    edges = np.stack([np.zeros(LEAVES, dtype=np.int64), leaves])
    graph = assemble([RawGraph(edges, LEAVES + 1, directed=False)])
    return CSRGraph.of(graph.with_features(torch.eye(LEAVES + 1)))


@pytest.mark.parametrize("way", ["nodes", "clusters"])
def test_induced_pieces_by_the_degrees_in_the_piece(star, way):
    values = {"prepare": gcn_matrix, "device": CPU, "dtype": torch.float64}
    if way == "nodes":
        source = NodePieces(star, nodes_per_step=3, steps_per_epoch=1, **values)
        batch = source.take(torch.tensor([0, 2, 4]))
    else:
        parts = torch.tensor([1, 0, 1, 0, 1])
        batch = ClusterPieces(star, parts, parts_per_step=1, **values).take(torch.tensor([1]))
    assert batch.node_id.tolist() == [0, 2, 4]
    # With self-loops the centre has degree 3 here, 5 in the graph.
    far, own = 1 / np.sqrt(3 * 2), 1 / 2
    wanted = [[1 / 3, far, far], [far, own, 0], [far, 0, own]]
    assert np.allclose(batch.structure.to_dense(), wanted)


@pytest.mark.parametrize(("count", "factor"), [(None, 1.0), (4, 1.0), (2, 2.0), (1, 4.0)])
def test_sampled_neighbourhoods_by_the_degrees_of_the_whole_graph(star, count, factor):
    """A row with n of its d neighbours sums d / n times what they give in the whole graph."""
    around = sample_neighbourhood(
        star,
        torch.tensor([CENTRE]),
        num_neighbors=count,
        num_layers=2,
        degrees=find_degrees(star),
        generator=generator(0),
    )
    sampled = (count or LEAVES) + 1
    assert around.nodes.numel() == sampled
    gcn, gin = (of(around.edges).to_dense() for of in (gcn_matrix, gin_matrix))
    # Rows receive. Sampled leaves have all of their one neighbour, so their rows are unchanged.
    assert np.allclose(gcn[0], [1 / 5] + [factor / np.sqrt(5 * 2)] * (sampled - 1))
    assert np.allclose(gin[0], [1.0] + [factor] * (sampled - 1))
    for leaf in range(1, sampled):
        wanted = np.zeros(sampled)
        wanted[[0, leaf]] = 1 / np.sqrt(5 * 2), 1 / 2
        assert np.allclose(gcn[leaf], wanted)
    # In expectation every entry of the row is that of the whole graph.
    share = (sampled - 1) / LEAVES
    whole = gcn_matrix(star.induced(torch.arange(LEAVES + 1))).to_dense()
    assert np.allclose(share * gcn[0, 1:], whole[0, 1])
