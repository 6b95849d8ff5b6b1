"""A graph out of a gnn-benchmark `.npz` file, the format of the Amazon and Coauthor data sets.

Keys: `adj_data`, `adj_indices`, `adj_indptr`, `adj_shape` (CSR adjacency); the same with `attr_`,
or a dense `attr_matrix`; `labels`. Counts stay counts and sparse features stay sparse, while
PyTorch Geometric's reader makes them dense and 0 or 1.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from graphlatent.data.graph import RawGraph
from graphlatent.data.readers.array_files import ArrayFile, open_arrays
from graphlatent.data.readers.arrays import nonzeros
from graphlatent.errors import InputError
from graphlatent.io.regular_files import refusing_damage

# Share of non-zero features above which a dense matrix is both smaller and faster.
_DENSE_ABOVE = 0.25
_CSR_PARTS = ("data", "indices", "indptr", "shape")


def read_npz(path: Path, *, binarize: bool = False) -> RawGraph:
    """The graph in the file; adjacency values other than 1 become edge weights.

    Args:
        path: the file.
        binarize: set every non-zero feature to 1.

    Raises:
        InputError: where the file is missing, damaged, or of another kind.
    """
    with open_arrays(path, what=_damaged(path)) as file:
        return _read(file, path, binarize=binarize)


def _damaged(path: Path) -> str:
    return f"{path} cannot be read as a gnn-benchmark .npz file"


def _read(file: ArrayFile, path: Path, *, binarize: bool) -> RawGraph:
    adjacency = _csr(file, "adj", path)
    if adjacency is None:
        raise InputError(
            f"{path} is no gnn-benchmark .npz file: it needs adj_data, adj_indices, adj_indptr and"
            f" adj_shape. It holds {', '.join(sorted(file)) or 'nothing'}."
        )
    if adjacency.shape[0] != adjacency.shape[1]:
        raise InputError(f"{path}: the adjacency must be square. Got shape {adjacency.shape}.")
    row, col, weight = nonzeros(adjacency, name=str(path))
    return RawGraph(
        edge_index=np.stack([row, col]),
        num_nodes=int(adjacency.shape[0]),
        x=_features(file, path, binarize=binarize),
        edge_weight=None if np.all(weight == 1) else weight,
        y=file.get("labels"),
        name=path.name,
    )


def _csr(file: ArrayFile, prefix: str, path: Path) -> Any:
    keys = [f"{prefix}_{part}" for part in _CSR_PARTS]
    missing = [key for key in keys if key not in file]
    if len(missing) == len(keys):
        return None
    if missing:
        raise InputError(
            f"{path}: {', '.join(missing)} is missing beside the other parts of '{prefix}'. Get the"
            " file again."
        )
    data, indices, indptr, shape = (file[key] for key in keys)
    if data.dtype.kind not in "biuf":
        raise InputError(
            f"{path}: {prefix}_data must hold real numbers. Got values of type {data.dtype}."
        )
    for key, array in zip(keys[1:], (indices, indptr, shape), strict=True):
        if array.dtype.kind not in "iuf" or (np.isfinite(array) & (np.floor(array) != array)).any():
            raise InputError(f"{path}: {key} must hold integers. Got {array.dtype} values.")
    # SciPy does not compute with half precision.
    data = data.astype(np.float32) if data.dtype == np.float16 else data
    with refusing_damage(_damaged(path), way_out="Get the file again."):
        num_rows, num_columns = (int(size) for size in shape)
        matrix = sp.csr_matrix((data, indices, indptr), shape=(num_rows, num_columns))
        matrix.check_format(full_check=True)
    return matrix


def _features(file: ArrayFile, path: Path, *, binarize: bool) -> Any:
    x: Any = file["attr_matrix"] if "attr_matrix" in file else _csr(file, "attr", path)
    if x is None:
        return None
    if binarize and x.dtype.kind in "biuf":
        x = (x != 0).astype(np.float32)
    if hasattr(x, "nnz") and x.nnz > _DENSE_ABOVE * x.shape[0] * x.shape[1]:
        return x.toarray()
    return x
