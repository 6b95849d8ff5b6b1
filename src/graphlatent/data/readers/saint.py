"""A graph with published parts out of GraphSAINT's four files: Flickr and Reddit.

`adj_full.npz` (CSR adjacency), `feats.npy` [N, F], `class_map.json` (class of each node),
`role.json` (nodes of the training, validation and test parts: tr, va, te).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from graphlatent.data.graph import RawGraph
from graphlatent.data.readers.array_files import open_arrays
from graphlatent.errors import InputError
from graphlatent.io.regular_files import read_regular

SAINT_FILES = ("adj_full.npz", "feats.npy", "class_map.json", "role.json")
# What NumPy, SciPy and json raise for damaged files.
DAMAGED = (
    OSError,
    EOFError,
    ValueError,
    TypeError,
    AttributeError,
    KeyError,
    IndexError,
    OverflowError,
    NotImplementedError,
    RecursionError,
)


def read_saint(folder: Path, *, name: str) -> tuple[RawGraph, list[np.ndarray[Any, Any]]]:
    """The graph in a folder of these files, and which nodes are in its three parts, bool [N] each.

    Values of the adjacency are not read: edges have no weights. A node without a class has -1.

    Raises:
        InputError: where a file is missing, damaged, holds pickled objects, or does not fit the
            others.
    """
    try:
        return _read(folder, name)
    except InputError:
        raise
    except DAMAGED as error:
        raise damaged(folder, name, error) from error


def damaged(folder: Path, name: str, error: BaseException) -> InputError:
    """The error of files that cannot be read."""
    return InputError(
        f"The files in {folder} cannot be read as the data set {name}: {type(error).__name__}:"
        f" {error}. Get them again."
    )


def read_array(path: Path) -> np.ndarray[Any, Any]:
    """The numbers in a .npy file.

    Raises:
        InputError: where it is missing or damaged, or holds pickled objects.
        ValueError: where it holds no numbers.
    """
    with open_arrays(path) as file:
        array = file[""]
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{path.name} does not hold an array of numbers")
    return array


def _read(folder: Path, name: str) -> tuple[RawGraph, list[np.ndarray[Any, Any]]]:
    with open_arrays(folder / "adj_full.npz") as file:
        data, indices, indptr, shape = (file[key] for key in ("data", "indices", "indptr", "shape"))
    num_nodes = int(shape[0])
    adjacency = sp.csr_matrix((data, indices, indptr), shape=(num_nodes, int(shape[1])))
    adjacency.check_format(full_check=True)
    x = read_array(folder / "feats.npy")
    if x.ndim != 2 or len(x) != num_nodes or adjacency.shape[1] != num_nodes:
        raise ValueError(f"adj_full.npz has shape {adjacency.shape}, feats.npy {x.shape}")
    y = np.full(num_nodes, -1, dtype=np.int64)
    for node, label in _json(folder / "class_map.json").items():
        y[_node(node, num_nodes)] = _whole(label)
    roles = _json(folder / "role.json")
    parts = []
    for role in ("tr", "va", "te"):
        mask = np.zeros(num_nodes, dtype=bool)
        mask[[_node(node, num_nodes) for node in roles[role]]] = True
        parts.append(mask)
    edges = adjacency.tocoo()
    graph = RawGraph(
        edge_index=np.stack([edges.row, edges.col]).astype(np.int64),
        num_nodes=num_nodes,
        x=x.astype(np.float32),
        y=y,
        name=name,
    )
    return graph, parts


def _json(path: Path) -> Any:
    values = json.loads(read_regular(path).decode("utf-8"))
    if not isinstance(values, dict):
        raise ValueError(f"{path.name} is not a JSON object")
    return values


def _node(value: Any, num_nodes: int) -> int:
    node = int(value) if isinstance(value, str) else _whole(value)
    if not 0 <= node < num_nodes:
        raise ValueError(f"there is no node {value!r} among {num_nodes}")
    return node


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise ValueError(f"{value!r} is not a whole number")
    return value
