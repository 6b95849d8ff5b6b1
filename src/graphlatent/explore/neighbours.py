"""The most similar rows by the cosine of their angle, as a table of ids.

The cosine, because the length of an embedding grows with the degree of a node or the size of a
graph more than with what it is. On Photo the 10 nearest have the label of a node in 93.2 % of all
cases by either distance. A row of zeros has the similarity 0 to all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from graphlatent.errors import InputError, bad_argument, shown
from graphlatent.ops.nearest import nearest_others, pair_distances

if TYPE_CHECKING:
    from graphlatent.embedding import Embeddings

Array = np.ndarray[Any, Any]


def most_similar(embeddings: Embeddings, ids: Any, k: int) -> pd.DataFrame:
    """The `k` most similar other rows of each id; see `Embeddings.most_similar`."""
    num_rows = len(embeddings.values)
    check_count(k, name="k", owner="most_similar")
    if num_rows < 2:
        raise InputError("There is one embedding only, so it has no neighbours.")
    queries = rows_of(embeddings, ids)
    count = min(int(k), num_rows - 1)
    near = nearest_others(embeddings.values, queries=queries, count=count, distance="cosine")
    first, second = np.repeat(queries, count), near.ravel()
    similarity = 1 - pair_distances(embeddings.values, first, second, distance="cosine")
    return pd.DataFrame(
        {
            **id_columns(embeddings, first),
            "rank": np.tile(np.arange(1, count + 1), len(queries)),
            **id_columns(embeddings, second, prefix="neighbour_"),
            "similarity": similarity.clip(-1, 1),
        }
    )


def id_columns(embeddings: Embeddings, rows: Array, prefix: str = "") -> dict[str, Array]:
    """The ids of some rows as columns of a table, with those of graphs where there are several.

    Args:
        embeddings: with the ids.
        rows: row numbers.
        prefix: of the columns' names.
    """
    columns = {} if embeddings.graphs is None else {f"{prefix}graph": embeddings.graphs[rows]}
    return {**columns, f"{prefix}{embeddings.id_name}": embeddings.ids[rows]}


def rows_of(embeddings: Embeddings, ids: Any) -> Array:
    """The row number of each id, int64.

    Args:
        embeddings: with the ids.
        ids: one id, or a list of them; (graph, id) where there are nodes of several graphs.

    Raises:
        InputError: where there is no row of an id, or several.
    """
    single = isinstance(ids, str | bytes | tuple) or not hasattr(ids, "__iter__")
    asked = [ids] if single else list(ids)
    if not asked:
        raise InputError("Give one id or more. Got an empty list.")
    keys = embeddings.ids.tolist()
    if embeddings.graphs is not None:
        keys = list(zip(embeddings.graphs.tolist(), keys, strict=True))
    place: dict[Any, int] = {}
    for row, key in enumerate(keys):
        place.setdefault(key, row)
    found = [_place_of(each, place) for each in asked]
    missing = [each for each, row in zip(asked, found, strict=True) if row is None]
    if missing:
        such = ", ".join(shown(key) for key in list(place)[:3])
        raise InputError(
            f"There is no embedding of the id {shown(missing[0])}. Ids are such as {such}."
        )
    return np.array(found, dtype=np.int64)


def _place_of(key: Any, place: dict[Any, int]) -> int | None:
    try:
        return place.get(key.item() if isinstance(key, np.generic) else key)
    # An id that is a list, for example
    except TypeError:
        return None


def check_count(
    value: Any, *, name: str, owner: str, least: int = 1, most: int | None = None
) -> None:
    """Raise a `ConfigError` where an argument is no int from `least` to `most`."""
    integer = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not integer or value < least or (most is not None and value > most):
        allowed = (
            f"an int of at least {least}" if most is None else f"an int from {least} to {most}"
        )
        raise bad_argument(name, owner=owner, allowed=allowed, got=value)
