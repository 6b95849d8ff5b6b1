"""A reference implementation of the LaGraph objectives in float64, for comparison.

Written from the paper (https://arxiv.org/abs/2202.08333) and docs/method.md only, independently of
the package, so that an error must be made twice to go unnoticed. It loops over graphs, nodes and
edges, propagation matrices are dense, and gradients are computed by autograd. Equations
(5) and (6) are the node-level and the graph-level loss of section 2.4; equation (9) is the
denoising autoencoder's, as the text of section 3.1 numbers it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

Kind = Literal["gcn", "gin"]
Level = Literal["node", "graph"]
Objective = Literal["mse-embed", "mse-output", "ce-embed", "ce-output", "denoise"]
# Tensors by parameter name; a graph-convolution decoder layer also has "kind": "gcn" or "gin".
Layer = dict[str, Any]

BATCH_NORM_EPS = 1e-5


@dataclass(frozen=True)
class RefGraph:
    """One graph, its masked nodes J_i and the rows that replace their features.

    Attributes:
        num_nodes: |V_i|.
        edges: directed (source, target, weight), no pair twice; an undirected graph lists both
            directions; self-loops allowed.
        x: features X_i, [n, F], float64.
        masked: J_i, no node twice.
        noise: the rows of M for the nodes in `masked`, in that order, [len(masked), F].
    """

    num_nodes: int
    edges: list[tuple[int, int, float]]
    x: Tensor
    masked: list[int]
    noise: Tensor


@dataclass(frozen=True)
class RefLoss:
    """The loss and its two terms, scalars; `invariance` is the term before the factor alpha."""

    total: Tensor
    reconstruction: Tensor
    invariance: Tensor


def num_masked(num_nodes: int, ratio: float, rounding: Literal["round", "floor"]) -> int:
    """|J_i|, the number of masked nodes.

    'round' is rounded and at least one (our decision), 'floor' is rounded down and possibly zero
    (the authors' scripts).
    """
    if rounding == "round":
        return max(1, round(ratio * num_nodes))
    return math.floor(ratio * num_nodes)


def _adjacency(graph: RefGraph) -> Tensor:
    """A, [n, n], with A[target, source] = weight."""
    matrix = torch.zeros(graph.num_nodes, graph.num_nodes, dtype=torch.float64)
    seen: set[tuple[int, int]] = set()
    for source, target, weight in graph.edges:
        if (source, target) in seen:
            raise ValueError(
                f"Each edge must be listed once. Got ({source}, {target}) twice: merge duplicates"
                " first."
            )
        seen.add((source, target))
        matrix[target, source] = weight
    return matrix


def gcn_matrix(graph: RefGraph) -> Tensor:
    """D^-1/2 A D^-1/2, [n, n], M[target, source], with a self-loop at every node, as PyG's GCNConv.

    A self-loop of weight 1 is added to every node without one; a self-loop in `edges` stays, with
    its weight. A degree is the sum of the weights of the incoming edges, self-loop included; a node
    of degree 0 (self-loop of weight 0) gets zeros.
    """
    adjacency = _adjacency(graph)
    looped = {source for source, target, _ in graph.edges if source == target}
    for node in range(graph.num_nodes):
        if node not in looped:
            adjacency[node, node] = 1.0
    degree = [0.0] * graph.num_nodes
    for target in range(graph.num_nodes):
        for source in range(graph.num_nodes):
            weight = adjacency[target, source].item()
            if weight < 0:
                raise ValueError(f"GCN edge weights must be non-negative. Got {weight}.")
            degree[target] += weight
    matrix = torch.zeros_like(adjacency)
    for target in range(graph.num_nodes):
        for source in range(graph.num_nodes):
            if degree[target] > 0 and degree[source] > 0:
                matrix[target, source] = adjacency[target, source] / math.sqrt(
                    degree[target] * degree[source]
                )
    return matrix


def gin_matrix(graph: RefGraph) -> Tensor:
    """A + I, [n, n], M[target, source]: weighted incoming neighbours plus the node (eps = 0)."""
    matrix = _adjacency(graph)
    for node in range(graph.num_nodes):
        # Added to a self-loop in `edges`, if there is one.
        matrix[node, node] += 1.0
    return matrix


def _relu(h: Tensor) -> Tensor:
    return torch.where(h > 0, h, torch.zeros_like(h))


def _convolve(kind: Kind, layer: Layer, h: Tensor, graph: RefGraph) -> Tensor:
    """One graph convolution without activation.

    GCN is M (h W) + b; GIN is MLP((A + I) h), an MLP of linear, ReLU, linear.
    """
    if kind == "gcn":
        return gcn_matrix(graph) @ (h @ layer["weight"]) + layer["bias"]
    if kind == "gin":
        inner = _relu((gin_matrix(graph) @ h) @ layer["weight1"] + layer["bias1"])
        return inner @ layer["weight2"] + layer["bias2"]
    raise ValueError(f"The convolution must be 'gcn' or 'gin'. Got {kind!r}.")


def _batch_norm(hidden: list[Tensor], layer: Layer) -> list[Tensor]:
    """Training-mode batch norm over all nodes of all graphs of one view.

    The variance is the biased one, so that of a single row is 0.
    """
    rows = [row for h in hidden for row in h]
    mean = sum(rows) / len(rows)
    variance = sum((row - mean) ** 2 for row in rows) / len(rows)
    return [
        layer["gamma"] * (h - mean) / torch.sqrt(variance + BATCH_NORM_EPS) + layer["beta"]
        for h in hidden
    ]


def _masked_features(graph: RefGraph) -> Tensor:
    """X_{J^c} = 1_{J^c} * X + 1_J * M (section 2.3; first lines of Algorithms 1 and 2)."""
    if len(set(graph.masked)) != len(graph.masked) or len(graph.noise) != len(graph.masked):
        raise ValueError("The masked nodes must be distinct, with one noise row each.")
    rows = [graph.x[node] for node in range(graph.num_nodes)]
    for position, node in enumerate(graph.masked):
        rows[node] = graph.noise[position]
    return torch.stack(rows)


def encode(
    kind: Kind, layers: list[Layer], graphs: list[RefGraph], masked: bool
) -> list[list[Tensor]]:
    """The outputs of every encoder layer, result[layer][graph] of shape [n_i, H].

    The last is H of the plain view, or H' of the masked one. A layer is convolution, activation
    (PReLU with `slope`, else ReLU), and batch norm if it has `gamma` and `beta`.
    """
    hidden = [_masked_features(graph) if masked else graph.x for graph in graphs]
    outputs = []
    for layer in layers:
        hidden = [_convolve(kind, layer, h, graph) for h, graph in zip(hidden, graphs, strict=True)]
        # ReLU is PReLU with slope 0.
        slope = layer.get("slope", 0.0)
        hidden = [torch.where(h > 0, h, slope * h) for h in hidden]
        if "gamma" in layer:
            hidden = _batch_norm(hidden, layer)
        outputs.append(hidden)
    return outputs


def decode(
    layers: list[Layer], hidden: list[Tensor], graphs: list[RefGraph], relu_output: bool = False
) -> list[Tensor]:
    """D(A_i, H_i) of every graph, [n_i, F].

    Layers are linear map, ReLU, batch norm; the last is the linear map only. A layer with `kind`
    convolves in place of the linear map (section 2.4 allows it at graph level). `relu_output` adds
    the authors' ReLU after the last layer.
    """
    for depth, layer in enumerate(layers):
        if "kind" in layer:
            hidden = [
                _convolve(layer["kind"], layer, h, graph)
                for h, graph in zip(hidden, graphs, strict=True)
            ]
        else:
            hidden = [h @ layer["weight"] + layer["bias"] for h in hidden]
        if depth < len(layers) - 1:
            hidden = _batch_norm([_relu(h) for h in hidden], layer)
    return [_relu(h) for h in hidden] if relu_output else hidden


def _squared_norm(row: Tensor) -> Tensor:
    """||row||^2: a sum over features, never a mean."""
    return (row**2).sum()


def _log_softmax(logits: Tensor) -> Tensor:
    """Log-probabilities of one row of logits."""
    shifted = logits - logits.detach().max()
    return shifted - torch.log(torch.exp(shifted).sum())


def _cross_entropy(logits: Tensor, x: Tensor) -> Tensor:
    """-sum_f x_f log softmax(logits)_f of one node (appendix E)."""
    return -(x * _log_softmax(logits)).sum()


def _kl(logits: Tensor, masked_logits: Tensor) -> Tensor:
    """KL(p || p') of one node, p from the plain view, p' from the masked one (appendix E)."""
    log_p, log_q = _log_softmax(logits), _log_softmax(masked_logits)
    return (torch.exp(log_p) * (log_p - log_q)).sum()


def _root(value: Tensor) -> Tensor:
    """sqrt(value), with value 0 and gradient 0 (not infinity) at 0."""
    return torch.sqrt(value) if value.item() > 0 else 0.0 * value


def _check_distributions(graphs: list[RefGraph]) -> None:
    for graph in graphs:
        for row in graph.x:
            if bool((row < 0).any()) or abs(row.sum().item() - 1.0) > 1e-6:
                raise ValueError(
                    "Cross-entropy needs feature rows that are non-negative and sum to 1."
                )


def _reconstruction(
    graphs: list[RefGraph], outputs: list[Tensor], cross_entropy: bool, reduction: str
) -> Tensor:
    """First term of (5) and (6): 1/N sum_i ||D(H_i) - X_i||^2 / |V_i|.

    With `cross_entropy` the error of a node is its cross-entropy.
    """
    total = torch.zeros((), dtype=torch.float64)
    for graph, output in zip(graphs, outputs, strict=True):
        of_graph = torch.zeros((), dtype=torch.float64)
        for node in range(graph.num_nodes):
            if cross_entropy:
                of_graph = of_graph + _cross_entropy(output[node], graph.x[node])
            else:
                of_graph = of_graph + _squared_norm(output[node] - graph.x[node])
        total = total + (of_graph / graph.num_nodes if reduction == "sum" else of_graph)
    if reduction == "sum":
        return total / len(graphs)
    num_nodes = sum(graph.num_nodes for graph in graphs)
    return total / num_nodes if cross_entropy else total / (num_nodes * graphs[0].x.shape[1])


def _denoising(graphs: list[RefGraph], outputs: list[Tensor], reduction: str) -> Tensor:
    """Equation (9) over |V|: 1/N sum_i sum_{v in J_i} ||D(H'_i)_v - x_v||^2 / |J_i|.

    A graph without masked nodes adds 0.
    """
    # Differentiable also without masked nodes.
    total = 0.0 * outputs[0].sum()
    for graph, output in zip(graphs, outputs, strict=True):
        for node in graph.masked:
            error = _squared_norm(output[node] - graph.x[node])
            total = total + (error / len(graph.masked) if reduction == "sum" else error)
    if reduction == "sum":
        return total / len(graphs)
    count = sum(len(graph.masked) for graph in graphs)
    return total / (max(count, 1) * graphs[0].x.shape[1])


def _node_invariance(
    graphs: list[RefGraph],
    plain: list[Tensor],
    masked: list[Tensor],
    kl: bool,
    rows: str,
    reduction: str,
) -> Tensor:
    """Second term of (5) before alpha: sqrt( sum_i ||H_i[J_i] - H'_i[J_i]||^2 / sum_i |J_i| ).

    H are embeddings or outputs. With `kl`, sum_i sum_{v in J_i} KL(p_v || p'_v) / sum_i |J_i|.
    """
    total = torch.zeros((), dtype=torch.float64)
    count = 0
    for graph, h, h_masked in zip(graphs, plain, masked, strict=True):
        for node in graph.masked if rows == "masked" else range(graph.num_nodes):
            a, b = h[node], h_masked[node]
            total = total + (_kl(a, b) if kl else _squared_norm(a - b))
            count += 1
    if count == 0:
        return total
    if kl:
        return total / count
    return _root(total / count if reduction == "sum" else total / (count * plain[0].shape[1]))


def _graph_embedding(layers: list[Tensor], readout: str) -> Tensor:
    """The pooled and concatenated layers of one graph, z = R(H) (appendix C)."""
    pooled = []
    for h in layers:
        total = sum(h[node] for node in range(len(h)))
        pooled.append(total if readout == "sum" else total / len(h))
    return torch.cat(pooled)


def _graph_invariance(
    graphs: list[RefGraph],
    plain: list[list[Tensor]],
    masked: list[list[Tensor]],
    readout: str,
    reduction: str,
) -> Tensor:
    """Second term of (6) before alpha: sqrt(sum_i ||z_i - z'_i||^2 / sum_i |J_i|)."""
    total = torch.zeros((), dtype=torch.float64)
    columns = 0
    for index in range(len(graphs)):
        z = _graph_embedding([layer[index] for layer in plain], readout)
        z_masked = _graph_embedding([layer[index] for layer in masked], readout)
        total = total + _squared_norm(z - z_masked)
        columns = len(z)
    masked_nodes = sum(len(graph.masked) for graph in graphs)
    count = masked_nodes if reduction == "sum" else len(graphs) * columns
    # Without masked nodes the numerator is 0 as well.
    return _root(total / max(count, 1))


def loss(
    graphs: list[RefGraph],
    *,
    level: Level,
    objective: Objective,
    encoder_kind: Kind,
    encoder_layers: list[Layer],
    decoder_layers: list[Layer],
    alpha: float,
    invariance_on: Literal["masked", "all"] = "masked",
    readout: Literal["sum", "mean"] = "sum",
    reduction: Literal["sum", "mean"] = "sum",
    relu_output: bool = False,
) -> RefLoss:
    """The loss of Algorithm 1 (level "node") or Algorithm 2 ("graph").

    Other objectives are those of appendix E and section 3.1. `reduction` "sum" is the paper; "mean"
    averages over features, nodes and graphs as the authors' scripts do. The decoder's input is the
    last layer. The `-output` objectives and `denoise` decode the whole masked view, with its own
    statistics, then select rows.
    """
    if level == "graph" and objective in ("mse-embed", "ce-embed") and invariance_on == "all":
        raise ValueError(
            "invariance_on='all' compares nodes; the graph-level -embed objectives compare graphs."
        )
    if objective in ("ce-embed", "ce-output"):
        _check_distributions(graphs)
    masked_layers = encode(encoder_kind, encoder_layers, graphs, masked=True)
    if objective == "denoise":
        reconstruction = _denoising(
            graphs, decode(decoder_layers, masked_layers[-1], graphs, relu_output), reduction
        )
        return RefLoss(
            total=reconstruction,
            reconstruction=reconstruction,
            invariance=torch.zeros((), dtype=torch.float64),
        )
    layers = encode(encoder_kind, encoder_layers, graphs, masked=False)
    outputs = decode(decoder_layers, layers[-1], graphs, relu_output)
    reconstruction = _reconstruction(
        graphs, outputs, objective in ("ce-embed", "ce-output"), reduction
    )
    if objective in ("mse-output", "ce-output"):
        masked_outputs = decode(decoder_layers, masked_layers[-1], graphs, relu_output)
        invariance = _node_invariance(
            graphs, outputs, masked_outputs, objective == "ce-output", invariance_on, reduction
        )
    elif level == "node":
        invariance = _node_invariance(
            graphs, layers[-1], masked_layers[-1], False, invariance_on, reduction
        )
    else:
        invariance = _graph_invariance(graphs, layers, masked_layers, readout, reduction)
    return RefLoss(
        total=reconstruction + alpha * invariance,
        reconstruction=reconstruction,
        invariance=invariance,
    )
