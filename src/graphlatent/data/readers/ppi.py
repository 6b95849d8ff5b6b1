"""Graphs out of the twelve files of PPI, four for each of its parts train, valid and test.

`PART_graph.json` (NetworkX's node-link form), `PART_feats.npy` [N, F], `PART_labels.npy` [N, K],
`PART_graph_id.npy` [N].
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from graphlatent.data.graph import RawGraph
from graphlatent.data.readers.saint import DAMAGED, damaged, read_array
from graphlatent.errors import InputError
from graphlatent.io.regular_files import read_regular

PPI_PARTS = ("train", "valid", "test")
_KINDS = ("graph.json", "feats.npy", "labels.npy", "graph_id.npy")
PPI_FILES = tuple(f"{part}_{kind}" for part in PPI_PARTS for kind in _KINDS)


def read_ppi(folder: Path, *, name: str) -> list[list[RawGraph]]:
    """The graphs of each part.

    An edge between two graphs is left out, as PyTorch Geometric does.

    Raises:
        InputError: where a file is missing, damaged, holds pickled objects, or does not fit the
            others.
    """
    try:
        return [_read_part(folder, part, name) for part in PPI_PARTS]
    except InputError:
        raise
    except DAMAGED as error:
        raise damaged(folder, name, error) from error


def _read_part(folder: Path, part: str, name: str) -> list[RawGraph]:
    x = read_array(folder / f"{part}_feats.npy")
    y = read_array(folder / f"{part}_labels.npy")
    of = read_array(folder / f"{part}_graph_id.npy")
    if x.ndim != 2 or y.ndim != 2 or of.shape != (len(x),) or len(y) != len(x):
        raise ValueError(
            f"{part}_feats.npy has shape {x.shape}, {part}_labels.npy {y.shape},"
            f" {part}_graph_id.npy {of.shape}"
        )
    edges = _edges(folder / f"{part}_graph.json", num_nodes=len(x))
    graphs = []
    # Position of each node within its graph.
    local = np.empty(len(x), dtype=np.int64)
    for graph_id in np.unique(of):
        nodes = np.flatnonzero(of == graph_id)
        local[nodes] = np.arange(len(nodes))
        inside = (of[edges] == graph_id).all(axis=0)
        graphs.append(
            RawGraph(
                edge_index=local[edges[:, inside]],
                num_nodes=len(nodes),
                x=x[nodes].astype(np.float32),
                y=y[nodes].astype(np.int64),
                name=f"{name} {part}",
            )
        )
    return graphs


def _edges(path: Path, *, num_nodes: int) -> np.ndarray[Any, Any]:
    """Source and target of each link, [2, E]; a node's id is its row in the other files."""
    values = json.loads(read_regular(path).decode("utf-8"))
    if values.get("directed"):
        raise ValueError(f"{path.name} holds a directed graph")
    links = [(link["source"], link["target"]) for link in values["links"]]
    edges = np.array(links, dtype=object).reshape(-1, 2).T
    if not all(type(node) is int and 0 <= node < num_nodes for node in edges.flat):
        raise ValueError(f"{path.name} links nodes that are not whole numbers below {num_nodes}")
    return edges.astype(np.int64)
