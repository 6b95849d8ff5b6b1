"""`snapshots` of one run equal the results of separate runs with fewer epochs."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

from cases import as_sparse, random_graph
from graphlatent import GraphLaGraph, NodeLaGraph
from graphlatent.errors import ConfigError, InputError

SIZES = [5, 4, 3, 6, 2, 7, 4, 3]
SMALL = {"hidden_dim": 8, "epochs": 6, "device": "cpu", "random_state": 3}
CASES = {
    "node": NodeLaGraph(**SMALL),
    "node, batches of nodes": NodeLaGraph(
        **SMALL, batching="nodes", nodes_per_step=9, steps_per_epoch=2
    ),
    "node, released preset": NodeLaGraph(**SMALL, preset="released", concat_input=True),
    "graph": GraphLaGraph(**SMALL, num_layers=2, batch_size=3),
    "graph, general engine": GraphLaGraph(**SMALL, num_layers=2, batch_size=3, engine="general"),
}


def fails(message: str):
    return pytest.raises(ConfigError, match=f"^{re.escape(message)}$")


@pytest.mark.parametrize("case", CASES)
def test_each_snapshot_equals_fit_with_that_number_of_epochs(case):
    estimator, data = CASES[case], random_graph(SIZES)
    found = dict(estimator.snapshots(data, epochs=[0, 1, 2, 6]))
    assert list(found) == [0, 1, 2, 6]
    for epoch, then in found.items():
        alone = type(estimator)(**{**estimator.get_params(), "epochs": epoch}).fit(data)
        assert type(then) is type(estimator) and then.get_params() == estimator.get_params()
        np.testing.assert_array_equal(then.transform(data), alone.transform(data))
        assert len(then.history_) == epoch and then.history_ == alone.history_
        assert then.embedding_dim_ == alone.embedding_dim_
        assert then.n_features_in_ == alone.n_features_in_
    assert not np.array_equal(found[1].transform(data), found[2].transform(data))


def test_a_snapshot_does_not_depend_on_earlier_ones():
    data = as_sparse(random_graph([30], one_hot=True))
    (_, once), *_ = CASES["node"].snapshots(data, epochs=[5])
    *_, (_, stepwise) = CASES["node"].snapshots(data, epochs=[1, 2, 3, 4, 5])
    np.testing.assert_array_equal(once.transform(data), stepwise.transform(data))


@pytest.mark.parametrize("case", ["node", "graph"])
def test_later_training_changes_neither_the_estimator_nor_earlier_snapshots(case):
    estimator, data = CASES[case], random_graph(SIZES)
    before = {**vars(estimator)}
    earlier = []
    for epoch, then in estimator.snapshots(data, epochs=[0, 2, 4]):
        for past, rows, history in earlier:
            np.testing.assert_array_equal(past.transform(data), rows)
            assert len(past.history_) == history
        earlier.append((then, then.transform(data), epoch))
    assert len(earlier) == 3
    assert vars(estimator) == before and not hasattr(estimator, "model_")


def test_a_snapshot_is_an_independent_fitted_estimator(tmp_path):
    data = random_graph([12])
    (_, first), (_, second) = CASES["node"].snapshots(data, epochs=[1, 2])
    loaded = NodeLaGraph.load(first.save(tmp_path / "model"))
    np.testing.assert_array_equal(loaded.transform(data), first.transform(data))
    kept = second.transform(data)
    with torch.no_grad():
        for parameter in first.model_.parameters():
            parameter.zero_()
    np.testing.assert_array_equal(second.transform(data), kept)


def test_new_graphs_can_be_embedded():
    data = random_graph(SIZES)
    ((_, then),) = CASES["graph"].snapshots(data, epochs=[2])
    assert then.transform(random_graph([4, 9], seed=5)).shape == (2, 2 * 4 + 3 * 16)
    with pytest.raises(InputError, match="5"):
        then.transform(random_graph([4], num_features=5))


def test_a_schedule_is_that_of_the_whole_run():
    data = random_graph([12])
    estimator = NodeLaGraph(**SMALL, schedule="cosine")
    found = dict(estimator.snapshots(data, epochs=[3, 6]))
    np.testing.assert_array_equal(
        found[6].transform(data), NodeLaGraph(**SMALL, schedule="cosine").fit_transform(data)
    )
    shorter = NodeLaGraph(**{**SMALL, "epochs": 3}, schedule="cosine").fit(data)
    assert found[3].history_.lr == found[6].history_.lr[:3] != shorter.history_.lr


def test_patience_stops_as_in_fit():
    data = random_graph([12])
    values = {**SMALL, "epochs": 40, "lr": 10.0, "patience": 2}
    found = dict(NodeLaGraph(**values).snapshots(data, epochs=[1, 40]))
    alone = NodeLaGraph(**values).fit(data)
    assert len(found[40].history_) == len(alone.history_) < 40
    np.testing.assert_array_equal(found[40].transform(data), alone.transform(data))


@pytest.mark.parametrize(
    "epochs", [[], [2, 1], [1, 1], [-1, 2], [7], [0, 7], [1.5], [True, 2], ["1"], (6.0,)]
)
@pytest.mark.parametrize("case", ["node", "graph"])
def test_invalid_epochs_are_rejected(case, epochs):
    owner = type(CASES[case]).__name__
    message = (
        f"The 'epochs' parameter of {owner}.snapshots must be ascending ints from 0 to the"
        f" estimator's epochs, 6. Got {epochs} instead."
    )
    with fails(message):
        next(CASES[case].snapshots(random_graph(SIZES), epochs=epochs))


def test_epochs_can_be_a_numpy_array():
    found = dict(CASES["node"].snapshots(random_graph([6]), epochs=np.array([1, 3])))
    assert [len(then.history_) for then in found.values()] == [1, 3]


def test_settings_are_checked():
    with fails(
        "The 'mask_ratio' parameter of NodeLaGraph must be a float in the range (0, 1]. Got 0.0"
        " instead."
    ):
        next(NodeLaGraph(**SMALL, mask_ratio=0.0).snapshots(random_graph([4]), epochs=[1]))
