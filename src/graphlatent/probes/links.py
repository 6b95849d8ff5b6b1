"""Link prediction as a probe: edges are held out before anything is trained, then told from pairs
without an edge.

`hold_out_edges` comes first; the embedding is trained on `split.graph`, which has none of the
held-out pairs in any direction; `link_probe` chooses how to score a pair on the validation pairs
and measures it on the test pairs, once. A pair has two different nodes of one graph, in no order;
it is an edge where there is one in either direction. Legend: N nodes, D columns, P pairs of nodes
that are edges, Q pairs to tell apart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import torch
from scipy.stats import rankdata
from torch import Tensor

from graphlatent.data.graph import GraphData
from graphlatent.errors import ConfigError, InputError, bad_argument
from graphlatent.probes.design import Design
from graphlatent.probes.knn import Rows, double_rows
from graphlatent.probes.losses import Sigmoid
from graphlatent.probes.newton import minimise
from graphlatent.probes.results import Choice

Array: TypeAlias = np.ndarray[Any, Any]
Scorer: TypeAlias = Literal["dot", "cosine", "hadamard"]

SCORERS: tuple[Scorer, ...] = get_args(Scorer)
STRENGTHS = (1e-1, 1e-2, 1e-3, 1e-4)
SELECTION = (
    "The score of a pair with the highest area under the ROC curve on the validation pairs; among"
    " equals the one named first. The test pairs were looked at once, after the choice."
)
_BLOCK = 2**24  # values of paired rows held at a time


@dataclass(frozen=True, eq=False)
class LinkPairs:
    """Pairs of nodes, and which of them are edges.

    Args:
        nodes: int64 [Q, 2], the smaller number first; the edges come first, then as many others.
        is_edge: bool [Q].
    """

    nodes: Array
    is_edge: Array


@dataclass(frozen=True, eq=False)
class LinkSplit:
    """A graph with some edges taken out, and the pairs that were.

    Args:
        graph: what may be trained on: all nodes, and the edges that were not held out.
        val: pairs to choose on.
        test: pairs to measure on.
    """

    graph: GraphData
    val: LinkPairs
    test: LinkPairs


@dataclass(frozen=True)
class LinkResult:
    """How well edges are told from other pairs.

    Args:
        auc: area under the ROC curve on the test pairs: the chance that an edge scores higher than
            another pair; 1/2 by guessing.
        ap: average precision on the test pairs; 1/2 by guessing, as half of them are edges.
        choice: how pairs are scored, chosen on the validation pairs.
        num_edges: held-out edges among the test pairs.
        selection: in words, how it was chosen.
    """

    auc: float
    ap: float
    choice: Choice
    num_edges: int
    selection: str = SELECTION

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


def hold_out_edges(
    graph: GraphData, *, val_ratio: float = 0.05, test_ratio: float = 0.1, seed: int = 0
) -> LinkSplit:
    """The graph without some of its edges, and those edges beside as many pairs that are no edge of
    the whole graph.

    Each held-out edge is taken out in both directions, and is given a pair without an edge from the
    same graph: otherwise it would be enough to tell graphs apart. Self-loops stay, and nodes may
    lose all their neighbours. The shares are those of Kipf and Welling's "Variational Graph
    Auto-Encoders" (2016).

    Call this on a graph whose features are not made of its edges. Degrees and the like must be
    encoded from `split.graph`: they would give held-out edges away.

    Args:
        graph: one or more graphs.
        val_ratio: share of the edges to choose on; at least one edge.
        test_ratio: share of the edges to measure on; at least one edge.
        seed: the same seed gives the same pairs.

    Raises:
        ConfigError: where a ratio is out of range.
        InputError: where there are too few edges, or too few pairs without one.
    """
    owner = "hold_out_edges"
    for name, value in (("val_ratio", val_ratio), ("test_ratio", test_ratio)):
        if not 0 < value < 1:
            raise bad_argument(
                name, owner=owner, allowed="a float in the range (0.0, 1.0)", got=value
            )
    if val_ratio + test_ratio >= 1:
        raise ConfigError(
            f"The 'val_ratio' and 'test_ratio' parameters of {owner} must sum to less than 1, to"
            f" leave edges to train on. Got {val_ratio} + {test_ratio} instead."
        )
    space = _PairSpace.of(graph)
    num_val, num_test = (
        max(1, round(ratio * len(space.edges))) for ratio in (val_ratio, test_ratio)
    )
    if num_val + num_test >= len(space.edges):
        raise InputError(
            f"There are too few edges to hold out: {len(space.edges)} between different nodes, with"
            f" val_ratio={val_ratio} and test_ratio={test_ratio}, leave none to train on. Give more"
            " edges, or smaller ratios."
        )
    edges, others = _matched(space, num_val + num_test, rng=np.random.default_rng(seed))
    if len(edges) < num_val + num_test:
        raise InputError(
            f"There are too few pairs of nodes without an edge: {num_val + num_test} are needed,"
            f" each in the graph of a held-out edge, and {len(edges)} can be found. Hold out fewer"
            " edges, or leave out graphs in which almost all nodes are linked."
        )
    val, test = (
        LinkPairs(
            space.nodes(np.concatenate([edges[part], others[part]])),
            np.repeat([True, False], len(edges[part])),
        )
        for part in (slice(num_val), slice(num_val, None))
    )
    return LinkSplit(_without(graph, space, edges), val, test)


def link_probe(
    embedding: Callable[[GraphData], Any] | Any,
    split: LinkSplit,
    *,
    scorers: Sequence[Scorer] = SCORERS,
    strengths: Sequence[float] = STRENGTHS,
    train_pairs: int = 10_000,
    seed: int = 0,
) -> LinkResult:
    """How well held-out edges are told from other pairs by the rows of their nodes.

    Ways to score a pair, of which the validation pairs choose one:
    - "dot": the inner product of both rows;
    - "cosine": the same with rows of length 1;
    - "hadamard": logistic regression on the product of both rows, column by column, fitted on edges
      of `split.graph` and as many pairs that are no edge there. Those are drawn without knowledge
      of what was held out, so some few may be held-out edges.

    Args:
        embedding: one row per node [N, D], trained on `split.graph` alone; or a function that makes
            them out of that graph.
        split: from `hold_out_edges`.
        scorers: ways to choose from.
        strengths: L2 strengths to choose from for "hadamard"; columns are standardised and rows
            scaled to mean squared norm 1.
        train_pairs: most edges to fit "hadamard" on, drawn at random, beside as many other pairs.
        seed: of the pairs that "hadamard" is fitted on.

    Raises:
        ConfigError: where a setting is out of range.
        InputError: where there is not one row per node of `split.graph`.
    """
    _check_settings(scorers, strengths, train_pairs)
    rows = double_rows(embedding(split.graph) if callable(embedding) else embedding)
    if rows.shape[0] != split.graph.num_nodes:
        raise InputError(
            "The embedding must have one row per node of the split's graph,"
            f" {split.graph.num_nodes}. Got {rows.shape[0]}."
        )
    candidates = _candidates(
        rows, split.graph, scorers, strengths, train_pairs=train_pairs, seed=seed
    )
    choice, scorer = _best(rows, split.val, candidates)
    scores = scorer.score(rows, split.test.nodes)
    auc, ap = (measure(split.test.is_edge, scores) for measure in (roc_auc, average_precision))
    return LinkResult(auc, ap, choice, int(split.test.is_edge.sum()))


def roc_auc(is_edge: Array, scores: Array) -> float:
    """Area under the ROC curve: the share of (edge, other) couples in which the edge scores higher,
    equal scores counting half.
    """
    num_edges = int(is_edge.sum())
    num_others = len(is_edge) - num_edges
    above = float(rankdata(scores)[is_edge].sum()) - num_edges * (num_edges + 1) / 2
    return above / (num_edges * num_others)


def average_precision(is_edge: Array, scores: Array) -> float:
    """Mean over the edges of the share of edges among all pairs that score at least as high."""
    order = np.argsort(-scores, kind="stable")
    # Equal scores are taken in together
    last = np.append(np.flatnonzero(np.diff(scores[order])), len(scores) - 1)
    found = np.cumsum(is_edge[order])[last]
    return float(np.sum(np.diff(found, prepend=0) * found / (last + 1)) / found[-1])


@dataclass(frozen=True, eq=False)
class _PairSpace:
    """A number for each pair of nodes of the same graph: graph after graph, and in a graph h (h -
    1) / 2 + l for nodes l < h.

    Args:
        first_node: of each graph and the end, int64 [B + 1].
        first_pair: of each graph and the end, int64 [B + 1].
        edges: numbers of the pairs that are edges, ascending, int64 [P].
    """

    first_node: Array
    first_pair: Array
    edges: Array

    @classmethod
    def of(cls, graph: GraphData) -> _PairSpace:
        """The pairs of a graph."""
        ptr: Array = graph.ptr.numpy()
        size = np.diff(ptr)
        space = cls(
            ptr,
            np.concatenate([[0], np.cumsum(size * (size - 1) // 2)]),
            np.zeros(0, dtype=np.int64),
        )
        numbers = space.numbers(graph.edge_index.numpy())
        return replace(space, edges=np.unique(numbers[numbers >= 0]))

    def numbers(self, edge_index: Array) -> Array:
        """The pair of each edge [E] out of [2, E], whatever its direction; -1 for self-loops."""
        low, high = edge_index.min(0), edge_index.max(0)
        graph = np.searchsorted(self.first_node, low, side="right") - 1
        low, high, start = (
            low - self.first_node[graph],
            high - self.first_node[graph],
            self.first_pair[graph],
        )
        numbers: Array = np.where(low == high, -1, start + high * (high - 1) // 2 + low)
        return numbers

    def graph_of(self, pairs: Array) -> Array:
        """The graph of each pair."""
        graph: Array = np.searchsorted(self.first_pair, pairs, side="right") - 1
        return graph

    def nodes(self, pairs: Array) -> Array:
        """The nodes of each pair, int64 [Q, 2], the smaller number first."""
        graph = self.graph_of(pairs)
        number = pairs - self.first_pair[graph]
        high = ((1 + np.sqrt(1 + 8 * number.astype(np.float64))) / 2).astype(np.int64)
        # Where the root was rounded
        high += (high * (high + 1) // 2 <= number).astype(np.int64) - (
            high * (high - 1) // 2 > number
        )
        return (
            np.stack([number - high * (high - 1) // 2, high], axis=1)
            + self.first_node[graph][:, None]
        )


def _matched(space: _PairSpace, count: int, *, rng: np.random.Generator) -> tuple[Array, Array]:
    """Random edges, `count` at most, and for each a pair of the same graph that is no edge; all
    different.

    There are fewer where graphs run out of pairs without an edge.
    """
    bounds = np.searchsorted(space.edges, space.first_pair)  # where the edges of each graph begin
    num_others = np.diff(space.first_pair) - np.diff(bounds)
    shuffled = rng.permutation(space.edges)
    graph = space.graph_of(shuffled)
    edges = shuffled[_rank_within(graph) < num_others[graph]][:count]
    graph = space.graph_of(edges)
    others = np.empty_like(edges)
    for g in np.unique(graph):
        taken = space.edges[bounds[g] : bounds[g + 1]]
        place = (
            rng.choice(int(num_others[g]), size=int((graph == g).sum()), replace=False)
            + space.first_pair[g]
        )
        # The r-th pair that is no edge: r, and one more for each edge before it.
        others[graph == g] = place + np.searchsorted(
            taken - np.arange(len(taken)), place, side="right"
        )
    return edges, others


def _rank_within(groups: Array) -> Array:
    """How many earlier entries are of the same group, [len(groups)]."""
    order = np.argsort(groups, kind="stable")
    begins = np.searchsorted(groups[order], groups[order])
    rank = np.empty(len(groups), dtype=np.int64)
    rank[order] = np.arange(len(groups)) - begins
    return rank


def _without(graph: GraphData, space: _PairSpace, held_out: Array) -> GraphData:
    """The graph without those pairs, in either direction."""
    kept = torch.from_numpy(~np.isin(space.numbers(graph.edge_index.numpy()), held_out))
    weight = None if graph.edge_weight is None else graph.edge_weight[kept]
    notes = (*graph.notes, f"{len(held_out):,} edges were held out for link prediction.")
    return replace(graph, edge_index=graph.edge_index[:, kept], edge_weight=weight, notes=notes)


@dataclass(frozen=True, eq=False)
class _PairScorer:
    """The sum over columns of left * right * weight, divided by both lengths where asked."""

    weight: Tensor | None = None
    by_length: bool = False

    def score(self, rows: Rows, nodes: Array) -> Array:
        """A score for each pair, float64 [Q]."""
        scores = np.empty(len(nodes))
        step = max(1, _BLOCK // rows.shape[1])
        for start in range(0, len(nodes), step):
            left, right = (_taken(rows, nodes[start : start + step, side]) for side in (0, 1))
            if self.by_length:
                left, right = (
                    torch.nn.functional.normalize(left, dim=1),
                    torch.nn.functional.normalize(right, dim=1),
                )
            product = left * right
            scores[start : start + step] = (
                product.sum(1) if self.weight is None else product @ self.weight
            ).numpy()
        return scores


def _candidates(
    rows: Rows,
    graph: GraphData,
    scorers: Sequence[Scorer],
    strengths: Sequence[float],
    *,
    train_pairs: int,
    seed: int,
) -> list[tuple[dict[str, Any], _PairScorer]]:
    """Settings and scorers, fitted without any held-out pair."""
    found: list[tuple[dict[str, Any], _PairScorer]] = []
    for name in scorers:
        if name == "hadamard":
            weights = _fitted(rows, graph, strengths, train_pairs=train_pairs, seed=seed)
            found += [
                ({"scorer": name, "strength": s}, _PairScorer(weight))
                for s, weight in zip(strengths, weights, strict=True)
            ]
        else:
            found.append(({"scorer": name}, _PairScorer(by_length=name == "cosine")))
    return found


def _fitted(
    rows: Rows, graph: GraphData, strengths: Sequence[float], *, train_pairs: int, seed: int
) -> Tensor:
    """Weights of the columns' products for each strength, float64 [len(strengths), D]. The bias
    moves no pair before another.
    """
    space = _PairSpace.of(graph)
    edges, others = _matched(space, train_pairs, rng=np.random.default_rng(seed))
    if len(edges) == 0:
        raise InputError(
            "There is no edge left to fit 'hadamard' on: every graph of the split has lost all its"
            " edges, or links all its nodes. Hold out fewer edges, or (in Python) leave 'hadamard'"
            " out of 'scorers'."
        )
    nodes = space.nodes(np.concatenate([edges, others]))
    table = _taken(rows, nodes[:, 0]) * _taken(rows, nodes[:, 1])
    sign = torch.from_numpy(np.repeat([1.0, -1.0], len(edges))).expand(1, len(strengths), 1, -1)
    design = Design.of(table, [np.arange(len(nodes))], "standard")
    weights = minimise(
        design.rows, Sigmoid(sign), torch.tensor([list(strengths)], dtype=torch.float64)
    )
    return design.to_table(weights.flatten(1, 2)).weight[0]


def _best(
    rows: Rows, val: LinkPairs, candidates: Sequence[tuple[dict[str, Any], _PairScorer]]
) -> tuple[Choice, _PairScorer]:
    """The candidate with the highest AUC on the validation pairs, the first of equals. The test
    pairs are not among what it is given.
    """
    scores = [roc_auc(val.is_edge, scorer.score(rows, val.nodes)) for _, scorer in candidates]
    best = int(np.argmax(scores))
    return Choice("", candidates[best][0], scores[best]), candidates[best][1]


def _taken(rows: Rows, index: Array) -> Tensor:
    """Some rows, dense."""
    return rows[index] if isinstance(rows, Tensor) else torch.from_numpy(rows[index].toarray())


def _check_settings(scorers: Sequence[str], strengths: Sequence[float], train_pairs: int) -> None:
    owner = "link_probe"
    if isinstance(scorers, str) or not scorers or not set(scorers) <= set(SCORERS):
        raise bad_argument("scorers", owner=owner, allowed=f"one or more of {SCORERS}", got=scorers)
    if len(strengths) == 0 or not all(0 < s < float("inf") for s in strengths):
        raise bad_argument(
            "strengths",
            owner=owner,
            allowed="one or more floats in the range (0.0, inf)",
            got=strengths,
        )
    if train_pairs < 1:
        raise bad_argument(
            "train_pairs", owner=owner, allowed="an int of at least 1", got=train_pairs
        )
