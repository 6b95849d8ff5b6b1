"""Estimators whose features are coordinates computed from the edges."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pandas as pd
import pytest
import torch

from cases import random_graph
from graphlatent import GraphLaGraph, NodeDGI, NodeLaGraph, RunFolder, read_graphs
from graphlatent.data.features import FeatureSpec, encode_features
from graphlatent.data.induced import induced_subgraph
from graphlatent.data.local_structure import NAMES as LOCAL_NAMES
from graphlatent.data.synthetic import latent_graph
from graphlatent.errors import ConfigError, GraphLatentWarning, InputError, RunFolderError
from graphlatent.ops.sparse import SparseMatrix, to_dense
from graphlatent.representations import REPRESENTATIONS, encoder_input
from graphlatent.training import encoding
from graphlatent.training.encoding import fit_encoding
from graphlatent.training.loop import Hooks

SMALL = {"hidden_dim": 8, "epochs": 3, "device": "cpu", "structure_dim": 6}
# The encoder's output, and the features beside it.
APPENDED = {"embedding": "encoder", "concat_input": True}


def estimator(structure="auto", **values):
    return NodeLaGraph(**{**SMALL, "structure": structure, **values})


def named(graph):
    return dataclasses.replace(graph, node_ids=np.array([f"n{i}" for i in range(graph.num_nodes)]))


@pytest.fixture
def featured():
    return named(latent_graph(num_nodes=60, num_classes=3, feature_dim=5, seed=1).graph)


@pytest.fixture
def bare(featured):
    return dataclasses.replace(featured, x=None)


def test_the_default_is_coordinates_and_that_of_the_presets_of_the_paper_degrees(bare):
    kinds = {"plus": "structure", "paper": "degree", "released": "degree"}
    for preset, kind in kinds.items():
        assert NodeLaGraph(**SMALL, preset=preset).fit(bare).features_.kind == kind
    assert NodeLaGraph(**SMALL).fit(bare).features_.kind == "structure"


@pytest.mark.parametrize("cls", [NodeLaGraph, NodeDGI])
@pytest.mark.parametrize("structure", ["auto", "always"])
def test_a_graph_without_features_gets_coordinates(bare, structure, cls):
    fitted = cls(**SMALL, structure=structure).fit(bare)
    spec = fitted.features_
    # Under 'auto' four numbers of local structure stand before the coordinates.
    local = list(LOCAL_NAMES) if structure == "auto" else []
    assert (spec.kind, spec.width) == ("structure", len(local) + 6)
    assert fitted.n_features_in_ == spec.width
    assert spec.names == local + [f"structure{i}" for i in range(6)]
    # Beside the encoder's output the default has x, A^2 x and one column of degrees.
    wide = 2 * spec.width + 8 + 1
    assert fitted.transform(bare).shape == (60, 8 if cls is NodeDGI else wide)


def test_auto_leaves_given_features_alone(featured):
    given = FeatureSpec("given", num_features=5)
    assert estimator(scale_features=False).fit(featured).features_ == given
    scaled = estimator(standardize=False).fit(featured).features_
    assert dataclasses.replace(scaled, scale=1.0) == given
    assert scaled.scale == pytest.approx(float(featured.x.square().sum(1).mean()) ** -0.5)


def test_auto_means_degrees_where_there_are_no_usable_edges(bare):
    several = dataclasses.replace(bare, ptr=torch.tensor([0, 30, 60]))
    no_edges = dataclasses.replace(bare, edge_index=bare.edge_index[:, :0])
    negative = dataclasses.replace(bare, edge_weight=-torch.ones(bare.num_edges))
    for graph in (several, no_edges, negative):
        assert fit_encoding(graph, estimator()).kind == "degree"


def test_a_single_graph_at_graph_level_has_degrees_and_local_structure(bare):
    values = {"hidden_dim": 8, "epochs": 1, "device": "cpu"}
    spec = GraphLaGraph(**values).fit(bare).features_
    assert (spec.kind, len(spec.local), spec.structure_dim) == ("degree", 4, 0)
    assert GraphLaGraph(**values, preset="paper").fit(bare).features_.local == ()


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("row_normalize", [False, True])
def test_always_puts_coordinates_of_equal_norm_beside_features(featured, sparse, row_normalize):
    x = featured.x
    if sparse:
        row, col = torch.nonzero(x, as_tuple=True)
        x = SparseMatrix.from_coo(row, col, x[row, col], tuple(x.shape))
    graph = dataclasses.replace(featured, x=x)
    settings = estimator("always", row_normalize=row_normalize, scale_features=False)
    spec = fit_encoding(graph, settings)
    assert (spec.kind, spec.width, spec.structure_dim) == ("given", 11, 6)
    encoded = to_dense(encode_features(spec, graph, row_normalize=row_normalize).x)
    given, coordinates = encoded[:, :5], encoded[:, 5:]
    expected = featured.x / featured.x.abs().sum(1, keepdim=True) if row_normalize else featured.x
    torch.testing.assert_close(given, expected)
    squares = [float(part.square().sum(1).mean()) for part in (given, coordinates)]
    assert squares[0] == pytest.approx(squares[1], rel=1e-5)
    assert settings.fit(graph).transform(graph).shape == (60, 11 + 11 + 1 + 8)


def test_columns_and_features_of_zeros(featured):
    columns = dataclasses.replace(featured, x=None, columns={"age": np.arange(60.0)})
    assert estimator("always").fit(columns).features_.width == 7
    zeros = dataclasses.replace(featured, x=torch.zeros(60, 2))
    assert fit_encoding(zeros, estimator("always")).coordinates.scale == 1


def test_always_refuses_several_graphs():
    message = r"structure='always' needs one graph.*Got 2 graphs. Set structure='none', or fit on o"
    with pytest.raises(ConfigError, match=message):
        estimator("always").fit(random_graph([5, 4]))


@pytest.mark.parametrize("size", [1, 2])
def test_tiny_graphs(size):
    graph = dataclasses.replace(random_graph([size]), x=None)
    for structure in ("auto", "always"):
        assert np.isfinite(estimator(structure).fit_transform(graph)).all()


def test_unknown_value_and_features_where_there_were_none(bare, featured):
    with pytest.raises(ConfigError, match=r"'structure' .* must be 'auto', 'none' or 'always'"):
        estimator("sometimes").fit(bare)
    message = r"no features \(it uses coordinates computed from the edges\), but this graph has"
    with pytest.raises(InputError, match=message):
        estimator().fit(bare).transform(featured)


@pytest.mark.parametrize("ids", ["text", "integers", "none"])
@pytest.mark.parametrize("structure", ["auto", "always"])
def test_saved_and_loaded_rows_are_the_same_bits(bare, featured, ids, structure, tmp_path):
    graph = bare if structure == "auto" else featured
    numbers = {"text": graph.node_ids, "integers": np.arange(60)[::-1] * 7, "none": None}
    graph = dataclasses.replace(graph, node_ids=numbers[ids])
    fitted = estimator(structure, **APPENDED).fit(graph)
    rows = fitted.transform(graph)
    # Local structure is that of the graph that is embedded.
    kept = [i for i, name in enumerate(fitted.features_.names) if name not in LOCAL_NAMES]
    loaded = NodeLaGraph.load(fitted.save(tmp_path / "model"))
    np.testing.assert_array_equal(loaded.transform(graph), rows)
    np.testing.assert_array_equal(fitted.transform(graph), rows)
    # The order of the nodes does not matter.
    part = induced_subgraph(graph, torch.arange(60) < 20)
    if ids != "none":
        inputs = loaded.transform(part)[:, 8:]
        np.testing.assert_array_equal(inputs[:, kept], rows[:20, 8:][:, kept])


def both_directions(edges):
    reverse = edges.rename(columns={"source": "target", "target": "source"})
    return pd.concat([edges, reverse]).drop_duplicates()


def test_new_nodes_of_a_table_are_placed_by_their_neighbours():
    rng = np.random.default_rng(0)
    edges = pd.DataFrame(rng.integers(0, 20, (80, 2)), columns=["source", "target"])
    edges = both_directions(edges[edges.source != edges.target].astype(str))
    fitted = estimator(**APPENDED, scale_features=False).fit(read_graphs(edges))
    new = pd.DataFrame({"source": ["new", "new", "far"], "target": ["3", "4", "further"]})
    graph = read_graphs(pd.concat([edges, both_directions(new)]))
    with pytest.warns(GraphLatentWarning, match="2 of 3 new nodes are not connected"):
        rows = fitted.embed(graph).to_pandas().iloc[:, 8:]
    names = fitted.features_.names
    rows = rows.iloc[:, [i for i, name in enumerate(names) if name not in LOCAL_NAMES]]
    assert rows.shape[1] == 6
    expected = rows.loc["3"] + rows.loc["4"]
    np.testing.assert_allclose(rows.loc["new"], expected / np.linalg.norm(expected), atol=1e-6)
    assert (rows.loc[["far", "further"]] == 0).all(axis=None)
    other = both_directions(pd.DataFrame({"source": ["x"], "target": ["y"]}))
    with pytest.raises(InputError, match="coordinates only extend to nodes that are connected"):
        fitted.embed(read_graphs(other))


def test_baselines_see_the_coordinates(bare):
    fitted = estimator().fit(bare)
    expected = encode_features(fitted.features_, bare).x
    assert torch.equal(encoder_input(bare, fitted, bare).x, expected)
    assert torch.equal(encoder_input(bare, estimator(), bare).x, expected)
    assert np.array_equal(REPRESENTATIONS["raw"].rows(bare, estimator()), expected.numpy())


class StoppedError(Exception):
    """Stands for a crash."""


def start_and_stop(run, graph, **values):
    """A run of which one checkpoint is left."""

    def crash(progress):
        raise StoppedError

    hooks = Hooks(save_due=lambda: True, save=run.save_snapshot, on_epoch=crash)
    with pytest.raises(StoppedError):
        estimator(**values).fit(graph, run=run, hooks=hooks)


def perturbed(graph, **options):
    values = encoding_coordinates(graph, **options)
    return values * (1 + 1e-6)


encoding_coordinates = encoding.structure_coordinates


@pytest.mark.parametrize("scale_features", [False, True])
@pytest.mark.parametrize("structure", ["auto", "always"])
def test_a_resumed_run_uses_the_stored_coordinates(
    bare, featured, structure, scale_features, tmp_path, monkeypatch
):
    graph, values = bare if structure == "auto" else featured, {"scale_features": scale_features}
    whole = estimator(structure, **values).fit(graph, run=tmp_path / "whole")
    run = RunFolder(tmp_path / "run")
    start_and_stop(run, graph, structure=structure, **values)
    assert not run.complete
    # The fingerprints are those of the input, which coordinates are no part of.
    assert run.read_json("versions.json")["input"] == graph.fingerprints()
    # As with another number of threads.
    monkeypatch.setattr(encoding, "structure_coordinates", perturbed)
    resumed = estimator(structure, **values).fit(graph, run=run)
    monkeypatch.undo()
    np.testing.assert_array_equal(resumed.transform(graph), whole.transform(graph))
    for name, weights in whole.model_.state_dict().items():
        assert torch.equal(resumed.model_.state_dict()[name], weights), name


def test_another_graph_is_not_resumed(bare, tmp_path):
    run = RunFolder(tmp_path / "run")
    start_and_stop(run, bare)
    fewer = dataclasses.replace(bare, edge_index=bare.edge_index[:, 2:])
    smaller = induced_subgraph(bare, torch.arange(60) < 50)
    for other in (fewer, smaller):
        with pytest.raises(RunFolderError, match="edges: numbers"):
            estimator().fit(other, run=run)
    with pytest.raises(RunFolderError, match="structure_dim: 6 in the run, 5 now"):
        estimator(structure_dim=5).fit(bare, run=run)
    (run.path / "coordinates.safetensors").unlink()
    with pytest.raises(RunFolderError, match=r"Cannot resume .* it lacks the coordinates of its"):
        estimator().fit(bare, run=run)


def test_a_new_run_replaces_coordinates(bare, tmp_path):
    estimator().fit(bare, run=tmp_path / "run")
    path = tmp_path / "run" / "coordinates.safetensors"
    assert path.is_file()
    estimator("none").fit(bare, run=RunFolder(tmp_path / "run", replace=True))
    assert not path.exists()
    assert "structure_dim" not in json.loads((tmp_path / "run" / "features.json").read_text())


def test_damaged_and_missing_coordinates(bare, tmp_path):
    folder = estimator().fit(bare).save(tmp_path / "model")
    path = folder / "coordinates.safetensors"
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(RunFolderError, match=r"coordinates.safetensors is not as it was saved"):
        NodeLaGraph.load(folder)
    path.unlink()
    with pytest.raises(RunFolderError, match=r"lacks coordinates.safetensors. Copy the whole fold"):
        NodeLaGraph.load(folder)
