"""Layouts of maps that are kept: for the same rows only, and never in a run that is trained."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import graphlatent.explore.layouts as layouts
from cases import random_graph
from graphlatent import NodeLaGraph, RunFolder
from graphlatent.explore.layouts import KeptLayouts
from graphlatent.explore.projection import SAMPLE, Projection

ROWS = np.random.default_rng(0).normal(size=(30, 4)).astype(np.float32)
NAME = "map-tsne.safetensors"


@pytest.fixture
def laid_out(monkeypatch):
    """The seeds of the layouts that were computed; the points of one are its seed."""
    seeds = []

    def project(rows, *, method, seed=0, sample=None):
        seeds.append(seed)
        return Projection(np.full((len(rows), 2), seed + 0.1), ("a", "b"), method, 3)

    monkeypatch.setattr(layouts, "project", project)
    return seeds


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("layouts") / "run"
    model = NodeLaGraph(hidden_dim=4, epochs=1, device="cpu", progress=False)
    model.fit(random_graph([9]), run=RunFolder(path))
    return path


@pytest.fixture
def run(trained, tmp_path) -> Path:
    shutil.copytree(trained, tmp_path / "run")
    return tmp_path / "run"


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("place", ["run", "mine.npz"])
def test_a_layout_is_computed_once(laid_out, run, place):
    kept = KeptLayouts(run.parent / place)
    first = kept.project(ROWS, method="tsne", seed=7)
    again = KeptLayouts(run.parent / place).project(ROWS, method="tsne", seed=7)
    assert laid_out == [7]
    assert again.points.tolist() == first.points.tolist()
    assert (again.axes, again.method, again.num_placed) == (first.axes, first.method, 3)
    assert (run / NAME if place == "run" else run.parent / f"mine-{NAME}").exists()


def test_other_rows_seeds_and_numbers_of_rows_have_their_own(laid_out, run):
    kept = KeptLayouts(run)
    kept.project(ROWS, method="tsne")
    other = ROWS.copy()
    other[3, 1] += 1e-6
    for rows, more in ((other, {}), (ROWS[:-1], {}), (ROWS, {"seed": 1}), (ROWS, {"sample": 9})):
        kept.project(ROWS, method="tsne")
        count = len(laid_out)
        kept.project(rows, method="tsne", **more)
        assert len(laid_out) == count + 1
    kept.project(ROWS, method="umap")
    kept.project(ROWS, method="tsne", sample=len(ROWS))
    kept.project(ROWS, method="umap", sample=SAMPLE["umap"])
    assert laid_out.count(0) == 8


def test_a_part_of_the_rows_and_principal_components_are_not_kept(laid_out, run):
    before = names(run)
    KeptLayouts(run).project(ROWS, method="tsne", sample=9)
    KeptLayouts(run).project(ROWS, method="pca")
    assert names(run) == before


def test_nothing_is_written_into_a_run_in_training(laid_out, run):
    before = names(run)
    with RunFolder(run).writing():
        assert KeptLayouts(run).project(ROWS, method="tsne").num_placed == 3
        assert not (run / NAME).exists()
    (run / "manifest.json").unlink()
    KeptLayouts(run).project(ROWS, method="tsne")
    assert names(run) == before - {"manifest.json"}


def test_who_trains_keeps_a_layout(laid_out, run):
    mine = RunFolder(run)
    with mine.writing():
        KeptLayouts(run, mine).project(ROWS, method="tsne")
        assert (run / NAME).exists()


@pytest.mark.parametrize("damage", [b"", b"no tensors", None])
def test_a_damaged_layout_is_as_none(laid_out, run, damage):
    kept = KeptLayouts(run)
    kept.project(ROWS, method="tsne")
    content = bytearray((run / NAME).read_bytes())
    content[-3] ^= 1
    (run / NAME).write_bytes(bytes(content) if damage is None else damage)
    assert kept.project(ROWS, method="tsne").points.tolist() == [[0.1, 0.1]] * 30
    assert laid_out == [0, 0]


def test_a_new_run_deletes_the_layout_of_the_old_one(laid_out, run):
    KeptLayouts(run).project(ROWS, method="tsne")
    model = NodeLaGraph(hidden_dim=4, epochs=2, device="cpu", progress=False)
    model.fit(random_graph([9]), run=RunFolder(run, replace=True))
    assert NAME not in names(run)
