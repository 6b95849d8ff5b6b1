"""How the default embedding compares with its own input on changed parts of the named sets.

    python benchmarks/changed_graphs.py --data ROOT --only cs-words,photo-sparse

Real features, edges and labels, brought into states that the whole sets do not have: parts of 3,000
nodes, fewer edges, fewer or real-valued columns, edges that lead anywhere, features of other nodes.
The columns are those of unknown_graphs.py; 5 % of the nodes train.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import scipy.sparse as sp
import torch
from sklearn.decomposition import TruncatedSVD
from unknown_graphs import Array, measure, node_set, options

from graphlatent import load_dataset
from graphlatent.data.graph import GraphData
from graphlatent.ops.sparse import SparseMatrix


@dataclass(frozen=True)
class Change:
    """What is done to a set, in this order.

    Args:
        dataset: its name.
        nodes: size of the part, found by a breadth-first search over up to six neighbours each.
        degree: mean degree after edges were dropped at random; None keeps all.
        rewired: share of the edges one end of which is drawn anew.
        permuted: whether each node gets the features of another.
        columns: number of columns drawn at random; None keeps all.
        components: number of columns of a truncated SVD in place of the features; None for none.
        binary: whether values become 1.
    """

    dataset: str
    nodes: int = 3000
    degree: float | None = None
    rewired: float = 0.0
    permuted: bool = False
    columns: int | None = None
    components: int | None = None
    binary: bool = False


CHANGES: Mapping[str, Change] = {
    "cs": Change("CS"),
    "cs-words": Change("CS", degree=3.5, columns=1500),
    "cs-binary": Change("CS", nodes=2700, degree=3.9, columns=1433, binary=True),
    "cs-rewired": Change("CS", rewired=0.7),
    "cs-real": Change("CS", degree=4, components=16),
    "physics-words": Change("Physics", degree=4, columns=500),
    "physics-binary": Change("Physics", nodes=3300, degree=2.8, columns=3000, binary=True),
    "physics-real": Change("Physics", degree=4, components=300),
    "physics-rewired": Change("Physics", rewired=0.9),
    "photo": Change("Photo"),
    "photo-sparse": Change("Photo", degree=4),
    "photo-real": Change("Photo", degree=5, components=100),
    "photo-few": Change("Photo", degree=8, components=8),
    "photo-40": Change("Photo", columns=40),
    "photo-permuted": Change("Photo", permuted=True),
    "computers": Change("Computers", nodes=4000),
    "computers-sparse": Change("Computers", nodes=4000, degree=5),
    "computers-rewired": Change("Computers", nodes=4000, degree=8, rewired=0.6),
}


def changed(change: Change, *, root: str | None, seed: int) -> GraphData:
    """The changed part of a set as one undirected graph."""
    rng = np.random.default_rng(seed)
    graph = load_dataset(change.dataset, root=root).graph
    assert graph.x is not None
    assert graph.y is not None
    source, target = graph.edge_index.numpy()
    ones = np.ones(len(source), dtype=np.int8)
    adjacency = sp.csr_matrix((ones, (source, target)), shape=(graph.num_nodes,) * 2)
    nodes = _part(adjacency, change.nodes, rng)
    edges = np.stack(sp.triu(adjacency[nodes][:, nodes], 1).nonzero())
    features = graph.x.to_scipy() if isinstance(graph.x, SparseMatrix) else graph.x.numpy()
    x, y = sp.csr_matrix(features)[nodes], np.unique(graph.y[nodes], return_inverse=True)[1]
    if change.degree:
        edges = edges[:, rng.random(edges.shape[1]) < change.degree * len(y) / 2 / edges.shape[1]]
    moved = rng.random(edges.shape[1]) < change.rewired
    edges[1, moved] = rng.integers(0, len(y), int(moved.sum()))
    if change.permuted:
        x = x[rng.permutation(len(y))]
    if change.binary:
        x.data[:] = 1
    if change.columns:
        x = x[:, rng.permutation(x.shape[1])[: change.columns]]
    if change.components:
        x = TruncatedSVD(change.components, random_state=0).fit_transform(x)
    return node_set(edges, x.astype(np.float32), y)


def _part(adjacency: sp.csr_matrix, size: int, rng: np.random.Generator) -> Array:
    """About `size` nodes near each other, in ascending order."""
    found = [int(rng.integers(adjacency.shape[0]))]
    seen, at = set(found), 0
    while len(found) < size:
        if at < len(found):
            row = slice(adjacency.indptr[found[at]], adjacency.indptr[found[at] + 1])
            near = rng.permutation(adjacency.indices[row])[:6].tolist()
        else:
            near = [int(rng.integers(adjacency.shape[0]))]
        new = [node for node in near if node not in seen]
        found, at = found + new, at + 1
        seen.update(new)
    return np.sort(np.array(found[:size]))


def main() -> None:
    """Print the table."""
    parser = options(__doc__)
    parser.add_argument("--data", help="data root [default: GRAPHLATENT_DATA]")
    args = parser.parse_args()
    makers = {
        name: partial(changed, change, root=args.data, seed=args.seed)
        for name, change in CHANGES.items()
    }
    measure(makers, args, train_ratio=lambda _: 0.05)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
