"""Pairs of nodes without an edge that look most like the edges of the graph.

A pair (i, j) is described by three numbers, in which N(i) are the neighbours of i other than j:

    similarity    the cosine of both embeddings
    fit           cos(z_i, sum of z over N(j)) + cos(z_j, sum of z over N(i)): whether each is like
                  what the other is linked to, which also links users to items
    shared        log(1 + sum over shared neighbours v of 1 / log(degree of v)) (Adamic and Adar)

Two logistic regressions weigh them, one for pairs that share a neighbour and one for the others:
edges of the graph against pairs without one, drawn so that each counts as often as it occurs among
all pairs. So pairs of both kinds can be compared. Between two nodes of the same kind, such as two
users, none is predicted where the kinds are known (linkable.py).

The cosine alone finds pairs of twins: of Photo with 15 % of its edges held out (25 epochs), 16 % of
the first 200 pairs by the cosine were held-out edges, 52 % by shared neighbours alone, and 63 %
by all three.

Legend: N nodes, D columns, Q pairs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import normalize

from graphlatent.errors import InputError
from graphlatent.explore.linkable import Linkable
from graphlatent.ops.nearest import nearest_by_cells

Array: TypeAlias = np.ndarray[Any, Any]

EXACT = 10_000
"""Up to so many nodes all pairs are scored; of more, the likely ones (`_candidates`)."""
_TRAINING_PAIRS = 10_000
# The score, before the logistic function, of pairs of a kind that has no edges
_NEVER = -50.0
# Number of pairs scored at a time: all of some nodes with all, and listed ones
_BLOCK, _LISTED = 2**22, 2**15
# Of large graphs: nearest nodes of each node, nearest nodes of each neighbour, and the number of
# neighbours up to which a node makes pairs of them
_NEAREST, _NEAREST_OF_NEIGHBOUR, _MOST_NEIGHBOURS = 20, 5, 50


@dataclass(frozen=True, eq=False)
class Links:
    """Predicted links, the likeliest first.

    Args:
        pairs: int64 [K, 2], the smaller node number first.
        score: estimated probability that the pair is an edge of the graph [K].
        similarity: cosine of both embeddings [K].
        shared: number of shared neighbours [K].
        num_scored: pairs without an edge that were scored.
        exact: whether these are all such pairs.
    """

    pairs: Array
    score: Array
    similarity: Array
    shared: Array
    num_scored: int
    exact: bool


@dataclass(frozen=True, eq=False)
class PairScorer:
    """What pairs are scored by.

    Args:
        unit: embeddings of length 1, float32 [N, D]; a row of zeros stays.
        sums: the sum of the unit rows of each node's neighbours [N, D].
        around: `sums` with rows of length 1.
        adjacency: 0/1, symmetric, without loops, float32 [N, N].
        rarity: 1 / log(degree) of each node, 0 below two neighbours [N].
        weight: of the three numbers, for pairs without and with a shared neighbour [2, 3].
        bias: of both logistic regressions [2].
    """

    unit: Array
    sums: Array
    around: Array
    adjacency: sp.csr_matrix
    rarity: Array
    weight: Array
    bias: Array

    @classmethod
    def untrained(cls, values: Array, edge_index: Array) -> PairScorer:
        """The parts that need no training."""
        num_nodes = len(values)
        row, col = edge_index[:, edge_index[0] != edge_index[1]]
        ones = np.ones(len(row), dtype=np.float32)
        one_way = sp.csr_matrix((ones, (row, col)), shape=(num_nodes, num_nodes))
        adjacency = sp.csr_matrix(((one_way + one_way.T) > 0).astype(np.float32))
        adjacency.sort_indices()
        degree = np.diff(adjacency.indptr)
        rarity = np.where(degree > 1, 1 / np.log(np.maximum(degree, 2)), 0).astype(np.float32)
        unit = normalize(values.astype(np.float32))
        sums = np.asarray(adjacency @ unit)
        return cls(unit, sums, normalize(sums), adjacency, rarity, np.zeros((2, 3)), np.zeros(2))

    def features(self, pairs: Array) -> Array:
        """The three numbers of listed pairs, which may be edges, float64 [Q, 3]."""
        found = np.empty((len(pairs), 3))
        for start in range(0, len(pairs), _LISTED):
            i, j = pairs[start : start + _LISTED].T
            z_i, z_j = self.unit[i], self.unit[j]
            linked = np.asarray(self.adjacency[i, j]).reshape(-1, 1)
            around_i, around_j = self.sums[i] - linked * z_j, self.sums[j] - linked * z_i
            fit = _dots(z_i, normalize(around_j)) + _dots(z_j, normalize(around_i))
            common = self.adjacency[i].multiply(self.adjacency[j])
            shared = np.log1p(common @ self.rarity)
            part = np.stack([_dots(z_i, z_j), fit, shared], axis=1)
            found[start : start + _LISTED] = part
        return found

    def is_free(self, pairs: Array) -> Array:
        """Whether each pair has two different nodes and no edge, bool [Q]."""
        linked = np.asarray(self.adjacency[pairs[:, 0], pairs[:, 1]]).ravel() > 0
        free: Array = ~linked & (pairs[:, 0] != pairs[:, 1])
        return free

    def logits(self, features: Array) -> Array:
        """The score of pairs [Q] before the logistic function, from their numbers [Q, 3]."""
        kind = (features[:, 2] > 0).astype(np.int64)
        scores: Array = (features * self.weight[kind]).sum(axis=1) + self.bias[kind]
        return scores

    def logits_with_all(self, start: int, stop: int) -> Array:
        """Logits of the pairs of some nodes with all nodes [stop - start, N].

        Those of edges are not meaningful, since each counts among the other's neighbours.
        """
        block = slice(start, stop)
        fit = self.unit[block] @ self.around.T + self.around[block] @ self.unit.T
        weighted = sp.csr_matrix(self.adjacency[block].multiply(self.rarity))
        shared = np.log1p((weighted @ self.adjacency).toarray())
        similarity = self.unit[block] @ self.unit.T
        weight, bias = self.weight.astype(np.float32), self.bias.astype(np.float32)
        scores: Array = np.where(
            shared > 0,
            weight[1, 0] * similarity + weight[1, 1] * fit + weight[1, 2] * shared + bias[1],
            weight[0, 0] * similarity + weight[0, 1] * fit + bias[0],
        )
        return scores


def predict_links(
    values: Array,
    edge_index: Array,
    graph_of_node: Array,
    *,
    k: int,
    seed: int = 0,
    side: Array | None = None,
) -> Links:
    """The `k` pairs of nodes of the same graph, without an edge in either direction, that score
    highest; equal scores in the order of the nodes.

    Args:
        values: embeddings [N, D].
        edge_index: int64 [2, E].
        graph_of_node: int64 [N].
        k: how many; fewer where there are fewer pairs.
        seed: of the pairs that the weights are fitted on.
        side: the kind of each node, 0 or 1 [N], where links join nodes of different kinds only.

    Raises:
        InputError: where there is no edge, or no pair without one.
    """
    linkable = Linkable(graph_of_node, side)
    scorer = _fitted(PairScorer.untrained(values, edge_index), linkable, seed=seed)
    if len(values) <= EXACT:
        pairs, logits, num_scored = _best_of_all(scorer, linkable, k)
    else:
        listed = _without_edges(scorer, _candidates(scorer), linkable)
        logits = np.concatenate(
            [
                scorer.logits(scorer.features(listed[start : start + _BLOCK]))
                for start in range(0, len(listed), _BLOCK)
            ]
        )
        pairs, num_scored = listed, len(listed)
    order = np.lexsort((pairs[:, 1], pairs[:, 0], -logits))[:k]
    pairs, logits = pairs[order], logits[order]
    similarity = scorer.features(pairs)[:, 0].clip(-1, 1)
    common = scorer.adjacency[pairs[:, 0]].multiply(scorer.adjacency[pairs[:, 1]])
    shared = np.asarray(common.sum(axis=1)).ravel().astype(np.int64)
    return Links(pairs, expit(logits), similarity, shared, num_scored, len(values) <= EXACT)


def _fitted(scorer: PairScorer, linkable: Linkable, *, seed: int) -> PairScorer:
    """The scorer with weights from the graph's own edges and pairs without an edge."""
    rng = np.random.default_rng(seed)
    upper = sp.triu(scorer.adjacency, 1).tocoo()
    edges = np.stack([upper.row, upper.col], axis=1).astype(np.int64)
    num_others = linkable.count() - len(edges)
    if not len(edges):
        raise InputError("The graph has no edges, so there is nothing to predict links from.")
    if num_others < 1:
        raise InputError("All pairs of nodes have an edge, so there is no link to predict.")
    num_edges = len(edges)
    edges = rng.permutation(edges)[:_TRAINING_PAIRS]
    positive = scorer.features(edges)
    drawn = 2 * _TRAINING_PAIRS
    sharing, how_many = _sharing_pairs(scorer, rng.integers(0, len(scorer.unit), drawn), rng)
    usable = linkable.are(*sharing.T)
    sharing, how_many = sharing[usable], how_many[usable]
    anywhere, weight = linkable.random(drawn, rng)
    free = scorer.is_free(anywhere)
    anywhere, weight = anywhere[free], weight[free]
    apart = scorer.features(anywhere)
    apart, weight = apart[apart[:, 2] == 0], weight[apart[:, 2] == 0]
    num_sharing = min(float(how_many.sum()) * len(scorer.unit) / drawn / 2, num_others)
    kinds = (
        (apart, weight, num_others - num_sharing),
        (scorer.features(sharing), how_many, num_sharing),
    )
    fits = []
    for kind, (negative, counts, total) in enumerate(kinds):
        own = positive[(positive[:, 2] > 0) == bool(kind)]
        fits.append(_logistic(own, negative, counts, len(own) / len(edges) * num_edges, total))
    return replace(
        scorer,
        weight=np.stack([each[0] for each in fits]),
        bias=np.array([each[1] for each in fits]),
    )


def _logistic(
    positive: Array, negative: Array, counts: Array, num_positive: float, num_negative: float
) -> tuple[Array, float]:
    """Weights [3] and bias of a logistic regression on pairs of one kind.

    Both classes count the same in fitting; the bias is then shifted to their true numbers. Without
    edges of a kind, none is predicted.

    Args:
        positive: numbers of edges [P, 3].
        negative: numbers of pairs without an edge [Q, 3].
        counts: how many pairs each of these stands for, up to a factor [Q].
        num_positive: how many edges of the kind there are.
        num_negative: how many pairs without an edge.
    """
    if not len(positive):
        return np.zeros(3), _NEVER
    if not len(negative):
        return np.zeros(3), 0.0
    features = np.concatenate([positive, negative])
    deviation = features.std(0)
    scale = np.where(deviation > 1e-6, deviation, np.inf)
    is_edge = np.repeat([1, 0], [len(positive), len(negative)])
    total = len(positive)
    weight = np.concatenate([np.ones(total), counts * (total / counts.sum())])
    model = LogisticRegression(max_iter=1000).fit(features / scale, is_edge, sample_weight=weight)
    shift = np.log(num_positive / max(num_negative, 1.0))
    return model.coef_[0] / scale, float(model.intercept_[0] + shift)


def _sharing_pairs(
    scorer: PairScorer, start: Array, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Pairs without an edge that share a neighbour, by random walks of two steps.

    Returns:
        The pairs, and for each the inverse of its probability from its first node.
    """
    degree = np.diff(scorer.adjacency.indptr)
    start = start[degree[start] > 0]
    end = _random_neighbour(scorer, _random_neighbour(scorer, start, rng), rng)
    pairs = np.stack([start, end], axis=1)
    pairs = pairs[scorer.is_free(pairs)]
    common = scorer.adjacency[pairs[:, 0]].multiply(scorer.adjacency[pairs[:, 1]])
    probability = (common @ (1 / np.maximum(degree, 1))) / degree[pairs[:, 0]]
    return pairs, 1 / probability


def _random_neighbour(scorer: PairScorer, nodes: Array, rng: np.random.Generator) -> Array:
    """A random neighbour of each node, all of which have one."""
    start, degree = scorer.adjacency.indptr[nodes], np.diff(scorer.adjacency.indptr)[nodes]
    place = start + (rng.random(len(nodes)) * degree).astype(np.int64)
    found: Array = scorer.adjacency.indices[place].astype(np.int64)
    return found


def _best_of_all(scorer: PairScorer, linkable: Linkable, k: int) -> tuple[Array, Array, int]:
    """At least the `k` best pairs of all without an edge, their logits, and how many there are."""
    num_nodes, counted = len(scorer.unit), 0
    pairs, logits = np.zeros((0, 2), dtype=np.int64), np.zeros(0)
    step = max(1, _BLOCK // num_nodes)
    for start in range(0, num_nodes, step):
        stop = min(start + step, num_nodes)
        scores = scorer.logits_with_all(start, stop)
        nodes = np.arange(start, stop)
        others = np.arange(num_nodes)
        later = others > nodes[:, None]
        unlinked = scorer.adjacency[start:stop].toarray() == 0
        usable = later & unlinked & linkable.are(nodes[:, None], others)
        counted += int(usable.sum())
        row, col = np.nonzero(usable)
        found = scores[row, col].astype(np.float64)
        keep = _largest(found, k)
        pairs = np.concatenate([pairs, np.stack([nodes[row[keep]], col[keep]], axis=1)])
        logits = np.concatenate([logits, found[keep]])
        keep = _largest(logits, k)
        pairs, logits = pairs[keep], logits[keep]
    return pairs, logits, counted


def _largest(values: Array, k: int) -> Array:
    """Places of the `k` largest values, and of those equal to the last of them, ascending."""
    if len(values) <= k:
        return np.arange(len(values))
    return np.flatnonzero(values >= np.partition(values, len(values) - k)[len(values) - k])


def _candidates(scorer: PairScorer) -> Array:
    """Likely pairs of a large graph, int64 [Q, 2], some of them twice or edges.

    The nearest nodes of each node, the nearest nodes of each of its neighbours, and neighbours of
    the same node, unless that has very many.
    """
    num_nodes = len(scorer.unit)
    count = min(_NEAREST, num_nodes - 1)
    near = nearest_by_cells(scorer.unit, count=count, distance="cosine")
    pairs = [np.stack([np.repeat(np.arange(num_nodes), count), near.ravel()], axis=1)]
    adjacency = scorer.adjacency.tocoo()
    few = near[:, :_NEAREST_OF_NEIGHBOUR]
    node = np.repeat(adjacency.row.astype(np.int64), few.shape[1])
    pairs.append(np.stack([node, few[adjacency.col].ravel()], axis=1))
    middle = sp.diags((np.diff(scorer.adjacency.indptr) <= _MOST_NEIGHBOURS).astype(np.float32))
    steps = sp.triu(scorer.adjacency @ middle @ scorer.adjacency, 1).tocoo()
    pairs.append(np.stack([steps.row, steps.col], axis=1).astype(np.int64))
    return np.concatenate(pairs)


def _without_edges(scorer: PairScorer, pairs: Array, linkable: Linkable) -> Array:
    """Each linkable pair without an edge once, the smaller node first."""
    num_nodes = np.int64(len(scorer.unit))
    low, high = pairs.min(axis=1).astype(np.int64), pairs.max(axis=1).astype(np.int64)
    codes = np.unique((low * num_nodes + high)[low != high])
    upper = sp.triu(scorer.adjacency, 1).tocoo()
    edges = upper.row.astype(np.int64) * num_nodes + upper.col
    codes = np.setdiff1d(codes, edges, assume_unique=True)
    found = np.stack([codes // num_nodes, codes % num_nodes], axis=1)
    usable: Array = found[linkable.are(*found.T)]
    return usable


def _dots(left: Array, right: Array) -> Array:
    products: Array = np.einsum("qd,qd->q", left, right)
    return products
