"""Embedding of graphs in stores by fitted estimators: layer by layer, in bounded memory."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphlatent.data.batches import Batch
from graphlatent.data.lost_weights import warn_of_lost_weights
from graphlatent.data.memory_limit import require_memory
from graphlatent.data.readers.options import TableOptions
from graphlatent.data.readers.stores import (
    check_directions,
    open_store,
    refuse_shards,
    store_read_with,
)
from graphlatent.data.store.store import AnyGraph, GraphStore
from graphlatent.embedding import Embeddings, check_finite_rows
from graphlatent.embedding_files import embed_by_rows, embed_to_file
from graphlatent.io.layout import identity
from graphlatent.io.runfolder import RunFolder
from graphlatent.io.scratch import Progress, no_progress
from graphlatent.training.batching import PIECES
from graphlatent.training.layerwise import layerwise_refusal
from graphlatent.training.stored_encoding import encoded_rows

if TYPE_CHECKING:
    from graphlatent.estimator import Estimator


def layerwise_store(estimator: Estimator, X: Any) -> GraphStore | None:
    """The store that `X` is, where the fitted model can embed it layer by layer; else None."""
    estimator._check_fitted()
    refuse_shards(X)
    store = open_store(X)
    if store is None or layerwise_refusal(estimator.method_, estimator.model_):
        return None
    check_directions(store, symmetrize=estimator.settings_.symmetrize)
    return warn_of_lost_weights(store, fitted=estimator.weighted_)


def store_in_pieces(
    estimator: Estimator,
    source: str,
    nodes: object,
    options: TableOptions,
    *,
    run: RunFolder | None = None,
) -> GraphStore | None:
    """The store at a path, where an estimator would be fitted on pieces of it; else None.

    Args:
        estimator: not fitted yet; its `batching` is what was chosen afterwards.
        source: path of the store.
        nodes: as for `store_read_with`.
        options: as for `store_read_with`.
        run: a run that is resumed.
    """
    store = store_read_with(source, nodes, options=options)
    way = getattr(estimator._resolved(store, run=run), "batching", "full")
    if "batching" in estimator.get_params():
        # "auto" chooses once: the memory that is available changes all the time.
        estimator.set_params(batching=way)
    return store if way in PIECES else None


def embed_store(
    estimator: Estimator, store: GraphStore, *, progress: Progress = no_progress
) -> Embeddings:
    """The embeddings of the nodes of a store, in memory.

    Raises:
        InputError: where they would take more memory than reading may, the store has other
            features than the fitted graph, or an embedding is not finite.
    """
    width = estimator.embedding_dim_
    require_memory(
        4 * store.num_nodes * width,
        what=(
            f"The embeddings of {store.num_nodes:,} nodes in memory ('embed_to', or 'graphlatent"
            " embed' on the command line, writes them to a file)"
        ),
    )
    graph = encoded_rows(store, estimator.features_, estimator.settings_)
    method, model = estimator.method_, estimator.model_
    values = embed_by_rows(method, model, graph, ids=store.ids, progress=progress)
    return Embeddings(values, store.ids())


def embed_store_to_file(
    estimator: Estimator,
    store: GraphStore,
    path: str | Path,
    *,
    run: RunFolder | None = None,
    overwrite: bool = False,
    progress: Progress = no_progress,
) -> Path:
    """Write the embeddings of the nodes of a store to a file, in bounded memory.

    Arguments and errors are those of `embed_to_file`; `run` is the run whose embeddings they are.
    """
    graph = encoded_rows(store, estimator.features_, estimator.settings_)
    features = json.dumps(estimator.features_.to_dict(), sort_keys=True)
    parts = json.dumps(store.fingerprints(), sort_keys=True)
    return embed_to_file(
        estimator.method_,
        estimator.model_,
        graph,
        path,
        fingerprint=hashlib.sha256(f"{parts}\n{features}".encode()).hexdigest(),
        of_run=None if run is None else identity(run.path),
        ids=store.ids,
        overwrite=overwrite,
        progress=progress,
    )


def complete_run(
    estimator: Estimator,
    run: RunFolder,
    graph: AnyGraph,
    everything: Callable[[], Batch],
    progress: Progress,
) -> None:
    """Write the model of a run, which is complete only once it embeds what it was trained on.

    The embeddings of a store are written into the run as they are computed; of a shard, none.

    Args:
        estimator: fitted.
        run: begun.
        graph: the training set as it was read.
        everything: returns it as one batch, where it is in memory.
        progress: is told of every block of a store.
    """
    if isinstance(graph, GraphStore) and graph.share is not None:
        # No process has the whole store, which is embedded later.
        pass
    elif isinstance(graph, GraphStore):
        path = run.embeddings_path
        embed_store_to_file(estimator, graph, path, run=run, overwrite=True, progress=progress)
    else:
        rows = estimator._embed(everything()).cpu().numpy()
        check_finite_rows(estimator._with_ids(rows, graph), model=estimator.model_)
    run.finish(estimator.model_.state_dict(), estimator.history_)
