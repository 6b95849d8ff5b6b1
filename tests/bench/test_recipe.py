from __future__ import annotations

import dataclasses
import random
import sys
from collections import ChainMap, Counter
from importlib.resources import files
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphlatent.bench import recipe as module
from graphlatent.bench.recipe import (
    ROWS,
    SHAPES,
    Evaluation,
    Published,
    Recipe,
    all_recipes,
    load_recipe,
)
from graphlatent.config import GraphSettings, NodeSettings, resolve, to_mapping

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ALL = all_recipes()
NAMES = [recipe.name for recipe in ALL]
FILES = files("graphlatent.bench") / "recipes"


def of_table(table: str) -> list[Recipe]:
    return [recipe for recipe in ALL if recipe.table == table]


def raw(name: str) -> dict[str, Any]:
    return tomllib.loads((FILES / f"{name}.toml").read_text(encoding="utf-8"))


# ---- The paper's tables, typed from its LaTeX source a second time.
GRAPH_SETS = ["NCI1", "PROTEINS", "DD", "MUTAG", "COLLAB", "RDT-B", "RDT-M5K", "IMDB-B"]
NODE_SETS = ["Computers", "Photo", "CS", "Physics", "PPI", "Flickr", "Reddit"]
TRANSDUCTIVE = NODE_SETS[:4]
TABLE_1 = "79.9±0.5 75.2±0.4 78.1±0.4 90.2±1.1 77.6±0.2 90.4±0.8 56.4±0.4 73.7±0.9"
TABLE_2 = "88.0±0.3 93.5±0.4 93.3±0.2 95.8±0.1 74.6±0.0 51.3±0.1 95.2±0.0"
TABLE_9 = {
    "mse-embed": "79.9±0.5 75.2±0.3 78.1±0.3 90.2±1.3 77.6±0.1 90.4±0.9 56.4±0.2 73.7±0.7",
    "mse-output": "79.9±0.7 75.0±0.4 78.1±0.8 89.2±2.1 77.7±0.1 89.8±0.9 56.0±0.4 73.4±0.6",
    "ce-embed": "79.9±0.5 75.2±0.3 78.1±0.4 90.1±1.0 77.6±0.2 90.5±1.3 56.3±0.4 73.7±0.7",
    "ce-output": "79.9±0.7 75.2±0.4 78.1±0.4 89.3±2.7 77.6±0.1 89.4±1.8 55.7±0.2 73.5±0.5",
}
TABLE_10 = {
    "concat": "88.0±0.3 93.5±0.4 93.3±0.2 95.8±0.1 74.6±0.0 51.3±0.1 95.2±0.0",
    "plain": "88.8±0.3 92.7±0.4 92.6±0.2 95.3±0.1 75.2±0.0 51.6±0.1 94.8±0.0",
}
SIZES = ["100", "1000", "2500", "5000", "10000", "all"]
TABLE_3 = {  # F1 @ memory in MB
    "Flickr": "6.07@1389 51.12@1465 51.12@1553 51.27@1725 51.29@2065 51.26@4211",
    "Reddit": "5.76@1403 95.05@1475 95.06@1585 95.08@1783 95.09@2161 95.22@16933",
}
TABLE_5 = {
    "mask_ratio": [0.05, 0.3, 0.1, 0.05, 0.05, 0.05, 0.05, 0.05],
    "noise_std": [0.5, 2, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5],
    "alpha": [10, 1, 10, 10, 10, 10, 10, 10],
    "lr": [1e-5, 1e-5, 1e-5, 1e-5, 1e-4, 1e-3, 1e-4, 1e-4],
}
CAPS = {"COLLAB": 128, "IMDB-B": 64}
TABLE_6 = {
    "mask_ratio": [0.05, 0.05, 0.05, 0.05, 0.05, 0.01, 0.05],
    "noise_std": [0.5, 0.5, 0.005, 0.5, 0.5, 0.5, 0.5],
    "decoder_layers": [1, 1, 1, 2, 2, 2, 2],
    "lr": [1e-4, 1e-5, 1e-3, 1e-3, 1e-3, 1e-4, 1e-3],
    "weight_decay": [0, 1e-4, 0, 0, 1e-5, 0, 0],
}
PROBE_EPOCHS = [400, 400, 400, 300, 200, 200, 500]
PROBE_DECAY = [1e-3, 1e-3, 1e-3, 1e-3, 0, 1e-3, 1e-3]
TEXT = {  # appendix C and the algorithms
    "graph": {
        "encoder": "gin",
        "num_layers": 3,
        "hidden_dim": 32,
        "decoder": "mlp",
        "decoder_layers": 2,
        "readout": "sum",
    },
    "node": {
        "encoder": "gcn",
        "num_layers": 2,
        "hidden_dim": 512,
        "decoder": "mlp",
        "alpha": 2,
        "concat_input": True,
    },
}
METHOD = {
    "preset": "paper",
    "objective": "mse-embed",
    "invariance_on": "masked",
    "mask_value": "noise",
}
SCRIPT_EPOCHS = {"PROTEINS": 5, "DD": 15, "MUTAG": 50, "RDT-B": 15, "IMDB-B": 5}
SCRIPT_EPOCHS |= {
    "Computers": 100,
    "Photo": 10,
    "CS": 50,
    "Physics": 50,
    "PPI": 10,
    "Flickr": 60,
    "Reddit": 10,
}


def numbers(line: str, names: list[str], form: str = "{}") -> dict[str, tuple[float, ...]]:
    pairs = [tuple(float(v) for v in cell.replace("@", "±").split("±")) for cell in line.split()]
    return {form.format(name): pair for name, pair in zip(names, pairs, strict=True)}


def printed(table: str) -> dict[str, tuple[float | None, ...]]:
    """(mean, spread) by name of what the recipes of a table say; of Table 3 (F1, memory)."""
    second = "memory_mb" if table == "3" else "spread"
    return {
        r.name: (r.published.mean, getattr(r.published, second))
        for r in ALL
        if r.table == table and r.published
    }


class TestPublishedNumbers:
    def test_table_1(self):
        assert printed("1") == numbers(TABLE_1, GRAPH_SETS, "table1/{}")
        assert {(r.published.runs, r.published.source) for r in ALL if r.table == "1"} == {
            (5, "Table 1")
        }

    def test_table_2(self):
        assert printed("2") == numbers(TABLE_2, NODE_SETS, "table2/{}")
        assert {(r.published.runs, r.published.source) for r in ALL if r.table == "2"} == {
            (20, "Table 2")
        }

    def test_table_3(self):
        assert printed("3") == {
            k: v
            for name, line in TABLE_3.items()
            for k, v in numbers(line, SIZES, f"table3/{name}-{{}}").items()
        }
        assert {
            (r.published.spread, r.published.runs) for r in ALL if r.table == "3" and r.published
        } == {(None, None)}

    def test_table_9(self):
        assert printed("9") == {
            k: v
            for way, line in TABLE_9.items()
            for k, v in numbers(line, GRAPH_SETS, f"table9/{{}}-{way}").items()
        }

    def test_table_10(self):
        assert printed("10") == {
            k: v
            for way, line in TABLE_10.items()
            for k, v in numbers(line, NODE_SETS, f"table10/{{}}-{way}").items()
        }

    def test_no_number_where_the_paper_prints_none(self):
        without = {r.table for r in ALL if r.published is None}
        assert without == {"3", "figure2", "alpha", "invariance"}
        assert not printed("figure2") and not printed("alpha") and not printed("invariance")
        assert {r.column for r in ALL if r.table == "3" and r.published is None} == {
            "Physics",
            "Flickr-shape",
            "Reddit-shape",
        }

    def test_the_published_score_of_ppi_is_marked_as_accuracy(self):
        noted = {
            r.name
            for r in ALL
            if r.published and "accuracy of the 0/1 label table" in r.published.note
        }
        assert noted == {"table2/PPI", "table10/PPI-concat", "table10/PPI-plain"}

    def test_cells_of_each_table(self):
        counts = {
            "1": 8,
            "2": 7,
            "3": 30,
            "9": 32,
            "10": 14,
            "figure2": 12,
            "alpha": 28,
            "invariance": 8,
            "binarized": 2,
        }
        assert Counter(r.table for r in ALL) == counts


class TestPublishedSettings:
    @pytest.mark.parametrize("place", range(8), ids=GRAPH_SETS)
    def test_table_5(self, place):
        name = GRAPH_SETS[place]
        expected = {
            **METHOD,
            **TEXT["graph"],
            **{key: values[place] for key, values in TABLE_5.items()},
        }
        settings = load_recipe(f"table1/{name}").paper
        assert {key: settings[key] for key in expected} == expected
        ours = 128 if name.startswith("RDT") else None
        assert settings.get("degree_cap") == CAPS.get(name, ours)

    @pytest.mark.parametrize("place", range(7), ids=NODE_SETS)
    def test_table_6(self, place):
        recipe = load_recipe(f"table2/{NODE_SETS[place]}")
        expected = {
            **METHOD,
            **TEXT["node"],
            **{key: values[place] for key, values in TABLE_6.items()},
        }
        assert {key: recipe.paper[key] for key in expected} == expected
        assert recipe.evaluation.probe_epochs == PROBE_EPOCHS[place]
        assert recipe.evaluation.probe_weight_decay == PROBE_DECAY[place]

    def test_what_an_ablation_changes(self):
        """Of the settings nothing but the question of its table, and the epochs where the budget
        alone is run.
        """
        changed = {
            "3": {"batching", "nodes_per_step"},
            "9": {"objective"},
            "10": {"concat_input"},
            "figure2": {"batch_size"},
        }
        changed |= {
            "alpha": {"alpha"},
            "invariance": {"invariance_on"},
            "binarized": set(),
            "1": set(),
            "2": set(),
        }
        for recipe in ALL:
            table = 1 if recipe.level == "graph" else 2
            parent = load_recipe(f"table{table}/{recipe.dataset.removesuffix('-shape')}").paper
            differs = {key for key in recipe.paper if recipe.paper[key] != parent.get(key)} - {
                "epochs"
            }
            assert differs <= changed[recipe.table], recipe.name

    def test_the_question_of_each_ablation(self):
        got = {r.name: to_mapping(r.settings()) for r in ALL}
        for name in GRAPH_SETS:
            for objective in TABLE_9:
                assert got[f"table9/{name}-{objective}"]["objective"] == objective
        for name in NODE_SETS:
            assert got[f"table10/{name}-concat"]["concat_input"] is True
            assert got[f"table10/{name}-plain"]["concat_input"] is False
        for name in TRANSDUCTIVE:
            assert [got[f"alpha/{name}-{a}"]["alpha"] for a in (1, 2, 5, 10, 20, 50, 100)] == [
                1,
                2,
                5,
                10,
                20,
                50,
                100,
            ]
            assert [got[f"invariance/{name}-{w}"]["invariance_on"] for w in ("masked", "all")] == [
                "masked",
                "all",
            ]
        for name in ("COLLAB", "RDT-B"):
            assert [
                got[f"figure2/{name}-{b}"]["batch_size"] for b in (8, 16, 32, 64, 128, 256)
            ] == [8, 16, 32, 64, 128, 256]
        for name in ("Flickr", "Reddit", "Physics", "Flickr-shape", "Reddit-shape"):
            assert [got[f"table3/{name}-{size}"]["nodes_per_step"] for size in SIZES[:-1]] == [
                100,
                1000,
                2500,
                5000,
                10000,
            ]
            assert [got[f"table3/{name}-{size}"]["batching"] for size in SIZES] == ["nodes"] * 5 + [
                "full"
            ]

    def test_what_the_released_scripts_do_differently(self):
        differs = {
            name: load_recipe(name).released
            for name in NAMES
            if name.startswith(("table1/", "table2/"))
        }
        extra = {
            name: {k: v for k, v in got.items() if k not in ("preset", "epochs")}
            for name, got in differs.items()
        }
        assert {name: got for name, got in extra.items() if got} == {
            "table1/PROTEINS": {"lr": 1e-6},
            "table2/Physics": {"noise_std": 0.2},
            "table2/Reddit": {"lr": 1e-5},
        }
        assert {name: got["epochs"] for name, got in differs.items()} == {
            name: SCRIPT_EPOCHS.get(name.split("/")[1], 20) for name in differs
        }


@pytest.mark.parametrize("table", module.TABLES[:-1])
class TestEveryRecipe:
    def test_settings_pass_the_real_checks(self, table):
        for recipe in of_table(table):
            resolved = resolve(recipe.settings(), owner=recipe.name)
            assert type(resolved) is (GraphSettings if recipe.level == "graph" else NodeSettings)
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
            assert resolve(recipe.default_settings(), owner=recipe.name).preset == "paper"

    def test_what_the_paper_leaves_out_is_ours(self, table):
        # Values beside the printed ones
        added_by = {"alpha": {"alpha"}, "invariance": {"invariance_on"}, "9": {"alpha"}}
        for recipe in of_table(table):
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
            choices = {"protocol"} if recipe.protocol in ("folds", "splits") else set()
            choices |= {"binarize"} if recipe.dataset in ("CS", "Physics") else set()
            choices |= {"dataset"} if recipe.dataset.endswith("-shape") else set()
            assert set(recipe.ours) == (given - printed) | added | choices, recipe.name
            assert all(text.endswith(".") for text in recipe.ours.values())

    def test_reads_as_its_files_do(self, table):
        """An independent way through `extends`: the raw files as a chain of mappings."""
        for recipe in of_table(table):
            chain = [raw(recipe.name)]
            while "extends" in chain[-1]:
                chain.append(raw(chain[-1]["extends"]))
            for part, got in (
                ("settings", recipe.paper),
                ("ours", recipe.ours),
                ("released", recipe.released),
            ):
                assert dict(ChainMap(*[each.get(part, {}) for each in chain])) == got
            top = ChainMap(*chain)
            for key in ("table", "column", "line", "dataset", "level", "protocol", "metric"):
                assert getattr(recipe, key) == top[key]
            assert recipe.rows == tuple(top["rows"]) and recipe.binarize == top.get(
                "binarize", False
            )
            assert recipe.published == (
                Published(**chain[0]["published"]) if "published" in chain[0] else None
            )

    def test_a_changed_value_gets_its_own_reason(self, table):
        """A child that changes what its parent marks as ours says again why."""
        for recipe in of_table(table):
            values = raw(recipe.name)
            changed = {*values.get("settings", {}), *({"binarize", "dataset"} & set(values))}
            explained = (
                set(load_recipe(values["extends"]).ours)
                if "extends" in values
                else changed & set(recipe.ours)
            )
            assert changed & explained <= set(values.get("ours", {})), recipe.name


class TestPlan:
    def test_epochs_and_budgets(self):
        for recipe in ALL:
            epochs, budget = recipe.evaluation.epochs, recipe.evaluation.budget
            assert budget == SCRIPT_EPOCHS.get(recipe.dataset.removesuffix("-shape"), 20)
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
        assert {r.rows for r in ALL if r.table == "1"} == {ROWS}
        assert {r.rows for r in ALL if r.table in ("2", "binarized")} == {
            tuple(row for row in ROWS if row != "tuned")
        }
        others = {r.name: r.rows for r in ALL if r.table not in ("1", "2", "binarized")}
        # No main table has what needs no training of these
        made_up = [others.pop(f"table3/{name}-all") for name in SHAPES]
        assert set(others.values()) == {("paper",)} and set(made_up) == {
            ("raw", "propagated", "random", "paper")
        }

    def test_protocols_and_metrics(self):
        got = {(r.dataset, r.protocol, r.metric) for r in ALL}
        assert got == {
            *((name, "folds", "accuracy") for name in GRAPH_SETS),
            *((name, "splits", "accuracy") for name in TRANSDUCTIVE),
            ("PPI", "inductive-graphs", "micro-F1"),
            *(
                (name, "inductive", "micro-F1")
                for name in ("Flickr", "Reddit", "Flickr-shape", "Reddit-shape")
            ),
        }
        assert {r.name for r in ALL if r.binarize} == {"binarized/CS", "binarized/Physics"}


class TestOrder:
    def test_tables_then_columns_then_lines(self):
        assert [n for n in NAMES if n.startswith("table1/")] == [
            f"table1/{name}" for name in GRAPH_SETS
        ]
        assert [n for n in NAMES if n.startswith("table2/")] == [
            f"table2/{name}" for name in NODE_SETS
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
            "table9",
            "table10",
            "figure2",
            "alpha",
            "invariance",
            "binarized",
        ]
        assert list(dict.fromkeys(n.split("/")[0] for n in NAMES)) == folders

    @given(st.randoms(use_true_random=False))
    def test_no_two_cells_share_a_place(self, rng: random.Random):
        shuffled = list(ALL)
        rng.shuffle(shuffled)
        assert sorted(shuffled, key=module._place) == list(ALL)


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

    def test_defaults_take_only_the_cap(self):
        assert to_mapping(load_recipe("table2/CS").default_settings()) == to_mapping(NodeSettings())
        assert to_mapping(load_recipe("table1/IMDB-B").default_settings()) == {
            **to_mapping(GraphSettings()),
            "degree_cap": 64,
        }
