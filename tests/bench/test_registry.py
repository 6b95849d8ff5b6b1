"""A row and a method that a test defines go through runner, ledger and table."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import pytest
import torch
from torch import nn

from graphlatent import config
from graphlatent.bench import loading, tables
from graphlatent.bench.context import PLAIN
from graphlatent.bench.ledger import read_ledger
from graphlatent.bench.loading import read_recipe
from graphlatent.bench.probing import Candidate, linear_grid
from graphlatent.bench.recipe import BEST
from graphlatent.bench.rows import Row, all_rows, find_row, register, row_names, unregister
from graphlatent.bench.rows.base import CHOSEN, RowOutcome, RowPlan
from graphlatent.bench.tables import make_table
from graphlatent.config import Doc, NodeSettings, Range
from graphlatent.errors import ConfigError
from graphlatent.estimator import NodeEstimator
from graphlatent.methods import registry
from graphlatent.methods.base import Method, Term
from graphlatent.nn.encoders import build_encoder
from graphlatent.ops.sparse import to_dense
from ledgers import note, states, text
from one_by_one import measure_row, measurement, probed
from standins import quick, tiny

NODE = "table2/Photo"


class DegreeRow(Row):
    """How many neighbours a node has."""

    name, label, seeded = "degree", "degrees", False

    def plan(self, recipe):
        return RowPlan({"linear": linear_grid(recipe.level)})

    def measure(self, cell):
        degrees = cell.data.graph.degree.numpy().reshape(-1, 1).astype(np.float32)
        return RowOutcome({CHOSEN: cell.chosen([Candidate("degree", "degree", lambda: degrees)])})


@dataclass(kw_only=True, eq=False, repr=False)
class ShrinkSettings(NodeSettings):
    hidden_dim: config.HiddenDim = 4
    num_layers: config.NumLayers = 1
    epochs: config.Epochs = 9
    lr: config.LearningRate = 0.02
    strength: Annotated[float, Range(0), Doc("weight of the term")] = 1.0


class ShrinkModel(nn.Module):
    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder


class Shrink(Method[ShrinkSettings]):
    """Features are to be seen in the first columns of the embedding."""

    name, term_names = "shrink", ("error",)

    def build(self, in_dim, *, generator):
        return ShrinkModel(build_encoder(self.settings, in_dim, generator=generator))

    def step(self, model, batch, *, generator):
        rows = self.encode(model, batch)[-1]
        error = (rows - to_dense(batch.x)[:, : rows.shape[1]]).square().sum(1)
        return {"error": Term(error.sum(), len(error), self.settings.strength)}


@pytest.fixture
def degree_row():
    yield register(DegreeRow())
    unregister("degree")


@pytest.fixture
def shrink(monkeypatch):
    """The method, registered while the test runs."""
    # So that all methods are in the copy.
    registry.method_names("node")
    monkeypatch.setattr(registry, "_ESTIMATORS", dict(registry._ESTIMATORS))

    @registry.register
    @dataclass(kw_only=True, eq=False, repr=False)
    class NodeShrink(ShrinkSettings, NodeEstimator):
        method = Shrink
        settings_class = ShrinkSettings

    return NodeShrink


METHOD = """
[methods.shrink]
settings = { lr = 0.05 }
evaluation = { epochs = [2, 6] }
ours = { lr = "A guess." }
published = { mean = 55.5, spread = 0.5, source = "Nowhere 1" }
"""


def own_recipe(folder: Path, rows: str, more: str = ""):
    file = folder / "own.toml"
    file.write_text(f'extends = "{NODE}"\ntable = "own"\nrows = [{rows}]\n{more}')
    return read_recipe(file)


def shown(monkeypatch, recipe):
    """The recipe as the only cell of Table 2."""
    recipe = dataclasses.replace(recipe, table="2", name=NODE)
    for module in (loading, tables):
        monkeypatch.setattr(module, "recipes_of", lambda table: [recipe])
    return recipe


class TestRow:
    def test_from_runner_to_table(self, degree_row, run, bundles, tmp_path, monkeypatch):
        recipe = quick(NODE, "raw", "degree")
        assert states(run(recipe, seeds=[0, 1])) == [
            (NODE, "raw", 0, "done"),
            (NODE, "degree", 0, "done"),
            (NODE, "raw", 1, "skipped"),
            (NODE, "degree", 1, "skipped"),
        ]
        records = read_ledger(tmp_path)
        degree = records[0]
        assert degree.row == "degree" and degree.definition["method"] == ""
        graph = bundles[NODE].graph.degree.numpy().reshape(-1, 1).astype(np.float32)
        expected = probed(bundles[NODE], {"degree": graph})
        assert degree.results[CHOSEN].scores == expected.scores[:3]
        shown(monkeypatch, recipe)
        made = make_table("2", records)
        assert [line.label for line in made.blocks[0].lines] == [
            "published",
            *BEST.values(),
            "raw features",
            "degrees",
        ]
        assert text(made, "degrees", "Photo").startswith(f"{100 * degree.results[CHOSEN].mean:.1f}")

    def test_tables_whose_cells_do_not_list_it_do_not_show_it(self, degree_row):
        made = make_table("2", [])
        assert "degrees" not in [line.label for line in made.blocks[0].lines]

    def test_recipes_may_list_it(self, degree_row, tmp_path):
        assert own_recipe(tmp_path, '"raw", "degree"').rows == ("raw", "degree")

    def test_a_name_that_is_taken(self, degree_row):
        message = "There is a row 'degree' already. Give the new one another name."
        with pytest.raises(ConfigError, match=f"^{re.escape(message)}$"):
            register(DegreeRow())

    def test_the_registry_is_in_the_order_of_tables(self):
        assert row_names()[:8] == (
            "raw",
            "propagated",
            "random",
            "wl",
            "paper",
            "released",
            "tuned",
            "defaults",
        )
        assert [row.name for row in all_rows().values()] == list(row_names())


class TestMethod:
    def test_it_is_a_row_without_further_registration(self, shrink):
        row = find_row("shrink")
        assert (row.name, row.label, row.seeded) == ("shrink", "Shrink, chosen on validation", True)

    def test_settings_of_the_recipe(self, shrink, tmp_path):
        recipe = own_recipe(tmp_path, '"raw", "shrink"', METHOD)
        found = recipe.methods["shrink"]
        assert dict(found.settings) == {"epochs": 6, "lr": 0.05}
        assert (found.evaluation.epochs, found.evaluation.budget) == ((2, 6), 6)
        assert found.ours == {"lr": "A guess."}
        assert recipe.published_of("shrink").mean == 55.5 and recipe.published_of("raw") is None
        plan = find_row("shrink").plan(recipe)
        assert plan.method == "shrink"
        assert (plan.settings["lr"], plan.settings["strength"], plan.settings["epochs"]) == (
            0.05,
            1.0,
            6,
        )

    def test_against_the_estimator_and_the_probe(self, shrink, bundles, tmp_path):
        recipe = dataclasses.replace(
            own_recipe(tmp_path, '"shrink"', METHOD), metric=tiny(NODE).metric
        )
        data = bundles[NODE]
        outcome = measure_row(measurement(data), recipe, "shrink")
        names = ["linear/validation", "linear/fixed", "linear/untrained"]
        assert list(outcome.results) == names and outcome.training["epochs"] == 6
        values = {"lr": 0.05, "device": "cpu", "random_state": 1}
        rows = {
            epoch: shrink(**values, epochs=epoch).fit(data.graph).transform(data.graph)
            for epoch in (0, 2, 6)
        }
        features = torch.as_tensor(data.graph.x).numpy()
        several = {
            f"epoch {epoch}, {form}": rows[epoch]
            if form == PLAIN
            else np.hstack([rows[epoch], features])
            for epoch in (2, 6)
            for form in (PLAIN, "embedding + features")
        }
        assert outcome.results["linear/validation"] == probed(data, several)
        last = probed(data, {f"epoch 6, {PLAIN}": rows[6]})
        assert outcome.results["linear/fixed"].scores == last.scores
        start = probed(data, {f"epoch 0, {PLAIN}": rows[0]})
        assert outcome.results["linear/untrained"] == start
        assert start.scores != last.scores

    def test_from_runner_to_table(self, shrink, run, tmp_path, monkeypatch):
        recipe = own_recipe(tmp_path, '"raw", "shrink"', METHOD)
        recipe = shown(monkeypatch, recipe)
        assert [event.state for event in run(recipe)] == ["done", "done"]
        assert [event.state for event in run(recipe)] == ["skipped", "skipped"]
        records = read_ledger(tmp_path)
        made = make_table("2", records)
        labels = [line.label for line in made.blocks[0].lines]
        # No recipe has the paper's number, so there is no line for it.
        assert labels == [
            "raw features",
            "Shrink, published",
            "Shrink, chosen on validation",
            "Shrink, fixed epochs",
            "the encoder of Shrink, random-initialised",
        ]
        assert text(made, "Shrink, published", "Photo") == "55.5 ± 0.5"
        assert note(made, "Shrink, published: ").endswith(
            "Nowhere 1, number of runs not given; selection not known."
        )
        scores = {r.row: r.results for r in records}["shrink"]
        shown_score = text(made, "Shrink, fixed epochs", "Photo")
        assert shown_score.startswith(f"{100 * scores['linear/fixed'].mean:.1f} ± ")
        # LaGraph's row is not of this table, so only the gain of training is
        assert [line.label for line in made.blocks[-1].lines] == [
            "Shrink, fixed epochs, minus its random-initialised encoder"
        ]

    @pytest.mark.parametrize(
        ("more", "message"),
        [
            (
                "",
                "Missing in [methods.shrink] of recipe 'own': 'evaluation'. Give it there, or"
                " extend a recipe that has it.",
            ),
            (
                "[methods.shrink]\nevaluation = { epochs = [] }",
                "The 'epochs' parameter of [methods.shrink.evaluation] of recipe 'own' must be a"
                " list of one or more ascending ints of at least 0. Got [] instead.",
            ),
            (
                "[methods.shrink]\nevaluation = { epochs = [3] }\nsettings = { strenght = 1 }",
                "Unknown setting 'strenght' in [methods.shrink.settings] of recipe 'own'. Did you"
                " mean 'strength'?",
            ),
            (
                "[methods.shrink]\nevaluation = { epochs = [3] }\nsettings = { strength = -1 }",
                "The 'strength' parameter of [methods.shrink.settings] of recipe 'own' must be a"
                " float in the range [0, inf). Got -1 instead.",
            ),
            (
                "[methods.shrink]\nevaluation = { epochs = [3] }\nsettings = { device = 'cpu' }",
                "The setting 'device' has no place in [methods.shrink.settings] of recipe 'own': it"
                " is given when the recipe is run.",
            ),
            (
                "[methods.shrink]\nevaluation = { epochs = [3] }\nours = { lr = 'Why.' }",
                "Unknown key 'lr' in [methods.shrink.ours] of recipe 'own'. Known keys: budget,"
                " epochs.",
            ),
            (
                "[methods.shrink]\nevalution = 1",
                "Unknown key 'evalution' in [methods.shrink] of recipe 'own'. Did you mean"
                " 'evaluation'?",
            ),
        ],
    )
    def test_failures(self, shrink, tmp_path, more, message):
        with pytest.raises(ConfigError) as error:
            own_recipe(tmp_path, '"shrink"', more)
        assert str(error.value) == message

    def test_it_is_of_one_level(self, shrink, tmp_path):
        (tmp_path / "own.toml").write_text(
            'extends = "table1/MUTAG"\ntable = "own"\nrows = ["shrink"]\n' + METHOD
        )
        with pytest.raises(ConfigError, match=r"^There is no method 'shrink' at graph level: it"):
            read_recipe(tmp_path / "own.toml")
