"""Variants of our defaults: recipes, what is measured, and differences from the defaults."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphlatent import GraphLaGraph
from graphlatent.bench.fingerprint import define, fingerprint
from graphlatent.bench.formats import rows
from graphlatent.bench.loading import all_recipes, load_recipe, read_recipe
from graphlatent.bench.rows import find_row
from graphlatent.config import resolve, to_mapping
from graphlatent.data.datasets import dataset_info
from graphlatent.errors import ConfigError
from ledgers import FIRST, SECOND, measure, note, table, text
from one_by_one import fixed, measure_row, measurement, probed
from standins import tiny

VARIANTS = [recipe for recipe in all_recipes() if recipe.changes and not recipe.labels]
DEFAULTS, EITHER = "LaGraph with our defaults", "linear or RBF chosen in inner folds"


def own(folder: Path, more: str, *, parent: str = "table1/MUTAG") -> Path:
    path = folder / "mine.toml"
    path.write_text(f'extends = "{parent}"\ntable = "own"\n{more}')
    return path


class TestRecipes:
    @pytest.mark.parametrize("recipe", VARIANTS, ids=lambda recipe: recipe.name)
    def test_each_line_changes_the_defaults_and_nothing_else(self, recipe):
        main = load_recipe(f"table{2 if recipe.level == 'node' else 1}/{recipe.column}")
        ours, usual = (
            to_mapping(resolve(each.default_settings(), owner=each.name)) for each in (recipe, main)
        )
        assert ours["preset"] == "plus"
        changed = {key for key in {*ours, *usual} if ours.get(key) != usual.get(key)}
        # Graphs without features have no others beside their readout.
        bare = dataset_info(recipe.dataset).num_features == 0
        same = {"embedding"} if recipe.level == "graph" and bare else set()
        assert changed == set(recipe.changes) - same
        assert {key: ours[key] for key in recipe.changes} == recipe.changes
        assert recipe.rows == ("defaults",) and recipe.is_ablation
        assert recipe.paper == main.paper

    def test_it_is_measured_with_its_changes(self):
        row = find_row("defaults")
        main, narrow = (define(load_recipe(n), row) for n in ("table2/CS", "plus/CS-narrow"))
        assert narrow["settings"] == {**main["settings"], "hidden_dim": 256}
        assert fingerprint(narrow) != fingerprint(main)
        # A change of the paper's settings is none of the defaults, and the other way round
        paper = find_row("paper")
        settings = define(load_recipe("plus/CS-narrow"), row)["settings"]
        assert (settings["preset"], settings["alpha"]) == ("plus", 0.0)
        assert (
            define(load_recipe("plus/CS-narrow"), paper)["settings"]
            == define(load_recipe("table2/CS"), paper)["settings"]
        )

    def test_degrees_are_capped_as_in_the_defaults(self):
        recipe = load_recipe("plus-graphs/IMDB-B-mean")
        assert recipe.default_settings().degree_cap == GraphLaGraph().degree_cap
        assert recipe.settings().degree_cap == 64

    def test_a_file_of_ones_own(self, tmp_path):
        more = 'rows = ["defaults"]\n[changes]\nreadout = "mean"\nepochs = 0\n'
        mine = read_recipe(own(tmp_path, more))
        settings = mine.default_settings()
        assert (settings.readout, settings.epochs) == ("mean", 0)

    @pytest.mark.parametrize(
        ("more", "message"),
        [
            (
                "[changes]\nhiden_dim = 3",
                "Unknown setting 'hiden_dim' in [changes] of recipe 'mine'.",
            ),
            (
                "[changes]\nmask_ratio = 3",
                "The 'mask_ratio' parameter of [changes] of recipe 'mine' must be",
            ),
            (
                "[changes]\ndevice = 'cpu'",
                (
                    "The setting 'device' has no place in [changes] of recipe 'mine': it is given"
                    " when the recipe is run."
                ),
            ),
            (
                "[changes]\ndegree_cap = 3",
                (
                    "The setting 'degree_cap' has no place in [changes] of recipe 'mine': all rows"
                    " of a cell start from the same features. Give it in [settings]."
                ),
            ),
            (
                'rows = ["paper"]\n[changes]\nlr = 1.0',
                (
                    "[changes] of recipe 'mine' has no effect, since it is about the row"
                    " 'defaults'. Add it to 'rows', or leave [changes] out."
                ),
            ),
            (
                "changes = 3",
                (
                    "The 'changes' parameter of recipe 'mine' must be a table [changes]. Got 3"
                    " instead."
                ),
            ),
        ],
    )
    def test_mistakes(self, tmp_path, more, message):
        with pytest.raises(ConfigError) as error:
            read_recipe(own(tmp_path, more))
        assert str(error.value).startswith(message)

    def test_a_row_of_graphs_in_a_cell_of_nodes(self, tmp_path):
        with pytest.raises(ConfigError) as error:
            read_recipe(own(tmp_path, 'rows = ["raw", "wl"]', parent="table2/CS"))
        assert str(error.value).startswith("The 'rows' parameter of recipe 'mine' must be a list")
        assert str(error.value).endswith("Got ['raw', 'wl'] instead.")
        assert "'wl'" not in str(error.value).partition("Got")[0]


@pytest.mark.parametrize(("cell", "level"), [("table2/Photo", "node"), ("table1/MUTAG", "graph")])
def test_what_is_measured(bundles, small_probes, cell, level):
    """The trained embedding alone: the variant is compared with the defaults, not with itself."""
    changes = {"hidden_dim": 3, "epochs": 2, "lr": 0.02}
    recipe = tiny(cell, rows=("defaults",), changes=changes)
    shared = measurement(bundles[cell])
    outcome = measure_row(shared, recipe, "defaults")
    names = ["linear/fixed", *(["rbf/fixed", "svm/fixed"] if level == "graph" else [])]
    assert list(outcome.results) == names and outcome.training["epochs"] == 2
    context = shared.cell(recipe)
    usual = tiny(cell).default_settings()
    assert usual.hidden_dim != 3
    estimator = find_row("defaults").plan(recipe)
    assert estimator.settings["hidden_dim"] == 3 and estimator.candidates["epochs"] == [2]
    (embedding,) = shared.trainings._embeddings.values()
    features = shared.data.graph.x.shape[1]
    # Of nodes x, A^2 x, A^2 1 and the encoder's output; of graphs sum and mean of x, and three
    # poolings of three layers.
    width = 2 * features + (1 + 3 if level == "node" else 3 * 3 * 3)
    assert embedding[2].shape[1] == width
    expected = probed(context.data, {"epoch 2, embedding": embedding[2]})
    assert outcome.results["linear/fixed"] == fixed(expected)


class TestTables:
    def test_nodes_by_hand(self, tmp_path):
        main = {"linear/fixed": SECOND, "linear/untrained": FIRST}
        measure(tmp_path, "table2/CS", "defaults", main)
        measure(tmp_path, "plus/CS-narrow", "defaults", {"linear/fixed": FIRST})
        measure(tmp_path, "plus/Photo-slow", "defaults", {"linear/fixed": FIRST})
        made = table(tmp_path, "plus")
        lines = [line.label for line in made.blocks[0].lines]
        assert lines[:5] == [
            "raw features",
            "propagated features",
            "the encoder of our defaults, random-initialised",
            DEFAULTS,
            "without reconstruction from the plain view",
        ]
        assert "width 256" in lines
        assert text(made, DEFAULTS, "CS") == text(made, DEFAULTS, "CS") == "70.0 ± 7.1"
        assert text(made, "width 256", "CS") == "80.0 ± 7.1"
        minus = f"width 256 minus {DEFAULTS}"
        # 10 points more at every seed and split
        assert text(made, minus, "CS", 1) == "+10.00 [+10.00, +10.00]"
        assert text(made, f"learning rate 5e-4 minus {DEFAULTS}", "CS", 1) == "not measured"
        # Without the defaults there is nothing to compare with
        assert text(made, f"learning rate 5e-4 minus {DEFAULTS}", "Photo", 1) == "not measured"
        assert any("not corrected for how many" in each for each in made.notes)
        (found,) = [r for r in rows(made) if (r["line"], r["column"]) == (minus, "CS")]
        assert (found["state"], found["seeds"], found["splits"]) == ("paired", 2, 2)

    def test_graphs_are_compared_by_the_better_svm(self, tmp_path):
        of_main = {"svm/fixed": FIRST, "linear/fixed": SECOND, "svm/untrained": SECOND}
        measure(tmp_path, "table1/DD", "defaults", of_main)
        measure(tmp_path, "plus-graphs/DD-mean", "defaults", {"svm/fixed": SECOND})
        made = table(tmp_path, "plus-graphs")
        assert text(made, f"{DEFAULTS}, {EITHER}", "DD") == "80.0 ± 7.1"
        assert text(made, "mean readout", "DD") == "70.0 ± 7.1"
        assert text(made, f"mean readout minus {DEFAULTS}", "DD", 1) == "-10.00 [-10.00, -10.00]"
        assert note(made, "published: ") == "published: no numbers are printed."

    def test_tables_of_the_papers_variants_have_no_differences(self, tmp_path):
        assert len(table(tmp_path, "alpha").blocks) == 1
