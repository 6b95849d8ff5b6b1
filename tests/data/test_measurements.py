"""Matrices whose columns may have any unit."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.preprocessing import StandardScaler

from cases import as_sparse, generator, random_graph
from graphlatent import GraphLaGraph, NodeLaGraph
from graphlatent.data.features import FeatureSpec, encode_features
from graphlatent.data.measurements import has_measurements, moments, standardized
from graphlatent.errors import InputError
from graphlatent.ops.sparse import to_dense
from graphlatent.training.encoding import fit_encoding


def test_by_hand():
    x = torch.tensor([[1.0, 7.0, 0.0, 0.0], [3.0, 7.0, 1.0, 4.0]])
    pairs = moments(x)
    # Of a constant column nothing is left, and one of 0 and 1 is as it was.
    assert pairs == ((2.0, 1.0), (7.0, 0.0), (0.0, 1.0), (2.0, 2.0))
    assert standardized(x, pairs).tolist() == [[-1, 0, 0, -1], [1, 0, 1, 1]]
    assert standardized(torch.tensor([[5.0, 9.0, 0.0, 2.0]]), pairs).tolist() == [[3, 0, 0, 0]]


@settings(max_examples=25, deadline=None)
@given(rows=st.integers(2, 9), width=st.integers(1, 5), seed=st.integers(0, 99))
def test_equals_scikit_learn(rows, width, seed):
    x = 10 ** torch.randint(-20, 20, (width,), generator=generator(seed)).float()
    x = x * (torch.randn(rows, width, generator=generator(seed)) + 3)
    expected = StandardScaler().fit_transform(x.double().numpy())
    np.testing.assert_allclose(standardized(x, moments(x)), expected, rtol=1e-4, atol=1e-4)


def test_rounding_errors_of_a_constant_column_are_no_signal():
    x = torch.full((50, 1), 1000.0) + 1e-4 * torch.randn(50, 1, generator=generator(0))
    assert x.unique().numel() > 1
    assert standardized(x, moments(x)).abs().max() == 0


def test_words_are_no_measurements():
    graph = random_graph([20], num_features=4, one_hot=True)
    assert not has_measurements(graph.x) and not has_measurements(as_sparse(graph).x)
    assert has_measurements(torch.ones(3, 2))
    # Exactly half is not most.
    assert not has_measurements(torch.eye(2))
    assert not fit_encoding(graph, NodeLaGraph()._resolved()).standard


@pytest.mark.parametrize("sparse", [False, True])
def test_the_default_does_not_depend_on_units(sparse):
    graph = random_graph([20], num_features=70)
    other = graph.with_features(graph.x * torch.logspace(-3, 6, 70) + 5.0)
    graph, other = (as_sparse(g) if sparse else g for g in (graph, other))
    default = NodeLaGraph()._resolved()
    rows = [to_dense(encode_features(fit_encoding(g, default), g).x) for g in (graph, other)]
    torch.testing.assert_close(rows[0], rows[1], atol=1e-2, rtol=0)
    torch.testing.assert_close(rows[0].square().sum(1).mean(), torch.tensor(1.0))


@pytest.mark.parametrize(
    "values", [{"preset": "paper"}, {"standardize": False}, {"row_normalize": True}]
)
def test_matrices_are_taken_as_they_are_where_settings_say_so(values):
    graph = random_graph([20], num_features=70)
    assert not fit_encoding(graph, NodeLaGraph(**values)._resolved()).standard


def test_few_columns_are_taken_as_they_are_where_the_embedding_scales_them():
    for width, standard in ((64, False), (65, True)):
        spec = fit_encoding(random_graph([9], num_features=width), NodeLaGraph()._resolved())
        assert bool(spec.standard) == standard
    # Nothing else would scale them.
    few = random_graph([9], num_features=3)
    assert fit_encoding(few, NodeLaGraph(embedding="encoder")._resolved()).standard
    assert fit_encoding(few, GraphLaGraph()._resolved()).standard


def test_new_nodes_far_away_stay_finite():
    x = torch.tensor([[1e-30], [2e-30]])
    assert torch.isfinite(standardized(torch.tensor([[1e30]]), moments(x))).all()


def test_a_spec_survives_json():
    spec = FeatureSpec("given", num_features=2, standard=((1.0, 2.0), (0.0, 1.0)))
    assert FeatureSpec.from_dict(spec.to_dict()) == spec
    message = "num_features=3 does not go with the moments of 1 columns"
    with pytest.raises(InputError, match=message):
        FeatureSpec("given", num_features=3, standard=((0.0, 1.0),))
    with pytest.raises(InputError, match=r"standard must be a list of pairs of numbers\. Got 3\."):
        FeatureSpec.from_dict({"kind": "given", "num_features": 1, "standard": 3})
