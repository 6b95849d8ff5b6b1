"""The history: any named terms, exact round trips."""

from __future__ import annotations

import pytest
import torch

from graphlatent.io.history import History

HISTORY = History([1 / 3, 2.0], {"a": [0.1, 1e-300], "b c": [0.0, 5.0]}, [1e-3, 1e-3])


def test_round_trips_exactly():
    assert History.from_tensor(HISTORY.to_tensor(), term_names=["a", "b c"]) == HISTORY
    assert History.from_csv(HISTORY.to_csv()) == HISTORY
    assert History.from_columns(HISTORY.columns()) == HISTORY
    lines = HISTORY.to_csv().splitlines()
    assert lines[0] == "epoch,loss,a,b c,lr"
    assert [float(v) for v in lines[1].split(",")] == [1, 1 / 3, 0.1, 0.0, 1e-3]


def test_empty_history():
    empty = History.of(["a"])
    assert History.from_tensor(empty.to_tensor(), term_names=["a"]) == empty
    assert empty.to_csv() == "epoch,loss,a,lr\n"
    assert len(empty) == 0


def test_append_adds_an_epoch():
    history = History.of(["a", "b"])
    history.append(3.0, {"b": 2.0, "a": 1.0}, 0.1)
    assert history.columns() == {"epoch": [1], "loss": [3], "a": [1], "b": [2], "lr": [0.1]}


def test_a_tensor_of_other_terms_is_rejected():
    with pytest.raises(ValueError, match="has shape"):
        History.from_tensor(torch.zeros(2, 5), term_names=["a"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "its columns are"),
        ("epoch,loss,a\n", "its columns are epoch, loss, a"),
        ("epoch,loss,lr\n1,2\n", "differ in length"),
        ("epoch,loss,lr\n1,x,2\n", "could not convert"),
    ],
)
def test_damaged_csv_is_rejected(text, message):
    with pytest.raises(ValueError, match=message):
        History.from_csv(text)
