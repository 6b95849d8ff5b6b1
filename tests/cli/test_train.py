"""`graphlatent train` and `graphlatent embed`."""

from __future__ import annotations

import json
import shlex
import shutil

import numpy as np
import pandas as pd
import pytest

from cases import partitioned
from commands import run, told
from training_commands import FAST, train

# Age, two cities, their average over two hops, that of ones, and 8 columns of the encoder.
WIDTH = 3 + 3 + 1 + 8


def test_from_csv_to_embeddings_keyed_by_the_users_ids(tables):
    code, out, err = train(tables)
    assert code == 0, err
    assert "Trained 3 epochs" in out and f"40 embeddings of width {WIDTH}" in out
    assert err.count("Edges are read as undirected") == 1
    frame = pd.read_parquet(tables / "run" / "embeddings.parquet")
    assert list(frame["id"]) == [f"user {i:02d}" for i in range(40)]
    assert frame.shape == (40, WIDTH + 1)
    results = json.loads((tables / "run" / "results.json").read_text())
    # The label is no feature
    assert results["input"]["features"] == "2 columns: age, city"


@pytest.mark.parametrize("suffix", [".parquet", ".npz", ".csv"])
def test_embed_gives_what_train_saved(tables, suffix):
    train(tables)
    target = tables / f"e{suffix}"
    code, out, err = run(
        "embed",
        tables / "run",
        tables / "edges.csv",
        "--nodes",
        tables / "nodes.csv",
        "--out",
        target,
    )
    assert code == 0, err
    assert f"40 embeddings of width {WIDTH} in {target}" in out
    saved = pd.read_parquet(tables / "run" / "embeddings.parquet").drop(columns="id").to_numpy()
    if suffix == ".npz":
        values = np.load(target)["embeddings"]
    else:
        values = (
            (pd.read_parquet(target) if suffix == ".parquet" else pd.read_csv(target))
            .drop(columns="id")
            .to_numpy()
        )
    np.testing.assert_allclose(values, saved, rtol=1e-5, atol=1e-6)


def test_embed_new_nodes_in_another_order(tables):
    train(tables)
    nodes = pd.read_csv(tables / "nodes.csv").sample(frac=1, random_state=1)
    nodes.to_csv(tables / "shuffled.csv", index=False)
    code, _, err = run(
        "embed",
        tables / "run",
        tables / "edges.csv",
        "--nodes",
        tables / "shuffled.csv",
        "--out",
        tables / "e.parquet",
    )
    assert code == 0, err
    one = pd.read_parquet(tables / "run" / "embeddings.parquet").set_index("id")
    other = pd.read_parquet(tables / "e.parquet").set_index("id").loc[one.index]
    np.testing.assert_allclose(other.to_numpy(), one.to_numpy(), rtol=1e-4, atol=1e-5)


def test_graph_level_from_tables_with_a_graph_column(tmp_path):
    rows = [(g, i, i + 1) for g in ("x", "y", "z") for i in range(4)]
    pd.DataFrame(rows, columns=["graph", "source", "target"]).to_csv(
        tmp_path / "e.csv", index=False
    )
    code, _, err = run(
        "train", tmp_path / "e.csv", "--level", "graph", "--out", tmp_path / "run", *FAST
    )
    assert code == 0, err
    assert pd.read_parquet(tmp_path / "run" / "embeddings.parquet")["graph"].tolist() == [
        "x",
        "y",
        "z",
    ]


def test_several_labels_are_no_features(tables):
    code, _, err = train(tables, "--label", "city")
    assert code == 0, err
    results = json.loads((tables / "run" / "results.json").read_text())
    assert results["input"]["features"] == "1 column: age"
    for command in ("info", "links"):
        options = ["--label", "kind", "--label", "city", *(FAST if command == "links" else ())]
        options += ["--seeds", "1"] if command == "links" else []
        code, out, err = run(
            command,
            tables / "edges.csv",
            "--nodes",
            tables / "nodes.csv",
            *options,
            "--json",
        )
        assert code == 0, err
        facts = json.loads(out)
        assert facts.get("input", facts)["features"] == "1 column: age"


@pytest.mark.parametrize("labels", [[], ["--label", "kind"]])
@pytest.mark.parametrize("drop", [[], ["kind"]])
def test_new_nodes_need_no_label(tables, drop, labels):
    train(tables)
    pd.read_csv(tables / "nodes.csv").drop(columns=drop).to_csv(tables / "new.csv", index=False)
    code, _, err = run(
        "embed",
        tables / "run",
        tables / "edges.csv",
        "--nodes",
        tables / "new.csv",
        "--out",
        tables / "e.parquet",
        *labels,
    )
    assert code == 0, err
    saved = pd.read_parquet(tables / "run" / "embeddings.parquet")
    pd.testing.assert_frame_equal(pd.read_parquet(tables / "e.parquet"), saved)


def test_json_is_one_object_and_quiet_is_quiet(tables):
    code, out, err = train(tables, "--json", "--quiet")
    assert code == 0 and err == ""
    assert json.loads(out)["embedding_dim"] == WIDTH


def test_embed_remembers_the_columns_one_by_one(tables):
    edges = pd.read_csv(tables / "edges.csv").rename(columns={"source": "src", "target": "dst"})
    nodes = pd.read_csv(tables / "nodes.csv").rename(columns={"id": "acct"})
    edges.to_csv(tables / "e2.csv", index=False)
    nodes.to_csv(tables / "n2.csv", index=False)
    names = ["--source", "src", "--target", "dst", "--id", "acct"]
    code, _, err = run(
        "train",
        tables / "e2.csv",
        "--nodes",
        tables / "n2.csv",
        "--label",
        "kind",
        "--out",
        tables / "run",
        *names,
        *FAST,
    )
    assert code == 0, err
    for i, more in enumerate(([], ["--label", "kind"])):
        code, _, err = run(
            "embed",
            tables / "run",
            tables / "e2.csv",
            "--nodes",
            tables / "n2.csv",
            "--out",
            tables / f"{i}.csv",
            *more,
        )
        assert code == 0, err
    usual = ["--source", "source", "--target", "target", "--id", "id"]
    code, _, err = run(
        "embed",
        tables / "run",
        tables / "edges.csv",
        "--nodes",
        tables / "nodes.csv",
        "--out",
        tables / "3.csv",
        *usual,
    )
    assert code == 0, err


def test_settings_from_a_file_and_over_it(tables):
    (tables / "c.toml").write_text("[settings]\nepochs = 9\nhidden_dim = 4\nalpha = 1.5\n")
    code, _, err = run(
        "train",
        tables / "edges.csv",
        "--out",
        tables / "run",
        "--config",
        tables / "c.toml",
        "--set",
        "epochs=2",
    )
    assert code == 0, err
    text = (tables / "run" / "config.toml").read_text()
    assert "epochs = 2" in text and "hidden_dim = 4" in text and "alpha = 1.5" in text
    again = run(
        "train",
        tables / "edges.csv",
        "--out",
        tables / "again",
        "--config",
        tables / "run" / "config.toml",
    )
    assert again[0] == 0, again[2]
    assert (tables / "again" / "model.safetensors").read_bytes() == (
        tables / "run" / "model.safetensors"
    ).read_bytes()


def test_a_runs_config_also_says_how_its_input_was_read(tables):
    """The label of the first run is not a feature of the second, though nobody names it again."""
    assert train(tables)[0] == 0
    edges, nodes = tables / "edges.csv", tables / "nodes.csv"
    words = ["train", edges, "--nodes", nodes, "--config", tables / "run" / "config.toml"]
    code, _, err = run(*words, "--out", tables / "again")
    assert code == 0, err
    results = json.loads((tables / "again" / "results.json").read_text())
    assert results["input"]["features"] == "2 columns: age, city"
    own = tables / "own.toml"
    own.write_text('method = "dgi"\n[reading]\nlabels = ["churned"]\n')
    code, _, err = run("train", edges, "--config", own, "--out", tables / "third")
    assert code == 2 and "In [reading], 'labels' must be the name of a column" in err


def test_a_config_of_another_method_does_not_resume_a_run(tables):
    assert train(tables)[0] == 0
    (tables / "run" / "manifest.json").unlink()
    other = tables / "other.toml"
    other.write_text('method = "dgi"\n')
    words = ["train", tables / "edges.csv", "--config", other, "--out", tables / "run", "--resume"]
    code, _, err = run(*words)
    assert code == 2 and "is a run of method 'lagraph'; --method dgi does not fit" in err


def test_coordinates_of_an_edge_table(tables):
    out = tables / "coordinates"
    arguments = ["--set", "structure=auto", "--set", "structure_dim=4", *FAST]
    code, _, err = run("train", tables / "edges.csv", "--out", out, *arguments)
    assert code == 0, err
    assert "features: none (coordinates computed from the edges will be used)" in err
    assert (out / "coordinates.safetensors").is_file()
    code, _, err = run("embed", out, tables / "edges.csv", "--out", tables / "again.parquet")
    assert code == 0, err
    saved = pd.read_parquet(out / "embeddings.parquet")
    pd.testing.assert_frame_equal(pd.read_parquet(tables / "again.parquet"), saved)


def test_coordinates_are_announced_and_missed_in_another_graph(tmp_path):
    graph = partitioned(0.8)
    names = np.array([f"n{i}" for i in range(graph.num_nodes)])
    nodes = pd.DataFrame({"id": names, "age": np.random.default_rng(0).normal(size=len(names))})
    edges = pd.DataFrame(names[graph.edge_index.numpy().T], columns=["source", "target"])
    for name, prefix in (("own", ""), ("other", "m")):
        for table, columns in ((edges, ["source", "target"]), (nodes, ["id"])):
            renamed = table.assign(**{c: prefix + table[c] for c in columns})
            renamed.to_csv(tmp_path / f"{name}-{len(columns)}.csv", index=False)
    own, other = (
        [tmp_path / f"{name}-2.csv", "--nodes", tmp_path / f"{name}-1.csv"]
        for name in ("own", "other")
    )
    code, out, err = run("train", *own, "--out", tmp_path / "run", *FAST)
    assert code == 0, err
    assert "contain coordinates computed from the edges" in out and "structure=none" in out
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["coordinates"] == 128
    code, _, err = run("embed", tmp_path / "run", *own, "--out", tmp_path / "a.parquet")
    assert code == 0 and "fitted edges" not in err
    code, _, err = run("embed", tmp_path / "run", *other, "--out", tmp_path / "b.parquet")
    assert code == 0 and "lack what the model knows of the fitted edges" in err
    assert np.isfinite(pd.read_parquet(tmp_path / "b.parquet").drop(columns="id")).all(axis=None)


def test_the_last_lines_name_the_probe_of_the_labels_with_the_users_files(tables):
    shutil.move(tables / "nodes.csv", tables / "my nodes.csv")
    words = ["train", tables / "edges.csv", "--nodes", tables / "my nodes.csv", *FAST]
    _, out, _ = run(*words, "--label", "kind", "--out", tables / "run")
    (line,) = [line for line in out.splitlines() if line.startswith("What they know")]
    program, *command = shlex.split(line.split(": ", 1)[1])
    assert program == "graphlatent" and command[:2] == ["probe", str(tables / "run")]
    assert told(*command, "--seeds", 1)["labels"] == str(tables / "my nodes.csv")
    # One probe does not take two columns of classes, but several of 0 and 1.
    frame = pd.read_csv(tables / "my nodes.csv").assign(old=lambda t: (t["age"] > 40).astype(int))
    frame.assign(young=1 - frame["old"]).to_csv(tables / "my nodes.csv", index=False)
    for first, second, named in (("kind", "city", 1), ("old", "young", 2)):
        two = ("--label", first, "--label", second, "--overwrite")
        _, out, _ = run(*words, *two, "--out", tables / "run")
        (line,) = [line for line in out.splitlines() if line.startswith("What they know")]
        _, *command = shlex.split(line.split(": ", 1)[1])
        assert command.count("--label") == named and command[5] == first
        assert told(*command, "--seeds", 1)["embeddings"]
    _, out, _ = run(*words, "--out", tables / "other")
    assert "probe" not in out
