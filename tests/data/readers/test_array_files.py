"""NumPy files and the ids in them."""

from __future__ import annotations

import numpy as np
import pytest

from graphlatent.data.readers.array_files import ids_of_array, load_arrays, row_numbers
from graphlatent.errors import InputError


def test_arrays_by_name(tmp_path):
    np.save(tmp_path / "one.npy", np.arange(3))
    np.savez(tmp_path / "two.npz", a=np.arange(3), b=np.eye(2))
    (array,) = load_arrays(tmp_path / "one.npy", role="labels").values()
    assert array.tolist() == [0, 1, 2]
    assert list(load_arrays(tmp_path / "two.npz", role="labels")) == ["a", "b"]


def test_files_that_cannot_be_read(tmp_path):
    def message(name):
        with pytest.raises(InputError) as caught:
            load_arrays(tmp_path / name, role="labels")
        return str(caught.value)

    assert message("no.npy") == f"labels: there is no file {tmp_path / 'no.npy'}. Check the path."
    (tmp_path / "broken.npz").write_bytes(b"PK\x03\x04 nothing")
    np.save(tmp_path / "objects.npy", np.array([None]), allow_pickle=True)
    for name in ("broken.npz", "objects.npy"):
        assert message(name).startswith(
            f"labels: {tmp_path / name} cannot be read as NumPy arrays. The reader says: "
        )


def test_row_numbers():
    assert row_numbers(3, where="t").values.to_pylist() == [0, 1, 2]


NO_IDS = [
    (
        np.arange(16).reshape(8, 2),
        "one id per row [M], integers or text. Got shape (8, 2) of int64.",
    ),
    (np.array(3), "one id per row [M], integers or text. Got shape () of int64."),
    (np.arange(8) / 2, "one id per row [M], integers or text. Got shape (8,) of float64."),
    (np.arange(8) > 3, "one id per row [M], integers or text. Got shape (8,) of bool."),
    (
        np.array([b"\xff", *b"abcdefg"], dtype="S1"),
        (
            "integers of 64 bits or text in UTF-8. The reader says: 'utf-8' codec can't decode byte"
            " 0xff in position 0: invalid start byte."
        ),
    ),
    (
        np.arange(8, dtype=np.uint64) + 2**63,
        "integers of 64 bits or text in UTF-8. The reader says: ",
    ),
]


@pytest.mark.parametrize(("ids", "message"), NO_IDS)
def test_arrays_that_are_no_ids(ids, message):
    with pytest.raises(InputError) as caught:
        ids_of_array(ids, name="ids", where="t")
    assert str(caught.value).startswith(f"t, array 'ids', must hold {message}")


@pytest.mark.parametrize(
    "ids",
    [np.array(["é", *"abcdefg"]), np.char.encode(["é", *"abcdefg"], "utf-8"), np.arange(8.0) - 3],
)
def test_ids_in_other_types(ids):
    names = list(range(-3, 5)) if ids.dtype.kind == "f" else ["é", *"abcdefg"]
    assert ids_of_array(ids, name="ids", where="t").values.to_pylist() == names
