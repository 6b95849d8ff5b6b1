"""`ingest`: tables of edges and nodes, of any size, as a store, within a limit of memory.

Stages: the tables are checked, ids are numbered, edges are looked up and written in sorted runs,
the runs are merged into rows, and features are written in the order of the nodes.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from graphlatent.data.edge_notes import EdgeFacts, no_edges, notes_of_changes, notes_of_edges
from graphlatent.data.memory_limit import memory_limit, parse_memory
from graphlatent.data.readers.options import TableOptions, unused_edge_columns
from graphlatent.data.store.adjacency import (
    WIDE_FROM,
    AdjacencyOptions,
    AdjacencyWriter,
    EdgeCounts,
    check_weights,
    enter_edges,
)
from graphlatent.data.store.budget import MemoryBudget
from graphlatent.data.store.database import database, imported_duckdb
from graphlatent.data.store.edge_tables import EdgeTable, edge_table
from graphlatent.data.store.layout import FORMAT, IDS, is_store, read_manifest, write_manifest
from graphlatent.data.store.node_features import (
    NO_FEATURES,
    WrittenFeatures,
    columns_to_write,
    feature_rows,
    write_columns,
    write_matrix,
)
from graphlatent.data.store.node_ids import NodeIds, ids_of_node_table, ids_of_rows
from graphlatent.data.store.numbering import (
    check_edges,
    ids_of_edges,
    numbered_edges,
    refuse_repeated,
    unknown_nodes,
)
from graphlatent.data.store.runs import SortedRuns
from graphlatent.data.store.store import GraphStore
from graphlatent.data.store.tables import TableFiles, table_files
from graphlatent.data.store.workspace import (
    put_in_place,
    refuse_files_of_others,
    refuse_other,
    resolved,
    workspace,
)
from graphlatent.display import counted
from graphlatent.errors import InputError, OutputError, bad_argument, warn

# DuckDB starts as many at once, and a typo should not.
_MOST_THREADS = 1024

UnknownNodes: TypeAlias = Literal["error", "drop"]
Told: TypeAlias = Callable[[str, int], None]
"""Is called with a stage in words and the number of rows that it has done."""


@dataclass(frozen=True)
class IngestOptions:
    """What becomes of the tables.

    Args:
        reading: which columns mean what.
        directed: keep the directions of edges; otherwise every edge is there in both.
        unknown: whether edges that name nodes which the node table does not have are an 'error' or
            left out, 'drop'.
        wide_from: of so many nodes, their numbers are stored in 64 bits.
    """

    reading: TableOptions = field(default_factory=TableOptions)
    directed: bool = False
    unknown: UnknownNodes = "error"
    wide_from: int = WIDE_FROM

    def __post_init__(self) -> None:
        if self.unknown not in get_args(UnknownNodes):
            raise InputError(
                "The option 'unknown' must be 'error' or 'drop' (leave such edges out). Got"
                f" {self.unknown!r}."
            )
        given = self.reading
        for name in ("smiles", "bipartite", "time", "edge_features"):
            if getattr(given, name):
                raise InputError(
                    f"The option '{name}' is not for stores, which hold one graph with weights."
                    " Leave it out."
                )


@dataclass(frozen=True)
class _Input:
    """The tables, and the file of a feature matrix."""

    edges: TableFiles
    nodes: TableFiles | None
    matrix: Path | None
    options: IngestOptions

    def fingerprint(self) -> str:
        """A SHA-256 over files, sizes, times of change and options."""
        matrix = None if self.matrix is None else self.matrix.stat()
        parts = [
            FORMAT,
            self.edges.fingerprint(),
            None if self.nodes is None else self.nodes.fingerprint(),
            None if matrix is None else (str(self.matrix), matrix.st_size, matrix.st_mtime_ns),
            self.options.reading.to_dict(),
            self.options.directed,
            self.options.unknown,
            self.options.wide_from,
        ]
        return hashlib.sha256(json.dumps(parts).encode("utf-8", "backslashreplace")).hexdigest()


def ingest(
    edges: str | Path,
    out: str | Path,
    *,
    nodes: str | Path | None = None,
    features: str | Path | None = None,
    options: IngestOptions | None = None,
    memory: int | str | None = None,
    threads: int | None = None,
    overwrite: bool = False,
    told: Told = lambda stage, rows: None,
) -> tuple[GraphStore, bool]:
    """A store of the graph in the tables.

    Args:
        edges: edge table: a file (.parquet, .csv, .tsv, .txt, these also .gz), a folder of such
            files, or a pattern.
        out: the folder to write.
        nodes: the node table, in the same forms; without one, nodes are those that edges name, in
            ascending order of their ids.
        features: a matrix in a `.npy` file, or a SciPy CSR matrix in a `.npz` file, with rows in
            the order of the node table; without a node table, ids are numbers of rows.
        options: which columns mean what, and directions; None for the defaults.
        memory: what this process may take, in bytes or as text such as '4GB'; None for half of what
            is available.
        threads: of DuckDB; None for all cores.
        overwrite: replace a store of another input.
        told: is called with the stage and the number of rows that it has done.

    Returns:
        The store, and whether it was written: not where it was there already, of the same input.

    Raises:
        InputError: where the tables cannot be used, or the memory is too small.
        OutputError: where the store cannot be written.
        MissingDependencyError: where DuckDB is not installed.
    """
    imported_duckdb()
    # Where it is a link, the store that it names is replaced, and the link stays.
    options, out = options or IngestOptions(), resolved(Path(out))
    limit = (
        memory_limit() if memory is None else parse_memory(memory, owner="ingest", name="memory")
    )
    given = _checked_input(edges, nodes, features, options)
    refuse_other(out)
    fingerprint = given.fingerprint()
    if is_store(out):
        if read_manifest(out).get("input") == fingerprint:
            return GraphStore.open(out, verify=False), False
        if not overwrite:
            raise OutputError(
                f"{out} is a store of another input, or of other options. Choose another path, or"
                " allow replacing it (--overwrite, overwrite=True)."
            )
        refuse_files_of_others(out)
    budget = MemoryBudget.of(limit)
    num_threads = _checked_threads(threads)
    with workspace(out) as folder:
        built = folder / "store"
        built.mkdir()
        about, files = _build(given, built, folder, budget, num_threads, told)
        told("checksums", 0)
        write_manifest(built, {**about, "input": fingerprint}, files)
        put_in_place(built, out)
    return GraphStore.open(out, verify=False), True


def _checked_threads(threads: int | None) -> int:
    if threads is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2
    allowed = f"a whole number from 1 to {_MOST_THREADS}, or None"
    if isinstance(threads, bool) or not isinstance(threads, int):
        raise bad_argument("threads", owner="ingest", allowed=allowed, got=threads)
    if not 1 <= threads <= _MOST_THREADS:
        raise bad_argument("threads", owner="ingest", allowed=allowed, got=threads)
    return threads


def _checked_input(
    edges: str | Path, nodes: str | Path | None, features: str | Path | None, options: IngestOptions
) -> _Input:
    reading = options.reading
    if nodes is None and (reading.labels or reading.features or reading.text or reading.hash):
        raise InputError(
            "The options 'label', 'features_columns', 'text' and 'hash' name columns of a node"
            " table, and none was given. Give the option 'nodes' as well."
        )
    if features is not None and reading.features is not None:
        raise InputError(
            "Features come from a matrix (option 'features') or from columns (option"
            " 'features_columns'), not from both. Leave one of them out."
        )
    if features is not None:
        # It must be there before hours of work.
        feature_rows(Path(features))
    given = _Input(
        table_files(edges, role="edges", options=reading),
        None if nodes is None else table_files(nodes, role="nodes", options=reading),
        None if features is None else Path(features).absolute(),
        options,
    )
    for table in (given.edges, given.nodes):
        if table is not None and reading.graph in (table.header.columns if reading.graph else ()):
            raise InputError(
                f"{table.name} has a column '{reading.graph}' that names graphs, and a store holds"
                " one graph. Take the column out, or write each graph to a store of its own."
            )
    return given


def _build(
    given: _Input, built: Path, folder: Path, budget: MemoryBudget, threads: int, told: Told
) -> tuple[dict[str, Any], list[str]]:
    """Write all files but the manifest. Returns what the manifest says, and the files' names."""
    reading, options = given.options.reading, given.options
    columns = [] if given.nodes is None else columns_to_write(given.nodes, reading)
    told("reading edges", 0)
    edges = edge_table(given.edges, reading, folder)
    counts = EdgeCounts()
    with ExitStack() as stack:
        with database(folder, budget, threads=threads) as connection:
            num_rows = check_edges(connection, edges)
            told("numbering nodes", num_rows)
            ids = _write_ids(given, edges, built / IDS, connection)
            budget.require_nodes(ids.num_nodes)
            adjacency = AdjacencyOptions(
                ids.num_nodes,
                weighted=edges.weight is not None,
                merge=reading.merge or "max",
                symmetrize=not options.directed,
            )
            runs = stack.enter_context(closing(SortedRuns(folder, weighted=adjacency.has_weights)))
            blocks = numbered_edges(connection, edges, ids, chunk=budget.chunk)
            enter_edges(
                blocks,
                runs,
                adjacency,
                counts,
                lambda rows: told("numbering edges", rows),
                where=edges.name,
            )
            dropped = ""
            if counts.num_rows < num_rows:
                unknown = unknown_nodes(connection, edges, ids)
                dropped = _of_unknown(num_rows - counts.num_rows, unknown, given, options.unknown)
        check_weights(counts, where=edges.name)
        writer = AdjacencyWriter(built, adjacency, counts, options.wide_from)
        size = budget.bucket(ids.num_nodes)
        told("sorting edges", 0)
        files = writer.write(runs, size, lambda rows: told("sorting edges", rows))
    features = _write_features(given, columns, built, ids, budget, told)
    about = _about(given, edges, ids, counts, features, dropped)
    return about, [*files, IDS, *features.files]


def _write_ids(given: _Input, edges: EdgeTable, path: Path, connection: Any) -> NodeIds:
    id_column = given.options.reading.id
    if given.nodes is not None:
        ids = ids_of_node_table(given.nodes, path, edges, id_column=id_column)
        refuse_repeated(connection, ids)
        if given.matrix is not None and feature_rows(given.matrix) != ids.num_nodes:
            raise InputError(
                f"{given.matrix}: features must have one row per node. Got"
                f" {counted(feature_rows(given.matrix), 'row')} for"
                f" {counted(ids.num_nodes, 'node')} in {ids.where}."
            )
        return ids
    if given.matrix is None:
        return ids_of_edges(connection, edges, path, id_column=id_column)
    if edges.kind == "text" or (edges.kind == "open" and not edges.all_integers):
        raise InputError(
            f"{edges.name}: with the option 'features' and no node table, ids must be the numbers"
            " of rows of the matrix, from 0. Got text. Give a node table by the option 'nodes'."
        )
    where = f"features ({given.matrix.name})"
    return ids_of_rows(feature_rows(given.matrix), path, id_column=id_column, where=where)


def _of_unknown(count: int, ids: str, given: _Input, unknown: UnknownNodes) -> str:
    """The note about edges that were left out. Raises where they are an error."""
    nodes = given.nodes.name if given.nodes is not None else "the feature matrix"
    edges = f"{given.edges.name}: {counted(count, 'edge')}"
    verb = "names" if count == 1 else "name"
    if unknown == "error":
        raise InputError(
            f"{edges} {verb} nodes that {nodes} does not have: {ids}. Add the nodes, or leave such"
            " edges out with the option 'unknown' (unknown='drop', --unknown drop)."
        )
    return f"{edges} left out that {verb} nodes which {nodes} does not have: {ids}."


def _write_features(
    given: _Input, columns: list[str], built: Path, ids: NodeIds, budget: MemoryBudget, told: Told
) -> WrittenFeatures:
    reading = given.options.reading
    if given.nodes is not None and (columns or reading.labels):
        # Beside a matrix, of the node table only ids and labels are used.
        features = write_columns(
            given.nodes,
            columns if given.matrix is None else [],
            reading,
            built,
            num_nodes=ids.num_nodes,
            memory=budget.column_bytes,
            told=lambda number: told("writing columns", 0),
        )
    else:
        features = NO_FEATURES
    if given.matrix is None:
        return features
    told("writing features", ids.num_nodes)
    matrix = write_matrix(given.matrix, built, num_nodes=ids.num_nodes)
    return replace(matrix, labels=features.labels, files=(*matrix.files, *features.files))


def _about(
    given: _Input,
    edges: EdgeTable,
    ids: NodeIds,
    counts: EdgeCounts,
    features: WrittenFeatures,
    dropped: str,
) -> dict[str, Any]:
    """What the manifest says of the graph; warns of what changes embeddings."""
    reading, directed = given.options.reading, given.options.directed
    merge = reading.merge
    by_rule = merge not in (None, "max")
    loops, symmetric = counts.num_self_loops, counts.is_symmetric
    # As `clean_edges` counts: edges that were there both ways before any were added.
    final = counts.num_edges if not directed else counts.num_distinct
    both_ways = (final - loops) // 2 - (final - counts.num_distinct)
    listed_twice = (counts.num_distinct - loops) // 2 if by_rule and symmetric else 0
    facts = EdgeFacts(
        num_edges=counts.num_edges,
        num_merged=counts.num_rows - counts.num_distinct,
        num_both_ways=both_ways,
        num_listed_twice=0 if directed else listed_twice,
        num_self_loops=loops,
        num_isolated=counts.num_isolated,
        symmetrized=not directed and not symmetric,
        weighted=edges.weight is not None or by_rule,
        came_weighted=edges.weight is not None,
    )
    notes = {**given.edges.header.notes, **(given.nodes.header.notes if given.nodes else {})}
    used = (reading.source, reading.target, reading.weight or "weight")
    unused = [name for name in given.edges.header.columns if name not in used]
    notes |= unused_edge_columns(
        unused, where=given.edges.name, weighted=reading.weight is not None
    )
    keep = "directed=True (on the command line --directed)"
    changes = notes_of_changes(facts, merge, keep_directions=keep)
    important = [*notes.values(), *changes, *([dropped] if dropped else [])]
    for note in important:
        warn(note)
    if counts.num_edges == 0:
        warn(no_edges(1))
    elif edges.weight is not None and not counts.any_weight:
        warn("All edge weights are 0: every node is embedded from its own features alone.")
    return {
        "num_nodes": ids.num_nodes,
        "num_edges": counts.num_edges,
        "num_self_loops": loops,
        "undirected": not directed or symmetric,
        "symmetrized": facts.symmetrized,
        "id_name": ids.name,
        "features": features.about,
        "labels": list(features.labels),
        "notes": [*important, *notes_of_edges(facts, merge)],
        "reading": reading.to_dict(),
    }
