"""The two forms of a graph: `RawGraph`, as a reader found it, and `GraphData`, checked and regular.

Readers (inputs.py, tables.py, files.py) turn what people have into `RawGraph`; `assemble` is the
one border where graphs are checked, cleaned and laid side by side. Everything inside the package
sees `GraphData` only. Legend: N nodes, E edges, F features, B graphs.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphlatent.data.edges import clean_edges, is_symmetric
from graphlatent.errors import GraphLatentWarning, InputError
from graphlatent.ops.sparse import SparseMatrix


@dataclass(frozen=True, eq=False)
class RawGraph:
    """One graph as it was read: shapes and ids not yet checked.

    Args:
        edge_index: source and target of each edge, integer array or tensor [2, E].
        num_nodes: number of nodes, isolated ones included.
        x: features [N, F], dense (array, tensor) or sparse (SciPy, `SparseMatrix`), or None.
        columns: named feature columns [N] not yet encoded (numbers or categories), or None; never
            beside `x`.
        edge_weight: weights [E], or None.
        node_ids: the user's name of each node [N], or None for 0..N-1.
        graph_id: the user's name of the graph, or None.
        y: labels, per node [N] or one for the graph; kept for probes, never seen by training.
        name: where the graph came from, for messages.
        directed: whether the source said that its edges have a direction; None where it cannot say.
            Where it is False, an edge listed once stands for both directions.
    """

    edge_index: Any
    num_nodes: int
    x: Any = None
    columns: Mapping[str, np.ndarray[Any, Any]] | None = None
    edge_weight: Any = None
    node_ids: np.ndarray[Any, Any] | None = None
    graph_id: Any = None
    y: Any = None
    name: str = "graph"
    directed: bool | None = None


@dataclass(frozen=True, eq=False)
class GraphData:
    """One graph, or several side by side in one index space, checked and regular.

    Args:
        edge_index: int64 [2, E], sorted by source then target, each edge once.
        num_nodes: N, over all graphs.
        ptr: first node of each graph and the end, int64 [B + 1].
        x: features, float32 [N, F] dense or sparse, or None (then `columns` or degrees are encoded
            at fit time).
        columns: named feature columns [N], not yet encoded, or None.
        edge_weight: float32 [E], or None.
        node_ids: the user's names of the nodes [N], or None for 0..N-1.
        graph_ids: the user's names of the graphs [B], or None for 0..B-1.
        y: labels, per node [N] or per graph [B], or None. Training never reads them.
        undirected: every edge stands in both directions with one weight.
        symmetrized: it does so because reverse edges were added.
        notes: what was done to the input, in words.
    """

    edge_index: Tensor
    num_nodes: int
    ptr: Tensor
    x: Tensor | SparseMatrix | None = None
    columns: Mapping[str, np.ndarray[Any, Any]] | None = None
    edge_weight: Tensor | None = None
    node_ids: np.ndarray[Any, Any] | None = None
    graph_ids: np.ndarray[Any, Any] | None = None
    y: np.ndarray[Any, Any] | None = None
    undirected: bool = True
    symmetrized: bool = False
    notes: tuple[str, ...] = ()

    @property
    def num_graphs(self) -> int:
        """B."""
        return int(self.ptr.numel()) - 1

    @property
    def num_edges(self) -> int:
        """E: directed edges, so an undirected edge counts twice."""
        return int(self.edge_index.shape[1])

    @property
    def graph_of_node(self) -> Tensor:
        """The graph each node belongs to, int64 [N]."""
        return torch.repeat_interleave(torch.arange(self.num_graphs), torch.diff(self.ptr))

    @property
    def degree(self) -> Tensor:
        """Neighbours of each node, self-loops not counted, int64 [N]."""
        source, target = self.edge_index
        return torch.bincount(source[source != target], minlength=self.num_nodes)

    def with_features(self, x: Tensor | SparseMatrix) -> GraphData:
        """The same graph with encoded features."""
        return replace(self, x=x, columns=None)

    def fingerprint(self) -> str:
        """A SHA-256 over structure, features and ids: equal for equal input, on any machine."""
        digest = hashlib.sha256()
        x = self.x
        parts: list[Any] = [self.edge_index, self.ptr, self.edge_weight]
        parts += [np.array(x.shape), x.crow, x.col, x.value] if isinstance(x, SparseMatrix) else [x]
        parts += [self.node_ids, self.graph_ids]
        for name in sorted(self.columns or {}):
            parts += [np.array([name]), (self.columns or {})[name]]
        for part in parts:
            array = part.cpu().numpy() if isinstance(part, Tensor) else part
            if array is None:
                digest.update(b"none")
                continue
            text = array.dtype.kind in "OUS"
            digest.update(f"{array.shape}".encode() + (b"" if text else array.dtype.str.encode()))
            digest.update(
                repr(array.tolist()).encode() if text else np.ascontiguousarray(array).tobytes()
            )
        return digest.hexdigest()


def assemble(graphs: Sequence[RawGraph], *, symmetrize: bool = True) -> GraphData:
    """The graphs checked, cleaned and laid side by side.

    Args:
        graphs: one or more graphs, all with features of the same width, or all with the same
            columns, or all without.
        symmetrize: read every edge in both directions; said once, as a warning, where that added
            edges.

    Raises:
        InputError: where a graph cannot be used; the message names the graph and what to do.
    """
    if not graphs:
        raise InputError(
            "There are no graphs in the input. Give at least one graph with at least one node."
        )
    offsets = np.concatenate([[0], np.cumsum([_checked_size(g) for g in graphs])])
    num_nodes = int(offsets[-1])
    edge_parts = [
        _checked_edges(g) + int(offset) for g, offset in zip(graphs, offsets, strict=False)
    ]
    edge_index = torch.cat(edge_parts, dim=1)
    edge_weight = _joined_weights(graphs, [e.shape[1] for e in edge_parts])
    undirected = _undirected_nodes(graphs)
    clean = clean_edges(
        edge_index, edge_weight, num_nodes=num_nodes, symmetrize=symmetrize, undirected=undirected
    )
    notes = _notes(
        clean.num_merged, clean.num_added, clean.num_self_loops, num_nodes, clean.edge_index
    )
    if clean.num_added:
        warnings.warn(notes[0], GraphLatentWarning, stacklevel=3)
    if clean.edge_index.shape[1] == 0:
        what = (
            "The input has no edges"
            if len(graphs) == 1
            else f"None of the {len(graphs)} graphs has an edge"
        )
        warnings.warn(
            f"{what}: every node is embedded from its own features alone.",
            GraphLatentWarning,
            stacklevel=3,
        )
    return GraphData(
        edge_index=clean.edge_index,
        num_nodes=num_nodes,
        ptr=torch.from_numpy(offsets.astype(np.int64)),
        x=_joined_features(graphs),
        columns=_joined_columns(graphs),
        edge_weight=clean.edge_weight,
        node_ids=_joined_ids(graphs),
        graph_ids=(
            np.array([g.graph_id for g in graphs])
            if all(g.graph_id is not None for g in graphs)
            else None
        ),
        y=_joined_labels(graphs),
        undirected=symmetrize
        or is_symmetric(clean.edge_index, clean.edge_weight, num_nodes=num_nodes),
        symmetrized=clean.num_added > 0,
        notes=notes,
    )


def _checked_size(graph: RawGraph) -> int:
    if graph.num_nodes < 1:
        raise InputError(
            f"{graph.name} has no nodes. Leave empty graphs out; a graph needs at least one node."
        )
    return graph.num_nodes


def _undirected_nodes(graphs: Sequence[RawGraph]) -> Tensor | None:
    said = torch.tensor([g.directed is False for g in graphs])
    return (
        torch.repeat_interleave(said, torch.tensor([g.num_nodes for g in graphs]))
        if bool(said.any())
        else None
    )


def _array(values: Any, *, name: str, what: str) -> np.ndarray[Any, Any]:
    if isinstance(values, Tensor):
        values = values.detach().cpu()
    try:
        return np.asarray(values)
    except (ValueError, TypeError) as error:
        raise InputError(
            f"{name}: {what} must be a regular array of numbers. NumPy says: {error}"
        ) from error


def _checked_edges(graph: RawGraph) -> Tensor:
    array = _array(graph.edge_index, name=graph.name, what="edge_index")
    if array.size == 0:
        return torch.zeros(2, 0, dtype=torch.int64)
    if array.ndim != 2 or array.shape[0] != 2:
        hint = (
            " It looks transposed: pass edge_index.T."
            if array.ndim == 2 and array.shape[1] == 2
            else ""
        )
        raise InputError(
            f"{graph.name}: edge_index must have shape (2, number of edges). Got shape"
            f" {array.shape}.{hint}"
        )
    if array.dtype.kind not in "iu":
        raise InputError(
            f"{graph.name}: edge_index must hold integers, the row numbers of nodes. Got"
            f" {array.dtype} values."
        )
    low, high = int(array.min()), int(array.max())
    if low < 0 or high >= graph.num_nodes:
        wrong = low if low < 0 else high
        raise InputError(
            f"{graph.name}: edge_index must hold ids from 0 to {graph.num_nodes - 1}, since there"
            f" are {graph.num_nodes} nodes. Got {wrong}. Number the nodes from 0, or give one"
            " feature row for every node."
        )
    return torch.from_numpy(array.astype(np.int64))


def _joined_weights(graphs: Sequence[RawGraph], num_edges: Sequence[int]) -> Tensor | None:
    if all(g.edge_weight is None for g in graphs):
        return None
    parts = []
    for graph, count in zip(graphs, num_edges, strict=True):
        if graph.edge_weight is None:
            parts.append(torch.ones(count, dtype=torch.float32))
            continue
        weight = torch.from_numpy(
            _numeric_array(graph.edge_weight, name=graph.name, what="edge_weight")
        )
        if weight.ndim == 2 and weight.shape[1] == 1:
            weight = weight[:, 0]
        if weight.shape != (count,):
            raise InputError(
                f"{graph.name}: edge_weight must have one number per edge, {count}. Got shape"
                f" {tuple(weight.shape)}."
            )
        if not bool(torch.isfinite(weight).all()):
            raise InputError(
                f"{graph.name}: edge_weight holds NaN or infinite values. Drop those edges or give"
                " them a number."
            )
        parts.append(weight)
    return torch.cat(parts)


def _checked_features(graph: RawGraph) -> Tensor | SparseMatrix:
    x = graph.x
    if isinstance(x, Tensor) and x.layout != torch.strided and x.ndim == 2:
        x = x.detach().to_sparse_coo().coalesce()  # type: ignore[no-untyped-call]
        x = SparseMatrix.from_coo(
            x.indices()[0], x.indices()[1], x.values(), (x.shape[0], x.shape[1])
        )
    if isinstance(x, SparseMatrix):
        features: Tensor | SparseMatrix = x.to("cpu", torch.float32)
    elif hasattr(x, "tocsr"):
        features = SparseMatrix.from_scipy(x)
    else:
        features = torch.from_numpy(_numeric_array(x, name=graph.name, what="features"))
        if features.ndim != 2:
            raise InputError(
                f"{graph.name}: features must be a 2-D array, (nodes, features). Got"
                f" {features.ndim} dimension(s), shape {tuple(features.shape)}. For a single"
                " feature per node pass x[:, None]."
            )
    if features.shape[0] != graph.num_nodes:
        raise InputError(
            f"{graph.name}: features must have one row per node. Got {features.shape[0]} rows for"
            f" {graph.num_nodes} nodes."
        )
    if features.shape[1] == 0:
        raise InputError(
            f"{graph.name}: features have no columns. Leave them out to use node degrees as"
            " features."
        )
    values = features.value if isinstance(features, SparseMatrix) else features
    if not bool(torch.isfinite(values).all()):
        raise InputError(_where_not_finite(features, graph.name))
    return features


def _numeric_array(values: Any, *, name: str, what: str) -> np.ndarray[Any, Any]:
    if isinstance(values, Tensor) and values.is_floating_point():
        values = values.to_dense().to(torch.float32)  # NumPy has no bfloat16
    array = _array(values, name=name, what=what)
    if array.dtype.kind not in "biuf":
        way_out = " Encode text columns, or pass a table." if what == "features" else ""
        raise InputError(
            f"{name}: {what} must be numbers. Got values of type {array.dtype}.{way_out}"
        )
    # What float32 cannot hold becomes infinite, and is refused as such
    with np.errstate(over="ignore"):
        # Arrays are copied: theirs may be read-only
        convert = np.asarray if isinstance(values, Tensor) else np.array
        return convert(array, dtype=np.float32, order="C")


def _where_not_finite(x: Tensor | SparseMatrix, name: str) -> str:
    if isinstance(x, SparseMatrix):
        bad = ~torch.isfinite(x.value)
        row, col = int(x.row[bad][0]), int(x.col[bad][0])
        count, value = int(bad.sum()), float(x.value[bad][0])
    else:
        where = torch.nonzero(~torch.isfinite(x))
        count, (row, col) = len(where), where[0].tolist()
        value = float(x[row, col])
    return (
        f"{name}: features hold {count} value(s) that are NaN or infinite, the first ({value}) at"
        f" row {row}, column {col}. Fill or drop them before fitting, for example with"
        " numpy.nan_to_num."
    )


def _joined_features(graphs: Sequence[RawGraph]) -> Tensor | SparseMatrix | None:
    given = [g.x is not None for g in graphs]
    if not any(given):
        return None
    if not all(given):
        raise InputError(
            f"{graphs[given.index(False)].name} has no features while other graphs have. Give all"
            " graphs features, or none."
        )
    parts = [_checked_features(g) for g in graphs]
    for graph, part in zip(graphs, parts, strict=True):
        if part.shape[1] != parts[0].shape[1]:
            raise InputError(
                f"All graphs must have the same number of features. {graphs[0].name} has"
                f" {parts[0].shape[1]}, {graph.name} has {part.shape[1]}."
            )
    if len(parts) == 1:
        return parts[0]
    dense = [p for p in parts if isinstance(p, Tensor)]
    if len(dense) == len(parts):
        return torch.cat(dense)
    return _stack_sparse([p if isinstance(p, SparseMatrix) else _sparsified(p) for p in parts])


def _sparsified(x: Tensor) -> SparseMatrix:
    row, col = torch.nonzero(x, as_tuple=True)
    return SparseMatrix.from_coo(row, col, x[row, col], (x.shape[0], x.shape[1]))


def _stack_sparse(parts: Sequence[SparseMatrix]) -> SparseMatrix:
    starts = np.concatenate([[0], np.cumsum([p.nnz for p in parts])])
    crow = torch.cat(
        [p.crow[:-1] + int(s) for p, s in zip(parts, starts, strict=False)]
        + [torch.tensor([int(starts[-1])])]
    )
    shape = (sum(p.shape[0] for p in parts), parts[0].shape[1])
    return SparseMatrix(
        crow, torch.cat([p.col for p in parts]), torch.cat([p.value for p in parts]), shape
    )


def _joined_columns(graphs: Sequence[RawGraph]) -> Mapping[str, np.ndarray[Any, Any]] | None:
    first = graphs[0].columns
    if all(not g.columns for g in graphs):
        return None
    for graph in graphs:
        if set(graph.columns or {}) != set(first or {}):
            raise InputError(
                f"All graphs must have the same feature columns. {graphs[0].name} has"
                f" {sorted(first or {})}, {graph.name} has {sorted(graph.columns or {})}."
            )
    return {name: _joined_column(name, graphs) for name in first or {}}


def _joined_column(name: str, graphs: Sequence[RawGraph]) -> np.ndarray[Any, Any]:
    parts = [np.asarray((g.columns or {})[name]) for g in graphs]
    numeric = [part.dtype.kind in "biuf" for part in parts]
    if any(numeric) and not all(numeric):  # NumPy would turn the numbers into text
        number, other = graphs[numeric.index(True)].name, graphs[numeric.index(False)].name
        raise InputError(
            f"Column '{name}' holds numbers in {number} but not in {other}. Give it one type in all"
            " graphs."
        )
    return np.concatenate(parts)


def _joined_ids(graphs: Sequence[RawGraph]) -> np.ndarray[Any, Any] | None:
    if any(g.node_ids is None for g in graphs):
        return None
    parts = [np.asarray(g.node_ids) for g in graphs]
    # Kept as they are: NumPy would turn the integers into text
    mixed = len({part.dtype.kind for part in parts}) > 1
    return np.concatenate([part.astype(object) for part in parts] if mixed else parts)


def _joined_labels(graphs: Sequence[RawGraph]) -> np.ndarray[Any, Any] | None:
    if any(g.y is None for g in graphs):
        return None
    parts = [np.atleast_1d(_array(g.y, name=g.name, what="y")) for g in graphs]
    per_node = all(part.shape[0] == g.num_nodes for part, g in zip(parts, graphs, strict=True))
    for graph, part in zip(graphs, parts, strict=True):
        if part.shape[1:] != parts[0].shape[1:] or (part.shape[0] != 1 and not per_node):
            raise InputError(
                f"{graph.name}: y must hold one label per node, or one per graph, the same way in"
                f" all graphs. Got shape {part.shape} for {graph.num_nodes} nodes, while"
                f" {graphs[0].name} has shape {parts[0].shape}."
            )
    return np.concatenate(parts)


def _notes(
    num_merged: int, num_added: int, num_self_loops: int, num_nodes: int, edge_index: Tensor
) -> tuple[str, ...]:
    notes = []
    if num_added:
        notes.append(
            f"{num_added:,} edges had no reverse and were read in both directions, as the method"
            " works on undirected graphs (reading with symmetrize=False keeps directions)."
        )
    if num_merged:
        notes.append(
            f"{num_merged:,} duplicate edges were merged (of several weights the largest is kept)."
        )
    if num_self_loops:
        notes.append(f"{num_self_loops:,} nodes have an edge to themselves.")
    has_neighbour = torch.zeros(num_nodes, dtype=torch.bool)
    has_neighbour[edge_index[:, edge_index[0] != edge_index[1]].flatten()] = True
    isolated = num_nodes - int(has_neighbour.sum())
    if isolated and edge_index.shape[1]:
        notes.append(
            f"{isolated:,} nodes have no neighbour; they are embedded from their own features."
        )
    return tuple(notes)
