"""Small random graphs and models, and their conversion to the format of reference.py."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphlatent.config import resolve
from graphlatent.data.assemble import assemble
from graphlatent.data.batches import Batch, full_batch
from graphlatent.data.graph import GraphData, RawGraph
from graphlatent.methods.lagraph.masking import MaskedView
from graphlatent.methods.lagraph.method import LaGraph
from graphlatent.methods.lagraph.model import LaGraphModel, build_model
from graphlatent.methods.lagraph.settings import (
    GraphLaGraphSettings,
    LaGraphSettings,
    NodeLaGraphSettings,
)
from graphlatent.ops.sparse import SparseMatrix, to_dense
from reference import RefGraph


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def make_settings(level: str, **values: Any) -> LaGraphSettings:
    small = {"preset": "paper", "hidden_dim": 5, "num_layers": 2, "device": "cpu"}
    if level == "node":
        return resolve(NodeLaGraphSettings(**{**small, **values}), owner="NodeLaGraph")
    return resolve(GraphLaGraphSettings(**{**small, **values}), owner="GraphLaGraph")


def make_method(level: str, **values: Any) -> LaGraph:
    return LaGraph(make_settings(level, **values), level=level)


def random_graph(
    sizes: list[int],
    *,
    num_features: int = 4,
    seed: int = 0,
    weighted: bool = False,
    one_hot: bool = False,
    density: float = 0.4,
) -> GraphData:
    """Undirected random graphs with some self-loops and float32 features."""
    gen = generator(seed)
    edges: dict[tuple[int, int], float] = {}
    start = 0
    for size in sizes:
        for i in range(size):
            for j in range(i, size):
                if float(torch.rand((), generator=gen)) < (density if i < j else 0.15):
                    weight = float(torch.rand((), generator=gen)) + 0.1 if weighted else 1.0
                    edges[start + i, start + j] = edges[start + j, start + i] = weight
        start += size
    pairs = sorted(edges)
    x = torch.randn(start, num_features, generator=gen)
    if one_hot:
        column = torch.randint(num_features, (start,), generator=gen)
        x = torch.nn.functional.one_hot(column, num_features).float()
    return GraphData(
        edge_index=torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2).T.contiguous(),
        num_nodes=start,
        ptr=torch.tensor([0, *torch.tensor(sizes).cumsum(0).tolist()]),
        x=x,
        edge_weight=torch.tensor([edges[p] for p in pairs]) if weighted else None,
    )


def as_sparse(graph: GraphData) -> GraphData:
    assert isinstance(graph.x, Tensor)
    row, col = torch.nonzero(graph.x, as_tuple=True)
    x = SparseMatrix.from_coo(row, col, graph.x[row, col], tuple(graph.x.shape))
    return dataclasses.replace(graph, x=x)


def double_model(settings: LaGraphSettings, in_dim: int, seed: int = 0) -> LaGraphModel:
    """A float64 model with random parameters, also those of batch norms and PReLU."""
    model = build_model(settings, in_dim=in_dim, generator=generator(seed)).double()
    gen = generator(seed + 1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=gen, dtype=torch.float64)
    return model


def double_batch(graph: GraphData, model: LaGraphModel) -> Batch:
    return full_batch(graph, prepare=model.prepare, device=torch.device("cpu"), dtype=torch.float64)


def to_reference(graph: GraphData, mask: MaskedView) -> list[RefGraph]:
    """The graphs and the mask in the format of the reference."""
    x = graph.x.to_dense() if isinstance(graph.x, SparseMatrix) else graph.x
    assert x is not None
    weights = [1.0] * graph.num_edges if graph.edge_weight is None else graph.edge_weight.tolist()
    # One row for all where they are alike.
    values = to_dense(mask.values).expand(mask.rows.numel(), x.shape[1])
    out = []
    for start, stop in zip(graph.ptr[:-1].tolist(), graph.ptr[1:].tolist(), strict=True):
        inside = [
            (s - start, t - start, w)
            for (s, t), w in zip(graph.edge_index.T.tolist(), weights, strict=True)
            if start <= s < stop
        ]
        chosen = (mask.rows >= start) & (mask.rows < stop)
        masked, noise = (mask.rows[chosen] - start).tolist(), values[chosen].double()
        out.append(RefGraph(stop - start, inside, x[start:stop].double(), masked, noise))
    return out


def reference_layers(model: LaGraphModel) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """(encoder, decoder) weights as the dictionaries of the reference.

    They are the same tensors, so gradients of the reference's loss are those of the model.
    """
    encoder, decoder = model.encoder, model.decoder
    layers = [_conv(conv, encoder.kind) for conv in encoder.convs]
    for layer, activation in zip(layers, encoder.activations, strict=True):
        if isinstance(activation, torch.nn.PReLU):
            layer["slope"] = activation.weight.squeeze()
    for layer, norm in zip(layers, encoder.norms, strict=False):
        layer |= {"gamma": norm.weight, "beta": norm.bias}
    if hasattr(decoder, "convs"):
        out = [{"kind": encoder.kind, **_conv(conv, encoder.kind)} for conv in decoder.convs]
    else:
        out = [{"weight": linear.weight.T, "bias": linear.bias} for linear in decoder.linears]
    for layer, norm in zip(out, decoder.norms, strict=False):
        layer |= {"gamma": norm.weight, "beta": norm.bias}
    return layers, out


def _conv(conv: Any, kind: str) -> dict[str, Any]:
    if kind == "gcn":
        return {"weight": conv.weight, "bias": conv.bias}
    first = {"weight1": conv.weight, "bias1": conv.bias}
    return {**first, "weight2": conv.weight2, "bias2": conv.bias2}


def graph_of(edges, num_nodes):
    """One undirected graph without features."""
    return assemble([RawGraph(np.asarray(edges), num_nodes, directed=False)])


def partitioned(same, *, num_nodes=300, degree=8, seed=0):
    """A share `same` of the edges stays in one of four classes, the others lead anywhere."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 4, num_nodes)
    source = rng.integers(0, num_nodes, num_nodes * degree // 2)
    target = rng.integers(0, num_nodes, len(source))
    for i in np.flatnonzero(rng.random(len(source)) < same):
        target[i] = rng.choice(np.flatnonzero(y == y[source[i]]))
    return graph_of([source, target], num_nodes)
