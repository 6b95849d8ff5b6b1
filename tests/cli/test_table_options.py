"""Tables as people have them, from the command line: what is asked for in training holds later."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from commands import fails, run
from training_commands import FAST


@pytest.fixture
def people(tmp_path):
    """Edges, and nodes with columns of every kind, in a table with semicolons and in latin-1."""
    rng = np.random.default_rng(0)
    size = 120
    nodes = pd.DataFrame(
        {
            "key": range(size),
            "name": [f"person {i}" for i in range(size)],
            "age": np.where(np.arange(size) % 7 == 0, np.nan, rng.integers(18, 80, size)),
            "town": ["Zürich", "Bern", "Genève"] * 40,
            "zip": ["01010", "1010", "8000", "8001"] * 30,
            "since": pd.date_range("2020-01-01", periods=size).strftime("%Y-%m-%d"),
            "about": [f"sells {rng.choice(['cars', 'boats'])} {i}" for i in range(size)],
        }
    )
    edges = pd.DataFrame(rng.integers(0, size, (300, 2)))
    edges.to_csv(tmp_path / "e.txt", sep=" ", index=False, header=False)
    nodes.to_csv(tmp_path / "nodes.csv", sep=";", index=False, encoding="latin-1")
    return tmp_path


def columns_of(folder):
    return json.loads((folder / "features.json").read_text())["columns"]


def test_options_of_training_hold_for_new_tables(people):
    pd.DataFrame({"source": [0, 1], "target": [1, 2]}).to_csv(people / "e.csv", index=False)
    reading = ["--nodes", people / "nodes.csv", "--id", "key", "--encoding", "latin-1"]
    asked = ["--drop", "name", "--impute", "median", "--hash", "about", "--text", "zip"]
    train = ["train", people / "e.csv", *reading, *asked, "--out", people / "run", *FAST]
    code, _, err = run(*train, "--set", "structure=none")
    assert code == 0, err
    for said in (
        "note: nodes (nodes.csv): cells are split at ';'",
        "note: Dates are used as numbers, in days since 1970-01-01 (UTC): 'since'.",
        "note: Missing numbers are filled with the median: 'age' (18).",
        "note: The words of text are hashed into 256 features for each column: 'about'.",
    ):
        assert err.count(said) >= 1, err
    kinds = {column["name"]: column["kind"] for column in columns_of(people / "run")}
    assert kinds == {
        "age": "numeric",
        "town": "categorical",
        "zip": "categorical",
        "since": "date",
        "about": "hashed",
    }
    # New people: other columns, an unknown town, a missing age, and only short codes.
    new = pd.DataFrame(
        {
            "key": [500, 501],
            "age": [np.nan, 30],
            "town": ["Bern", "Uster"],
            "zip": ["01010"] * 2,
            "since": ["2024-01-01"] * 2,
            "about": ["sells trains", ""],
            "vip": [1, 0],
        }
    )
    new.to_csv(people / "new.csv", sep=";", index=False, encoding="latin-1")
    pd.DataFrame({"source": [500], "target": [501]}).to_csv(people / "new_edges.csv", index=False)
    embed = ["embed", people / "run", people / "new_edges.csv", "--nodes", people / "new.csv"]
    embed += ["--out", people / "new.parquet", "--overwrite"]
    assert "'Uster' in row 1 (from 0), node 501, a value it never held" in fails(*embed)
    code, out, err = run(*embed, "--unknown", "ignore")
    assert code == 0 and out.startswith("2 embeddings"), err
    assert "note: Columns that are not used, since the model was not fitted on them: 'vip'." in err
    assert "when the model was fitted: 'Uster'. There, none of its categories is set." in err
    assert "was not fitted on: 'vip'. Leave them out" in fails(*embed, "--unknown", "error")
    assert "needs a new model" in fails(*embed, "--impute", "mean")
    new.drop(columns="age").to_csv(people / "new.csv", sep=";", index=False, encoding="latin-1")
    message = fails(*embed, "--unknown", "ignore")
    assert "Missing: 'age'; not used: 'vip'. Add the missing columns" in message


def test_codes_stay_text_where_all_of_them_look_like_numbers(people):
    edges = pd.DataFrame({"source": [0, 1, 2], "target": [1, 2, 0]})
    edges.to_csv(people / "e.csv", index=False)
    nodes = pd.DataFrame({"id": [0, 1, 2], "house": ["007", "2b", "7"], "a": [1, 2, 4]})
    nodes.to_csv(people / "n.csv", index=False)
    tables = ["--nodes", people / "n.csv"]
    code, _, err = run("train", people / "e.csv", *tables, "--out", people / "run", *FAST)
    assert code == 0, err
    embed = ["embed", people / "run", people / "e.csv", *tables, "--out", people / "o.csv", "-q"]
    code, _, err = run(*embed)
    first = pd.read_csv(people / "o.csv")
    nodes.assign(house=["007", "7", "7"]).to_csv(people / "n.csv", index=False)
    code, _, err = run(*embed, "--overwrite")
    # Read as numbers, '007' would be an unknown category.
    assert (code, err) == (0, "") and len(first) == 3


def test_info_lists_what_columns_become(people):
    command = ["info", people / "e.txt", "--no-header", "--nodes", people / "n.csv"]
    nodes = pd.read_csv(people / "nodes.csv", sep=";", encoding="latin-1")
    nodes.to_csv(people / "n.csv", index=False, header=False)
    facts = json.loads(run(*command, "--json")[1])
    assert facts["nodes"] == 120 and list(facts["columns"]) == ["1", "2", "3", "4", "5", "6"]
    assert facts["columns"]["1"].startswith("refused. Column '1' holds text with 120 different")
    assert facts["columns"]["3"] == "one-hot of 3 categories ('Bern', 'Genève', 'Zürich')"
    assert len(facts["problems"]) == 3 and all("--" in problem for problem in facts["problems"])
    code, out, _ = run(*command, "--drop", "1", "--hash", "6", "--impute", "indicator")
    text = " ".join(out.replace("│", " ").split())
    assert code == 0 and "problems none" in text
    assert "18 missing filled with" in text and "1: " not in text
    # Labels are refused as columns are, and what they hold does not matter.
    code, out, _ = run(*command, "--json", "--label", "1")
    assert code == 0 and "1" not in json.loads(out)["columns"]


def test_wrong_options(people):
    for option, value, message in (
        ("--impute", "zero", "--impute must be one of 'mean', 'median', 'indicator'. Got 'zero'."),
        ("--unknown", "keep", "--unknown must be one of 'ignore', 'error'. Got 'keep'."),
        ("--delimiter", "::", "--delimiter must be a single character such as ';'"),
        ("--encoding", "ebcdix", "--encoding must be one that Python knows"),
        (
            "--hash",
            "title",
            "--text and --hash name columns of a node table, and none was given. Give --nodes",
        ),
    ):
        assert message in fails("info", people / "e.txt", "--no-header", option, value)
    message = fails("info", people / "e.txt")
    assert "no header, say so (--no-header)" in message
    message = fails("info", people / "nodes.csv")
    assert "is not UTF-8 text (line 2)" in message and "--encoding latin-1" in message


def test_probes_read_labels_and_features_as_training_did(people):
    pd.DataFrame({"source": [0, 1], "target": [1, 2]}).to_csv(people / "e.csv", index=False)
    reading = ["--nodes", people / "nodes.csv", "--id", "key", "--encoding", "latin-1"]
    asked = ["--drop", "name", "--drop", "about", "--impute", "mean", "--text", "zip"]
    train = ["train", people / "e.csv", *reading, *asked, "--label", "town", "--out", people / "r"]
    code, _, err = run(*train, *FAST, "--set", "structure=none")
    assert code == 0, err
    probe = ["probe", people / "r", "--labels", people / "nodes.csv", "--label", "town"]
    probe += ["--id", "key", "--raw", people / "nodes.csv", "--splits", "1", "--json"]
    code, out, err = run(*probe)
    assert code == 0, err
    assert "3 columns: age, zip, since" in err + out


def test_a_run_without_header_embeds_tables_with_one(people):
    train = ["train", people / "e.txt", "--no-header", "--out", people / "run", *FAST]
    code, _, err = run(*train)
    assert code == 0, err
    pd.DataFrame({"a": [0, 1], "b": [1, 2]}).to_csv(people / "with.csv", index=False)
    embed = ["embed", people / "run", people / "with.csv", "--out", people / "o.csv"]
    assert "looks like a header: 'a', 'b'" in fails(*embed)
    code, out, err = run(*embed, "--header", "--source", "a", "--target", "b")
    assert code == 0 and out.startswith("3 embeddings"), err


def test_missing_and_dated_features_of_edges(people):
    edges = pd.DataFrame({"source": [0, 1, 2], "target": [1, 2, 0], "amount": [1.0, None, 3.0]})
    edges["day"] = ["2024-01-01", "2024-01-03", "2024-01-02"]
    edges.to_csv(people / "e.csv", index=False)
    train = ["train", people / "e.csv", "--edge-features", "amount,day", "--set", "encoder=gin"]
    train += ["--out", people / "run", *FAST]
    assert "missing value, the first in row 2 (line 3 with the header)" in fails(*train)
    code, _, err = run(*train, "--impute", "mean")
    assert code == 0, err
    columns = json.loads((people / "run" / "features.json").read_text())["edges"]
    assert [(column["kind"], column.get("fill")) for column in columns] == [
        ("numeric", 2.0),
        ("date", 19724.0),
    ]
