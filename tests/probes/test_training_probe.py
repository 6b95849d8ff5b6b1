"""A probe while an encoder trains: the same training, `transform`'s rows, no test label."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

from graphlatent import GraphLaGraph, NodeLaGraph, TrainingProbe
from graphlatent.data.splits import Split
from graphlatent.data.synthetic import latent_graph, latent_graph_set
from graphlatent.errors import ConfigError, InputError
from graphlatent.probes import linear_probe
from graphlatent.training.hooks import Hooks

SET = latent_graph(num_nodes=200, feature_dim=12, num_classes=3, seed=1)
ORDER = np.random.default_rng(0).permutation(200)
TRAIN, VAL, TEST = ORDER[:60], ORDER[60:120], ORDER[120:]
SMALL = {"hidden_dim": 8, "epochs": 4, "device": "cpu"}


def test_scores_are_those_of_a_linear_probe_on_what_transform_returns():
    seen = []
    hooks = Hooks(on_measure=lambda measured: seen.append(measured.epoch))
    probe = TrainingProbe(SET.labels, train=TRAIN, val=VAL)
    fitted = NodeLaGraph(**SMALL).fit(SET.graph, hooks=probe.hooks(hooks))
    assert [score.epoch for score in probe.scores] == seen == [0, 1, 2, 3, 4]
    # Fitted and scored as any linear probe, whose validation score this is.
    for epoch in (0, 4):
        alone = NodeLaGraph(**{**SMALL, "epochs": epoch}).fit(SET.graph)
        split = Split(np.sort(TRAIN), np.sort(VAL), TEST)
        result = linear_probe(alone.transform(SET.graph), SET.labels, splits=[split])
        assert probe.scores[epoch].val == pytest.approx(result.choices[0].val_score, abs=1e-12)
        assert probe.scores[epoch].train > 1 / 3
    assert probe.best.val == max(score.val for score in probe.scores)
    plain = NodeLaGraph(**SMALL).fit(SET.graph).model_.state_dict()
    assert all(torch.equal(v, plain[name]) for name, v in fitted.model_.state_dict().items())


def test_other_labels_are_never_seen():
    hidden = SET.labels.astype(object)
    hidden[TEST] = [f"test {i}" for i in range(len(TEST))]
    scores = []
    for labels in (SET.labels.astype(object), hidden):
        probe = TrainingProbe(labels, train=TRAIN, val=VAL)
        NodeLaGraph(**SMALL).fit(SET.graph, hooks=probe.hooks())
        scores.append(probe.scores)
        kept = [v for v in vars(probe).values() if isinstance(v, np.ndarray)]
        assert all(array.base is None and len(array) == 60 for array in kept)
    assert scores[0] == scores[1]


def test_graphs_and_parts_of_a_graph():
    graphs = latent_graph_set(num_graphs=60)
    probe = TrainingProbe(
        graphs.labels, train=range(30), val=range(30, 60), metric="balanced accuracy"
    )
    GraphLaGraph(**SMALL).fit(graphs.graph, hooks=probe.hooks())
    parts = TrainingProbe(SET.labels, train=TRAIN, val=VAL)
    estimator = NodeLaGraph(**SMALL, batching="nodes", nodes_per_step=40)
    estimator.fit(SET.graph, hooks=parts.hooks())
    assert len(probe.scores) == len(parts.scores) == 5


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        ({"metric": "r2"}, ConfigError, "The 'metric' parameter of TrainingProbe must be one of"),
        ({"train": []}, ConfigError, "The 'train' parameter of TrainingProbe must be one or more"),
        ({"val": [7, 200]}, ConfigError, "must be one or more row numbers from 0 to 199. Got"),
        ({"val": [0.5]}, ConfigError, "The 'val' parameter of TrainingProbe must be one or more"),
        (
            {"val": [3, TRAIN[0]]},
            InputError,
            f"'train' and 'val' of TrainingProbe share 1 row, such as {TRAIN[0]}. A row may be"
            " in one of them.",
        ),
        (
            {"labels": np.zeros((200, 2))},
            InputError,
            "The labels of TrainingProbe must be one class per row [M]. Got shape (200, 2).",
        ),
        (
            {"labels": np.full(200, np.nan)},
            InputError,
            "The labels of TrainingProbe are missing (NaN) for rows of 'train' or 'val'.",
        ),
        (
            {"labels": np.array([None, "a"] * 100, dtype=object)},
            InputError,
            "The labels of TrainingProbe are missing (NaN) for rows of 'train' or 'val'.",
        ),
        (
            {"labels": np.where(np.isin(np.arange(200), VAL[:2]), -1, SET.labels)},
            InputError,
            "are -1, which marks rows without a label, for 2 rows of 'train' or 'val'. Leave",
        ),
        ({"l2": []}, ConfigError, "l2"),
    ],
    ids=str,
)
def test_wrong_arguments(values, error, message):
    given = {"labels": SET.labels, "train": TRAIN, "val": VAL, **values}
    with pytest.raises(error, match=re.escape(message)):
        TrainingProbe(given.pop("labels"), **given)


def test_a_class_of_two_may_be_minus_1_and_other_rows_may_have_no_label():
    labels = np.where(SET.labels == 0, -1, 1)
    TrainingProbe(labels, train=TRAIN, val=VAL)
    seen = np.isin(np.arange(200), np.concatenate([TRAIN, VAL]))
    TrainingProbe(np.where(seen, SET.labels, -1), train=TRAIN, val=VAL)


def test_a_second_training_has_scores_of_its_own():
    probe = TrainingProbe(SET.labels, train=TRAIN, val=VAL)
    for epochs in (3, 2):
        NodeLaGraph(**{**SMALL, "epochs": epochs}).fit(SET.graph, hooks=probe.hooks())
        assert [score.epoch for score in probe.scores] == list(range(epochs + 1))


def test_labels_of_another_set_and_no_scores():
    probe = TrainingProbe(np.zeros(7, dtype=int), train=[0, 1], val=[2])
    with pytest.raises(InputError, match="has no scores yet"):
        _ = probe.best
    with pytest.raises(InputError, match="has 7 labels, and the training set has 200 rows"):
        NodeLaGraph(**SMALL).fit(SET.graph, hooks=probe.hooks())
