"""Small raw files in the layouts of the named data sets."""

from __future__ import annotations

import json

import numpy as np
import scipy.sparse as sp


def write_ppi(root):
    """A small PPI: two training graphs, one for validation, one for testing."""
    raw = root / "PPI" / "raw"
    raw.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for part, sizes in (("train", [3, 4]), ("valid", [3]), ("test", [5])):
        starts = np.cumsum([0, *sizes])
        links = [
            {"source": int(s) + i, "target": int(s) + i + 1}
            for s, n in zip(starts, sizes, strict=False)
            for i in range(n - 1)
        ]
        links += [{"source": 0, "target": 0}]  # a self-loop, which goes
        nodes = [{"id": i} for i in range(int(starts[-1]))]
        (raw / f"{part}_graph.json").write_text(
            json.dumps({"directed": False, "graph": {}, "nodes": nodes, "links": links})
        )
        np.save(raw / f"{part}_feats.npy", rng.normal(size=(starts[-1], 50)))
        np.save(raw / f"{part}_labels.npy", rng.integers(0, 2, size=(starts[-1], 121)))
        np.save(raw / f"{part}_graph_id.npy", np.repeat(np.arange(len(sizes)) + 7, sizes))
    return raw


def write_saint(root, folder):
    """A small Flickr or Reddit: three nodes in a path, and one alone."""
    raw = root / folder / "raw"
    raw.mkdir(parents=True)
    adjacency = sp.csr_matrix(
        np.array([[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]], dtype=np.float64)
    )
    np.savez(
        raw / "adj_full.npz",
        data=adjacency.data,
        indices=adjacency.indices,
        indptr=adjacency.indptr,
        shape=adjacency.shape,
    )
    np.save(raw / "feats.npy", np.arange(8.0).reshape(4, 2))
    (raw / "class_map.json").write_text(json.dumps({"0": 2, "1": 0, "2": 1, "3": 2}))
    (raw / "role.json").write_text(json.dumps({"tr": [0, 2], "va": [1], "te": [3]}))
    return raw


def write_tu(root, folder):
    """Three graphs of two nodes, one node and one node."""
    raw = root / folder / "raw"
    raw.mkdir(parents=True)
    for kind, text in {
        "A": "1, 2\n2, 1\n2, 2\n",
        "graph_indicator": "1\n1\n2\n3\n",
        "graph_labels": "5\n1\n5\n",
    }.items():
        (raw / f"{folder}_{kind}.txt").write_text(text)
    return raw


def write_npz(root, folder, file):
    """Two nodes, one edge and a self-loop, five features."""
    path = root / folder / "raw" / file
    path.parent.mkdir(parents=True, exist_ok=True)
    csr = sp.csr_matrix(np.array([[0, 1], [0, 1]]))
    features = sp.csr_matrix(np.array([[3.0, 0, 0, 0, 0], [0, 0, 0, 0, 0]]))
    np.savez(
        path,
        adj_data=csr.data,
        adj_indices=csr.indices,
        adj_indptr=csr.indptr,
        adj_shape=csr.shape,
        attr_data=features.data,
        attr_indices=features.indices,
        attr_indptr=features.indptr,
        attr_shape=features.shape,
        labels=np.array([0, 1]),
    )
    return path.parent


def write_parts(root, **changes):
    """PPI-small: one .npz of four nodes."""
    path = root / "PPI-small" / "raw" / "ppi_small.npz"
    path.parent.mkdir(parents=True)
    arrays = {
        "edges": np.array([[0, 2, 1], [1, 2, 0]], dtype=np.int32),
        "split": np.array([0, 0, 2, 1], dtype=np.int8),
        "x": np.eye(4, 3, dtype=np.uint8),
        "y": np.array([[1, 0], [0, 0], [1, 1], [0, 1]], dtype=np.uint8),
    }
    np.savez(path, **{k: v for k, v in {**arrays, **changes}.items() if v is not None})
    return path


def write_set(root, info):
    """Small raw files of any named data set; returns their folder."""
    if info.layout == "tu":
        return write_tu(root, info.folder)
    if info.layout == "npz":
        return write_npz(root, info.folder, info.raw_files[0])
    if info.layout == "parts":
        return write_parts(root).parent
    return write_ppi(root) if info.layout == "ppi" else write_saint(root, info.folder)
