"""Features and labels of a store: columns of the node table, or a matrix from an array file.

Columns are read as many at a time as memory allows, matrices a block of rows at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from graphlatent.data.arrays import checked_features, numeric_array
from graphlatent.data.graph import RawGraph
from graphlatent.data.ids import read_ids
from graphlatent.data.readers.array_files import ARRAY_SUFFIXES, load_arrays
from graphlatent.data.readers.arrow import to_array, usable_column
from graphlatent.data.readers.options import TableOptions, label_hints
from graphlatent.data.store.columns import StoredColumn, write_column, write_labels
from graphlatent.data.store.layout import LABELS, X_PARTS, X
from graphlatent.data.store.npy import NpyWriter
from graphlatent.data.store.tables import TableFiles
from graphlatent.display import counted
from graphlatent.errors import InputError, warn
from graphlatent.io.regular_files import refusing_damage, regular_file
from graphlatent.ops.sparse import SparseMatrix

Array: TypeAlias = np.ndarray[Any, Any]
# Of a value of a column of unknown type, while it is converted.
_BYTES_PER_VALUE = 64
_BLOCK = 32 << 20


@dataclass(frozen=True, eq=False)
class WrittenFeatures:
    """Features as the manifest describes them, and their files.

    Args:
        about: kind, width and columns.
        labels: the names of label columns.
        files: under the store.
    """

    about: dict[str, Any]
    labels: tuple[str, ...]
    files: tuple[str, ...]


NO_FEATURES = WrittenFeatures({"kind": None, "dim": 0, "columns": []}, (), ())


def columns_to_write(nodes: TableFiles, options: TableOptions) -> list[str]:
    """The names of the feature columns. Raises `InputError` where one is not there."""
    header = nodes.header
    read_ids(header, options.id, option="id")
    for name in options.labels:
        to_array(header, name, option="label")
    found = options.feature_names(name for name in header.columns if name != options.id)
    for hint in label_hints(found) if options.features is None else ():
        warn(f"{nodes.name}: {hint}")
    for name in found:
        header.column(name, option="features_columns")
    return found


def write_columns(
    nodes: TableFiles,
    names: Sequence[str],
    options: TableOptions,
    folder: Path,
    *,
    num_nodes: int,
    memory: int,
    told: Callable[[int], None],
) -> WrittenFeatures:
    """Write the columns `names`, and the label columns, of a node table.

    Raises:
        InputError: where one cannot be used.
    """
    text = [options.id, *options.text, *options.hash]
    together = max(memory // (_BYTES_PER_VALUE * max(num_nodes, 1)), 1)
    columns: list[StoredColumn] = []
    for start in range(0, len(names), together):
        group = names[start : start + together]
        table = nodes.read(group, text=text)
        for name in group:
            columns.append(write_column(table, name, folder=folder, number=len(columns)))
            told(len(columns))
    files = [file for column in columns for file in column.files]
    if options.labels:
        table = nodes.read(list(dict.fromkeys(options.labels)), text=text)
        for name in options.labels:
            to_array(table, name, option="label")
        label_columns = {
            name: table.data.column(name)
            if table.is_categorical(name)
            else usable_column(table, name, option="label")
            for name in options.labels
        }
        write_labels(label_columns, folder / LABELS)
        files.append(LABELS)
    kind = "columns" if columns else None
    about = {"kind": kind, "dim": len(columns), "columns": [asdict(each) for each in columns]}
    return WrittenFeatures(about, options.labels, tuple(files))


def feature_rows(path: Path) -> int:
    """The number of rows of a feature matrix in a file.

    Raises:
        InputError: where it holds none.
    """
    if path.suffix.lower() not in ARRAY_SUFFIXES:
        regular_file(path, role="features")
        raise InputError(
            f"features: {path} is no matrix that can be read. Accepted are .npy files, and .npz"
            " files of scipy.sparse.save_npz. Columns of the node table: 'features_columns'"
            " (--features-columns on the command line)."
        )
    if path.suffix.lower() == ".npy":
        return int(_mapped_matrix(path).shape[0])
    return int(_sparse_matrix(path).shape[0])


def write_matrix(path: Path, folder: Path, *, num_nodes: int) -> WrittenFeatures:
    """Write the feature matrix in a `.npy` file, or a SciPy matrix in a `.npz` file.

    Raises:
        InputError: where it does not have a row of finite numbers for each node.
    """
    if path.suffix.lower() == ".npz":
        x = checked_features(RawGraph(None, num_nodes, _sparse_matrix(path), name=str(path)))
        assert isinstance(x, SparseMatrix)
        parts = (x.crow, x.col, x.value)
        for name, part in zip(X_PARTS, parts, strict=True):
            with NpyWriter(folder / name, part.numpy().dtype) as writer:
                writer.append(part.numpy())
        return _of_matrix("sparse", x.shape[1], X_PARTS)
    shape = _mapped_matrix(path).shape
    _check_shape(shape, num_nodes, path)
    width = int(shape[1])
    step = max(_BLOCK // (4 * width), 1)
    with NpyWriter(folder / X, np.float32, width=width) as writer:
        for start in range(0, num_nodes, step):
            # Mapped anew each time, so that pages that were read are given back.
            piece = _mapped_matrix(path)[start : start + step]
            rows = numeric_array(piece, name=str(path), what="features")
            del piece
            if not np.isfinite(rows).all():
                row, column = np.argwhere(~np.isfinite(rows))[0].tolist()
                raise InputError(
                    f"{path}: features hold NaN or infinite values, or numbers of more than 3.4e38,"
                    f" the first ({rows[row, column]}) at row {start + row:,}, column {column}."
                    " Fill or drop them."
                )
            writer.append(rows)
    return _of_matrix("dense", width, (X,))


def _of_matrix(kind: str, width: int, files: Sequence[str]) -> WrittenFeatures:
    return WrittenFeatures({"kind": kind, "dim": width, "columns": []}, (), tuple(files))


def _check_shape(shape: tuple[int, ...], num_nodes: int, path: Path) -> None:
    if len(shape) != 2 or shape[1] == 0:
        raise InputError(
            f"{path}: features must be a matrix with a row per node and at least one column. Got"
            f" shape {shape}."
        )
    if shape[0] != num_nodes:
        raise InputError(
            f"{path}: features must have one row per node. Got {counted(shape[0], 'row')} for"
            f" {counted(num_nodes, 'node')}."
        )


def _mapped_matrix(path: Path) -> Array:
    regular_file(path, role="features")
    with refusing_damage(f"features: {path} cannot be read as a NumPy array"):
        array: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    if array.ndim != 2:
        _check_shape(array.shape, 0, path)
    return array


def _sparse_matrix(path: Path) -> sp.csr_matrix:
    arrays = load_arrays(path, role="features")
    names = {"data", "indices", "indptr", "shape"}
    if not names <= set(arrays):
        raise InputError(
            f"features: {path} is no sparse matrix in CSR of scipy.sparse.save_npz. Arrays found:"
            f" {', '.join(sorted(arrays)) or 'none'}. Write a dense matrix as .npy."
        )
    with refusing_damage(f"features: {path} is inconsistent"):
        parts = (arrays["data"], arrays["indices"], arrays["indptr"])
        num_rows, width = (int(size) for size in arrays["shape"])
        if arrays.get("format", np.array(b"csr")).item() != b"csr":
            raise ValueError("its format is not CSR: save matrix.tocsr()")
        return sp.csr_matrix(parts, shape=(num_rows, width))
