"""`graphlatent.probe`: the same as the command, for what is in memory."""

from __future__ import annotations

import html
import json

import numpy as np
import pandas as pd
import pytest

import commands
from graphlatent import Embeddings, NodeLaGraph, probe
from graphlatent.data.splits import random_splits
from graphlatent.errors import ConfigError, InputError
from graphlatent.probes.linear import linear_probe

FEW = {"splits": 3, "train": 0.3, "val": 0.3}
IDS = np.array([f"n{i}" for i in range(60)], dtype=object)
KINDS = np.array(["ant", "bee", "cat"])[np.arange(60) % 3]


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    return (rng.normal(size=(3, 4))[np.arange(60) % 3] + rng.normal(size=(60, 4))).astype(
        np.float32
    )


@pytest.fixture
def expected(rows):
    splits = random_splits(60, num_splits=3, train_ratio=0.3, val_ratio=0.3)
    return linear_probe(rows, KINDS, splits=splits).scores


def scores(report, who="embeddings"):
    return report.comparison.results[who]["accuracy"][0].scores


@pytest.mark.parametrize("labels", ["array", "list", "series", "mapping", "frame"])
@pytest.mark.parametrize("form", ["array", "embeddings", "frame"])
def test_forms_of_the_same_embeddings_and_labels(rows, expected, form, labels):
    embeddings = {
        "array": rows,
        "embeddings": Embeddings(rows, IDS),
        "frame": pd.DataFrame(rows, index=IDS),
    }[form]
    by_id = pd.Series(KINDS, index=range(60) if form == "array" else IDS)
    by_id = by_id if form == "array" else by_id.sample(frac=1, random_state=0)
    given = {
        "array": KINDS,
        "list": KINDS.tolist(),
        "series": by_id,
        "mapping": by_id.to_dict(),
        "frame": by_id.to_frame("kind") if form != "array" else KINDS[:, None].ravel(),
    }[labels]
    assert scores(probe(embeddings, given, baselines=False, **FEW)) == expected


def test_of_an_estimator_all_baselines_stand_beside():
    rng = np.random.default_rng(0)
    edges = rng.integers(0, 60, (2, 150))
    edges = np.concatenate([edges, edges[::-1]], axis=1)
    graph = (edges, rng.normal(size=(60, 3)).astype(np.float32))
    estimator = NodeLaGraph(epochs=1, hidden_dim=4, device="cpu", progress=False).fit(graph)
    report = probe(estimator, KINDS, graph=graph, **FEW)
    names = ["embeddings", "raw features", "propagated features", "untrained encoder"]
    names += ["raw features appended", "majority class"]
    assert list(report.comparison.results) == names
    splits = random_splits(60, num_splits=3, train_ratio=0.3, val_ratio=0.3)
    own = linear_probe(estimator.transform(graph), KINDS, splits=splits)
    assert scores(report) == own.scores
    assert scores(report, "majority class") == tuple(
        np.mean(KINDS[s.test] == max(np.unique(KINDS), key=list(KINDS[s.train]).count))
        for s in splits
    )
    assert (
        list(probe(estimator, KINDS, graph=graph, baselines=False, **FEW).comparison.results)[1:]
        == []
    )


def test_report_as_text_and_as_html(rows):
    report = probe(rows, KINDS, **FEW)
    text, page = repr(report), report._repr_html_()
    assert text.splitlines()[0] == "linear probe of 60 rows"
    mean = f"{100 * report.comparison.results['embeddings']['accuracy'][0].mean:.1f}"
    (line,) = [line for line in text.splitlines() if line.startswith("embeddings")]
    assert line.split()[1] == mean
    assert f"<td>embeddings</td><td>{mean}</td>" in page
    assert page.count("<table>") == page.count("</table>") == 1
    for sentence in (*report.sentences, *(f"note: {note}" for note in report.notes)):
        assert sentence in text
        assert html.escape(sentence) in page
    assert report.sentences[-1] == f"Advice: {report.advice}"
    assert "no raw features, propagated features, untrained encoder" in report.notes[0]


def test_names_are_escaped_in_html(rows):
    empty = np.column_stack([np.arange(60) % 2, np.zeros(60, int)])
    labels = pd.DataFrame(empty, index=IDS, columns=["a", "<i>"])
    report = probe(Embeddings(rows, IDS), labels, kind="communities", seeds=1)
    page = report._repr_html_()
    assert "no member: &lt;i&gt;" in page and "<i>" not in page


def test_a_report_says_what_the_command_says(rows, tmp_path):
    Embeddings(rows, IDS).save(tmp_path / "e.parquet")
    pd.DataFrame({"id": IDS, "kind": KINDS}).to_csv(tmp_path / "y.csv", index=False)
    options = ["--splits", 3, "--train", 0.3, "--val", 0.3]
    told = commands.told("probe", tmp_path / "e.parquet", "--labels", tmp_path / "y.csv", *options)
    report = probe(tmp_path / "e.parquet", tmp_path / "y.csv", label="kind", **FEW)
    del told["embeddings"], told["labels"]
    assert json.loads(json.dumps(report.to_dict())) == told


def test_missing_labels_are_left_out(rows):
    labels = pd.Series(KINDS, index=IDS).where(np.arange(60) % 4 > 0)
    report = probe(Embeddings(rows, IDS), labels, baselines=False, **FEW)
    assert report.notes == ["15 of 60 rows have no label and are left out"]
    assert len(report.labels.values) == 45


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: probe(NodeLaGraph(), KINDS), ValueError, "This NodeLaGraph is not fitted yet."),
        (lambda x: probe(x, KINDS[:50]), InputError, "The labels must be one per row of the embe"),
        (lambda x: probe(x[0], KINDS), InputError, "The embeddings must be a fitted estimator, a"),
        (lambda x: probe(x, KINDS, label="kind"), ConfigError, "The 'label' parameter of probe h"),
        (lambda x: probe(x, KINDS, kind="tree"), ConfigError, "The 'kind' parameter of probe must"),
    ],
)
def test_mistakes(rows, call, error, message):
    with pytest.raises(error) as caught:
        call(rows)
    assert str(caught.value).startswith(message)
