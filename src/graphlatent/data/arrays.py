"""Arrays and feature matrices as users give them, checked and converted to float32."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from graphlatent.data.graph import RawGraph
from graphlatent.data.sparse_input import consistent_coo, consistent_csr
from graphlatent.display import counted
from graphlatent.errors import InputError
from graphlatent.io.regular_files import refusing_damage
from graphlatent.ops.sparse import SparseMatrix

Array: TypeAlias = np.ndarray[Any, Any]


def as_array(values: Any, *, name: str, what: str) -> Array:
    """The values as a NumPy array.

    Raises `InputError` where they are not a regular array, or where a mask hides some of them.
    """
    if isinstance(values, np.ma.MaskedArray):
        values = _unmasked(values, name, what)
    elif isinstance(values, list | tuple):
        values = [_unmasked(v, name, what) if np.ma.isMaskedArray(v) else v for v in values]
    try:
        if isinstance(values, Tensor):
            # NumPy has no bfloat16.
            values = values.float() if values.dtype == torch.bfloat16 else values
            values = values.detach().cpu()
        return np.asarray(values)
    except (ValueError, TypeError, OverflowError, RuntimeError) as error:
        raise InputError(
            f"{name}: {what} must be a regular array of numbers. NumPy says: {error}"
        ) from error


def _unmasked(values: Any, name: str, what: str) -> Array:
    """The data of a masked array of which nothing is masked."""
    count = int(np.ma.getmaskarray(values).sum())
    if count:
        raise InputError(
            f"{name}: {what}: {counted(count, 'value')} masked, which means missing. Fill it, for"
            " example with filled(0), or drop it."
        )
    data: Array = np.ma.getdata(values)
    return data


def checked_features(graph: RawGraph) -> Tensor | SparseMatrix:
    """The features of a graph, float32 [N, F], dense or sparse as they came.

    Raises:
        InputError: where they are not numbers, not finite, or not one row per node.
    """
    x = graph.x
    _refuse_complex(x, graph.name)
    if isinstance(x, Tensor) and x.layout != torch.strided and x.ndim == 2:
        with refusing_damage(f"{graph.name}: the sparse features are inconsistent"):
            x = consistent_coo(x)
        x = SparseMatrix.from_coo(
            x.indices()[0], x.indices()[1], x.values(), (x.shape[0], x.shape[1])
        )
    if isinstance(x, SparseMatrix):
        features: Tensor | SparseMatrix = x.to("cpu", torch.float32)
    elif hasattr(x, "tocsr"):
        # In double precision, so that the sum of duplicates does not overflow small integers.
        exact = x if x.dtype in (np.bool_, np.float32, np.float64) else x.astype(np.float64)
        with refusing_damage(f"{graph.name}: the sparse features are inconsistent"):
            features = SparseMatrix.from_scipy(consistent_csr(exact))
    else:
        features = torch.from_numpy(numeric_array(x, name=graph.name, what="features"))
        if features.ndim != 2:
            raise InputError(
                f"{graph.name}: features must be a 2-D array, (nodes, features). Got"
                f" {counted(features.ndim, 'dimension')}, shape {tuple(features.shape)}. For a"
                " single feature per node pass x[:, None]."
            )
    if features.shape[0] != graph.num_nodes:
        raise InputError(
            f"{graph.name}: features must have one row per node. Got {features.shape[0]} rows for"
            f" {graph.num_nodes} nodes."
        )
    if features.shape[1] == 0:
        raise InputError(
            f"{graph.name}: features have no columns. Leave them out to use node degrees as"
            " features."
        )
    values = features.value if isinstance(features, SparseMatrix) else features
    if not bool(torch.isfinite(values).all()):
        raise InputError(_where_not_finite(features, graph.name))
    return features


def _refuse_complex(x: Any, name: str) -> None:
    """Raise where a matrix does not hold real numbers, but would be converted to them."""
    if isinstance(x, SparseMatrix):
        x = x.value
    is_complex = x.is_complex() if isinstance(x, Tensor) else False
    if not isinstance(x, Tensor) and hasattr(x, "tocsr"):
        is_complex = x.dtype.kind not in "biuf"
    if is_complex:
        raise InputError(
            f"{name}: features must be real numbers. Got values of type {x.dtype}. Give real and"
            " imaginary parts as columns."
        )


def numeric_array(values: Any, *, name: str, what: str) -> Array:
    """The values as a float32 array. Raises `InputError` where they are not numbers."""
    if isinstance(values, Tensor) and values.is_floating_point():
        # NumPy has no bfloat16.
        values = values.to_dense().to(torch.float32)
    array = as_array(values, name=name, what=what)
    if array.dtype.kind not in "biuf":
        way_out = " Encode text columns, or pass a table." if what == "features" else ""
        raise InputError(
            f"{name}: {what} must be numbers. Got values of type {array.dtype}.{way_out}"
        )
    # What float32 cannot hold becomes infinite, and is refused as such.
    with np.errstate(over="ignore"):
        # Arrays are copied: theirs may be read-only.
        convert = np.asarray if isinstance(values, Tensor) else np.array
        return convert(array, dtype=np.float32, order="C")


def _where_not_finite(x: Tensor | SparseMatrix, name: str) -> str:
    if isinstance(x, SparseMatrix):
        bad = ~torch.isfinite(x.value)
        row, col = int(x.row[bad][0]), int(x.col[bad][0])
        count, value = int(bad.sum()), float(x.value[bad][0])
    else:
        where = torch.nonzero(~torch.isfinite(x))
        count, (row, col) = len(where), where[0].tolist()
        value = float(x[row, col])
    return (
        f"{name}: features hold {counted(count, 'NaN or infinite value')}, the first ({value}) at"
        f" row {row}, column {col}. (Numbers of more than 3.4e38 are infinite in float32.) Fill or"
        " drop them before fitting, for example with numpy.nan_to_num."
    )


def stack_features(parts: Sequence[Tensor | SparseMatrix]) -> Tensor | SparseMatrix:
    """The rows of all parts, dense where all are dense."""
    dense = [part for part in parts if isinstance(part, Tensor)]
    if len(dense) == len(parts):
        return torch.cat(dense)
    return _stack_sparse([p if isinstance(p, SparseMatrix) else _sparsified(p) for p in parts])


def _sparsified(x: Tensor) -> SparseMatrix:
    row, col = torch.nonzero(x, as_tuple=True)
    return SparseMatrix.from_coo(row, col, x[row, col], (x.shape[0], x.shape[1]))


def _stack_sparse(parts: Sequence[SparseMatrix]) -> SparseMatrix:
    starts = np.concatenate([[0], np.cumsum([p.nnz for p in parts])])
    crow = torch.cat(
        [p.crow[:-1] + int(s) for p, s in zip(parts, starts, strict=False)]
        + [torch.tensor([int(starts[-1])])]
    )
    shape = (sum(p.shape[0] for p in parts), parts[0].shape[1])
    return SparseMatrix(
        crow, torch.cat([p.col for p in parts]), torch.cat([p.value for p in parts]), shape
    )
