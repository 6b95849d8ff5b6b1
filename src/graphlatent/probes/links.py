"""The link prediction probe: held-out edges against pairs of nodes without an edge.

`hold_out_edges` comes first; the embedding is trained on `split.graph`, which has none of the
held-out pairs in any direction; `link_probe` chooses a score of pairs on the validation pairs and
measures it on the test pairs, once. Legend: N nodes, D columns, Q pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import torch
from sklearn.metrics import average_precision_score, roc_auc_score
from torch import Tensor

from graphlatent.data.graph import GraphData
from graphlatent.errors import InputError, bad_argument
from graphlatent.ops.nearest import RowMatrix
from graphlatent.probes.design import Design
from graphlatent.probes.edge_splits import (
    LinkPairs,
    LinkSplit,
    hold_out_edges,
    sample_pairs,
)
from graphlatent.probes.neighbours import float64_rows
from graphlatent.probes.pair_index import PairIndex
from graphlatent.probes.results import Choice
from graphlatent.probes.solver.losses import Sigmoid
from graphlatent.probes.solver.newton import minimize

__all__ = ["LinkPairs", "LinkResult", "LinkSplit", "hold_out_edges", "link_probe"]

Array: TypeAlias = np.ndarray[Any, Any]
Scorer: TypeAlias = Literal["dot", "cosine", "hadamard"]

SCORERS: tuple[Scorer, ...] = get_args(Scorer)
L2_GRID = (1e-1, 1e-2, 1e-3, 1e-4)
SELECTION = (
    "The score of a pair with the highest area under the ROC curve on the validation pairs; among"
    " equals the one named first. The test pairs were looked at once, after the choice."
)
# Number of values of paired rows held in memory at a time
_BLOCK = 2**24


@dataclass(frozen=True)
class LinkResult:
    """Test scores of link prediction, and how the score of pairs was chosen.

    Args:
        auc: area under the ROC curve on the test pairs: the probability that an edge scores higher
            than another pair; 1/2 by guessing.
        ap: average precision on the test pairs; 1/2 by guessing, as half of them are edges.
        choice: the score of pairs, chosen on the validation pairs.
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


def link_probe(
    embedding: Callable[[GraphData], Any] | Any,
    split: LinkSplit,
    *,
    scorers: Sequence[Scorer] = SCORERS,
    l2: Sequence[float] = L2_GRID,
    train_pairs: int = 10_000,
    seed: int = 0,
) -> LinkResult:
    """AUC and average precision of held-out edges against other pairs, from their nodes' rows.

    Scores of a pair, of which the validation pairs choose one:
    - "dot": the inner product of both rows;
    - "cosine": their cosine similarity;
    - "hadamard": logistic regression on their elementwise product, fitted on edges of `split.graph`
      and as many pairs that are no edge there. Those are drawn without knowledge of what was held
      out, so a few of them may be held-out edges.

    Args:
        embedding: one row per node [N, D], trained on `split.graph` alone; or a function from that
            graph to the rows.
        split: from `hold_out_edges`.
        scorers: to choose from.
        l2: weights of the L2 term of "hadamard" to choose from; columns are standardised and rows
            scaled to mean squared norm 1.
        train_pairs: maximum number of edges to fit "hadamard" on, drawn at random, with as many
            other pairs.
        seed: of the pairs that "hadamard" is fitted on.

    Raises:
        ConfigError: where a setting is out of range.
        InputError: where there is not one row per node of `split.graph`.
    """
    _check_settings(scorers, l2, train_pairs)
    rows = float64_rows(embedding(split.graph) if callable(embedding) else embedding)
    if rows.shape[0] != split.graph.num_nodes:
        raise InputError(
            "The embedding must have one row per node of the split's graph,"
            f" {split.graph.num_nodes}. Got {rows.shape[0]}."
        )
    candidates = _candidates(rows, split.graph, scorers, l2, train_pairs=train_pairs, seed=seed)
    choice, scorer = _best(rows, split.val, candidates)
    scores = scorer.score(rows, split.test.nodes)
    auc = float(roc_auc_score(split.test.is_edge, scores))
    ap = float(average_precision_score(split.test.is_edge, scores))
    return LinkResult(auc, ap, choice, int(split.test.is_edge.sum()))


@dataclass(frozen=True, eq=False)
class _PairScorer:
    """The weighted inner product of both rows, divided by their norms for the cosine."""

    weight: Array | None = None
    cosine: bool = False

    def score(self, rows: RowMatrix, nodes: Array) -> Array:
        """A score for each pair, float64 [Q]."""
        scores = np.empty(len(nodes))
        step = max(1, _BLOCK // rows.shape[1])
        for start in range(0, len(nodes), step):
            left, right = (_dense(rows, nodes[start : start + step, side]) for side in (0, 1))
            if self.cosine:
                left, right = (torch.nn.functional.normalize(side, dim=1) for side in (left, right))
            product = left * right
            scores[start : start + step] = (
                product.sum(1) if self.weight is None else product @ torch.from_numpy(self.weight)
            ).numpy()
        return scores


def _candidates(
    rows: RowMatrix,
    graph: GraphData,
    scorers: Sequence[Scorer],
    l2: Sequence[float],
    *,
    train_pairs: int,
    seed: int,
) -> list[tuple[dict[str, Any], _PairScorer]]:
    """Settings and scorers, fitted without any held-out pair."""
    found: list[tuple[dict[str, Any], _PairScorer]] = []
    for name in scorers:
        if name == "hadamard":
            weights = _hadamard_weights(rows, graph, l2, train_pairs=train_pairs, seed=seed)
            found += [
                ({"scorer": name, "strength": value}, _PairScorer(weight))
                for value, weight in zip(l2, weights, strict=True)
            ]
        else:
            found.append(({"scorer": name}, _PairScorer(cosine=name == "cosine")))
    return found


def _hadamard_weights(
    rows: RowMatrix, graph: GraphData, l2: Sequence[float], *, train_pairs: int, seed: int
) -> Array:
    """Coefficients of the elementwise products for each `l2`, float64 [len(l2), D].

    Without the bias, which does not change the order of the pairs.
    """
    index = PairIndex.of(graph)
    edges, others = sample_pairs(index, train_pairs, rng=np.random.default_rng(seed))
    if len(edges) == 0:
        raise InputError(
            "There is no edge left to fit 'hadamard' on: every graph of the split has lost all its"
            " edges, or links all its nodes. Hold out fewer edges, or (in Python) leave 'hadamard'"
            " out of 'scorers'."
        )
    nodes = index.nodes(np.concatenate([edges, others]))
    products = _dense(rows, nodes[:, 0]) * _dense(rows, nodes[:, 1])
    sign = torch.from_numpy(np.repeat([1.0, -1.0], len(edges))).expand(1, len(l2), 1, -1)
    design = Design.of(products, [np.arange(len(nodes))], "standard")
    coef = minimize(design.rows, Sigmoid(sign), torch.tensor([list(l2)], dtype=torch.float64))
    weights: Array = design.to_models(coef.flatten(1, 2)).weight[0].numpy()
    return weights


def _best(
    rows: RowMatrix, val: LinkPairs, candidates: Sequence[tuple[dict[str, Any], _PairScorer]]
) -> tuple[Choice, _PairScorer]:
    """The candidate with the highest AUC on the validation pairs, the first of equals."""
    scores = [
        float(roc_auc_score(val.is_edge, scorer.score(rows, val.nodes))) for _, scorer in candidates
    ]
    best = int(np.argmax(scores))
    settings, scorer = candidates[best]
    return Choice("", settings, scores[best]), scorer


def _dense(rows: RowMatrix, index: Array) -> Tensor:
    """Some rows as a dense tensor."""
    return torch.from_numpy(rows[index] if isinstance(rows, np.ndarray) else rows[index].toarray())


def _check_settings(scorers: Sequence[str], l2: Sequence[float], train_pairs: int) -> None:
    owner = "link_probe"
    if isinstance(scorers, str) or not scorers or not set(scorers) <= set(SCORERS):
        raise bad_argument("scorers", owner=owner, allowed=f"one or more of {SCORERS}", got=scorers)
    if len(l2) == 0 or not all(0 < value < float("inf") for value in l2):
        raise bad_argument(
            "l2", owner=owner, allowed="one or more floats in the range (0.0, inf)", got=l2
        )
    if train_pairs < 1:
        raise bad_argument(
            "train_pairs", owner=owner, allowed="an int of at least 1", got=train_pairs
        )
