"""Graphs out of NetworkX graphs: nodes in their order, attributes as features, edge weights."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from torch import Tensor

from graphlatent.data.graph import RawGraph
from graphlatent.data.ids import exact_ids
from graphlatent.data.readers.messages import quoted, shortened
from graphlatent.data.readers.options import TableOptions, stack_labels, unused_edge_columns
from graphlatent.data.readers.times import edges_until
from graphlatent.errors import InputError
from graphlatent.io.regular_files import refusing_damage

Array: TypeAlias = np.ndarray[Any, Any]
_REAL = (int, float, np.integer, np.floating, np.bool_)


def is_networkx(value: object) -> bool:
    """Whether the value is a NetworkX graph.

    NetworkX is optional here; a caller who has such a graph has imported it already.
    """
    networkx = sys.modules.get("networkx")
    return networkx is not None and isinstance(value, networkx.Graph)


def read_networkx(
    graph: Any,
    *,
    options: TableOptions | None = None,
    name: str = "graph",
) -> RawGraph:
    """The graph, nodes in the order of `graph.nodes`, their names kept.

    Args:
        graph: a Graph, DiGraph, MultiGraph or MultiDiGraph.
        options: which attributes mean what. Features are by default the attributes that every node
            has; with `impute`, those that any node has. Those with a vector for each node become a
            matrix, all others become columns; both at once are refused. Weights are by default
            'weight' where every edge has it.
        name: for messages.

    Raises:
        InputError: where a named attribute is missing somewhere, or attributes cannot be used
            together.
    """
    options = options or TableOptions()
    nodes = list(graph.nodes)
    _check_ids(nodes, name)
    position = {node: i for i, node in enumerate(nodes)}
    graph, notes = _until(graph, options, name)
    edges = [(position[u], position[v]) for u, v in graph.edges()]
    attributes = {each: _edge_feature(graph, each, name) for each in options.edge_features or ()}
    used = (options.weight or "weight", options.time, *attributes)
    others = [each for each in _edge_attributes(graph) if each not in used]
    weighted = options.weight is not None
    notes |= unused_edge_columns(others, where=name, kind="attributes", weighted=weighted)
    x, columns = _features(graph, nodes, options, name, notes)
    return RawGraph(
        edge_index=np.array(edges, dtype=np.int64).reshape(-1, 2).T,
        num_nodes=len(nodes),
        x=x,
        columns=columns,
        edge_weight=_weights(graph, options.weight, name, notes),
        edge_columns=attributes or None,
        node_ids=exact_ids(nodes),
        y=stack_labels([_labels(graph, nodes, each, name) for each in options.labels]),
        name=name,
        directed=bool(graph.is_directed()),
        notes=notes,
    )


def _edge_feature(graph: Any, attribute: str, name: str) -> Array:
    """An attribute of all edges, in the order of the edges."""
    for u, v, data in graph.edges(data=True):
        if attribute not in data:
            raise InputError(
                f"{name}: edge ({shortened(u)}, {shortened(v)}) has no attribute '{attribute}'"
                " (option 'edge_features'). Give it to all edges, or leave it out."
            )
    return _column([data[attribute] for _, _, data in graph.edges(data=True)])


def _until(graph: Any, options: TableOptions, name: str) -> tuple[Any, dict[str, str]]:
    """The graph with its edges up to the time that was asked for, and a note on how many."""
    if options.until is None or options.time is None:
        return graph, {}
    edges = list(graph.edges(keys=True) if graph.is_multigraph() else graph.edges())
    times = [graph.edges[edge].get(options.time) for edge in edges]
    found = edges_until(
        times,
        options.until,
        name=name,
        column=f"edge attribute '{options.time}'",
        place=lambda row: f"edge ({shortened(edges[row][0])}, {shortened(edges[row][1])})",
    )
    part = graph.copy()
    part.remove_edges_from([edge for edge, keep in zip(edges, found.kept, strict=True) if not keep])
    return part, found.notes


def _edge_attributes(graph: Any) -> list[Any]:
    """The names of edge attributes in the order in which edges name them."""
    return list(dict.fromkeys(name for _, _, data in graph.edges(data=True) for name in data))


def _weights(graph: Any, weight: str | None, name: str, notes: dict[str, str]) -> Array | None:
    edges = list(graph.edges(data=weight or "weight", default=None))
    values = [value for _, _, value in edges]
    # Not by '==', which an attribute may define as it likes.
    missing = sum(value is None for value in values)
    if weight is None and missing:
        if missing < len(values):
            notes["weights"] = (
                f"{name}: {missing} of {len(values)} edges have no 'weight', so weights are not"
                " used. Give all edges one, or none."
            )
        return None
    if not values:
        return None
    numbers = np.empty(len(values))
    for i, (u, v, value) in enumerate(edges):
        try:
            numbers[i] = float(value) if isinstance(value, _REAL) else math.nan
        # Too large, or a time, which NumPy counts among the integers.
        except (OverflowError, TypeError):
            numbers[i] = math.nan
        if not math.isfinite(numbers[i]):
            came = "nothing" if value is None else shortened(value)
            raise InputError(
                f"{name}: edge attribute '{weight or 'weight'}' must be a number everywhere. Edge"
                f" ({shortened(u)}, {shortened(v)}) has {came}. Give it a finite int or float."
            )
    return numbers


def _features(
    graph: Any, nodes: list[Any], options: TableOptions, name: str, notes: dict[str, str]
) -> tuple[Array | None, dict[str, Array] | None]:
    leave_out, filled = (*options.labels, *options.drop), options.impute is not None
    if options.features is not None:
        names = list(options.features)
    elif filled:
        names = [each for each in _all_attributes(graph) if each not in leave_out]
    else:
        names = _common_attributes(graph, nodes, name, notes, leave_out=leave_out)
    values = {attribute: _values(graph, nodes, attribute, name, gaps=filled) for attribute in names}
    vectors = [attribute for attribute in names if any(_is_vector(v) for v in values[attribute])]
    if not vectors:
        return None, {
            attribute: _feature_column(values[attribute], nodes, attribute, name)
            for attribute in names
        } or None
    if len(vectors) < len(names):
        scalars = [attribute for attribute in names if attribute not in vectors]
        raise InputError(
            f"{name}: node attributes {vectors} hold vectors and {scalars} single values, which"
            f" cannot be mixed. Choose with node_attributes, for example node_attributes={vectors}."
        )
    return (
        np.concatenate(
            [_matrix(values[attribute], nodes, attribute, name) for attribute in vectors], axis=1
        ),
        None,
    )


def _all_attributes(graph: Any) -> list[Any]:
    """Attributes that any node has, in the order in which nodes name them."""
    return list(dict.fromkeys(name for _, data in graph.nodes(data=True) for name in data))


def _common_attributes(
    graph: Any, nodes: list[Any], name: str, notes: dict[str, str], *, leave_out: Sequence[str]
) -> list[Any]:
    """Attributes that every node has, in the order of the first node, but for `leave_out`."""
    common = dict.fromkeys(graph.nodes[nodes[0]]) if nodes else {}
    for _, attributes in graph.nodes(data=True):
        if len(common) == 0:
            break
        common = {attribute: None for attribute in common if attribute in attributes}
    partial = set(_all_attributes(graph)) - set(common) - set(leave_out)
    if partial:
        left_out = quoted(sorted(partial, key=str))
        notes[f"node attributes {left_out}"] = (
            f"{name}: node attributes that not every node has are left out: {left_out}. Choose"
            " features with node_attributes=[...], or fill them with impute='mean'."
        )
    return [attribute for attribute in common if attribute not in leave_out]


def _values(graph: Any, nodes: list[Any], attribute: str, name: str, *, gaps: bool) -> list[Any]:
    """The values of all nodes; with `gaps`, None where a node has none, but not everywhere."""
    if gaps and any(attribute in data for _, data in graph.nodes(data=True)):
        return [graph.nodes[node].get(attribute) for node in nodes]
    for node in nodes:
        if attribute not in graph.nodes[node]:
            raise InputError(
                f"{name}: node {node!r} has no attribute '{attribute}'. Give it to all nodes, or"
                " leave it out."
            )
    return [graph.nodes[node][attribute] for node in nodes]


def _labels(graph: Any, nodes: list[Any], attribute: str, name: str) -> Array:
    """The labels of all nodes [N], None where a node has none."""
    values = [graph.nodes[node].get(attribute) for node in nodes]
    if all(value is None for value in values):
        raise InputError(
            f"{name}: no node has an attribute '{attribute}' (option 'label'). Name another one, or"
            " leave the option out."
        )
    return _column(values, exact=True)


def _is_vector(value: Any) -> bool:
    return isinstance(value, list | tuple) or (
        isinstance(value, np.ndarray | Tensor) and value.ndim > 0
    )


def _matrix(values: list[Any], nodes: list[Any], attribute: str, name: str) -> Array:
    with refusing_damage(f"{name}: attribute '{attribute}' must be a vector on every node"):
        shapes = [np.shape(value) for value in values]
    for node, shape in zip(nodes, shapes, strict=True):
        if shape != shapes[0] or len(shape) != 1:
            raise InputError(
                f"{name}: attribute '{attribute}' must be a vector of one length on every node."
                f" Node {nodes[0]!r} has shape {shapes[0]}, node {node!r} has shape {shape}."
            )
    matrix = np.array([np.asarray(value) for value in values])
    if matrix.dtype.kind not in "biuf":
        raise InputError(
            f"{name}: attribute '{attribute}' must be a vector of numbers on every node. Got values"
            f" of type {matrix.dtype}."
        )
    return matrix


def _column(values: list[Any], *, exact: bool = False) -> Array:
    """The values as an array of numbers or truth values where all are, else of objects.

    With `exact`, of objects also where NumPy would round integers.
    """
    plain = [
        value.item()
        if isinstance(value, np.generic)
        or (isinstance(value, np.ndarray | Tensor) and not value.ndim)
        else value
        for value in values
    ]
    types = set(map(type, plain))
    if types <= {bool}:
        return np.array(plain)
    if types <= {int, float} and not (
        exact and any(type(each) is int and abs(each) > 2**53 for each in plain)
    ):
        return np.array(plain)
    return exact_ids(plain)


def _feature_column(values: list[Any], nodes: list[Any], attribute: str, name: str) -> Array:
    for node, value in zip(nodes, values, strict=True):
        if type(value) is int and abs(value) > sys.float_info.max:
            raise InputError(
                f"{name}: attribute '{attribute}' of node {node!r} is {shortened(value)}, too large"
                " for a feature. Give it a smaller number, or leave the attribute out."
            )
    return _column(values)


def _check_ids(nodes: list[Any], name: str) -> None:
    """Raise where a node has a name by which it is not found again."""
    for node in nodes:
        if isinstance(node, Tensor) or (isinstance(node, float | np.floating) and node != node):
            raise InputError(
                f"{name}: {shortened(node)} is the name of a node, but is not equal to a copy of"
                " itself. Name the nodes by integers or text, for example with"
                " networkx.convert_node_labels_to_integers."
            )
        # A surrogate by itself; no file can hold it.
        if isinstance(node, str) and node.encode("utf-8", "replace") != node.encode(
            "utf-8", "surrogatepass"
        ):
            raise InputError(
                f"{name}: {shortened(node)} is the name of a node, but no valid Unicode. Rename the"
                " node."
            )
