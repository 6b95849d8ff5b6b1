"""Tables of ids and numbers that commands print, and write as `.csv` or `.parquet`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphlatent.cli.output import Output
from graphlatent.display import counted
from graphlatent.errors import OutputError
from graphlatent.io.atomic import refuse_unwritable, write_atomically

if TYPE_CHECKING:
    import pandas as pd

TABLE_SUFFIXES = (".csv", ".parquet")


def check_table_path(path: Path | None, *, overwrite: bool) -> None:
    """Raise an `OutputError` where a table cannot be written to `path`; None is fine."""
    if path is None:
        return
    if path.suffix.lower() not in TABLE_SUFFIXES:
        raise OutputError(f"The table is written as .csv or .parquet. Got '{path.name}'.")
    refuse_unwritable(path, overwrite=overwrite)


def write_table(frame: pd.DataFrame, path: Path) -> None:
    """Write a table atomically; ids that a file cannot hold become text."""
    import pyarrow as pa
    import pyarrow.csv

    from graphlatent.embedding import storable_ids
    from graphlatent.io.parquet import write_parquet

    columns = {name: pa.array(storable_ids(frame[name].to_numpy()).tolist()) for name in frame}
    table = pa.table(columns)
    is_csv = path.suffix.lower() == ".csv"
    write_atomically(
        path, lambda to: pyarrow.csv.write_csv(table, to) if is_csv else write_parquet(table, to)
    )


# Rows that are printed of a table, and of one that is written to a file.
_MOST, _BESIDE_FILE = 50, 10


def show_table(
    output: Output, title: str, frame: pd.DataFrame, *, out: Path | None, most: int | None = None
) -> None:
    """Print the first rows of a table, and write all of it where `out` names a file.

    Args:
        output: of the command.
        title: above the printed table.
        frame: the table; printed under the names that its columns have in the file, numbers that
            are not whole with four digits.
        out: the file, or None.
        most: how many rows are printed; None for 50, or 10 where all are in a file.
    """
    most = most or (_MOST if out is None else _BESIDE_FILE)
    output.table(
        title,
        [str(name) for name in frame.columns],
        [[_cell(value) for value in row] for row in frame.head(most).itertuples(index=False)],
    )
    more = len(frame) - most
    if out is not None:
        write_table(frame, out)
        rows = counted(len(frame), "row")
        output.say(
            f"Written to {out}" if more <= 0 else f"... and {more:,} more. All {rows}: {out}"
        )
    elif more > 0:
        output.say(f"... and {more:,} more: write them with --out FILE.csv.")


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a table as values that JSON can hold."""
    found: list[dict[str, Any]] = [
        {str(name): _plain(value) for name, value in row.items()}
        for row in frame.to_dict(orient="records")
    ]
    return found


def _plain(value: Any) -> Any:
    if hasattr(value, "item"):
        value = value.item()
    return value if isinstance(value, str | int | float) else repr(value)


def _cell(value: Any) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)
