"""ids.parquet: the ids of the nodes in their order, by which nodes are numbered.

Nodes are in the order of the node table, or else of ascending ids; of features without a node
table, ids are the numbers of rows.
"""

from __future__ import annotations

import glob
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from graphlatent.data.ids import is_integers, read_ids
from graphlatent.data.store.edge_tables import (
    EdgeTable,
    id_kind,
    name_literal,
    text_literal,
)
from graphlatent.data.store.layout import ROWS_PER_GROUP
from graphlatent.data.store.tables import TableFiles
from graphlatent.errors import InputError


@dataclass(frozen=True)
class NodeIds:
    """The ids of the nodes in a file.

    Args:
        path: ids.parquet.
        name: of the column.
        integers: they are int64, not text.
        num_nodes: how many there are.
        where: the table that they come from, for messages.
    """

    path: Path
    name: str
    integers: bool
    num_nodes: int
    where: str

    @property
    def sql(self) -> str:
        """The ids as a table expression with the columns id and number."""
        # Names of files are not patterns.
        name = text_literal(glob.escape(str(self.path)))
        return (
            f"(select {name_literal(self.name)} as id, file_row_number as number from"
            f" read_parquet({name}, file_row_number=true))"
        )

    @property
    def sql_type(self) -> str:
        """The type of the ids in SQL."""
        return "bigint" if self.integers else "varchar"


class IdWriter:
    """ids.parquet, written in row groups of one size, whatever came in which pieces.

    Args:
        path: the file.
        name: of the column.
        integers: ids are int64, not text.
    """

    def __init__(self, path: Path, name: str, *, integers: bool) -> None:
        self.path, self.name, self.integers, self.num_rows = path, name, integers, 0
        self._type = pa.int64() if integers else pa.string()
        self._writer = pq.ParquetWriter(path, pa.schema([(name, self._type)]))
        self._waiting = pa.chunked_array([], self._type)

    def append(self, ids: Any) -> None:
        """Write ids, a pyarrow array."""
        self.num_rows += len(ids)
        chunks = [*self._waiting.chunks, ids.cast(self._type)]
        self._waiting = pa.chunked_array(chunks, self._type)
        self._flush(len(self._waiting) // ROWS_PER_GROUP * ROWS_PER_GROUP)

    def _flush(self, size: int) -> None:
        if size:
            table = pa.table({self.name: self._waiting.slice(0, size)})
            self._writer.write_table(table, row_group_size=ROWS_PER_GROUP)
            self._waiting = self._waiting.slice(size)

    def close(self, where: str) -> NodeIds:
        """Write the rest. `where` is the table that the ids come from, for messages."""
        self._flush(len(self._waiting))
        self._writer.close()
        return NodeIds(self.path, self.name, self.integers, self.num_rows, where)


def ids_of_node_table(
    nodes: TableFiles, path: Path, edges: EdgeTable, *, id_column: str
) -> NodeIds:
    """Write the ids of a node table, in its order.

    Raises:
        InputError: where one is missing or of another type than those of the edges, or there are
            none.
    """
    read_ids(nodes.header, id_column, option="id")
    of_nodes = (
        "open" if nodes.is_text else id_kind(nodes.header.column(id_column, option="id").type)
    )
    if {of_nodes, edges.kind} == {"integers", "text"}:
        raise _other_type(edges, nodes, id_column)
    integers = "integers" in (of_nodes, edges.kind)
    if of_nodes == "open" and edges.kind != "text":
        # All of them are written as integers, or none counts as one.
        are_integers = all(
            is_integers(read_ids(block, id_column, option="id").values)
            for block in nodes.blocks([id_column], text=[id_column])
        )
        if integers and not are_integers:
            raise _other_type(edges, nodes, id_column)
        integers = are_integers
    writer = IdWriter(path, id_column, integers=integers)
    for block in nodes.blocks([id_column], text=[id_column]):
        writer.append(read_ids(block, id_column, option="id").values)
    if writer.num_rows == 0:
        raise InputError(f"{nodes.name}: there are no rows. A graph needs at least one node.")
    return writer.close(nodes.name)


def ids_of_rows(num_rows: int, path: Path, *, id_column: str, where: str) -> NodeIds:
    """Write the numbers of the rows of a feature matrix as ids."""
    writer = IdWriter(path, id_column, integers=True)
    for start in range(0, num_rows, ROWS_PER_GROUP):
        writer.append(pa.array(np.arange(start, min(start + ROWS_PER_GROUP, num_rows))))
    return writer.close(where)


def _other_type(edges: EdgeTable, nodes: TableFiles, id_column: str) -> InputError:
    own, other = ("text", "integers") if edges.kind == "integers" else ("integers", "text")
    return InputError(
        f"{nodes.name}, column '{id_column}' holds {own}, but {edges.name} holds {other} as ids."
        " Ids must be of one type in all tables: turn one of the columns into the other's type."
    )
