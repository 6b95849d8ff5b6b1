"""By default the unit of the features does not matter, and interrupted runs are resumed exactly."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from cases import as_sparse, random_graph
from graphlatent import GraphLaGraph, NodeLaGraph, load_estimator
from graphlatent.errors import InputError, TrainingInterrupted
from graphlatent.io.runfolder import RunFolder
from graphlatent.training.loop import Hooks

SIZES = [9, 7, 8, 6, 5, 7]
SMALL = {"hidden_dim": 8, "epochs": 3, "device": "cpu"}
LEVELS = {"node": NodeLaGraph, "graph": GraphLaGraph}


def in_unit(graph, factor, *, sparse=False):
    scaled = dataclasses.replace(graph, x=graph.x * factor)
    return as_sparse(scaled) if sparse else scaled


@pytest.mark.usefixtures("random_biases")
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    ("values", "standardized"),
    [({}, False), ({"one_hot": True}, False), ({"num_features": 70}, True)],
    ids=["few", "one-hot", "many"],
)
@pytest.mark.parametrize("factor", [2.0**20, 2.0**-20, 1e6, 1e-6])
@pytest.mark.parametrize("level", LEVELS)
def test_the_unit_of_the_features_does_not_matter(level, factor, values, standardized, sparse):
    graph = random_graph(SIZES, seed=4, **values)
    usual, other = (
        LEVELS[level](**SMALL).fit(in_unit(graph, unit, sparse=sparse)) for unit in (1.0, factor)
    )
    # Columns of measurements are standardised (of nodes, where they are many: the embedding scales
    # few of them itself), and other features divided by one number.
    standardized = standardized or (level == "graph" and not values)
    assert bool(usual.features_.standard) == bool(other.features_.standard) == standardized
    ratio = 1.0 if standardized else factor
    assert other.features_.scale == pytest.approx(usual.features_.scale / ratio, rel=1e-5)
    rows = usual.transform(in_unit(graph, 1.0, sparse=sparse))
    found = other.transform(in_unit(graph, factor, sparse=sparse))
    if np.log2(factor).is_integer():
        # The scaled features are the same bits.
        assert other.history_.loss == usual.history_.loss
        np.testing.assert_array_equal(found, rows)
    else:
        np.testing.assert_allclose(other.history_.loss, usual.history_.loss, rtol=1e-4)
        # Singular vectors are unique up to their signs.
        gram, expected = found @ found.T, rows @ rows.T
        np.testing.assert_allclose(gram, expected, atol=1e-3 * np.abs(expected).max())


@pytest.mark.usefixtures("random_biases")
@pytest.mark.parametrize("level", LEVELS)
def test_without_scale_features_it_does(level):
    graph, values = random_graph(SIZES, seed=4), {**SMALL, "scale_features": False}
    usual, other = (
        LEVELS[level](**values).fit(in_unit(graph, unit)).history_.loss for unit in (1.0, 1e6)
    )
    assert not np.allclose(usual, other, rtol=1e-2)


@pytest.mark.parametrize("level", LEVELS)
def test_new_graphs_are_scaled_as_the_fitted_ones(level):
    graph = in_unit(random_graph(SIZES, seed=4, one_hot=True), 3.0)
    fitted = LEVELS[level](**SMALL).fit(graph)
    # One-hot rows have the norm 3 here.
    assert fitted.features_.scale == pytest.approx(1 / 3)
    # Otherwise these would have the embeddings of the fitted ones.
    rows, doubled = fitted.transform(graph), fitted.transform(in_unit(graph, 2.0))
    assert not np.allclose(rows, doubled, rtol=1e-2)


@pytest.mark.parametrize("features", ["given", "sparse", "none"])
@pytest.mark.parametrize("level", LEVELS)
def test_a_resumed_run_of_the_default_is_bit_identical(level, features, tmp_path):
    graph = random_graph(SIZES if level == "graph" else [40], seed=4, one_hot=features == "sparse")
    if features == "sparse":
        graph = as_sparse(graph)
    if features == "none":
        graph = dataclasses.replace(graph, x=None)
    values = {**SMALL, "batch_size": 2} if level == "graph" else {**SMALL, "steps_per_epoch": 3}
    whole = LEVELS[level](**values).fit(graph)
    for stop_after in (1, 4, 6):
        asked, run = [], RunFolder(tmp_path / str(stop_after))

        def stop(asked=asked, stop_after=stop_after) -> bool:
            asked.append(1)
            return len(asked) == stop_after

        hooks = Hooks(save=run.save_snapshot, stop_requested=stop)
        with pytest.raises(TrainingInterrupted):
            LEVELS[level](**values).fit(graph, run=run, hooks=hooks)
        resumed = LEVELS[level](**values).fit(graph, run=run)
        assert resumed.history_ == whole.history_ and resumed.features_ == whole.features_
        state = resumed.model_.state_dict()
        for name, weights in whole.model_.state_dict().items():
            assert torch.equal(state[name], weights), name
        np.testing.assert_array_equal(resumed.transform(graph), whole.transform(graph))
        loaded = load_estimator(run.path)
        np.testing.assert_array_equal(loaded.transform(graph), whole.transform(graph))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("columns", [(1.0, 1e-40), (1e30, 1e-9), (1e20, 1e-20), (1e-44, 1e38)])
def test_columns_of_very_different_units_stay_finite(level, columns):
    graph = random_graph(SIZES, seed=4, num_features=5)
    scales = torch.tensor([*columns, 1.0, 1.0, 1.0], dtype=torch.float64)
    x = (graph.x.clamp(-3, 3) * scales).to(torch.float32)
    rows = LEVELS[level](**SMALL).fit_transform(dataclasses.replace(graph, x=x))
    assert np.isfinite(rows).all() and np.abs(rows).max() > 0


@pytest.mark.parametrize("level", LEVELS)
def test_new_values_beyond_all_bounds_are_refused(level):
    graph = random_graph(SIZES, seed=4, one_hot=True)
    fitted = LEVELS[level](**SMALL).fit(in_unit(graph, 1e-3))
    message = "The feature 'x[0-4]' is .* too far from the values that the model was fitted on"
    with pytest.raises(InputError, match=message):
        fitted.transform(in_unit(graph, 1e36))


def test_long_rows_of_words_keep_their_direction():
    graph = random_graph([40], seed=4, num_features=80)
    words = graph.with_features(graph.x * (graph.x > 0.5))
    fitted = NodeLaGraph(**SMALL).fit(words)
    far = fitted.transform(in_unit(words, 1e20))
    assert np.isfinite(far).all() and (np.abs(far).max(1) > 0.1).all()
