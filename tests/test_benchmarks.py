"""What the records of the benchmarks say of an embedding is computed right."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch

from cases import random_graph

ROOT = Path(__file__).parents[1]
CPU = torch.device("cpu")


def script(name: str):
    spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def collapse():
    return script("collapse")


class TestCollapse:
    @pytest.fixture
    def rows(self):
        return np.random.default_rng(0).standard_normal((4000, 5))

    def test_effective_rank_counts_directions(self, collapse, rows):
        assert collapse.effective_rank(collapse.standardised(rows)) == pytest.approx(5, rel=0.01)
        one = rows[:, :1] * [[1.0, -2.0, 3.0]]
        assert collapse.effective_rank(collapse.standardised(one)) == pytest.approx(1)
        twice = np.hstack([rows, 7 * rows])  # the same directions again, at another scale
        assert collapse.effective_rank(collapse.standardised(twice)) == pytest.approx(5, rel=0.01)

    def test_constant_columns_count_for_nothing(self, collapse, rows):
        with_constant = np.hstack([rows, np.full((len(rows), 3), 4.0)]).astype(np.float32)
        assert collapse.standardised(with_constant).shape == (len(rows), 5)

    def test_likeness_sees_neither_rotation_nor_scale(self, collapse, rows):
        rows = collapse.standardised(rows)
        turned = 3 * rows @ np.linalg.qr(np.random.default_rng(1).standard_normal((5, 5)))[0]
        assert collapse.likeness(rows, turned) == pytest.approx(1)
        other = collapse.standardised(np.random.default_rng(2).standard_normal(rows.shape))
        assert collapse.likeness(rows, other) < 0.01


class TestSteps:
    """The timed functions run, on small graphs: a benchmark that fails is found here."""

    @pytest.fixture(autouse=True)
    def _on_path(self, monkeypatch):
        monkeypatch.syspath_prepend(ROOT / "benchmarks")

    def test_node_steps(self):
        module = script("step_node")
        graph = random_graph([30], num_features=8)
        fast = module.fast_step(graph, CPU, 8, "fp32")
        assert float(fast()[0]) > float(min(fast()[0] for _ in range(30)))

    def test_graph_epochs(self):
        module = script("step_graph")
        epoch = module.fast_epoch(random_graph([5, 6, 7]), CPU, "fp32")
        # Nothing is returned: an epoch is appended to the history of the run.
        assert epoch() is None and epoch() is None

    def test_forms(self):
        module = script("forms")
        for form in ("dense", "sparse"):
            assert np.isfinite(module.step_of(random_graph([30]), form, CPU)().numpy()).all()
