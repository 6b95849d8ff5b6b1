"""A store holds the graph that `read_graphs` reads from the same tables, on random ones."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphlatent import read_graphs
from graphlatent.data.graph import GraphData
from graphlatent.data.readers.options import TableOptions
from graphlatent.data.store.ingest import IngestOptions, ingest
from graphlatent.errors import GraphLatentWarning

pytest.importorskip("duckdb")
_IDS = {
    "integers": lambda numbers: [int(n) * 7 - 20 for n in numbers],
    "text": lambda numbers: [f"node {n}" for n in numbers],
    "text of integers": lambda numbers: [str(n * 11) for n in numbers],
    "mixed": lambda numbers: [str(n) if n % 2 else f"{n:03d}" for n in numbers],
    "other letters": lambda numbers: ["äöü漢"[n % 4] + str(n) for n in numbers],
    "floats": lambda numbers: [float(n) for n in numbers],
}


def same_graph(found: GraphData, expected: GraphData) -> None:
    """Both are equal in every part, to the bit."""
    assert found.num_nodes == expected.num_nodes
    assert torch.equal(found.edge_index, expected.edge_index)
    assert (found.edge_weight is None) == (expected.edge_weight is None)
    if found.edge_weight is not None:
        assert torch.equal(found.edge_weight, expected.edge_weight)
    assert (found.undirected, found.symmetrized) == (expected.undirected, expected.symmetrized)
    assert found.fingerprints() == expected.fingerprints()
    assert found.node_ids.dtype == expected.node_ids.dtype
    assert found.node_ids.tolist() == expected.node_ids.tolist()
    assert list(found.columns or ()) == list(expected.columns or ())
    for name, values in (expected.columns or {}).items():
        assert found.columns[name].dtype == values.dtype, name
        pd.testing.assert_series_equal(pd.Series(found.columns[name]), pd.Series(values))
    assert (found.y is None) == (expected.y is None)
    if found.y is not None:
        assert found.y.dtype == expected.y.dtype
        pd.testing.assert_frame_equal(pd.DataFrame(found.y), pd.DataFrame(expected.y))
    assert found.reading == expected.reading
    assert torch.equal(found.degree, expected.degree)


def columns_of_nodes(rng: np.random.Generator, count: int) -> pd.DataFrame:
    """Some columns of every kind, with missing cells in some."""
    gaps = rng.random(count) < 0.3
    day = pd.Timestamp("2020-01-01")
    every = {
        "age": rng.integers(0, 90, count),
        "income": np.where(gaps, np.nan, rng.normal(size=count).round(3)),
        "city": pd.Series(rng.choice(["Oslo", "Rome", "Köln"], count)).mask(gaps),
        "code": pd.Series([f"{n:03d}" for n in rng.integers(0, 9, count)]),
        "joined": pd.Series(day + pd.to_timedelta(rng.integers(0, 900, count), "D")).mask(gaps),
        "seen": day + pd.to_timedelta(rng.integers(0, 10**6, count), "s"),
        "ok": rng.random(count) < 0.5,
        "maybe": pd.Series(rng.random(count) < 0.5, dtype="boolean").mask(gaps),
        "kind": pd.Categorical(rng.choice(["a", "b"], count)),
        "empty": pd.Series([None] * count, dtype=object),
    }
    chosen = [name for name in every if rng.random() < 0.5]
    return pd.DataFrame({name: every[name] for name in chosen}, index=range(count))


def tables(seed: int, folder: Path) -> tuple[Path, Path | None, TableOptions, bool]:
    """Random tables in files, options to read them with, and whether directions are kept."""
    rng = np.random.default_rng(seed)
    count, num_edges = int(rng.integers(1, 30)), int(rng.integers(0, 80))
    with_nodes = bool(rng.random() < 0.6) or num_edges == 0
    name = rng.choice(list(_IDS))
    names = np.array(_IDS[name](np.arange(count)), dtype=None if name != "mixed" else object)
    ends = rng.integers(0, count, (2, num_edges))
    if rng.random() < 0.3:
        # Every edge is listed both ways.
        ends = np.concatenate([ends, ends[::-1]], axis=1)
    edges = pd.DataFrame({"source": names[ends[0]], "target": names[ends[1]]})
    weighted = bool(rng.random() < 0.6)
    if weighted:
        edges["weight"] = (
            rng.choice(
                [rng.normal(size=len(edges)), ends.sum(0)][int(rng.random() < 0.5)], len(edges)
            )
            if len(edges)
            else []
        )
        if rng.random() < 0.4:
            edges["weight"] = ends.sum(0) + 1.0
    suffix = str(rng.choice([".parquet", ".csv", ".tsv", ".csv.gz", ".txt"]))

    def written(table: pd.DataFrame, path: Path) -> Path:
        path = path.with_name(path.name + suffix)
        if suffix == ".parquet":
            table.to_parquet(path, index=False)
        else:
            table.to_csv(path, index=False, sep={".tsv": "\t", ".txt": ";"}.get(suffix, ","))
        return path

    nodes = None
    options: dict = {}
    if with_nodes:
        table = columns_of_nodes(rng, count)
        table.insert(int(rng.integers(0, table.shape[1] + 1)), "id", names)
        table = table.sample(frac=1, random_state=seed).reset_index(drop=True)
        nodes = written(table, folder / "nodes")
        have = [c for c in table.columns if c != "id"]
        if "city" in have and rng.random() < 0.5:
            options["label"] = ("city", "ok") if "ok" in have and rng.random() < 0.5 else "city"
        if "age" in have and rng.random() < 0.3:
            options["drop"] = ("age",)
        if "code" in have and rng.random() < 0.7:
            options["text"] = ("code",)
    merges = [None, "max", "sum", "mean", "count"]
    options["merge"] = merges[int(rng.integers(len(merges)))]
    path = written(edges, folder / "edges")
    return path, nodes, TableOptions(**options), bool(rng.random() < 0.4)


@given(seed=st.integers(0, 10**6))
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
def test_a_store_holds_what_reading_the_tables_gives(seed, tmp_path_factory):
    folder = tmp_path_factory.mktemp("fuzz")
    edges, nodes, options, directed = tables(seed, folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphLatentWarning)
        expected = read_graphs(edges, nodes=nodes, options=options, symmetrize=not directed)
        given_options = IngestOptions(
            options, directed=directed, wide_from=1 if seed % 2 else 2**31
        )
        store, written = ingest(
            edges, folder / "store", nodes=nodes, options=given_options, threads=1
        )
        assert written
        assert store.indices.dtype == (torch.int64 if seed % 2 else torch.int32)
        found = read_graphs(folder / "store", symmetrize=not directed)
    same_graph(found, expected)
    assert torch.equal(store.degree, expected.degree)
    bipartite = [note for note in expected.notes if "share" in note]
    kept = [note.split(" Keep directions")[0] for note in expected.notes if note not in bipartite]
    assert [note.split(" Keep directions")[0] for note in found.notes] == kept
