"""The baselines that stand beside embeddings: raw and propagated features, an untrained encoder.

They are computed from the graph that the embeddings are of. Of a run the graph is read once more,
from where `graphlatent train` read it; of embeddings in a file it must be named. A baseline that
cannot be had is left out with a note. Legend: M embedded rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from graphlatent.data.graph import GraphData
from graphlatent.data.ids import IdColumn
from graphlatent.data.memory_limit import require_memory
from graphlatent.data.readers.labels import RowKeys, match_rows
from graphlatent.data.readers.later import remembered_options
from graphlatent.data.readers.options import TableOptions, options_of_run
from graphlatent.data.readers.read import read_graphs
from graphlatent.embedding import Embeddings, unembedded_rows
from graphlatent.errors import GraphLatentError, GraphLatentWarning, InputError, no_effect
from graphlatent.estimator import Estimator
from graphlatent.io.differences import input_differences
from graphlatent.io.input_place import place_in_results
from graphlatent.io.runfolder import RunFolder
from graphlatent.methods.lagraph.estimators import GraphLaGraph, NodeLaGraph
from graphlatent.methods.registry import load_estimator
from graphlatent.probes.evaluation.comparison import (
    PROPAGATED_FEATURES,
    RAW_FEATURES,
    UNTRAINED,
)
from graphlatent.representations import REPRESENTATIONS

Array: TypeAlias = np.ndarray[Any, Any]
COMPUTED = {RAW_FEATURES: "raw", PROPAGATED_FEATURES: "propagated", UNTRAINED: "random"}
"""Names of the baselines in `REPRESENTATIONS`."""
NO_GRAPH = (
    "of embeddings alone it is not known which graph they are of. Name it with the option 'graph'"
)
"""Why there are no baselines of embeddings that came without a run."""


@dataclass(frozen=True, eq=False)
class EmbeddedGraph:
    """The graph that embeddings are of.

    Args:
        graph: as it was read.
        estimator: encodes its features; fitted, or not.
        has_settings: whether the embeddings were made with the estimator's settings, so that its
            untrained encoder is a baseline.
    """

    graph: GraphData
    estimator: Estimator
    has_settings: bool = True

    def rows(self, wanted: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
        """Baselines by name, one row per node or graph in the graph's order, and notes."""
        found: dict[str, Any] = {}
        notes = []
        for name in wanted:
            if name == UNTRAINED and not self.has_settings:
                notes.append(
                    f"no {UNTRAINED}: the settings that these embeddings were made with are not"
                    " known. Give a run folder."
                )
                continue
            try:
                if name == PROPAGATED_FEATURES:
                    self._require_memory()
                found[name] = REPRESENTATIONS[COMPUTED[name]].rows(self.graph, self.estimator)
            except InputError as error:
                notes.append(f"no {name}: {error}")
        if RAW_FEATURES in found and self._has_no_features():
            notes.append(
                "the nodes have no features that differ, so raw and propagated features are those"
                f" of the {found[RAW_FEATURES].shape[1]} structural inputs that the encoder is"
                " given, computed from the edges"
            )
        return found, notes

    def keys(self) -> RowKeys:
        """What identifies the rows of the baselines."""
        named = unembedded_rows(self.graph, level=self.estimator.level)
        return keys_of(named, where="the graph")

    def _require_memory(self) -> None:
        """Raise where the propagated features of nodes, which are dense, take too much memory."""
        if self.estimator.level == "node" and self.graph.x is not None:
            num_rows, width = self.graph.x.shape
            require_memory(
                4 * num_rows * width,
                what=f"A dense matrix of {num_rows:,} rows and {width:,} columns",
            )

    def _has_no_features(self) -> bool:
        graph = self.graph
        if graph.x is None and not graph.columns:
            return True
        spec = getattr(self.estimator, "features_", None)
        return spec is not None and bool(spec.ignored)


@dataclass(frozen=True)
class GraphChoice:
    """Which graph the user says that the embeddings are of.

    Args:
        source: of the graph, as `graphlatent.read_graphs` takes it; None for that of the run.
        nodes: the node table that goes with it.
        columns: names of columns by option ('source', 'target'), where they differ from those of
            the run, or from the usual ones.
        id_column: the column of ids in the node table, where there is no run that says it.
        max_memory: how much memory reading may take; None for half of what is available.

    Raises:
        ConfigError: where something is said of a graph that is not named.
    """

    source: Any = None
    nodes: Any = None
    columns: Mapping[str, str] = field(default_factory=dict)
    id_column: str | None = None
    max_memory: int | str | None = None

    def __post_init__(self) -> None:
        if self.source is None:
            for name in (*(["nodes"] if self.nodes is not None else []), *self.columns):
                raise no_effect(name, owner="probe", without="'graph'")

    def read(self, options: TableOptions, *, symmetrize: bool) -> GraphData:
        """The graph, with the columns that were named in place of those of `options`."""
        chosen: dict[str, Any] = dict(self.columns)
        return read_graphs(
            self.source,
            nodes=self.nodes,
            options=replace(remembered_options(options, self.source), **chosen),
            symmetrize=symmetrize,
            max_memory=self.max_memory,
        )


def graph_of_run(run: RunFolder, choice: GraphChoice) -> EmbeddedGraph | str:
    """The graph that a run was trained on, and its estimator; or why they cannot be had.

    Raises:
        InputError: where the user named a graph that is not the one of the run.
    """
    place = None if choice.source is not None else place_in_results(run.results_path)
    if choice.source is None and place is None:
        return (
            f"{run.path} does not say where its graph was read from. Name it with the option"
            " 'graph'"
        )
    try:
        estimator = load_estimator(run.path)
    except GraphLatentError as error:
        return f"the model cannot be loaded. {error}".rstrip(".")
    options = options_of_run(run).without_labels()
    if place is None:
        graph = choice.read(options, symmetrize=estimator.symmetrize)
    else:
        try:
            with warnings.catch_warnings():
                # They were shown in training.
                warnings.simplefilter("ignore", GraphLatentWarning)
                again = GraphChoice(place.source, place.nodes, max_memory=choice.max_memory)
                graph = again.read(options, symmetrize=estimator.symmetrize)
        except (GraphLatentError, OSError) as error:
            return f"the graph of the run cannot be read again from {place.source}. {error}".rstrip(
                "."
            )
    before = run.read_json("versions.json").get("input")
    changed = input_differences(before, graph.fingerprints())
    if changed and place is None:
        raise InputError(
            f"The graph is not the one that {run.path} was trained on ({'; '.join(changed)}). Give"
            " that one, or leave the option 'graph' out."
        )
    if changed and place is not None:
        return (
            f"{place.source} is no longer what the run was trained on ({'; '.join(changed)}). Name"
            " the graph with the option 'graph'"
        )
    return EmbeddedGraph(graph, estimator)


def named_graph(choice: GraphChoice, keys: RowKeys, *, labels: Sequence[str]) -> EmbeddedGraph:
    """The graph that the user says that embeddings in a file are of.

    Its features are encoded as the default settings do it.

    Args:
        choice: of the graph.
        keys: of the embeddings, which tell whether they are of nodes or of graphs.
        labels: columns of the node table that are no features.
    """
    options = TableOptions(id=choice.id_column or "id", drop=tuple(labels))
    graph = choice.read(options, symmetrize=True)
    several = graph.num_graphs > 1 and len(keys) == graph.num_graphs
    is_graphs = keys.names == ("graph",) or (several and len(keys.names) < 2)
    estimator = GraphLaGraph() if is_graphs else NodeLaGraph()
    return EmbeddedGraph(graph, estimator, has_settings=False)


def matched_rows(
    embedded: EmbeddedGraph, keys: RowKeys, wanted: Sequence[str] = tuple(COMPUTED)
) -> tuple[dict[str, Any], list[str]]:
    """Baselines by name in the order of the embeddings [M], and notes.

    Args:
        embedded: the graph.
        keys: of the embeddings.
        wanted: names of baselines.

    Raises:
        InputError: where an embedding belongs to no node or graph of it.
    """
    place = _places(embedded, keys)
    rows, notes = embedded.rows(wanted)
    return {name: each[place] for name, each in rows.items()}, notes


def matched_columns(embedded: EmbeddedGraph, keys: RowKeys) -> dict[str, Array]:
    """The feature columns of a graph of nodes in the order of the embeddings, by name."""
    if embedded.estimator.level != "node" or not embedded.graph.columns:
        return {}
    place = _places(embedded, keys)
    return {name: values[place] for name, values in embedded.graph.columns.items()}


def keys_of(embeddings: Embeddings, *, where: str) -> RowKeys:
    """What identifies the rows of embeddings.

    Args:
        embeddings: of nodes or graphs, with the user's ids.
        where: what they are of, for messages.
    """
    table = embeddings.to_arrow()
    names = [name for name in table.column_names if name not in embeddings.names]
    columns = tuple(
        IdColumn(table[name].combine_chunks(), f"{where}, {name}s,", open_type=False)
        for name in names
    )
    return RowKeys(columns, tuple(names), where)


def _places(embedded: EmbeddedGraph, keys: RowKeys) -> Array:
    """For each embedding the number of its node or graph."""
    own = embedded.keys()
    if keys.names and len(keys.names) == len(own.names):
        return match_rows(keys, own)
    if keys.names or len(keys) != len(own):
        identified = " and ".join(keys.names) or "their numbers"
        raise InputError(
            f"The graph has {len(own)} {embedded.estimator.level}s, identified by"
            f" {' and '.join(own.names)}, and {keys.where} has {len(keys)} rows, identified by"
            f" {identified}, so they cannot be matched. Give the graph that they are of."
        )
    return np.arange(len(keys))


def appended(embeddings: Any, features: Any) -> Any:
    """Embeddings and features side by side, each divided by its root mean squared row norm.

    So neither outweighs the other by its units alone. Sparse where the features are.
    """
    first, second = _of_unit_norm(np.asarray(embeddings)), _of_unit_norm(features)
    if sp.issparse(second):
        sparse: Any = sp
        return sparse.hstack([sp.csr_matrix(first), second], format="csr")
    return np.concatenate([first, second], axis=1)


def _of_unit_norm(rows: Any) -> Any:
    values: Any = rows.data if isinstance(rows, sp.csr_matrix) else rows
    total = float(np.square(values, dtype=np.float64).sum()) / max(rows.shape[0], 1)
    return rows / np.sqrt(total) if total > 0 else rows
