"""Parquet files as pyarrow tables, read within the memory limit.

A Parquet file of a few kilobytes can hold gigabytes, since a value that occurs in many rows is
stored once.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from graphlatent.data.memory_limit import exceeded, memory_limit, readable, require_memory
from graphlatent.io.regular_files import refusing_damage, regular_file

# Bytes of a value in memory; of text, the place where it starts.
_WIDTH = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4, "BYTE_ARRAY": 4}
_TEXT = "BYTE_ARRAY"
# Checksums of pages, where the file has them; pyarrow compares them from version 15 on.
_CHECKSUMS = "page_checksum_verification"
_VERIFIED: dict[str, Any] = (
    {_CHECKSUMS: True} if _CHECKSUMS in inspect.signature(pq.ParquetFile).parameters else {}
)
# Rows read at a time where there is text, whose size the file does not state.
_ROWS = 4096


def read_parquet(path: Path, name: str) -> Any:
    """The table in a Parquet file.

    Args:
        path: a regular file.
        name: what to call the table in messages.

    Raises:
        InputError: where it is no such file, or needs more memory than it may take.
    """
    regular_file(path)
    with (
        refusing_damage(f"{name}: {path} cannot be read as Parquet", way_out="Write it again."),
        # Unlike read_table: no columns made up from folder names.
        pq.ParquetFile(path, **_VERIFIED) as file,
    ):
        num_rows = file.metadata.num_rows
        what = f"{name}: {path}, a table of {num_rows:,} rows and {len(file.schema):,} columns,"
        require_memory(_stated_size(file.metadata), what=what)
        types = {file.schema.column(i).physical_type for i in range(len(file.schema))}
        table = _read_with_text(file, what) if _TEXT in types else file.read()
        # Text that is not UTF-8 would be found only where it is used.
        table.validate(full=True)
        return table


def _stated_size(metadata: Any) -> int:
    """The size of the values in memory, without the characters of text."""
    size = 0
    for g in range(metadata.num_row_groups):
        group = metadata.row_group(g)
        for i in range(group.num_columns):
            chunk = group.column(i)
            size += chunk.num_values * _WIDTH.get(chunk.physical_type, 8)
    return int(size)


def _read_with_text(file: Any, what: str) -> Any:
    limit, size, batches = memory_limit(), 0, []
    for batch in file.iter_batches(batch_size=_ROWS):
        batches.append(batch)
        size += batch.nbytes
        if size > limit:
            raise exceeded(size, limit=limit, what=f"{what} {readable(size)} in its first rows,")
    return pa.Table.from_batches(batches, schema=None if batches else file.schema_arrow)
