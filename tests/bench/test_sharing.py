"""What cells of one data set share, and what training sees of an inductive one."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest

from cases import as_sparse
from graphlatent.bench import probing
from graphlatent.bench.context import CONCAT, PLAIN
from graphlatent.bench.data import DatasetBundle
from graphlatent.bench.recipe import Recipe
from graphlatent.estimator import Estimator
from graphlatent.probes.results import ProbeResult
from one_by_one import candidates, fixed, measure_row, measurement, probed
from standins import tiny

pytestmark = pytest.mark.usefixtures("small_probes")

NODE, GRAPH = "table2/Photo", "table1/MUTAG"
FLICKR, PPI, PPI_SMALL = "table2/Flickr", "table2/PPI", "table2/PPI-small"


@pytest.fixture
def work(monkeypatch) -> dict[str, list[Any]]:
    """The epochs of every training, and what every probe was asked, in their order."""
    done: dict[str, list[Any]] = {"trained": [], "linear": [], "svm": [], "adam": []}
    snapshots = Estimator.snapshots

    def training(estimator, graph, *, epochs):
        done["trained"].append(list(epochs))
        yield from snapshots(estimator, graph, epochs=epochs)

    monkeypatch.setattr(Estimator, "snapshots", training)
    for probe in ("linear", "svm", "adam"):
        answers = getattr(probing, f"{probe}_predictions")

        def asked(found, *rest, probe=probe, answers=answers, **options):
            done[probe] += list(found)
            return answers(found, *rest, **options)

        monkeypatch.setattr(probing, f"{probe}_predictions", asked)
    return done


def named(epochs: Sequence[int], kinds: Sequence[str]) -> list[str]:
    return [f"epoch {e}, {kind}" for e in epochs for kind in kinds]


def measured_rows(data: DatasetBundle, *cells: tuple[Recipe, str]) -> list[dict[str, ProbeResult]]:
    shared = measurement(data)
    return [measure_row(shared, recipe, row).results for recipe, row in cells]


class TestSharing:
    def test_ablations_of_the_representation_train_and_probe_nothing_anew(self, bundles, work):
        """They also keep the representation of their recipe, and have the linear probe alone."""
        cells = [
            (tiny(name), "paper") for name in (NODE, "table10/Photo-concat", "table10/Photo-plain")
        ]
        main, concat, plain = measured_rows(bundles[NODE], *cells)
        assert work == {
            "trained": [[1, 3, 6]],
            "linear": named((1, 3, 6), (PLAIN, CONCAT)),
            "svm": [],
            "adam": named((1, 3, 6), (CONCAT,)),
        }
        assert list(concat) == list(plain) == ["linear/validation", "linear/fixed"]
        assert concat["linear/fixed"] == main["linear/fixed"] != plain["linear/fixed"]
        for kind, results in ((CONCAT, concat), (PLAIN, plain)):
            several = candidates(bundles[NODE], tiny(NODE).paper, epochs=(1, 3, 6), kinds=[kind])
            assert results["linear/validation"] == probed(bundles[NODE], several)

    def test_the_whole_cell(self, bundles, work, small_defaults):
        measured_rows(
            bundles[GRAPH],
            *((tiny(GRAPH), row) for row in ("random", "paper", "defaults", "random", "paper")),
        )
        # The last one is the start of the defaults
        assert work["trained"] == [[0], [1, 3, 6], [4], [0]]
        assert work["svm"] == named((0, 1, 3, 6, 4, 0), (PLAIN,))

    def test_other_settings_are_other_trainings(self, bundles, work):
        recipe = tiny(NODE, rows=("paper",))
        other = dataclasses.replace(recipe, paper={**recipe.paper, "alpha": 5})
        first, second = measured_rows(bundles[NODE], (recipe, "paper"), (other, "paper"))
        assert work["trained"] == [[1, 3, 6]] * 2
        assert first["linear/fixed"] != second["linear/fixed"]

    def test_settings_that_are_written_differently_are_the_same(self, bundles, work):
        recipe = tiny(NODE, rows=("paper",))
        same = dataclasses.replace(recipe, paper={**recipe.paper, "alpha": 2.0, "last_norm": False})
        first, second = measured_rows(bundles[NODE], (recipe, "paper"), (same, "paper"))
        assert recipe.paper["alpha"] == 2 and first == second and len(work["trained"]) == 1

    def test_another_budget_of_the_papers_probe_is_another_probe(self, bundles, work):
        recipe = tiny(NODE)
        longer = dataclasses.replace(
            recipe, evaluation=dataclasses.replace(recipe.evaluation, probe_epochs=40)
        )
        first, second = measured_rows(bundles[NODE], (recipe, "random"), (longer, "random"))
        assert [
            r["paper-probe/validation"].choices[0].settings["epochs"] for r in (first, second)
        ] == [15, 40]
        assert first["linear/validation"] == second["linear/validation"] and work[
            "linear"
        ] == named([0], (PLAIN, CONCAT))

    def test_with_a_schedule_the_number_of_epochs_matters(self, bundles, work):
        recipe = tiny(NODE, rows=("paper",))
        long = dataclasses.replace(recipe, paper={**recipe.paper, "schedule": "cosine"})
        evaluation = dataclasses.replace(recipe.evaluation, epochs=(1, 3))
        short = dataclasses.replace(long, paper={**long.paper, "epochs": 3}, evaluation=evaluation)
        first, second = measured_rows(bundles[NODE], (long, "paper"), (short, "paper"))
        assert (
            work["trained"] == [[1, 3, 6], [1, 3]]
            and first["linear/fixed"] != second["linear/fixed"]
        )


def test_sparse_features_give_the_same_choices_to_every_row(bundles):
    made = bundles[NODE]
    sparse = as_sparse(made.graph)
    for row in ("raw", "propagated", "random"):
        one = measure_row(measurement(made), tiny(NODE), row).results
        other = measure_row(
            measurement(made, graph=sparse, train_graph=sparse), tiny(NODE), row
        ).results
        assert {name: r.scores for name, r in one.items()} == {
            name: pytest.approx(r.scores, abs=0.02) for name, r in other.items()
        }


def test_a_random_encoder_without_appended_features_is_fixed_without_them(bundles):
    recipe = tiny(NODE)
    plain = dataclasses.replace(recipe, paper={**recipe.paper, "concat_input": False})
    results = measure_row(measurement(bundles[NODE]), plain, "random").results
    assert {choice.candidate for choice in results["linear/fixed"].choices} == {f"epoch 0, {PLAIN}"}


# --- inductive sets ---


@pytest.mark.parametrize("name", [FLICKR, PPI, PPI_SMALL])
def test_the_encoder_is_trained_on_the_training_part_and_embeds_everything(bundles, name):
    made, recipe = bundles[name], tiny(name)
    random, paper = measured_rows(made, (recipe, "random"), (recipe, "paper"))
    several = candidates(made, recipe.paper, epochs=(1, 3, 6))
    assert paper["linear/validation"] == probed(made, several)
    own = f"epoch 3, {CONCAT}"
    assert paper["linear/fixed"] == fixed(probed(made, {own: several[own]}))
    assert random["linear/validation"] == probed(made, candidates(made, recipe.paper, epochs=[0]))
    assert (
        paper["linear/validation"].metric == "micro-F1"
        and len(paper["linear/validation"].scores) == 1
    )
    expected = ["linear/validation", "linear/fixed", "paper-probe/validation"]
    assert list(paper) == list(random) == expected  # the paper's probe is for one class per node

    cheating = measured_rows(dataclasses.replace(made, train_graph=made.graph), (recipe, "paper"))[
        0
    ]
    assert cheating["linear/fixed"] != paper["linear/fixed"]


def test_what_no_label_at_all_scores(bundles):
    (raw,) = measured_rows(bundles[PPI], (tiny(PPI), "raw"))
    truth = bundles[PPI].labels[bundles[PPI].splits[0].test]
    assert list(raw) == ["linear/validation", "zeros/fixed"]
    assert raw["zeros/fixed"].scores == (0.0,) and raw["zeros/fixed"].others == {
        "accuracy": (pytest.approx(1 - truth.mean()),)
    }
    assert raw["zeros/fixed"].selection == "Nothing is chosen, and no label is ever given."
    assert raw["zeros/fixed"].splits == raw["linear/validation"].splits
