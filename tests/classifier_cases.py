"""Labelled graphs and small classifiers, for tests of fine-tuning."""

from __future__ import annotations

import dataclasses

import numpy as np
import torch

from cases import random_graph
from graphlatent import GraphLaGraph, GraphLaGraphClassifier, NodeLaGraph, NodeLaGraphClassifier

SIZES = [5, 4, 3, 6, 2, 7, 4, 3, 5, 6] * 4
SMALL = {"hidden_dim": 6, "epochs": 2, "device": "cpu"}


def graphs_and_classes(*, shift=1.0):
    """Graphs whose features say which of two classes they are of."""
    data = random_graph(SIZES)
    y = np.arange(len(SIZES)) % 2
    x = data.x + shift * torch.from_numpy(2.0 * y - 1)[data.graph_of_node, None].float()
    return dataclasses.replace(data, x=x), y


def some_of(y, *, every=2):
    known = np.full(len(y), -1)
    known[::every] = y[::every]
    known[1::every] = y[1::every]
    known[len(y) // 2 :] = -1
    return known


def graph_classifier(*, pretraining=None, **values):
    start = GraphLaGraph(**SMALL) if pretraining is None else pretraining
    return GraphLaGraphClassifier(**{"pretraining": start, "epochs": 8, **values})


def node_classifier(**values):
    return NodeLaGraphClassifier(**{"pretraining": NodeLaGraph(**SMALL), "epochs": 8, **values})
