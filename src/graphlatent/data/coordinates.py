"""The coordinates of the nodes that a model was fitted on, and their extension to other nodes.

Coordinates (structure.py) belong to nodes, so they are stored with the ids of the nodes. In a graph
that comes later, a node whose id is known has its stored row, and a new node the average of its
neighbours. Legend: N fitted nodes, D coordinates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, nan
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from graphlatent.data.graph import GraphData
from graphlatent.data.structure import undirected_adjacency, unit_rows
from graphlatent.errors import InputError, warn
from graphlatent.ops.sparse import SparseMatrix

Array: TypeAlias = np.ndarray[Any, Any]

ROUNDS = 10
"""New nodes are reached over at most this many edges from fitted nodes."""
# Fewer edges between known nodes than this say nothing about whether ids mean the same nodes.
_FEW_EDGES = 6
# Edges whose rows are compared at a time.
_BLOCK = 1 << 18


@dataclass(frozen=True, eq=False)
class NodeCoordinates:
    """Coordinates of the fitted nodes.

    Args:
        values: float32 [N, D], rows of norm 1 or 0.
        ids: int64, or text as objects [N], different from each other; see `storable_ids`.
        scale: factor of the rows in the features.
        similarity: mean cosine of the rows of neighbours in the fitted graph; NaN if not known.
    """

    values: Tensor
    ids: Array
    scale: float = 1.0
    similarity: float = nan

    @property
    def dim(self) -> int:
        """D."""
        return int(self.values.shape[1])

    def belongs_to(self, graph: GraphData) -> bool:
        """Whether these are coordinates of the nodes of `graph`, in their order."""
        return np.array_equal(self.ids, storable_ids(graph))

    def rows_of(self, graph: GraphData) -> Tensor:
        """The scaled coordinates of the nodes of a graph, float32 [M, D] for M nodes.

        A node with the id of a fitted node has the stored row. A new node has the weighted average
        of its neighbours' rows, brought to norm 1, which is repeated so that new nodes that are
        connected only with new ones are reached too. Nodes that are not reached have 0.

        Raises:
            InputError: where the graph is several graphs, no id is known, or an edge weight is
                negative.

        Warns:
            GraphLatentWarning: where new nodes are not reached.
        """
        if graph.num_graphs > 1:
            raise InputError(
                "The model uses coordinates of the nodes of one graph, and ids of nodes are"
                f" different only within one. Got {graph.num_graphs} graphs. Embed them one by one,"
                " or fit a model with structure='none'."
            )
        place = torch.from_numpy(self._places(graph))
        known = place >= 0
        if not bool(known.any()):
            raise InputError(
                f"None of the {graph.num_nodes} node ids is one of the {len(self.ids)} fitted ones:"
                " coordinates only extend to nodes that are connected with fitted nodes. Fit a"
                " model on this graph, or one with structure='none', which embeds any graph."
            )
        rows = self.values[place.clamp(min=0)] * known[:, None]
        if not bool(known.all()):
            rows = _extended(rows, known, undirected_adjacency(graph))
        return rows * self.scale

    def rows_or_mean(self, graph: GraphData) -> Tensor:
        """The coordinates of the nodes of any graph, with the mean for nodes that have none.

        They are those of `rows_of`, but nodes that are not reached have the mean of the fitted
        rows. So have all nodes where no id is known, or where known ids are those of other nodes:
        neighbours in this graph are then less than half as similar as in the fitted one.

        Warns:
            GraphLatentWarning: where nodes have no coordinates.
        """
        used = (self.values != 0).any(dim=1)
        mean = self.values[used].mean(0) if bool(used.any()) else self.values.mean(0)
        reason, rows = "", self.values[:0]
        if graph.num_graphs > 1:
            reason = f"there are {graph.num_graphs} graphs"
        elif not has_different_ids(graph):
            reason = "several of its nodes have the same id"
        else:
            place = torch.from_numpy(self._places(graph))
            known = place >= 0
            rows = self.values[place.clamp(min=0)] * known[:, None]
            both = known[graph.edge_index].all(0)
            if not bool(known.any()):
                reason = "none of its node ids was fitted"
            # NaN, where there are few edges, is no sign of other nodes.
            elif 2 * _mean_cosine(rows, graph, both) < self.similarity:
                reason = "its edges do not join the nodes that these ids were fitted for"
        if reason:
            warn(
                f"The embeddings of this graph lack what the model knows of the fitted edges, since"
                f" {reason}. To embed graphs of other nodes, fit with structure='none'."
            )
            return mean.expand(graph.num_nodes, -1)
        weight = graph.edge_weight
        if not bool(known.all()) and (weight is None or bool((weight >= 0).all())):
            rows = _extended(rows, known, undirected_adjacency(graph))
        return torch.where((rows != 0).any(dim=1, keepdim=True), rows, mean)

    @staticmethod
    def of(graph: GraphData, values: Tensor) -> NodeCoordinates:
        """The coordinates `values` of the nodes of `graph`.

        Raises:
            InputError: where two ids are the same.
        """
        every = torch.ones(graph.num_edges, dtype=torch.bool)
        similarity = _mean_cosine(values, graph, every)
        return NodeCoordinates(values, storable_ids(graph), similarity=similarity)

    def _places(self, graph: GraphData) -> Array:
        """The row of each node of `graph` in `values`; -1 for new nodes."""
        places = pd.Index(_keys(self.ids)).get_indexer(pd.Index(_keys(storable_ids(graph))))
        return places.astype(np.int64)

    def to_tensors(self) -> dict[str, Tensor]:
        """The coordinates as tensors for a file; text ids as UTF-8 with the ends of the texts."""
        scale = torch.tensor(self.scale, dtype=torch.float64)
        similarity = torch.tensor(self.similarity, dtype=torch.float64)
        tensors = {"values": self.values, "scale": scale, "similarity": similarity}
        if self.ids.dtype.kind == "i":
            return {**tensors, "ids": torch.from_numpy(self.ids)}
        texts = [text.encode("utf-8", "surrogatepass") for text in self.ids.tolist()]
        content = np.frombuffer(b"".join(texts), dtype=np.uint8).copy()
        ends = np.cumsum([len(text) for text in texts], dtype=np.int64)
        return {**tensors, "text": torch.from_numpy(content), "text_ends": torch.from_numpy(ends)}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> NodeCoordinates:
        """The coordinates out of what `to_tensors` returned.

        Raises:
            InputError: where the tensors are not what `to_tensors` returns.
        """
        try:
            values, scale = tensors["values"], float(tensors["scale"])
            similarity = float(tensors.get("similarity", nan))
            ids = tensors["ids"].numpy() if "ids" in tensors else _texts(tensors)
        except (LookupError, ValueError, TypeError, RuntimeError) as error:
            raise InputError(f"These are no coordinates of nodes: {error}.") from error
        integers = ids.dtype == np.int64 and ids.ndim == 1
        if not (integers or "ids" not in tensors) or len(set(ids.tolist())) != len(ids):
            raise InputError(
                "The ids of coordinates must be a different integer of 64 bits or text for each"
                f" node. Got {ids.dtype} of shape {ids.shape}."
            )
        if values.ndim != 2 or len(values) != len(ids):
            raise InputError(
                f"Coordinates must be one row per id, {len(ids)} ids. Got {tuple(values.shape)}."
            )
        finite = values.dtype == torch.float32 and bool(torch.isfinite(values).all())
        if not finite or not 0 < scale < inf:
            raise InputError(
                "Coordinates must be finite float32 numbers with a finite scale above 0. Got"
                f" {values.dtype} with the scale {scale:g}."
            )
        return cls(values, ids, scale, similarity)


def storable_ids(graph: GraphData) -> Array:
    """The ids of the nodes as int64, or text as objects [N], by which nodes are recognised again.

    Integers alone are taken as they are, and so is text. Other ids, such as tuples or the integers
    among text, become text that no id of the type str is likely to have: a NUL and their `repr`.

    Raises:
        InputError: where two ids are the same.
    """
    if graph.node_ids is None:
        return np.arange(graph.num_nodes, dtype=np.int64)
    values = [v.item() if isinstance(v, np.generic) else v for v in graph.node_ids.tolist()]
    if all(type(value) is int and -(2**63) <= value < 2**63 for value in values):
        ids = np.array(values, dtype=np.int64)
    else:
        ids = np.array([v if isinstance(v, str) else f"\0{v!r}" for v in values], dtype=object)
    if len(set(ids.tolist())) != len(ids):
        raise InputError(
            "Coordinates need a different id for every node, by which it is recognised later."
            " Rename the nodes, or set structure='none'."
        )
    return ids


def has_different_ids(graph: GraphData) -> bool:
    """Whether every node has an id of its own, by which it can be recognised."""
    try:
        storable_ids(graph)
    except InputError:
        return False
    return True


def _mean_cosine(rows: Tensor, graph: GraphData, chosen: Tensor) -> float:
    """The mean inner product of the rows, of norm 1 or 0, of neighbours; NaN for few edges.

    Args:
        rows: of all nodes [N, D].
        graph: whose edges of weight 0 do not count.
        chosen: the edges to look at, bool [E].
    """
    source, target = graph.edge_index
    chosen = chosen & (source != target)
    if graph.edge_weight is not None:
        chosen = chosen & (graph.edge_weight != 0)
    count = int(chosen.sum())
    if count < _FEW_EDGES:
        return nan
    # The rows of all edges would be a matrix of E x D.
    blocks = zip(source[chosen].split(_BLOCK), target[chosen].split(_BLOCK), strict=True)
    total = sum((rows[a] * rows[b]).sum(dtype=torch.float64) for a, b in blocks)
    return float(total) / count


def _texts(tensors: Mapping[str, Tensor]) -> Array:
    """The text ids out of `to_tensors`, as objects [N]."""
    content, ends = tensors["text"].numpy().tobytes(), tensors["text_ends"].tolist()
    starts = [0, *ends[:-1]]
    texts = [
        content[a:b].decode("utf-8", "surrogatepass") for a, b in zip(starts, ends, strict=True)
    ]
    return np.fromiter(texts, dtype=object, count=len(texts))


def _keys(ids: Array) -> Array:
    """Storable ids as text, by which integers are the same alone and among text."""
    if ids.dtype.kind != "i":
        return ids
    return np.array([f"\0{value!r}" for value in ids.tolist()], dtype=object)


def _extended(rows: Tensor, known: Tensor, adjacency: SparseMatrix) -> Tensor:
    """`rows` with those of the nodes that are not `known` filled in from their neighbours."""
    degree = adjacency.value.new_zeros(len(rows)).index_add(0, adjacency.row, adjacency.value)
    weight = adjacency.value / degree[adjacency.row]
    average = SparseMatrix(adjacency.crow, adjacency.col, weight, adjacency.shape)
    for _ in range(ROUNDS):
        rows = torch.where(known[:, None], rows, unit_rows(average.multiply(rows)))
    unreached = int(((rows == 0).all(dim=1) & ~known).sum())
    if unreached:
        new = int((~known).sum())
        warn(
            f"{unreached} of {new} new nodes are not connected with fitted nodes that have"
            f" coordinates, over at most {ROUNDS} edges: they have no coordinates of their own."
        )
    return rows
