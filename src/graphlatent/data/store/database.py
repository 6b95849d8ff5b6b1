"""DuckDB, within a budget of memory; what does not fit it moves to disk."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from graphlatent.data.store.budget import MemoryBudget
from graphlatent.errors import GraphLatentError, InputError, MissingDependencyError, OutputError
from graphlatent.io.regular_files import first_line


@contextmanager
def database(folder: Path, budget: MemoryBudget, *, threads: int) -> Iterator[Any]:
    """A connection to DuckDB that keeps to the budget and writes in `folder` only.

    Failures of DuckDB in the context are errors that say what to do.

    Raises:
        MissingDependencyError: where DuckDB is not installed.
    """
    duckdb = imported_duckdb()
    with _refusing_failures(duckdb, budget):
        connection = duckdb.connect(
            # DuckDB waits for the end of what is still open of a file of the same name.
            str(folder / f"{secrets.token_hex(8)}.duckdb"),
            config={
                "memory_limit": f"{budget.database >> 10}KiB",
                "threads": threads,
                "temp_directory": str(folder / "spilled"),
                "preserve_insertion_order": False,
                "autoinstall_known_extensions": False,
            },
        )
        try:
            yield connection
        finally:
            connection.close()


def imported_duckdb() -> Any:
    """DuckDB. Raises `MissingDependencyError` where it is not installed."""
    try:
        import duckdb
    except ImportError as error:
        raise MissingDependencyError(
            "Ingesting a graph needs the package 'duckdb', of the extra 'scale'. Install it with:"
            " pip install 'graphlatent[scale]'"
        ) from error
    return duckdb


@contextmanager
def _refusing_failures(duckdb: Any, budget: MemoryBudget) -> Iterator[None]:
    try:
        yield
    except GraphLatentError:
        raise
    except duckdb.OutOfMemoryException as error:
        if "max_temp_directory_size" in str(error):
            raise no_space(first_line(error)) from error
        raise budget.too_small(2 * budget.limit, "this graph") from error
    except duckdb.InterruptException:
        raise KeyboardInterrupt from None
    except duckdb.IOException as error:
        raise no_space(first_line(error)) from error
    except duckdb.Error as error:
        raise InputError(
            f"The tables cannot be read. {first_line(error)} Write the files again, or name the"
            " right columns."
        ) from error


def no_space(reason: str) -> OutputError:
    """The error of a disk that is full, or a file that may not become larger."""
    return OutputError(
        f"Cannot write the store: {reason} Temporary files were removed. Make room, or choose"
        " another path: while it works, ingesting takes several times the space of the store."
    )


def stream(connection: Any, query: str, rows: int) -> Iterator[Any]:
    """The result of a query in pyarrow batches of about `rows` rows."""
    relation = connection.sql(query)
    # Its name before version 1.4.
    reader = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
    with reader(rows) as batches:
        yield from batches


def rows(connection: Any, query: str) -> list[tuple[Any, ...]]:
    """The result of a query that has few rows."""
    found: list[tuple[Any, ...]] = connection.sql(query).fetchall()
    return found
