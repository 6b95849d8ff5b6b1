"""`graphlatent probe`: clear words where scores cannot be had."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from graphlatent.embedding import Embeddings
from probe_cases import FEW, KINDS, NAMES, fails, labels_with, told


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--label", "kind", "--kind", "tree"],
            "--kind must be one of linear, svm, rbf, knn, clusters,"
            " spectral, communities. Got 'tree' instead.",
        ),
        (
            ["--label", "kind", "--kind", "rbf", "--splits", "3", "--val", "0.2"],
            "Leave out 'splits' and 'val': with kind='rbf', settings are chosen in inner folds.",
        ),
        (
            ["--label", "nope"],
            "labels (labels.csv): there is no column 'nope' (--label). Columns found: 'id',"
            " 'kind', 'age', 'a', 'b'. Name the right one with --label.",
        ),
        (
            ["--label", "kind", "--id", "name"],
            "labels (labels.csv): there is no column 'name' (--id). Columns found: 'id',"
            " 'kind', 'age', 'a', 'b'. Name the right one with --id.",
        ),
        (
            ["--label", "kind", "--nodes", "nodes.csv"],
            "--nodes has no effect without --graph. Set that, or leave --nodes out.",
        ),
        (
            ["--label", "kind", "--graph", "edges.csv", "--no-baselines"],
            "Leave out '--graph': with --no-baselines nothing is computed from it.",
        ),
        (
            ["--label", "a", "--label", "b", "--kind", "svm"],
            "kind='svm' needs one class per row, and there are 2 label columns. Use linear, knn or"
            " communities.",
        ),
        (
            ["--label", "kind", "--train", "0.8", "--val", "0.2"],
            "The 'train_ratio' and 'val_ratio' parameters of random_splits must sum to less than 1,"
            " to leave rows for the test. Got 0.8 + 0.2 instead.",
        ),
    ],
)
def test_options_that_cannot_be(folder, options, message):
    assert fails(folder / "e.parquet", "--labels", folder / "labels.csv", *options) == message


def test_ids_and_labels_that_cannot_be(folder):
    table = pd.read_csv(folder / "labels.csv")
    table["id"] = table["id"].replace({"user 04": "usr 04", "user 09": "usr 09"})
    table.to_csv(folder / "misspelt.csv", index=False)
    misspelt = fails(folder / "e.parquet", "--labels", folder / "misspelt.csv", "--label", "kind")
    assert (
        misspelt == "labels (misspelt.csv) has no row for 2 of the 60 embeddings, the first of id"
        " 'user 04', but rows of other ids, the first 'usr 04'. Remove those rows, or add the"
        " missing ones with empty labels."
    )
    assert (
        fails(folder / "e.parquet", "--labels", labels_with(folder, kind=["x"] * 60))
        == "labels (own.csv): every label in column 'kind' is 'x'. A probe needs two classes or"
        " more."
    )


def test_a_table_of_the_labelled_rows_only(folder):
    table = pd.read_csv(folder / "labels.csv")[["id", "kind"]]
    table[::2].to_csv(folder / "some.csv", index=False)
    table.assign(kind=table["kind"].where(table.index % 2 == 0)).to_csv(
        folder / "all.csv", index=False
    )
    some, every = (
        told(folder / "e.parquet", "--labels", folder / f"{name}.csv", "--train", 0.4)
        for name in ("some", "all")
    )
    assert some["results"] == every["results"]
    assert "30 of 60 rows have no label and are left out" in some["notes"]


def test_embeddings_that_are_not_finite(folder, rows):
    rows[3, 1] = np.nan
    Embeddings(rows, NAMES).save(folder / "nan.parquet")
    assert (
        fails(folder / "nan.parquet", "--labels", folder / "labels.csv", "--label", "kind", *FEW)
        == "The representation holds NaN or infinite values. Look at the training history before"
        " probing it."
    )


def test_raw_features_that_cannot_be(folder):
    labels = [folder / "e.parquet", "--labels", folder / "labels.csv", "--label", "kind"]
    pd.DataFrame({"id": NAMES, "kind": KINDS}).to_csv(folder / "bare.csv", index=False)
    assert (
        fails(*labels, "--raw", folder / "bare.csv")
        == "nodes (bare.csv): there are no feature columns beside ids and labels."
    )
    pd.DataFrame({"id": NAMES, "size": [None] + [1.5] * 59}).to_csv(folder / "gap.csv", index=False)
    assert (
        fails(*labels, "--raw", folder / "gap.csv")
        == "Column 'size' has 1 missing value, the first in row 0 (from 0). Fill them, drop"
        " those nodes, have them filled (--impute mean), or leave the column out (--drop)."
    )
