"""Positional coordinates of the nodes of a graph, computed from its edges alone.

Nodes with similar neighbourhoods get similar rows, as with random-walk embeddings, but without
walks: a sparse matrix of log-ratios on the edges is factorised, as in the first stage of ProNE
(`Zhang et al. 2019 <https://www.ijcai.org/proceedings/2019/594>`_), and the factors are averaged
over neighbourhoods. Time and memory are O(E dim) and O(E + N dim). benchmarks/structure.py compares
the variants that this one was chosen from. Legend: N nodes, E edges, D coordinates.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from graphlatent.data.graph import GraphData
from graphlatent.errors import InputError, bad_argument
from graphlatent.ops.sparse import SparseMatrix

HOPS = 40
"""Rounds of smoothing, chosen on validation nodes of Photo and CS (benchmarks/structure.py)."""
# Exponent of the distribution of negative samples, that of ProNE and word2vec.
_NEGATIVE_POWER = 0.75
# Subspace iterations, and columns beyond the wanted ones. Few iterations are enough where singular
# values decay fast, but those of a graph with many communities of equal size lie close together.
_ITERATIONS, _OVERSAMPLING = 20, 16
# A row of the factorisation with less than this share of the norm of its row of the matrix is a
# rounding error. A larger limit scores worse on CS.
_REPRESENTED = 1e-5
ROUNDING = 1e-5
"""Rows of a smaller norm, where norms of about 1 are expected, are rounding errors."""


@dataclass(frozen=True, eq=False)
class Factors:
    """The largest singular values of a matrix and their left singular vectors.

    Args:
        left: orthonormal columns [N, K].
        values: singular values in descending order [K].
    """

    left: Tensor
    values: Tensor


def structure_coordinates(
    graph: GraphData, *, dim: int, generator: torch.Generator, hops: int = HOPS
) -> Tensor:
    """Coordinates of the nodes, float32 [N, min(dim, N)], each row of norm 1 or 0.

    U S^1/2 of `log_ratio_matrix`, rows normalised, then `smoothed`. Nodes of components that are
    too small to be among the largest singular values get a random projection of their rows of the
    matrix, so that components remain distinguishable. Nodes without neighbours get 0. The edges
    are taken as undirected.

    Args:
        graph: its edges and edge weights are used, its features are not.
        dim: number of coordinates.
        generator: of the randomised factorisation, on the CPU.
        hops: rounds of smoothing.

    Raises:
        ConfigError: where `dim` or `hops` is out of range.
        InputError: where an edge weight is negative.
    """
    owner = "structure_coordinates"
    for name, value, least in (("dim", dim, 1), ("hops", hops, 0)):
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            allowed = f"an integer of {least} or more"
            raise bad_argument(name, owner=owner, allowed=allowed, got=value)
    adjacency = undirected_adjacency(graph)
    matrix = log_ratio_matrix(adjacency)
    factors = randomized_svd(matrix, rank=dim, generator=generator)
    rows = unit_rows(factors.left * factors.values.sqrt(), floor=0.0)
    represented = _row_norms(factors.left * factors.values)
    expected = matrix.value.new_zeros(graph.num_nodes).index_add(0, matrix.row, matrix.value**2)
    projection = torch.randn(graph.num_nodes, rows.shape[1], generator=generator, dtype=rows.dtype)
    projected = unit_rows(matrix.multiply(projection), floor=0.0)
    kept = (represented[:, 0] > _REPRESENTED * expected.sqrt()) & (expected > 0)
    rows = torch.where(kept[:, None], rows, projected)
    return smoothed(rows, adjacency, hops=hops)


def undirected_adjacency(graph: GraphData) -> SparseMatrix:
    """The symmetric matrix of edge weights without self-loops, float32 [N, N].

    Edges of weight 0 are left out. In a directed graph the weights of both directions are added.

    Raises:
        InputError: where an edge weight is negative.
    """
    source, target = graph.edge_index
    weight = graph.edge_weight
    weight = torch.ones(len(source), dtype=torch.float32) if weight is None else weight
    if bool((weight < 0).any()):
        raise InputError(
            "Coordinates from the edges need edge weights of 0 or more, since the weights are"
            f" those of a random walk. Got {float(weight.min()):g}. Shift the weights, or set"
            " structure='none'."
        )
    kept = (weight > 0) & (source != target)
    source, target, weight = source[kept], target[kept], weight[kept].to(torch.float32)
    shape = (graph.num_nodes, graph.num_nodes)
    if not graph.undirected:
        pair = torch.cat([source * shape[1] + target, target * shape[1] + source])
        pair, place = torch.unique(pair, return_inverse=True)
        total = weight.new_zeros(len(pair)).index_add(0, place, weight.repeat(2))
        source, target, weight = pair // shape[1], pair % shape[1], total
    return SparseMatrix.from_coo(source, target, weight, shape, symmetric=True)


def log_ratio_matrix(adjacency: SparseMatrix) -> SparseMatrix:
    """Log p_ij - log q_j on the edges, 0 elsewhere, float32 [N, N]: equation 5 of ProNE.

    p = D^-1 A are the transition probabilities of a random walk and q_j, proportional to
    (sum_i p_ij)^0.75, is the distribution of negative samples, of which there is one per edge.
    Negative values are kept: truncating them at 0 scores the same.
    """
    row, col, weight = adjacency.row, adjacency.col, adjacency.value.to(torch.float64)
    degree = weight.new_zeros(adjacency.shape[0]).index_add(0, row, weight)
    probability = weight / degree[row]
    negative = weight.new_zeros(adjacency.shape[0]).index_add(0, col, probability)
    negative = negative**_NEGATIVE_POWER
    ratio = probability.log() - (negative / negative.sum())[col].log()
    return SparseMatrix(adjacency.crow, col, ratio.to(torch.float32), adjacency.shape)


def randomized_svd(matrix: SparseMatrix, *, rank: int, generator: torch.Generator) -> Factors:
    """The `rank` largest singular values of a square matrix and their left singular vectors.

    Subspace iteration from a random start (`Halko, Martinsson and Tropp 2011
    <https://arxiv.org/abs/0909.4061>`_). The sign of a vector is such that its largest entry is
    positive.

    Args:
        matrix: float32 [N, N].
        rank: number of singular values, at most N are returned.
        generator: of the random start.
    """
    size = matrix.shape[0]
    rank, transpose = min(rank, size), matrix.transpose
    width = min(rank + _OVERSAMPLING, size)
    start = torch.randn(size, width, generator=generator, dtype=matrix.value.dtype)
    basis = torch.linalg.qr(matrix.multiply(start)).Q
    for _ in range(_ITERATIONS):
        basis = torch.linalg.qr(matrix.multiply(transpose.multiply(basis))).Q
    image = transpose.multiply(basis).to(torch.float64)
    squares, vectors = torch.linalg.eigh(image.T @ image)
    values = squares.flip(0)[:rank].clamp(min=0).sqrt()
    left = basis @ vectors.flip(1)[:, :rank].to(basis.dtype)
    largest = left.gather(0, left.abs().argmax(0, keepdim=True))
    return Factors(torch.where(largest < 0, -left, left), values.to(basis.dtype))


def smoothed(rows: Tensor, adjacency: SparseMatrix, *, hops: int) -> Tensor:
    """`rows` averaged over neighbourhoods: X <- X + Â X, rows normalised, `hops` times.

    Â is the matrix of a GCN layer. Its leading eigenvector, which is the square root of the degrees
    and to which all rows would converge, is projected out in every round, so that many rounds do
    not make the rows alike.

    Args:
        rows: float32 [N, D].
        adjacency: symmetric, without self-loops.
        hops: rounds; 0 returns the rows as they are.
    """
    degree = adjacency.value.new_zeros(adjacency.shape[0])
    degree = degree.index_add(0, adjacency.row, adjacency.value)
    scale = (degree + 1).rsqrt()
    # Nodes without neighbours keep a row of 0.
    leading = torch.where(degree > 0, (degree + 1).sqrt(), 0.0)
    leading = (leading / leading.norm().clamp(min=1.0))[:, None]
    value = scale[adjacency.row] * adjacency.value * scale[adjacency.col]
    neighbours = SparseMatrix(adjacency.crow, adjacency.col, value, adjacency.shape, symmetric=True)
    own = 1 + scale[:, None] ** 2
    for _ in range(hops):
        rows = own * rows + neighbours.multiply(rows)
        rows = unit_rows(rows - leading * (leading.T @ rows))
    return rows


def unit_rows(rows: Tensor, *, floor: float = ROUNDING) -> Tensor:
    """`rows` divided by their norms; rows of norms up to `floor` become 0."""
    norm = _row_norms(rows)
    return torch.where(norm > floor, rows / torch.where(norm > floor, norm, 1.0), 0.0)


def _row_norms(rows: Tensor) -> Tensor:
    norms: Tensor = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    return norms
