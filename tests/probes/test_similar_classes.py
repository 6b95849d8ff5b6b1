"""A warning of classes that may be one class."""

from __future__ import annotations

import numpy as np
import pytest

from classifier_cases import graph_classifier, graphs_and_classes
from graphlatent import GraphLatentWarning, probe
from graphlatent.probes.similar_classes import warn_of_similar_classes


def test_they_are_named():
    with pytest.warns(GraphLatentWarning) as caught:
        warn_of_similar_classes(["No ", "Yes", "no", "other", "yes", " yes"], where="t.csv")
    assert str(caught[0].message) == (
        "t.csv: classes that differ only in case or in the space around them count as different"
        " classes: 'No ', 'no'; 'Yes', 'yes', ' yes'. If they are the same class, spell it in one"
        " way."
    )


def test_of_many_the_first_are_named():
    names = [f(f"c{i}") for i in range(6) for f in (str.upper, str.lower)]
    with pytest.warns(GraphLatentWarning, match=r"'C3', 'c3'; and 2 more\. If"):
        warn_of_similar_classes(names, where="t.csv")


# Warnings are errors in these tests.
@pytest.mark.parametrize("classes", [["no", "not", "n o"], [1, 10, True], ["1", 1], []])
def test_others_are_not(classes):
    warn_of_similar_classes(classes, where="t.csv")


def test_a_probe_warns():
    labels = np.array(["no", "No ", "yes"])[np.arange(60) % 3]
    rows = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)
    with pytest.warns(GraphLatentWarning, match="^Label 'label': classes .*'No ', 'no'"):
        probe(rows, labels, baselines=False, splits=2, train=0.3, val=0.3)


def test_a_classifier_warns():
    data, y = graphs_and_classes()
    names = np.array(["no", "yes"])[y].astype(object)
    names[:8:2] = "No"
    with pytest.warns(GraphLatentWarning, match="^Labels: classes .*: 'No', 'no'"):
        graph_classifier(epochs=1).fit(data, names)
