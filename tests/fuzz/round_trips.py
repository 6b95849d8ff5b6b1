"""A graph that is written in any form is read as it was drawn, and embedded alike from each."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np

from fuzz.compare import check_edges, check_read, dense, embeddings, require
from fuzz.doors import DOORS, write_tu
from fuzz.drawn import Drawn, draw, expected_edges, numeric_only
from fuzz.harness import Place, SilentChange
from fuzz.several import several
from graphlatent import read_graphs
from graphlatent.errors import GraphLatentError


def plain(rng: random.Random, place: Place) -> None:
    """An ordinary graph in every form: nothing may be refused."""
    graph, symmetrize = draw(rng), rng.random() < 0.6
    for name in rng.sample(sorted(DOORS), 5):
        _must_be_read(graph, name, place, symmetrize=symmetrize)


def awkward(rng: random.Random, place: Place) -> None:
    """Ids and texts that formats treat in their own ways: refused, or read as they are."""
    graph, symmetrize = draw(rng, awkward=True), rng.random() < 0.6
    refusals = [
        _refusal(graph, name, place, symmetrize=symmetrize)
        for name in ("csv", *rng.sample(sorted(DOORS.keys() - {"csv"}), 3))
    ]
    if all(refusals):
        raise refusals[0]


def _refusal(graph: Drawn, name: str, place: Place, *, symmetrize: bool) -> GraphLatentError | None:
    try:
        _check(graph, name, place, symmetrize=symmetrize)
    except GraphLatentError as error:
        return error
    return None


def embedded_alike(rng: random.Random, place: Place) -> None:
    """Two doors of the same kind give the same bits."""
    graph = replace(draw(rng, text_ids=True), directed=True)
    kind = rng.random() < 0.5
    doors = [name for name, door in DOORS.items() if door.columns == kind]
    first, second = rng.sample(doors, 2)
    if not kind:
        graph = numeric_only(graph)
    rows = {}
    for name in (first, second):
        (place.folder / name).mkdir()
        data = read_graphs(DOORS[name].write(graph, place.folder / name))
        rows[name] = embeddings(data, where=f"{name} {graph}")
    same = rows[first].tobytes() == rows[second].tobytes()
    require(same, f"embeddings differ between {first} and {second}: {graph}")


def node_order(rng: random.Random, place: Place) -> None:
    """Rows of the edge table in another order: the same bits."""
    graph = draw(rng)
    order = rng.sample(range(len(graph.edges)), len(graph.edges))
    weights = graph.weights
    shuffled = replace(
        graph,
        edges=[graph.edges[i] for i in order],
        weights=None if weights is None else [weights[i] for i in order],
    )
    rows = [
        embeddings(read_graphs(DOORS["pandas"].write(each, place.folder)), where=str(graph))
        for each in (graph, shuffled)
    ]
    require(rows[0].tobytes() == rows[1].tobytes(), f"order of edge rows matters: {graph}")


def tu(rng: random.Random, place: Place) -> None:
    """A TU folder: no ids, no weights, no self-loops, one-hot node labels."""
    graph = replace(draw(rng), weights=None)
    labels = [rng.randint(-2, 5) for _ in graph.ids]
    data = read_graphs(write_tu(graph, place.folder / "SET", labels))
    kept = replace(graph, edges=[(s, t) for s, t in graph.edges if s != t])
    check_edges(data, expected_edges(kept, both=True), where=f"tu {graph}")
    one_hot = np.eye(max(labels) - min(labels) + 1)[np.array(labels) - min(labels)]
    require(np.array_equal(dense(data.x), one_hot), f"tu: features {dense(data.x)} of {labels}")


def _must_be_read(graph: Drawn, name: str, place: Place, *, symmetrize: bool) -> None:
    try:
        _check(graph, name, place, symmetrize=symmetrize)
    except GraphLatentError as error:
        raise SilentChange(f"{name} refused an ordinary graph: {error} {graph}") from error


def _check(graph: Drawn, name: str, place: Place, *, symmetrize: bool) -> None:
    door, folder = DOORS[name], place.folder / name
    folder.mkdir()
    written = graph if door.columns else numeric_only(graph)
    data = read_graphs(door.write(written, folder), symmetrize=symmetrize)
    check_read(written, data, door, symmetrize=symmetrize, where=f"{name} of {graph}")


# Shares of the cases of this fuzzer.
_KINDS = (*(plain,) * 4, *(awkward,) * 3, embedded_alike, node_order, tu, several)


def round_trip(rng: random.Random, place: Place) -> None:
    """One of the above."""
    rng.choice(_KINDS)(rng, place)
