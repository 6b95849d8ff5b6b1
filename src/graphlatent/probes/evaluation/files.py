"""Embeddings, labels and raw features out of files, joined by id: what a probe is run on.

Legend: M embedded rows, D columns of the embedding, W columns of the raw features.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from graphlatent.data.column_fitting import fit_column
from graphlatent.data.column_spec import ColumnSpec
from graphlatent.data.columns import encode_columns
from graphlatent.data.features import FeatureSpec
from graphlatent.data.readers.array_files import (
    ARRAY_SUFFIXES,
    ids_of_array,
    load_arrays,
    row_numbers,
)
from graphlatent.data.readers.arrow import load_table, to_array
from graphlatent.data.readers.labels import (
    KeyedColumns,
    RowKeys,
    read_feature_columns,
    read_keys,
    read_labels,
)
from graphlatent.data.readers.later import with_codes
from graphlatent.data.readers.options import options_of_run
from graphlatent.embedding import SUFFIXES
from graphlatent.errors import InputError, warn
from graphlatent.io.layout import CLASSIFIER, identity
from graphlatent.io.parquet import check_parquet, check_run_of_parquet
from graphlatent.io.regular_files import exists, is_folder, near_name
from graphlatent.io.runfolder import RunFolder
from graphlatent.io.unfinished import unfinished
from graphlatent.ops.sparse import SparseMatrix, row_normalized
from graphlatent.probes.evaluation.baselines import (
    NO_GRAPH,
    EmbeddedGraph,
    GraphChoice,
    graph_of_run,
    named_graph,
)
from graphlatent.probes.evaluation.labels import (
    ProbeLabels,
    probe_labels,
    refuse_label_as_feature,
)
from graphlatent.probes.evaluation.tasks import (
    ProbeTask,
    RawFeatures,
    StoredEmbeddings,
    make_task,
)

Array: TypeAlias = np.ndarray[Any, Any]


def read_task(
    embeddings: Path,
    labels: Path | KeyedColumns,
    *,
    label: Sequence[str] = (),
    id_column: str | None = None,
    raw: Path | None = None,
    graph: GraphChoice | None = None,
    baselines: bool = False,
    task: str | None = None,
    positive: str | None = None,
) -> ProbeTask:
    """Embeddings, labels and baselines out of files, joined by id.

    Args:
        embeddings: a run folder, or a file of embeddings (.parquet, .npz, .csv or .npy).
        labels: a table with ids and labels, .npy / .npz in the order of the embeddings, or columns
            that were read.
        label: the label columns; empty for the only one of a table, or all that were read.
        id_column: the column of ids in `labels` and `raw`; None for that of the embeddings.
        raw: a node table whose feature columns are probed beside the embeddings, in place of the
            features of the graph.
        graph: what the embeddings are of; None for the graph of the run.
        baselines: compute the baselines of the graph.
        task: "classification" or "regression"; None as the labels look.
        positive: the positive one of two classes.

    Raises:
        InputError: where files cannot be read or do not fit together, a label was a feature of the
            run, or a raw feature is the label.
    """
    stored = read_embeddings(embeddings)
    run = RunFolder(embeddings)
    options = options_of_run(run)
    if isinstance(labels, Path):
        # Molecules without a column of ids have the numbers of their rows.
        numbered = None if options.smiles is None or len(stored.keys.columns) > 1 else options.id
        table = read_labels(
            labels,
            label=label,
            id_column=id_column,
            rows=stored.keys,
            options=options,
            numbered=numbered,
        )
    else:
        table = labels.named(label)
    columns = table.joined_to(stored.keys, partial=True)
    found = probe_labels(columns, where=table.where, task=task, positive=positive)
    check_labels_of_run(run, found.names)
    features = None
    if raw is not None:
        features = raw_features_of_table(raw, stored.keys, found, run=run, id_column=id_column)
    embedded: EmbeddedGraph | str | None = None
    if baselines:
        embedded = embedded_graph(run, stored.keys, found, graph or GraphChoice())
    return make_task(stored, table, found, raw=features, graph=embedded)


def embedded_graph(
    run: RunFolder, keys: RowKeys, labels: ProbeLabels, choice: GraphChoice
) -> EmbeddedGraph | str:
    """The graph that embeddings are of, or the reason in words why it cannot be had."""
    if run.started:
        return graph_of_run(run, choice)
    if choice.source is None:
        return NO_GRAPH
    return named_graph(choice, keys, labels=labels.names)


def read_embeddings(path: Path) -> StoredEmbeddings:
    """The embeddings in a file of 'graphlatent embed', in a run folder, or in a plain array.

    Raises:
        InputError: where there are none, they cannot be read, or are not as they were saved.
    """
    if is_folder(path):
        if not (path / "embeddings.parquet").is_file():
            raise InputError(
                unfinished(RunFolder(path))
                or f"The folder {path} holds no embeddings.parquet. Give a run folder of a finished"
                " 'graphlatent train', or a file."
            )
        run, path = identity(path), path / "embeddings.parquet"
        check_run_of_parquet(path, run=run, role="embeddings")
    suffix, name = path.suffix.lower(), f"embeddings ({path.name})"
    if suffix not in (*SUFFIXES, ".npy"):
        if not exists(path):
            hint = near_name(path) or "Check the path."
            raise InputError(f"There is no file or folder {path}. {hint}")
        raise InputError(
            "Embeddings are read from a run folder or a file ending in"
            f" {', '.join((*SUFFIXES, '.npy'))}. Got '{path.name}'."
        )
    if suffix in ARRAY_SUFFIXES:
        return _embeddings_of_arrays(load_arrays(path, role="embeddings"), name)
    if suffix == ".parquet" and path.is_file():
        check_parquet(path, role="embeddings")
    table = load_table(path, role="embeddings", text_columns=("graph", "id"))
    columns = [c for c in table.columns if re.fullmatch(r"e\d+", c)]
    key_names = tuple(c for c in ("graph", "id") if c in table.columns)
    if not columns or not key_names:
        raise InputError(
            f"{name} must have a column 'id' or 'graph' and columns e0, e1, ..., as 'graphlatent"
            f" embed' writes them. Columns found: {', '.join(map(repr, table.columns[:8]))}."
        )
    # They refuse a table without rows.
    keys = read_keys(table, key_names)
    columns.sort(key=lambda c: int(c[1:]))
    values = np.stack([to_array(table, c, option="embeddings") for c in columns], axis=1)
    if values.dtype.kind not in "fiu":
        raise InputError(
            f"{name}: the columns e0, e1, ... must hold numbers. Got values such as"
            f" {values[0, 0]!r}."
        )
    return StoredEmbeddings(values, keys)


def raw_features_of_table(
    path: Path, rows: RowKeys, labels: ProbeLabels, *, run: RunFolder, id_column: str | None = None
) -> RawFeatures:
    """The feature columns of a node table as numbers.

    For a run these are the features that its encoder was given. Embeddings in a file do not say how
    features were encoded: numbers are then taken as they are, and the probe chooses the
    preprocessing as it does for the embeddings. Labels, those of the run too, are no features.

    Args:
        path: the node table.
        rows: the embeddings that features are needed for.
        labels: what is probed.
        run: the run that the embeddings are of; a folder that is none for embeddings in a file.
        id_column: the column of ids; None for that of `rows`.

    Returns:
        float32 [M, W], a NumPy array or SciPy CSR, with the names of the columns.

    Raises:
        InputError: where a column is missing, or is the label under another name.
    """
    encoding = _encoding_of_run(run)
    options = options_of_run(run)
    table = read_feature_columns(
        path,
        drop=(*labels.names, *options.labels, *options.drop),
        features=[spec.name for spec in encoding.columns] or None,
        id_column=id_column,
        rows=rows,
        options=with_codes(options, encoding.columns),
    )
    columns = table.joined_to(rows)
    for name, values in columns.items():
        refuse_label_as_feature(values, labels, name=name, where=table.where)
    specs = encoding.columns or tuple(
        fit_column(name, values, standardize=encoding.standardize)
        for name, values in columns.items()
    )
    encoded = encode_columns(specs, columns)
    if encoding.row_normalize:
        encoded = row_normalized(encoded)
    numbers = encoded.to_scipy() if isinstance(encoded, SparseMatrix) else encoded.numpy()
    return RawFeatures(numbers, list(columns))


@dataclass(frozen=True)
class _Encoding:
    """How a run encodes the columns of a node table.

    Args:
        columns: those of the run; () where its features are no columns, or there is no run.
        standardize: whether numbers are standardised.
        row_normalize: whether rows are divided by the sum of their absolute values.
    """

    columns: tuple[ColumnSpec, ...] = ()
    standardize: bool = False
    row_normalize: bool = False


def _encoding_of_run(run: RunFolder) -> _Encoding:
    if not run.started:
        return _Encoding()
    settings = run.read_config().settings
    spec = FeatureSpec.from_dict(run.read_json("features.json"))
    return _Encoding(
        spec.columns,
        standardize=bool(settings.get("standardize", True)),
        row_normalize=bool(settings.get("row_normalize", False)),
    )


def check_labels_of_run(run: RunFolder, names: Sequence[str]) -> None:
    """Refuse labels to be probed that were features of the run; warn where it was fine-tuned.

    Raises:
        InputError: where a label was a feature.
    """
    if (run.path / CLASSIFIER).is_file():
        warn(
            f"The encoder of {run.path} was fine-tuned on labels. If they are those to be probed,"
            " the scores of its embeddings are too high, since test rows were trained on. Hold"
            " labels out with 'graphlatent finetune --ratio', or probe the run before fine-tuning."
        )
    features = [spec.name for spec in _encoding_of_run(run).columns]
    for name in names:
        if name in features:
            raise InputError(
                f"The column '{name}' was a feature of the run {run.path}, so its embeddings have"
                " seen what is to be probed and the score would say nothing. Train again with"
                f" '{name}' as label, which keeps it out of the features. To measure how much of a"
                f" feature embeddings keep, give {run.path / 'embeddings.parquet'} instead of the"
                " folder."
            )


def _embeddings_of_arrays(arrays: dict[str, Array], name: str) -> StoredEmbeddings:
    values = arrays.get("embeddings", arrays.get(""))
    if values is None or values.ndim != 2 or values.dtype.kind not in "fiu":
        found = ", ".join(f"{key or 'array'} {array.shape}" for key, array in arrays.items())
        raise InputError(
            f"{name} must hold a 2-D array of numbers (in an .npz, named 'embeddings'). Found:"
            f" {found or 'nothing'}."
        )
    named = {"graphs": "graph", "ids": "id"}
    there = [key for key in named if key in arrays]
    columns = tuple(ids_of_array(arrays[key], name=key, where=name) for key in there) or (
        row_numbers(len(values), where=name),
    )
    if any(len(column.values) != len(values) for column in columns):
        raise InputError(
            f"{name}: there must be one id per row, {len(values)}. Got {len(columns[-1].values)}."
        )
    return StoredEmbeddings(values, RowKeys(columns, tuple(named[key] for key in there), name))
