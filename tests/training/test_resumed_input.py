"""A run is resumed with the input that it was begun with, and with its encoding."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pandas as pd
import pytest

from graphlatent import GraphLaGraph, NodeLaGraph, RunFolder, read_graphs
from graphlatent.errors import RunFolderError, TrainingInterrupted
from graphlatent.io.tensors import load_tensors, save_tensors
from graphlatent.training import encoding
from graphlatent.training.loop import Hooks

NODES = 12


@pytest.fixture
def edges() -> pd.DataFrame:
    start = np.arange(NODES)
    return pd.DataFrame(
        {
            "source": np.concatenate([start, (start + 1) % NODES]),
            "target": np.concatenate([(start + 1) % NODES, start]),
            "weight": 1.0,
        }
    )


@pytest.fixture
def nodes() -> pd.DataFrame:
    start = np.arange(NODES)
    return pd.DataFrame(
        {"id": start, "age": start / 8, "size": start**2, "kind": np.where(start % 3, "a", "b")}
    )


def begin(graph, path, *, cls=NodeLaGraph) -> RunFolder:
    run = RunFolder(path / "run")
    steps = iter([False, True])
    hooks = Hooks(save=run.save_snapshot, stop_requested=lambda: next(steps))
    with pytest.raises(TrainingInterrupted):
        make(cls).fit(graph, run=run, hooks=hooks)
    assert run.started and not run.complete
    return run


def make(cls=NodeLaGraph):
    return cls(epochs=4, hidden_dim=4, device="cpu")


def refusal(graph, run, *, cls=NodeLaGraph) -> str:
    with pytest.raises(RunFolderError, match="Cannot resume") as caught:
        make(cls).fit(graph, run=run)
    return str(caught.value)


def test_changed_columns_are_refused_by_name(edges, nodes, tmp_path):
    run = begin((edges, nodes), tmp_path)
    # Standardised, or as one-hot categories in the same order, they are the same features.
    for changed in (
        nodes.assign(age=nodes["age"] * 1024),
        nodes.assign(age=nodes["age"] + 512),
    ):
        assert "run: column 'age': other values. Use" in refusal((edges, changed), run)
    renamed = nodes.assign(kind=nodes["kind"].str.upper())
    assert "column 'kind': other values. Use" in refusal((edges, renamed), run)
    text = nodes.assign(size=nodes["size"].astype(str))
    assert "column 'size': numbers [12] in the run, text [12] now. Use" in refusal(
        (edges, text), run
    )
    named = nodes.rename(columns={"age": "years"})
    assert (
        "column 'age': numbers [12] in the run, none now; column 'years': none in the run,"
        " numbers [12] now" in refusal((edges, named), run)
    )


def test_changed_edges_weights_and_ids_are_refused_by_name(edges, nodes, tmp_path):
    run = begin((edges, nodes), tmp_path)
    pair = {0, 1}
    fewer = edges[[{a, b} != pair for a, b in zip(edges.source, edges.target, strict=True)]]
    other = edges.replace({"source": {0: 1, 1: 0}, "target": {0: 1, 1: 0}})
    assert "edges: numbers [2, 24] in the run, numbers [2, 22] now" in refusal((fewer, nodes), run)
    assert "run: edges: other values. Use" in refusal((other, nodes), run)
    heavier = edges.assign(weight=2.0)
    assert "run: edge weights: other values. Use" in refusal((heavier, nodes), run)
    moved = (edges.assign(source=edges["source"] + 5, target=edges["target"] + 5), nodes.copy())
    moved[1]["id"] += 5
    assert "run: node ids: other values. Use" in refusal(moved, run)


def test_changed_boundaries_of_graphs_are_refused(tmp_path):
    x, none = np.eye(6, 3), np.zeros((2, 0), dtype=np.int64)
    path = np.array([[0, 1], [1, 0]])
    run = begin([(path, x[:2]), (path, x[2:4]), (none, x[4:])], tmp_path, cls=GraphLaGraph)
    other = [(path, x[:2]), (path, x[2:5]), (none, x[5:])]
    assert "boundaries of graphs: other values. Use" in refusal(other, run, cls=GraphLaGraph)


def test_a_changed_encoding_in_the_folder_is_refused_by_column(edges, nodes, tmp_path):
    run = begin((edges, nodes), tmp_path)
    path = run.path / "features.json"
    features = json.loads(path.read_text())
    features["columns"][0]["mean"] *= 2
    path.write_text(json.dumps(features))
    assert "encoding of column 'age': {'kind': 'numeric', 'mean': 1.375, " in refusal(
        (edges, nodes), run
    )


def test_a_run_that_does_not_know_medians_is_resumed(edges, nodes, tmp_path, monkeypatch):
    more = pd.concat([nodes, nodes.assign(id=nodes["id"] + NODES)])
    with monkeypatch.context() as earlier:
        earlier.setattr("graphlatent.data.column_fitting.median_and_spread", lambda numbers: {})
        run = begin((edges, more), tmp_path)
    assert "median" not in run.read_json("features.json")["columns"][0]
    resumed = make().fit((edges, more), run=run)
    assert run.complete and resumed.features_.columns[0].spread == 0
    assert make().fit((edges, more)).features_.columns[0].spread > 0


def test_another_order_of_columns_is_refused(edges, nodes, tmp_path):
    run = begin((edges, nodes), tmp_path)
    assert (
        "encoding of the features: columns, ['age', 'size', 'kind'] in the run, ['kind', 'size',"
        " 'age'] now" in refusal((edges, nodes[["id", "kind", "size", "age"]]), run)
    )


def test_the_run_of_an_earlier_version_is_refused_with_the_reason(edges, nodes, tmp_path):
    run = begin((edges, nodes), tmp_path)
    about = run.read_json("versions.json")
    (run.path / "versions.json").write_text(json.dumps({**about, "input": "3f" * 32}))
    assert "an earlier version of graphlatent began the run" in refusal((edges, nodes), run)


def test_the_same_input_from_another_file_is_resumed(edges, nodes, tmp_path):
    whole = make().fit((edges, nodes))
    run = begin((edges, nodes), tmp_path)
    edges.to_csv(tmp_path / "e.csv", index=False)
    narrow = nodes.astype({"id": np.int32, "size": np.float32, "kind": "category"})
    narrow.to_parquet(tmp_path / "n.parquet")
    resumed = make().fit((tmp_path / "e.csv", tmp_path / "n.parquet"), run=run)
    assert resumed.features_ == whole.features_
    assert np.array_equal(resumed.transform((edges, nodes)), whole.transform((edges, nodes)))


def test_a_resumed_run_uses_the_stored_encoding(edges, nodes, tmp_path, monkeypatch):
    whole = make().fit((edges, nodes))
    run = begin((edges, nodes), tmp_path)
    fit_scale = encoding.fit_scale

    def perturbed(*args, **kwargs):
        spec = fit_scale(*args, **kwargs)
        return type(spec).from_dict({**spec.to_dict(), "scale": spec.scale * (1 + 1e-12)})

    # As with another number of threads.
    monkeypatch.setattr(encoding, "fit_scale", perturbed)
    assert make().fit((edges, nodes)).features_ != whole.features_
    assert make().fit((edges, nodes), run=run).features_ == whole.features_


def test_fingerprints_do_not_depend_on_what_holds_the_values(edges, nodes):
    table = read_graphs((edges, nodes)).fingerprints()
    assert read_graphs((edges, nodes.astype({"size": np.float64}))).fingerprints() == table
    arrays = (edges[["source", "target"]].to_numpy().T, None, np.ones(24))
    assert read_graphs(arrays).fingerprints().items() <= table.items()


def test_a_checkpoint_of_another_run_is_refused(edges, nodes, tmp_path):
    runs = [
        begin((edges, each), tmp_path / str(i))
        for i, each in enumerate((nodes, nodes.assign(size=nodes["age"] ** 3)))
    ]
    shutil.copy(runs[1].state_path, runs[0].state_path)
    with pytest.raises(RunFolderError, match=r"last\.safetensors is the checkpoint of another run"):
        make().fit((edges, nodes), run=runs[0])


def test_a_checkpoint_of_an_earlier_version_is_resumed(edges, nodes, tmp_path):
    """It does not say which run it is of."""
    whole = make().fit((edges, nodes))
    run = begin((edges, nodes), tmp_path)
    snapshot = run.load_snapshot()
    save_tensors(run.state_path, snapshot.tensors, snapshot.position)
    resumed = make().fit((edges, nodes), run=run)
    np.testing.assert_array_equal(
        resumed.transform((edges, nodes)), whole.transform((edges, nodes))
    )


@pytest.mark.parametrize("of_other_nodes", [True, False])
def test_coordinates_of_another_run_are_refused(edges, tmp_path, of_other_nodes):
    """Without them, the finished folder would hold coordinates that its model was not fitted on."""
    run = begin(edges, tmp_path)
    path = run.path / "coordinates.safetensors"
    tensors, about = load_tensors(path)
    changed = {"ids": tensors["ids"] + 1} if of_other_nodes else {"values": -tensors["values"]}
    save_tensors(path, {**tensors, **changed}, about)
    message = refusal(edges, run)
    assert "coordinates.safetensors: not the file that the run began with" in message
