"""Both sides of the bounds in numpy, written from the proof and not from the package's code.

Here F are latent and x observed features, J masked nodes, f = D(E(x)) and g what f loses on J:

    E |f - F|^2 + E |x - F|^2  <=  E |f - x|^2 + 2 c |V| E_J sqrt( E |g_J|^2 / |J| )

with c the root of the noise's variance in a row. Graphs are added up, and divided by all nodes.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np


def dense_matrix(kind, edge_index, num_nodes):
    """What a layer of 'gcn' or 'gin' multiplies features with."""
    matrix = np.eye(num_nodes)
    matrix[edge_index[1], edge_index[0]] = 1
    if kind == "gin":
        return matrix
    degree = matrix.sum(1)
    return matrix / np.sqrt(np.outer(degree, degree))


def normalised(rows, state, name):
    scale = state[f"{name}.weight"] / np.sqrt(state[f"{name}.var"] + 1e-5)
    return (rows - state[f"{name}.mean"]) * scale + state[f"{name}.bias"]


def encoder_layers(state, kind, matrix, x):
    """The outputs of all layers, from a state dict of numpy arrays."""
    outputs, i = [], 0
    while f"encoder.convs.{i}.weight" in state:
        name = f"encoder.convs.{i}"
        x = matrix @ x @ state[f"{name}.weight"] + state[f"{name}.bias"]
        if kind == "gin":
            x = np.maximum(x, 0) @ state[f"{name}.weight2"] + state[f"{name}.bias2"]
        slope = state.get(f"encoder.activations.{i}.weight", 0.0)
        x = np.where(x > 0, x, slope * x)
        if f"encoder.norms.{i}.weight" in state:
            x = normalised(x, state, f"encoder.norms.{i}")
        outputs.append(x)
        i += 1
    return outputs


def decode(state, rows):
    i = 0
    while f"decoder.linears.{i + 1}.weight" in state:
        rows = rows @ state[f"decoder.linears.{i}.weight"].T + state[f"decoder.linears.{i}.bias"]
        rows = normalised(np.maximum(rows, 0), state, f"decoder.norms.{i}")
        i += 1
    return rows @ state[f"decoder.linears.{i}.weight"].T + state[f"decoder.linears.{i}.bias"]


def lipschitz(state):
    """Largest singular values, with the batch norm before a layer as a diagonal matrix."""
    product, diagonal, i = 1.0, None, 0
    while f"decoder.linears.{i}.weight" in state:
        weight = state[f"decoder.linears.{i}.weight"]
        if diagonal is not None:
            weight = weight @ diagonal
        product *= np.sqrt(np.linalg.eigvalsh(weight.T @ weight).max())
        if f"decoder.norms.{i}.weight" in state:
            name = f"decoder.norms.{i}"
            diagonal = np.diag(state[f"{name}.weight"] / np.sqrt(state[f"{name}.var"] + 1e-5))
        i += 1
    return product


@dataclass(frozen=True)
class Sides:
    """Per node, with the standard error of the gap over masks."""

    left: float
    theorem1: float
    corollary1: float
    corollary2: float
    gap_error: float


def both_sides(state, *, kind, matrix, latent, sigma, graph_id, draws):
    """Both sides for given draws: of each mask, the nodes and pairs of features and masked ones."""
    num_nodes, constant = len(latent), lipschitz(state)
    row_noise = np.sqrt(np.sum(sigma**2))
    members = [graph_id == g for g in np.unique(graph_id)]
    lefts, reconstructions, terms, largest = [], [], [], 0.0
    for rows, pairs in draws:
        masked = np.isin(np.arange(num_nodes), rows)
        left, reconstruction, lost = 0.0, 0.0, np.zeros((3, len(members)))
        for x, masked_x in pairs:
            plain, hidden = (encoder_layers(state, kind, matrix, each) for each in (x, masked_x))
            output = decode(state, plain[-1])
            left += np.sum((output - latent) ** 2) + np.sum((x - latent) ** 2)
            reconstruction += np.sum((output - x) ** 2)
            g = output - decode(state, hidden[-1])
            for j, member in enumerate(members):
                h = np.sum((plain[-1] - hidden[-1])[member & masked] ** 2)
                z = sum(
                    np.sum((a - b)[member].sum(0) ** 2) for a, b in zip(plain, hidden, strict=True)
                )
                lost[:, j] += np.sum(g[member & masked] ** 2), h, z
                largest = max(largest, np.sqrt(h / z))
        lefts.append(left / len(pairs) / num_nodes)
        reconstructions.append(reconstruction / len(pairs) / num_nodes)
        size, hidden_count = (
            np.array([(m & which).sum() for m in members])
            for which in (np.ones(num_nodes, dtype=bool), masked)
        )
        terms.append(np.sqrt(lost / len(pairs) / hidden_count) @ size / num_nodes)
    terms, reconstruction = np.array(terms), np.mean(reconstructions)
    output, embedding, pooled = terms.mean(0)
    gaps = np.array(reconstructions) + 2 * row_noise * terms[:, 0] - np.array(lefts)
    return Sides(
        left=np.mean(lefts),
        theorem1=reconstruction + 2 * row_noise * output,
        corollary1=reconstruction + 2 * row_noise * constant * embedding,
        corollary2=reconstruction + 2 * row_noise * constant * largest * pooled,
        gap_error=np.sqrt(np.var(gaps, ddof=1) / len(gaps)),
    )


def exact_sides(f, latent, sigma, size):
    """The left side, the reconstruction and E_J sqrt(E |g_J|^2 / |J|), per node and exact.

    The noise is +sigma or -sigma with equal chances in each entry; every noise and every J of a
    size is visited, and masks are zeros.
    """
    num_nodes = len(latent)
    signs = np.array(list(itertools.product((-1, 1), repeat=latent.size)))
    observed = [latent + sigma * each.reshape(latent.shape) for each in signs]
    outputs = [f(x) for x in observed]
    left = np.mean([np.sum((out - latent) ** 2) for out in outputs]) + latent.size * sigma**2
    pairs = list(zip(outputs, observed, strict=True))
    reconstruction = np.mean([np.sum((out - x) ** 2) for out, x in pairs])
    roots = []
    for rows in map(list, itertools.combinations(range(num_nodes), size)):
        total = 0.0
        for out, x in pairs:
            masked_x = x.copy()
            masked_x[rows] = 0
            total += np.sum((out - f(masked_x))[rows] ** 2)
        roots.append(np.sqrt(total / len(pairs) / size))
    return left / num_nodes, reconstruction / num_nodes, np.mean(roots)
