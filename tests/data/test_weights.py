"""Which edge weights are allowed: one rule for every graph."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from graphlatent import NodeLaGraph, read_graphs
from graphlatent.errors import GraphLatentWarning, InputError

START = np.arange(12)
EDGES = np.stack([np.r_[START, (START + 1) % 12], np.r_[(START + 1) % 12, START]])
X = np.random.default_rng(0).normal(size=(12, 3)).astype(np.float32)
SMALL = {"epochs": 1, "hidden_dim": 4, "device": "cpu"}


def weights(value: float, *, first: int = 1) -> np.ndarray:
    """Ones, but for both directions of the first edges."""
    weight = np.ones(24)
    weight[:first], weight[12 : 12 + first] = value, value
    return weight


@pytest.mark.parametrize(
    "value", [0.0, 1e-300, 1e-310, 5e-324, 1e-42, 1e-30, 0.5, 1e7, 1e30, 3.4e38]
)
def test_weights_that_float32_holds_or_rounds_to_0_are_used(value):
    rows = NodeLaGraph(**SMALL).fit_transform((EDGES, X, weights(value)))
    assert rows.shape[0] == 12 and np.isfinite(rows).all() and np.abs(rows).max() > 0
    graph = read_graphs((EDGES, X, weights(value)))
    assert graph.num_edges == 24
    assert graph.edge_weight.min() == min(np.float32(value), 1)


def test_an_edge_that_is_rounded_to_0_has_no_influence():
    fitted = NodeLaGraph(**SMALL).fit((EDGES, X, weights(1.0)))
    np.testing.assert_array_equal(
        fitted.transform((EDGES, X, weights(1e-50))), fitted.transform((EDGES, X, weights(0.0)))
    )


@pytest.mark.parametrize(
    ("value", "told"),
    [(np.nan, "nan"), (np.inf, "inf"), (-np.inf, "-inf"), (1e308, r"1e\+308"), (-1e39, r"-1e\+39")],
)
def test_weights_that_float32_cannot_hold_are_refused_with_the_edge(value, told):
    message = rf"graph: edge_weight holds NaN .* 3.4e\+38\): 4, the first \({told}\) at edge 0 "
    for convert in (np.asarray, list, torch.tensor):
        with pytest.raises(InputError, match=message):
            NodeLaGraph(**SMALL).fit((EDGES, X, convert(weights(value, first=2))))


def test_negative_weights_are_refused_by_gcn_and_used_by_gin():
    with pytest.raises(InputError, match="encoder='gcn' needs edge weights of 0 or more"):
        NodeLaGraph(**SMALL).fit((EDGES, X, weights(-1.0)))
    rows = NodeLaGraph(encoder="gin", **SMALL).fit_transform((EDGES, X, weights(-1.0)))
    assert np.isfinite(rows).all()


@pytest.mark.parametrize("scale", [1e-310, 1e-39, -1e-40])
def test_weights_that_are_all_too_small_are_refused(scale):
    with pytest.raises(InputError, match=r"the largest is .* Multiply all weights by a"):
        NodeLaGraph(encoder="gin", **SMALL).fit((EDGES, X, np.full(24, scale)))


def test_weights_that_are_all_0_are_a_warning():
    with pytest.warns(GraphLatentWarning, match="All edge weights are 0: every node is embedded"):
        rows = NodeLaGraph(**SMALL).fit_transform((EDGES, X, np.zeros(24)))
    assert np.isfinite(rows).all()


@pytest.mark.parametrize(
    "weight",
    [np.ones(24, complex), np.ones(24, object), np.full(24, "1"), [[1], [2, 3]], np.ones(3)],
    ids=["complex", "object", "text", "ragged", "short"],
)
def test_what_is_not_one_number_per_edge_is_refused(weight):
    with pytest.raises(InputError, match="graph: edge_weight must "):
        NodeLaGraph(**SMALL).fit((EDGES, X, weight))


def test_an_adjacency_follows_the_same_rule():
    matrix = sp.csr_matrix((weights(1e308), EDGES), shape=(12, 12))
    with pytest.raises(InputError, match="edge_weight holds NaN or infinite values, or numbers"):
        NodeLaGraph(**SMALL).fit((matrix, X))
