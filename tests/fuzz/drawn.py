"""Random small graphs as plain Python values, and what reading one must give.

The expectation is computed here from the edges as they are listed, without the product's code.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

# A column of nothing else is no column of text to a reader that takes types from values.
OTHER_TYPES = ("NA", "null", "None", "nan", "inf", "1e3", "007", "1.0", "-0", "0x1", "True")
# Texts that CSV, XML and readers treat in their own ways.
AWKWARD = (
    *(*OTHER_TYPES, "a,b"),
    *('say "x"', "it's", "a\tb", "two\nlines", "é", "e\u0301", "Ωmega", "a<b>&c", "[red]", "%s"),
    *("#1", "=1", "\u202eabc", "long" * 100, "{}", "\\N", "-", "_", "C:\\x"),
)


@dataclass(frozen=True)
class Drawn:
    """A graph.

    Args:
        ids: name of each node, all integers or all text.
        edges: (source, target) as positions in `ids`, as often as they are listed.
        weights: one for each listed edge, or None.
        directed: whether (a, b) says nothing of (b, a), where a format can tell.
        columns: feature columns, numbers or text.
    """

    ids: Sequence[int] | Sequence[str]
    edges: Sequence[tuple[int, int]]
    weights: Sequence[float] | None
    directed: bool
    columns: Mapping[str, Sequence[float] | Sequence[str]]

    @property
    def numbers(self) -> list[list[float]]:
        """The numeric columns as rows of a matrix."""
        numeric = [c for c in self.columns.values() if not isinstance(c[0], str)]
        return [[float(column[i]) for column in numeric] for i in range(len(self.ids))]


def merged(weights: Iterable[float]) -> float:
    """The weight of an edge that is listed several times, in one direction or in both.

    The one place that knows the rule (docs/inputs.md, "Edges").
    """
    return max(weights)


def expected_edges(graph: Drawn, *, both: bool) -> dict[tuple[int, int], float]:
    """Weight of each directed edge, 1 without weights; `both`: each edge in two directions."""
    weights = graph.weights or [1.0] * len(graph.edges)
    listed: dict[tuple[int, int], list[float]] = {}
    for (source, target), weight in zip(graph.edges, weights, strict=True):
        listed.setdefault((source, target), []).append(weight)
        if both and source != target:
            listed.setdefault((target, source), []).append(weight)
    return {edge: merged(values) for edge, values in listed.items()}


def draw(
    rng: random.Random, *, awkward: bool = False, text_ids: bool | None = None, min_edges: int = 1
) -> Drawn:
    """A random graph of 2 to 9 nodes; `awkward` ones have ids and texts that may be refused."""
    number = rng.randint(2, 9)
    edges = [
        (rng.randrange(number), rng.randrange(number))
        for _ in range(rng.randint(min_edges, 3 * number))
    ]
    # Some edges are listed again, some in the other direction.
    edges += [rng.choice(edges) for _ in range(rng.choice((0, 0, 1, 3))) if edges]
    edges += [rng.choice(edges)[::-1] for _ in range(rng.choice((0, 0, 1, 3))) if edges]
    rng.shuffle(edges)
    return Drawn(
        _ids(rng, number, awkward=awkward, text=text_ids),
        edges,
        _weights(rng, len(edges)),
        rng.random() < 0.5,
        _columns(rng, number, awkward=awkward),
    )


def _ids(
    rng: random.Random, number: int, *, awkward: bool, text: bool | None
) -> list[int] | list[str]:
    if text is None:
        text = rng.random() < 0.5
    if text and awkward and rng.random() < 0.4:
        # All look like integers, and one of them is none.
        digits = rng.sample(["0", "1", "7", "10", "70", "-1", "12", "13", "2", "3"], number - 1)
        return [*digits, rng.choice(("007", "00", "+7", "1.0", "1e1", "-0", "0x1", "9" * 30))]
    if text:
        plain = [f"n{i}" for i in range(20)] + ["Ann", "bob", "c d", "x-1", "Zoë"]
        return rng.sample([*plain, *AWKWARD] if awkward else plain, number)
    big = [2**53 + 1, 2**53 + 2, 2**63 - 1, -(2**63), -1] if awkward else [10**9, 2**31, 2**40]
    return rng.sample([*range(12), *big], number)


def _weights(rng: random.Random, number: int) -> list[float] | None:
    if rng.random() < 0.4:
        return None
    # Exact in float32, so that the comparison needs no tolerance.
    low = -16 if rng.random() < 0.2 else 1
    return [rng.choice([n for n in range(low, 40) if n]) / 8 for _ in range(number)]


def _columns(
    rng: random.Random, number: int, *, awkward: bool
) -> dict[str, list[float] | list[str]]:
    columns: dict[str, list[float] | list[str]] = {}
    for i in range(rng.choice((0, 1, 1, 2, 3))):
        kind = rng.choice(("float", "float", "int", "binary", "text"))
        if kind == "text":
            texts = ["red", "green", "blue"] + (list(AWKWARD) if awkward else [])
            drawn = [rng.choice(texts) for _ in range(number)]
            columns[f"t{i}"] = drawn if set(drawn) - set(OTHER_TYPES) else ["red", *drawn[1:]]
        elif kind == "float":
            columns[f"f{i}"] = [rng.randint(-64, 64) / 16 + 0.03125 for _ in range(number)]
        elif kind == "int":
            columns[f"i{i}"] = [rng.randint(-9, 99) for _ in range(number)]
        else:
            columns[f"b{i}"] = [rng.randint(0, 1) for _ in range(number)]
    return columns


def numeric_only(graph: Drawn) -> Drawn:
    """The same graph with its numeric columns only."""
    kept = {n: c for n, c in graph.columns.items() if not isinstance(c[0], str)}
    return replace(graph, columns=kept)
