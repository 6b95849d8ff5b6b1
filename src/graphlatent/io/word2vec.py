"""Vectors as a text file in the format of word2vec, which gensim and many others read.

The first line has the number of vectors and their width; every other line a name and its numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from graphlatent.errors import OutputError


def check_names(names: Sequence[str]) -> None:
    """Raise an `OutputError` where a name cannot stand in such a file, or two are the same."""
    for name in names:
        if not name or len(name.split()) != 1 or name.split()[0] != name:
            raise OutputError(
                f"The id {name!r} cannot be written in word2vec's format, in which white space ends"
                " a name. Choose another format, or rename the ids."
            )
    if len(set(names)) < len(names):
        raise OutputError(
            "Different ids are written as the same text, so a file would mix them up. Choose"
            " another format."
        )


def write_word2vec(
    names: Sequence[str], values: np.ndarray[Any, np.dtype[np.float32]], path: Path
) -> None:
    """Write one line for each name; `check_names` says which are possible.

    Args:
        names: of the vectors [M].
        values: float32 [M, D].
        path: the file.
    """
    columns = [pa.array(list(names)), *(pa.array(column) for column in values.T)]
    table = pa.table(columns, names=[str(i) for i in range(len(columns))])
    options = pyarrow.csv.WriteOptions(include_header=False, delimiter=" ", quoting_style="none")
    with path.open("wb") as file:
        file.write(f"{values.shape[0]} {values.shape[1]}\n".encode())
        pyarrow.csv.write_csv(table, file, options)
