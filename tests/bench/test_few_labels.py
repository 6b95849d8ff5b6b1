"""Splits with few labels, their recipes, and rows of fine-tuned encoders."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cases import random_graph
from graphlatent.bench.context import Measurement
from graphlatent.bench.data import DatasetBundle
from graphlatent.bench.fingerprint import define, fingerprint
from graphlatent.bench.loading import load_recipe, read_recipe
from graphlatent.bench.rows import find_row, finetuned
from graphlatent.bench.rows.base import CHOSEN
from graphlatent.bench.rows.finetuned import FROM_PROBE, FROM_ZERO
from graphlatent.data.splits import budget_splits
from graphlatent.errors import ConfigError, InputError
from graphlatent.finetuning.settings import FineTuneSettings

CPU = torch.device("cpu")


class TestSplits:
    @settings(max_examples=30, deadline=None)
    @given(st.integers(12, 200), st.integers(0, 50), st.floats(0.01, 0.59))
    def test_parts_are_disjoint_stratified_and_nested(self, num_rows, seed, ratio):
        labels = np.arange(num_rows) % 2
        few, more = (
            budget_splits(
                labels, train_ratio=r, val_ratio=0.1, test_ratio=0.3, num_splits=2, seed=seed
            )
            for r in (ratio, 0.6)
        )
        for small, large in zip(few, more, strict=True):
            parts = [small.train, small.val, small.test]
            assert len(np.unique(np.concatenate(parts))) == sum(map(len, parts))
            assert set(small.train) <= set(large.train)
            np.testing.assert_array_equal(small.test, large.test)
            np.testing.assert_array_equal(small.val, large.val)
            assert len(small.train) == min(len(large.train), max(1, round(ratio * num_rows)))
            for part in parts:
                assert abs(labels[part].sum() - len(part) / 2) <= 1.5
        assert not np.array_equal(few[0].test, few[1].test)

    def test_the_paper_s_share(self):
        (split,) = budget_splits(np.arange(188) % 2, train_ratio=0.1)
        assert [len(split.train), len(split.val), len(split.test)] == [19, 19, 150]

    @pytest.mark.parametrize(
        ("values", "error", "message"),
        [
            ({"train_ratio": 0.2}, ConfigError, r"must sum to at most 1. Got 0.2 \+ 0.1 \+ 0.8"),
            ({"train_ratio": 0.0}, ConfigError, "'train_ratio' parameter of budget_splits"),
            ({"train_ratio": 0.1, "num_splits": 0}, ConfigError, "'num_splits' .* Got 0"),
        ],
    )
    def test_failures(self, values, error, message):
        with pytest.raises(error, match=message):
            budget_splits(np.arange(40) % 2, **values)

    def test_too_few_rows(self):
        with pytest.raises(InputError, match=r"too few rows to split: 2 rows .* leave none"):
            budget_splits([0, 1], train_ratio=0.1)


class TestRecipes:
    def test_labels_are_part_of_what_defines_a_record(self):
        row = find_row("finetune-paper")
        cells = [load_recipe(f"label-budgets/MUTAG-{share}") for share in (1, 100)]
        one, all_of_them = (fingerprint(define(cell, row)) for cell in cells)
        assert one != all_of_them
        assert define(cells[0], row)["data"]["labels"] == {
            "train": 0.006,
            "val": 0.1,
            "test": 0.3,
            "splits": 1,
        }

    def test_random_initialisation_is_of_no_settings_of_training(self):
        plan = find_row("finetune-random").plan(load_recipe("table7/MUTAG"))
        assert "lr" not in plan.settings and plan.settings["encoder"] == "gin"
        plan = find_row("finetune-defaults").plan(load_recipe("table8/MUTAG"))
        assert (plan.settings["encoder"], plan.settings["preset"]) == ("gcn", "plus")
        plan = find_row("finetune-paper").plan(load_recipe("table7/DD"))
        # The budget of Table 1, not the last epoch that validation might choose there.
        assert plan.settings["epochs"] == 15

    @pytest.mark.parametrize(
        ("more", "message"),
        [
            ("labels = { train = 0.5, val = 0.1, test = 0.8 }", "that sum to at most 1. Got"),
            ("labels = { train = 0, val = 0.1, test = 0.8 }", "shares above 0"),
            ("labels = { trane = 0.1 }", "Unknown key 'trane' in .labels. of"),
            ("labels = { splits = 0 }", "'splits' parameter of .labels. of .* from 1"),
            ('protocol = "folds"', "belong together. Give both, or neither"),
            ("published_rows.paper.mean = 3", "Unknown key 'paper' in .published_rows."),
        ],
    )
    def test_failures(self, tmp_path, more, message):
        path = tmp_path / "mine.toml"
        path.write_text(f'extends = "table7/MUTAG"\ntable = "own"\n{more}\n')
        with pytest.raises(ConfigError, match=message):
            read_recipe(path)


class TestRows:
    @pytest.fixture
    def cell(self, monkeypatch, tmp_path):
        """A cell on small graphs whose features tell the class, with a short grid."""
        monkeypatch.setattr(finetuned, "EPOCHS", (1, 3))
        monkeypatch.setattr(finetuned, "LR", (1e-2, 1e-3))
        path = tmp_path / "mine.toml"
        path.write_text(
            'extends = "table7/MUTAG"\ntable = "own"\nlabels = { train = 0.3, val = 0.2,'
            " test = 0.5, splits = 2 }\nchanges = { hidden_dim = 4, epochs = 1 }\n"
            "[settings]\nhidden_dim = 4\n[evaluation]\nepochs = [1, 50]\nbudget = 1\n"
            '[ours]\nhidden_dim = "Small."\n'
        )
        graph, labels = random_graph([4] * 40), np.arange(40) % 2
        graph.x[:] += 2.0 * torch.from_numpy(2 * labels - 1)[graph.graph_of_node, None]
        data = DatasetBundle(graph, graph, labels, None, "accuracy")
        return Measurement(data, seed=1, device=CPU, probe_device=CPU).cell(read_recipe(path))

    @pytest.mark.parametrize(
        "name",
        ["finetune-random", "finetune-paper", "finetune-defaults-random", "finetune-defaults"],
    )
    def test_measured(self, cell, name):
        outcome = find_row(name).measure(cell)
        assert set(outcome.results) == {CHOSEN, FROM_ZERO, FROM_PROBE}
        assert all(len(result.scores) == 2 for result in outcome.results.values())
        assert outcome.results[FROM_PROBE].mean > 0.8
        # Paired: the same rows and splits.
        assert len({result.splits for result in outcome.results.values()}) == 1
        assert bool(outcome.training) == (not name.endswith("random"))
        for choice in outcome.results[FROM_ZERO].choices:
            assert choice.settings["epochs"] in (1, 3) and choice.settings["lr"] in (1e-2, 1e-3)

    def test_differences_from_raw_features(self):
        lines = find_row("finetune-paper").differences("graph")
        assert [(m.label, m.first.result) for m in lines if m.second.row == "few-raw"] == [
            ("the paper's pre-training: frozen, minus raw features", CHOSEN),
            (
                "the paper's pre-training: fine-tuned, head from a probe, minus raw features",
                FROM_PROBE,
            ),
        ]

    def test_raw_features(self, cell):
        outcome = find_row("few-raw").measure(cell)
        assert outcome.results[CHOSEN].mean > 0.8

    def test_test_labels_choose_nothing(self, cell):
        """A split whose test labels are all wrong makes the same choice and predictions."""
        parts = cell.protocol().visible()
        estimator, graph = cell.fitted(find_row("finetune-random").spec(cell.recipe))
        rows = estimator.transform(graph)
        encoded = estimator._encoded(graph, estimator.features_, estimator.settings_)
        tuned = finetuned._tuned(
            parts[0],
            estimator=estimator,
            encoded=encoded,
            rows=rows,
            settings=FineTuneSettings(batch_size=32, random_state=1, linear_probe=False),
        )
        result = find_row("finetune-random").measure(cell).results[FROM_ZERO]
        assert result.choices[0] == tuned.choice
        truth = cell.data.labels[cell.protocol().splits[0].test]
        assert result.scores[0] == np.mean(tuned.predicted == truth)
        # All that was given are the labels of these rows.
        labels = finetuned._visible_labels(parts[0], num_rows=40)
        assert set(labels.labelled) == {*parts[0].train, *parts[0].val}

    def test_the_best_setting_of_the_grid_is_kept_and_predicts(self, cell, monkeypatch):
        """Against fine-tuning anew with the chosen setting alone."""
        row = find_row("finetune-paper")
        result = row.measure(cell).results[FROM_ZERO]
        for k, choice in enumerate(result.choices):
            monkeypatch.setattr(finetuned, "LR", (choice.settings["lr"],))
            monkeypatch.setattr(finetuned, "EPOCHS", (choice.settings["epochs"],))
            alone = row.measure(cell).results[FROM_ZERO]
            assert alone.scores[k] == result.scores[k]
            assert alone.choices[k].val_score == choice.val_score
