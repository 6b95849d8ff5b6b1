"""From a graph as it was read to what a training takes: features encoded, in memory or not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from torch import Tensor

from graphlatent.config import Settings
from graphlatent.data.csr import CSRGraph, MatrixRows
from graphlatent.data.features import FeatureSpec, encode_features
from graphlatent.data.graph import GraphData
from graphlatent.data.store.store import AnyGraph, GraphStore
from graphlatent.errors import RunFolderError
from graphlatent.io.differences import input_differences
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

PLACE = "place"
"""The key of versions.json that says where the command line read the input of a run."""


def prepared(
    graph: AnyGraph, settings: Settings, *, run: RunFolder | None = None
) -> tuple[GraphData | CSRGraph, FeatureSpec]:
    """A graph with encoded features, by rows where it is in a store, and the encoding.

    Args:
        graph: as it was read.
        settings: resolved.
        run: a run that is resumed, as for `fit_encoding`.

    Raises:
        RunFolderError: where the run has another input.
    """
    if isinstance(graph, GraphStore) and graph.share is not None:
        found = encoding_of_share(graph, settings)
        spec = encoding_of_first(lambda: as_stored(found, run))
        return encoded_rows(graph, spec, settings), spec
    spec = encoding_of_first(lambda: _fitted(graph, settings, run))
    if isinstance(graph, GraphStore):
        return encoded_rows(graph, spec, settings), spec
    return encode_features(spec, graph, row_normalize=settings.row_normalize), spec


def _fitted(graph: AnyGraph, settings: Settings, run: RunFolder | None) -> FeatureSpec:
    """The encoding of a graph, once it is known to be that of the run that is resumed."""
    if run is not None and not run.replace and run.can_resume():
        _refuse_another(run, graph)
    if isinstance(graph, GraphStore):
        return fit_stored_encoding(graph, settings, run=run)
    return fit_encoding(graph, settings, run=run)


def _refuse_another(run: RunFolder, graph: AnyGraph) -> None:
    """Raise where a graph is not the input of a run, whose encoding is not one of this graph."""
    about, now = run.read_json("versions.json"), graph.fingerprints()
    differences = input_differences(about.get("input"), now)
    if not differences:
        return
    place = about.get(PLACE)
    table = place.get("node_table") if isinstance(place, Mapping) else None
    forgotten = table is not None and not any(part.startswith("column ") for part in now)
    reason = f"it was started with the node table {table} (--nodes); " if forgotten else ""
    raise RunFolderError(
        f"Cannot resume {run.path}: {reason}{'; '.join(differences)}. Use the same input and"
        " settings, or another --out."
    )


def blocks_of_features(graph: GraphData | CSRGraph) -> Iterator[Tensor | SparseMatrix]:
    """The encoded features of a graph, in blocks where it is not in memory."""
    x = graph.x
    if isinstance(x, StoredRows):
        yield from x.blocks()
    else:
        matrix = x.x if isinstance(x, MatrixRows) else x
        assert isinstance(matrix, Tensor | SparseMatrix)
        yield matrix
