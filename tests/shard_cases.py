"""A small store of which shards are made, with features of each kind."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import scipy.sparse as sp

from graphlatent.data.readers.options import TableOptions
from graphlatent.data.store.ingest import IngestOptions, ingest
from graphlatent.data.store.store import GraphStore

SIZE = 90


def make_store(
    folder: Path,
    kind: str = "columns",
    *,
    weighted: bool = True,
    directed: bool = False,
    size: int = SIZE,
    width: int = 30,
) -> GraphStore:
    """Three communities with edges between them and loops; nodes in an order of their own."""
    rng = np.random.default_rng(0)
    group = rng.integers(0, 3, size)
    pairs = rng.integers(0, size, (8 * size, 2))
    kept = (group[pairs[:, 0]] == group[pairs[:, 1]]) | (rng.random(len(pairs)) < 0.05)
    pairs = np.concatenate([pairs[kept], [[4, 4], [7, 7]]])
    edges = pd.DataFrame(pairs, columns=["source", "target"]).drop_duplicates()
    if weighted:
        edges["weight"] = rng.uniform(0.5, 2, len(edges)).round(3)
    names = np.array([f"n{i}" for i in rng.permutation(size)])
    edges["source"], edges["target"] = names[edges["source"]], names[edges["target"]]
    nodes = pd.DataFrame({"id": names, "group": group})
    features = None
    if kind == "columns":
        nodes["age"] = rng.integers(9, 90, size)
        nodes["city"] = rng.choice(["Oslo", "Rome", "Bergen"], size)
    elif kind == "dense":
        features = folder / "x.npy"
        np.save(features, rng.normal(size=(size, 4)).astype(np.float32))
    elif kind == "sparse":
        features = folder / "x.npz"
        sp.save_npz(features, sp.random(size, width, 3 / width, "csr", np.float32, rng))
    edges.to_csv(folder / "edges.csv", index=False)
    nodes.to_csv(folder / "nodes.csv", index=False)
    options = IngestOptions(TableOptions(label="group"), directed=directed)
    return ingest(
        folder / "edges.csv",
        folder / "store",
        nodes=folder / "nodes.csv",
        features=features,
        options=options,
    )[0]
