"""Small graphs with features of all kinds, for the tests of their encoding."""

from __future__ import annotations

import numpy as np

from graphlatent.data.assemble import assemble
from graphlatent.data.features import fit_features
from graphlatent.data.graph import RawGraph


def ring(num_nodes, **changes):
    ids = np.arange(num_nodes)
    edges = np.stack([ids, np.roll(ids, 1)])
    return assemble([RawGraph(edge_index=edges, num_nodes=num_nodes, directed=False, **changes)])


def star(leaves):
    edges = np.stack([np.zeros(leaves, int), np.arange(1, leaves + 1)])
    return assemble([RawGraph(edge_index=edges, num_nodes=leaves + 1, directed=False)])


def with_columns(**columns):
    arrays = {name: np.asarray(values) for name, values in columns.items()}
    return ring(len(next(iter(arrays.values()))), columns=arrays)


def objects(*values):
    return np.fromiter(values, dtype=object, count=len(values))


def fit(graph, **options):
    return fit_features(graph, **{"degree_cap": 128, **options})
