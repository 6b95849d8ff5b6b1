"""Embeddings of nodes in float64 from dense NumPy matrices, and graphs to compare them on."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import torch

from cases import generator, random_graph
from graphlatent.data.batches import edge_list
from graphlatent.nn.propagation import gcn_matrix
from graphlatent.ops.sparse import SparseMatrix


def dense(matrix):
    return np.asarray(matrix.to_dense(), dtype=np.float64)


def case(sizes, *, num_features, num_hidden=3, seed=0, sparse=False, kind="random"):
    """The arguments of `NodeHead.fit`: features, matrix, output of the encoder.

    Args:
        sizes: nodes of each graph.
        num_features: F.
        num_hidden: H.
        seed: of everything.
        sparse: whether features are sparse words, about a third of them.
        kind: low frequencies of the graph are large in every other column of "alike" features,
            high frequencies in all columns of "unlike" ones.
    """
    graph = random_graph(sizes, num_features=num_features, seed=seed, density=0.2)
    matrix = gcn_matrix(edge_list(graph)).to(dtype=torch.float32)
    eigenvalues, vectors = np.linalg.eigh(dense(matrix))
    # The largest eigenvalue of each graph belongs to a function of the degrees.
    low, high = (eigenvalues > 0.45) & (eigenvalues < 0.999), eigenvalues < 0
    gain = 6.0 * {"random": low & high, "alike": low, "unlike": high}[kind] + 1
    x = graph.x.clone()
    smooth = torch.from_numpy(vectors * gain @ vectors.T).float()
    step = 2 if kind == "alike" else 1
    x[:, ::step] = smooth @ x[:, ::step]
    if sparse:
        x = torch.where(x > x.quantile(0.65), x.abs(), 0)
        row, col = torch.nonzero(x, as_tuple=True)
        x = SparseMatrix.from_coo(row, col, x[row, col], tuple(x.shape))
    return x, matrix, torch.randn(len(vectors), num_hidden, generator=generator(seed + 1))


def unit(rows):
    norm = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(norm > 0, norm, 1)


def leading(rows, k):
    """The right singular vectors, signed by their largest entry; zeros beyond their number."""
    vectors = np.linalg.svd(rows, full_matrices=False)[2][:k].T
    largest = np.abs(vectors).argmax(0)
    signed = vectors * np.sign(vectors[largest, np.arange(vectors.shape[1])])
    return np.pad(signed, ((0, 0), (0, k - signed.shape[1])))


def similarity(z, a):
    """Correlation of neighbours, homophily and deviations, from all pairs of different nodes."""
    u, off = z - z.mean(0), a * (1 - np.eye(len(a)))
    product, covariance = u @ u.T, u.T @ u / len(u)
    chance = np.sqrt(2 * (off**2).sum() * (covariance**2).sum())
    if chance == 0:
        return 0.0, np.nan, 0.0
    total, pairs = (off * product).sum(), off.T @ off * (1 - np.eye(len(a)))
    neighbours = total / off.sum() / np.trace(covariance)
    siblings = neighbours
    if pairs.sum() > 0:
        siblings = (pairs * product).sum() / pairs.sum() / np.trace(covariance)
    return neighbours, np.clip(siblings / neighbours, 0, 1), total / chance


def latent(z, a):
    """The weights of features and averages; `a` and `b` are those without the floor."""
    width = z.shape[1]
    mean_r, homophily, deviations = similarity(z, a)
    if deviations <= 2:
        share = 0.3 if deviations < -3 else 0.1
        ones = np.ones(width)
        return SimpleNamespace(
            directions=np.eye(width),
            own=ones,
            averaged=ones,
            share=share,
            coordinates=0.4,
            deviations=deviations,
        )
    v, q = np.linalg.eigh(np.cov(z.T, bias=True).reshape(width, width))
    v, q = v[::-1], q[:, ::-1]
    v = np.where(v < 1e-10 * v.max(), 0, v)
    y, s = (z - z.mean(0)) @ q, (a @ a @ z - (a @ a @ z).mean(0)) @ q
    u, c = s.var(0), (y * s).mean(0)
    off = a * (1 - np.eye(len(a)))
    total = off.sum()
    products = np.array([(off * np.outer(column, column)).sum() for column in y.T])
    r = np.divide(products, total * v, out=np.zeros(width), where=v > 0)
    chance = np.sqrt(2 * (off**2).sum()) / total
    spread = (v / v.sum() * (r - mean_r) ** 2).sum()
    kept = max(spread - chance**2, 0) / max(spread, chance**2)
    phi = np.clip((kept * r + (1 - kept) * mean_r) / max(homophily, mean_r, 0.05), 0, 0.95)
    g = (a**2).sum() / len(a)
    of_z, of_s = phi * v, c - g * (1 - phi) * v
    determinant = np.maximum(v * u - c**2, 1e-3 * v * u)
    determinant = np.where(determinant > 0, determinant, np.inf)
    a_k = np.maximum(of_z * u - c * of_s, 0) / determinant
    b_k = np.maximum(v * of_s - c * of_z, 0) / determinant
    from_z, from_s = (a_k**2 * v).sum(), (b_k**2 * u).sum()
    share = np.clip(from_s / (from_z + from_s), 0.25, 0.9)
    known = min(mean_r / homophily, 1) if homophily > 0 else 1
    degree = (off != 0).sum(1).mean()
    signal_to_noise = homophily**2 * known * degree / max(1 - known, 0.01)
    walks = walk_with_restart(a)
    far = (walks @ z - (walks @ z).mean(0)) @ q
    spread_far = np.where(v > 0, far.var(0), 0)
    spread_far = np.where(spread_far < 1e-10 * spread_far.max(), 0, spread_far)
    of_far = (y * far).mean(0) - np.trace(walks) / len(a) * (1 - phi) * v
    alone = np.where(
        spread_far > 0, np.maximum(of_far, 0) / np.where(spread_far > 0, spread_far, 1), 0
    )
    return SimpleNamespace(
        directions=q,
        own=floored(a_k, v),
        averaged=floored(alone, spread_far),
        a=a_k,
        b=b_k,
        share=min(share + (1 - share) * homophily * (1 - known**2), 0.9),
        coordinates=0.1 + 0.3 / (1 + 20 * signal_to_noise),
        deviations=deviations,
        kept=kept,
    )


def walk_with_restart(a, *, restart=0.25, steps=8):
    """The matrix of walks that end before each step with this probability, and at last."""
    weights = (1 - restart) ** np.arange(steps + 1)
    powers = [np.linalg.matrix_power(a, j) for j in range(steps + 1)]
    return sum(w * power for w, power in zip(weights / weights.sum(), powers, strict=True))


def floored(weight, variance):
    total = (weight * variance).sum()
    if total == 0:
        return np.ones(len(weight))
    return np.maximum(weight * total / (weight**2 * variance).sum(), 0.3)


def scaled(block, variance):
    """What a block is multiplied by to have rows of this mean squared norm about their mean."""
    uncentred = (block**2).sum(1).mean()
    centred = ((block - block.mean(0)) ** 2).sum(1).mean()
    square = centred if centred > 1e-12 * uncentred else uncentred
    return np.sqrt(variance / square) if square > 0 else 0.0


def embedding(arguments, *, k, k0=512, few=64, feature_weight=1.0, encoder_weight=1.0):
    """Functions of (x, matrix, hidden, coordinates), fitted to the first ones.

    Returns:
        `joined`, the blocks side by side; `embed`, the embedding; the fitted values.
    """
    x = dense(arguments[0])
    width = x.shape[1]
    few = width <= few
    keeps_norms = few or (x != 0).mean() > 0.5
    square = (x**2).mean(0) if few else np.full(width, (x**2).mean())
    scale = np.where(square > 0, 1 / np.sqrt(width * np.where(square > 0, square, 1)), 0)

    def rows(x):
        return x * scale if keeps_norms else unit(x)

    basis = np.eye(width) if width <= k0 else leading(rows(x), k0)
    estimate = latent(rows(x) @ basis, dense(arguments[1]))
    alike = estimate.deviations > 2

    def smoothing(a):
        return walk_with_restart(a) if alike else a @ a

    def blocks(x, matrix, hidden, coordinates=None):
        z, a = rows(dense(x)) @ basis, dense(matrix)
        s = smoothing(a) @ z
        s = s if keeps_norms else unit(s)
        own = z @ estimate.directions * estimate.own
        averaged = s @ estimate.directions * estimate.averaged
        found = [own, averaged, unit(dense(hidden)), (a @ a).sum(1, keepdims=True)]
        return found if coordinates is None else [*found, dense(coordinates)]

    share = estimate.share
    degrees = 1 / width if keeps_norms else 0
    variances = [feature_weight**2 * (1 - share), share, encoder_weight**2 * 0.5 * share, degrees]
    fitted = blocks(*arguments)
    factors = [
        scaled(b, v) for b, v in zip(fitted, [*variances, estimate.coordinates], strict=False)
    ]

    def joined(*arguments):
        parts = zip(blocks(*arguments), factors, strict=True)
        return np.concatenate([block * factor for block, factor in parts], axis=1)

    everything = joined(*arguments)
    mean = everything.mean(0)
    components = leading(everything - mean, min(k, everything.shape[1]))

    def embed(*arguments):
        return (joined(*arguments) - mean) @ components

    return SimpleNamespace(joined=joined, embed=embed, estimate=estimate, keeps_norms=keeps_norms)


def same_signs(found, expected):
    """`expected` with each column's sign that of `found`: directions have no sign of their own."""
    return expected * np.where((found * expected).sum(0) < 0, -1, 1)
