"""How an estimator reads graphs, those for a fitted model as the fitted ones were read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from graphlatent.data.column_spec import ColumnSpec
from graphlatent.data.graph import GraphData
from graphlatent.data.readers.arrow import is_table, table_suffix
from graphlatent.data.readers.networkx import is_networkx
from graphlatent.data.readers.options import TableOptions
from graphlatent.data.readers.python_objects import has_ids
from graphlatent.data.readers.read import read_graphs
from graphlatent.data.readers.stores import is_store_path
from graphlatent.data.readers.text_content import STANDARD_INPUT
from graphlatent.errors import ConfigError


def read_with(
    source: Any, *, symmetrize: bool, options: TableOptions | None, owner: str
) -> GraphData:
    """The graphs in `source` as `read_graphs` returns them.

    Raises:
        ConfigError: where directions are to be kept and were given up before.
    """
    graph = read_graphs(source, symmetrize=symmetrize, options=options)
    if not symmetrize and graph.symmetrized:
        raise ConfigError(
            f"symmetrize=False of {owner} came too late: this graph was already"
            " read in both directions. Read it with read_graphs(..., symmetrize=False)."
        )
    return graph


def later_options(
    source: Any, fitted: TableOptions, columns: Sequence[ColumnSpec]
) -> TableOptions | None:
    """The options to read a source with that is given to a fitted model.

    Args:
        source: as it is given to `read_graphs`.
        fitted: the options of the graphs that the model was fitted on.
        columns: how it encodes columns.

    Returns:
        Options without labels, which new nodes need not have, and without a last time; None for a
        source that has no names of columns or attributes.
    """
    # Later edges are what it may be about.
    fitted, first = fitted.without_until(), source
    while isinstance(first, list) and first:
        first = first[0]
    is_pair = isinstance(first, tuple) and len(first) == 2 and first[1] is not None
    first = first[0] if isinstance(first, tuple) and first else first
    if is_networkx(first) or _suffix(first) in (".gml", ".graphml"):
        return fitted.without_labels().without_tables()
    if not is_table(first) and (_suffix(first) is None or table_suffix(Path(first)) is None):
        return None
    if not is_pair:
        return fitted.without_nodes()
    return with_codes(fitted.without_labels(), columns)


def remembered_options(options: TableOptions, source: Any) -> TableOptions:
    """The options of other graphs for `source`: those about tables only where it is in tables.

    A store has those of its own tables.
    """
    if is_store_path(source):
        return TableOptions(impute=options.impute, unknown=options.unknown)
    first = source[0] if isinstance(source, tuple) and source else source
    suffix = _suffix(first)
    if suffix is not None:
        in_tables = str(first) == STANDARD_INPUT or table_suffix(Path(first)) is not None
    else:
        in_tables = is_table(first) or has_ids(first)
    return options if in_tables else options.without_tables()


def with_codes(options: TableOptions, columns: Sequence[ColumnSpec]) -> TableOptions:
    """The options with all columns of categories as text, for a node table.

    Codes of digits would otherwise be read as numbers where a later table has no other codes.
    """
    codes = {column.name for column in columns if column.kind == "categorical"}
    return replace(options, text=tuple(sorted(codes.union(options.text) - set(options.drop))))


def _suffix(source: Any) -> str | None:
    """The end of a path's name; None for anything but a path."""
    return Path(source).suffix.lower() if isinstance(source, str | Path) else None
