"""Arguments of wrong types and values raise named errors, from Python too."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone

from graphlatent import (
    GraphLaGraph,
    NodeBGRL,
    NodeDGI,
    NodeLaGraph,
    RunFolder,
    load_dataset,
    load_estimator,
    read_graphs,
)
from graphlatent.config import field_hints
from graphlatent.errors import ConfigError, GraphLatentError, InputError, shown, shown_path
from graphlatent.setting_types import union_members
from graphlatent.training.loop import Hooks

EDGES = np.array([[0, 1, 2, 1, 2, 3], [1, 2, 3, 0, 1, 2]])
X = np.eye(5, 3, dtype=np.float32)
SMALL = {"epochs": 1, "hidden_dim": 4}


class Unprintable:
    def __repr__(self):
        raise RuntimeError("no repr")

    def __eq__(self, other):
        raise RuntimeError("no ==")

    __hash__ = None


WRONG = [
    *(b"x", [], {}, (), object(), Unprintable(), lambda: 0, 1 + 2j, torch.tensor(1)),
    *(np.array(1), np.array([1, 2]), np.datetime64("2020"), "", "abc", "\ud800"),
    *(float("nan"), float("inf"), -float("inf"), np.float64("nan"), -1, 1e300, 10**30, 10**5000),
]
MAYBE = [None, True, 0, 1, 2, 0.5, 1e-320, "none", "auto", torch.nn.Linear(1, 1), torch.nn.Linear]


@pytest.mark.parametrize("cls", [NodeLaGraph, GraphLaGraph, NodeDGI, NodeBGRL])
def test_any_value_of_any_parameter(cls):
    """Settings are checked before the input is read, so that a wrong input is found only then."""
    for name in cls().get_params():
        for value in [*WRONG, *MAYBE]:
            estimator = cls(**{**SMALL, name: value})
            assert clone(cls()).set_params(**{name: value}).get_params()[name] is value
            text = name == "device" and isinstance(value, str)
            wrong = any(value is each for each in WRONG) and not text
            with pytest.raises(ConfigError if wrong else (ConfigError, InputError)):
                estimator.fit(3)


@pytest.mark.parametrize("cls", [NodeLaGraph, GraphLaGraph, NodeDGI, NodeBGRL])
def test_numbers_of_numpy(cls):
    kinds = {int: np.int64(2), float: np.float32(0.5), bool: np.bool_(False)}
    plain = {int: 2, float: 0.5, bool: False}
    checked = 0
    for name, hint in field_hints(cls.settings_class).items():
        for kind in set(union_members(hint)) & set(kinds):
            fixed = {"embedding": "combined"} if "weight" in name or "_dim" in name else {}
            if cls is GraphLaGraph:
                fixed = {"embedding": "standard"} if name == "embedding_dim" else {}
            estimator = cls(**{**fixed, name: kinds[kind]})
            assert clone(estimator).get_params()[name] == kinds[kind]
            try:
                value = getattr(estimator._resolved(), name)
            except ConfigError as error:
                # Some have no effect with the other settings.
                assert "must be" not in str(error) or "must be 'mlp'" in str(error), name  # noqa: PT017
                continue
            assert value == plain[kind] and type(value) is kind, name
            checked += 1
    assert checked > 10


def test_shown_values():
    assert shown(3.5) == "3.5" and shown("a") == "'a'"
    assert shown("a" * 99) == "'" + "a" * 79 + "... (101 characters)"
    assert shown(10**5000) == "one of type int that cannot be printed"
    assert shown(Unprintable()) == "one of type Unprintable that cannot be printed"
    assert shown_path("a" * 200) == "a" * 200
    assert shown_path("a" * 201) == "a" * 60 + "... (201 characters)"
    with pytest.raises(
        ConfigError, match=r"'epochs' parameter of NodeLaGraph must be an int in the range \[0, inf"
    ):
        NodeLaGraph(epochs=10**5000).fit((EDGES, X))


def test_the_largest_numbers():
    NodeLaGraph(epochs=2**31 - 1)._resolved()
    NodeLaGraph(preset="paper", alpha=1e18)._resolved()
    with pytest.raises(ConfigError, match=r"and at most 2,147,483,647. Got 2147483648 instead"):
        NodeLaGraph(epochs=2**31)._resolved()
    with pytest.raises(ConfigError, match=r"and at most 1e\+18. Got 1e\+19 instead"):
        NodeLaGraph(preset="paper", alpha=1e19)._resolved()
    # With a range of its own
    with pytest.raises(ConfigError, match=r"\[0, 2.14748e\+09\]. Got 2147483648 instead"):
        NodeLaGraph(random_state=2**31)._resolved()


def test_encoders_that_fit_no_memory():
    with pytest.raises(
        ConfigError,
        match=(
            r"^hidden_dim=1,000,000 and num_layers=10,000 of NodeLaGraph need 37,2\d\d,\d+ GiB for"
            r" the weights of the encoder alone, and this machine has [\d,]+ GiB. Choose"
        ),
    ):
        NodeLaGraph(hidden_dim=10**6, num_layers=10_000)._resolved()


NO_GRAPHS = [
    *(None, "", "nope", "nul\0byte", "a" * 300, b"x", 3, True, [], (), {}, set(), [None]),
    *([(EDGES, X), None], (None, None), (None, X), (EDGES, X, None, None), object(), type, ...),
    *(np.zeros((2, 3, 4)), np.zeros(5), torch.zeros(2, 3, 4), (np.zeros((2, 3, 4), int), X)),
    *((EDGES, np.zeros((5, 3, 2))), (EDGES, "x"), ("x", X), iter([(EDGES, X)]), (EDGES + 0.5, X)),
    *((EDGES.astype(complex), X), (EDGES, X.astype(complex)), (EDGES, X.astype(str)), (-EDGES, X)),
    *((EDGES + 10**12, X), (EDGES, X * np.nan), (EDGES, []), pd.DataFrame(), [[]], [[1, 2], [3]]),
    *([(EDGES, X), "nope"], (EDGES, X, np.ones(3)), (EDGES, X, np.full(6, np.nan)), range(3)),
]


@pytest.mark.parametrize("cls", [NodeLaGraph, GraphLaGraph])
def test_what_is_no_graph(cls):
    fitted = cls(**SMALL).fit([(EDGES, X)] * 3 if cls is GraphLaGraph else (EDGES, X))
    for value in NO_GRAPHS:
        for call in (cls(**SMALL).fit, cls(**SMALL).fit_transform, fitted.embed, read_graphs):
            with pytest.raises(GraphLatentError):
                call(value)


@pytest.mark.parametrize("value", [3, "", b"x", "a" * 300, "nul\0", [], {}, 1.5, object()])
def test_what_is_no_path(value, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = NodeLaGraph(**SMALL).fit((EDGES, X))
    match = r"parameter of [\w.]+ must be a (shorter )?path"
    for call in (
        lambda: NodeLaGraph(**SMALL).fit((EDGES, X), run=value),
        lambda: model.save(value),
        lambda: NodeLaGraph.load(value),
        lambda: load_estimator(value),
        lambda: RunFolder(value),
        lambda: model.embed((EDGES, X)).save(value),
        lambda: load_dataset("PPI-small", root=value),
    ):
        with pytest.raises(ConfigError, match=match):
            call()
    assert list(tmp_path.iterdir()) == []


def test_other_arguments():
    for value in (3, "x", lambda: None, Hooks):
        with pytest.raises(ConfigError, match=r"'hooks' parameter of NodeLaGraph.fit must be a Ho"):
            NodeLaGraph(**SMALL).fit((EDGES, X), hooks=value)
    with pytest.raises(ConfigError, match=r"device='meta' is not supported"):
        NodeLaGraph(**{**SMALL, "device": "meta"}).fit((EDGES, X))
    for value in (None, 3, b"x", []):
        with pytest.raises(ConfigError, match=r"'name' parameter of load_dataset must be a string"):
            load_dataset(value)
    for value in (None, 3, object(), [None], ["a"]):
        with pytest.raises(ConfigError, match=r"'epochs' parameter of NodeLaGraph.snapshots must"):
            next(NodeLaGraph(**SMALL).snapshots((EDGES, X), epochs=value))
