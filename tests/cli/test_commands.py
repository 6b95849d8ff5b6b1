"""The command line in real processes where signals and exit codes matter, in this process where
they do not.
"""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from commands import run
from graphlatent import __version__

FAST = ["--set", "epochs=3", "--set", "hidden_dim=8", "--set", "device=cpu"]


def fails(*args: object) -> str:
    """The message of a command that must fail as a user error: exit code 2, no traceback, at most
    two lines.
    """
    code, _, err = run(*args)
    lines = [line for line in err.splitlines() if not line.startswith("note:")]
    assert code == 2, err
    assert "Traceback" not in err
    assert len(lines) <= 2 and lines[0].startswith("error: "), err
    return err


@pytest.fixture
def tables(tmp_path) -> Path:
    rng = np.random.default_rng(0)
    names = [f"user {i:02d}" for i in range(40)]
    edges = pd.DataFrame(
        {
            "source": rng.choice(names, 150),
            "target": rng.choice(names, 150),
            "weight": rng.integers(1, 9, 150),
        }
    )
    nodes = pd.DataFrame(
        {
            "id": names,
            "age": rng.integers(18, 80, 40),
            "city": rng.choice(["Oslo", "Rome"], 40),
            "kind": ["a", "b"] * 20,
        }
    )
    edges.to_csv(tmp_path / "edges.csv", index=False)
    nodes.to_csv(tmp_path / "nodes.csv", index=False)
    return tmp_path


def train(tables: Path, *more: object, out: str = "run") -> tuple[int, str, str]:
    return run(
        "train",
        tables / "edges.csv",
        "--nodes",
        tables / "nodes.csv",
        "--label",
        "kind",
        "--out",
        tables / out,
        *FAST,
        *more,
    )


class TestTrainAndEmbed:
    def test_from_csv_to_embeddings_keyed_by_the_users_ids(self, tables):
        code, out, err = train(tables)
        assert code == 0, err
        assert "Trained 3 epochs" in out and "40 embeddings of width 8" in out
        assert err.count("read in both directions") == 1  # said once
        frame = pd.read_parquet(tables / "run" / "embeddings.parquet")
        assert list(frame["id"]) == [f"user {i:02d}" for i in range(40)]
        assert frame.shape == (40, 9)
        results = json.loads((tables / "run" / "results.json").read_text())
        assert results["input"]["features"] == "2 columns: age, city"  # the label is no feature

    @pytest.mark.parametrize("suffix", [".parquet", ".npz", ".csv"])
    def test_embed_gives_what_train_saved(self, tables, suffix):
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
        assert f"40 embeddings of width 8 in {target}" in out
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

    def test_embed_new_nodes_in_another_order(self, tables):
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

    def test_graph_level_from_tables_with_a_graph_column(self, tmp_path):
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

    def test_several_labels_are_no_features(self, tables):
        code, _, err = train(tables, "--label", "city")
        assert code == 0, err
        results = json.loads((tables / "run" / "results.json").read_text())
        assert results["input"]["features"] == "1 columns: age"
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
            assert facts.get("input", facts)["features"] == "1 columns: age"

    @pytest.mark.parametrize("labels", [[], ["--label", "kind"]])
    @pytest.mark.parametrize("drop", [[], ["kind"]])
    def test_new_nodes_need_no_label(self, tables, drop, labels):
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

    def test_json_is_one_object_and_quiet_is_quiet(self, tables):
        code, out, err = train(tables, "--json", "--quiet")
        assert code == 0 and err == ""
        assert json.loads(out)["embedding_dim"] == 8

    def test_embed_remembers_the_columns_one_by_one(self, tables):
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

    def test_settings_from_a_file_and_over_it(self, tables):
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


class TestInfo:
    def test_of_an_input(self, tables):
        code, out, err = run(
            "info", tables / "edges.csv", "--nodes", tables / "nodes.csv", "--json"
        )
        facts = json.loads(out)
        assert code == 0 and err == ""
        assert (
            facts["nodes"] == 40
            and facts["weighted"] is True
            and facts["features"] == "3 columns: age, city, kind"
        )
        assert any("had no reverse" in note for note in facts["notes"]) and facts["problems"] == []

    def test_edge_columns_that_are_not_used_are_named(self, tables):
        edges = pd.read_csv(tables / "edges.csv")
        edges.assign(amount=1.5, day="Monday").to_csv(tables / "more.csv", index=False)
        note = "edge columns that are not used: 'amount', 'day'"
        (found,) = [
            text
            for text in json.loads(run("info", tables / "more.csv", "--json")[1])["notes"]
            if note in text
        ]
        _, _, err = run("train", tables / "more.csv", "--out", tables / "run", *FAST)
        assert f"note: {found}\n" in err
        chosen = ["--weight", "amount", "--out", tables / "run", "--overwrite"]
        _, _, err = run("train", tables / "more.csv", *chosen, *FAST)
        assert "edge columns that are not used: 'weight', 'day'" in err

    def test_problems_are_found(self, tables):
        nodes, edges = pd.read_csv(tables / "nodes.csv"), pd.read_csv(tables / "edges.csv")
        nodes.loc[3, "age"] = np.nan
        edges.loc[0, "weight"] = -1
        nodes.to_csv(tables / "bad.csv", index=False)
        edges.to_csv(tables / "worse.csv", index=False)
        problems = json.loads(
            run("info", tables / "worse.csv", "--nodes", tables / "bad.csv", "--json")[1]
        )["problems"]
        assert len(problems) == 2 and "age" in problems[0] and "negative" in problems[1]

    def test_of_a_run(self, tables):
        train(tables)
        code, out, _ = run("info", tables / "run")
        assert code == 0 and "epochs done" in out and "hidden_dim=8" in out
        (tables / "run" / "model.safetensors").write_bytes(b"x")
        assert "is not as it was saved" in fails("info", tables / "run")

    def test_settings_and_data(self):
        assert "mask_ratio = 0.05" in run("settings")[1]
        assert "batch_size = 128" in run("settings", "--level", "graph")[1]
        assert json.loads(run("settings", "--json")[1])["alpha"]["default"] == 2.0
        assert len(json.loads(run("data", "list", "--json")[1])["datasets"]) == 15
        assert "NCI1" in run("data", "list")[1]

    def test_version(self):
        assert run("--version")[1].strip() == f"graphlatent {__version__}"


class TestMistakes:
    def test_settings(self, tables):
        edges = tables / "edges.csv"
        cases = {
            "epocs=3": "Unknown setting 'epocs' in --set. Did you mean 'epochs'?",
            "epochs": "A setting is written key=value",
            "epochs=many": (
                "The 'epochs' parameter of NodeLaGraph must be an int in the range [0, inf). Got"
                " 'many' instead."
            ),
            "mask_ratio=0": (
                "The 'mask_ratio' parameter of NodeLaGraph must be a float in the range (0, 1]. Got"
                " 0.0 instead."
            ),
            "alpha=-2": (
                "The 'alpha' parameter of NodeLaGraph must be a float in the range [0, inf). Got"
                " -2.0 instead."
            ),
            "epochs=-1": (
                "The 'epochs' parameter of NodeLaGraph must be an int in the range [0, inf). Got -1"
                " instead."
            ),
        }
        for text, message in cases.items():
            assert message in fails("train", edges, "--out", tables / "run", "--set", text)
        assert not (tables / "run").exists()

    def test_level(self, tables):
        assert "must be 'node' or 'graph'. Got 'edge'" in fails(
            "train", tables / "edges.csv", "--out", tables / "r", "--level", "edge"
        )

    def test_inputs(self, tables):
        out = ["--out", tables / "run"]
        (tables / "empty.csv").write_text("")
        (tables / "cut.parquet").write_bytes(b"PAR1 cut off")
        (tables / "table.xlsx").write_bytes(b"PK")
        assert "neither an existing file" in fails("train", tables / "nosuch.csv", *out)
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

    def test_an_existing_run_is_safe(self, tables):
        train(tables)
        before = {p.name: p.read_bytes() for p in (tables / "run").iterdir() if p.is_file()}
        assert "exists already" in train(tables)[2]
        code, _, err = run("train", tables / "nosuch.csv", "--out", tables / "run", "--overwrite")
        assert code == 2 and "neither an existing file" in err
        assert before == {p.name: p.read_bytes() for p in (tables / "run").iterdir() if p.is_file()}
        assert train(tables, "--overwrite", "--set", "epochs=1")[0] == 0
        assert "epochs = 1" in (tables / "run" / "config.toml").read_text()

    def test_what_fails_with_overwrite_leaves_the_old_run(self, tables):
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

    def test_a_folder_that_is_no_run_is_not_replaced(self, tables):
        assert "is not a run folder, so it is not replaced" in fails(
            "train", tables / "edges.csv", "--out", tables, "--overwrite", *FAST
        )

    def test_a_named_graph_column_must_be_there(self, tables):
        text = fails(
            "train", tables / "edges.csv", "--graph-column", "grp", "--out", tables / "run", *FAST
        )
        assert "there is no column 'grp'" in text and "source, target, weight" in text

    def test_out_of_memory(self, tables):
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
        assert "error: Out of memory. Try" in fails(*arguments)

    def test_a_checkpoint_of_another_shape(self, tables):
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

    def test_a_path_that_cannot_be_written(self, tables):
        assert "Cannot write" in fails(
            "train", tables / "edges.csv", "--out", tables / "edges.csv" / "run", *FAST
        )

    def test_embed(self, tables):
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

    def test_resume(self, tables):
        assert "There is no run to resume" in train(tables, "--resume")[2]
        train(tables)
        assert "is complete; there is nothing to resume" in train(tables, "--resume")[2]

    def test_debug_shows_the_traceback(self, tables):
        code, _, err = run("train", tables / "nosuch.csv", "--out", tables / "run", "--debug")
        assert code == 2 and "Traceback" in err and "error: " in err


@pytest.mark.slow
class TestSignals:
    ARGUMENTS = (
        "--set",
        "epochs=400",
        "--set",
        "hidden_dim=64",
        "--set",
        "device=cpu",
        "--save-every",
        "0.2",
    )

    def start(self, tables: Path, *more: str, out: str = "run", **options) -> subprocess.Popen[str]:
        command = [
            sys.executable,
            "-m",
            "graphlatent",
            "train",
            str(tables / "edges.csv"),
            "--out",
            str(tables / out),
            *self.ARGUMENTS,
            *more,
        ]
        return subprocess.Popen(
            command, text=True, stderr=subprocess.PIPE, stdout=subprocess.PIPE, **options
        )

    def wait_for_state(self, folder: Path) -> None:
        deadline = time.monotonic() + 60
        while not (folder / "state" / "last.safetensors").exists():
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def test_ctrl_c_saves_and_the_resumed_run_has_the_same_bits(self, tables):
        process = self.start(tables)
        self.wait_for_state(tables / "run")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 130, err
        assert (
            "Stopped after epoch" in err
            and "Go on with the same command and --resume" in err
            and "Traceback" not in err
        )
        changed = self.start(tables, "--resume", "--set", "alpha=9")
        assert (
            "alpha: 2.0 in the run, 9.0 now" in changed.communicate(timeout=60)[1]
            and changed.returncode == 2
        )
        resumed, whole = self.start(tables, "--resume"), self.start(tables, out="whole")
        for other in (resumed, whole):
            assert other.communicate(timeout=120) and other.returncode == 0
        for name in ("model.safetensors", "history.csv", "embeddings.parquet"):
            assert (tables / "run" / name).read_bytes() == (tables / "whole" / name).read_bytes(), (
                name
            )

    def test_a_killed_run_goes_on(self, tables):
        process = self.start(tables)
        self.wait_for_state(tables / "run")
        process.kill()
        process.communicate()
        unfinished = subprocess.run(
            [sys.executable, "-m", "graphlatent", "info", str(tables / "run"), "--json"],
            capture_output=True,
            text=True,
            check=True,
        )
        assert json.loads(unfinished.stdout)["complete"] is False
        resumed = self.start(tables, "--resume")
        assert resumed.communicate(timeout=120) and resumed.returncode == 0
        assert json.loads((tables / "run" / "results.json").read_text())["epochs"] == 400

    def test_a_terminal_sees_a_bar_with_terms_and_time_left(self, tables):
        leader, follower = pty.openpty()
        command = [
            sys.executable,
            "-m",
            "graphlatent",
            "train",
            str(tables / "edges.csv"),
            "--out",
            str(tables / "run"),
        ]
        command += ["--set", "epochs=1500", "--set", "hidden_dim=64", "--set", "device=cpu"]
        process = subprocess.Popen(
            command,
            stderr=follower,
            stdout=subprocess.DEVNULL,
            env={**os.environ, "COLUMNS": "120", "TERM": "xterm"},
        )
        os.close(follower)
        shown = b""
        try:
            while chunk := os.read(leader, 65536):
                shown += chunk
        except OSError:  # the other end was closed
            pass
        assert process.wait() == 0
        text = shown.decode(errors="replace")
        assert "training" in text and "rec " in text and "inv " in text and "1500/1500" in text


class TestDemo:
    @pytest.mark.slow
    def test_it_ends_with_embeddings_scores_and_pictures(self, tmp_path):
        code, out, err = run("demo", "--out", tmp_path / "demo", "--json")
        assert code == 0, err
        scores = json.loads(out)
        for level in ("node", "graph"):
            table = {name: row["mean"] for name, row in scores[level].items()}
            assert set(table) == {
                "raw features",
                "propagated features",
                "random-initialised encoder",
                "LaGraph",
            }
            # Quality gate on data that is always at hand
            assert table["LaGraph"] > table["raw features"] + 0.1
            assert table["LaGraph"] > table["random-initialised encoder"]
            for name in ("map.png", "loss.png"):
                assert (tmp_path / "demo" / level / name).read_bytes().startswith(b"\x89PNG")
            assert (
                len(pd.read_parquet(tmp_path / "demo" / level / "embeddings.parquet"))
                == {"node": 1500, "graph": 300}[level]
            )
        distance = scores["distance_to_latent_features"]
        # The latent features are predicted far better than they are observed
        assert distance["predicted"] < distance["observed"] / 4
        assert "exists already" in fails("demo", "--out", tmp_path / "demo")
