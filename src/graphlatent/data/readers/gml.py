"""Graphs out of GML files, read by NetworkX.

Nodes are named by their labels where every node has one of its own, else by their numbers ('id').
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

from graphlatent.data.graph import RawGraph
from graphlatent.data.memory_limit import readable, require_memory
from graphlatent.data.readers.networkx import read_networkx
from graphlatent.data.readers.options import TableOptions
from graphlatent.data.readers.text_content import as_utf8
from graphlatent.errors import InputError, missing_package
from graphlatent.io.regular_files import open_regular, refusing_damage, regular_file

# Memory for each byte of text: the lines, and the dictionaries of nodes and edges.
_BYTES_PER_BYTE = 20
_MULTIGRAPH = re.compile(r"^[ \t]*multigraph[ \t]+[01][ \t]*$", re.MULTILINE)
_GRAPH = re.compile(r"^(\s*graph)\s*(\[)", re.MULTILINE)


def read_gml(path: Path, *, options: TableOptions | None = None) -> RawGraph:
    """The graph in a GML file; an edge may be there more than once, whatever the file says.

    Args:
        path: a regular file.
        options: which attributes mean what, as for NetworkX graphs; `encoding` of the text.

    Raises:
        InputError: where it is no such file, or needs more memory than it may take.
        MissingDependencyError: where NetworkX is not installed.
    """
    options = options or TableOptions()
    try:
        networkx: Any = importlib.import_module("networkx")
    except ImportError as error:
        raise missing_package("networkx", needed_for=f"reading {path}") from error
    size = regular_file(path)
    require_memory(_BYTES_PER_BYTE * size, what=f"{path}, a file of {readable(size)},")
    with refusing_damage(f"{path} cannot be read as GML"):
        with open_regular(path) as file:
            text = as_utf8(file.read(), str(path), options.encoding).decode("utf-8")
        # Files of undirected graphs often list an edge twice, which NetworkX refuses otherwise.
        text = _GRAPH.sub(r"\1 \2 multigraph 1", _MULTIGRAPH.sub("", text), count=1)
        graph = networkx.parse_gml(text.splitlines(), label="id")
    if len(graph) == 0:
        raise InputError(f"{path} has no nodes. A graph needs at least one node.")
    return read_networkx(_named(networkx, graph, options), options=options, name=path.name)


def _named(networkx: Any, graph: Any, options: TableOptions) -> Any:
    """The graph with labels for the names of its nodes, where they tell these apart."""
    labels = [data.get("label") for _, data in graph.nodes(data=True)]
    wanted = (*options.labels, *(options.features or ()))
    if None in labels or len(set(map(str, labels))) < len(labels) or "label" in wanted:
        return graph
    for _, data in graph.nodes(data=True):
        del data["label"]
    return networkx.relabel_nodes(graph, dict(zip(graph, labels, strict=True)))
