"""Shards of a store: together they are the store without the edges between them."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from graphlatent import NodeLaGraph, read_graphs
from graphlatent.config import resolve
from graphlatent.data.pieces.partition import has_metis
from graphlatent.data.store import shards, share
from graphlatent.data.store.ingest import ingest
from graphlatent.data.store.layout import SHARDS_FILE
from graphlatent.data.store.share import Share, assigned_shards, is_shards, own_shard
from graphlatent.data.store.store import GraphStore
from graphlatent.errors import ConfigError, InputError, OutputError
from graphlatent.training.encoding import STANDARDIZED_ABOVE, standardized_above
from graphlatent.training.sharding import shard_store
from graphlatent.training.stored_encoding import encoding_of_share, fit_stored_encoding
from shard_cases import SIZE, make_store

pytest.importorskip("duckdb")
pytestmark = pytest.mark.filterwarnings("ignore::graphlatent.errors.GraphLatentWarning")
KINDS = ["columns", "dense", "sparse", "none"]


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """A store of each kind that has two shards, with what shards.json says; not to be changed."""
    made: dict[str, tuple[GraphStore, dict]] = {}

    def of_kind(kind: str) -> tuple[GraphStore, dict]:
        if kind not in made:
            store = make_store(tmp_path_factory.mktemp(kind), kind)
            made[kind] = store, shard_store(store, 2)[0]
        return made[kind]

    return of_kind


def opened(store: GraphStore, count: int) -> list[GraphStore]:
    return [GraphStore.open(store.path / "shards" / str(i)) for i in range(count)]


def edges_by_id(store: GraphStore) -> dict[tuple[str, str], float]:
    """The stored edges and their weights, by the ids of their ends."""
    ids, weight = store.ids(), store.weight
    row = torch.repeat_interleave(torch.arange(store.num_nodes), torch.diff(store.indptr))
    value = torch.ones(store.num_edges) if weight is None else weight
    pairs = zip(ids[row.numpy()], ids[store.indices.numpy()], value.tolist(), strict=True)
    return {(a, b): w for a, b, w in pairs}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("directed", [False, True])
def test_every_node_is_in_one_shard_with_all_that_belongs_to_it(tmp_path, kind, directed):
    store = make_store(tmp_path, kind, weighted=not directed, directed=directed)
    about, written = shard_store(store, 3)
    assert written
    parts = opened(store, 3)
    ids = [part.ids() for part in parts]
    assert sorted(np.concatenate(ids)) == sorted(store.ids())
    place = {name: i for i, name in enumerate(store.ids())}
    for part, names in zip(parts, ids, strict=True):
        nodes = torch.tensor([place[name] for name in names])
        # In the order of the store.
        assert torch.equal(nodes, torch.sort(nodes).values)
        np.testing.assert_array_equal(part.labels, store.labels[nodes.numpy()])
        # Of the whole graph.
        torch.testing.assert_close(part.degree, store.degree[nodes])
        own, whole = part.features(slice(None)), store.features(nodes)
        if kind == "columns":
            for name, column in whole.columns.items():
                np.testing.assert_array_equal(own.columns[name], column)
        elif kind == "none":
            assert own.x is None and not own.columns
        else:
            dense = [g.x if kind == "dense" else g.x.to_dense() for g in (own, whole)]
            assert torch.equal(*dense)
        assert (part.undirected, part.id_name) == (store.undirected, store.id_name)
    every = edges_by_id(store)
    shard_of = {name: i for i, names in enumerate(ids) for name in names}
    within = {pair: w for pair, w in every.items() if shard_of[pair[0]] == shard_of[pair[1]]}
    found = {pair: w for part in parts for pair, w in edges_by_id(part).items()}
    assert found == within
    distinct = {pair if directed else tuple(sorted(pair)) for pair in set(every) - set(within)}
    assert about["lost_edges"] == len(distinct) > 0
    assert about["num_distinct_edges"] == store.num_distinct_edges
    loops = sum(a == b for a, b in every)
    assert sum(part.about["num_self_loops"] for part in parts) == loops >= 2
    assert [shard["num_nodes"] for shard in about["parts"]] == [p.num_nodes for p in parts]


def test_a_shard_is_a_store_of_its_own(tmp_path):
    store = make_store(tmp_path)
    shard_store(store, 2)
    graph = read_graphs(store.path / "shards" / "1")
    assert graph.num_nodes == opened(store, 2)[1].num_nodes
    assert opened(store, 2)[1].fingerprints() != store.fingerprints()


def test_a_second_call_writes_nothing_and_another_number_replaces(tmp_path):
    store = make_store(tmp_path)
    first, _ = shard_store(store, 2)
    before = {p: p.stat().st_mtime_ns for p in store.path.rglob("*") if p.is_file()}
    assert shard_store(store, 2) == (first, False)
    assert {p: p.stat().st_mtime_ns for p in store.path.rglob("*") if p.is_file()} == before
    assert shard_store(store, 3)[1]
    assert sorted(p.name for p in (store.path / "shards").iterdir()) == ["0", "1", "2", SHARDS_FILE]


@pytest.mark.parametrize("damage", ["missing", "truncated", "manifest", "json"])
def test_damaged_shards_are_written_again(tmp_path, damage):
    store = make_store(tmp_path)
    shard_store(store, 2)
    folder = store.path / "shards"
    if damage == "missing":
        shutil.rmtree(folder / "1")
    elif damage == "truncated":
        (folder / "0" / "indices.npy").write_bytes(b"")
    elif damage == "manifest":
        (folder / "0" / "manifest.json").write_text("{}")
    else:
        (folder / SHARDS_FILE).write_text("[")
    assert shard_store(store, 2)[1]
    assert not shard_store(store, 2)[1]


def test_an_interruption_leaves_the_old_shards_or_none(tmp_path, monkeypatch):
    store = make_store(tmp_path)
    calls = iter(range(10))

    def interrupted(*args):
        if next(calls) == 1:
            raise KeyboardInterrupt
        return original(*args)

    original = shards._write_features
    monkeypatch.setattr(shards, "_write_features", interrupted)
    with pytest.raises(KeyboardInterrupt):
        shard_store(store, 2)
    assert not (store.path / "shards").exists()
    assert not any(path.name.startswith(".shards") for path in store.path.iterdir())
    known, _ = shard_store(store, 2)
    calls = iter(range(10))
    with pytest.raises(KeyboardInterrupt):
        shard_store(store, 3)
    assert shard_store(store, 2) == (known, False)


def test_a_full_disk_is_said_and_leaves_nothing(tmp_path, monkeypatch):
    store = make_store(tmp_path)

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shards, "_write_features", full)
    with pytest.raises(OutputError, match="No space left"):
        shard_store(store, 2)
    assert not any("shards" in path.name for path in store.path.iterdir())


@pytest.mark.parametrize("count", [1, 0, -2, True, 2.0, "2"])
def test_a_number_that_is_none_of_shards_is_refused(tmp_path, count):
    with pytest.raises(ConfigError) as error:
        shard_store(GraphStore(tmp_path, {}), count)
    assert "The 'count' parameter of shard_store must be a whole number of at least 2" in str(
        error.value
    )


def test_more_shards_than_nodes_are_refused(tmp_path):
    store = make_store(tmp_path)
    with pytest.raises(InputError) as error:
        shard_store(store, SIZE + 1)
    assert str(error.value) == (
        f"{store.path}: {SIZE + 1} shards of {SIZE} nodes would leave some without any. Ask for"
        " fewer."
    )


def test_a_shard_without_nodes_is_refused(tmp_path):
    store = make_store(tmp_path)
    with pytest.raises(InputError, match="2 shards of 90 nodes would leave some without any"):
        shards.write_shards(store, torch.zeros(SIZE, dtype=torch.int64), count=2, about={})
    assert not (store.path / "shards").exists()


@pytest.mark.skipif(not has_metis(), reason="needs pymetis")
def test_clusters_have_fewer_edges_between_them_than_random_parts(tmp_path):
    store = make_store(tmp_path)
    about, _ = shard_store(store, 3)
    parts = torch.randint(3, (SIZE,), generator=torch.Generator().manual_seed(0))
    random = shards.write_shards(store, parts, count=3, about={})
    assert 3 * about["lost_edges"] < random["lost_edges"]


def test_without_metis_shards_come_from_label_propagation(tmp_path, monkeypatch):
    monkeypatch.setattr("graphlatent.training.sharding.has_metis", lambda: False)
    store = make_store(tmp_path)
    with pytest.warns(match="The package 'pymetis' is not installed: the shards come from label"):
        about, _ = shard_store(store, 3)
    assert sum(shard["num_nodes"] for shard in about["parts"]) == SIZE


# Which shard a process has.


@pytest.mark.parametrize(
    ("readable", "expected"),
    [
        ([[0, 1], [0, 1]], {0, 1}),
        # Taking the first that it can read would leave the second process without one.
        ([[0, 1], [0]], {0, 1}),
        ([[0, 1], [0, 2], [0]], {0, 1, 2}),
        ([[0], [0]], {0}),
        ([[], [1]], {1}),
    ],
)
def test_as_many_processes_as_possible_have_a_shard(readable, expected):
    found = assigned_shards(readable)
    assert set(found.values()) == expected
    assert len(found) == len(expected)
    assert all(shard in readable[process] for process, shard in found.items())


def test_a_process_has_the_shard_of_its_number_if_it_can():
    assert assigned_shards([[0, 1, 2]] * 3) == {0: 0, 1: 1, 2: 2}


def of_processes(monkeypatch, *found, rank=0):
    """Processes that say what is given, and the one that asks, which is the first."""
    monkeypatch.setattr(share, "world_size", lambda: 1 + len(found))
    monkeypatch.setattr(share, "rank", lambda: rank)
    monkeypatch.setattr(
        share, "gathered_json", lambda own: [own, *({**own, **each} for each in found)]
    )


def test_each_process_gets_a_shard_of_its_machine(tmp_path, monkeypatch):
    store = make_store(tmp_path)
    about, _ = shard_store(store, 2)
    folder = store.path / "shards"
    of_processes(monkeypatch, {"here": [0]})
    found = own_shard(folder)
    assert (found.index, found.count, found.num_nodes) == (1, 2, SIZE)
    assert found.about == about
    part = GraphStore.open(folder / "1", share=found)
    assert part.num_nodes < part.share.num_nodes == SIZE
    assert part.fingerprints() == store.fingerprints()
    with pytest.raises(InputError, match="is one of 2 shards, and this needs the whole graph"):
        part.to_graph()


def test_a_shard_that_no_process_can_have_is_named(tmp_path, monkeypatch):
    store = make_store(tmp_path)
    shard_store(store, 2)
    folder = store.path / "shards"
    shutil.rmtree(folder / "1")
    of_processes(monkeypatch, {"here": [0]})
    with pytest.raises(InputError) as error:
        own_shard(folder)
    assert str(error.value) == (
        f"Shard 1 of {folder} cannot be given to a process: no machine has it, or those that have"
        " it have more shards than processes. Copy the shards so that every machine has one for"
        " each of its processes."
    )


def test_another_number_of_processes_is_refused(tmp_path, monkeypatch):
    store = make_store(tmp_path)
    shard_store(store, 2)
    folder = store.path / "shards"
    message = f"{folder} holds shards for 2 processes, and there is 1. Start training on them by"
    with pytest.raises(InputError) as error:
        own_shard(folder)
    assert str(error.value).startswith(message)
    with pytest.raises(InputError) as error:
        read_graphs(folder)
    assert str(error.value).startswith(message)
    of_processes(monkeypatch, {}, {})
    with pytest.raises(InputError, match="holds shards for 2 processes, and there are 3"):
        own_shard(folder)


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ({"name": "other"}, "Process 1 has another shards.json in .* than process 0. Copy the"),
        ({"error": "Copy it again."}, "^Process 1: Copy it again.$"),
    ],
)
def test_what_another_process_has_read_is_compared(tmp_path, monkeypatch, found, message):
    store = make_store(tmp_path)
    shard_store(store, 2)
    of_processes(monkeypatch, found)
    with pytest.raises(InputError, match=message):
        own_shard(store.path / "shards")


def test_damage_is_named(tmp_path):
    store = make_store(tmp_path)
    about, _ = shard_store(store, 2)
    folder = store.path / "shards"
    text = (folder / SHARDS_FILE).read_text()
    changed = json.dumps({**json.loads(text), "lost_edges": 0})
    of_later = json.dumps(share.sealed({**about, "shards": 2}))
    for content, message in [
        (changed, "shards.json is damaged: its sha256 is"),
        (text[:-20], "shards.json cannot be read: "),
        ("[]", "shards.json cannot be read: "),
        ("{}", "shards.json cannot be read: "),
        (of_later, "is of format 2, and this version reads format 1"),
    ]:
        (folder / SHARDS_FILE).write_text(content)
        assert is_shards(folder)
        with pytest.raises(InputError, match=message):
            own_shard(folder)
    (folder / SHARDS_FILE).write_text(text)
    # One of other shards.
    shutil.copyfile(folder / "0" / "manifest.json", folder / "1" / "manifest.json")
    with pytest.raises(InputError, match="/shards/1 is no shard of these: its manifest"):
        own_shard(folder)


# How features are encoded.


def of_whole(store: GraphStore, about: dict) -> GraphStore:
    """The store as one shard, which knows what is in shards.json."""
    return replace(store, share=Share(0, "", json.loads(json.dumps(about))))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"preset": "paper"},
        {"embedding": "encoder"},
        {"standardize": False},
        {"degree_cap": 3, "scale_features": False},
    ],
)
def test_encodings_are_those_of_the_whole_store(stores, kind, settings):
    store, about = stores(kind)
    known = resolve(NodeLaGraph(structure="none", **settings), owner="x")
    assert encoding_of_share(of_whole(store, about), known) == fit_stored_encoding(store, known)


def test_all_limits_of_standardising_are_known():
    every = [
        resolve(NodeLaGraph(structure="none", **each), owner="x")
        for each in ({}, {"preset": "paper"}, {"embedding": "encoder"}, {"standardize": False})
    ]
    assert {standardized_above(each) for each in every} == set(STANDARDIZED_ABOVE)


@pytest.mark.parametrize(
    ("structure", "why"),
    [("auto", " (these nodes have no features of their own)"), ("always", "")],
)
def test_coordinates_cannot_be_computed_from_shards(stores, structure, why):
    store = of_whole(*stores("none"))
    known = resolve(NodeLaGraph(structure=structure), owner="x")
    with pytest.raises(ConfigError) as error:
        encoding_of_share(store, known)
    assert str(error.value) == (
        f"structure='{structure}' computes coordinates from all edges of the graph{why}, and a"
        " shard does not have them. Set structure='none' (--set structure=none), or train on the"
        " whole store."
    )


def test_equal_features_are_none(tmp_path):
    np.save(tmp_path / "x.npy", np.ones((6, 2), np.float32))
    edges = pd.DataFrame({"source": [0, 1, 2, 3, 4], "target": [1, 2, 3, 4, 5]})
    edges.to_csv(tmp_path / "edges.csv", index=False)
    store, _ = ingest(tmp_path / "edges.csv", tmp_path / "store", features=tmp_path / "x.npy")
    about, _ = shard_store(store, 2)
    with pytest.raises(ConfigError, match="structure='auto' computes coordinates from all edges"):
        encoding_of_share(of_whole(store, about), resolve(NodeLaGraph(), owner="x"))
