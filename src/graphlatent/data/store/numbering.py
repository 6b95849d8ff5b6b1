"""Edges with the numbers of their nodes, looked up by DuckDB."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow.compute as pc

from graphlatent.data.store.database import rows, stream
from graphlatent.data.store.edge_tables import EdgeTable
from graphlatent.data.store.layout import ROWS_PER_GROUP
from graphlatent.data.store.node_ids import IdWriter, NodeIds
from graphlatent.display import are, counted
from graphlatent.errors import InputError, shown

Array: TypeAlias = np.ndarray[Any, Any]
# How many ids a message shows.
_SHOWN = 10


@dataclass(frozen=True, eq=False)
class EdgeBlock:
    """Some edges, numbered.

    Args:
        source: numbers of nodes, int64 [R].
        target: the same.
        weight: float64 [R], NaN where missing, or None.
        num_rows: rows of the table, those of unknown nodes included.
    """

    source: Array
    target: Array
    weight: Array | None
    num_rows: int


def check_edges(connection: Any, edges: EdgeTable) -> int:
    """The number of edges. Raises `InputError` where an id is no exact integer."""
    inexact = f"count(*) filter ({edges.inexact})" if edges.inexact else "0"
    query = f"select count(*), {inexact} from {edges.scan}"
    ((num_rows, num_inexact),) = rows(connection, query)
    if num_inexact:
        raise InputError(
            f"{edges.name}: ids must be integers of 64 bits or text, and"
            f" {are(num_inexact, 'id')} NaN, infinite, no whole number, or so large that different"
            " integers may be the same float. Read the columns as integers or as text."
        )
    return int(num_rows)


def ids_of_edges(connection: Any, edges: EdgeTable, path: Path, *, id_column: str) -> NodeIds:
    """Write the ids that the edges name, ascending.

    Raises:
        InputError: where one is missing, or there are none.
    """
    integers = edges.kind == "integers" or edges.all_integers
    ids = edges.sql(ids="bigint" if integers else "varchar")
    connection.execute(f"create table found as select s as id from {ids} union select t from {ids}")
    _refuse_missing(connection, edges)
    writer = IdWriter(path, id_column, integers=integers)
    for batch in stream(connection, "select id from found order by id", ROWS_PER_GROUP):
        writer.append(batch.column(0))
    connection.execute("drop table found")
    if writer.num_rows == 0:
        raise InputError(
            f"{edges.name}: there are no rows, and no node table names the nodes. Give at least one"
            " edge, or a node table by the option 'nodes'."
        )
    return writer.close(edges.name)


def _refuse_missing(connection: Any, edges: EdgeTable) -> None:
    if rows(connection, "select count(*) from found where id is null") != [(0,)]:
        raise InputError(_missing(connection, edges))


def _missing(connection: Any, edges: EdgeTable) -> str:
    """What to say of edges without an id; empty where there are none."""
    query = "select count(*) filter (s is null), count(*) filter (t is null)"
    (counts,) = rows(connection, f"{query} from {edges.sql()}")
    for column, count in zip((edges.source, edges.target), counts, strict=True):
        if count:
            missing = f"{are(count, 'id')} missing"
            return f"{edges.name}, column {column}: {missing}. Fill them or drop the rows."
    return ""


def refuse_repeated(connection: Any, ids: NodeIds) -> None:
    """Raise an `InputError` where several nodes have one id."""
    repeated = f"select id from {ids.sql} group by id having count(*) > 1"
    found = rows(connection, f"{repeated} order by id limit {_SHOWN}")
    if found:
        ((count,),) = rows(connection, f"select count(*) from ({repeated})")
        raise InputError(
            f"{ids.where}: every node must have one row, and {counted(count, 'id')}"
            f" {'has' if count == 1 else 'have'} several: {_listed(found, count)}. Drop the others."
        )


def numbered_edges(
    connection: Any, edges: EdgeTable, ids: NodeIds, *, chunk: int
) -> Generator[EdgeBlock, None, None]:
    """The edges whose nodes are among `ids`, with their numbers, about `chunk` at a time."""
    weight = "" if edges.weight is None else ", w"
    query = (
        f"with numbers as {ids.sql} select a.number, b.number{weight}"
        f" from {edges.sql(ids=ids.sql_type)} e"
        " left join numbers a on e.s = a.id left join numbers b on e.t = b.id"
    )
    for batch in stream(connection, query, chunk):
        columns = batch.columns
        if columns[0].null_count or columns[1].null_count:
            known = pc.and_(columns[0].is_valid(), columns[1].is_valid())
            columns = [column.filter(known) for column in columns]
        arrays = [column.to_numpy(zero_copy_only=False) for column in columns]
        weights = arrays[2].astype(np.float64, copy=False) if weight else None
        yield EdgeBlock(arrays[0], arrays[1], weights, batch.num_rows)


def unknown_nodes(connection: Any, edges: EdgeTable, ids: NodeIds) -> str:
    """The first ids that edges name and that are not among `ids`, in words.

    Raises:
        InputError: where an edge names none.
    """
    missing = _missing(connection, edges)
    if missing:
        raise InputError(missing)
    given = edges.sql()
    # As text: among integers, an id that is none is unknown.
    query = (
        f"select distinct id from (select cast(s as varchar) as id from {given} union all select"
        f" cast(t as varchar) from {given}) anti join (select cast(id as varchar) as id from"
        f" {ids.sql}) using (id)"
    )
    order = "try_cast(id as bigint), id" if ids.integers else "id"
    found = rows(connection, f"select id from ({query}) order by {order} limit {_SHOWN}")
    ((count,),) = rows(connection, f"select count(*) from ({query})")
    if edges.kind == "integers":
        found = [(int(row[0]),) for row in found]
    return _listed(found, count)


def _listed(found: Sequence[tuple[Any, ...]], count: int) -> str:
    """Ids as a message shows them, and how many more there are."""
    names = ", ".join(shown(row[0]) for row in found)
    return names if count <= len(found) else f"{names} and {count - len(found):,} more"
