"""The probe of overlapping communities: overlapping k-means against the true communities.

Overlapping k-means places a row of several communities at the mean of their centres, which is where
averaging over neighbours puts a node whose neighbours are in several communities. The truth is read
afterwards, to score the result. Legend: M rows, D columns, K communities.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
from torch import Tensor

from graphlatent.errors import InputError, bad_argument
from graphlatent.ops.nearest import RowMatrix
from graphlatent.probes.clustering import cluster_rows, scaled_rows
from graphlatent.probes.design import PREPROCESSING, Preprocessing
from graphlatent.probes.neighbours import float64_rows
from graphlatent.probes.results import ScoresBySeed

Array: TypeAlias = np.ndarray[Any, Any]

SELECTION = (
    "Nothing was chosen by the true communities: they were read afterwards, to score those found."
)
COUNTED = " Their number is the true one."
_MAX_STEPS = 100
# Number of pairs of rows compared at a time
_BLOCK = 2**22


@dataclass(frozen=True)
class CommunityResult(ScoresBySeed):
    """Agreement of true and found communities for each seed; 1 is perfect agreement.

    Args:
        nmi: overlapping normalised mutual information; 0 for independent communities.
        f1: average F1, every community matched with the most similar one of the other side. Not 0
            by chance.
        omega: omega index; 0 on average by chance.
        per_row: mean number of communities of a row.
        num_communities: K.
        seeds: of the random starts.
        selection: in words, what the truth was used for.
    """

    nmi: tuple[float, ...]
    f1: tuple[float, ...]
    omega: tuple[float, ...]
    per_row: tuple[float, ...]
    num_communities: int
    seeds: tuple[int, ...]
    selection: str = SELECTION
    names: ClassVar[tuple[str, ...]] = ("nmi", "f1", "omega")


def community_probe(
    representation: Any,
    truth: Array | Tensor | Sequence[Sequence[int]],
    *,
    num_communities: int | None = None,
    seeds: Sequence[int] = range(5),
    preprocessing: Preprocessing = "row",
    restarts: int = 10,
) -> CommunityResult:
    """Agreement of the true communities with communities of the representation.

    Args:
        representation: one row per node [M, D]: array, tensor, SciPy sparse matrix or
            `SparseMatrix`.
        truth: a 0/1 matrix [M, K] (array or tensor), or a list of the row numbers in each
            community. Rows may be in none.
        num_communities: K to look for. By default the true number, the only thing that is taken
            from the truth beforehand.
        seeds: random starts, one search each.
        preprocessing: "none", "row" or "standard"; see
            `graphlatent.probes.clustering.cluster_probe`.
        restarts: of the k-means that the search starts from.

    Raises:
        ConfigError: where a setting is out of range.
        InputError: where rows and truth do not fit together.
    """
    if len(seeds) == 0:
        raise bad_argument("seeds", owner="community_probe", allowed="one or more ints", got=seeds)
    rows = float64_rows(representation)
    members = membership_table(truth, num_rows=rows.shape[0])
    size = members.shape[1] if num_communities is None else num_communities
    found = [
        overlapping_kmeans(
            rows,
            num_communities=size,
            seed=int(seed),
            preprocessing=preprocessing,
            restarts=restarts,
        )
        for seed in seeds
    ]
    scores = {name: tuple(score(members, each) for each in found) for name, score in SCORES.items()}
    per_row = tuple(float(each.sum(1).mean()) for each in found)
    selection = SELECTION + (COUNTED if num_communities is None else "")
    return CommunityResult(
        **scores,
        per_row=per_row,
        num_communities=size,
        seeds=tuple(map(int, seeds)),
        selection=selection,
    )


def overlapping_kmeans(
    representation: Any,
    *,
    num_communities: int,
    seed: int = 0,
    preprocessing: Preprocessing = "row",
    restarts: int = 10,
) -> Array:
    """The communities of each row, bool [M, K]; every row is in one or more.

    Minimises the squared distances of rows to the mean of their communities' centres: OKM
    (Cleuziou, "An extended version of the k-means method for overlapping clustering", ICPR 2008).
    It has no threshold. Starting from the clusters of k-means, it alternates:
    - each row joins the nearest centre, then the next nearest ones as long as the mean of its
      centres gets nearer to it; it keeps its previous communities where those are as near;
    - all centres are updated by least squares. Differs from the paper, which updates one centre
      after the other.

    Args:
        representation: one row per node [M, D].
        num_communities: K.
        seed: of k-means; the same seed gives the same communities.
        preprocessing: "none", "row" or "standard".
        restarts: of k-means.

    Raises:
        ConfigError: where a setting is out of range.
        InputError: where there are fewer rows than communities, or the representation is no 2-D
            matrix of numbers.
    """
    owner = "overlapping_kmeans"
    if preprocessing not in PREPROCESSING:
        raise bad_argument(
            "preprocessing", owner=owner, allowed=f"one of {PREPROCESSING}", got=preprocessing
        )
    for name, value in (("num_communities", num_communities), ("restarts", restarts)):
        if value < 1:
            raise bad_argument(name, owner=owner, allowed="an int of at least 1", got=value)
    rows = scaled_rows(float64_rows(representation), preprocessing)
    clusters = cluster_rows(rows, num_clusters=num_communities, seed=seed, restarts=restarts)
    members: Array = clusters[:, None] == np.arange(num_communities)
    centres: Array = np.zeros((num_communities, rows.shape[1]))
    for _ in range(_MAX_STEPS):
        centres = _centres(rows, members, before=centres)
        assigned = _assigned(rows, centres, before=members)
        if np.array_equal(assigned, members):
            break
        members = assigned
    return members


def membership_table(truth: Array | Tensor | Sequence[Sequence[int]], *, num_rows: int) -> Array:
    """The true communities as bool [M, K], without empty ones.

    Args:
        truth: a 0/1 matrix (array or tensor), or a list of the row numbers in each community.
        num_rows: M.

    Raises:
        InputError: where it is neither.
    """
    if isinstance(truth, (list, tuple)):
        table = np.zeros((num_rows, len(truth)), dtype=bool)
        for k, rows in enumerate(truth):
            numbers = np.asarray(rows)
            if numbers.ndim != 1 or (
                numbers.size
                and (
                    numbers.dtype.kind not in "iu" or numbers.min() < 0 or numbers.max() >= num_rows
                )
            ):
                raise InputError(
                    f"Community {k} must be a list of row numbers from 0 to {num_rows - 1}. A 0/1"
                    " table is given as an array."
                )
            table[numbers.astype(np.int64), k] = True
    else:
        values = truth.detach().cpu().numpy() if isinstance(truth, Tensor) else np.asarray(truth)
        if values.ndim != 2 or len(values) != num_rows or not bool(np.isin(values, (0, 1)).all()):
            raise InputError(
                "The true communities must be a 0/1 table with one row per row of the"
                f" representation, {num_rows}, or lists."
            )
        table = values.astype(bool)
    if not table.any():
        raise InputError(
            "The true communities are all empty. Give at least one community with a member."
        )
    return table[:, table.any(0)]


def overlapping_nmi(truth: Array, found: Array) -> float:
    """Normalised mutual information of two covers, bool [M, K] and [M, L], from 0 to 1.

    NMI_max of McDaid, Greene and Hurley, "Normalized mutual information to evaluate overlapping
    community finding algorithms" (2011): Lancichinetti, Fortunato and Kertesz's measure (2009)
    divided by the larger of both entropies, so that it is 0 where covers have nothing in common.
    Covers without entropy, in which every community has all rows, score 1 if both are such, else 0.
    """
    first, second = _present(truth), _present(found)
    of_first, given_second = _entropies(first, second)
    of_second, given_first = _entropies(second, first)
    if max(of_first, of_second) == 0:
        return float(first.shape[1] > 0 and second.shape[1] > 0)
    return float((of_first - given_second + of_second - given_first) / 2 / max(of_first, of_second))


def average_f1(truth: Array, found: Array) -> float:
    """The mean best F1 of each true community among the found ones, averaged with the reverse.

    Yang and Leskovec, "Overlapping community detection at scale" (WSDM 2013). Both arguments are
    bool [M, K] and [M, L].
    """
    first, second = _present(truth), _present(found)
    if first.shape[1] == 0 or second.shape[1] == 0:
        return 0.0
    f1 = 2 * _shared(first, second) / (first.sum(0)[:, None] + second.sum(0))
    return float((f1.max(1).mean() + f1.max(0).mean()) / 2)


def omega_index(truth: Array, found: Array) -> float:
    """The fraction of pairs with equally many shared communities in both covers, chance-corrected.

    Collins and Dent, "Omega: a general formulation of the Rand index of cluster recovery suitable
    for non-disjoint solutions" (1988). For covers without overlap it is the adjusted Rand index.
    Both arguments are bool [M, K] and [M, L].
    """
    first, second = truth.astype(np.float64), found.astype(np.float64)
    shape = truth.shape[1] + 1, found.shape[1] + 1
    counts = np.zeros(shape[0] * shape[1], dtype=np.int64)
    step = max(1, _BLOCK // len(first))
    for start in range(0, len(first), step):
        block = slice(start, start + step)
        both = (first[block] @ first.T) * shape[1] + second[block] @ second.T
        counts += np.bincount(both.astype(np.int64).ravel(), minlength=len(counts))
    # Without the pairs of a row with itself
    counts -= np.bincount(truth.sum(1) * shape[1] + found.sum(1), minlength=len(counts))
    size = min(shape)
    table = counts.reshape(shape) / max(1, counts.sum())
    agreed, by_chance = (
        float(np.trace(table)),
        float((table.sum(1)[:size] * table.sum(0)[:size]).sum()),
    )
    return 1.0 if by_chance == 1 or counts.sum() == 0 else (agreed - by_chance) / (1 - by_chance)


SCORES: Mapping[str, Callable[[Array, Array], float]] = {
    "nmi": overlapping_nmi,
    "f1": average_f1,
    "omega": omega_index,
}


def _present(members: Array) -> Array:
    """The non-empty communities."""
    return members[:, members.any(0)]


def _shared(first: Array, second: Array) -> Array:
    """Number of rows that each two communities share, float64 [K, L]."""
    shared: Array = first.T.astype(np.float64) @ second.astype(np.float64)
    return shared


def _entropies(first: Array, second: Array) -> tuple[float, float]:
    """H(X), summed over the communities of the first cover, and H(X | Y) given the second.

    H(X | Y) takes for each community the most informative one of the second cover. Only those
    count whose common rows and common non-rows carry at least as much entropy as their differences
    (appendix B of Lancichinetti et al.): otherwise the complement of a community would be as good
    as the community itself.
    """
    num_rows, size, other = len(first), first.sum(0)[:, None], second.sum(0)
    both = _shared(first, second)
    # Rows in both, in neither, in the first only, in the second only
    cells = [both, num_rows - size - other + both, size - both, other - both]
    in_both, in_neither, in_first, in_second = (_entropy_term(cell / num_rows) for cell in cells)
    entropy = _entropy_term(size / num_rows) + _entropy_term(1 - size / num_rows)  # [K, 1]
    joint = in_both + in_neither + in_first + in_second
    conditional = joint - _entropy_term(other / num_rows) - _entropy_term(1 - other / num_rows)
    conditional = np.where(in_both + in_neither >= in_first + in_second, conditional, entropy)
    least = entropy[:, 0]
    if conditional.shape[1]:
        least = np.minimum(conditional.min(1), least)
    return float(entropy.sum()), float(np.maximum(least, 0).sum())


def _entropy_term(share: Array) -> Array:
    """-p log2 p, 0 for p = 0."""
    return -share * np.log2(np.where(share > 0, share, 1))


def _centres(rows: RowMatrix, members: Array, *, before: Array) -> Array:
    """The centres [K, D] that minimise the objective for given communities; unused ones stay."""
    share = members / members.sum(1, keepdims=True)  # [M, K]
    used: Array = np.asarray(members.any(0))
    centres: Array = np.linalg.lstsq(share.T @ share, np.asarray((rows.T @ share).T), rcond=None)[0]
    return np.where(used[:, None], centres, before)


def _assigned(rows: RowMatrix, centres: Array, *, before: Array) -> Array:
    """The communities of each row for given centres, bool [M, K]; `before` where as good."""
    products, grams = np.asarray(rows @ centres.T), centres @ centres.T
    # By squared distance without the row's own squared norm
    nearest = np.argsort(np.diag(grams) - 2 * products, axis=1, kind="stable")
    row = np.arange(len(products))
    members: Array = nearest[:, :1] == np.arange(len(centres))
    loss = _losses(members, products, grams)
    growing = np.ones(len(products), dtype=bool)
    for place in range(1, len(centres)):
        wider = members.copy()
        wider[row, nearest[:, place]] = True
        wider_loss = _losses(wider, products, grams)
        growing &= wider_loss < loss
        members[growing], loss = wider[growing], np.where(growing, wider_loss, loss)
    rounding = 1e-12 * np.diag(grams).max()
    better = loss < _losses(before, products, grams) - rounding
    return np.where(better[:, None], members, before)


def _losses(members: Array, products: Array, grams: Array) -> Array:
    """Squared distance to the mean of the centres, without the row's own squared norm, [M]."""
    share = members / members.sum(1, keepdims=True)
    losses: Array = ((share @ grams - 2 * products) * share).sum(1)
    return losses
