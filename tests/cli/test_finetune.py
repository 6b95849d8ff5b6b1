"""`graphlatent finetune` and `graphlatent predict`."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from commands import fails, run, told
from graphlatent import GraphLatentWarning, RunFolder, load_classifier, probe, saved
from graphlatent.cli.finetune import _majority_share
from graphlatent.errors import OutputError
from graphlatent.finetuning.classifier import FineTunedClassifier
from graphlatent.io.atomic import LOCK
from graphlatent.io.lock import FolderLock
from graphlatent.io.runfolder import Snapshot


@pytest.fixture
def people(tables):
    """A run on the tables, whose column 'kind' has empty cells, and the tables."""
    nodes = pd.read_csv(tables / "nodes.csv")
    # Age tells the kind.
    nodes["age"] += np.where(nodes["kind"] == "a", 0, 200)
    nodes["kind"] = nodes["kind"].where(np.arange(40) % 4 != 3, None)
    nodes.to_csv(tables / "nodes.csv", index=False)
    trained("--label", "kind", folder=tables, out="run")
    return tables


def arguments(folder):
    return [folder / "edges.csv", "--nodes", folder / "nodes.csv"]


def trained(*more, folder, out):
    fast = ["--epochs", 2, "--set", "hidden_dim=6", "--device", "cpu", "--no-map"]
    told("train", *arguments(folder), *more, *fast, "--out", folder / out)


@pytest.mark.filterwarnings("ignore:Edges are read as undirected", "ignore:.*repeated edges")
def test_from_a_run_to_predictions(people):
    new = people / "tuned"
    found = told("finetune", people / "run", *arguments(people), "--label", "kind", "--out", new)
    assert (found["classes"], found["labelled"], found["held_out"]) == (["a", "b"], 30, 0)
    assert found["held_out_accuracy"] is None
    told("predict", new, *arguments(people), "--out", people / "p.csv")
    frame = pd.read_csv(people / "p.csv")
    assert list(frame) == ["id", "predicted", "p_a", "p_b"] and len(frame) == 40
    # Rows without a label are predicted too, and right.
    assert (frame["predicted"] == np.array(["a", "b"] * 20)).mean() > 0.9
    np.testing.assert_allclose(frame["p_a"] + frame["p_b"], 1)
    classifier = load_classifier(new)
    graph = (pd.read_csv(people / "edges.csv"), pd.read_csv(people / "nodes.csv"))
    probability = classifier.predict_proba(graph)
    np.testing.assert_allclose(probability, frame[["p_a", "p_b"]], rtol=1e-5)
    # It is a run with embeddings like any other.
    told("embed", new, *arguments(people), "--out", people / "e.csv")
    assert json.loads((new / "results.json").read_text())["labelled"] == 30
    assert (new / "embeddings.parquet").is_file()


@pytest.mark.filterwarnings("ignore:Edges are read as undirected", "ignore:.*repeated edges")
def test_other_commands_read_the_graph_of_the_new_run(people):
    new, out = people / "tuned", people / "latent.csv"
    told("finetune", people / "run", *arguments(people), "--label", "kind", "--out", new)
    assert told("denoise", new, "--sigma", 0.5, "--out", out)["rows"] == 40
    nodes = pd.read_csv(people / "nodes.csv")
    nodes.assign(age=1.0).to_csv(people / "nodes.csv", index=False)
    assert "(column 'age': other values)" in fails("denoise", new, "--out", people / "b.csv")


@pytest.mark.filterwarnings("ignore:Edges are read as undirected", "ignore:.*repeated edges")
def test_a_probe_of_the_new_run_warns_that_it_has_seen_labels(people):
    new = people / "tuned"
    told("finetune", people / "run", *arguments(people), "--label", "kind", "--out", new)
    shares = ["--train", 0.5, "--val", 0.25, "--no-baselines"]
    with pytest.warns(GraphLatentWarning, match=r"tuned was fine-tuned on labels. If they are"):
        probe(new, people / "nodes.csv", label="kind", train=0.5, val=0.25, baselines=False)
    command = ["--labels", people / "nodes.csv", "--label", "kind", *shares]
    assert "was fine-tuned on labels" in run("probe", new, *command)[2]
    assert "was fine-tuned on labels" not in run("probe", people / "run", *command)[2]


def test_a_share_of_the_labels_measures_on_the_others(people):
    command = ["finetune", people / "run", *arguments(people), "--label", "kind"]
    found = told(*command, "--ratio", 0.7, "--seed", 3, "--out", people / "tuned")
    assert (found["labelled"], found["held_out"]) == (21, 9)
    assert found["held_out_accuracy"] > 0.7
    code, out, _ = run(*command, "--ratio", 0.7, "--seed", 3, "--out", people / "again")
    assert code == 0 and "Accuracy on 9 nodes whose labels were held out: " in out
    majority = found["held_out_majority"]
    assert f" (majority class: {100 * majority:.1f} %)" in out
    # Two kinds, so that the shares of 9 held-out labels are ninths.
    assert 9 * majority == pytest.approx(round(9 * majority)) and 0 < majority < 1
    first, again = (load_classifier(people / name) for name in ("tuned", "again"))
    assert first.get_params()["random_state"] == 3
    np.testing.assert_array_equal(first.head_.linear.weight, again.head_.linear.weight)


@pytest.mark.parametrize(
    ("more", "saved"),
    [([], "the linear probe"), (["--no-probe"], "the head of zeros it started from")],
)
def test_where_no_epoch_helps_the_message_says_what_is_saved(people, more, saved):
    command = ["finetune", people / "run", *arguments(people), "--label", "kind", *more]
    code, out, err = run(*command, "--epochs", 0, "--out", people / "tuned")
    assert code == 0, err
    assert f"No epoch was better on validation than the start: what is saved is {saved}." in out


def test_the_majority_class_is_that_of_the_labels_used():
    shown = np.array(["a", "b", "b", -1, None, None], dtype=object)
    hidden = np.array([-1, -1, -1, "a", "b", "a"], dtype=object)
    assert _majority_share(shown, hidden) == pytest.approx(1 / 3)


def test_several_columns_of_labels_keep_their_names(people):
    nodes = pd.read_csv(people / "nodes.csv")
    nodes["old"] = (nodes["age"] > 100).astype(int)
    nodes["young"] = 1 - nodes["old"]
    nodes.to_csv(people / "nodes.csv", index=False)
    labels = ["--label", "old", "--label", "young"]
    trained(*labels, "--drop", "kind", folder=people, out="several")
    found = told("finetune", people / "several", *arguments(people), *labels, "--out", people / "t")
    assert found["classes"] == ["old", "young"]
    told("predict", people / "t", *arguments(people), "--out", people / "p.parquet")
    frame = pd.read_parquet(people / "p.parquet")
    assert list(frame) == ["id", "predicted_old", "predicted_young", "p_old", "p_young"]


def test_mistakes(people):
    base, labelled = ["finetune", people / "run", *arguments(people)], ["--label", "kind"]
    out = ["--out", people / "new"]
    assert fails(*base, "--label", "city", *out).startswith(
        f"Column 'city' was a feature of {people / 'run'}, so it cannot be predicted with it. Train"
    )
    # Before a file is read
    assert "--ratio must be a number between 0 and 1. Got 2." in fails(
        "finetune", people / "run", people / "none.csv", *labelled, "--ratio", 2, *out
    )
    assert "The setting 'lr' must be a float in the range (0, inf). Got -1.0" in fails(
        *base, *labelled, "--lr", -1, *out
    )
    assert "is the run that is fine-tuned" in fails(
        *base, *labelled, "--out", people / "run", "--overwrite"
    )
    (people / "taken").mkdir()
    (people / "taken" / "mine.txt").touch()
    assert "exists already" in fails(*base, *labelled, "--out", people / "taken")
    assert "holds embeddings and no classifier" in fails(
        "predict", people / "run", *arguments(people)
    )
    assert "written as .csv or .parquet" in fails(
        "predict", people / "run", *arguments(people), "--out", "p.xlsx"
    )
    assert not (people / "new").exists()


def test_labels_must_be_named(people):
    nodes = pd.read_csv(people / "nodes.csv").drop(columns="kind")
    nodes.to_csv(people / "nodes.csv", index=False)
    trained(folder=people, out="plain")
    command = ["finetune", people / "plain", *arguments(people), "--out", people / "new"]
    assert "There are no labels. Name their column with --label." in fails(*command)


@pytest.mark.filterwarnings("ignore:Edges are read as undirected", "ignore:.*repeated edges")
def test_no_other_process_writes_between_training_and_the_last_file(people, monkeypatch):
    """Otherwise the folder could hold the classifier of one and the embeddings of another."""
    new, refusals = people / "tuned", []

    def after_an_attempt(function):
        def attempted(*args, **values):
            with pytest.raises(OutputError, match="is in use"):
                RunFolder(new).save_snapshot(Snapshot({}, "{}"))
            refusals.append(True)
            return function(*args, **values)

        return attempted

    for owner, name in ((FineTunedClassifier, "fit"), (saved, "write_embeddings")):
        monkeypatch.setattr(owner, name, after_an_attempt(getattr(owner, name)))
    told("finetune", people / "run", *arguments(people), "--label", "kind", "--out", new)
    assert refusals == [True, True]
    assert RunFolder(new).complete and not (new / LOCK).exists()


@pytest.mark.filterwarnings("ignore:Edges are read as undirected", "ignore:.*repeated edges")
def test_a_folder_that_is_being_written_is_refused_before_training(people, monkeypatch):
    monkeypatch.setattr(FineTunedClassifier, "fit", None)
    with FolderLock(people / "tuned").held():
        command = ["finetune", people / "run", *arguments(people), "--label", "kind"]
        assert "tuned is in use: it is being written by process" in fails(
            *command, "--out", people / "tuned"
        )


def test_the_run_itself_by_another_name(people):
    (people / "link").symlink_to(people / "run")
    command = ["finetune", people / "run", *arguments(people), "--label", "kind", "--overwrite"]
    assert "is the run that is fine-tuned" in fails(*command, "--out", people / "link")
