"""The features of a graph that is not in memory: their encoding is fitted block by block.

Rows are encoded as a step takes them, so that no N x F matrix is made. What is computed from the
edges (coordinates, local structure) needs the whole graph in memory. Legend: N nodes, F features.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, Protocol

import torch
from torch import Tensor

from graphlatent.config import Settings
from graphlatent.data.csr import CSRGraph, MatrixRows
from graphlatent.data.features import (
    FeatureSpec,
    encode_features,
    fit_features,
    sum_of_squares,
    with_scale,
)
from graphlatent.data.graph import GraphData
from graphlatent.data.measurements import SHARE, streamed_moments
from graphlatent.data.memory_limit import require_memory
from graphlatent.io.runfolder import RunFolder
from graphlatent.ops.sparse import SparseMatrix, to_dense
from graphlatent.training.encoding import as_stored, fit_encoding, standardized_above

BLOCK = 1 << 24
"""Numbers of features that are encoded at a time."""


class StoredFeatures(Protocol):
    """A graph outside of memory, of which the features of some nodes can be read."""

    @property
    def num_nodes(self) -> int:
        """N."""

    @property
    def num_edges(self) -> int:
        """E: an undirected edge counts twice."""

    @property
    def feature_kind(self) -> Literal["dense", "sparse", "columns"] | None:
        """A matrix, named columns, or None where there are no features."""

    @property
    def feature_dim(self) -> int:
        """F: the number of columns."""

    def features(self, index: Tensor | slice) -> GraphData:
        """The features of these nodes as they were given, without edges."""

    def rows(self, x: MatrixRows | StoredRows, coordinates: Tensor | None = None) -> CSRGraph:
        """The graph by rows, with encoded features."""

    def to_graph(self) -> GraphData:
        """The whole graph in memory."""


@dataclass(frozen=True, eq=False)
class StoredRows:
    """Features that are encoded when they are taken.

    Args:
        store: has the features as they were given.
        spec: their encoding; not of degrees or coordinates, which need the edges.
        row_normalize: as for `encode_features`.
    """

    store: StoredFeatures
    spec: FeatureSpec
    row_normalize: bool = False

    @property
    def shape(self) -> tuple[int, int]:
        """(N, width of the encoding)."""
        return self.store.num_nodes, self.spec.width

    def take(self, index: Tensor | slice) -> Tensor | SparseMatrix:
        """The encoded features of the nodes `index`."""
        part = self.store.features(index)
        x = encode_features(self.spec, part, row_normalize=self.row_normalize).x
        assert x is not None
        return x

    def blocks(self) -> Iterator[Tensor | SparseMatrix]:
        """All rows, block by block."""
        for part in _blocks(self.store, self.spec.width):
            yield self.take(part)


def stored_rows(
    store: StoredFeatures, settings: Settings, *, run: RunFolder | None = None
) -> tuple[FeatureSpec, CSRGraph]:
    """The encoding of a stored graph's features, and the graph by rows with encoded features.

    A matrix and named columns are encoded in blocks. A graph without features, or with the same for
    all nodes, is read into memory where coordinates are to be computed from its edges, as is any
    with structure='always'. With structure='auto', coordinates do not stand beside given features.

    Args:
        store: the graph.
        settings: as for `fit_encoding`.
        run: a run that is resumed; its encoding is used where this one differs by rounding errors.

    Raises:
        InputError: where features cannot be encoded, or the graph would have to be in memory and
            does not fit.
    """
    structure: str = getattr(settings, "structure", "none")
    if store.feature_kind is None or structure == "always" or _are_equal(store, structure):
        return _in_memory(store, settings, run)
    spec = _fitted(store, settings)
    spec = as_stored(spec, run)
    return spec, store.rows(StoredRows(store, spec, settings.row_normalize))


def _in_memory(
    store: StoredFeatures, settings: Settings, run: RunFolder | None
) -> tuple[FeatureSpec, CSRGraph]:
    dim: int = getattr(settings, "structure_dim", 0)
    # Edges as pairs and as a matrix, and several matrices of coordinates.
    num_bytes = 56 * store.num_edges + 20 * dim * store.num_nodes
    require_memory(
        num_bytes,
        what=(
            "Features that are computed from the edges of a stored graph (give it features, or use"
            " structure='none' for degrees alone)"
        ),
    )
    graph = store.to_graph()
    spec = fit_encoding(graph, settings, run=run)
    encoded = encode_features(spec, graph, row_normalize=settings.row_normalize)
    assert encoded.x is not None
    return spec, store.rows(MatrixRows(encoded.x), encoded.coordinates)


def _fitted(store: StoredFeatures, settings: Settings) -> FeatureSpec:
    """The encoding of given features, by passes over their rows."""
    if store.feature_kind == "columns":
        num_bytes = 16 * store.num_nodes * store.feature_dim
        require_memory(num_bytes, what="The columns of the node table, whose encoding is fitted,")
        spec = fit_features(
            store.features(slice(None)),
            degree_cap=settings.degree_cap,
            standardize=settings.standardize,
        )
    else:
        spec = FeatureSpec("given", num_features=store.feature_dim)
        limit = standardized_above(settings)
        if limit is not None and store.feature_dim > limit and _has_measurements(store):
            spec = replace(spec, standard=streamed_moments(lambda: _dense_blocks(store)))
    if not settings.scale_features:
        return spec
    squares = sum(map(sum_of_squares, StoredRows(store, spec, settings.row_normalize).blocks()))
    return with_scale(spec, float(squares), num_nodes=store.num_nodes)


def _blocks(store: StoredFeatures, width: int) -> Iterator[slice]:
    rows = max(1, BLOCK // max(width, 1))
    for start in range(0, store.num_nodes, rows):
        yield slice(start, min(start + rows, store.num_nodes))


def _matrices(store: StoredFeatures) -> Iterator[Tensor | SparseMatrix]:
    for part in _blocks(store, store.feature_dim):
        x = store.features(part).x
        assert x is not None
        yield x


def _dense_blocks(store: StoredFeatures) -> Iterator[Tensor]:
    return map(to_dense, _matrices(store))


def _has_measurements(store: StoredFeatures) -> bool:
    """`has_measurements` of a stored matrix."""
    values = (x if isinstance(x, Tensor) else x.value for x in _matrices(store))
    filled = sum(int(value.count_nonzero()) for value in values)
    return filled > SHARE * store.num_nodes * store.feature_dim


def _are_equal(store: StoredFeatures, structure: str) -> bool:
    """Whether features are left out under structure='auto', since all nodes have the same."""
    if structure != "auto" or not store.num_edges:
        return False
    first = torch.zeros(1, dtype=torch.int64)
    for part in _blocks(store, store.feature_dim):
        index = torch.cat([first, torch.arange(part.start, part.stop)])
        if not store.features(index).has_equal_features():
            return False
    return True
