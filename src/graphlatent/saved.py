"""What a run left: its embeddings out of a folder or file, and the graph that it was trained on.

results.json says where the input of `graphlatent train` was read from. The input is read again only
where it is needed, and is refused where it has changed since.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from graphlatent.data.graph import GraphData
from graphlatent.data.graph_labels import level_labels
from graphlatent.data.ids import id_array, of_one_type
from graphlatent.data.readers.labels import KeyedColumns
from graphlatent.data.readers.options import options_of_run
from graphlatent.data.readers.read import read_graphs
from graphlatent.data.readers.stores import open_store
from graphlatent.embedding import Embeddings
from graphlatent.errors import GraphLatentWarning, InputError, RunFolderError
from graphlatent.io.atomic import write_atomically
from graphlatent.io.differences import input_differences
from graphlatent.io.layout import identity
from graphlatent.io.parquet import write_parquet
from graphlatent.io.paths import checked_path
from graphlatent.io.regular_files import exists, near_name
from graphlatent.io.runfolder import RunFolder
from graphlatent.probes.evaluation import files

# Keys of "input" in results.json
SOURCE, NODE_TABLE = "source", "node_table"


def read_embeddings(path: str | Path) -> Embeddings:
    """The embeddings in a run folder or in a file that `Embeddings.save` wrote.

    Args:
        path: a folder of 'graphlatent train', or a .parquet, .npz, .csv or .npy file. Rows of files
            without ids have their numbers as ids.

    Raises:
        InputError: where there are none, they cannot be read, were changed since they were saved,
            or are not finite.
    """
    path = checked_path(path, name="path", owner="read_embeddings")
    if not exists(path):
        raise InputError(
            f"There is no file or folder {path}. {near_name(path) or 'Check the path.'}"
        )
    stored = files.read_embeddings(path)
    values = np.ascontiguousarray(stored.values, dtype=np.float32)
    if not np.isfinite(values).all():
        raise InputError(
            f"{stored.keys.where}: there are values that are not finite numbers. Write the"
            " embeddings again."
        )
    columns = [id_array(of_one_type([column])[0]) for column in stored.keys.columns]
    names = stored.keys.names
    return Embeddings(
        values,
        columns[-1],
        id_name=names[-1] if names else "id",
        graphs=columns[0] if len(columns) == 2 else None,
    )


def write_embeddings(run: RunFolder, embeddings: Embeddings) -> None:
    """Write the embeddings of a run into its folder, marked as those of this run."""
    table, of_run = embeddings.to_arrow(), identity(run.path)
    write_atomically(run.embeddings_path, lambda to: write_parquet(table, to, run=of_run))


def input_paths(source: str, nodes: Path | None) -> dict[str, Any]:
    """Where an input was read from, for results.json: absolute paths, or the name of a data set."""
    return {
        SOURCE: str(Path(source).absolute()) if exists(source) else source,
        NODE_TABLE: None if nodes is None else str(nodes.absolute()),
    }


def read_input(run: RunFolder) -> GraphData:
    """The graph that a run was trained on, read again from where it was.

    Raises:
        InputError: where it is not known where it was, it is not there any more, or it has changed.
        RunFolderError: where the folder is no run.
    """
    source, nodes = _places(run)
    settings = run.read_config().settings
    with warnings.catch_warnings():
        # They were told in training.
        warnings.simplefilter("ignore", GraphLatentWarning)
        graph = read_graphs(
            source,
            nodes=nodes,
            symmetrize=bool(settings.get("symmetrize", True)),
            options=options_of_run(run),
        )
    recorded, store = run.read_json("versions.json").get("input"), open_store(source)
    if store is not None and recorded == store.fingerprints():
        # It was trained on in pieces, without reading it whole.
        return graph
    changed = input_differences(recorded, graph.fingerprints())
    if changed:
        raise InputError(
            f"{source} is not as it was when {run.path} was trained ({'; '.join(changed)}). Give"
            " the graph after RUN, or train again."
        )
    return graph


def node_table(run: RunFolder) -> Path | None:
    """The node table that a run was trained with, where there was one."""
    nodes = _places(run)[1]
    return None if nodes is None else Path(nodes)


def labels_of_run(embeddings: Path) -> Path | KeyedColumns:
    """The labels that came with the graph of a run: its node table, or those in the graph itself.

    Args:
        embeddings: a run folder; files of embeddings are refused, since they name no graph.

    Raises:
        InputError: where it is not known which labels, or there are none.
    """
    run = RunFolder(embeddings)
    if not run.started:
        # Says so where there is nothing at all.
        files.read_embeddings(embeddings)
        raise InputError(
            f"Which labels? {embeddings} is no run folder, so name a table of labels by --labels."
        )
    table = node_table(run)
    if table is not None:
        return table
    labels = level_labels(read_input(run), run.read_config().level or "node")
    if labels is None:
        raise InputError(f"The graph of {run.path} has no labels. Give a table by --labels.")
    keys = files.read_embeddings(embeddings).keys
    columns = labels.reshape(len(labels), -1).T
    names: Sequence[str] = options_of_run(run).labels
    if len(names) != len(columns):
        names = ["label"] if len(columns) == 1 else [f"label {k}" for k in range(len(columns))]
    where = f"the graph of {run.path}"
    return KeyedColumns(dict(zip(names, columns, strict=True)), replace(keys, where=where))


def _places(run: RunFolder) -> tuple[str, str | None]:
    """Source and node table of a run's input."""
    if not run.started:
        raise RunFolderError(
            f"{run.path} is not a run folder, so it is not known which graph the embeddings are"
            " of. Give the graph after it."
        )
    found: Any = run.read_json("results.json").get("input") if run.results_path.is_file() else None
    source = found.get(SOURCE) if isinstance(found, Mapping) else None
    if not isinstance(source, str):
        raise InputError(
            f"{run.path} does not say which graph it was trained on: it was written from Python, or"
            " by an earlier version. Give the graph after RUN."
        )
    nodes = found.get(NODE_TABLE)
    for place in (source, nodes):
        if isinstance(place, str) and Path(place).is_absolute() and not exists(place):
            raise InputError(
                f"The graph that {run.path} was trained on is not at {place} any more. Give it"
                " after RUN."
            )
    return source, nodes if isinstance(nodes, str) else None
