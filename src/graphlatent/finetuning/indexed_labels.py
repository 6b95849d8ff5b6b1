"""Labels with an index of pandas, brought into the order of the nodes or graphs they are of."""

from __future__ import annotations

from typing import Any

import pandas as pd

from graphlatent.display import counted
from graphlatent.embedding import Embeddings
from graphlatent.errors import InputError, shown


def by_position(X: Any, y: Any, *, level: str) -> Any:
    """Labels without their index where `X` is a list of as many graphs, which have no ids.

    Tools of scikit-learn cut and shuffle both alike; the index then says where rows were before.
    """
    if level != "graph" or not isinstance(X, list) or not isinstance(y, pd.Series | pd.DataFrame):
        return y
    return y.to_numpy() if len(y) == len(X) else y


def in_row_order(y: Any, rows: Embeddings, *, of: str, owner: str) -> Any:
    """Labels in the order of `rows`; a Series or DataFrame is matched by its index.

    The default index of pandas, 0 to M - 1 in order, says that rows are in the graph's order.
    Rows whose id the index lacks have no label; ids of no row are refused where rows lack theirs,
    since they may be misspelt.

    Args:
        y: labels in any form; those without an index are returned as they are.
        rows: of the nodes or graphs [M], with their ids; the values are not used.
        of: what a row is, "node" or "graph", for messages.
        owner: of the argument, for messages.

    Raises:
        InputError: where the index is neither the default one nor ids of rows, each once.
    """
    if not isinstance(y, pd.Series | pd.DataFrame):
        return y
    given, index = y.index, rows.to_pandas().index
    if isinstance(given, pd.RangeIndex) and given.equals(pd.RangeIndex(len(index))):
        return y
    what = f"'y' of {owner} is a pandas {type(y).__name__} and is matched to {of}s by its index"
    way_out = (
        f"Set its index to the {of}s' ids, or give y.to_numpy() with one label per {of}, in the"
        " graph's order."
    )
    if given.nlevels != index.nlevels:
        raise InputError(
            f"{what}, which must have the levels {' and '.join(map(repr, index.names))}. Got"
            f" {counted(given.nlevels, 'level')}. {way_out}"
        )
    repeated = given.duplicated()
    if repeated.any():
        raise InputError(
            f"{what}, in which {shown(given[repeated].tolist()[0])} occurs more than once. Keep one"
            " label for each."
        )
    unlabelled, foreign = ~index.isin(given), ~given.isin(index)
    if unlabelled.all() or (unlabelled.any() and foreign.any()):
        example = f", the first {shown(given[foreign].tolist()[0])}," if len(given) else ""
        raise InputError(
            f"{what}, but {int(foreign.sum()):,} of its {counted(len(given), 'entry', 'entries')}"
            f"{example} are no ids of {of}s, which are such as {shown(index.tolist()[0])}."
            f" {way_out}"
        )
    # As objects, so that a missing label does not turn integers into floats.
    return (y.astype(object) if unlabelled.any() else y).reindex(index)
