"""What coordinates computed from the edges know about labels, by variant.

    python benchmarks/structure.py --graphs Photo,CS,citation,planted --data ROOT

Features are taken away; every variant computes coordinates X from the edges alone. The linear probe
is given unit rows of [X, Â² X], a stand-in for what an embedding makes of its input. Variants were
chosen by the scores on validation nodes of Photo and CS; the test scores are for the record.

hops K: ours, with K rounds of smoothing (`graphlatent.data.structure`).
plain K: smoothing that does not project out the leading eigenvector.
spectral: singular vectors of the GCN matrix. chebyshev: the band-pass filter of ProNE.
window 2: log(max(1, M)) of random walks of up to 2 steps, kept sparse, then smoothed.
NetMF: the same with 10 steps as a dense matrix, for graphs of up to 9,000 nodes: what methods of
    random walks reach.
Synthetic graphs. planted: 100 communities, 10,000 nodes, 1e6 edges of which a tenth stay in their
    community. citation: 2,700 nodes, 5,400 edges, 7 classes of 12 topics, heavy-tailed degrees,
    hundreds of components.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from scipy.special import iv
from torch import Tensor

from graphlatent.data.assemble import assemble
from graphlatent.data.batches import EdgeList
from graphlatent.data.datasets import load_dataset
from graphlatent.data.graph import GraphData, RawGraph
from graphlatent.data.splits import random_splits
from graphlatent.data.structure import (
    log_ratio_matrix,
    randomized_svd,
    smoothed,
    structure_coordinates,
    undirected_adjacency,
    unit_rows,
)
from graphlatent.data.synthetic import latent_graph
from graphlatent.nn.propagation import gcn_matrix
from graphlatent.ops.sparse import SparseMatrix
from graphlatent.probes import linear_probe

DENSE_NODES = 9000


def citation_graph(
    *, num_nodes: int = 2700, num_edges: int = 5400, num_classes: int = 7, topics: int = 12
) -> GraphData:
    """A sparse graph like one of citations: homophily about 0.77, degrees up to about 75."""
    rng = np.random.default_rng(0)
    label = rng.integers(0, num_classes, num_nodes)
    topic = label * topics + rng.integers(0, topics, num_nodes)
    popularity = rng.pareto(2.2, num_nodes) + 0.25
    edges: set[tuple[int, int]] = set()
    while len(edges) < num_edges:
        source = int(rng.choice(num_nodes, p=popularity / popularity.sum()))
        reach = rng.random()
        same = topic == topic[source] if reach < 0.6 else label == label[source]
        weight = popularity * (same if reach < 0.77 else 1)
        target = int(rng.choice(num_nodes, p=weight / weight.sum()))
        if source != target:
            edges.add((min(source, target), max(source, target)))
    index = np.array(sorted(edges)).T
    return assemble([RawGraph(index, num_nodes, y=label, directed=False)])


def load(name: str, root: Path | None) -> GraphData:
    """A graph by name."""
    if name == "citation":
        return citation_graph()
    if name == "planted":
        return latent_graph(
            num_nodes=10_000, num_classes=100, feature_dim=2, avg_degree=200, homophily=0.1
        ).graph
    return load_dataset(name, root=root).graph


def generator() -> torch.Generator:
    """The generator of every variant."""
    return torch.Generator().manual_seed(0)


def factorised(matrix: SparseMatrix, dim: int) -> Tensor:
    """Unit rows of U S^1/2."""
    factors = randomized_svd(matrix, rank=dim, generator=generator())
    return unit_rows(factors.left * factors.values.sqrt(), floor=0.0)


def window(adjacency: SparseMatrix, steps: int) -> SparseMatrix:
    """log(max(1, vol / T sum_r P^r D^-1)) of NetMF, computed sparse."""
    weights = adjacency.to_scipy().astype(np.float64)
    degree = np.asarray(weights.sum(1)).ravel()
    inverse = sp.diags(1 / np.where(degree > 0, degree, 1))
    power = total = sp.csr_matrix(inverse @ weights)
    for _ in range(steps - 1):
        power = power @ (inverse @ weights)
        total = total + power
    ratio = (total @ inverse * (degree.sum() / steps)).tocoo()
    kept = ratio.data > 1
    values = (np.log(ratio.data[kept]), (ratio.row[kept], ratio.col[kept]))
    return SparseMatrix.from_scipy(sp.csr_matrix(values, shape=adjacency.shape))


def plainly_smoothed(rows: Tensor, matrix: SparseMatrix, hops: int) -> Tensor:
    """X <- X + Â X with rows normalised, without projection."""
    for _ in range(hops):
        rows = unit_rows(rows + matrix.multiply(rows))
    return rows


def chebyshev(rows: Tensor, adjacency: SparseMatrix, *, order: int = 10) -> Tensor:
    """The band-pass filter of ProNE with its published parameters, mu = 0.2 and theta = 0.5."""
    mu, theta = 0.2, 0.5
    looped = adjacency.to_scipy() + sp.eye(adjacency.shape[0])
    walk = sp.diags(1 / np.asarray(looped.sum(1)).ravel()) @ looped
    shifted = SparseMatrix.from_scipy(sp.eye(len(rows)) * (1 - mu) - walk)
    before, last = rows, 0.5 * shifted.multiply(shifted.multiply(rows)) - rows
    total = iv(0, theta) * before - 2 * iv(1, theta) * last
    for i in range(2, order):
        following = shifted.multiply(shifted.multiply(last)) - 2 * last - before
        total = total + (2 if i % 2 == 0 else -2) * iv(i, theta) * following
        before, last = last, following
    filtered = SparseMatrix.from_scipy(looped).multiply(rows - total).to(torch.float64)
    values, vectors = torch.linalg.eigh(filtered.T @ filtered)
    return unit_rows((filtered @ vectors / values.clamp(min=1e-12) ** 0.25).to(torch.float32))


def variants(graph: GraphData) -> Iterator[tuple[str, Callable[[], Tensor]]]:
    """Every variant of the coordinates of a graph, by name."""
    adjacency = undirected_adjacency(graph)
    propagation = propagation_matrix(graph)
    matrix = log_ratio_matrix(adjacency)
    positive = matrix.with_values(matrix.value.clamp(min=0))
    coordinates = structure_coordinates
    yield "spectral 128", lambda: factorised(propagation, 128)
    yield "hops 0", lambda: coordinates(graph, dim=128, generator=generator(), hops=0)
    yield "truncated at 0, hops 0", lambda: factorised(positive, 128)
    for hops in (1, 2, 5, 10, 20, 40, 80):
        yield (
            f"hops {hops}",
            lambda hops=hops: coordinates(graph, dim=128, generator=generator(), hops=hops),
        )
    yield "hops 40, dim 256", lambda: coordinates(graph, dim=256, generator=generator(), hops=40)
    yield "hops 40, log degree", lambda: with_degree(graph)
    for hops in (10, 40):
        yield (
            f"plain {hops}",
            lambda hops=hops: plainly_smoothed(factorised(matrix, 128), propagation, hops),
        )
    yield "chebyshev", lambda: chebyshev(factorised(matrix, 128), adjacency)
    if adjacency.nnz < 500_000:
        for hops in (0, 40):
            yield (
                f"window 2, hops {hops}",
                lambda hops=hops: smoothed(
                    factorised(window(adjacency, 2), 128), adjacency, hops=hops
                ),
            )
    if graph.num_nodes <= DENSE_NODES:
        yield "NetMF 128", lambda: factorised(window(adjacency, 10), 128)


def with_degree(graph: GraphData) -> Tensor:
    """Our coordinates and a column of log(1 + degree)."""
    rows = structure_coordinates(graph, dim=128, generator=generator(), hops=40)
    return torch.cat([rows, graph.degree[:, None].add(1).log() / 10], dim=1)


def propagation_matrix(graph: GraphData) -> SparseMatrix:
    """Â in float32."""
    edges = EdgeList(graph.edge_index, graph.edge_weight, graph.num_nodes, undirected=True)
    return gcn_matrix(edges).to(dtype=torch.float32)


def measure(name: str, *, root: Path | None, num_splits: int, only: list[str]) -> None:
    """Print a line for each variant."""
    graph = load(name, root)
    propagation, labels = propagation_matrix(graph), np.asarray(graph.y)
    splits: Any = random_splits(graph.num_nodes, num_splits=num_splits)
    print(f"\n{name}: {graph.num_nodes:,} nodes, {graph.num_edges // 2:,} edges")
    print(f"{'variant':<26}{'validation':>12}{'test':>10}{'seconds':>10}")
    for title, compute in variants(graph):
        if only and title not in only:
            continue
        began = time.perf_counter()
        rows = compute()
        seconds = time.perf_counter() - began
        far = propagation.multiply(propagation.multiply(rows))
        probe = linear_probe(unit_rows(torch.cat([rows, far], 1)).numpy(), labels, splits=splits)
        val = np.mean([choice.val_score for choice in probe.choices])
        test = np.mean(probe.scores)
        print(f"{title:<26}{100 * val:>12.2f}{100 * test:>10.2f}{seconds:>10.1f}", flush=True)


def main() -> None:
    """Measure and print the tables."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--graphs", default="Photo,CS,Computers,citation,planted")
    options.add_argument("--splits", type=int, default=5)
    options.add_argument("--only", default="", help="titles of variants, separated by ';'")
    options.add_argument(
        "--data", type=Path, default=None, help="data root [default: GRAPHLATENT_DATA]"
    )
    args = options.parse_args()
    only = [title for title in args.only.split(";") if title]
    for name in args.graphs.split(","):
        measure(name, root=args.data, num_splits=args.splits, only=only)


if __name__ == "__main__":
    main()
