"""A warning where a model that was fitted on weighted edges is given edges without weights."""

from __future__ import annotations

from typing import TypeVar

from graphlatent.data.store.store import AnyGraph
from graphlatent.errors import warn

Graph = TypeVar("Graph", bound=AnyGraph)


def warn_of_lost_weights(graph: Graph, *, fitted: bool | None) -> Graph:
    """The graph as it is.

    Args:
        graph: is given to a fitted model.
        fitted: whether the model was fitted on edges with weights; None where it is not known.

    Warns:
        GraphLatentWarning: where it was, and these have none.
    """
    if fitted and graph.num_edges and not graph.weighted:
        warn(
            "The model was trained on edges with weights, and these have none, so that embeddings"
            " differ. Give the weights too; of a table, name their column: weight=NAME of"
            " read_graphs (on the command line --weight NAME)."
        )
    return graph
