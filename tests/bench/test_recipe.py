"""Every packaged recipe: whole, with a reason for all that is ours, in the order of the paper."""

from __future__ import annotations

import dataclasses
import sys
from collections import ChainMap
from functools import cache
from importlib.resources import files
from typing import Any

import pytest

from graphlatent.bench.loading import all_recipes, load_recipe, recipes_of
from graphlatent.bench.recipe import Evaluation, Published
from graphlatent.bench.recipe_files import table_files
from graphlatent.bench.rows import method_rows
from graphlatent.bench.shapes import SHAPES
from graphlatent.config import resolve, to_mapping
from graphlatent.methods.lagraph.settings import GraphLaGraphSettings, NodeLaGraphSettings
from paper_tables import (
    CAPS,
    GRAPH_SETS,
    METHOD,
    NODE_SETS,
    SCRIPT_EPOCHS,
    SIZES,
    TABLE_5,
    TABLE_6,
    TABLE_9,
    TEXT,
    TRANSDUCTIVE,
)

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ALL = all_recipes()
NAMES = [recipe.name for recipe in ALL]
TABLES = [table.name for table in table_files()]
TABLE_1_ROWS = ("raw", "propagated", "random", "wl", "paper", "released", "defaults", "tuned")
FEW_LABEL_ROWS = (
    "few-raw",
    "finetune-random",
    "finetune-paper",
    "finetune-defaults-random",
    "finetune-defaults",
)
OF_GRAPHS = ("wl", "tuned")


@cache
def raw(table: str) -> dict[str, Any]:
    """A table file as it is."""
    file = files("graphlatent.bench") / "recipes" / f"{table}.toml"
    return tomllib.loads(file.read_text(encoding="utf-8"))


def own_parts(name: str) -> list[dict[str, Any]]:
    """What the file of a cell says about it, what goes before first."""
    table, cell = name.split("/")
    values = raw(table)
    lines = values.get("lines", {"": {}})
    columns = values.get("columns") or values["cells"]
    (pair,) = [(c, n) for c in columns for n in lines if cell == f"{c}-{n}".removesuffix("-")]
    found = [values.get("cells", {}).get(cell, {}), lines[pair[1]]]
    found += [values.get("columns", {}).get(pair[0], {}), values["all"]]
    parts = []
    for part in found:
        parts += [part, *(values["shared"][key] for key in reversed(part.get("shares", [])))]
    return parts


def parts(name: str) -> list[dict[str, Any]]:
    """The same, followed by what the extended recipe says."""
    own = own_parts(name)
    parent = ChainMap(*own).get("extends")
    column = load_recipe(name).column
    return own if parent is None else [*own, *parts(parent.format(column=column))]


@pytest.mark.parametrize("table", TABLES)
class TestEveryRecipe:
    def test_settings_pass_the_real_checks(self, table):
        for recipe in recipes_of(table):
            resolved = resolve(recipe.settings(), owner=recipe.name)
            assert type(resolved) is (
                GraphLaGraphSettings if recipe.level == "graph" else NodeLaGraphSettings
            )
            assert resolved.epochs == recipe.evaluation.epochs[-1]
            # What no recipe says must stay what the paper's formulas need, whatever the defaults
            # become.
            preset = (
                resolved.loss_reduction,
                resolved.last_norm,
                resolved.output_activation,
                resolved.mask_rounding,
            )
            assert preset == ("sum", False, "none", "round"), recipe.name
            assert (resolved.schedule, resolved.patience, resolved.symmetrize) == (
                "none",
                None,
                True,
            ), recipe.name
            if "released" in recipe.rows:
                released = resolve(recipe.released_settings(), owner=recipe.name)
                assert (
                    released.loss_reduction,
                    released.last_norm,
                    released.output_activation,
                ) == ("mean", True, "relu")
            assert resolve(recipe.default_settings(), owner=recipe.name).preset == "plus"
            assert resolved.preset == "paper"

    def test_what_the_paper_leaves_out_is_ours(self, table):
        # Values beside the printed ones
        added_by = {"alpha": {"alpha"}, "invariance": {"invariance_on"}, "9": {"alpha"}}
        for recipe in recipes_of(table):
            printed = {
                *METHOD,
                *TEXT[recipe.level],
                *(TABLE_5 if recipe.level == "graph" else TABLE_6),
            }
            printed |= {"degree_cap"} if recipe.dataset in CAPS else set()
            # Table 3
            printed |= (
                {"batching", "nodes_per_step"}
                if recipe.dataset.startswith(("Flickr", "Reddit"))
                else set()
            )
            printed |= {"probe_epochs", "probe_weight_decay"}
            given = {
                *recipe.paper,
                *(
                    f.name
                    for f in dataclasses.fields(Evaluation)
                    if getattr(recipe.evaluation, f.name) is not None
                ),
            }
            added = (
                set()
                if recipe.line in ("alpha 2", "masked nodes", "MSE-Embed")
                else added_by.get(table, set())
            )
            choices = (
                {"protocol"} if recipe.protocol in ("folds", "splits", "few-labels") else set()
            )
            choices |= {"binarize"} if recipe.dataset in ("CS", "Physics") else set()
            choices |= {"dataset"} if recipe.dataset.endswith(("-shape", "-small")) else set()
            assert set(recipe.ours) == (given - printed) | added | choices, recipe.name
            assert all(text.endswith(".") for text in recipe.ours.values())

    def test_reads_as_its_file_does(self, table):
        """An independent way through the parts of a table: a chain of mappings, first to last."""
        for recipe in recipes_of(table):
            chain = parts(recipe.name)
            for part, got in (("settings", recipe.paper), ("released", recipe.released)):
                said = dict(ChainMap(*[each.get(part, {}) for each in chain]))
                budget = recipe.evaluation.budget
                said = {k: budget if v == "budget" else v for k, v in said.items()}
                last = {"epochs": recipe.evaluation.epochs[-1]} if part == "settings" else {}
                assert {**said, **last} == got, recipe.name
            reasons = dict(ChainMap(*[each.get("ours", {}) for each in chain]))
            assert recipe.ours.items() <= reasons.items(), recipe.name
            top = ChainMap(*chain)
            for key in ("line", "level", "protocol", "metric"):
                assert getattr(recipe, key) == top[key]
            assert recipe.rows == tuple(top["rows"])
            assert recipe.binarize == top.get("binarize", False)
            own = dict(ChainMap(*[each.get("published", {}) for each in own_parts(recipe.name)]))
            assert recipe.published == (Published(**own) if "mean" in own else None)

    def test_a_changed_value_gets_its_own_reason(self, table):
        """A cell that changes what the extended recipe marks as ours says again why."""
        for recipe in recipes_of(table):
            own = own_parts(recipe.name)
            parent = parts(recipe.name)[len(own) :]
            explained = {key for each in parent for key in each.get("ours", {})}
            changed = {key for each in own for key in each.get("settings", {})}
            changed |= {"epochs" for each in own if "epochs" in each.get("evaluation", {})}
            changed |= {key for each in own for key in ("binarize", "dataset") if key in each}
            again = {key for each in own for key in each.get("ours", {})}
            if parent:
                assert changed & explained <= again, recipe.name


class TestPlan:
    def test_epochs_and_budgets(self):
        for recipe in ALL:
            epochs, budget = recipe.evaluation.epochs, recipe.evaluation.budget
            assert budget == SCRIPT_EPOCHS.get(
                recipe.dataset.removesuffix("-shape").removesuffix("-small"), 20
            )
            if recipe.table in ("3", "alpha", "invariance", "figure2"):
                assert epochs == (budget,)
            else:
                assert 4 <= len(epochs) <= (6 if recipe.level == "graph" else 7)
                assert epochs[-1] <= (
                    200
                    if recipe.level == "node"
                    else 20
                    if recipe.dataset in ("COLLAB", "RDT-B", "DD")
                    else 50
                )

    def test_rows(self):
        """Without those of other methods."""
        others = method_rows()
        rows = {r.name: tuple(row for row in r.rows if row not in others) for r in ALL}
        few = [rows.pop(r.name) for r in ALL if r.labels is not None]
        assert len(few) == 26 and set(few) == {FEW_LABEL_ROWS}
        main = {name: rows.pop(name) for r in ALL if not r.is_ablation for name in [r.name]}
        assert {name.split("/")[0] for name in main} == {"table1", "table2", "binarized"}
        for name, listed in main.items():
            graphs = name.startswith("table1/")
            assert listed == tuple(r for r in TABLE_1_ROWS if graphs or r not in OF_GRAPHS)
        # No main table has rows without training of these
        synthetic = [rows.pop(f"table3/{name}-all") for name in SHAPES]
        of_defaults = {name for name in rows if name.startswith("plus")}
        assert {rows.pop(name) for name in of_defaults} == {("defaults",)}
        assert of_defaults == {r.name for r in ALL if r.changes and r.table != "8"}
        assert set(rows.values()) == {("paper",)}
        assert set(synthetic) == {("raw", "propagated", "random", "paper")}

    def test_other_methods_have_their_settings(self):
        for recipe in ALL:
            assert set(recipe.methods) == set(recipe.rows) & set(method_rows())

    def test_protocols_and_metrics(self):
        got = {(r.dataset, r.protocol, r.metric) for r in ALL}
        assert got == {
            *((name, "folds", "accuracy") for name in GRAPH_SETS),
            *((name, "few-labels", "accuracy") for name in GRAPH_SETS),
            *((name, "splits", "accuracy") for name in TRANSDUCTIVE),
            ("PPI", "inductive-graphs", "micro-F1"),
            *(
                (name, "inductive", "micro-F1")
                for name in ("Flickr", "Reddit", "Flickr-shape", "Reddit-shape", "PPI-small")
            ),
        }
        assert {r.name for r in ALL if r.binarize} == {"binarized/CS", "binarized/Physics"}


class TestOrder:
    def test_tables_then_columns_then_lines(self):
        assert [n for n in NAMES if n.startswith("table1/")] == [
            f"table1/{name}" for name in GRAPH_SETS
        ]
        assert [n for n in NAMES if n.startswith("table2/")] == [
            f"table2/{name}" for name in (*NODE_SETS[:5], "PPI-small", *NODE_SETS[5:])
        ]
        assert [n for n in NAMES if n.startswith("table9/")][:5] == [
            *(f"table9/NCI1-{way}" for way in TABLE_9),
            "table9/PROTEINS-mse-embed",
        ]
        columns = ["Flickr", "Reddit", "Physics", "Flickr-shape", "Reddit-shape"]
        assert [n for n in NAMES if n.startswith("table3/")] == [
            f"table3/{c}-{size}" for c in columns for size in SIZES
        ]
        assert [n for n in NAMES if n.startswith("invariance/CS")] == [
            "invariance/CS-masked",
            "invariance/CS-all",
        ]
        assert [n for n in NAMES if n.startswith("table10/PPI")] == [
            "table10/PPI-concat",
            "table10/PPI-plain",
        ]
        folders = [
            "table1",
            "table2",
            "table3",
            "table7",
            "table8",
            "table9",
            "table10",
            "figure2",
            "alpha",
            "invariance",
            "binarized",
            "plus",
            "plus-graphs",
            "label-budgets",
        ]
        assert list(dict.fromkeys(n.split("/")[0] for n in NAMES)) == folders


class TestSettings:
    def test_each_call_gives_a_new_object(self):
        recipe = load_recipe("table1/MUTAG")
        recipe.settings().epochs = 3
        assert recipe.settings().epochs == 50

    def test_released_are_the_papers_with_what_the_scripts_change(self):
        recipe = load_recipe("table1/PROTEINS")
        paper, released = to_mapping(recipe.settings()), to_mapping(recipe.released_settings())
        assert {k: v for k, v in released.items() if paper[k] != v} == {
            "preset": "released",
            "epochs": 5,
            "lr": 1e-6,
        }

    def test_defaults_take_nothing_of_the_recipe(self):
        of_nodes = load_recipe("table2/CS").default_settings()
        assert to_mapping(of_nodes) == to_mapping(NodeLaGraphSettings())
        # Whose cap of degrees is another.
        imdb = load_recipe("table1/IMDB-B")
        assert imdb.settings().degree_cap != GraphLaGraphSettings().degree_cap
        # Without features nothing stands beside the readout; NCI1 has some.
        bare = GraphLaGraphSettings(embedding="standard")
        assert to_mapping(imdb.default_settings()) == to_mapping(bare)
        nci1 = load_recipe("table1/NCI1").default_settings()
        assert to_mapping(nci1) == to_mapping(GraphLaGraphSettings())
