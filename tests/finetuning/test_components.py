"""Embeddings of principal components or weighted blocks keep the proportions of their columns."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from classifier_cases import SMALL, graph_classifier, graphs_and_classes
from graphlatent import GraphLaGraph, NodeLaGraph, NodeLaGraphClassifier
from graphlatent.data.citation import citation_graph
from graphlatent.finetuning.tuner import has_weighted_columns


def test_which_embeddings_have_weighted_columns():
    data, _ = graphs_and_classes()
    assert has_weighted_columns(NodeLaGraph(**SMALL).fit(data))
    assert has_weighted_columns(GraphLaGraph(**SMALL).fit(data))
    assert has_weighted_columns(
        GraphLaGraph(embedding="standard", embedding_dim=4, **SMALL).fit(data)
    )
    for other in (
        NodeLaGraph(embedding="encoder", **SMALL),
        NodeLaGraph(preset="paper", **SMALL),
        GraphLaGraph(embedding="standard", **SMALL),
    ):
        assert not has_weighted_columns(other.fit(data))


@pytest.mark.parametrize("several_labels", [False, True])
def test_the_default_of_nodes_is_no_worse_than_logistic_regression_on_its_embedding(
    several_labels,
):
    # More components than labels: each divided by its own deviation, they leave 25 % right.
    graph = citation_graph(num_nodes=300, num_words=60)
    pretrained = NodeLaGraph(hidden_dim=16, epochs=3, device="cpu").fit(graph)
    rows, y = pretrained.transform(graph), np.asarray(graph.y)
    order = np.random.default_rng(0).permutation(300)
    train, test = order[:60], order[60:]
    theirs = LogisticRegression(C=10.0, max_iter=1000).fit(rows[train], y[train])
    accuracy = theirs.score(rows[test], y[test])
    assert rows.shape[1] > 200 and accuracy > 0.8
    if several_labels:
        y = (y[:, None] == np.arange(2)).astype(int)
    known, hidden = np.full_like(y, -1), np.full_like(y, -1)
    known[train], hidden[test] = y[train], y[test]
    fitted = NodeLaGraphClassifier(pretraining=pretrained, epochs=5).fit(graph, known)
    # Micro-F1 of two of six classes is lower than accuracy.
    assert fitted.score(graph, hidden) > (0.6 if several_labels else accuracy - 0.04)


def test_which_classifiers_divide_each_column_by_its_own_deviation():
    data, y = graphs_and_classes()
    fitted = graph_classifier(pretraining=GraphLaGraph(preset="paper", **SMALL)).fit(data, y)
    assert len(np.unique(fitted.head_.standard.scale.numpy())) > 2
    for weighted in ({}, {"embedding_dim": 4}):
        fitted = graph_classifier(pretraining=GraphLaGraph(**weighted, **SMALL)).fit(data, y)
        assert len(np.unique(fitted.head_.standard.scale.numpy())) == 1
