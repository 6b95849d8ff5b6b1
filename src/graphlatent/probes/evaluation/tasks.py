"""What a probe is run on: embeddings and the baselines beside them, all in the same rows.

Legend: M embedded rows, D columns of the embedding, W columns of the raw features.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from graphlatent.data.readers.labels import KeyedColumns, RowKeys
from graphlatent.display import counted
from graphlatent.errors import InputError
from graphlatent.probes.evaluation.baselines import (
    COMPUTED,
    EmbeddedGraph,
    appended,
    matched_columns,
    matched_rows,
)
from graphlatent.probes.evaluation.comparison import APPENDED, EMBEDDINGS, RAW_FEATURES
from graphlatent.probes.evaluation.labels import ProbeLabels, refuse_label_as_feature

Array: TypeAlias = np.ndarray[Any, Any]
# Columns that a note lists before "...".
_LISTED = 8


@dataclass(frozen=True, eq=False)
class StoredEmbeddings:
    """Embeddings and what identifies their rows.

    Args:
        values: float [M, D].
        keys: of the rows.
    """

    values: Array
    keys: RowKeys


@dataclass(frozen=True, eq=False)
class ProbeTask:
    """What a probe is run on.

    Args:
        representations: rows by name, each [labelled rows, D]: the embeddings, and the baselines
            that can be had.
        labels: of those rows.
        notes: what was left out or used, in words.
    """

    representations: Mapping[str, Any]
    labels: ProbeLabels
    notes: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class RawFeatures:
    """Raw features out of a node table: rows [M, W] and the names of their columns."""

    rows: Any
    names: Sequence[str]


def make_task(
    stored: StoredEmbeddings,
    table: KeyedColumns,
    labels: ProbeLabels,
    *,
    raw: RawFeatures | None = None,
    graph: EmbeddedGraph | str | None = None,
) -> ProbeTask:
    """The embeddings and baselines of the rows that have a label.

    Args:
        stored: the embeddings.
        table: the labels as they came, for the note on rows that are not used.
        labels: of the embeddings' rows.
        raw: raw features to use in place of those of the graph.
        graph: what the embeddings are of; the reason in words where that cannot be had; None for
            no baselines.

    Raises:
        InputError: where graph and embeddings do not fit together, or a feature is the label.
    """
    representations: dict[str, Any] = {EMBEDDINGS: stored.values[labels.rows]}
    notes = _notes_of_rows(stored, table, labels)
    if raw is not None:
        representations[RAW_FEATURES] = raw.rows[labels.rows]
        notes.append(_listed(raw.names))
    wanted = [name for name in COMPUTED if name not in representations]
    if isinstance(graph, str):
        notes.append(f"no {', '.join(wanted)}: {graph}.")
    elif graph is not None:
        notes += _notes_of_columns(graph, stored.keys, labels)
        rows, told = matched_rows(graph, stored.keys, wanted)
        representations |= {name: each[labels.rows] for name, each in rows.items()}
        notes += told
    if graph is not None and RAW_FEATURES in representations:
        representations[APPENDED] = appended(
            representations[EMBEDDINGS], representations[RAW_FEATURES]
        )
    return ProbeTask(representations, labels, tuple(notes))


def _notes_of_rows(stored: StoredEmbeddings, table: KeyedColumns, labels: ProbeLabels) -> list[str]:
    num_rows, notes = len(stored.keys), []
    if len(labels.rows) < num_rows:
        notes.append(
            f"{num_rows - len(labels.rows)} of {num_rows} rows have no label and are left out"
        )
    num_unused = len(table.keys) - num_rows
    if num_unused > 0:
        have = "row of the labels has" if num_unused == 1 else "rows of the labels have"
        notes.append(f"{num_unused} {have} no embedding, and are not used")
    return notes


def _notes_of_columns(graph: EmbeddedGraph, keys: RowKeys, labels: ProbeLabels) -> list[str]:
    """Notes on the features: where one is the label under another name, which the embeddings have
    seen; which they are, where it is not known that the embeddings have seen them.

    Raises:
        InputError: where it is, and the embeddings were made without these features.
    """
    try:
        for name, values in matched_columns(graph, keys).items():
            refuse_label_as_feature(values, labels, name=name, where="the graph")
    except InputError as error:
        if not graph.has_settings:
            raise
        return [f"{error} These embeddings have seen it as well."]
    columns = None if graph.has_settings else graph.graph.columns
    return [_listed(columns)] if columns else []


def _listed(names: Collection[str]) -> str:
    """A note on the columns that raw features come from, which might hold the label."""
    shown = ", ".join([*names][:_LISTED]) + (", ..." if len(names) > _LISTED else "")
    return f"raw features: {counted(len(names), 'column')}: {shown}"
