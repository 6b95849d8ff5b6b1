"""`probe`: what `graphlatent probe` does, for embeddings, labels and graphs in memory or in files.

Legend: M embedded rows, D columns, K labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from torch import Tensor

from graphlatent.data.ids import exact_ids
from graphlatent.data.readers.array_files import ids_of_array, row_numbers
from graphlatent.data.readers.labels import KeyedColumns, RowKeys, read_labels
from graphlatent.data.readers.read import read_graphs
from graphlatent.embedding import Embeddings
from graphlatent.errors import InputError, no_effect, not_fitted
from graphlatent.estimator import Estimator
from graphlatent.io.runfolder import RunFolder
from graphlatent.probes.evaluation.baselines import (
    NO_GRAPH,
    EmbeddedGraph,
    GraphChoice,
    keys_of,
    named_graph,
)
from graphlatent.probes.evaluation.files import (
    check_labels_of_run,
    embedded_graph,
    read_embeddings,
)
from graphlatent.probes.evaluation.labels import probe_labels
from graphlatent.probes.evaluation.plan import evaluation_plan
from graphlatent.probes.evaluation.report import PreparedProbe, ProbeReport
from graphlatent.probes.evaluation.tasks import StoredEmbeddings, make_task


def probe(
    embeddings: Any,
    labels: Any,
    *,
    graph: Any = None,
    label: str | Sequence[str] = (),
    baselines: bool = True,
    kind: str = "linear",
    metric: str | None = None,
    task: str | None = None,
    positive: str | None = None,
    splits: int | None = None,
    train: float | None = None,
    val: float | None = None,
    folds: int | None = None,
    seeds: int | None = None,
) -> ProbeReport:
    """Scores of embeddings and, beside them, of what they must beat.

    Test labels choose nothing: settings are chosen on validation rows, or in inner folds.

    Args:
        embeddings: a fitted estimator, whose embeddings of `graph` are probed; or the embeddings:
            an array or tensor [M, D], `Embeddings`, a DataFrame indexed by id, a file, a run
            folder.
        labels: one class or number per row [M], or a 0/1 matrix [M, K], in the order of the
            embeddings; a mapping or pandas Series from ids to labels; a file with ids and labels.
            Rows whose label is missing (None, NaN) are left out.
        graph: what the embeddings are of, in any form that `graphlatent.read_graphs` takes: the
            raw and propagated features beside them are computed from it. Not needed for a run
            folder whose input is still where it was.
        label: of a file of labels, the column or columns.
        baselines: also probe raw and propagated features, the untrained encoder, raw features
            appended to the embeddings, and the majority class (of numbers: the mean).
        kind: of the probe: linear, svm, rbf, knn, clusters, spectral or communities.
        metric: what decides and is reported: accuracy, balanced (accuracy), f1 (macro-averaged; for
            a 0/1 matrix micro-averaged), auc, ap; of numbers r2 or mae. None: accuracy, with AUC
            and AP in addition where one of two classes is rare; micro-F1; R2 and MAE.
        task: "classification" or "regression"; None: labels that are real numbers are regressed.
        positive: the positive one of two classes, for AP; None: 1, true, yes or positive, otherwise
            the rarer one.
        splits: random splits (20).
        train: share of the rows to train on (0.1).
        val: share of the rows to choose settings on (0.1).
        folds: stratified folds instead of random splits (10 for svm and rbf).
        seeds: of splits (1), or of clusters and communities (5).

    Returns:
        A report, which prints as a table; `report.comparison` has every score.

    Raises:
        ConfigError: where an argument is unknown, or means nothing for the kind of probe.
        InputError: where embeddings, labels and graph do not fit together.
    """
    if graph is not None and not baselines and not isinstance(embeddings, Estimator):
        raise no_effect("graph", owner="probe", without="baselines")
    plan = evaluation_plan(
        kind, splits=splits, train=train, val=val, folds=folds, seeds=seeds, metric=metric
    )
    stored, embedded = _embeddings(embeddings, graph)
    names = (label,) if isinstance(label, str) else tuple(label)
    table = _labels(labels, names, stored)
    columns = table.joined_to(stored.keys, partial=True)
    found = probe_labels(columns, where=table.where, task=task, positive=positive)
    if isinstance(embeddings, str | Path):
        run = RunFolder(embeddings)
        check_labels_of_run(run, found.names)
        if baselines:
            choice = GraphChoice(graph)
            embedded = embedded_graph(run, stored.keys, found, choice)
    elif embedded is None and baselines:
        choice = GraphChoice(graph)
        embedded = NO_GRAPH if graph is None else named_graph(choice, stored.keys, labels=names)
    probed = make_task(stored, table, found, graph=embedded if baselines else None)
    return PreparedProbe.of(probed, plan).run(baselines=baselines)


def _embeddings(embeddings: Any, graph: Any) -> tuple[StoredEmbeddings, EmbeddedGraph | str | None]:
    """The embeddings with their keys; of an estimator also the graph that it embeds."""
    where = "embeddings"
    if isinstance(embeddings, Estimator):
        return _of_estimator(embeddings, graph)
    if isinstance(embeddings, str | Path):
        return read_embeddings(Path(embeddings)), None
    if isinstance(embeddings, Embeddings):
        return StoredEmbeddings(embeddings.values, keys_of(embeddings, where=where)), None
    if isinstance(embeddings, pd.DataFrame):
        ids = ids_of_array(_ids(embeddings.index), name="index", where=where)
        return StoredEmbeddings(embeddings.to_numpy(), RowKeys((ids,), ("id",), where)), None
    values = _array(embeddings)
    if values.ndim != 2 or values.dtype.kind not in "biuf":
        raise InputError(
            "The embeddings must be a fitted estimator, a matrix [M, D], Embeddings, a DataFrame"
            f" indexed by id, or a path. Got {type(embeddings).__name__} of shape {values.shape}."
        )
    keys = RowKeys((row_numbers(len(values), where=where),), (), where)
    return StoredEmbeddings(values, keys), None


def _of_estimator(estimator: Estimator, graph: Any) -> tuple[StoredEmbeddings, EmbeddedGraph]:
    if not hasattr(estimator, "model_"):
        raise not_fitted(type(estimator).__name__)
    if graph is None:
        raise InputError(
            "To probe an estimator, give the graph that it is to embed: probe(estimator, labels,"
            " graph=graph)."
        )
    data = read_graphs(graph, symmetrize=estimator.symmetrize)
    found = estimator.embed(data)
    stored = StoredEmbeddings(found.values, keys_of(found, where="embeddings"))
    return stored, EmbeddedGraph(data, estimator)


def _labels(labels: Any, names: Sequence[str], stored: StoredEmbeddings) -> KeyedColumns:
    """The labels with the ids of their rows."""
    where = "labels"
    if isinstance(labels, str | Path):
        return read_labels(Path(labels), label=names, id_column=None, rows=stored.keys)
    if names:
        raise no_effect("label", owner="probe", without="a file of labels")
    if isinstance(labels, pd.Series) and stored.keys.names:
        labels = labels.to_frame("label")
    if isinstance(labels, pd.DataFrame) and stored.keys.names:
        ids = ids_of_array(_ids(labels.index), name="index", where=where)
        columns = {str(name): _without_gaps(labels[name]) for name in labels.columns}
        return KeyedColumns(columns, RowKeys((ids,), ("id",), where))
    if isinstance(labels, Mapping):
        ids = ids_of_array(_ids(labels), name="keys", where=where)
        values = _without_gaps(pd.Series([*labels.values()]))
        return KeyedColumns({"label": values}, RowKeys((ids,), ("id",), where))
    values = _array(labels)
    if values.ndim not in (1, 2) or len(values) != len(stored.keys):
        raise InputError(
            f"The labels must be one per row of the embeddings [{len(stored.keys)}], or a 0/1"
            f" matrix [{len(stored.keys)}, K]. Got shape {values.shape}."
        )
    matrix = (
        {"label": values}
        if values.ndim == 1
        else {f"label {k}": values[:, k] for k in range(values.shape[1])}
    )
    return KeyedColumns(matrix, stored.keys)


def _ids(ids: Any) -> Any:
    """Ids as integers, or as text of one width."""
    array = exact_ids(list(ids))
    return array.astype(np.str_) if array.dtype == object else array


def _without_gaps(column: Any) -> Any:
    """A pandas column as an array, with None or NaN where a value is missing."""
    if column.dtype.kind in "biuf" and not pd.api.types.is_extension_array_dtype(column.dtype):
        return column.to_numpy()
    return column.astype(object).where(column.notna(), None).to_numpy()


def _array(values: Any) -> Any:
    return values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
