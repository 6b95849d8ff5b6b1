"""Small graphs by rows, and sources of pieces of them in float64."""

from __future__ import annotations

import dataclasses

import torch

from cases import generator, random_graph
from graphlatent.data.csr import CSRGraph
from graphlatent.data.graph import GraphData
from graphlatent.data.pieces import ClusterPieces, NeighborPieces, NodePieces

CPU = torch.device("cpu")


def plain(edges):
    return edges


def some_directions(graph: GraphData, seed: int = 0) -> GraphData:
    """The graph with about half of its directed edges."""
    kept = torch.rand(graph.num_edges, generator=generator(seed)) < 0.5
    weight = None if graph.edge_weight is None else graph.edge_weight[kept]
    return dataclasses.replace(
        graph, edge_index=graph.edge_index[:, kept], edge_weight=weight, undirected=False
    )


def drawn_graph(seed=0, *, size=14, weighted=True, directed=False, density=0.3, **values):
    graph = random_graph([size], seed=seed, weighted=weighted, density=density, **values)
    return some_directions(graph, seed) if directed else graph


def whole_pieces(graph: GraphData, prepare) -> dict[str, object]:
    """Sources whose only step sees the whole graph, by name."""
    rows, values = CSRGraph.of(graph), {"prepare": prepare, "device": CPU, "dtype": torch.float64}
    size = graph.num_nodes
    parts = torch.zeros(size, dtype=torch.int64)
    return {
        "nodes": NodePieces(rows, nodes_per_step=size, steps_per_epoch=1, **values),
        "clusters": ClusterPieces(rows, parts, parts_per_step=3, **values),
        "neighbors": NeighborPieces(
            rows, nodes_per_step=size, num_neighbors=None, num_layers=2, **values
        ),
    }


def neighbor_pieces(graph: GraphData, prepare=plain, *, nodes_per_step=4, **values):
    chosen = {"num_neighbors": None, "num_layers": 2, "dtype": torch.float64, **values}
    return NeighborPieces(
        CSRGraph.of(graph), nodes_per_step=nodes_per_step, prepare=prepare, device=CPU, **chosen
    )


def first_batch(source, seed=0):
    return source.take(source.plan(generator(seed))[0])
