"""Graphs from files and folders.

The suffix of a file, or the contents of a folder, determine the reader.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from graphlatent.data.graph import RawGraph
from graphlatent.data.readers.arrow import TABLE_SUFFIXES, table_suffix
from graphlatent.data.readers.gml import read_gml
from graphlatent.data.readers.graphml import read_graphml
from graphlatent.data.readers.npz import read_npz
from graphlatent.data.readers.options import TableOptions
from graphlatent.data.readers.tables import read_tables
from graphlatent.data.readers.tu import EDGE_FILES, find_tu, read_tu
from graphlatent.errors import InputError
from graphlatent.io.regular_files import exists, files_of, is_folder, regular_file

ACCEPTED = (
    "edge tables (.csv, .tsv, .txt, these also .gz or .zip, .parquet, or - for standard input),"
    " .gml files, .graphml files or a folder of them,"
    " gnn-benchmark .npz files, and folders in the TU layout (NAME_A.txt, NAME_graph_indicator.txt,"
    " ...)"
)


def read_path(
    path: str | Path, *, nodes: Any = None, options: TableOptions | None = None
) -> list[RawGraph]:
    """The graphs in a file or a folder.

    Args:
        path: an edge table, a .gml file, a .graphml file or a folder of such files (one graph each,
            in the order of their names), a gnn-benchmark .npz file, or a folder in the TU layout.
        nodes: the node table that goes with an edge table (path, DataFrame or pyarrow Table).
        options: which columns mean what, in tables and in GML and GraphML attributes.

    Raises:
        InputError: where there is no such file, or it is of another kind, or damaged.
    """
    path = Path(path)
    if not exists(path):
        raise InputError(
            f"There is no file or folder {path}. Check the path. Accepted are {ACCEPTED}."
        )
    if not is_folder(path):
        regular_file(path)
        if table_suffix(path) is not None:
            return read_tables(path, nodes, options=options)
    if nodes is not None:
        raise InputError(
            f"A node table goes with an edge table ({', '.join(TABLE_SUFFIXES)}) only, but {path}"
            " is none. Leave the option 'nodes' out."
        )
    if options is not None and options.bipartite:
        raise InputError(
            "The option 'bipartite' tells the ids in the two columns of an edge table apart, but"
            f" {path} is none. Leave it out."
        )
    if is_folder(path):
        return _read_folder(path, options)
    if options is not None and path.suffix.lower() in (".graphml", ".gml"):
        options.refuse_of_tables(str(path))
    if path.suffix.lower() == ".graphml":
        return read_graphml(path, options=options)
    if path.suffix.lower() == ".gml":
        return [read_gml(path, options=options)]
    if path.suffix.lower() == ".npz":
        if options is not None:
            options.refuse_names(str(path))
        return [read_npz(path)]
    raise InputError(f"{path} is of no kind that can be read. Accepted are {ACCEPTED}.")


def _unused_tu_files(place: Path, name: str, used: Sequence[str]) -> dict[str, str]:
    """A note on the files of a TU data set that describe edges and are not used."""
    files = {what: f"{name}_{what}.txt" for what in EDGE_FILES if what not in used}
    unused = {what: file for what, file in files.items() if exists(place / file)}
    if not unused:
        return {}
    return {
        "files": f"{name}: {', '.join(unused.values())} is not used. The option 'edge_features'"
        f" ({', '.join(unused)}) makes features of edges of it."
    }


def _read_folder(folder: Path, options: TableOptions | None) -> list[RawGraph]:
    found = find_tu(folder)
    if found is not None:
        if options is not None:
            options.refuse_names(str(folder), allowed="edge_features")
        used = (options and options.edge_features) or ()
        first, *others = read_tu(folder, edge_features=used)
        return [replace(first, notes=_unused_tu_files(*found, used)), *others]
    files = [p for p in files_of(folder) if p.suffix.lower() == ".graphml"]
    if not files:
        raise InputError(
            f"The folder {folder} holds nothing that can be read. Accepted are {ACCEPTED}."
        )
    if options is not None:
        options.refuse_of_tables(str(folder))
    graphs = []
    for file in files:
        several = read_graphml(file, options=options)
        # A graph without an id has its number.
        ids = [str(i) if g.graph_id is None else g.graph_id for i, g in enumerate(several)]
        names = [file.stem] if len(several) == 1 else [f"{file.stem}/{each}" for each in ids]
        graphs += [
            replace(graph, graph_id=graph_id)
            for graph, graph_id in zip(several, names, strict=True)
        ]
    (most, count), *_ = Counter(g.graph_id for g in graphs).most_common(1)
    if count > 1:
        raise InputError(
            f"The folder {folder} has {count} graphs that would have the id {most!r}, from the"
            " names of the files and the ids of the graphs in them. Rename a file or a graph."
        )
    return graphs
