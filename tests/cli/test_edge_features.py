"""Edge features by command: train, embed, resume, probe, what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from commands import fails, run
from graphlatent import load_estimator, read_graphs

pytestmark = pytest.mark.filterwarnings("ignore::graphlatent.errors.GraphLatentWarning")
SETTINGS = ("--set", "epochs=2", "--set", "hidden_dim=8", "--set", "encoder=gin")


@pytest.fixture
def payments(tmp_path) -> Path:
    rng = np.random.default_rng(0)
    start = np.arange(30)
    columns = {"source": start, "target": (start + 1 + start % 3) % 30}
    kind = rng.choice(["card", "cash"], 30)
    frame = pd.DataFrame({**columns, "kind": kind, "amount": rng.lognormal(size=30), "note": "x"})
    frame.to_csv(tmp_path / "payments.csv", index=False)
    return tmp_path


def train(folder: Path, *more: object) -> tuple[int, str, str]:
    return run("train", folder / "payments.csv", "--out", folder / "run", *SETTINGS, *more)


def test_a_run_keeps_which_columns_are_edge_features(payments):
    code, _, err = train(payments, "--edge-features", "kind, amount")
    assert code == 0, err
    assert "edge columns not used: note." in err.replace("\n", " ")
    assert 'edge_features = ["kind", "amount"]' in (payments / "run" / "config.toml").read_text()
    estimator = load_estimator(payments / "run")
    assert [column.name for column in estimator.features_.edges] == ["kind", "amount"]
    code, _, err = run(
        "embed", payments / "run", payments / "payments.csv", "--out", payments / "e.npz"
    )
    assert code == 0, err
    graph = read_graphs(payments / "payments.csv", edge_features=["kind", "amount"])
    with np.load(payments / "e.npz") as file:
        np.testing.assert_array_equal(file["embeddings"], estimator.transform(graph))


def test_a_new_table_without_the_columns_is_refused(payments):
    assert train(payments, "--edge-features", "kind")[0] == 0
    frame = pd.read_csv(payments / "payments.csv").drop(columns="kind")
    frame.to_csv(payments / "new.csv", index=False)
    message = fails("embed", payments / "run", payments / "new.csv", "--out", payments / "e.npz")
    assert "there is no column 'kind' (--edge-features)" in message


def test_a_gcn_is_refused_before_training(payments):
    message = fails(
        "train",
        payments / "payments.csv",
        "--out",
        payments / "run",
        "--edge-features",
        "kind",
        "--set",
        "encoder=gcn",
    )
    assert message.startswith(
        "--set encoder=gcn does not use edge features. Use --set encoder=gin, or read the graph"
        " without them (--edge-features '')."
    )
    assert not (payments / "run" / "config.toml").exists()


def test_info_names_the_edge_features(payments):
    code, out, err = run("info", payments / "payments.csv", "--edge-features", "kind,amount")
    assert code == 0, err
    assert "edge features" in out and "kind, amount" in out
