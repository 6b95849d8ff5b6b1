"""The two forms of a graph: `RawGraph`, as a reader found it, and `GraphData`, checked and regular.

Readers turn what people have into `RawGraph`; `assemble` checks them and joins them into one
`GraphData`, which is all that the rest of the package sees. Legend: N nodes, E edges, F features, B
graphs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from graphlatent.data.edge_features import EdgeColumns
from graphlatent.data.fingerprint import array_fingerprint
from graphlatent.data.readers.options import TableOptions
from graphlatent.display import counted, html_table
from graphlatent.ops.sparse import SparseMatrix

Array: TypeAlias = np.ndarray[Any, Any]


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
        edge_columns: named attributes of edges [E] to be used as features (numbers or categories),
            or None.
        node_ids: the user's name of each node [N], or None for 0..N-1.
        graph_id: the user's name of the graph, or None.
        y: labels, per node [N] or one for the graph; kept for probes, never seen by training.
        name: where the graph came from, for messages.
        directed: whether edges have a direction; None where the source does not say. Where it is
            False, an edge that is listed once means both directions.
        notes: what the reader did not use or had to assume, as sentences; notes of several graphs
            with the same key are reported once.
    """

    edge_index: Any
    num_nodes: int
    x: Any = None
    columns: Mapping[str, np.ndarray[Any, Any]] | None = None
    edge_weight: Any = None
    edge_columns: Mapping[str, np.ndarray[Any, Any]] | None = None
    node_ids: np.ndarray[Any, Any] | None = None
    graph_id: Any = None
    y: Any = None
    name: str = "graph"
    directed: bool | None = None
    notes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class GraphData:
    """One graph, or several in one index space, checked and regular.

    Args:
        edge_index: int64 [2, E], sorted by source then target, each edge once.
        num_nodes: N, over all graphs.
        ptr: first node of each graph and the end, int64 [B + 1].
        x: features, float32 [N, F] dense or sparse, or None (then `columns` or degrees are encoded
            at fit time).
        columns: named feature columns [N], not yet encoded, or None.
        edge_weight: float32 [E], or None.
        edge_columns: attributes of the edges, not yet encoded, or None.
        edge_attr: encoded features of the edges, float32 [E, D], or None.
        node_ids: the user's names of the nodes [N], or None for 0..N-1.
        graph_ids: the user's names of the graphs [B], or None for 0..B-1.
        y: labels, per node [N] or per graph [B], or None. Training never reads them.
        coordinates: coordinates computed from the edges, float32 [N, C], that an embedding contains
            beside the encoder's output, or None; set where features are encoded.
        undirected: every edge is there in both directions, with one weight.
        symmetrized: this is so because reverse edges were added.
        notes: what was done to the input, as sentences.
        reading: the options that tables were read with, among them how columns are encoded.
    """

    edge_index: Tensor
    num_nodes: int
    ptr: Tensor
    x: Tensor | SparseMatrix | None = None
    columns: Mapping[str, np.ndarray[Any, Any]] | None = None
    edge_weight: Tensor | None = None
    edge_columns: EdgeColumns | None = None
    edge_attr: Tensor | None = None
    node_ids: np.ndarray[Any, Any] | None = None
    graph_ids: np.ndarray[Any, Any] | None = None
    y: np.ndarray[Any, Any] | None = None
    coordinates: Tensor | None = None
    undirected: bool = True
    symmetrized: bool = False
    notes: tuple[str, ...] = ()
    reading: TableOptions = field(default_factory=TableOptions)

    def __post_init__(self) -> None:
        attr, columns = self.edge_attr, self.edge_columns
        if attr is not None and attr.shape[0] != self.num_edges:
            raise ValueError(f"edge_attr has {attr.shape[0]} rows for {self.num_edges} edges")
        if columns is not None and columns.num_edges != self.num_edges:
            raise ValueError(f"edge_columns is of {columns.num_edges} edges, not {self.num_edges}")

    @property
    def weighted(self) -> bool:
        """Whether edges have weights."""
        return self.edge_weight is not None

    def __repr__(self) -> str:
        facts = [
            *([] if self.num_graphs == 1 else [counted(self.num_graphs, "graph")]),
            counted(self.num_nodes, "node"),
            self._edges_in_words(),
            self._features_in_words(),
            *(["weights"] if self.edge_weight is not None else []),
            *(["edge features"] if self._has_edge_features else []),
            *(["labels"] if self.y is not None else []),
        ]
        return f"GraphData({', '.join(facts)})"

    def _repr_html_(self) -> str:
        rows = [
            ("graphs", f"{self.num_graphs:,}"),
            ("nodes", f"{self.num_nodes:,}"),
            ("edges", self._edges_in_words()),
            ("features", self._features_in_words()),
            ("edge weights", "no" if self.edge_weight is None else "yes"),
            ("edge features", "yes" if self._has_edge_features else "no"),
            ("labels", "no" if self.y is None else "yes"),
            *(("note", note) for note in self.notes),
        ]
        return html_table("GraphData", rows)

    @property
    def _has_edge_features(self) -> bool:
        return self.edge_attr is not None or self.edge_columns is not None

    def _edges_in_words(self) -> str:
        kind = "undirected" if self.undirected else "directed"
        return counted(self.num_distinct_edges, f"{kind} edge")

    def _features_in_words(self) -> str:
        if self.columns is not None:
            return counted(len(self.columns), "feature column")
        if self.x is None:
            return "no features"
        kind = "sparse feature" if isinstance(self.x, SparseMatrix) else "feature"
        return counted(self.x.shape[1], kind)

    @property
    def num_graphs(self) -> int:
        """B."""
        return int(self.ptr.numel()) - 1

    @property
    def num_edges(self) -> int:
        """E: directed edges, so an undirected edge counts twice."""
        return int(self.edge_index.shape[1])

    @property
    def num_distinct_edges(self) -> int:
        """How many edges there are: an undirected edge is one, in whichever directions stored."""
        if not self.undirected:
            return self.num_edges
        num_self_loops = int((self.edge_index[0] == self.edge_index[1]).sum())
        return (self.num_edges + num_self_loops) // 2

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

    def without_features(self) -> GraphData:
        """The same graph without its feature matrix or its named columns."""
        return replace(self, x=None, columns=None)

    def with_edges(self, kept: Tensor) -> GraphData:
        """The same nodes with some of the edges, bool [E]."""
        return replace(
            self,
            edge_index=self.edge_index[:, kept],
            edge_weight=None if self.edge_weight is None else self.edge_weight[kept],
            edge_columns=None if self.edge_columns is None else self.edge_columns.chosen(kept),
            edge_attr=None if self.edge_attr is None else self.edge_attr[kept],
        )

    def without_edge_features(self) -> GraphData:
        """The same graph without features of edges."""
        return replace(self, edge_columns=None, edge_attr=None)

    def has_equal_features(self) -> bool:
        """Whether there are features and all nodes have the same, missing numbers filled."""
        if self.columns:
            imputed = self.reading.impute in ("mean", "median")
            return all(_is_constant(each, imputed=imputed) for each in self.columns.values())
        if self.x is None:
            return False
        if isinstance(self.x, Tensor):
            return bool((self.x == self.x[0]).all())
        # Sparse rows are equal where each column has no entry, or one in every row, of one value.
        nonzero = self.x.value != 0
        col, value = self.x.col[nonzero], self.x.value[nonzero]
        count = torch.bincount(col, minlength=self.x.shape[1])
        last = value.new_zeros(self.x.shape[1]).index_put((col,), value)
        filled = (count == 0) | (count == self.num_nodes)
        return bool(filled.all()) and bool((value == last[col]).all())

    def fingerprints(self) -> dict[str, str]:
        """A fingerprint of each part of the input by its name in words; labels are no part."""
        nodes = np.arange(self.num_nodes) if self.node_ids is None else self.node_ids
        graphs = np.arange(self.num_graphs) if self.graph_ids is None else self.graph_ids
        parts: dict[str, Any] = {
            "edges": self.edge_index,
            "edge weights": self.edge_weight,
            "node ids": nodes,
            "boundaries of graphs": self.ptr,
            "graph ids": graphs,
            "feature matrix": self.x,
        }
        parts |= {f"column '{name}'": values for name, values in (self.columns or {}).items()}
        if self.edge_columns is not None:
            parts["edges of edge features"] = self.edge_columns.edge
            values = self.edge_columns.columns
            parts |= {f"edge feature '{name}'": column for name, column in values.items()}
        return {name: array_fingerprint(values) for name, values in parts.items()}

    def fingerprint(self) -> str:
        """A SHA-256 over structure, features and ids: equal for equal input, on any machine."""
        parts = json.dumps(self.fingerprints(), sort_keys=True)
        return hashlib.sha256(parts.encode("utf-8", "backslashreplace")).hexdigest()


def single_node(*, width: int, coordinate_dim: int = 0, edge_dim: int = 0) -> GraphData:
    """A graph of one node without edges, with encoded features of these widths, all 0."""
    return GraphData(
        torch.zeros(2, 0, dtype=torch.int64),
        1,
        torch.tensor([0, 1]),
        x=torch.zeros(1, width, dtype=torch.float32),
        coordinates=torch.zeros(1, coordinate_dim) if coordinate_dim else None,
        edge_attr=torch.zeros(0, edge_dim) if edge_dim else None,
    )


def _is_constant(column: Array, *, imputed: bool) -> bool:
    """Whether all values are equal; those that cannot be compared, such as pandas.NA, are not.

    With `imputed`, missing numbers will be computed from the others.
    """
    if imputed and column.dtype.kind == "f":
        column = column[~np.isnan(column)]
        return len(column) > 0 and bool((column == column[0]).all())
    if column.dtype.kind != "O":
        return bool((column == column[0]).all())
    # Not by arrays: values may be of any type, such as lists of different lengths.
    first, *others = column.tolist()
    try:
        return all(bool(value == first) for value in others)
    except (TypeError, ValueError):
        return False
