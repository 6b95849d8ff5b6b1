"""Stores with right checksums that hold what no graph has, and files that ingest must not touch."""

from __future__ import annotations

import hashlib
import json
import os

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from graphlatent import NodeLaGraph, read_graphs
from graphlatent.data.store import workspace as workspace_module
from graphlatent.data.store.ingest import ingest
from graphlatent.data.store.layout import manifest_checksum
from graphlatent.data.store.store import GraphStore
from graphlatent.errors import InputError, OutputError
from graphlatent.io.differences import input_differences
from graphlatent.training.sharding import shard_store

pytest.importorskip("duckdb")
pytestmark = pytest.mark.filterwarnings("ignore::graphlatent.errors.GraphLatentWarning")


@pytest.fixture
def store(tmp_path, tables):
    return ingest(tables[0], tmp_path / "store", nodes=tables[1])[0]


def rewrite_manifest(folder, change=lambda about: None):
    """Change the manifest, and make all checksums right."""
    path = folder / "manifest.json"
    about = json.loads(path.read_text())
    change(about)
    for name, stated in about["files"].items():
        content = (folder / name).read_bytes()
        stated.update(bytes=len(content), sha256=hashlib.sha256(content).hexdigest())
    path.write_text(json.dumps({**about, "checksum": manifest_checksum(about)}))


def refusal(store):
    with pytest.raises(InputError) as caught:
        GraphStore.open(store.path)
    with pytest.raises(InputError):
        NodeLaGraph(epochs=1, batching="neighbors").fit(str(store.path))
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "change", "reason"),
    [
        ("indices", lambda a: np.where(a == 3, 10**6, a), "it holds 1000000, which is not from 0"),
        ("indices", lambda a: np.where(a == 3, -1, a), "it holds -1, which is not from 0 to 19"),
        ("indices", lambda a: a[::-1], "the positions in a row do not ascend"),
        ("indices", lambda a: a.astype(np.float32), "values of type float32, and not int32"),
        ("indices", lambda a: a[:-1], "it has the shape"),
        ("indptr", lambda a: np.r_[a[:4], 10**9, a[5:]], "its rows end before they begin"),
        ("indptr", lambda a: a + 1, "its rows do not go from 0 to"),
        ("degree", lambda a: a - 100, "which is not from 0 to"),
        ("columns/00000", lambda a: a.astype("U9"), "it holds values of type <U9"),
        ("columns/00000", lambda a: np.ones((20, 2)), "it has the shape (20, 2)"),
        ("columns/00001", lambda a: a + np.int32(9), "which is not from -1 to 1"),
    ],
)
def test_arrays_of_no_graph(store, name, change, reason):
    path = store.path / f"{name}.npy"
    np.save(path, change(np.load(path)))
    rewrite_manifest(store.path)
    message = refusal(store)
    assert f"{path} is damaged: " in message and reason in message


def test_matrices_and_weights_that_are_not_finite(tmp_path, edges):
    numbers = edges.assign(source=range(60), target=[0] * 60, weight=1.0)
    numbers.to_parquet(tmp_path / "e.parquet")
    np.save(tmp_path / "x.npy", np.ones((60, 2), np.float32))
    store, _ = ingest(tmp_path / "e.parquet", tmp_path / "store", features=tmp_path / "x.npy")
    for name in ("x.npy", "weight.npy"):
        before = np.load(store.path / name)
        array = before.copy()
        array.reshape(-1)[5] = np.nan
        np.save(store.path / name, array)
        rewrite_manifest(store.path)
        assert f"{name} is damaged: it holds values that are not finite" in refusal(store)
        np.save(store.path / name, before)


@pytest.mark.parametrize(
    ("name", "values", "reason"),
    [
        ("ids", ["a"] * 19, "it has 19 rows for 20 nodes"),
        ("ids", [1.5] * 20, "it does not hold one column of int64 or string"),
        ("columns/00001.values", [1, 2], "it does not hold one column of string"),
    ],
)
def test_tables_of_no_graph(store, name, values, reason):
    pq.write_table(pa.table({"id": values}), store.path / f"{name}.parquet")
    rewrite_manifest(store.path)
    assert reason in refusal(store)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("num_nodes", -1), ("num_nodes", "20"), ("undirected", 1), ("notes", [1])),
        *(("files", {}), ("features", {}), ("reading", {"source": 1}), ("added", 1)),
        ("labels", ["y"]),
    ],
)
def test_manifests_that_ingest_does_not_write(store, key, value):
    rewrite_manifest(store.path, lambda about: about.update({key: value}))
    assert "is not as it was written" in refusal(store)


def test_files_outside_the_store_are_not_named(store, tmp_path):
    (tmp_path / "other.npy").write_bytes((store.path / "columns/00000.npy").read_bytes())

    def change(about):
        about["features"]["columns"][0]["file"] = "../other.npy"
        about["files"]["../other.npy"] = about["files"].pop("columns/00000.npy")

    rewrite_manifest(store.path, change)
    assert "'features' is not as it was written" in refusal(store)


def test_one_bit_of_the_manifest(store):
    manifest = store.path / "manifest.json"
    text = manifest.read_text()
    assert '"name": "age"' in text
    manifest.write_text(text.replace('"name": "age"', '"name": "agg"'))
    with pytest.raises(InputError, match="its checksum differs"):
        read_graphs(store.path)


def test_a_store_that_is_replaced_while_it_is_read(tmp_path, tables, store, edges, nodes):
    opened = GraphStore.open(store.path)
    nodes.assign(age=0).to_parquet(tables[1])
    ingest(tables[0], store.path, nodes=tables[1], overwrite=True)
    for read in (
        lambda: opened.indptr,
        lambda: opened.features(slice(0, 2)),
        lambda: opened.ids(),
        lambda: opened.to_graph(),
    ):
        with pytest.raises(InputError, match="was deleted or replaced while it was read"):
            read()


def test_a_run_on_a_store_says_in_words_what_changed(tmp_path, tables, store, nodes):
    before = GraphStore.open(store.path).fingerprints()
    nodes.assign(age=0).to_parquet(tables[1])
    ingest(tables[0], store.path, nodes=tables[1], overwrite=True)
    after = GraphStore.open(store.path).fingerprints()
    assert input_differences(before, after) == ["column 'age': other values"]
    with_weights = {**after, "edge weights": "sha256:00"}
    assert input_differences(after, with_weights) == ["edge weights: none in the run, given now"]


def test_files_of_the_user_in_a_store_are_kept(tables, store):
    for name in ("mine.txt", "columns/mine.csv", "cache/mine.bin"):
        path = store.path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
        assert not ingest(tables[0], store.path, nodes=tables[1])[1]
        with pytest.raises(OutputError, match=f"not of the store, such as {name}"):
            ingest(tables[0], store.path, overwrite=True)
        assert path.read_text() == "mine"
        path.unlink()
    # What training keeps there may go.
    (store.path / "cache" / "parts-2-0123.bin").write_text("")
    assert ingest(tables[0], store.path, overwrite=True)[1]


def test_a_link_in_the_place_to_work_in(tmp_path, tables):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "a.txt").write_text("mine")
    (tmp_path / ".store.ingest").symlink_to(tmp_path / "mine")
    with pytest.raises(OutputError, match="is a link, and what it names would be emptied"):
        ingest(tables[0], tmp_path / "store")
    assert (tmp_path / "mine" / "a.txt").read_text() == "mine"


def test_a_link_to_a_store_stays_one(tmp_path, tables, store):
    link = tmp_path / "link"
    link.symlink_to(store.path)
    ingest(tables[0], link, overwrite=True)
    assert link.is_symlink() and GraphStore.open(store.path).feature_kind is None


def test_an_interruption_between_the_two_moves_keeps_the_old_store(tables, store, monkeypatch):
    class Interrupted(type(store.path)):
        def rename(self, target):
            if self.name == "store" and target.name == "store":
                raise KeyboardInterrupt
            return super().rename(target)

    put = workspace_module.put_in_place
    monkeypatch.setattr(
        "graphlatent.data.store.ingest.put_in_place",
        lambda built, out: put(Interrupted(built), out),
    )
    with pytest.raises(KeyboardInterrupt):
        ingest(tables[0], store.path, overwrite=True)
    assert GraphStore.open(store.path).column_names == ("age", "city")
    assert os.listdir(store.path.parent) and not (store.path.parent / ".store.ingest").exists()


def test_a_store_with_shards_is_replaced_but_not_one_with_files_of_somebody(tmp_path):
    edges = pd.DataFrame({"source": [0, 1, 2, 3], "target": [1, 2, 3, 4]})
    edges.to_csv(tmp_path / "edges.csv", index=False)
    store, _ = ingest(tmp_path / "edges.csv", tmp_path / "store")
    shard_store(store, 2)
    mine = store.path / "shards" / "0" / "notes.txt"
    mine.write_text("mine")
    edges.iloc[:3].to_csv(tmp_path / "edges.csv", index=False)
    with pytest.raises(OutputError, match=r"such as shards/0/notes\.txt, and would be deleted"):
        ingest(tmp_path / "edges.csv", tmp_path / "store", overwrite=True)
    assert mine.read_text() == "mine" and GraphStore.open(store.path).num_nodes == 5
    mine.unlink()
    store, written = ingest(tmp_path / "edges.csv", tmp_path / "store", overwrite=True)
    assert written and store.num_nodes == 4 and not (store.path / "shards").exists()
