"""Statistics of a graph, and problems for training on it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from graphlatent.data.describe_columns import column_facts
from graphlatent.data.edge_features import fit_edge_features
from graphlatent.data.features import fit_features
from graphlatent.data.graph import GraphData
from graphlatent.data.readers.options import label_hints
from graphlatent.display import counted
from graphlatent.errors import InputError
from graphlatent.ops.sparse import SparseMatrix

# Column names that are listed before "...".
_LISTED = 8


def describe_graph(graph: GraphData, *, coordinates: bool = False) -> dict[str, Any]:
    """Sizes, degrees, features and notes, as values that JSON can hold.

    Args:
        graph: as it was read.
        coordinates: coordinates computed from the edges will be used as features.
    """
    degree = graph.degree
    return {
        "graphs": graph.num_graphs,
        "nodes": graph.num_nodes,
        "edges": graph.num_distinct_edges,
        "undirected": graph.undirected,
        "weighted": graph.edge_weight is not None,
        **_describe_edge_features(graph),
        "mean_degree": round(float(degree.float().mean()), 3),
        "max_degree": int(degree.max()),
        "isolated_nodes": int((degree == 0).sum()),
        "features": describe_features(graph, coordinates=coordinates),
        "labels": graph.y is not None,
        "notes": list(graph.notes),
    }


def _describe_edge_features(graph: GraphData) -> dict[str, str]:
    if graph.edge_columns is None:
        return {}
    return {"edge_features": _listed(list(graph.edge_columns.columns))}


def describe_features(graph: GraphData, *, coordinates: bool = False) -> str:
    """The features of a graph in words, and coordinates from the edges where they will be used."""
    given = _describe_given(graph)
    if not coordinates:
        return given
    if graph.x is None and graph.columns is None:
        return "none (coordinates computed from the edges will be used)"
    if graph.has_equal_features():
        return f"{given}, the same for every node (coordinates from the edges will be used instead)"
    return f"{given}, and coordinates computed from the edges"


def _describe_given(graph: GraphData) -> str:
    if graph.columns is not None:
        names = list(graph.columns)
        return f"{counted(len(names), 'column')}: {_listed(names)}"
    if graph.x is None:
        return "none (they will be computed from the edges)"
    num_rows, width = graph.x.shape
    if isinstance(graph.x, SparseMatrix):
        return f"{width} (sparse, {graph.x.nnz / max(num_rows * width, 1):.2%} filled)"
    return f"{width} (dense)"


def _listed(names: list[str]) -> str:
    return ", ".join(names[:_LISTED]) + (", ..." if len(names) > _LISTED else "")


def find_problems(graph: GraphData, *, features_named: bool) -> list[str]:
    """What training with default settings would refuse, and columns that look like labels.

    Args:
        graph: as it was read.
        features_named: the feature columns were named, so none of them is a label by mistake.
    """
    problems = [fact.problem for fact in column_facts(graph) if fact.problem]
    # It raises at the first of these columns.
    problems = problems or _refusals(graph, partial(fit_features, degree_cap=1))
    problems += _refusals(graph, fit_edge_features)
    if graph.edge_weight is not None and bool((graph.edge_weight < 0).any()):
        problems.append(
            "some edge weights are negative: encoder=gcn refuses them, encoder=gin takes them"
        )
    return problems + ([] if features_named else label_hints(graph.columns or ()))


def _refusals(graph: GraphData, fit: Callable[[GraphData], object]) -> list[str]:
    """Why features cannot be encoded, if they cannot."""
    try:
        fit(graph)
    except InputError as error:
        return [str(error)]
    return []
