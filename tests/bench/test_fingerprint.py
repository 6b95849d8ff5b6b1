"""What makes a record stale, and what does not."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import pytest

from graphlatent.bench import fingerprint as module
from graphlatent.bench import probing
from graphlatent.bench.fingerprint import INTRODUCED_AS, define, fingerprint
from graphlatent.bench.loading import load_recipe
from graphlatent.bench.recipe import Recipe
from graphlatent.bench.rows import find_row
from graphlatent.bench.rows import lagraph as lagraph_rows
from graphlatent.bench.rows.untrained import TRAINING_ONLY
from graphlatent.config import Doc
from graphlatent.methods import registry
from graphlatent.methods.lagraph.settings import (
    NODE_PRESETS,
    Alpha,
    GraphLaGraphSettings,
    NodeLaGraphSettings,
)
from graphlatent.probes.design import PREPROCESSING
from graphlatent.probes.linear import L2_GRID
from one_by_one import embedded
from standins import tiny

CELLS = ("table2/CS", "alpha/CS-5", "alpha/CS-2", "table1/MUTAG", "table1/COLLAB", "table2/PPI")
MEASURED = {
    (name, row): define(load_recipe(name), find_row(row))
    for name in CELLS
    for row in load_recipe(name).rows
}


def stale(*recipes: Recipe) -> set[tuple[str, str]]:
    """The rows of records made before that would be measured again, with these recipes."""
    today = {recipe.name: recipe for recipe in map(load_recipe, CELLS)}
    today |= {recipe.name: recipe for recipe in recipes}
    return {
        (cell, row)
        for (cell, row), definition in MEASURED.items()
        if fingerprint(definition) != fingerprint(define(today[cell], find_row(row)))
    }


def rows(name: str, *, cell: str | None = None) -> set[tuple[str, str]]:
    """The rows of that name."""
    return {key for key in MEASURED if key[1] == name and cell in (None, key[0])}


@pytest.fixture
def with_settings(monkeypatch):
    """A function: LaGraph's settings classes of the levels are others from now on."""

    def change(**classes: type[Any]) -> None:
        registry.method_names("node")
        known = dict(registry._ESTIMATORS)
        for level, settings in classes.items():
            values = {"settings_class": settings}
            old = known["lagraph", level]
            known["lagraph", level] = type(old.__name__, (old,), values)
        monkeypatch.setattr(registry, "_ESTIMATORS", known)

    return change


def changed(name: str, **settings: Any) -> Recipe:
    recipe = load_recipe(name)
    return dataclasses.replace(recipe, paper={**recipe.paper, **settings})


def test_nothing_changed():
    assert stale() == set()


class TestNewSetting:
    """(a) It invalidates nothing, as long as its default changes nothing."""

    @dataclass(kw_only=True, eq=False, repr=False)
    class More(NodeLaGraphSettings):
        sharpness: Annotated[float, Doc("new")] = 0.0
        hint: Annotated[str | None, Doc("new")] = None

    @dataclass(kw_only=True, eq=False, repr=False)
    class Later(NodeLaGraphSettings):
        sharpness: Annotated[float, Doc("not so new any more")] = 1.0

    def test_at_its_default(self, with_settings):
        with_settings(node=self.More)
        assert "sharpness" in define(load_recipe("table2/CS"), find_row("paper"))["settings"]
        assert stale() == set()

    def test_at_another_value(self, with_settings):
        with_settings(node=self.More)
        assert stale(changed("table2/CS", sharpness=2.0)) == {
            ("table2/CS", row) for row in ("random", "paper", "released")
        }

    def test_records_made_with_it_are_told_from_those_without(self, with_settings):
        with_settings(node=self.More)
        recipe = changed("table2/CS", sharpness=2.0)
        sharp = define(recipe, find_row("paper"))
        assert fingerprint(sharp) != fingerprint(MEASURED["table2/CS", "paper"])
        assert fingerprint(sharp) == fingerprint(define(recipe, find_row("paper")))

    def test_a_default_that_is_changed_later_needs_the_old_value(self, with_settings, monkeypatch):
        with_settings(node=self.Later)
        assert stale() == set()
        monkeypatch.setattr(
            module, "INTRODUCED_AS", {**INTRODUCED_AS, ("lagraph", "node", "sharpness"): 0.0}
        )
        of_nodes = {key for key in MEASURED if key[0].startswith(("table2", "alpha"))}
        trained = {key for key in of_nodes if MEASURED[key]["method"] == "lagraph"}
        assert stale() == trained
        assert stale(*(changed(name, sharpness=0.0) for name in CELLS[:3])) == {
            key for key in trained if key[1] == "defaults" or key[0] == "table2/PPI"
        }

    def test_a_setting_that_is_gone(self, monkeypatch):
        definition = MEASURED["table2/CS", "paper"]
        more = {**definition, "settings": {**definition["settings"], "gone": 1}}
        assert fingerprint(more) != fingerprint(definition)


class TestChangedDefault:
    """(b) It invalidates the rows that use it, and no others."""

    @dataclass(kw_only=True, eq=False, repr=False)
    class Node(NodeLaGraphSettings):
        alpha: Alpha = 3.0

    @dataclass(kw_only=True, eq=False, repr=False)
    class Graph(GraphLaGraphSettings):
        alpha: Alpha = 3.0

    def test_of_alpha(self, with_settings):
        """Also where a recipe gives the paper's value itself."""
        assert load_recipe("table2/CS").paper["alpha"] == NODE_PRESETS["paper"]["alpha"]
        with_settings(node=self.Node, graph=self.Graph)
        assert stale() == rows("defaults")

    def test_of_one_level(self, with_settings):
        with_settings(graph=self.Graph)
        assert stale() == {key for key in rows("defaults") if key[0].startswith("table1/")}

    def test_a_default_that_recipes_rely_on(self, with_settings):
        @dataclass(kw_only=True, eq=False, repr=False)
        class Node(NodeLaGraphSettings):
            standardize: Annotated[bool, Doc("")] = False

        with_settings(node=Node)
        of_nodes = {key for key in MEASURED if not key[0].startswith("table1/")}
        assert stale() == {key for key in of_nodes if MEASURED[key]["method"] == "lagraph"}


class TestChangedRecipe:
    """(c) A changed cell invalidates its own rows, as far as they depend on the change."""

    CELL = "table2/CS"

    def stale(self, recipe: Recipe) -> set[str]:
        found = stale(recipe)
        assert {cell for cell, _ in found} <= {recipe.name}
        return {row for _, row in found}

    def test_a_setting_of_training(self):
        assert self.stale(changed(self.CELL, lr=0.5)) == {"paper", "released"}

    def test_a_setting_of_the_encoder(self):
        assert self.stale(changed(self.CELL, hidden_dim=64)) == {"random", "paper", "released"}

    def test_settings_that_the_grid_replaces(self):
        """Learning rate and alpha of the tuned row are those of its grid."""
        assert self.stale(changed("table1/MUTAG", lr=0.5, alpha=7)) == {"paper", "released"}
        more = {"random", "paper", "released", "tuned"}
        assert self.stale(changed("table1/MUTAG", hidden_dim=8)) == more

    def test_the_released_scripts(self):
        recipe = load_recipe(self.CELL)
        other = dataclasses.replace(recipe, released={**recipe.released, "lr": 0.5})
        assert self.stale(other) == {"released"}

    def test_evaluation(self):
        recipe = load_recipe(self.CELL)
        evaluation = dataclasses.replace(recipe.evaluation, budget=10)
        assert self.stale(dataclasses.replace(recipe, evaluation=evaluation)) == {"paper"}
        evaluation = dataclasses.replace(recipe.evaluation, probe_epochs=7)
        probed = {"random", "paper", "released"}
        assert self.stale(dataclasses.replace(recipe, evaluation=evaluation)) == probed

    def test_another_method(self):
        recipe = load_recipe(self.CELL)
        bgrl = recipe.methods["bgrl"]
        bgrl = dataclasses.replace(bgrl, settings={**bgrl.settings, "lr": 0.5})
        other = dataclasses.replace(recipe, methods={**recipe.methods, "bgrl": bgrl})
        assert self.stale(other) == {"bgrl"}

    @pytest.mark.parametrize("change", [{"binarize": True}, {"metric": "micro-F1"}])
    def test_data_and_metric_are_of_every_row(self, change):
        recipe = load_recipe(self.CELL)
        assert self.stale(dataclasses.replace(recipe, **change)) == set(recipe.rows)

    def test_the_cap_of_degrees_matters_where_degrees_are_the_features(self):
        assert self.stale(changed("table1/COLLAB", degree_cap=5)) == set(
            load_recipe("table1/COLLAB").rows
        )
        assert not {"raw", "propagated"} & self.stale(changed("table1/MUTAG", degree_cap=5))

    def test_words_and_published_numbers_do_not_matter(self):
        recipe = load_recipe(self.CELL)
        other = dataclasses.replace(recipe, line="x", column="y", ours={}, published=None)
        assert self.stale(other) == set()

    def test_a_row_more_is_no_change_of_the_others(self):
        recipe = load_recipe("table1/MUTAG")
        less = dataclasses.replace(recipe, rows=tuple(r for r in recipe.rows if r != "tuned"))
        assert self.stale(less) == set()

    def test_values_that_are_written_differently_are_the_same(self):
        assert self.stale(changed(self.CELL, alpha=2.0, weight_decay=0.0)) == set()


class TestChangedGrid:
    """(d) It invalidates the rows that choose from it."""

    def test_of_the_rbf_svm(self, monkeypatch):
        monkeypatch.setattr(probing, "RBF_C", (1.0,))
        with_rbf = {key for key in MEASURED if key[0].startswith("table1/")}
        assert stale() == {key for key in with_rbf if key[1] not in ("propagated", "tuned")}
        assert all("rbf" in MEASURED[key]["probes"] for key in stale())

    def test_of_the_linear_probe(self, monkeypatch):
        monkeypatch.setattr(probing, "L2_GRID", (1.0,))
        of_nodes = {key for key in MEASURED if not key[0].startswith("table1/")}
        # The released protocol has the paper's own probe alone
        assert stale() == {key for key in of_nodes if key[1] != "released"}

    def test_of_the_linear_svm(self, monkeypatch):
        monkeypatch.setattr(probing, "SVM_L2_GRID", (1.0,))
        of_graphs = {key for key in MEASURED if key[0].startswith("table1/")}
        # The Weisfeiler-Lehman kernel has SVMs on precomputed kernels, which choose C
        assert stale() == {key for key in of_graphs if key[1] not in ("released", "wl")}

    def test_of_the_tuned_row(self, monkeypatch):
        monkeypatch.setattr(lagraph_rows, "GRID", {**lagraph_rows.GRID, "lr": (1.0,)})
        assert stale() == rows("tuned")


def test_a_definition_by_hand():
    assert define(load_recipe("table2/CS"), find_row("raw")) == {
        "data": {"dataset": "CS", "binarize": False},
        "level": "node",
        "protocol": "splits",
        "metric": "accuracy",
        "probes": {"linear": {"l2": list(L2_GRID), "preprocessing": list(PREPROCESSING)}},
        "method": "",
        "settings": {},
        "candidates": {},
    }
    paper = define(load_recipe("table3/Flickr-shape-100"), find_row("paper"))
    assert paper["data"] == {
        "dataset": "Flickr-shape",
        "binarize": False,
        "shape": {"of": "Flickr", "homophily": 0.5, "sigma": 3.0},
    }
    assert paper["candidates"] == {
        "epochs": [60],
        "budget": 60,
        "representations": ["embedding + features"],
    }
    assert (paper["settings"]["nodes_per_step"], paper["method"]) == (100, "lagraph")
    assert "random_state" not in paper["settings"] and "device" not in paper["settings"]


def test_no_definition_has_no_fingerprint():
    assert fingerprint({}) == ""


def test_of_a_method_that_is_not_registered(monkeypatch):
    """A record of it can be read, and is what it says."""
    definition = {**MEASURED["table2/CS", "paper"], "method": "gone"}
    assert fingerprint(definition) == fingerprint(definition)
    assert fingerprint(definition) != fingerprint({**definition, "settings": {}})


OTHER = {
    "lr": 0.5,
    "optimizer": "adamw",
    "weight_decay": 0.1,
    "schedule": "cosine",
    "warmup_ratio": 0.5,
    "patience": 1,
    "alpha": 50.0,
    "invariance_on": "all",
    "mask_ratio": 0.9,
    "mask_value": "zeros",
    "noise_std": 3.0,
    "mask_rounding": "floor",
    "loss_reduction": "mean",
    "engine": "general",
    "batching": "nodes",
    "nodes_per_step": 7,
    "steps_per_epoch": 3,
    "num_neighbors": 3,
    "parts_per_step": 2,
    "batch_size": 5,
    "on_collapse": "stop",
    "select": "objective",
}
# Those of the cosine objective; each is other than in the preset.
OTHER_OF_COSINE = {
    "reconstruction_weight": 0.0,
    "masked_weight": 3.0,
    "latent_weight": 2.0,
    "variance_weight": 0.0,
    "momentum": 0.5,
    "edge_drop": 0.5,
    "feature_drop": 0.5,
}


def test_every_setting_of_training_is_tested():
    # Without diagnostics the last two of OTHER have no effect; they only look in any case.
    tested = {*OTHER, *OTHER_OF_COSINE, "epochs", "diagnostics"}
    assert tested == set(TRAINING_ONLY)


@pytest.mark.parametrize("name", ["table2/Photo", "table1/MUTAG"])
@pytest.mark.parametrize("preset", ["paper", "plus"])
def test_an_untrained_encoder_does_not_depend_on_settings_of_training(bundles, name, preset):
    level = tiny(name).level
    if preset == "paper":
        values, changes = tiny(name).paper, [OTHER]
    else:
        values = {"hidden_dim": 5}
        # Weights of 0 leave out parts of the model, such as the predictor.
        changes = [{**OTHER, **OTHER_OF_COSINE}, {"latent_weight": 0.0}, {"mask_value": "noise"}]
    known = {f.name for f in dataclasses.fields(registry.estimator_class("lagraph", level))}
    first = embedded(bundles[name], values, epoch=0)
    for change in changes:
        other = {key: value for key, value in change.items() if key in known}
        if level == "graph":
            # Without meaning for this objective
            other.pop("invariance_on", None)
        second = embedded(bundles[name], {**values, **other}, epoch=0)
        np.testing.assert_array_equal(first, second)
