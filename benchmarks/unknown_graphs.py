"""How the default embedding compares with its own input on graphs that it was not chosen on.

    python benchmarks/unknown_graphs.py --only words,roles

Each set is synthetic with known labels. The linear probe is given the embedding as `transform`
returns it, the encoded features, their 2-hop average, and the embedding of the untrained encoder.
The last column is the embedding's score less the best of the others, in points.
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
import torch
from harness import hardware

from graphlatent import GraphLaGraph, NodeLaGraph, __version__
from graphlatent.config import Level
from graphlatent.data.assemble import assemble
from graphlatent.data.graph import GraphData, RawGraph
from graphlatent.data.splits import random_splits
from graphlatent.estimator import Estimator
from graphlatent.probes import linear_probe
from graphlatent.representations import REPRESENTATIONS

Array: TypeAlias = np.ndarray[Any, Any]
NODES, CLASSES, GRAPHS = 1000, 5, 400
COLUMNS = ("trained", "raw", "propagated", "random")


def labels(rng: np.random.Generator, num_classes: int = CLASSES) -> Array:
    """Random classes of the nodes."""
    return rng.integers(0, num_classes, NODES)


def partition(
    y: Array, *, same: float, degree: float, rng: np.random.Generator, shift: int = 0
) -> Array:
    """Edges [2, E], a share `same` of which lead to class y + shift and the others anywhere."""
    count = int(len(y) * degree / 2)
    source = rng.integers(0, len(y), count)
    num_classes = int(y.max()) + 1
    members = [np.flatnonzero(y == c) for c in range(num_classes)]
    target = rng.integers(0, len(y), count)
    for i in np.flatnonzero(rng.random(count) < same):
        target[i] = rng.choice(members[(y[source[i]] + shift) % num_classes])
    return np.stack([source, target])


def gaussians(y: Array, *, columns: int, signal: float, rng: np.random.Generator) -> Array:
    """Normal features [N, columns] around a centre of each class of norm about `signal`."""
    centres = rng.standard_normal((int(y.max()) + 1, columns)) * signal / columns**0.5
    features: Array = centres[y] + rng.standard_normal((len(y), columns))
    return features


def words(y: Array, *, columns: int, rng: np.random.Generator) -> sp.csr_matrix:
    """Sparse 0/1 words [N, columns] of documents of 3 to 15, with a topic for each class."""
    topics = rng.dirichlet(np.full(columns, 0.05), int(y.max()) + 1)
    common = rng.dirichlet(np.full(columns, 0.5))
    rows, cols = [], []
    for i, label in enumerate(y):
        chance = 0.3 * topics[label] + 0.7 * common
        drawn = np.unique(rng.choice(columns, rng.integers(3, 16), p=chance))
        rows += [i] * len(drawn)
        cols += drawn.tolist()
    ones = np.ones(len(rows), dtype=np.float32)
    return sp.csr_matrix((ones, (rows, cols)), shape=(len(y), columns))


def node_set(edges: Array, x: Any, y: Array) -> GraphData:
    """One graph with node labels."""
    return assemble([RawGraph(edges, len(y), x=x, y=y, directed=False)])


def planted(rng: np.random.Generator) -> GraphData:
    """Communities with weak features."""
    y = labels(rng)
    edges = partition(y, same=0.4, degree=10, rng=rng)
    return node_set(edges, gaussians(y, columns=50, signal=1.0, rng=rng), y)


def heterophilous(rng: np.random.Generator) -> GraphData:
    """Edges to the next class, with informative features."""
    y = labels(rng, 4)
    edges = partition(y, same=0.8, degree=8, rng=rng, shift=1)
    return node_set(edges, gaussians(y, columns=100, signal=2.5, rng=rng), y)


def citations(rng: np.random.Generator) -> GraphData:
    """A sparse graph with 500 words."""
    y = labels(rng)
    return node_set(partition(y, same=0.75, degree=4, rng=rng), words(y, columns=500, rng=rng), y)


def dense(rng: np.random.Generator) -> GraphData:
    """100 real columns, homophilous."""
    y = labels(rng)
    edges = partition(y, same=0.6, degree=6, rng=rng)
    return node_set(edges, gaussians(y, columns=100, signal=2.0, rng=rng), y)


def unscaled(rng: np.random.Generator) -> GraphData:
    """100 real columns with means and scales from 0.01 to 100."""
    y = labels(rng)
    edges = partition(y, same=0.6, degree=6, rng=rng)
    x = gaussians(y, columns=100, signal=2.5, rng=rng) + rng.standard_normal(100)
    return node_set(edges, x * 10 ** rng.uniform(-2, 2, 100), y)


def shifted(rng: np.random.Generator) -> GraphData:
    """100 real columns whose common mean is far from 0."""
    y = labels(rng)
    edges = partition(y, same=0.6, degree=6, rng=rng)
    return node_set(edges, gaussians(y, columns=100, signal=2.5, rng=rng) + 10, y)


def few(rng: np.random.Generator) -> GraphData:
    """Three columns."""
    y = labels(rng)
    edges = partition(y, same=0.6, degree=6, rng=rng)
    return node_set(edges, gaussians(y, columns=3, signal=2.5, rng=rng), y)


def few_unscaled(rng: np.random.Generator) -> GraphData:
    """Six columns such as age and income, with different means and scales."""
    y = labels(rng)
    edges = partition(y, same=0.6, degree=6, rng=rng)
    x = gaussians(y, columns=6, signal=2.5, rng=rng) + np.array([3, 0, 5, 0, 10, 1])
    return node_set(edges, x * np.array([1, 10, 1e4, 0.1, 1, 50]), y)


def magnitude(rng: np.random.Generator) -> GraphData:
    """100 columns where the class is the norm of the row."""
    y = labels(rng, 3)
    edges = partition(y, same=0.6, degree=6, rng=rng)
    rows = np.abs(rng.standard_normal((NODES, 100))) * np.array([0.8, 1.0, 1.2])[y, None]
    return node_set(edges, rows * rng.lognormal(0, 0.15, (NODES, 1)), y)


def structure_only(rng: np.random.Generator) -> GraphData:
    """Communities with features that are noise."""
    y = labels(rng)
    return node_set(
        partition(y, same=0.6, degree=10, rng=rng), rng.standard_normal((NODES, 100)), y
    )


def constant(rng: np.random.Generator) -> GraphData:
    """Communities with a column of ones, as people write where they have no features."""
    y = labels(rng)
    return node_set(partition(y, same=0.6, degree=10, rng=rng), np.ones((NODES, 1)), y)


def bare(rng: np.random.Generator) -> GraphData:
    """Communities without features."""
    y = labels(rng)
    return node_set(partition(y, same=0.5, degree=8, rng=rng), None, y)


def features_only(rng: np.random.Generator) -> GraphData:
    """Informative features with random edges."""
    y = labels(rng)
    edges = rng.integers(0, NODES, (2, 3 * NODES))
    return node_set(edges, gaussians(y, columns=100, signal=3.0, rng=rng), y)


def weak_edges(rng: np.random.Generator) -> GraphData:
    """Informative features with edges that are hardly better than random."""
    y = labels(rng)
    edges = partition(y, same=0.1, degree=6, rng=rng)
    return node_set(edges, gaussians(y, columns=100, signal=2.5, rng=rng), y)


def weak_edges_words(rng: np.random.Generator) -> GraphData:
    """500 words with edges that are hardly better than random."""
    y = labels(rng, 3)
    return node_set(partition(y, same=0.1, degree=4, rng=rng), words(y, columns=500, rng=rng), y)


def roles(rng: np.random.Generator) -> GraphData:
    """The class is the third of the degrees, with features that are noise."""
    weight = rng.pareto(2.0, NODES) + 0.5
    edges = rng.choice(NODES, (2, 4 * NODES), p=weight / weight.sum())
    return _by_degree(edges, rng.standard_normal((NODES, 20)))


def roles_bare(rng: np.random.Generator) -> GraphData:
    """The class is the third of the degrees, without features."""
    weight = rng.pareto(2.0, NODES) + 0.5
    return _by_degree(rng.choice(NODES, (2, 4 * NODES), p=weight / weight.sum()), None)


def _by_degree(edges: Array, x: Array | None) -> GraphData:
    graph = node_set(edges, x, np.zeros(NODES, dtype=np.int64))
    degree = graph.degree.numpy()
    y = np.digitize(degree, np.quantile(degree, [1 / 3, 2 / 3]))
    return node_set(edges, x, y)


def graph_set(make: Callable[[int, np.random.Generator], Any]) -> Any:
    """The function that makes a set of graphs of two classes in turn."""

    def made(rng: np.random.Generator) -> GraphData:
        graphs = []
        for i in range(GRAPHS):
            edges, size, x = make(i % 2, rng)
            graphs.append(RawGraph(edges, size, x=x, y=i % 2, directed=False))
        return assemble(graphs)

    made.__doc__ = make.__doc__
    return made


def tree(size: int, rng: np.random.Generator) -> Array:
    """The edges [2, size - 1] of a random recursive tree."""
    parent = [int(rng.integers(0, i)) for i in range(1, size)]
    return np.array([parent, range(1, size)])


def motif(y: int, rng: np.random.Generator) -> tuple[Array, int, None]:
    """Trees with two 5-rings, or two triangles with tails, attached."""
    size = int(rng.integers(15, 30))
    parts, total = [tree(size, rng)], size
    for _ in range(2):
        ring = np.arange(5) + total
        hung = np.array([[rng.integers(0, size)], [total]])
        closing = np.array([[ring[-1]], [ring[0] if y else ring[2]]])
        parts += [hung, np.stack([ring[:-1], ring[1:]]), closing]
        total += 5
    return np.concatenate(parts, axis=1), total, None


def degree_like(y: int, rng: np.random.Generator) -> tuple[Array, int, None]:
    """Random graphs with equal or heavy-tailed degrees, of the same size and density."""
    size = int(rng.integers(20, 50))
    weight = rng.pareto(2.5, size) + 0.5 if y else np.ones(size)
    return rng.choice(size, (2, 2 * size), p=weight / weight.sum()), size, None


def labelled(y: int, rng: np.random.Generator) -> tuple[Array, int, Array]:
    """Labelled trees, and the same with three edges more."""
    size = int(rng.integers(12, 40))
    edges = tree(size, rng)
    if y:
        edges = np.concatenate([edges, rng.integers(0, size, (2, 3))], axis=1)
    return edges, size, np.eye(5)[rng.integers(0, 5, size)]


def molecule(y: int, rng: np.random.Generator) -> tuple[Array, int, Array]:
    """Chains of rings with atoms; in one class the rare atoms are neighbours of each other."""
    rings = int(rng.integers(2, 5))
    size = 6 * rings
    first = np.arange(size)
    second = np.where(first % 6 == 5, first - 5, first + 1)
    links = np.array([[6 * i + 3, 6 * i + 6] for i in range(rings - 1)]).T
    atom = np.where(rng.random(size) < 0.2, rng.integers(1, 3, size), 0)
    at = 6 * rng.integers(0, rings)
    atom[at : at + 6] = [3, 3, 0, 0, 0, 0] if y else [3, 0, 0, 3, 0, 0]
    return np.concatenate([np.stack([first, second]), links], axis=1), size, np.eye(4)[atom]


NODE_SETS: Mapping[str, Callable[[np.random.Generator], GraphData]] = {
    each.__name__: each
    for each in (
        planted,
        heterophilous,
        citations,
        dense,
        unscaled,
        shifted,
        few,
        few_unscaled,
        magnitude,
        structure_only,
        constant,
        bare,
        features_only,
        weak_edges,
        weak_edges_words,
        roles,
        roles_bare,
    )
}
GRAPH_SETS: Mapping[str, Callable[[np.random.Generator], GraphData]] = {
    each.__name__: graph_set(each) for each in (motif, degree_like, labelled, molecule)
}


def scores(
    graph: GraphData, estimator: Estimator, *, num_splits: int, train_ratio: float
) -> dict[str, float]:
    """Test accuracy in percent of each representation."""
    assert graph.y is not None
    splits = random_splits(
        len(graph.y),
        num_splits=num_splits,
        train_ratio=train_ratio,
        val_ratio=min(train_ratio, 0.1),
    )
    return {
        name: 100
        * linear_probe(REPRESENTATIONS[name].rows(graph, estimator), graph.y, splits=splits).mean
        for name in COLUMNS
    }


def options(doc: str | None) -> argparse.ArgumentParser:
    """The options that the scripts of this table share."""
    parser = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
    parser.add_argument("--only", help="names of sets, separated by commas")
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0, help="of the sets")
    parser.add_argument("--out", type=Path, help="file of records to add to")
    return parser


def measure(
    makers: Mapping[str, Callable[[], GraphData]],
    args: argparse.Namespace,
    *,
    train_ratio: Callable[[str], float],
    level: Level | None = None,
) -> None:
    """Print a line for each set, and add it to the records.

    Args:
        makers: the sets by name.
        args: of `options`.
        train_ratio: the share of nodes or graphs that train, by name of the set.
        level: of all sets; None: graphs for those of GRAPH_SETS, else nodes.
    """
    print(f"{'set':18}" + "".join(f"{name:>12}" for name in (*COLUMNS, "difference")))
    for name in args.only.split(",") if args.only else makers:
        of_graphs = name in GRAPH_SETS if level is None else level == "graph"
        kind = GraphLaGraph if of_graphs else NodeLaGraph
        ratio = train_ratio(name)
        estimator = kind(progress=False, device="cpu")
        row = scores(makers[name](), estimator, num_splits=args.splits, train_ratio=ratio)
        difference = row["trained"] - max(row[other] for other in COLUMNS[1:])
        values = (*row.values(), difference)
        print(f"{name:18}" + "".join(f"{v:12.1f}" for v in values), flush=True)
        if args.out is not None:
            record = {
                "set": name,
                "scores": {column: round(value, 2) for column, value in row.items()},
                "splits": args.splits,
                "train_ratio": ratio,
                "seed": args.seed,
                "command": "python " + " ".join(sys.argv),
                "version": __version__,
                "hardware": hardware("cpu"),
                "date": datetime.date.today().isoformat(),
            }
            with args.out.open("a") as file:
                file.write(json.dumps(record) + "\n")


def main() -> None:
    """Print the table."""
    args = options(__doc__).parse_args()
    makers = {
        name: partial(make, np.random.default_rng(args.seed))
        for name, make in {**NODE_SETS, **GRAPH_SETS}.items()
    }
    measure(makers, args, train_ratio=lambda name: 0.5 if name in GRAPH_SETS else 0.1)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
