"""The pages of docs/tasks, and the FAQ, run as they stand, and lead to what they say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from installed import ROOT
from pages import run_page

PAGES = [*sorted((ROOT / "docs" / "tasks").glob("*.md")), ROOT / "docs" / "faq.md"]
# So that the page of a large graph takes seconds
SMALLER = {"large_graph.md": {"--rows 100000": "--rows 1500"}}


def similar_products(names):
    assert names["same"].mean() > 0.7


def planted_accounts(names):
    assert names["places"][:2] == [1, 2] and names["places"][2] < 60
    assert len(names["likely"] & names["new"]) >= 2


def clubs(names):
    assert names["found"].max(axis=1).sum() > 270


def new_customers(names):
    assert len(pd.read_parquet("week2.parquet")) == 480
    assert names["scores"]["embeddings"] > 0.7


def other_papers(names):
    assert len(pd.read_csv("predicted.csv")) == 460
    assert names["right"].mean() > 0.9 > 0.85 > names["right"][names["unsure"]].mean()


def large_graph(names):
    with np.load("run/small.npz") as file:
        assert file["embeddings"].dtype == np.float16 and file["embeddings"].shape == (1500, 64)


CHECKS = {
    "copurchase.md": similar_products,
    "payments.md": planted_accounts,
    "no_features.md": clubs,
    "new_nodes.md": new_customers,
    "few_labels.md": other_papers,
    "large_graph.md": large_graph,
}


@pytest.mark.filterwarnings("ignore::graphlatent.GraphLatentWarning")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page(page: Path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run_page(page, replace=SMALLER.get(page.name))
    CHECKS.get(page.name, lambda names: None)(done.names)


def test_every_page_of_a_task_is_checked():
    assert {page.name for page in PAGES} - set(CHECKS) == {"faq.md"}
