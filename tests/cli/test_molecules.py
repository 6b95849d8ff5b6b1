"""Molecules by command: train, embed new ones, probe, resume, what is refused."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from commands import fails, run, told
from graphlatent import load_estimator

pytest.importorskip("rdkit")
SETTINGS = ("--set", "epochs=2", "--set", "hidden_dim=8")
CHAINS = ["C" * n + end for n in range(2, 8) for end in ("O", "N", "Cl", "=O", "#N")]


@pytest.fixture
def folder(tmp_path) -> Path:
    frame = pd.DataFrame({"smiles": CHAINS, "polar": [i % 5 != 2 for i in range(len(CHAINS))]})
    frame["polar"] = frame["polar"].astype(int)
    frame.to_csv(tmp_path / "molecules.csv", index=False)
    new = pd.DataFrame({"smiles": ["c1ccccc1", "bad(", "CCS"], "id": ["x", "y", "z"]})
    new.to_csv(tmp_path / "new.csv", index=False)
    return tmp_path


def train(folder: Path, *more: object) -> tuple[int, str, str]:
    command = ("train", folder / "molecules.csv", "--smiles", "smiles", "--label", "polar")
    return run(*command, "--out", folder / "run", *SETTINGS, *more)


def test_molecules_are_embedded_as_graphs(folder):
    code, out, err = train(folder)
    assert code == 0, err
    assert "30 embeddings" in out and "edge features: bond=SINGLE" in err
    assert load_estimator(folder / "run").level == "graph"
    result = told(
        "probe",
        folder / "run",
        "--labels",
        folder / "molecules.csv",
        "--label",
        "polar",
        "--train",
        "0.4",
        "--val",
        "0.2",
    )
    assert result["rows"] == 30


def test_new_molecules_by_the_same_run(folder):
    assert train(folder)[0] == 0
    out = folder / "new.parquet"
    message = fails("embed", folder / "run", folder / "new.csv", "--out", out)
    assert "1 of 3 rows have no valid SMILES" in message and "row 2 (line 3" in message
    code, _, err = run(
        "embed", folder / "run", folder / "new.csv", "--out", out, "--invalid", "skip"
    )
    assert code == 0, err
    assert "are skipped: row 2" in err
    assert pd.read_parquet(out)["graph"].tolist() == ["x", "z"]


def test_skipped_rows_keep_their_labels_in_a_probe(folder):
    frame = pd.read_csv(folder / "molecules.csv")
    frame.loc[3, "smiles"] = "C(C"
    frame.to_csv(folder / "molecules.csv", index=False)
    assert "1 of 30 rows" in fails(
        "train", folder / "molecules.csv", "--smiles", "smiles", "--out", folder / "no"
    )
    assert train(folder, "--invalid", "skip")[0] == 0
    ids = pd.read_parquet(folder / "run" / "embeddings.parquet")["graph"].tolist()
    assert ids == [i for i in range(30) if i != 3]
    options = ("--label", "polar", "--train", "0.4", "--val", "0.2")
    result = told("probe", folder / "run", "--labels", folder / "molecules.csv", *options)
    assert result["rows"] == 29
    kept = frame.drop(index=3)
    assert result["sizes"] == {str(k): int(v) for k, v in kept["polar"].value_counts().items()}


def test_a_gcn_says_that_it_cannot_use_bonds(folder):
    command = ("train", folder / "molecules.csv", "--smiles", "smiles", "--out", folder / "run")
    gcn = ("--set", "encoder=gcn", *SETTINGS)
    assert "--set encoder=gcn does not use edge features" in fails(*command, *gcn)
    code, _, err = run(*command, *gcn, "--edge-features", "")
    assert code == 0, err


def test_resuming_a_finished_run_reads_the_molecules_again(folder):
    assert train(folder)[0] == 0
    (folder / "run" / "embeddings.parquet").unlink()
    code, out, err = run(
        "train", folder / "molecules.csv", "--out", folder / "run", "--resume", *SETTINGS
    )
    assert code == 0, err
    assert "30 embeddings" in out


def test_info_describes_molecules(folder):
    facts = told("info", folder / "molecules.csv", "--smiles", "smiles")
    assert facts["graphs"] == 30 and facts["edge_features"].startswith("bond=SINGLE")
