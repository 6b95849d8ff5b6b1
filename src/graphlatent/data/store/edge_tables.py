"""The edge table as Parquet files that DuckDB can scan, with the columns that are used checked.

Parquet files are scanned as they are. Text is read once, as `read_graphs` reads it, and written to
one Parquet file beside the store that is being built.
"""

from __future__ import annotations

import glob
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from graphlatent.data.ids import EXACT_INTEGERS, is_integers, read_ids
from graphlatent.data.readers.arrow import LoadedTable
from graphlatent.data.readers.options import TableOptions
from graphlatent.data.store.tables import TableFiles
from graphlatent.errors import InputError
from graphlatent.io.regular_files import refusing_damage

IdKind: TypeAlias = Literal["integers", "text", "open"]
"""What ids are by the type of their column; 'open' in a text file, which does not say."""


@dataclass(frozen=True)
class EdgeTable:
    """Edges in Parquet files, as DuckDB reads them.

    Args:
        paths: the files.
        source: the expression of the id of an edge's start, in SQL.
        target: the same of its end.
        weight: the same of its weight, or None.
        kind: of the ids.
        inexact: a condition that holds for ids that are floats and no exact integers, or None.
        name: the table, for messages.
        all_integers: of ids of kind 'open', whether each is written as an integer is.
    """

    paths: tuple[Path, ...]
    source: str
    target: str
    weight: str | None
    kind: IdKind
    name: str
    inexact: str | None = None
    all_integers: bool = False

    def sql(self, *, ids: str | None = None) -> str:
        """The edges as a table expression with the columns s, t and, where there are any, w.

        Args:
            ids: the SQL type to give ids; None for that of their kind.
        """
        given = "bigint" if self.kind == "integers" else "varchar"
        ends = [_as(each, given, ids) for each in (self.source, self.target)]
        weight = "" if self.weight is None else f", {self.weight} as w"
        return f"(select {ends[0]} as s, {ends[1]} as t{weight} from {self.scan})"

    @property
    def scan(self) -> str:
        """The files as a table expression."""
        # Names of files are not patterns.
        names = ", ".join(text_literal(glob.escape(str(path))) for path in self.paths)
        return f"read_parquet([{names}], hive_partitioning=false)"


def _as(expression: str, given: str, wanted: str | None) -> str:
    cast = f"cast({expression} as {given})"
    if wanted in (None, given):
        return cast
    # Text such as '007' is not the integer 7.
    number = f"try_cast({cast} as bigint)"
    return f"case when cast({number} as varchar) = {cast} then {number} end"


def text_literal(text: str) -> str:
    """A text in SQL."""
    return "'" + text.replace("'", "''") + "'"


def name_literal(name: str) -> str:
    """The name of a column in SQL."""
    return '"' + name.replace('"', '""') + '"'


def edge_table(files: TableFiles, options: TableOptions, folder: Path) -> EdgeTable:
    """The edges of a table.

    Args:
        files: the table.
        options: which columns mean what.
        folder: where to write a file, if one is needed.

    Raises:
        InputError: where a column is not there or cannot be used, or an id or a weight is missing.
    """
    header = files.header
    weight = options.weight or ("weight" if "weight" in header.columns else None)
    for name, option in ((options.source, "source"), (options.target, "target")):
        # It refuses columns that are not there, or of types that cannot be ids.
        read_ids(header, name, option=option)
    if weight is not None:
        header.column(weight, option="weight")
    if files.is_text:
        return _from_text(files, options, weight, folder)
    return _from_parquet(files, options, weight)


def _from_parquet(files: TableFiles, options: TableOptions, weight: str | None) -> EdgeTable:
    kinds: dict[IdKind, str] = {}
    inexact: set[str] = set()
    for path in files.paths:
        with refusing_damage(f"{files.name}: {path} cannot be read as Parquet"):
            schema = pq.read_schema(path)
        table = LoadedTable(schema.empty_table(), files.name)
        for name, option in ((options.source, "source"), (options.target, "target")):
            read_ids(table, name, option=option)
            kind = table.column(name, option=option).type
            kinds.setdefault(id_kind(kind), f"{path.name}, column '{name}',")
            if pa.types.is_floating(kind):
                most = EXACT_INTEGERS[kind.to_pandas_dtype()]
                of = name_literal(name)
                inexact.add(f"not (isfinite({of}) and {of} = trunc({of}) and abs({of}) <= {most})")
        if weight is not None:
            _check_weight(table.column(weight, option="weight").type, weight, files.name)
    if {"integers", "text"} <= set(kinds):
        raise InputError(
            f"{files.name}: {kinds['integers']} holds integers, but {kinds['text']} holds text. Ids"
            " must be of one type in all tables: turn one of the columns into the other's type."
        )
    return EdgeTable(
        files.paths,
        name_literal(options.source),
        name_literal(options.target),
        None if weight is None else f"cast({name_literal(weight)} as double)",
        next((kind for kind in ("integers", "text") if kind in kinds), "text"),
        files.name,
        inexact=" or ".join(sorted(inexact)) or None,
    )


def id_kind(kind: Any) -> IdKind:
    """What ids of a pyarrow type are; 'open' where there is none, since all are missing."""
    if pa.types.is_null(kind):
        return "open"
    return "integers" if pa.types.is_integer(kind) or pa.types.is_floating(kind) else "text"


def _check_weight(kind: Any, name: str, where: str) -> None:
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_null)
    if not any(is_kind(kind) for is_kind in tests):
        raise InputError(
            f"{where}: weight column '{name}' must hold numbers. Got values of type {kind}."
        )


def _from_text(
    files: TableFiles, options: TableOptions, weight: str | None, folder: Path
) -> EdgeTable:
    path = folder / "edges.parquet"
    columns = [options.source, options.target, *([] if weight is None else [weight])]
    ends = {"s": (options.source, "source"), "t": (options.target, "target")}
    schema = pa.schema([(name, pa.string()) for name in ends])
    schema = schema if weight is None else schema.append(pa.field("w", pa.float64()))
    all_integers = True
    with pq.ParquetWriter(path, schema) as writer:
        for block in files.blocks(
            columns, text=columns[:2], numbers=[] if weight is None else [weight]
        ):
            ids = [read_ids(block, name, option=option).values for name, option in ends.values()]
            all_integers = all_integers and all(map(is_integers, ids))
            if weight is not None:
                ids.append(block.column(weight, option="weight"))
            writer.write_table(pa.Table.from_arrays(ids, schema=schema))
    return EdgeTable(
        (path,), "s", "t", None if weight is None else "w", "open", files.name, None, all_integers
    )
