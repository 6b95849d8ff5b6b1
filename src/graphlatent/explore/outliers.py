"""How unusual rows are: far from their nearest rows, or badly reconstructed by the decoder.

The two are not mixed. On Photo with 150 nodes given the features of a node of another class and 150
nodes given random edges, the distance to the 5 nearest tells the first from other nodes with an AUC
of 0.77 and the second with 0.99; the reconstruction error, which compares features with what the
decoder makes of an embedding that has seen them, with 0.49 and 0.58. It finds features that are
unlike those of all nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from graphlatent.errors import InputError, bad_argument
from graphlatent.explore.neighbours import check_count, id_columns
from graphlatent.ops.nearest import nearest_by_cells, nearest_others, pair_distances

if TYPE_CHECKING:
    from graphlatent.embedding import Embeddings

Array = np.ndarray[Any, Any]

EXACT = 20_000
"""Up to so many rows all pairs are compared; of more, those in the nearest k-means cells."""
SCORES = {"distance": "distance", "error": "reconstruction_error"}
"""What rows can be ordered by, and the column of it."""


def outliers(
    embeddings: Embeddings, *, neighbours: int, error: Any = None, by: str = "distance"
) -> pd.DataFrame:
    """The rows with their scores, most unusual first; see `Embeddings.outliers`."""
    check_count(neighbours, name="neighbours", owner="outliers")
    if by not in SCORES or (by == "error" and error is None):
        allowed = "'distance', or with 'error' given 'error'"
        raise bad_argument("by", owner="outliers", allowed=allowed, got=by)
    num_rows = len(embeddings.values)
    if num_rows < 2:
        raise InputError("There is one embedding only, so nothing to compare it with.")
    distance = neighbour_distance(embeddings.values, min(int(neighbours), num_rows - 1))
    columns = {"distance": distance}
    if error is not None:
        columns["reconstruction_error"] = _checked_error(error, num_rows)
    frame = pd.DataFrame({**id_columns(embeddings, np.arange(num_rows)), **columns})
    first = SCORES[by]
    return frame.sort_values([first, "distance"], ascending=False, kind="stable", ignore_index=True)


def neighbour_distance(rows: Array, count: int) -> Array:
    """The mean cosine distance of every row to its `count` nearest other rows, float64 [M]."""
    every = np.arange(len(rows))
    near = (
        nearest_others(rows, queries=every, count=count, distance="cosine")
        if len(rows) <= EXACT
        else nearest_by_cells(rows, count=count, distance="cosine")
    )
    found = pair_distances(rows, np.repeat(every, count), near.ravel(), distance="cosine")
    # Rounded, so that copies have the distance 0 and keep the order of the rows
    mean: Array = found.reshape(len(rows), count).mean(axis=1).clip(0, 2).round(9)
    return mean


def _checked_error(error: Any, num_rows: int) -> Array:
    values = np.asarray(error, dtype=np.float64)
    if values.shape != (num_rows,) or np.isinf(values).any():
        raise InputError(
            f"'error' must be one number for each of the {num_rows} rows. Got shape {values.shape}."
        )
    return values
