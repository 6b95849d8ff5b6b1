"""Mistakes of users: one sentence, exit code 2, nothing lost."""

from __future__ import annotations

import numpy as np
import pandas as pd

from commands import fails, run
from graphlatent import config, setting_types
from training_commands import FAST, train


def test_settings(tables):
    edges = tables / "edges.csv"
    cases = {
        "epocs=3": "Unknown setting 'epocs' in --set. Did you mean 'epochs'?",
        "epochs": "A setting is written key=value",
        "epochs=many": (
            "The setting 'epochs' must be an int in the range [0, inf). Got 'many' instead."
        ),
        "mask_ratio=0": (
            "The setting 'mask_ratio' must be a float in the range (0, 1]. Got 0.0 instead."
        ),
        "alpha=-2": (
            "The setting 'alpha' must be a float in the range [0, inf). Got -2.0 instead."
        ),
        "epochs=-1": ("The setting 'epochs' must be an int in the range [0, inf). Got -1 instead."),
    }
    for text, message in cases.items():
        assert message in fails("train", edges, "--out", tables / "run", "--set", text)
    assert not (tables / "run").exists()


def test_level(tables):
    assert "must be 'node' or 'graph'. Got 'edge'" in fails(
        "train", tables / "edges.csv", "--out", tables / "r", "--level", "edge"
    )


def test_inputs(tables):
    out = ["--out", tables / "run"]
    (tables / "empty.csv").write_text("")
    (tables / "cut.parquet").write_bytes(b"PAR1 cut off")
    (tables / "table.xlsx").write_bytes(b"PK")
    assert "There is no file" in fails("train", tables / "nosuch.csv", *out)
    assert "empty.csv" in fails("train", tables / "empty.csv", *out)
    assert "cut.parquet" in fails("train", tables / "cut.parquet", *out)
    assert ".xlsx" in fails("train", tables / "table.xlsx", *out)
    assert "from" in fails("train", tables / "edges.csv", "--source", "from", *out)
    assert "ages" in fails(
        "train",
        tables / "edges.csv",
        "--nodes",
        tables / "nodes.csv",
        "--features",
        "ages",
        *out,
    )
    assert not (tables / "run").exists()


def test_an_existing_run_is_safe(tables):
    train(tables)
    before = {p.name: p.read_bytes() for p in (tables / "run").iterdir() if p.is_file()}
    assert "exists already" in train(tables)[2]
    code, _, err = run("train", tables / "nosuch.csv", "--out", tables / "run", "--overwrite")
    assert code == 2 and "There is no file" in err
    assert before == {p.name: p.read_bytes() for p in (tables / "run").iterdir() if p.is_file()}
    assert train(tables, "--overwrite", "--set", "epochs=1")[0] == 0
    assert "epochs = 1" in (tables / "run" / "config.toml").read_text()


def test_what_fails_with_overwrite_leaves_the_old_run(tables):
    train(tables)
    before = {p.name: p.read_bytes() for p in (tables / "run").iterdir() if p.is_file()}
    nodes = pd.read_csv(tables / "nodes.csv")
    nodes.loc[3, "age"] = np.nan
    nodes.to_csv(tables / "bad.csv", index=False)
    arguments = ["train", tables / "edges.csv", "--out", tables / "run", "--overwrite", *FAST]
    assert "age" in fails(*arguments, "--nodes", tables / "bad.csv", "--label", "kind")
    assert "ce-embed" in fails(
        *arguments, "--nodes", tables / "nodes.csv", "--set", "objective=ce-embed"
    )
    assert before == {p.name: p.read_bytes() for p in (tables / "run").iterdir() if p.is_file()}
    assert "Give one of them" in fails(*arguments, "--resume")


def test_a_folder_that_is_no_run_is_not_replaced(tables):
    assert "is not a run folder, so it is not replaced" in fails(
        "train", tables / "edges.csv", "--out", tables, "--overwrite", *FAST
    )


def test_a_named_graph_column_must_be_there(tables):
    text = fails(
        "train", tables / "edges.csv", "--graph-column", "grp", "--out", tables / "run", *FAST
    )
    assert "there is no column 'grp'" in text and "'source', 'target', 'weight'" in text


def test_settings_that_fit_no_machine(tables):
    options = ["--out", tables / "run", "--set", "device=cpu", "--set"]
    for text, message in {
        "hidden_dim=2000000000": (
            "hidden_dim=2,000,000,000 and num_layers=2 of NodeLaGraph need 14,901,161,201 GiB for"
        ),
        "num_layers=10000000": "must be an int in the range [1, 10000]. Got 10000000 instead.",
        "decoder_layers=10000000": "must be an int in the range [1, 10000]. Got 10000000 instead.",
        f"epochs={10**30}": (
            f"must be an int in the range [0, inf), and at most 2,147,483,647. Got {10**30} in"
        ),
        f"epochs={'9' * 4301}": "... (4,303 characters) instead.",
        "lr=1e20": "must be a float in the range (0, inf), and at most 1e+18. Got 1e+20 instead.",
        "hidden_dim=1e400": "must be an int in the range [1, inf). Got '1e400' instead.",
        "lr=1e400": "must be a float in the range (0, inf). Got inf instead.",
    }.items():
        assert message in fails("train", tables / "edges.csv", *options, text)
    assert not (tables / "run").exists()


def test_out_of_memory(tables, monkeypatch):
    monkeypatch.setattr(config, "refuse_too_large", lambda *_, owner: None)
    monkeypatch.setattr(setting_types, "LARGEST_INT", 10**12)
    arguments = [
        "train",
        tables / "edges.csv",
        "--out",
        tables / "run",
        "--set",
        "hidden_dim=100000000000",
        "--set",
        "device=cpu",
    ]
    assert "Out of memory. Try" in fails(*arguments)


def test_a_checkpoint_of_another_shape(tables):
    train(tables)
    (tables / "run" / "manifest.json").unlink()
    (tables / "run" / "state").mkdir()
    (tables / "run" / "state" / "last.safetensors").write_bytes(
        (tables / "run" / "model.safetensors").read_bytes()
    )
    arguments = [
        "train",
        tables / "edges.csv",
        "--nodes",
        tables / "nodes.csv",
        "--label",
        "kind",
        "--out",
        tables / "run",
        "--resume",
    ]
    assert "does not fit its settings. Start again with --overwrite" in fails(*arguments)


def test_a_path_that_cannot_be_written(tables):
    assert "Cannot write" in fails(
        "train", tables / "edges.csv", "--out", tables / "edges.csv" / "run", *FAST
    )


def test_embed(tables):
    train(tables)
    arguments = ["embed", tables / "run", tables / "edges.csv"]
    assert "Embeddings are written as" in fails(*arguments, "--out", tables / "e.txt")
    (tables / "e.csv").write_text("mine")
    assert "exists already" in fails(*arguments, "--out", tables / "e.csv")
    assert (tables / "e.csv").read_text() == "mine"
    # Fitted on columns, none given now
    assert "columns" in fails(*arguments, "--out", tables / "e.parquet")
    assert "is not a run folder" in fails(
        "embed", tables / "nosuch", tables / "edges.csv", "--out", tables / "e.parquet"
    )


def test_resume(tables):
    assert "There is no run to resume" in train(tables, "--resume")[2]
    train(tables)
    assert "is complete; there is nothing to resume" in train(tables, "--resume")[2]


def test_debug_shows_the_traceback(tables):
    code, _, err = run("train", tables / "nosuch.csv", "--out", tables / "run", "--debug")
    assert code == 2 and "Traceback" in err and "error: " in err
