"""Predicted links as a table of ids."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pandas as pd

from graphlatent.data.graph import GraphData
from graphlatent.data.readers.bipartite import sides_of
from graphlatent.errors import InputError
from graphlatent.explore.links import Links, predict_links
from graphlatent.explore.neighbours import check_count, rows_of

if TYPE_CHECKING:
    from graphlatent.embedding import Embeddings

Array: TypeAlias = np.ndarray[Any, Any]


def link_table(
    embeddings: Embeddings, graph: GraphData, k: int, *, seed: int = 0
) -> tuple[pd.DataFrame, Links]:
    """The predicted links of a graph with ids, and as they were found.

    See `Embeddings.predict_links`.
    """
    check_count(k, name="k", owner="predict_links")
    check_count(seed, name="seed", owner="predict_links", least=0)
    values = embeddings.values[rows_of_nodes(embeddings, graph)]
    ids, graphs = _node_ids(graph)
    side = sides_of(ids, graph.reading) if graph.reading.bipartite else None
    found = predict_links(
        values,
        graph.edge_index.numpy(),
        graph.graph_of_node.numpy(),
        k=k,
        seed=seed,
        side=side,
    )
    pairs = found.pairs
    if side is not None:
        # Sources are of the kind that the edge table has as sources.
        pairs = np.where(side[pairs[:, :1]] == 0, pairs, pairs[:, ::-1])
    first, second = pairs.T
    columns = {} if graphs is None else {"graph": graphs[first]}
    frame = pd.DataFrame(
        {
            **columns,
            "source": ids[first],
            "target": ids[second],
            "score": found.score,
            "similarity": found.similarity,
            "shared_neighbours": found.shared,
        }
    )
    return frame, found


def rows_of_nodes(embeddings: Embeddings, graph: GraphData) -> Array:
    """The row of every node of a graph, int64 [N].

    Raises:
        InputError: where a node has none, or the embeddings are of whole graphs.
    """
    if embeddings.id_name != "id":
        raise InputError("These are embeddings of whole graphs, but those of nodes are needed.")
    ids, graphs = _node_ids(graph)
    keys = ids.tolist()
    if (graphs is None) != (embeddings.graphs is None):
        raise InputError(
            "The embeddings and the graph do not fit together: one has nodes of one graph, the"
            " other of several. Give the graph that was embedded."
        )
    if graphs is not None:
        keys = list(zip(graphs.tolist(), keys, strict=True))
    return rows_of(embeddings, keys)


def _node_ids(graph: GraphData) -> tuple[Array, Array | None]:
    """The id of every node, and the graph of each where there are several."""
    from graphlatent.embedding import node_embeddings

    named = node_embeddings(np.zeros((graph.num_nodes, 0), dtype=np.float32), graph)
    return named.ids, named.graphs
