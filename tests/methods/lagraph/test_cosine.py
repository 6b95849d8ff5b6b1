"""The cosine objective against the independent reference, on the general and on the fast path."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import reference_plus
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_plus import PlusBatch, TermWeights, dense_matrix, plus_terms
from torch import Tensor

from cases import as_sparse, double_batch, double_model, generator, make_settings, random_graph
from graphlatent.data.graph import GraphData
from graphlatent.methods.base import combine
from graphlatent.methods.lagraph import cosine
from graphlatent.methods.lagraph.fast import choose_engine, compute_terms
from graphlatent.methods.lagraph.masking import MaskedView, draw_mask
from graphlatent.methods.lagraph.model import LaGraphModel
from graphlatent.methods.lagraph.precomputed import EMPTY_CACHE, precompute
from graphlatent.methods.lagraph.settings import LaGraphSettings
from graphlatent.methods.lagraph.views import Dropped
from graphlatent.ops.sparse import to_dense

WEIGHTS = {
    "reconstruction_weight": 0.7,
    "masked_weight": 1.3,
    "latent_weight": 0.9,
    "alpha": 0.4,
}


@pytest.fixture(autouse=True)
def _same_constants(monkeypatch):
    """The reference clamps where the package does."""
    monkeypatch.setattr(reference_plus, "COSINE_EPS", cosine.COSINE_EPS)
    monkeypatch.setattr(reference_plus, "DEVIATION_EPS", cosine.DEVIATION_EPS)


def plus(level: str, **values: Any) -> LaGraphSettings:
    return make_settings(level, **{"preset": "plus", "variance_weight": 0.0, **WEIGHTS, **values})


def reference_terms(
    model: LaGraphModel,
    graph: GraphData,
    mask: MaskedView,
    chosen: LaGraphSettings,
    *,
    counts: Tensor | None = None,
    dropped: Dropped | None = None,
) -> Any:
    """The terms of the reference; its weights are the model's own tensors."""
    weights = dict(model.named_parameters())
    if model.target is None and model.predictor is not None:
        # Without a moving average the target is the encoder itself.
        weights |= {
            name.replace("encoder.", "target."): value
            for name, value in weights.items()
            if name.startswith("encoder.")
        }
    edge_weight = graph.edge_weight
    listed = [1.0] * graph.num_edges if edge_weight is None else edge_weight.tolist()
    edges = [(s, t, w) for (s, t), w in zip(graph.edge_index.T.tolist(), listed, strict=True)]
    matrix = dense_matrix(chosen.encoder, num_nodes=graph.num_nodes, edges=edges)
    values = to_dense(mask.values).detach()
    replacement: Any = values.expand(mask.rows.numel(), values.shape[1])
    if chosen.mask_value == "token":
        replacement = "token"
    batch = PlusBatch(
        to_dense(graph.x).double(),
        matrix,
        mask.rows.tolist(),
        replacement,
        masked_matrix=None if dropped is None else to_dense(dropped.structure),
        kept_columns=None if dropped is None else dropped.keep,
        counted=None if counts is None else torch.nonzero(counts)[:, 0].tolist(),
        graph_id=graph.graph_of_node.tolist(),
    )
    factors = TermWeights(
        chosen.reconstruction_weight, chosen.masked_weight, chosen.latent_weight, 1.0
    )
    level = "graph" if hasattr(chosen, "batch_size") else "node"
    return plus_terms(weights, batch, level=level, alpha=chosen.alpha, term_weights=factors)


def gradients(total: Tensor, model: LaGraphModel) -> dict[str, Tensor]:
    named = {n: p for n, p in model.named_parameters() if p.requires_grad}
    found = torch.autograd.grad(total, list(named.values()), allow_unused=True)
    return {
        name: torch.zeros_like(named[name]) if grad is None else grad
        for name, grad in zip(named, found, strict=True)
    }


def case(
    *, sizes: list[int], sparse: bool, density: float, zero_rows: bool, seed: int
) -> GraphData:
    graph = random_graph(sizes, seed=seed, one_hot=sparse, density=density)
    if zero_rows:
        assert isinstance(graph.x, Tensor)
        graph = dataclasses.replace(
            graph, x=graph.x * (torch.arange(len(graph.x)) % 3 > 0)[:, None]
        )
    return as_sparse(graph) if sparse else graph


@settings(max_examples=120, deadline=None)
@given(
    level=st.sampled_from(["node", "graph"]),
    engine=st.sampled_from(["auto", "general"]),
    kind=st.sampled_from(["gcn", "gin"]),
    depth=st.integers(1, 3),
    decoder_layers=st.integers(1, 2),
    mask_value=st.sampled_from(["token", "zeros", "noise", "swap"]),
    momentum=st.sampled_from([None, 0.9]),
    alpha=st.sampled_from([0.0, 0.4]),
    sizes=st.lists(st.integers(1, 7), min_size=1, max_size=3),
    sparse=st.booleans(),
    density=st.sampled_from([0.0, 0.2, 0.5]),
    ratio=st.sampled_from([0.1, 0.5, 0.9, 1.0]),
    zero_rows=st.booleans(),
    some_count=st.booleans(),
    precomputed=st.booleans(),
    seed=st.integers(0, 9999),
)
def test_terms_and_gradient_equal_the_reference(
    level,
    engine,
    kind,
    depth,
    decoder_layers,
    mask_value,
    momentum,
    alpha,
    sizes,
    sparse,
    density,
    ratio,
    zero_rows,
    some_count,
    precomputed,
    seed,
):
    graph = case(sizes=sizes, sparse=sparse, density=density, zero_rows=zero_rows, seed=seed)
    chosen = plus(
        level,
        engine=engine,
        encoder=kind,
        num_layers=depth,
        decoder_layers=decoder_layers,
        mask_value=mask_value,
        momentum=momentum,
        alpha=alpha,
        mask_ratio=ratio,
    )
    model = double_model(chosen, 4, seed)
    batch = double_batch(graph, model)
    counts = None
    if some_count:
        counts = torch.rand(graph.num_nodes, generator=generator(seed)) < 0.7
        batch = dataclasses.replace(batch, counts=counts)
    cache = precompute(batch) if engine == "auto" and precomputed else EMPTY_CACHE
    mask = draw_mask(batch, chosen, generator=generator(seed), token=model.token)
    expected = reference_terms(model, graph, mask, chosen, counts=counts)
    terms = compute_terms(model, batch, mask, chosen, choose_engine(model, chosen), cache)
    loss = combine(terms)
    for name, value in loss.values.items():
        known = getattr(expected, name) / (chosen.alpha if name == "invariance" else 1.0)
        torch.testing.assert_close(value, known, rtol=1e-8, atol=1e-8)
    torch.testing.assert_close(loss.total, expected.total, rtol=1e-8, atol=1e-8)
    found, wanted = gradients(loss.total, model), gradients(expected.total, model)
    scale = max(float(grad.abs().max()) for grad in wanted.values())
    for name in wanted:
        torch.testing.assert_close(
            found[name], wanted[name], rtol=1e-6, atol=1e-7 * max(scale, 1.0), msg=name
        )
