"""The most similar rows against the definition of the cosine, and ids of every kind."""

from __future__ import annotations

import numpy as np
import pytest

from graphlatent import Embeddings
from graphlatent.errors import ConfigError, InputError


def embeddings(num_rows=30, ids=None, **more):
    values = np.random.default_rng(0).normal(size=(num_rows, 4)).astype(np.float32)
    names = np.array([f"n{i}" for i in range(num_rows)], dtype=object) if ids is None else ids
    return Embeddings(values, names, **more)


def test_most_similar_is_what_the_definition_says():
    made = embeddings()
    found = made.most_similar(["n4", "n0"], 3)
    assert list(found.columns) == ["id", "rank", "neighbour_id", "similarity"]
    for name in ("n4", "n0"):
        v = made.values.astype(np.float64)
        own = v[int(name[1:])]
        cosine = {
            f"n{i}": own @ w / (np.linalg.norm(own) * np.linalg.norm(w))
            for i, w in enumerate(v)
            if f"n{i}" != name
        }
        best = sorted(cosine, key=lambda other: -cosine[other])[:3]
        part = found[found["id"] == name]
        assert part["neighbour_id"].tolist() == best
        assert part["rank"].tolist() == [1, 2, 3]
        assert part["similarity"].tolist() == pytest.approx([cosine[other] for other in best])


def test_lengths_do_not_count_and_zeros_are_similar_to_nothing():
    values = np.array([[1, 0], [9, 1], [1.1, 0.5], [0, 0]], dtype=np.float32)
    found = Embeddings(values, np.arange(4)).most_similar(0, 3)
    assert found["neighbour_id"].tolist() == [1, 2, 3]
    assert found["similarity"].tolist() == pytest.approx([9 / 82**0.5, 1.1 / 1.46**0.5, 0])


def test_ids_of_every_kind():
    assert embeddings(ids=np.arange(30)).most_similar(np.int64(7), 1)["id"].tolist() == [7]
    mixed = np.array([("a", 1), 5, "x", *range(100, 127)], dtype=object)
    assert embeddings(ids=mixed).most_similar([5, "x"], 2)["id"].tolist() == [5, 5, "x", "x"]
    several = embeddings(4, ids=np.array([1, 2, 1, 2]), graphs=np.array(list("AABB"), dtype=object))
    found = several.most_similar(("B", 1), 9)
    assert list(found.columns[:2]) == ["graph", "id"] and len(found) == 3
    assert set(zip(found["neighbour_graph"], found["neighbour_id"], strict=True)) == {
        ("A", 1),
        ("A", 2),
        ("B", 2),
    }
    whole = embeddings(3, id_name="graph").most_similar("n1", 1)
    assert list(whole.columns) == ["graph", "rank", "neighbour_graph", "similarity"]


@pytest.mark.parametrize(
    ("ids", "k", "kind", "message"),
    [
        ("n99", 3, InputError, "There is no embedding of the id 'n99'. Ids are such as 'n0', "),
        ([["n1"]], 3, InputError, "There is no embedding of the id ['n1']."),
        ([], 3, InputError, "Give one id or more. Got an empty list."),
        ("n1", 0, ConfigError, "The 'k' parameter of most_similar must be an int of at least 1."),
        ("n1", True, ConfigError, "The 'k' parameter of most_similar must be an int of at least 1"),
    ],
)
def test_what_cannot_be_asked(ids, k, kind, message):
    with pytest.raises(kind) as caught:
        embeddings().most_similar(ids, k)
    assert str(caught.value).startswith(message)


def test_one_row_has_no_neighbours():
    with pytest.raises(InputError, match="one embedding only"):
        embeddings(1).most_similar("n0")
