"""How the default embedding of whole graphs compares with its own input, on sets made for this.

    python benchmarks/unknown_graph_sets.py --only words_inside,density

Each set has two classes that differ in one thing: the features of the nodes, their sum, how they
lie on the edges, or the edges alone. The columns are those of unknown_graphs.py; half of the graphs
train.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from unknown_graphs import Array, graph_set, measure, motif, options, tree

from graphlatent.data.graph import GraphData


def size_between(low: int, high: int, rng: np.random.Generator) -> int:
    """A random number of nodes."""
    return int(rng.integers(low, high))


def random_edges(size: int, rng: np.random.Generator, *, share: float = 2.0) -> Array:
    """Random edges [2, E], `share` for each node."""
    return rng.integers(0, size, (2, int(share * size)))


def shifted_columns(y: int, rng: np.random.Generator) -> tuple[Array, int, Array]:
    """The mean of 18 real columns."""
    size = size_between(10, 40, rng)
    return random_edges(size, rng), size, rng.standard_normal((size, 18)) + 0.12 * (2 * y - 1)


def unscaled_columns(y: int, rng: np.random.Generator) -> tuple[Array, int, Array]:
    """The mean of 6 of 18 real columns, in units from 0.01 to 1,000."""
    size = size_between(10, 40, rng)
    x = rng.standard_normal((size, 18)) + 3
    x[:, :6] += 0.2 * (2 * y - 1)
    return random_edges(size, rng), size, x * 10.0 ** np.linspace(-2, 3, 18)


def one_column(y: int, rng: np.random.Generator) -> tuple[Array, int, Array]:
    """The mean of the only column."""
    size = size_between(10, 40, rng)
    return random_edges(size, rng), size, rng.standard_normal((size, 1)) + 0.3 * y


def spread_columns(y: int, rng: np.random.Generator) -> tuple[Array, int, Array]:
    """The standard deviation of 10 real columns."""
    size = size_between(10, 40, rng)
    return random_edges(size, rng), size, rng.standard_normal((size, 10)) * (1 + 0.15 * y)


def words_inside(y: int, rng: np.random.Generator) -> tuple[Array, int, Array]:
    """The frequency of 40 of 200 words, in trees of texts."""
    size = size_between(8, 25, rng)
    chance = np.ones(200)
    chance[:20] += y
    chance[20:40] += 1 - y
    x = rng.random((size, 200)) < 8 * chance / chance.sum()
    return tree(size, rng), size, x.astype(float)


def smooth_columns(y: int, rng: np.random.Generator) -> tuple[Array, int, Array]:
    """Edges between nodes of equal sign in the first of 8 columns, or anywhere."""
    size = size_between(15, 40, rng)
    x = rng.standard_normal((size, 8))
    source, target = random_edges(size, rng, share=4)
    alike = (x[source, 0] > 0) == (x[target, 0] > 0)
    kept = alike if y else rng.random(len(source)) < 0.5
    return np.stack([source[kept], target[kept]]), size, x


def positions(y: int, rng: np.random.Generator) -> tuple[Array, int, Array]:
    """Points on a ring or on a figure of eight, of any size and anywhere."""
    size = size_between(12, 30, rng)
    t = np.linspace(0, 2 * np.pi, size, endpoint=False)
    shape = np.stack([np.cos(t), np.sin(t) if y else 0.9 * np.sin(2 * t)], axis=1)
    moved = shape * rng.uniform(0.5, 2) + rng.uniform(-3, 3, (1, 2))
    ring = np.arange(size)
    noise = 0.1 * rng.standard_normal((size, 2))
    return np.stack([ring, np.roll(ring, -1)]), size, moved + noise


def sizes(y: int, rng: np.random.Generator) -> tuple[Array, int, Array]:
    """Labelled trees of 10 to 29 nodes, and six more in the other class."""
    size = size_between(10, 30, rng) + 6 * y
    return tree(size, rng), size, np.eye(4)[rng.integers(0, 4, size)]


def motif_with_noise(y: int, rng: np.random.Generator) -> tuple[Array, int, Array]:
    """Rings or triangles in trees, with 10 columns of noise."""
    edges, size, _ = motif(y, rng)
    return edges, size, rng.standard_normal((size, 10))


def density(y: int, rng: np.random.Generator) -> tuple[Array, int, None]:
    """The number of random edges for each node: 1.5 or 1.75."""
    size = size_between(15, 40, rng)
    return random_edges(size, rng, share=1.5 + 0.25 * y), size, None


def communities(y: int, rng: np.random.Generator) -> tuple[Array, int, None]:
    """Two or three communities, with equally many edges."""
    size = size_between(20, 40, rng)
    group = rng.integers(0, 2 if y else 3, size)
    source, target = random_edges(size, rng, share=8)
    kept = (group[source] == group[target]) | (rng.random(len(source)) < 0.1)
    return np.stack([source[kept], target[kept]])[:, : 3 * size], size, None


SETS: Mapping[str, Callable[[np.random.Generator], GraphData]] = {
    each.__name__: graph_set(each)
    for each in (
        shifted_columns,
        unscaled_columns,
        one_column,
        spread_columns,
        words_inside,
        smooth_columns,
        positions,
        sizes,
        motif_with_noise,
        density,
        communities,
    )
}


def main() -> None:
    """Print the table."""
    args = options(__doc__).parse_args()
    makers: dict[str, Callable[[], Any]] = {
        name: partial(make, np.random.default_rng(args.seed)) for name, make in SETS.items()
    }
    measure(makers, args, train_ratio=lambda name: 0.5, level="graph")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
