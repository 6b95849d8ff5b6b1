"""The features of a graph that is not in memory: their encoding is fitted block by block.

Rows are encoded as a step takes them, so that no N x F matrix is made. What is computed from the
edges (coordinates, local structure) needs the whole graph in memory. Legend: N nodes, F features.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import torch
from torch import Tensor

from graphlatent.config import Settings
from graphlatent.data.csr import CSRGraph, FeatureRows, MatrixRows
from graphlatent.data.feature_matrices import one_hot_degrees, scaled, sum_of_squares
from graphlatent.data.features import (
    DENSE_DEGREES,
    FeatureSpec,
    encode_features,
    fit_features,
    with_scale,
)
from graphlatent.data.graph import GraphData
from graphlatent.data.measurements import are_measurements, count_nonzero, streamed_moments
from graphlatent.data.memory_limit import require_memory
from graphlatent.data.store.share import Share
from graphlatent.errors import ConfigError
from graphlatent.io.runfolder import RunFolder
from graphlatent.ops.collective import summed
from graphlatent.ops.sparse import SparseMatrix, row_normalized, to_dense
from graphlatent.training.encoding import (
    STANDARDIZED_ABOVE,
    as_stored,
    fit_encoding,
    standardized_above,
)

BLOCK = 1 << 24
"""Numbers of features that are encoded at a time."""


class Stored(Protocol):
    """A graph outside of memory, such as a `GraphStore`."""

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

    @property
    def undirected(self) -> bool:
        """Every edge is in both rows, with one weight."""

    @property
    def indptr(self) -> Tensor:
        """As of `CSRGraph`."""

    @property
    def indices(self) -> Tensor:
        """As of `CSRGraph`."""

    @property
    def weight(self) -> Tensor | None:
        """As of `CSRGraph`."""

    @property
    def share(self) -> Share | None:
        """As of `GraphStore`."""

    @property
    def degree(self) -> Tensor:
        """Neighbours of each node, self-loops not counted, int64 [N]."""

    def to_graph(self) -> GraphData:
        """The whole graph in memory."""


@dataclass(frozen=True, eq=False)
class StoredRows:
    """Features that are encoded when they are taken.

    Args:
        store: has the features as they were given.
        spec: their encoding, for which `by_rows` is true.
        row_normalize: as for `encode_features`.
    """

    store: Stored
    spec: FeatureSpec
    row_normalize: bool = False

    @property
    def shape(self) -> tuple[int, int]:
        """(N, width of the encoding)."""
        return self.store.num_nodes, self.spec.width

    def take(self, index: Tensor | slice) -> Tensor | SparseMatrix:
        """The encoded features of the nodes `index`."""
        if self.spec.kind == "degree":
            dense = self.spec.width <= DENSE_DEGREES
            x = one_hot_degrees(self.store.degree[index], self.spec.cap, dense=dense)
            x = row_normalized(x) if self.row_normalize else x
            return x if self.spec.scale == 1.0 else scaled(x, self.spec.scale)
        part = self.store.features(index)
        encoded = encode_features(self.spec, part, row_normalize=self.row_normalize).x
        assert encoded is not None
        return encoded

    def blocks(self) -> Iterator[Tensor | SparseMatrix]:
        """All rows, block by block."""
        for part in _blocks(self.store, self.spec.width):
            yield self.take(part)


def encodings_for_shards(store: Stored) -> dict[str, Any]:
    """What `encoding_of_share` needs to know of the whole store, for shards.json."""
    found = {}
    if store.feature_kind == "columns":
        found = {_key(store, each, None): _fitted_columns(store, each) for each in (True, False)}
    elif store.feature_kind is not None:
        found = {_key(store, True, n): _fitted_matrix(store, n) for n in STANDARDIZED_ABOVE}
    return {
        "encodings": {key: spec.to_dict() for key, spec in found.items()},
        "largest_degree": int(store.degree.max()),
        "features_from_edges": store.feature_kind is None or _are_equal(store),
    }


def encoding_of_share(store: Stored, settings: Settings) -> FeatureSpec:
    """The encoding of the whole store's features, in a process that has a shard.

    Args:
        store: the shard; the other processes have the others, and call this too.
        settings: as for `fit_encoding`.

    Raises:
        ConfigError: where the settings ask for another one.
    """
    share = store.share
    assert share is not None
    structure: str = getattr(settings, "structure", "none")
    computed = structure == "auto" and share.about["features_from_edges"]
    if structure == "always" or computed:
        why = "" if structure == "always" else " (these nodes have no features of their own)"
        raise ConfigError(
            f"structure='{structure}' computes coordinates from all edges of the graph{why}, and a"
            " shard does not have them. Set structure='none' (--set structure=none), or train on"
            " the whole store."
        )
    if store.feature_kind is None:
        largest = share.about["largest_degree"]
        spec = FeatureSpec("degree", cap=min(settings.degree_cap, largest))
    else:
        key = _key(store, settings.standardize, standardized_above(settings))
        spec = FeatureSpec.from_dict(share.about["encodings"][key])
    return _with_scale(spec, store, settings, num_nodes=share.num_nodes)


def _key(store: Stored, standardize: bool, above: int | None) -> str:
    """What an encoding, before its scale, depends on of the settings."""
    if store.feature_kind == "columns":
        return f"standardize={standardize}"
    return f"standardized_above={above}"


def _with_scale(
    spec: FeatureSpec, store: Stored, settings: Settings, *, num_nodes: int
) -> FeatureSpec:
    """An encoding with the scale that the settings ask for.

    Args:
        spec: without scale.
        store: the graph, or a shard of it where other processes have the others.
        settings: as for `fit_encoding`.
        num_nodes: of the graph.
    """
    if not settings.scale_features:
        return spec
    squares = sum(map(sum_of_squares, StoredRows(store, spec, settings.row_normalize).blocks()))
    if store.share is not None:
        squares = float(summed(torch.tensor(float(squares), dtype=torch.float64)))
    return with_scale(spec, float(squares), num_nodes=num_nodes)


def by_rows(spec: FeatureSpec) -> bool:
    """Whether the encoding of a node needs its own features or degree only."""
    return not (spec.structure_dim or spec.local or spec.ignored)


def fit_stored_encoding(
    store: Stored, settings: Settings, *, run: RunFolder | None = None
) -> FeatureSpec:
    """How the features of a stored graph are encoded, by passes over blocks of nodes.

    With structure='auto' or 'always', a graph without features, or with the same for all nodes, is
    read into memory, since coordinates are computed from its edges; with 'always' any graph is.
    Beside given features, structure='auto' means no coordinates here.

    Args:
        store: the graph.
        settings: as for `fit_encoding`.
        run: a run that is resumed; its encoding is used where this one differs by rounding errors.

    Raises:
        InputError: where features cannot be encoded, or the graph would have to be in memory and
            does not fit.
    """
    structure: str = getattr(settings, "structure", "none")
    auto = structure == "auto" and store.num_edges > 0
    if structure == "always" or (auto and (store.feature_kind is None or _are_equal(store))):
        return fit_encoding(_in_memory(store, settings), settings, run=run)
    spec = _with_scale(_fitted(store, settings), store, settings, num_nodes=store.num_nodes)
    return as_stored(spec, run)


def encoded_rows(store: Stored, spec: FeatureSpec, settings: Settings) -> CSRGraph:
    """A stored graph by rows, whose features are encoded as `spec` says.

    Raises:
        InputError: where the features are not those that the spec was made from, or the graph would
            have to be in memory and does not fit.
    """
    x: FeatureRows
    coordinates = None
    if by_rows(spec):
        x = StoredRows(store, spec, settings.row_normalize)
        # Other features than the fitted ones are refused here rather than in a step.
        x.take(slice(0, 1))
    else:
        graph = _in_memory(store, settings)
        encoded = encode_features(spec, graph, row_normalize=settings.row_normalize)
        assert encoded.x is not None
        x, coordinates = MatrixRows(encoded.x), encoded.coordinates
    return CSRGraph(
        store.indptr,
        store.indices,
        store.weight,
        x,
        undirected=store.undirected,
        coordinates=coordinates,
        share=None if store.share is None else store.share.name,
    )


def _in_memory(store: Stored, settings: Settings) -> GraphData:
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
    return store.to_graph()


def _fitted(store: Stored, settings: Settings) -> FeatureSpec:
    """The encoding without its scale."""
    if store.feature_kind is None:
        largest = int(store.degree.max()) if store.num_nodes else 0
        return FeatureSpec("degree", cap=min(settings.degree_cap, largest))
    if store.feature_kind == "columns":
        return _fitted_columns(store, settings.standardize)
    return _fitted_matrix(store, standardized_above(settings))


def _fitted_columns(store: Stored, standardize: bool) -> FeatureSpec:
    num_bytes = 16 * store.num_nodes * store.feature_dim
    require_memory(num_bytes, what="The columns of the node table, whose encoding is fitted,")
    # There are features, so that degrees are not looked at.
    return fit_features(store.features(slice(None)), degree_cap=1, standardize=standardize)


def _fitted_matrix(store: Stored, limit: int | None) -> FeatureSpec:
    """The encoding of a matrix, standardised where it has more columns than `limit`."""
    spec = FeatureSpec("given", num_features=store.feature_dim)
    if limit is None or store.feature_dim <= limit or not _has_measurements(store):
        return spec
    return replace(spec, standard=streamed_moments(lambda: map(to_dense, _matrices(store))))


def _blocks(store: Stored, width: int) -> Iterator[slice]:
    rows = max(1, BLOCK // max(width, 1))
    for start in range(0, store.num_nodes, rows):
        yield slice(start, min(start + rows, store.num_nodes))


def _matrices(store: Stored) -> Iterator[Tensor | SparseMatrix]:
    for part in _blocks(store, store.feature_dim):
        x = store.features(part).x
        assert x is not None
        yield x


def _has_measurements(store: Stored) -> bool:
    """`has_measurements` of a stored matrix."""
    filled = sum(count_nonzero(x) for x in _matrices(store))
    return are_measurements(filled, (store.num_nodes, store.feature_dim))


def _are_equal(store: Stored) -> bool:
    """Whether all nodes have the same features, which are left out then."""
    first = torch.zeros(1, dtype=torch.int64)
    for part in _blocks(store, store.feature_dim):
        index = torch.cat([first, torch.arange(part.start, part.stop)])
        if not store.features(index).has_equal_features():
            return False
    return True
