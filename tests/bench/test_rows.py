"""The rows of a cell: against estimators and probes called one by one, and what test labels can
reach.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from sklearn.svm import SVC

from graphlatent.bench import data as data_module
from graphlatent.bench.better_svm import better_result
from graphlatent.bench.context import CONCAT, PAPERS_PROBE, PLAIN
from graphlatent.bench.data import DatasetBundle
from graphlatent.bench.rows import all_rows
from graphlatent.bench.rows.lagraph import GRID
from graphlatent.ops.sparse import to_dense
from graphlatent.probes.adam import adam_predictions
from graphlatent.probes.protocol import Protocol, SplitPrediction
from graphlatent.probes.results import ProbeResult
from graphlatent.probes.svm import svm_probe
from graphlatent.representations import propagated_features, raw_features
from graphlatent.weisfeiler_lehman import subtree_features
from one_by_one import (
    FOLDS,
    RBF_C,
    SEED,
    candidates,
    embedded,
    fixed,
    measure_row,
    measurement,
    probed,
)
from standins import tiny

NODE, GRAPH = "table2/Photo", "table1/MUTAG"
OURS = {
    "node": {"hidden_dim": 5, "epochs": 12, "lr": 0.02},
    "graph": {"hidden_dim": 5, "epochs": 4, "lr": 0.02},
}
NAMES = {
    "node": {
        "raw": ["linear/validation"],
        "propagated": ["linear/validation"],
        "random": ["linear/validation", "linear/fixed", "paper-probe/validation"],
        "paper": ["linear/validation", "linear/fixed", "paper-probe/validation"],
        "released": ["paper-probe/test", "paper-probe/validation"],
        "defaults": ["linear/fixed", "linear/untrained", "linear/representation"],
    },
    "graph": {
        "raw": ["linear/validation", "rbf/validation", "svm/validation"],
        "propagated": ["linear/validation"],
        "random": ["linear/validation", "linear/fixed", "rbf/validation", "svm/validation"],
        "wl": ["linear/validation", "rbf/validation", "svm/validation"],
        "paper": ["linear/validation", "linear/fixed", "rbf/validation", "svm/validation"],
        "released": ["rbf/test", "rbf/validation"],
        "defaults": [
            "linear/fixed",
            "rbf/fixed",
            "svm/fixed",
            "linear/untrained",
            "rbf/untrained",
            "svm/untrained",
        ],
        "tuned": ["linear/validation"],
    },
}
CELLS = {"node": NODE, "graph": GRAPH}
ROWS = [(level, row) for level, rows in NAMES.items() for row in rows]


@dataclass
class Row:
    """What came of a row, and what was handed in before test labels were opened, result by
    result.
    """

    results: dict[str, ProbeResult]
    training: Any
    answers: list[Sequence[SplitPrediction]]


def every_row(data: DatasetBundle, level: str) -> dict[str, Row]:
    found, seen, final = {}, [], Protocol.final

    def recorded(self, given, *, selection):
        assert not self.opened
        seen.append(given)
        return final(self, given, selection=selection)

    measured = measurement(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Protocol, "final", recorded)
        for row in NAMES[level]:
            outcome = measure_row(measured, tiny(CELLS[level]), row)
            found[row] = Row(dict(outcome.results), outcome.training, [*seen])
            seen.clear()
    return found


@pytest.fixture(scope="module")
def rows(bundles, small_defaults, small_probes) -> dict[str, dict[str, Row]]:
    """Every row of a node cell and of a graph cell, measured once."""
    return {level: every_row(bundles[name], level) for level, name in CELLS.items()}


# --- names ---


@pytest.mark.parametrize(("level", "row"), ROWS)
def test_results_of_every_row(rows, level, row):
    results, training = rows[level][row].results, rows[level][row].training
    assert list(results) == NAMES[level][row]
    assert {len(result.scores) for result in results.values()} == {5 if level == "node" else FOLDS}
    assert {result.metric for result in results.values()} == {"accuracy"}
    epochs = {"paper": 6, "released": 4, "defaults": OURS[level]["epochs"]}.get(row)
    assert training.get("epochs") == epochs
    assert set(training) == (set() if epochs is None else {"epochs", "last_loss", "seconds"})
    assert all(
        ("TEST" in result.selection) == name.endswith("/test") for name, result in results.items()
    )


@pytest.mark.parametrize("level", NAMES)
def test_the_tables_find_every_result_they_show(level):
    rows = [row for name, row in all_rows().items() if name in NAMES[level]]
    lines = [line for row in rows for line in row.table_rows(level)]
    for row in rows:
        lines += [line for each in row.differences(level) for line in (each.first, each.second)]
    assert [line.label for line in lines if line.result not in NAMES[level][line.row]] == []


@pytest.mark.parametrize("level", NAMES)
def test_rows_of_a_cell_are_on_the_same_splits(rows, level):
    assert (
        len({result.splits for row in rows[level].values() for result in row.results.values()}) == 1
    )


# --- against estimators and probes called one by one ---


@pytest.mark.parametrize("level", CELLS)
class TestAgainstTheProbes:
    def test_paper(self, rows, bundles, level):
        made, results, recipe = (
            bundles[CELLS[level]],
            rows[level]["paper"].results,
            tiny(CELLS[level]),
        )
        several = candidates(made, recipe.paper, epochs=(1, 3, 6))
        assert results["linear/validation"] == probed(made, several)
        own = f"epoch 3, {CONCAT if level == 'node' else PLAIN}"
        assert results["linear/fixed"] == fixed(probed(made, {own: several[own]}))
        if level == "graph":
            assert results["rbf/validation"] == probed(made, several, kernel="rbf")

    def test_random(self, rows, bundles, level):
        made, results = bundles[CELLS[level]], rows[level]["random"].results
        both = candidates(made, tiny(CELLS[level]).paper, epochs=[0])
        assert results["linear/validation"] == probed(made, both)
        last = list(both)[-1]
        assert results["linear/fixed"] == fixed(probed(made, {last: both[last]}))
        if level == "graph":
            assert results["rbf/validation"] == probed(made, both, kernel="rbf")

    def test_defaults(self, rows, bundles, level):
        made, results, last = (
            bundles[CELLS[level]],
            rows[level]["defaults"].results,
            OURS[level]["epochs"],
        )
        several = candidates(made, OURS[level], epochs=[0, last], kinds=(PLAIN,))
        end, start = ({n: several[n]} for n in (f"epoch {last}, {PLAIN}", f"epoch 0, {PLAIN}"))
        assert results["linear/fixed"] == fixed(probed(made, end))
        assert results["linear/untrained"] == probed(made, start)
        if level == "graph":
            assert results["rbf/fixed"] == fixed(probed(made, end, kernel="rbf"))
            assert results["rbf/untrained"] == probed(made, start, kernel="rbf")
        else:
            # The features are appended by the measurement, to an embedding that has them already.
            (embedding,) = end.values()
            appended = np.concatenate([embedding, to_dense(made.graph.x).numpy()], axis=1)
            forms = {**end, f"epoch {last}, {CONCAT}": appended}
            assert len(forms) == 2 and results["linear/representation"] == probed(made, forms)

    def test_what_needs_no_training(self, rows, bundles, level):
        made = bundles[CELLS[level]]
        raw = {"X": raw_features(made.graph, level=level)}
        assert rows[level]["raw"].results["linear/validation"] == probed(made, raw)
        if level == "graph":
            assert rows[level]["raw"].results["rbf/validation"] == probed(made, raw, kernel="rbf")
        averaged = {
            name: propagated_features(made.graph, level=level, concat="," in name)
            for name in ("A^2 X", "X, AX, A^2 X")
        }
        assert rows[level]["propagated"].results["linear/validation"] == probed(made, averaged)


def test_weisfeiler_lehman(rows, bundles):
    """Its linear SVM is that of scikit-learn on the counts themselves."""
    made, results = bundles[GRAPH], rows["graph"]["wl"].results
    linear, rbf = results["linear/validation"], results["rbf/validation"]
    for split, choice, score in zip(
        made.protocol(SEED).splits, linear.choices, linear.scores, strict=True
    ):
        h, cost = int(choice.candidate.split()[0]), choice.settings["C"]
        x = subtree_features(made.graph, iterations=h).toarray()
        model = SVC(C=cost, kernel="linear").fit(x[split.train], made.labels[split.train])
        assert score == np.mean(model.predict(x[split.test]) == made.labels[split.test])
        assert 1 <= h <= 5 and cost in RBF_C
    assert [c.candidate for c in rbf.choices] == [c.candidate for c in linear.choices]
    assert "the number of iterations and C with the highest" in linear.selection
    assert "the number of iterations (by the linear SVM) and C with" in rbf.selection


@pytest.mark.parametrize(
    ("row", "name"),
    [
        *((row, "validation") for row in ("raw", "random", "wl", "paper")),
        *(("defaults", name) for name in ("fixed", "untrained")),
    ],
)
def test_the_better_svm_of_each_fold(rows, row, name):
    """Each outer fold takes the SVM with the higher score in its inner folds."""
    linear, rbf, better = (
        rows["graph"][row].results[f"{probe}/{name}"] for probe in ("linear", "rbf", "svm")
    )
    for k, choice in enumerate(better.choices):
        first, second = linear.choices[k], rbf.choices[k]
        takes_rbf = second.val_score > first.val_score + 1e-9
        kernel, chosen = ("rbf", second) if takes_rbf else ("linear", first)
        assert choice == dataclasses.replace(chosen, settings={**chosen.settings, "kernel": kernel})
        assert better.scores[k] == (rbf if takes_rbf else linear).scores[k]
    # What a record without it gives is the same
    assert better == better_result(linear, rbf)


def test_the_papers_probe(rows, bundles):
    made, recipe = bundles[NODE], tiny(NODE)
    for row, epochs in (("random", [0]), ("paper", [1, 3, 6])):
        several = candidates(made, recipe.paper, epochs=epochs, kinds=[CONCAT])
        given = adam_predictions(several, made.protocol(0), epochs=15, weight_decay=1e-3, seed=SEED)
        best = [
            max(of_split, key=lambda answer: answer.choice.val_score)
            for of_split in zip(*given.values(), strict=True)
        ]
        said = PAPERS_PROBE + "per split, the epoch with the highest validation accuracy."
        assert rows["node"][row].results["paper-probe/validation"] == made.protocol(0).final(
            best, selection=said
        )


def test_every_combination_of_the_grid(rows, bundles):
    made, paper = bundles[GRAPH], tiny(GRAPH).paper
    several = {"no training": embedded(made, paper, epoch=0)}
    for lr in GRID["lr"]:
        # Of the epochs 5, 20 and 50 the first alone lies within the recipe's 6
        for alpha in GRID["alpha"]:
            several[f"lr {lr:g}, alpha {alpha:g}, epoch 5"] = embedded(
                made, {**paper, "lr": lr, "alpha": alpha}, epoch=5
            )
    assert len(several) == 10
    assert rows["graph"]["tuned"].results["linear/validation"] == probed(made, several)


# --- choices ---


@pytest.mark.parametrize("level", CELLS)
def test_epoch_and_representation_are_chosen_per_split(rows, bundles, level):
    """A split's choice is the best of its own validation scores, whatever the other splits
    chose.
    """
    made = bundles[CELLS[level]]
    chosen = rows[level]["paper"].results["linear/validation"].choices
    alone = {
        name: probed(made, {name: r})
        for name, r in candidates(made, tiny(CELLS[level]).paper, epochs=(1, 3, 6)).items()
    }
    for k, choice in enumerate(chosen):
        assert choice == max(
            (result.choices[k] for result in alone.values()), key=lambda c: c.val_score
        )
    assert len({choice.candidate for choice in chosen}) > 1


@pytest.mark.parametrize(("level", "probe"), [("node", "paper-probe"), ("graph", "rbf")])
def test_released_takes_the_best_mean_test_score(rows, bundles, level, probe):
    made, recipe = bundles[CELLS[level]], tiny(CELLS[level])
    settings = {**recipe.paper, **recipe.released}
    results, means = rows[level]["released"].results, {}
    for epoch in (1, 3, 4):  # those of the evaluation that the scripts reach, and their last
        (name, representation), *_ = candidates(
            made, settings, epochs=[epoch], kinds=[CONCAT]
        ).items()
        if level == "node":
            given = adam_predictions(
                {name: representation}, made.protocol(0), epochs=15, weight_decay=1e-3, seed=SEED
            )[name]
            right = [
                np.mean(a.predicted == made.labels[s.test])
                for a, s in zip(given, made.splits, strict=True)
            ]
        else:
            plain = {"seed": SEED, "kernel": "rbf", "preprocessing": ("none",)}
            plain |= {"num_folds": FOLDS, "C": RBF_C}
            right = svm_probe({name: representation}, made.labels, **plain).scores
        means[name] = float(np.mean(right))
    best = results[f"{probe}/test"]
    assert best.mean == max(means.values()) and {c.candidate for c in best.choices} == {
        max(means, key=means.__getitem__)
    }
    assert len(set(means.values())) > 1
    honest = results[f"{probe}/validation"]
    assert (
        honest.selection
        == "The same candidates; per split, the epoch with the highest validation score."
    )
    assert {choice.candidate for choice in honest.choices} <= set(means)


@pytest.fixture(scope="module")
def permuted(bundles, small_defaults, small_probes) -> dict[str, dict[str, Row]]:
    """The same with the labels of the test rows of split 0 moved on by one; the splits themselves
    are held.
    """
    found = {}
    for level, name in CELLS.items():
        made = bundles[name]
        splits, labels = made.protocol(SEED).splits, made.labels.copy()
        labels[splits[0].test] = np.roll(made.labels[splits[0].test], 1)
        assert (labels != made.labels).any()
        graph = dataclasses.replace(made.graph, y=labels)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                data_module, "outer_fold_splits", lambda labels, seed, splits=splits: splits
            )
            found[level] = every_row(
                dataclasses.replace(made, labels=labels, graph=graph, train_graph=graph), level
            )
    return found


@pytest.mark.parametrize(("level", "row"), ROWS)
def test_what_a_split_chooses_and_answers_does_not_depend_on_its_test_labels(
    rows, permuted, level, row
):
    first, second = rows[level][row], permuted[level][row]
    assert (
        len(first.answers)
        == len(second.answers)
        == sum(not name.endswith("/test") for name in NAMES[level][row])
    )
    for one, other in zip(first.answers, second.answers, strict=True):
        assert one[0].choice == other[0].choice
        np.testing.assert_array_equal(one[0].predicted, other[0].predicted)
    # in the other splits they are training labels, and seen
    both = [
        pair
        for pairs in zip(first.answers, second.answers, strict=True)
        for pair in zip(*pairs, strict=True)
    ]
    assert any((a.predicted != b.predicted).any() for a, b in both)
