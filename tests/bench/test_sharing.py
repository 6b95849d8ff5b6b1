"""What cells of one data set share, and what training sees of an inductive one."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest
from graphlatent.bench.material import Material, load_material
from graphlatent.bench.measure import CONCAT, PLAIN

from cases import as_sparse
from graphlatent.bench import measure
from graphlatent.bench.recipe import Recipe
from graphlatent.estimator import Estimator
from graphlatent.probes.results import ProbeResult
from one_by_one import candidates, fixed, measurement, probed
from standins import tiny, write_flickr, write_mutag, write_photo, write_ppi

pytestmark = pytest.mark.slow

NODE, GRAPH, FLICKR, PPI = "table2/Photo", "table1/MUTAG", "table2/Flickr", "table2/PPI"


@pytest.fixture(scope="module")
def materials(tmp_path_factory) -> dict[str, Material]:
    folder = tmp_path_factory.mktemp("data")
    for write in (write_photo, write_mutag, write_flickr, write_ppi):
        write(folder)
    found = {name: load_material(tiny(name), folder) for name in (NODE, GRAPH, FLICKR, PPI)}
    return {**found, NODE: dataclasses.replace(found[NODE], splits=found[NODE].splits[:5])}


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
        answers = getattr(measure, f"{probe}_answers")

        def asked(found, *rest, probe=probe, answers=answers, **options):
            done[probe] += list(found)
            return answers(found, *rest, **options)

        monkeypatch.setattr(measure, f"{probe}_answers", asked)
    return done


def named(epochs: Sequence[int], kinds: Sequence[str]) -> list[str]:
    return [f"epoch {e}, {kind}" for e in epochs for kind in kinds]


def measured_rows(material: Material, *cells: tuple[Recipe, str]) -> list[dict[str, ProbeResult]]:
    shared, found = measurement(material), []
    for recipe, row in cells:
        shared.prepare(recipe, row)
        found.append(shared.row(recipe, row)[0])
    return found


class TestSharing:
    def test_ablations_of_the_representation_train_and_probe_nothing_anew(self, materials, work):
        """They also keep the representation of their recipe, and have the linear probe alone."""
        cells = [
            (tiny(name), "paper") for name in (NODE, "table10/Photo-concat", "table10/Photo-plain")
        ]
        main, concat, plain = measured_rows(materials[NODE], *cells)
        assert work == {
            "trained": [[1, 3, 6]],
            "linear": named((1, 3, 6), (PLAIN, CONCAT)),
            "svm": [],
            "adam": named((1, 3, 6), (CONCAT,)),
        }
        assert list(concat) == list(plain) == ["linear/validation", "linear/fixed"]
        assert concat["linear/fixed"] == main["linear/fixed"] != plain["linear/fixed"]
        for kind, results in ((CONCAT, concat), (PLAIN, plain)):
            several = candidates(materials[NODE], tiny(NODE).paper, epochs=(1, 3, 6), kinds=[kind])
            assert results["linear/validation"] == probed(materials[NODE], several)

    def test_the_whole_cell(self, materials, work):
        measured_rows(
            materials[GRAPH],
            *((tiny(GRAPH), row) for row in ("random", "paper", "defaults", "random", "paper")),
        )
        # The last one is the start of the defaults
        assert work["trained"] == [[0], [1, 3, 6], [3, 10], [0]]
        assert work["svm"] == named((0, 1, 3, 6, 3, 10, 0), (PLAIN,))

    def test_other_settings_are_other_trainings(self, materials, work):
        recipe = tiny(NODE, rows=("paper",))
        other = dataclasses.replace(recipe, paper={**recipe.paper, "alpha": 5})
        first, second = measured_rows(materials[NODE], (recipe, "paper"), (other, "paper"))
        assert (
            work["trained"] == [[1, 3, 6]] * 2
            and first["linear/fixed"].choices != second["linear/fixed"].choices
        )

    def test_settings_that_are_written_differently_are_the_same(self, materials, work):
        recipe = tiny(NODE, rows=("paper",))
        same = dataclasses.replace(recipe, paper={**recipe.paper, "alpha": 2.0, "last_norm": False})
        first, second = measured_rows(materials[NODE], (recipe, "paper"), (same, "paper"))
        assert recipe.paper["alpha"] == 2 and first == second and len(work["trained"]) == 1

    def test_another_budget_of_the_papers_probe_is_another_probe(self, materials, work):
        recipe = tiny(NODE)
        longer = dataclasses.replace(
            recipe, evaluation=dataclasses.replace(recipe.evaluation, probe_epochs=40)
        )
        first, second = measured_rows(materials[NODE], (recipe, "random"), (longer, "random"))
        assert [
            r["paper-probe/validation"].choices[0].settings["epochs"] for r in (first, second)
        ] == [15, 40]
        assert first["linear/validation"] == second["linear/validation"] and work[
            "linear"
        ] == named([0], (PLAIN, CONCAT))

    def test_with_a_schedule_the_number_of_epochs_matters(self, materials, work):
        recipe = tiny(NODE, rows=("paper",))
        long = dataclasses.replace(recipe, paper={**recipe.paper, "schedule": "cosine"})
        evaluation = dataclasses.replace(recipe.evaluation, epochs=(1, 3))
        short = dataclasses.replace(long, paper={**long.paper, "epochs": 3}, evaluation=evaluation)
        first, second = measured_rows(materials[NODE], (long, "paper"), (short, "paper"))
        assert (
            work["trained"] == [[1, 3, 6], [1, 3]]
            and first["linear/fixed"] != second["linear/fixed"]
        )


def test_sparse_features_give_the_same_choices_to_every_row(materials):
    made = materials[NODE]
    sparse = as_sparse(made.graph)
    for row in ("raw", "propagated", "random"):
        one = measurement(made).row(tiny(NODE), row)[0]
        other = measurement(made, graph=sparse, seen=sparse).row(tiny(NODE), row)[0]
        assert {name: r.scores for name, r in one.items()} == {
            name: pytest.approx(r.scores, abs=0.02) for name, r in other.items()
        }


def test_a_random_encoder_without_appended_features_is_fixed_without_them(materials):
    recipe = tiny(NODE)
    plain = dataclasses.replace(recipe, paper={**recipe.paper, "concat_input": False})
    results = measurement(materials[NODE]).row(plain, "random")[0]
    assert {choice.candidate for choice in results["linear/fixed"].choices} == {f"epoch 0, {PLAIN}"}


# --- inductive sets ---


@pytest.mark.parametrize("name", [FLICKR, PPI])
def test_the_encoder_is_trained_on_the_training_part_and_embeds_everything(materials, name):
    made, recipe = materials[name], tiny(name)
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

    cheating = measured_rows(dataclasses.replace(made, seen=made.graph), (recipe, "paper"))[0]
    assert cheating["linear/fixed"] != paper["linear/fixed"]


def test_what_no_label_at_all_scores(materials):
    (raw,) = measured_rows(materials[PPI], (tiny(PPI), "raw"))
    truth = materials[PPI].labels[materials[PPI].splits[0].test]
    assert list(raw) == ["linear/validation", "zeros/fixed"]
    assert raw["zeros/fixed"].scores == (0.0,) and raw["zeros/fixed"].others == {
        "accuracy": (pytest.approx(1 - truth.mean()),)
    }
    assert raw["zeros/fixed"].selection == "Nothing is chosen, and no label is ever given."
    assert raw["zeros/fixed"].splits == raw["linear/validation"].splits
