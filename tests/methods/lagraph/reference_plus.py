"""A reference implementation of LaGraph's objective "plus" in float64, for comparison.

Written from the formulas below only, independently of the package. It loops over nodes, matrices
are dense, and gradients are computed by autograd.

One batch has N nodes, features X [N, F], masked nodes J, counted nodes C (J is a subset of C):

    plain view    H = E(A, X)
    masked view   H' = E(A', X' * k); X' is X with the rows J replaced by M_v, A' may have fewer
                  edges, k in {0, 1}^F drops feature columns, those of replaced rows included
    target        T = E_target(A, X), no gradient; t_v is row v of
                  (T - mean over C) / (biased standard deviation over C + 1e-6), column by column;
                  a column whose deviation is at most 1e-4 of its root mean square over C is 0

    reconstruction          mean over v in C with x_v != 0 of (1 - cos(D(h_v), x_v))^2
    masked_reconstruction   mean over v in J with x_v != 0 of (1 - cos(D(h'_v), x_v))^2
    latent                  mean over v in J of 1 - cos(q(h'_v), t_v)
    invariance              alpha * sqrt(sum_{v in J} ||h_v - h'_v||^2 / |J|); at graph level
                            alpha * sqrt(sum_i ||z_i - z'_i||^2 / |J|), z_i the concatenation of
                            every layer's sum over the nodes of graph i
    total                   the weighted sum of the four

A mean over nothing is 0 with gradient 0, and so is the root of 0. cos(a, b) is
<a, b> / (max(|a|, eps) max(|b|, eps)) with eps = 1e-8. It is 0 at a = 0, where its gradient is
b / (eps max(|b|, eps)): finite, but of norm 1e8.

Batch norm and sums over a graph's nodes cover all N rows, counted or not.

Parameters come as a dictionary of float64 tensors, named as in a state_dict:

    encoder.convs.i.weight [in, out], .bias [out]   GCN: A (h W) + b
                   .weight2 [out, out], .bias2      only GIN: relu((A h) W + b) W2 + b2
    encoder.activations.i.weight, one number        slope of the PReLU; without it a ReLU
    encoder.norms.i.weight, .bias                   batch norm after the activation, of every layer
                                                    but the last, or of none
    target.*                                        like encoder.*
    decoder.linears.i.weight [out, in], .bias       all but the last followed by a ReLU and by
    decoder.norms.i.weight, .bias                   a batch norm
    predictor.0.weight [out, in], .bias             q: linear map,
    predictor.1.weight, one number                  PReLU,
    predictor.2.weight, .bias                       linear map
    token [F]                                       the learnt row M_v, the same for all v

Other entries of norms (running statistics) are ignored; any other name is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from reference import RefGraph, gcn_matrix, gin_matrix

Weights = Mapping[str, Tensor]

COSINE_EPS = 1e-8
DEVIATION_EPS = 1e-6
CONSTANT = 1e-4
BATCH_NORM_EPS = 1e-5

_NAMES = re.compile(
    r"(encoder|target)\.convs\.\d+\.(weight|bias|weight2|bias2)"
    r"|(encoder|target)\.activations\.\d+\.weight"
    r"|(encoder|target|decoder)\.norms\.\d+\.\w+"
    r"|decoder\.linears\.\d+\.(weight|bias)"
    r"|predictor\.([02]\.(weight|bias)|1\.weight)"
    r"|token"
)


@dataclass(frozen=True)
class PlusBatch:
    """One batch and everything that was drawn for its masked view.

    Attributes:
        x: features X, [N, F].
        matrix: the matrix A of the plain view that multiplies features, [N, N], row = target, see
            `dense_matrix`; several graphs are blocks on its diagonal.
        masked: J, no node twice.
        replacement: M_v: "token", "zeros", or one row per node of `masked`, in that order, [|J|, F]
            (noise, or the features of other nodes).
        masked_matrix: A' of the masked view; None is A.
        kept_columns: k, [F] of 0 and 1; None keeps all.
        counted: C; None is all nodes.
        graph_id: the graph of every node; None is one graph.
    """

    x: Tensor
    matrix: Tensor
    masked: list[int]
    replacement: Tensor | Literal["token", "zeros"] = "zeros"
    masked_matrix: Tensor | None = None
    kept_columns: Tensor | None = None
    counted: list[int] | None = None
    graph_id: list[int] | None = None


@dataclass(frozen=True)
class TermWeights:
    """The factors w1 to w4 of the four terms."""

    reconstruction: float = 1.0
    masked_reconstruction: float = 1.0
    latent: float = 1.0
    invariance: float = 1.0


@dataclass(frozen=True)
class PlusTerms:
    """The four terms before their weights, and the weighted total; `invariance` includes alpha."""

    total: Tensor
    reconstruction: Tensor
    masked_reconstruction: Tensor
    latent: Tensor
    invariance: Tensor


def dense_matrix(
    kind: Literal["gcn", "gin"], *, num_nodes: int, edges: list[tuple[int, int, float]]
) -> Tensor:
    """The matrix that multiplies features, [N, N], from directed (source, target, weight)."""
    none = torch.zeros(0, 0, dtype=torch.float64)
    graph = RefGraph(num_nodes, edges, none, [], none)
    return gcn_matrix(graph) if kind == "gcn" else gin_matrix(graph)


def cosine(a: Tensor, b: Tensor) -> Tensor:
    """<a, b> / (max(|a|, eps) max(|b|, eps)) of two vectors."""
    return (a * b).sum() / (_clamped_norm(a) * _clamped_norm(b))


def _clamped_norm(row: Tensor) -> Tensor:
    """max(|row|, eps); constant, with gradient 0, where eps is the larger."""
    square = (row * row).sum()
    if square.item() > COSINE_EPS**2:
        return torch.sqrt(square)
    return torch.full_like(square, COSINE_EPS)


def _prelu(h: Tensor, slope: Tensor | float) -> Tensor:
    """PReLU of one slope for all columns; a ReLU with slope 0."""
    slope = slope.reshape(()) if isinstance(slope, Tensor) else slope
    return torch.where(h > 0, h, slope * h)


def _batch_norm(h: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Batch norm with the statistics of all rows, and the biased variance."""
    mean = sum(h[node] for node in range(len(h))) / len(h)
    variance = sum((h[node] - mean) ** 2 for node in range(len(h))) / len(h)
    return weight * (h - mean) / torch.sqrt(variance + BATCH_NORM_EPS) + bias


def _depth(weights: Weights, prefix: str) -> int:
    """The number of layers `prefix.0`, `prefix.1`, ... that have a weight."""
    depth = 0
    while f"{prefix}.{depth}.weight" in weights:
        depth += 1
    if depth == 0:
        raise ValueError(f"The parameters need at least one layer. Got no '{prefix}.0.weight'.")
    return depth


def encode(weights: Weights, name: str, matrix: Tensor, x: Tensor) -> list[Tensor]:
    """The output of every layer of the encoder `name` ("encoder" or "target"), [N, H] each."""
    depth = _depth(weights, f"{name}.convs")
    norms = [f"{name}.norms.{i}.weight" in weights for i in range(depth)]
    if any(norms) and norms != [True] * (depth - 1) + [False]:
        raise ValueError(
            f"Every layer but the last must have a batch norm, or none. Got {norms} for '{name}'."
        )
    h, outputs = x, []
    for i in range(depth):
        weight, bias = (weights[f"{name}.convs.{i}.{part}"] for part in ("weight", "bias"))
        if f"{name}.convs.{i}.weight2" in weights:
            inner = _prelu((matrix @ h) @ weight + bias, 0.0)
            h = inner @ weights[f"{name}.convs.{i}.weight2"] + weights[f"{name}.convs.{i}.bias2"]
        else:
            h = matrix @ (h @ weight) + bias
        h = _prelu(h, weights.get(f"{name}.activations.{i}.weight", 0.0))
        if norms[i]:
            h = _batch_norm(
                h, weights[f"{name}.norms.{i}.weight"], weights[f"{name}.norms.{i}.bias"]
            )
        outputs.append(h)
    return outputs


def decode(weights: Weights, h: Tensor) -> Tensor:
    """D(H), [N, F]: linear maps, with a ReLU and a batch norm after all but the last."""
    depth = _depth(weights, "decoder.linears")
    for i in range(depth):
        h = h @ weights[f"decoder.linears.{i}.weight"].T + weights[f"decoder.linears.{i}.bias"]
        if i < depth - 1:
            norm = f"decoder.norms.{i}"
            h = _batch_norm(_prelu(h, 0.0), weights[f"{norm}.weight"], weights[f"{norm}.bias"])
    return h


def predict(weights: Weights, h: Tensor) -> Tensor:
    """q(H): linear map, PReLU, linear map."""
    h = h @ weights["predictor.0.weight"].T + weights["predictor.0.bias"]
    h = _prelu(h, weights["predictor.1.weight"])
    return h @ weights["predictor.2.weight"].T + weights["predictor.2.bias"]


def standardised_target(weights: Weights, batch: PlusBatch) -> Tensor:
    """The rows t_v of all nodes, [N, H], without gradient."""
    target = encode(weights, "target", batch.matrix, batch.x)[-1].detach()
    counted = _counted(batch)
    columns = []
    for column in target.T:
        mean = sum(column[node] for node in counted) / len(counted)
        variance = sum((column[node] - mean) ** 2 for node in counted) / len(counted)
        square = sum(column[node] ** 2 for node in counted) / len(counted)
        if torch.sqrt(variance) <= CONSTANT * torch.sqrt(square):
            columns.append(torch.zeros_like(column))
        else:
            columns.append((column - mean) / (torch.sqrt(variance) + DEVIATION_EPS))
    return torch.stack(columns, dim=1)


def masked_features(weights: Weights, batch: PlusBatch) -> Tensor:
    """X' * k, [N, F]."""
    rows = list(batch.x)
    for position, node in enumerate(batch.masked):
        if isinstance(batch.replacement, Tensor):
            rows[node] = batch.replacement[position]
        elif batch.replacement == "token":
            rows[node] = weights["token"]
        else:
            rows[node] = torch.zeros_like(batch.x[node])
    kept = batch.kept_columns
    return torch.stack([row if kept is None else row * kept for row in rows])


def _counted(batch: PlusBatch) -> list[int]:
    return list(range(len(batch.x))) if batch.counted is None else batch.counted


def _mean(values: list[Tensor], like: Tensor) -> Tensor:
    """sum / count; with no values 0, with gradient 0 in what `like` depends on."""
    return sum(values, start=0.0 * like.sum()) / max(len(values), 1)


def _squared_cosine_errors(output: Tensor, x: Tensor, nodes: list[int]) -> list[Tensor]:
    """(1 - cos(output_v, x_v))^2 of the nodes v with x_v != 0."""
    return [(1.0 - cosine(output[v], x[v])) ** 2 for v in nodes if bool((x[v] != 0).any())]


def _latent(weights: Weights, masked: Tensor, batch: PlusBatch) -> Tensor:
    """The latent term; `masked` is H'."""
    prediction = predict(weights, masked)
    if not batch.masked:
        return 0.0 * prediction.sum()
    target = standardised_target(weights, batch)
    return _mean([1.0 - cosine(prediction[v], target[v]) for v in batch.masked], prediction)


def _invariance(
    plain: list[Tensor], masked: list[Tensor], batch: PlusBatch, level: Literal["node", "graph"]
) -> Tensor:
    """The invariance term before alpha."""
    total = 0.0 * (plain[-1].sum() + masked[-1].sum())
    if level == "node":
        for node in batch.masked:
            total = total + ((plain[-1][node] - masked[-1][node]) ** 2).sum()
    else:
        graph_id = [0] * len(batch.x) if batch.graph_id is None else batch.graph_id
        for graph in sorted(set(graph_id)):
            nodes = [node for node, owner in enumerate(graph_id) if owner == graph]
            z, z_masked = (
                torch.cat([sum(h[node] for node in nodes) for h in layers])
                for layers in (plain, masked)
            )
            total = total + ((z - z_masked) ** 2).sum()
    # Dropped columns or edges change the masked view of graphs also without masked nodes; a count
    # of 0 gives 0.
    if not batch.masked or total.item() == 0.0:
        return 0.0 * total
    return torch.sqrt(total / len(batch.masked))


def _check(weights: Weights, batch: PlusBatch) -> None:
    for name, value in weights.items():
        if _NAMES.fullmatch(name) is None:
            raise ValueError(f"The parameters must have the names of this module. Got '{name}'.")
        if value.is_floating_point() and value.dtype != torch.float64:
            raise ValueError(f"The parameters must be float64. Got {value.dtype} for '{name}'.")
    if batch.x.dtype != torch.float64:
        raise ValueError(f"The features must be float64. Got {batch.x.dtype}.")
    counted = _counted(batch)
    if len(set(counted)) != len(counted) or len(set(batch.masked)) != len(batch.masked):
        raise ValueError("The masked nodes must be distinct, and so must the counted ones.")
    outside = sorted(set(batch.masked) - set(counted))
    if outside:
        raise ValueError(f"Masked nodes must be counted. Got {outside}, which are not.")
    rows = batch.replacement
    if isinstance(rows, Tensor) and rows.shape != (len(batch.masked), batch.x.shape[1]):
        raise ValueError(
            f"`replacement` must have one row of {batch.x.shape[1]} features for each of"
            f" {len(batch.masked)} masked nodes. Got the shape {tuple(rows.shape)}."
        )


def plus_terms(
    weights: Weights,
    batch: PlusBatch,
    *,
    level: Literal["node", "graph"],
    alpha: float,
    term_weights: TermWeights,
) -> PlusTerms:
    """The four terms of one batch and their weighted total, differentiable scalars.

    `level` only matters to the invariance term. Without parameters of the predictor the latent
    term is 0, and its weight must be 0.
    """
    _check(weights, batch)
    matrix = batch.matrix if batch.masked_matrix is None else batch.masked_matrix
    plain = encode(weights, "encoder", batch.matrix, batch.x)
    masked = encode(weights, "encoder", matrix, masked_features(weights, batch))
    output, masked_output = decode(weights, plain[-1]), decode(weights, masked[-1])
    latent = 0.0 * masked[-1].sum()
    if "predictor.0.weight" in weights:
        latent = _latent(weights, masked[-1], batch)
    elif term_weights.latent != 0.0:
        raise ValueError(
            "The latent term needs the parameters 'predictor.*' and 'target.*'. Got none of the"
            f" predictor, with the weight {term_weights.latent}."
        )
    terms = {
        "reconstruction": _mean(_squared_cosine_errors(output, batch.x, _counted(batch)), output),
        "masked_reconstruction": _mean(
            _squared_cosine_errors(masked_output, batch.x, batch.masked), masked_output
        ),
        "latent": latent,
        "invariance": alpha * _invariance(plain, masked, batch, level),
    }
    total = sum(getattr(term_weights, name) * term for name, term in terms.items())
    return PlusTerms(total=total, **terms)


def moving_average(weights: Weights, *, momentum: float) -> dict[str, Tensor]:
    """The next `target.*`: momentum * target + (1 - momentum) * encoder, of every parameter."""
    parameters = re.compile(r"\.(weight|bias|weight2|bias2)$")
    online, target = (
        {
            name.split(".", 1)[1]
            for name in weights
            if name.startswith(p) and parameters.search(name)
        }
        for p in ("encoder.", "target.")
    )
    if online != target:
        raise ValueError(
            "The target must have the parameters of the encoder. Only one of them has"
            f" {sorted(online ^ target)}."
        )
    return {
        f"target.{name}": (
            momentum * weights[f"target.{name}"] + (1.0 - momentum) * weights[f"encoder.{name}"]
        ).detach()
        for name in sorted(online)
    }
