"""What the files of a store must hold: checksums find damage, these checks what was made wrong.

A store of somebody else may have right checksums and positions outside of the graph, which would
read and write other memory, or text where numbers are needed. Arrays are read block by block.
Legend: N nodes, E edges, F features.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from graphlatent.data.edges import MAX_NODES
from graphlatent.data.readers.options import TableOptions
from graphlatent.data.store import layout
from graphlatent.data.store.npy import mapped
from graphlatent.errors import InputError, shown
from graphlatent.io.regular_files import refusing_damage

Array: TypeAlias = np.ndarray[Any, Any]
Holds: TypeAlias = Callable[[Any], bool]
# Values that are looked at together.
_BLOCK = 1 << 22
# Keys of the manifest that reading does not use.
_OF_INGEST = ("store", "written_by", "input", "checksum")
_TEXT_FORMS = ("text", "category")


def check_manifest(folder: Path, about: Mapping[str, Any]) -> None:
    """Raise an `InputError` where a manifest says something else than `write_manifest` wrote."""
    path = folder / layout.MANIFEST
    wrong = [key for key, holds in _MANIFEST.items() if not holds(about.get(key))]
    wrong += [key for key in about if key not in (*_MANIFEST, *_OF_INGEST)]
    if not wrong and set(about["files"]) != expected_files(about):
        wrong = ["files"]
    if wrong:
        raise _wrong(path, f"{shown(wrong[0])} is not as it was written")
    # Stores of early versions have none.
    if about.get("checksum", found := layout.manifest_checksum(about)) != found:
        raise _wrong(path, "its checksum differs")


def expected_files(about: Mapping[str, Any]) -> set[str]:
    """The names of the files that a store with this manifest has."""
    features = about["features"]
    names = {layout.INDPTR, layout.INDICES, layout.DEGREE, layout.IDS}
    names |= {layout.WEIGHT} & set(about["files"])
    names |= {"dense": {layout.X}, "sparse": {*layout.X_PARTS}}.get(features["kind"], set())
    names |= {each["file"] for each in features["columns"]}
    names |= {each["values_file"] for each in features["columns"] if each["values_file"]}
    return names | ({layout.LABELS} if about["labels"] else set())


def check_content(folder: Path, about: Mapping[str, Any]) -> None:
    """Raise an `InputError` where a file holds what no graph of this manifest can have.

    Args:
        folder: the store.
        about: its manifest, checked.
    """
    files, num_nodes, num_edges = about["files"], about["num_nodes"], about["num_edges"]
    wide = "int64" if num_nodes > 2**31 else "int32"
    indptr = _array(folder, layout.INDPTR, ("int64",), (num_nodes + 1,))
    indices = _array(folder, layout.INDICES, (wide, "int64"), (num_edges,))
    _check_rows(folder, (layout.INDPTR, layout.INDICES), indptr, indices, width=num_nodes)
    degree = _array(folder, layout.DEGREE, ("int64",), (num_nodes,))
    # Those of a shard are of the whole graph.
    _check_range(folder / layout.DEGREE, degree, 0, MAX_NODES)
    if layout.WEIGHT in files:
        weight = _array(folder, layout.WEIGHT, ("float32",), (num_edges,))
        _check_finite(folder / layout.WEIGHT, weight)
    _check_features(folder, about["features"], num_nodes)
    _check_table(folder / layout.IDS, num_nodes, kinds=(pa.int64(), pa.string()))
    if about["labels"]:
        _check_table(folder / layout.LABELS, num_nodes, names=about["labels"])


def _check_features(folder: Path, features: Mapping[str, Any], num_nodes: int) -> None:
    width = features["dim"]
    if features["kind"] == "dense":
        x = _array(folder, layout.X, ("float32",), (num_nodes, width))
        _check_finite(folder / layout.X, x)
    if features["kind"] == "sparse":
        names = layout.X_PARTS
        indptr = _array(folder, names[0], ("int64", "int32"), (num_nodes + 1,))
        indices = _array(folder, names[1], ("int64", "int32"), (None,))
        _check_rows(folder, names[:2], indptr, indices, width=width)
        values = _array(folder, names[2], ("float32",), (len(indices),))
        _check_finite(folder / names[2], values)
    for column in features["columns"]:
        _check_column(folder, column, num_nodes)


def _check_column(folder: Path, column: Mapping[str, str], num_nodes: int) -> None:
    path, form = folder / column["file"], column["form"]
    if form == "array":
        values = _array(folder, column["file"], None, (num_nodes,))
        if values.dtype.kind not in "biufM":
            raise _wrong(path, f"it holds values of type {values.dtype}")
        return
    if form == "truth":
        codes, end = _array(folder, column["file"], ("int8",), (num_nodes,)), 2
    else:
        codes = _array(folder, column["file"], ("int32",), (num_nodes,))
        end = _check_table(folder / column["values_file"], None, kinds=(pa.string(),))
    _check_range(path, codes, 0 if form == "category" else -1, end - 1)


def _array(
    folder: Path, name: str, dtypes: tuple[str, ...] | None, shape: tuple[int | None, ...]
) -> Array:
    """A mapped array; `dtypes` of None and sizes of None are any."""
    path = folder / name
    with refusing_damage(f"store: {path} cannot be read as an array", way_out=layout.WAY_OUT):
        array = mapped(path)
    if dtypes is not None and array.dtype not in [np.dtype(each) for each in dtypes]:
        raise _wrong(path, f"it holds values of type {array.dtype}, and not {dtypes[0]}")
    fits = len(array.shape) == len(shape) and all(
        stated in (None, size) for stated, size in zip(shape, array.shape, strict=True)
    )
    if not fits:
        raise _wrong(path, f"it has the shape {array.shape}, and the manifest says {shape}")
    return array


def _check_rows(
    folder: Path, names: tuple[str, ...], indptr: Array, indices: Array, *, width: int
) -> None:
    """Check rows: `indptr` ascends from 0 to E, `indices` in each row, within 0 to `width`."""
    first = folder / names[0]
    if indptr[0] != 0 or indptr[-1] != len(indices):
        raise _wrong(first, f"its rows do not go from 0 to {len(indices):,}")
    for start, stop in _blocks(len(indptr), overlap=1):
        if (indptr[start + 1 : stop] < indptr[start : stop - 1]).any():
            raise _wrong(first, "its rows end before they begin")
    path = folder / names[1]
    _check_range(path, indices, 0, width - 1)
    for start, stop in _blocks(len(indices), overlap=1):
        ascends = indices[start + 1 : stop] > indices[start : stop - 1]
        # Where a new row begins, indices may go down.
        rows = indptr[np.searchsorted(indptr, start + 1) : np.searchsorted(indptr, stop)]
        ascends[rows - start - 1] = True
        if not ascends.all():
            raise _wrong(path, "the positions in a row do not ascend")


def _check_range(path: Path, values: Array, least: int, most: int) -> None:
    for start, stop in _blocks(len(values)):
        part = values[start:stop]
        for found in (int(part.min()), int(part.max())):
            if not least <= found <= most:
                raise _wrong(path, f"it holds {found}, which is not from {least} to {most:,}")


def _check_finite(path: Path, values: Array) -> None:
    flat = values.reshape(-1)
    for start, stop in _blocks(len(flat)):
        if not np.isfinite(flat[start:stop]).all():
            raise _wrong(path, "it holds values that are not finite")


def _check_table(
    path: Path,
    num_rows: int | None,
    *,
    kinds: tuple[Any, ...] | None = None,
    names: list[str] | None = None,
) -> int:
    """Check a Parquet file: one column of one of `kinds`, or the columns `names`; its rows."""
    with (
        refusing_damage(f"store: {path} cannot be read", way_out=layout.WAY_OUT),
        pq.ParquetFile(path) as file,
    ):
        schema, found = file.schema_arrow, int(file.metadata.num_rows)
    if num_rows is not None and found != num_rows:
        raise _wrong(path, f"it has {found:,} rows for {num_rows:,} nodes")
    if kinds is not None and (len(schema) != 1 or schema.types[0] not in kinds):
        raise _wrong(path, f"it does not hold one column of {' or '.join(map(str, kinds))}")
    if names is not None and set(schema.names) != set(names):
        raise _wrong(path, "its columns are not the labels of the manifest")
    return found


def _blocks(size: int, *, overlap: int = 0) -> Iterator[tuple[int, int]]:
    """Start and stop of blocks; each begins with the last `overlap` of the one before."""
    for start, stop in pairwise([*range(0, size, _BLOCK), size]):
        yield max(start - overlap, 0), stop


def _wrong(path: Path, reason: str) -> InputError:
    return InputError(f"store: {path} is damaged: {reason}. {layout.WAY_OUT}")


def _is_count(value: Any, *, most: int = 2**62) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most


def _is_file(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and _is_count(value.get("bytes"))
        and isinstance(value.get("sha256"), str)
    )


def _are_features(value: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("columns"), list):
        return False
    kind, dim, columns = value.get("kind"), value.get("dim"), value["columns"]
    if not isinstance(dim, int) or not _is_count(dim) or not all(map(_is_column, columns)):
        return False
    if kind == "columns":
        return dim == len(columns) == len({each["name"] for each in columns}) > 0
    return kind in (None, "dense", "sparse") and not columns and (dim > 0) == (kind is not None)


def _is_column(value: Any) -> bool:
    keys = ("name", "form", "file", "values_file")
    if not isinstance(value, dict) or set(value) != set(keys):
        return False
    if not all(isinstance(each, str) for each in value.values()):
        return False
    file, values_file = value["file"], value["values_file"]
    has_values = value["form"] in _TEXT_FORMS
    return (
        value["form"] in ("array", "truth", *_TEXT_FORMS)
        and layout.COLUMN_FILE.fullmatch(file) is not None
        and file.endswith(".npy")
        and values_file == (file.replace(".npy", ".values.parquet") if has_values else "")
    )


def _is_reading(value: Any) -> bool:
    try:
        return isinstance(value, dict) and bool(TableOptions.from_dict(value))
    except (InputError, TypeError):
        return False


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


_MANIFEST: dict[str, Holds] = {
    "num_nodes": lambda value: _is_count(value, most=MAX_NODES) and value > 0,
    "num_edges": _is_count,
    "num_self_loops": _is_count,
    "undirected": _is_flag,
    "symmetrized": _is_flag,
    "id_name": lambda value: isinstance(value, str),
    "features": _are_features,
    "labels": _are_texts,
    "notes": _are_texts,
    "reading": _is_reading,
    "files": lambda value: isinstance(value, dict) and all(map(_is_file, value.values())),
}
