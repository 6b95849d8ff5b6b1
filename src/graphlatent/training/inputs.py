"""From a graph as it was read to what a training takes: features encoded, in memory or not."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from graphlatent.config import Settings
from graphlatent.data.csr import CSRGraph, MatrixRows
from graphlatent.data.features import FeatureSpec, encode_features
from graphlatent.data.graph import GraphData
from graphlatent.data.store.store import AnyGraph, GraphStore
from graphlatent.io.runfolder import RunFolder
from graphlatent.ops.sparse import SparseMatrix
from graphlatent.training.encoding import as_stored, fit_encoding
from graphlatent.training.several import encoding_of_first
from graphlatent.training.stored_encoding import (
    StoredRows,
    encoded_rows,
    encoding_of_share,
    fit_stored_encoding,
)


def prepared(
    graph: AnyGraph, settings: Settings, *, run: RunFolder | None = None
) -> tuple[GraphData | CSRGraph, FeatureSpec]:
    """A graph with encoded features, by rows where it is in a store, and the encoding.

    Args:
        graph: as it was read.
        settings: resolved.
        run: a run that is resumed, as for `fit_encoding`.
    """
    if isinstance(graph, GraphStore):
        if graph.share is None:
            spec = encoding_of_first(lambda: fit_stored_encoding(graph, settings, run=run))
        else:
            found = encoding_of_share(graph, settings)
            spec = encoding_of_first(lambda: as_stored(found, run))
        return encoded_rows(graph, spec, settings), spec
    spec = encoding_of_first(lambda: fit_encoding(graph, settings, run=run))
    return encode_features(spec, graph, row_normalize=settings.row_normalize), spec


def blocks_of_features(graph: GraphData | CSRGraph) -> Iterator[Tensor | SparseMatrix]:
    """The encoded features of a graph, in blocks where it is not in memory."""
    x = graph.x
    if isinstance(x, StoredRows):
        yield from x.blocks()
    else:
        matrix = x.x if isinstance(x, MatrixRows) else x
        assert isinstance(matrix, Tensor | SparseMatrix)
        yield matrix
