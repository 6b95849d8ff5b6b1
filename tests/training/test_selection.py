"""Choices without labels: of an epoch, and of a training among several."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as quickly
from hypothesis import strategies as st

from cases import make_settings, random_graph
from graphlatent import NodeLaGraph, choose_run
from graphlatent.errors import ConfigError, InputError
from graphlatent.io.history import History
from graphlatent.training.selection import selected_epoch

GRAPH = random_graph([12, 9], seed=3)
SMALL = {"hidden_dim": 6, "epochs": 8, "device": "cpu"}


def history(rows, losses):
    """Of (epoch, effective rank, recovery), and a loss for each epoch."""
    found = History.of(["a"])
    for loss in losses:
        found.append(loss, {"a": loss}, 0.1)
    for epoch, rank, recovery in rows:
        found.append_diagnostics(epoch, {"effective_rank": rank, "recovery": recovery})
    return found


MEASURED = history(
    [(0, 10, 1), (1, 12, 0.9), (2, 12, 0.8), (4, 11, 0.3), (5, 9, 0.9)], [5, 2, 1, 3, 4]
)


@pytest.mark.parametrize(
    ("values", "epoch"),
    [
        ({}, 5),
        # The first of equals.
        ({"select": "effective_rank"}, 1),
        # Epoch 3 has the lowest loss, but nothing was measured there.
        ({"select": "objective"}, 2),
        # Not 5: what happens after a collapse is not looked at.
        ({"select": "before_collapse"}, 2),
        ({"on_collapse": "stop"}, 2),
        ({"select": "effective_rank", "on_collapse": "stop"}, 1),
    ],
    ids=str,
)
def test_by_hand(values, epoch):
    assert selected_epoch(MEASURED, make_settings("node", **values)) == epoch


@pytest.mark.parametrize("rule", ["last", "effective_rank", "objective", "before_collapse"])
@quickly(max_examples=30, deadline=None)
@given(data=st.lists(st.tuples(*[st.floats(0.01, 1)] * 3), min_size=1, max_size=8))
def test_a_later_measurement_keeps_the_choice_or_is_chosen_itself(rule, data):
    """So that the weights of one epoch are enough to keep."""
    settings = make_settings("node", select=rule, on_collapse="ignore")
    chosen = []
    for n in range(1, len(data) + 1):
        rows = [(e, 50 * rank, recovery) for e, (rank, recovery, _) in enumerate(data[:n])]
        chosen.append(selected_epoch(history(rows, [loss for *_, loss in data[1:n]]), settings))
    for epoch, (before, now) in enumerate(itertools.pairwise(chosen), start=1):
        assert now in (before, epoch)


@pytest.mark.parametrize("rule", ["effective_rank", "objective"])
def test_the_model_has_the_weights_of_the_chosen_epoch(rule, tmp_path):
    # Large steps, so that the best epoch is not the last one.
    estimator = NodeLaGraph(**SMALL, preset="paper", lr=0.3, select=rule, on_collapse="ignore")
    fitted = estimator.fit(GRAPH)
    epoch = fitted.history_.selected_epoch
    measured = fitted.history_.diagnostics
    values = {
        "effective_rank": dict(zip(measured["epoch"], measured["effective_rank"], strict=True)),
        "objective": {e: -fitted.history_.loss[int(e) - 1] for e in measured["epoch"] if e},
    }[rule]
    assert values[epoch] == max(values.values()) and epoch < 8
    alone = NodeLaGraph(**{**estimator.get_params(), "select": "last", "epochs": epoch}).fit(GRAPH)
    np.testing.assert_array_equal(fitted.transform(GRAPH), alone.transform(GRAPH))
    loaded = NodeLaGraph.load(fitted.save(tmp_path / "model"))
    assert loaded.history_ == fitted.history_ and loaded.history_.selected_epoch == epoch
    np.testing.assert_array_equal(fitted.transform(GRAPH), loaded.transform(GRAPH))


def test_snapshots_have_the_epochs_that_were_asked_for():
    estimator = NodeLaGraph(
        **SMALL, preset="paper", lr=0.3, select="effective_rank", on_collapse="ignore"
    )
    plain = NodeLaGraph(**{**estimator.get_params(), "select": "last"})
    pairs = zip(
        estimator.snapshots(GRAPH, epochs=[3, 8]),
        plain.snapshots(GRAPH, epochs=[3, 8]),
        strict=True,
    )
    for (epoch, found), (_, other) in pairs:
        assert found.history_.selected_epoch == epoch
        np.testing.assert_array_equal(found.transform(GRAPH), other.transform(GRAPH))


class TestChooseRun:
    def test_by_hand(self):
        other = history([(0, 10, 1), (2, 13, 0.5)], [0.5, 3])
        assert choose_run({"a": MEASURED, "b": other}) == "b"
        assert choose_run({"a": MEASURED, "b": other}, by="recovery") == "a"
        assert choose_run({"a": MEASURED, "b": other}, by="objective") == "b"
        # At the epoch whose weights are kept.
        other.selected_epoch = 0
        MEASURED.selected_epoch = 2
        assert choose_run({"a": MEASURED, "b": other}) == "a"
        assert choose_run({"a": MEASURED, "again": MEASURED}) == "a"
        MEASURED.selected_epoch = None

    def test_of_estimators(self):
        runs = {
            lr: NodeLaGraph(**SMALL, preset="paper", lr=lr, on_collapse="ignore").fit(GRAPH)
            for lr in (1e-3, 0.3)
        }
        named = {str(lr): run for lr, run in runs.items()}
        ranks = {n: r.history_.diagnostics["effective_rank"][-1] for n, r in named.items()}
        assert choose_run(named) == max(ranks, key=ranks.get)

    @pytest.mark.parametrize(
        ("runs", "by", "error", "message"),
        [
            (
                {"a": MEASURED},
                "accuracy",
                ConfigError,
                "The 'by' parameter of choose_run must be one of ('effective_rank', 'recovery',"
                " 'objective'). Got 'accuracy' instead.",
            ),
            (
                {},
                "recovery",
                InputError,
                "choose_run needs at least one fitted estimator. Got none.",
            ),
            (
                [MEASURED],
                "recovery",
                ConfigError,
                "The 'runs' parameter of choose_run must be a dict of fitted estimators by name."
                f" Got {[MEASURED]!r} instead.",
            ),
            (
                {"a": 3},
                "recovery",
                InputError,
                "choose_run needs fitted estimators, or their history_. Got int for 'a'.",
            ),
            (
                {"a": History.of([])},
                "recovery",
                InputError,
                "'a' has no diagnostics of its epoch 0. Fit it with diagnostics=True.",
            ),
            (
                {"a": History.of([])},
                "objective",
                InputError,
                "'a' was not trained, so that it has no loss to compare.",
            ),
        ],
    )
    def test_what_cannot_be_chosen(self, runs, by, error, message):
        with pytest.raises(error, match=f"^{re.escape(message)}$"):
            choose_run(runs, by=by)

    def test_losses_of_other_objectives_are_not_compared(self):
        runs = {
            str(alpha): NodeLaGraph(**{**SMALL, "epochs": 1}, preset="paper", alpha=alpha).fit(
                GRAPH
            )
            for alpha in (1.0, 2.0)
        }
        with pytest.raises(InputError, match="different objectives or weights cannot be compared"):
            choose_run(runs, by="objective")
