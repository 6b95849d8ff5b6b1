"""Coordinates from the edges that stand in the embedding beside given features."""

from __future__ import annotations

import dataclasses
import warnings

import numpy as np
import pytest
import torch

from cases import graph_of, partitioned
from graphlatent import NodeBGRL, NodeLaGraph, RunFolder
from graphlatent.data.features import FeatureSpec
from graphlatent.data.induced import induced_subgraph
from graphlatent.data.splits import random_splits
from graphlatent.errors import GraphLatentWarning, InputError, TrainingInterrupted
from graphlatent.probes import linear_probe
from graphlatent.representations import REPRESENTATIONS
from graphlatent.training.encoding import embeds_coordinates
from graphlatent.training.loop import Hooks

SMALL = {"hidden_dim": 8, "epochs": 2, "device": "cpu", "structure_dim": 12, "progress": False}


def featured(same=0.8, *, named=True, seed=0):
    graph = partitioned(same, seed=seed)
    x = torch.randn(graph.num_nodes, 5, generator=torch.Generator().manual_seed(seed))
    ids = np.array([f"n{i}" for i in range(graph.num_nodes)]) if named else None
    return dataclasses.replace(graph, x=x, node_ids=ids)


def estimator(**values):
    return NodeLaGraph(**{**SMALL, **values})


def test_they_are_no_features_and_widen_the_embedding():
    graph = featured()
    fitted = estimator().fit(graph)
    spec = fitted.features_
    assert (spec.width, spec.structure_dim, spec.embedding_coordinates) == (5, 12, 12)
    assert len(spec.names) == fitted.n_features_in_ == 5
    assert REPRESENTATIONS["raw"].rows(graph, fitted).shape == (300, 5)
    assert fitted.embedding_dim_ == 5 + 5 + 8 + 1 + 12 == fitted.transform(graph).shape[1]
    assert FeatureSpec.from_dict(spec.to_dict()) == spec


@pytest.mark.parametrize(
    "values",
    [{"structure": "none"}, {"preset": "paper"}, {"embedding": "encoder"}],
    ids=["structure", "preset", "embedding"],
)
def test_settings_without_them(values):
    assert estimator(**values).fit(featured()).features_.structure_dim == 0
    assert NodeBGRL(**SMALL).fit(featured()).features_.structure_dim == 0


def test_graphs_without_them():
    """Random edges, several graphs, many small components, negative weights, equal ids."""
    graph, settings = featured(), estimator()._resolved()
    assert embeds_coordinates(graph, settings)
    several = dataclasses.replace(graph, ptr=torch.tensor([0, 150, 300]))
    negative = dataclasses.replace(graph, edge_weight=-torch.ones(graph.num_edges))
    same_ids = dataclasses.replace(graph, node_ids=np.array(["a"] * 300))
    offset = torch.arange(3).repeat_interleave(graph.num_edges) * 300
    scattered = dataclasses.replace(
        graph,
        edge_index=graph.edge_index.repeat(1, 3) + offset,
        num_nodes=900,
        ptr=torch.tensor([0, 900]),
        x=graph.x.repeat(3, 1),
        node_ids=None,
    )
    for other in (featured(0.0), several, negative, same_ids, scattered):
        assert not embeds_coordinates(other, settings)


def test_labels_that_only_the_edges_know_are_found():
    rng = np.random.default_rng(0)
    graph = featured()
    labels = rng.integers(0, 4, 300)  # The classes of `partitioned`, drawn first.
    splits = random_splits(300, num_splits=3, train_ratio=0.3)
    scores = [
        linear_probe(estimator(structure=s).fit_transform(graph), labels, splits=splits).mean
        for s in ("auto", "none")
    ]
    assert scores[0] > 0.9 > scores[1] + 0.1


def test_saved_loaded_and_resumed_rows_are_the_same_bits(tmp_path):
    graph, asked = featured(), []
    fitted = estimator().fit(graph)
    rows = fitted.transform(graph)
    loaded = NodeLaGraph.load(fitted.save(tmp_path / "model"))
    np.testing.assert_array_equal(loaded.transform(graph), rows)
    folder = RunFolder(tmp_path / "run")

    def stop():
        asked.append(1)
        return len(asked) == 1

    with pytest.raises(TrainingInterrupted):
        estimator().fit(
            graph, run=folder, hooks=Hooks(save=folder.save_snapshot, stop_requested=stop)
        )
    np.testing.assert_array_equal(estimator().fit(graph, run=folder).transform(graph), rows)


def test_snapshots_have_them():
    graph = featured()
    found = dict(estimator().snapshots(graph, epochs=[0, 2]))
    np.testing.assert_array_equal(found[2].transform(graph), estimator().fit_transform(graph))


def test_a_part_of_the_graph_keeps_its_coordinates():
    graph = featured()
    fitted = estimator(feature_weight=0.0, encoder_weight=0.0).fit(graph)
    part = induced_subgraph(graph, torch.arange(300) < 200)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        batch = fitted._read_batch(part)
    expected = fitted._read_batch(graph).coordinates[:200]
    torch.testing.assert_close(batch.coordinates, expected)


@pytest.mark.parametrize("named", [True, False])
def test_another_graph_gets_the_mean_and_a_warning(named):
    fitted = estimator().fit(featured(named=named))
    other = featured(seed=7, named=named)
    if named:
        other = dataclasses.replace(other, node_ids=np.array([f"m{i}" for i in range(300)]))
    reason = "none of its node ids was fitted" if named else "its edges do not join the nodes that"
    with pytest.warns(GraphLatentWarning, match=f"{reason}.*fit with structure='none'"):
        rows = fitted.transform(other)
    assert np.isfinite(rows).all()
    with pytest.warns(GraphLatentWarning):
        coordinates = fitted._read_batch(other).coordinates
    assert bool((coordinates == coordinates[0]).all())
    used = fitted.features_.coordinates.values
    torch.testing.assert_close(coordinates[0], used[(used != 0).any(1)].mean(0))


@pytest.mark.parametrize("ids", ["different", "repeated"])
def test_several_graphs_get_the_mean_and_a_warning(ids):
    fitted = estimator().fit(featured())
    several = dataclasses.replace(featured(), ptr=torch.tensor([0, 150, 300]))
    if ids == "repeated":
        several = dataclasses.replace(several, node_ids=np.tile(several.node_ids[:150], 2))
    with pytest.warns(GraphLatentWarning, match="there are 2 graphs"):
        assert np.isfinite(fitted.transform(several)).all()


def test_a_small_graph_of_other_nodes_gets_the_mean():
    """Its rows 0 to 7 are not the first nodes of the fitted array."""
    fitted = estimator().fit(featured(named=False))
    path = graph_of([range(7), range(1, 8)], 8).with_features(torch.randn(8, 5))
    with pytest.warns(GraphLatentWarning, match="its edges do not join the nodes that"):
        coordinates = fitted._read_batch(path).coordinates
    assert bool((coordinates == coordinates[0]).all())


def test_edges_of_weight_0_change_nothing():
    graph = featured()
    weighted = dataclasses.replace(graph, edge_weight=torch.ones(graph.num_edges))
    fitted = estimator().fit(weighted)
    far = torch.stack([torch.zeros(298, dtype=torch.int64), torch.arange(2, 300)])
    far = far[:, ~torch.isin(far[1], graph.edge_index[1, graph.edge_index[0] == 0])]
    more = dataclasses.replace(
        weighted,
        edge_index=torch.cat([graph.edge_index, far, far.flip(0)], dim=1),
        edge_weight=torch.cat([weighted.edge_weight, torch.zeros(2 * far.shape[1])]),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = fitted._read_batch(more).coordinates
    torch.testing.assert_close(found, fitted._read_batch(weighted).coordinates)
    assert embeds_coordinates(more, estimator()._resolved())


def test_another_default_dtype():
    graph = featured()
    expected = estimator().fit_transform(graph)
    torch.set_default_dtype(torch.float64)
    try:
        found = estimator().fit_transform(graph)
    finally:
        torch.set_default_dtype(torch.float32)
    assert found.dtype == np.float32 and found.shape == expected.shape


def test_new_nodes_are_placed_by_their_neighbours_or_get_the_mean():
    graph = featured()
    edges = torch.tensor([[0, 300, 0, 0], [300, 0, 0, 0]])[:, :2]
    grown = dataclasses.replace(
        graph,
        edge_index=torch.cat([graph.edge_index, edges], dim=1),
        num_nodes=302,
        ptr=torch.tensor([0, 302]),
        x=torch.cat([graph.x, graph.x[:2]]),
        node_ids=np.append(graph.node_ids, ["new", "alone"]),
    )
    fitted = estimator().fit(graph)
    with pytest.warns(GraphLatentWarning, match="1 of 2 new nodes are not connected"):
        rows = fitted._read_batch(grown).coordinates
    torch.testing.assert_close(rows[300], rows[0])
    used = fitted.features_.coordinates.values
    torch.testing.assert_close(rows[301], used[(used != 0).any(1)].mean(0))


def test_specs_that_make_no_sense():
    message = r"Feature spec: kind 'given' does not go with coordinates_in='embedding'\."
    with pytest.raises(InputError, match=message):
        FeatureSpec("given", num_features=2, coordinates_in="embedding")
    with pytest.raises(InputError, match="kind 'structure' does not go with coordinates_in"):
        FeatureSpec("structure", structure_dim=2, coordinates_in="embedding")


def test_a_new_node_under_negative_weights_has_the_mean():
    graph = featured()
    fitted = estimator(encoder="gin").fit(graph)
    edges = torch.cat([graph.edge_index, torch.tensor([[0, 300], [300, 0]])], dim=1)
    grown = dataclasses.replace(
        graph,
        edge_index=edges,
        edge_weight=torch.cat([torch.ones(graph.num_edges), -torch.ones(2)]),
        num_nodes=301,
        ptr=torch.tensor([0, 301]),
        x=torch.cat([graph.x, graph.x[:1]]),
        node_ids=np.append(graph.node_ids, ["new"]),
    )
    rows = fitted._read_batch(grown).coordinates
    used = fitted.features_.coordinates.values
    torch.testing.assert_close(rows[300], used[(used != 0).any(1)].mean(0))
    assert np.isfinite(fitted.transform(grown)).all()
