"""The recipes say what the paper prints: numbers and settings."""

from __future__ import annotations

from collections import Counter

import pytest

from graphlatent.bench.loading import all_recipes, load_recipe, recipes_of
from graphlatent.config import to_mapping
from paper_tables import (
    CAPS,
    GRAPH_SETS,
    METHOD,
    NODE_SETS,
    PROBE_DECAY,
    PROBE_EPOCHS,
    SCRIPT_EPOCHS,
    SIZES,
    TABLE_1,
    TABLE_2,
    TABLE_3,
    TABLE_5,
    TABLE_6,
    TABLE_7,
    TABLE_8,
    TABLE_9,
    TABLE_10,
    TEXT,
    TRANSDUCTIVE,
)

ALL = all_recipes()
NAMES = [recipe.name for recipe in ALL]
of_table = recipes_of


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
        printed_in = {(r.published.runs, r.published.source) for r in of_table("2") if r.published}
        assert printed_in == {(20, "Table 2")}

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

    @pytest.mark.parametrize(("table", "lines"), [("7", TABLE_7), ("8", TABLE_8)])
    def test_tables_7_and_8(self, table, lines):
        cells = of_table(table)
        assert [cell.column for cell in cells] == GRAPH_SETS
        assert [f"{cell.published.mean:.2f}" for cell in cells] == lines["lagraph"].split()
        random = [cell.published_of("finetune-random") for cell in cells]
        assert [f"{each.mean:.2f}" for each in random] == lines["random"].split()
        assert {(each.runs, each.source) for each in random} == {(1, f"Table {table}")}
        encoder = {"7": "gin", "8": "gcn"}[table]
        assert {(c.settings().encoder, c.default_settings().encoder) for c in cells} == {
            (encoder, encoder)
        }

    def test_no_number_where_the_paper_prints_none(self):
        without = {r.table for r in ALL if r.published is None}
        assert without == {"2", "3", "figure2", "alpha", "invariance", "plus", "plus-graphs"} | {
            "label-budgets"
        }
        assert [r.column for r in of_table("2") if r.published is None] == ["PPI-small"]
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
            "2": 8,
            "3": 30,
            "9": 32,
            "10": 14,
            "figure2": 12,
            "alpha": 28,
            "invariance": 8,
            "binarized": 2,
            "plus": 92,
            "plus-graphs": 192,
            "7": 8,
            "8": 8,
            "label-budgets": 10,
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
            "plus": set(),
            "plus-graphs": set(),
            "7": set(),
            "8": {"encoder"},
            "label-budgets": set(),
            "1": set(),
            "2": set(),
        }
        for recipe in ALL:
            table = 1 if recipe.level == "graph" else 2
            of = recipe.dataset.removesuffix("-shape").removesuffix("-small")
            parent = load_recipe(f"table{table}/{of}").paper
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
            name: SCRIPT_EPOCHS.get(name.split("/")[1].removesuffix("-small"), 20)
            for name in differs
        }


def test_the_published_numbers_of_other_methods():
    found = {
        method: {cell: load_recipe(f"table2/{cell}").published_of(method) for cell in TRANSDUCTIVE}
        for method in ("bgrl", "dgi")
    }
    means = {m: [each.mean for each in cells.values()] for m, cells in found.items()}
    order = {"Computers": 0, "Photo": 1, "CS": 2, "Physics": 3}
    numbers = {"bgrl": [90.34, 93.17, 93.31, 95.73], "dgi": [84.0, 91.6, 92.2, 94.5]}
    for method, printed in numbers.items():
        assert means[method] == [printed[order[cell]] for cell in TRANSDUCTIVE]


@pytest.mark.parametrize("cell", ["PPI", "PPI-small", "Flickr", "Reddit"])
def test_a_cell_without_a_method_has_no_number_of_it(cell):
    recipe = load_recipe(f"table2/{cell}")
    assert recipe.published_of("bgrl") is None and recipe.published_of("dgi") is None
    assert recipe.published_of("paper") == recipe.published
