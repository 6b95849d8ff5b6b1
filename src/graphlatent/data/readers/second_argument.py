"""`fit(graph, x)`: features that come as the second argument of an estimator's method.

scikit-learn puts labels there, which are ignored. A matrix beside a graph without features of its
own can only be meant as features, unless it looks like labels; then it is refused.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphlatent.data.readers.arrays import is_adjacency
from graphlatent.data.readers.arrow import is_table, table_suffix
from graphlatent.data.readers.networkx import is_networkx
from graphlatent.data.readers.pyg import is_pyg
from graphlatent.data.readers.python_objects import has_ids
from graphlatent.errors import InputError, warn
from graphlatent.ops.sparse import SparseMatrix

_NO_EDGE_TABLE = "node tables go with edge tables only; of features, give table.to_numpy()"


def graph_with_features(source: Any, y: Any, *, owner: str) -> Any:
    """The graph together with its features or node table where `y` is that, else the graph alone.

    A matrix beside a graph with features is ignored, with a warning unless it may be labels.

    Raises:
        InputError: where it cannot be told whether `y` holds features or labels.
    """
    if y is None:
        return source
    if not _lacks_features(source):
        # (graph, None) says that there are no features.
        is_said = isinstance(source, tuple) and len(source) > 1 and source[1] is None
        x = None if is_said or is_table(y) else _as_matrix(y)
        if x is not None and not _is_zero_one(x) and x.shape[1] > 1:
            warn(
                f"{owner}: the second argument, {_shape(x)}, is not used: the graph brings its own"
                " features, and labels are not used in training."
            )
        return source
    if is_table(y) or isinstance(y, str | Path):
        if not has_ids(source) and not _is_table_file(source):
            raise InputError(_say(owner, "a table", _NO_EDGE_TABLE))
        return source, y
    x = _as_matrix(y)
    if x is None:
        return source
    if not is_adjacency(source) and not isinstance(source, np.ndarray | Tensor):
        raise InputError(_say(owner, _shape(x), "it is not known which row is of which node"))
    if _looks_like_labels(x):
        raise InputError(_say(owner, _shape(x), "it looks like labels"))
    if _is_zero_one(x):
        warn(
            f"{owner}: the second argument, {_shape(x)} of zeros and ones, is read as the features"
            f" of nodes. If it holds labels, leave it out: {owner}(graph)."
        )
    return source, x


def refuse_features_as_y(source: Any, y: Any, *, owner: str) -> None:
    """Raise where features may have come as `y`, in a method to which pipelines pass labels.

    Raises:
        InputError: where `source` has no features, and `y` is a matrix or a table.
    """
    if y is None or not _lacks_features(source):
        return
    x = y if is_table(y) else _as_matrix(y)
    if x is not None:
        reason = "in its place, pipelines pass labels"
        raise InputError(_say(owner, "a table" if is_table(y) else _shape(x), reason))


def _say(owner: str, what: str, reason: str) -> str:
    return (
        f"{owner} got {what} beside a graph without features: {reason}. Put features, or a node"
        f" table, into one tuple with the graph: {owner}((graph, x)). Labels are not used in"
        f" training: leave them out, or write {owner}((graph, None), y)."
    )


def _lacks_features(source: Any) -> bool:
    """Whether the graph may have features but brings none."""
    if is_pyg(source, "Data"):
        return source.x is None
    if is_networkx(source):
        return not any(attributes for _, attributes in source.nodes(data=True))
    plain = is_adjacency(source) or isinstance(source, np.ndarray | Tensor)
    return plain or has_ids(source) or _is_table_file(source)


def _is_table_file(source: Any) -> bool:
    return isinstance(source, str | Path) and table_suffix(Path(source)) is not None


def _as_matrix(y: Any) -> Any:
    """A matrix as SciPy or NumPy has it; None for anything else, such as a list of labels."""
    if isinstance(y, list) and y and isinstance(y[0], list | tuple):
        y = np.asarray(y, dtype=object)
        # Rows of different lengths have one axis.
        y = y.astype(np.float64) if y.ndim == 2 and _are_numbers(y) else y
    return y if len(getattr(y, "shape", ())) == 2 else None


def _are_numbers(array: Any) -> bool:
    return all(isinstance(each, int | float | np.number) for each in array.ravel())


def _shape(x: Any) -> str:
    return f"a matrix of shape {tuple(int(size) for size in x.shape)}"


def _plain(x: Any) -> Any:
    """The matrix as a SciPy array in COO format, or as a NumPy array."""
    if isinstance(x, SparseMatrix):
        x = x.to_scipy()
    if isinstance(x, Tensor):
        x = x.detach().cpu()
        # NumPy has no bfloat16.
        x = x.to(torch.float32) if x.is_floating_point() else x
        return x.to_dense().numpy()
    # It sums what is stored in parts.
    return x.tocsr().tocoo() if hasattr(x, "tocsr") else np.asarray(x)


def _is_zero_one(x: Any) -> bool:
    plain = _plain(x)
    stored = plain.data if hasattr(plain, "tocsr") else plain
    return plain.dtype.kind in "biuf" and bool(np.isin(stored, (0, 1)).all())


def _looks_like_labels(x: Any) -> bool:
    """Whether the matrix has one column, or one 1 in each row in fewer columns than rows."""
    if x.shape[1] == 1:
        return True
    return x.shape[1] < x.shape[0] and _is_zero_one(x) and bool((_plain(x).sum(axis=1) == 1).all())
