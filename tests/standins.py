"""Tiny sets on disk in the place of the paper's, and recipes that train a few epochs on them."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from graphlatent.bench.loading import load_recipe
from graphlatent.bench.recipe import Evaluation, Recipe
from graphlatent.data.graph import GraphData
from graphlatent.data.synthetic import latent_graph


def tiny(name: str, **changes: Any) -> Recipe:
    """A packaged recipe with a small encoder and few epochs, that learns fast enough for them to
    differ.
    """
    recipe = load_recipe(name)
    probe = (15, 1e-3) if recipe.level == "node" else ()
    small = {"hidden_dim": 4, "lr": 0.02, "epochs": 6}
    values: dict[str, Any] = {
        "paper": {**recipe.paper, **small},
        "released": {"preset": "released", "epochs": 4},
        "evaluation": Evaluation((1, 3, 6), 3, *probe),
    }
    return dataclasses.replace(recipe, **{**values, **changes})


def quick(cell: str, *rows: str, **changes: Any) -> Recipe:
    """A tiny recipe with some rows only."""
    return dataclasses.replace(tiny(cell), rows=rows or ("raw", "random"), **changes)


def communities(num_nodes: int, *, seed: int = 0) -> GraphData:
    """Three communities, half visible in six features, many of them 0."""
    graph = latent_graph(
        num_nodes=num_nodes, num_classes=3, feature_dim=6, avg_degree=4.0, sigma=1.0, seed=seed
    ).graph
    return graph.with_features(graph.x.clamp(min=0))


def write_photo(root: Path, *, num_nodes: int = 60) -> None:
    """In the place of Photo: communities."""
    graph, raw = communities(num_nodes), root / "Photo" / "raw"
    raw.mkdir(parents=True)
    matrices = {"adj": _adjacency(graph), "attr": sp.csr_matrix(graph.x.numpy())}
    parts = {
        f"{name}_{key}": getattr(m, key)
        for name, m in matrices.items()
        for key in ("data", "indices", "indptr", "shape")
    }
    np.savez(raw / "amazon_electronics_photo.npz", labels=graph.y, **parts)


def write_mutag(root: Path, *, num_graphs: int = 24) -> None:
    """In the place of MUTAG: random graphs, the dense ones of one class and the thin ones of the
    other, with some in between.
    """
    rng, raw = np.random.default_rng(0), root / "MUTAG" / "raw"
    raw.mkdir(parents=True)
    edges, graph_of_node, labels, start = [], [], [], 1
    for i in range(num_graphs):
        size, label = int(rng.integers(4, 8)), i % 2
        pairs = [
            (start + a, start + b)
            for a in range(size)
            for b in range(a)
            if rng.random() < (0.65 if label else 0.35)
        ]
        edges += [f"{s}, {t}" for u, v in pairs for s, t in ((u, v), (v, u))]
        graph_of_node += [i + 1] * size
        labels += rng.choice(2, p=[0.6, 0.4] if label else [0.4, 0.6], size=size).tolist()
        start += size
    parts = {
        "A": edges,
        "graph_indicator": graph_of_node,
        "graph_labels": np.arange(num_graphs) % 2,
        "node_labels": labels,
    }
    for name, lines in parts.items():
        (raw / f"MUTAG_{name}.txt").write_text("\n".join(map(str, lines)) + "\n")


def write_flickr(root: Path, *, num_nodes: int = 48) -> GraphData:
    """In the place of Flickr: communities; of every four nodes two train, one chooses and one
    tests. Returns what was written.
    """
    graph, raw = communities(num_nodes, seed=1), root / "Flickr" / "raw"
    raw.mkdir(parents=True)
    adjacency = _adjacency(graph)
    np.savez(
        raw / "adj_full.npz",
        data=adjacency.data,
        indices=adjacency.indices,
        indptr=adjacency.indptr,
        shape=adjacency.shape,
    )
    np.save(raw / "feats.npy", graph.x.double().numpy())
    (raw / "class_map.json").write_text(
        json.dumps({str(i): int(label) for i, label in enumerate(graph.y)})
    )
    nodes = list(range(num_nodes))
    roles = {"tr": [i for i in nodes if i % 4 < 2], "va": nodes[2::4], "te": nodes[3::4]}
    (raw / "role.json").write_text(json.dumps(roles))
    return graph


PPI_SIZES = {"train": [12, 9], "valid": [10], "test": [8, 11]}


def write_ppi(root: Path) -> None:
    """In the place of PPI: paths, of which every node carries some of 7 labels that its features
    half tell.
    """
    raw, rng = root / "PPI" / "raw", np.random.default_rng(0)
    raw.mkdir(parents=True)
    tell = rng.normal(size=(50, 7))
    for part, sizes in PPI_SIZES.items():
        starts, total = np.cumsum([0, *sizes]), sum(sizes)
        links = [
            {"source": int(s) + i, "target": int(s) + i + 1}
            for s, n in zip(starts[:-1], sizes, strict=True)
            for i in range(n - 1)
        ]
        nodes = [{"id": i} for i in range(total)]
        (raw / f"{part}_graph.json").write_text(
            json.dumps({"directed": False, "graph": {}, "nodes": nodes, "links": links})
        )
        x = rng.normal(size=(total, 50))
        np.save(raw / f"{part}_feats.npy", x)
        np.save(
            raw / f"{part}_labels.npy",
            (x @ tell + 3 * rng.normal(size=(total, 7)) > 4).astype(np.int64),
        )
        np.save(raw / f"{part}_graph_id.npy", np.repeat(np.arange(len(sizes)) + 1, sizes))


def write_ppi_small(root: Path, *, num_nodes: int = 48) -> None:
    """In the place of PPI-small: three communities, each of one part, with some of 5 labels that
    the features half tell.
    """
    raw, rng = root / "PPI-small" / "raw", np.random.default_rng(1)
    raw.mkdir(parents=True)
    split = np.arange(num_nodes) % 6 // 3 * (1 + np.arange(num_nodes) % 2)
    pairs = [(i, j) for i in range(num_nodes) for j in range(i) if split[i] == split[j]]
    edges = np.array([pair for pair in pairs if rng.random() < 0.1] + [(0, 0)]).T
    x = rng.integers(0, 2, size=(num_nodes, 6))
    y = x @ rng.normal(size=(6, 5)) + rng.normal(size=(num_nodes, 5)) > 0.5
    np.savez(
        raw / "ppi_small.npz",
        edges=edges.astype(np.int32),
        split=split.astype(np.int8),
        x=x.astype(np.uint8),
        y=y.astype(np.uint8),
    )


def _adjacency(graph: GraphData) -> sp.csr_matrix:
    ones = np.ones(graph.num_edges)
    return sp.csr_matrix(
        (ones, tuple(graph.edge_index.numpy())), shape=(graph.num_nodes, graph.num_nodes)
    )
