"""Where the input of a run was read from, as its `results.json` says: for reading it once more."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from graphlatent.io.regular_files import exists, read_regular


@dataclass(frozen=True)
class InputPlace:
    """A file, folder or data set's name, and the node table that goes with it.

    Args:
        source: of the graph.
        nodes: the node table; None where there is none.
    """

    source: str
    nodes: str | None = None


def input_place(source: str, nodes: Path | None) -> dict[str, Any]:
    """The place in plain values; paths are absolute, so that they hold in any folder.

    None for standard input, which cannot be read again.
    """
    if source == "-":
        return {"source": None, "node_table": None}
    return {
        "source": str(Path(source).absolute()) if exists(source) else source,
        "node_table": None if nodes is None else str(nodes.absolute()),
    }


def place_in_results(path: Path) -> InputPlace | None:
    """The place in a `results.json`; None where there is no such file, or it does not say."""
    try:
        about = json.loads(read_regular(path).decode("utf-8")).get("input", {})
        source, nodes = about.get("source"), about.get("node_table")
    except (OSError, ValueError, RecursionError, AttributeError):
        return None
    if not isinstance(source, str) or not (nodes is None or isinstance(nodes, str)):
        return None
    return InputPlace(source, nodes)
