"""What the records of the benchmarks say of an embedding is computed right."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pandas as pd
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


class TestScale:
    """Tables of any size, and measurements of real commands."""

    @pytest.fixture(autouse=True)
    def _on_path(self, monkeypatch):
        monkeypatch.syspath_prepend(ROOT / "benchmarks")

    def test_tables_have_the_sizes_and_ids_that_were_asked_for(self, tmp_path, monkeypatch):
        module = script("scale_data")
        monkeypatch.setattr(module, "BLOCK", 300)
        monkeypatch.setattr(module, "FILE", 600)
        monkeypatch.setattr(module, "COMMUNITY", 10)
        module.write_edges(tmp_path / "edges", num_nodes=100, num_edges=1000)
        module.write_nodes(tmp_path, num_nodes=100, num_features=3)
        assert len(list((tmp_path / "edges").iterdir())) == 2
        edges = pd.read_parquet(tmp_path / "edges")
        ids = pd.read_parquet(tmp_path / "nodes.parquet")["id"]
        assert len(edges) == 1000 and ids.nunique() == 100
        assert set(edges["source"]) | set(edges["target"]) <= set(ids)
        assert np.load(tmp_path / "x.npy").shape == (100, 3)
        community = dict(zip(ids, np.arange(100) // 10, strict=True))
        same = edges["source"].map(community) == edges["target"].map(community)
        assert 0.65 < same.mean() < 0.8

    def test_ingest_is_measured(self, tmp_path):
        pytest.importorskip("duckdb")
        module = script("scale")
        made = module.tables(tmp_path, num_nodes=5000, num_edges=500)
        found = module.ingest(made)
        assert 900 < found["stored_edges"] <= 1000
        assert found["peak_bytes"] > found["anonymous_bytes"] > 20e6
        assert found["store_bytes"] == module.disk_usage(made / "store") > 4 * 900
        assert "numbering nodes" in found["stages"] and found["cpu_seconds"] > 0.1

    def test_a_failing_command_is_no_measurement(self, tmp_path):
        with pytest.raises(SystemExit, match="there is no table"):
            script("scale").measured(["ingest", str(tmp_path), "--out", str(tmp_path / "store")])
