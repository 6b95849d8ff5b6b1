"""The baselines beside embeddings: the right rows, in the embeddings' order, or a note."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pandas as pd
import pytest
import torch

import commands
from graphlatent import load_estimator, read_graphs
from graphlatent.embedding import Embeddings
from graphlatent.errors import InputError
from graphlatent.io.input_place import InputPlace, input_place, place_in_results
from graphlatent.probes.evaluation.baselines import GraphChoice, appended
from graphlatent.probes.evaluation.files import read_task
from graphlatent.representations import REPRESENTATIONS, propagated_features

FAST = [part for each in ("epochs=1", "hidden_dim=3", "device=cpu") for part in ("--set", each)]
NAMES = ["raw features", "propagated features", "untrained encoder"]


def both_ways(edges):
    """The edges in both directions, each once."""
    reverse = edges.rename(columns={"source": "target", "target": "source"})
    return pd.concat([edges, reverse]).drop_duplicates()


@pytest.fixture
def tables(tmp_path):
    """Edges, nodes with text ids and two features, and labels in another order."""
    rng = np.random.default_rng(0)
    ids = np.array([f"n{i}" for i in range(40)])
    source, target = rng.integers(0, 40, (2, 120))
    edges = pd.DataFrame({"source": ids[source], "target": ids[target]})
    both_ways(edges[source != target]).to_csv(tmp_path / "edges.csv", index=False)
    nodes = pd.DataFrame({"id": ids, "size": rng.normal(size=40), "load": rng.normal(size=40)})
    nodes.to_csv(tmp_path / "nodes.csv", index=False)
    labels = pd.DataFrame({"id": ids, "y": np.arange(40) % 2})
    labels.sample(frac=1, random_state=1).to_csv(tmp_path / "labels.csv", index=False)
    return tmp_path


def train(tables, *options, nodes=True):
    given = ["--nodes", tables / "nodes.csv"] if nodes else []
    commands.told("train", tables / "edges.csv", *given, "--out", tables / "run", *FAST, *options)


def task_of(tables, embeddings="run", **options):
    return read_task(tables / embeddings, tables / "labels.csv", baselines=True, **options)


def test_of_a_run_they_are_those_of_its_estimator_and_graph(tables):
    train(tables)
    task = task_of(tables)
    assert list(task.representations) == ["embeddings", *NAMES, "raw features appended"]
    assert task.notes == ()
    graph = read_graphs(tables / "edges.csv", nodes=tables / "nodes.csv")
    estimator = load_estimator(tables / "run")
    for name, key in zip(NAMES, ("raw", "propagated", "random"), strict=True):
        rows = REPRESENTATIONS[key].rows(graph, estimator)
        np.testing.assert_array_equal(task.representations[name], rows)


def test_rows_follow_the_embeddings_whatever_their_order(tables):
    order = np.random.default_rng(3).permutation(40)[:30]
    ids = np.array([f"n{i}" for i in order], dtype=object)
    Embeddings(np.ones((30, 2), np.float32), ids).save(tables / "theirs.csv")
    choice = GraphChoice(tables / "edges.csv", tables / "nodes.csv")
    task = task_of(tables, "theirs.csv", graph=choice)
    table = pd.read_csv(tables / "nodes.csv")[["size", "load"]].to_numpy()
    standard = (table - table.mean(0)) / table.std(0)
    # The default divides all features by one number, their root mean squared row norm.
    standard = (standard / 2**0.5).astype(np.float32)
    np.testing.assert_allclose(task.representations["raw features"], standard[order], rtol=1e-5)
    graph = read_graphs(tables / "edges.csv", nodes=tables / "nodes.csv")
    expected = propagated_features(graph.with_features(torch.from_numpy(standard)), level="node")[
        order
    ]
    np.testing.assert_allclose(
        task.representations["propagated features"], expected, rtol=1e-4, atol=1e-6
    )
    assert "untrained encoder" not in task.representations
    assert task.notes[-1].startswith("no untrained encoder: the settings that these embeddings")


def test_columns_of_the_graph_that_are_called_otherwise(tables):
    edges = pd.read_csv(tables / "edges.csv").rename(columns={"source": "a", "target": "b"})
    edges.to_csv(tables / "e.csv", index=False)
    nodes = pd.read_csv(tables / "nodes.csv")
    nodes.rename(columns={"id": "name"}).to_csv(tables / "n.csv", index=False)
    labels = pd.read_csv(tables / "labels.csv").rename(columns={"id": "name"})
    labels.to_csv(tables / "l.csv", index=False)
    Embeddings(np.ones((40, 2), np.float32), nodes["id"].to_numpy()).save(tables / "theirs.csv")
    options = ["--graph", tables / "e.csv", "--nodes", tables / "n.csv", "--id", "name"]
    told = commands.told(
        *("probe", tables / "theirs.csv", "--labels", tables / "l.csv", "--label", "y"),
        *(*options, "--source", "a", "--target", "b", "--splits", 2),
    )
    assert "propagated features" in told["results"]
    assert told["notes"][0] == "raw features: 2 columns: size, load"
    assert told["notes"][1].startswith("no untrained encoder")


def test_standard_input_is_not_read_again(tmp_path):
    assert input_place("-", None) == {"source": None, "node_table": None}
    (tmp_path / "results.json").write_text(json.dumps({"input": input_place("-", None)}))
    assert place_in_results(tmp_path / "results.json") is None
    (tmp_path / "results.json").write_text(json.dumps({"input": input_place("Cora", None)}))
    assert place_in_results(tmp_path / "results.json") == InputPlace("Cora", None)
    for damaged in ("{", "[]", '{"input": 3}', '{"input": {"source": "a", "node_table": 3}}'):
        (tmp_path / "results.json").write_text(damaged)
        assert place_in_results(tmp_path / "results.json") is None


def test_vectors_without_ids_are_in_the_order_of_the_graph(tables):
    np.save(tables / "e.npy", np.ones((40, 2)))
    np.save(tables / "y.npy", np.arange(40) % 2)
    choice = GraphChoice(tables / "edges.csv", tables / "nodes.csv")
    task = read_task(tables / "e.npy", tables / "y.npy", graph=choice, baselines=True)
    graph = read_graphs(tables / "edges.csv", nodes=tables / "nodes.csv")
    sizes = np.asarray(graph.columns["size"], dtype=float)
    raw = task.representations["raw features"][:, 0]
    np.testing.assert_allclose(raw, (sizes - sizes.mean()) / sizes.std() / 2**0.5, rtol=1e-5)
    np.save(tables / "e.npy", np.ones((39, 2)))
    np.save(tables / "y.npy", np.arange(39) % 2)
    with pytest.raises(InputError, match="The graph has 40 nodes, identified by id, and embeddi"):
        read_task(tables / "e.npy", tables / "y.npy", graph=choice, baselines=True)


def test_graphs_without_features_have_those_of_the_structure(tables):
    train(tables, nodes=False)
    task = task_of(tables)
    num_nodes = len(pd.unique(pd.read_csv(tables / "edges.csv").to_numpy().ravel()))
    width = load_estimator(tables / "run").n_features_in_
    assert task.representations["raw features"].shape == (num_nodes, width)
    assert task.notes[-1] == (
        "the nodes have no features that differ, so raw and propagated features are those of the"
        f" {width} structural inputs that the encoder is given, computed from the edges"
    )


def test_without_a_graph_there_is_a_note(tables):
    train(tables)
    shutil.move(tables / "run" / "embeddings.parquet", tables / "e.parquet")
    (note,) = task_of(tables, "e.parquet").notes
    assert note == (
        "no raw features, propagated features, untrained encoder: of embeddings alone it is not"
        " known which graph they are of. Name it with the option 'graph'."
    )


def test_a_graph_that_has_moved_or_changed(tables):
    train(tables)
    nodes = pd.read_csv(tables / "nodes.csv")
    nodes.assign(size=nodes["size"] + 1).to_csv(tables / "nodes.csv", index=False)
    task = task_of(tables)
    assert list(task.representations) == ["embeddings"]
    assert "is no longer what the run was trained on (column 'size': other val" in task.notes[0]
    changed = GraphChoice(tables / "edges.csv", tables / "nodes.csv")
    with pytest.raises(InputError, match=r"The graph is not the one that .*run was trained on"):
        task_of(tables, graph=changed)
    nodes.to_csv(tables / "moved.csv", index=False)
    (tables / "nodes.csv").unlink()
    assert "the graph of the run cannot be read again" in task_of(tables).notes[0]
    moved = GraphChoice(tables / "edges.csv", tables / "moved.csv")
    assert set(NAMES) < set(task_of(tables, graph=moved).representations)


def test_a_feature_that_is_the_label_under_another_name_is_noted_or_refused(tables):
    nodes = pd.read_csv(tables / "nodes.csv").assign(team=["red", "blue"] * 20)
    nodes.to_csv(tables / "nodes.csv", index=False)
    train(tables)
    task = task_of(tables)
    assert "the values of column 'team' correspond one to one" in task.notes[0]
    assert task.notes[0].endswith("These embeddings have seen it as well.")
    choice = GraphChoice(tables / "edges.csv", tables / "nodes.csv")
    with pytest.raises(InputError, match="column 'team' correspond one to one"):
        task_of(tables, "run/embeddings.parquet", graph=choice)


def test_of_graphs(tables):
    rng = np.random.default_rng(0)
    which = np.repeat([f"g{i}" for i in range(12)], 5)
    nodes = pd.DataFrame({"graph": which, "id": np.tile(range(5), 12), "w": rng.normal(size=60)})
    nodes.to_csv(tables / "nodes.csv", index=False)
    edges = pd.DataFrame({"graph": which, "source": 0, "target": np.tile(range(5), 12)})
    both_ways(edges[edges["target"] > 0]).to_csv(tables / "edges.csv", index=False)
    pd.DataFrame({"graph": sorted(set(which)), "y": np.arange(12) % 2}).to_csv(
        tables / "labels.csv", index=False
    )
    train(tables, "--level", "graph")
    task = task_of(tables)
    assert list(task.representations) == ["embeddings", *NAMES, "raw features appended"]
    assert {each.shape[0] for each in task.representations.values()} == {12}
    file = task_of(
        tables,
        "run/embeddings.parquet",
        graph=GraphChoice(tables / "edges.csv", tables / "nodes.csv"),
    )
    # Sums over the standardised column, in the order of the graphs' names as the table has them.
    own = pd.read_parquet(tables / "run" / "embeddings.parquet")["graph"]
    standard = nodes.assign(w=(nodes["w"] - nodes["w"].mean()) / nodes["w"].std(ddof=0))
    expected = standard.groupby("graph")["w"].sum()[own].to_numpy()[:, None]
    np.testing.assert_allclose(file.representations["raw features"], expected, rtol=1e-4, atol=1e-5)


def test_appended_blocks_have_equal_weight():
    rng = np.random.default_rng(0)
    small, large = rng.normal(size=(20, 3)), 1000 * rng.normal(size=(20, 5))
    both = appended(small, large)
    assert np.square(both[:, :3]).sum() == pytest.approx(20)
    assert np.square(both[:, 3:]).sum() == pytest.approx(20)
    assert appended(np.zeros((4, 2)), np.ones((4, 1))).tolist() == [[0, 0, 1]] * 4
