"""Checksums of checkpoints and of Parquet files: no flipped bit goes unnoticed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import save_file

from graphlatent.embedding import Embeddings
from graphlatent.errors import InputError, RunFolderError
from graphlatent.io.parquet import check_parquet, write_parquet
from graphlatent.io.tensors import load_tensors, save_tensors

TENSORS = {
    "weight": torch.arange(6, dtype=torch.float32).reshape(2, 3),
    "number": torch.tensor(3.0),
    "none": torch.zeros(0, 2),
    "state": torch.arange(9, dtype=torch.uint8),
    "half": torch.ones(2, dtype=torch.bfloat16),
}


def flipped(path: Path, position: int, bit: int, to: Path) -> Path:
    content = bytearray(path.read_bytes())
    content[position] ^= 1 << bit
    to.write_bytes(content)
    return to


class TestTensors:
    @pytest.fixture
    def path(self, tmp_path) -> Path:
        save_tensors(tmp_path / "t.safetensors", TENSORS, json.dumps({"epoch": 3}))
        return tmp_path / "t.safetensors"

    def test_they_come_back_with_the_text(self, path):
        tensors, about = load_tensors(path)
        assert about == '{"epoch": 3}' and set(tensors) == set(TENSORS)
        for name, value in TENSORS.items():
            assert torch.equal(tensors[name], value) and tensors[name].dtype == value.dtype

    def test_the_same_content_has_the_same_bytes(self, path, tmp_path):
        save_tensors(tmp_path / "u", dict(reversed(TENSORS.items())), json.dumps({"epoch": 3}))
        assert (tmp_path / "u").read_bytes() == path.read_bytes()

    def test_flipped_bits_are_noticed(self, path, tmp_path):
        """An error, or everything as it was; where the checksum is hidden, a damaged text."""
        for position in range(0, path.stat().st_size, 7):
            copy = flipped(path, position, position % 8, tmp_path / "copy")
            try:
                tensors, about = load_tensors(copy)
            except RunFolderError:
                continue
            for name, value in TENSORS.items():
                assert torch.equal(tensors[name], value), position
            if about is not None and about != '{"epoch": 3}':
                with pytest.raises(ValueError, match=r"Extra data|Invalid"):
                    json.loads(about)

    def test_files_without_a_checksum_are_read(self, tmp_path):
        save_file(TENSORS, tmp_path / "old", metadata={"graphlatent": '{"epoch": 3}'})
        tensors, about = load_tensors(tmp_path / "old")
        assert about == '{"epoch": 3}' and torch.equal(tensors["weight"], TENSORS["weight"])


class TestParquet:
    @pytest.fixture
    def path(self, tmp_path) -> Path:
        ids = np.array(["a", "b", "0" * 64], dtype=object)
        values = np.arange(6, dtype=np.float32).reshape(3, 2)
        return Embeddings(values, ids).save(tmp_path / "e.parquet")

    def test_flipped_bits_are_noticed(self, path, tmp_path):
        before = pq.read_table(path)
        noticed = 0
        for position in range(0, path.stat().st_size, 7):
            copy = flipped(path, position, position % 8, tmp_path / "copy")
            try:
                check_parquet(copy, role="embeddings")
                table = pq.read_table(copy)
                # The bit was one of metadata that the checksum is found by.
                assert table.equals(before), position
            except (InputError, pa.ArrowException, OSError):
                noticed += 1
        assert noticed > 0.9 * path.stat().st_size / 7

    def test_a_changed_value_with_the_same_size(self, path):
        """Data without compression: one number is replaced."""
        table = pa.table({"id": [1, 2], "e0": pa.array([1.5, 2.5], pa.float32())})
        write_parquet(table, path)
        assert check_parquet(path, role="embeddings") is None
        content = path.read_bytes()
        old, new = (np.float32(number).tobytes() for number in (1.5, 3.5))
        assert old in content
        path.write_bytes(content.replace(old, new))
        with pytest.raises(InputError, match=r"embeddings: .* its checksum differs. Copy it again"):
            check_parquet(path, role="embeddings")

    def test_files_of_others_are_not_checked(self, path, tmp_path):
        """Also those that somebody made out of ours, whose metadata they keep."""
        table = pq.read_table(path)
        assert b"graphlatent" in table.schema.metadata
        pq.write_table(table.sort_by([("e0", "descending")]), tmp_path / "sorted.parquet")
        pq.write_table(table.select(["id", "e1"]), tmp_path / "some.parquet")
        table.to_pandas().to_parquet(tmp_path / "pandas.parquet")
        (tmp_path / "none.parquet").write_bytes(b"PAR1 no Parquet file")
        for name in ("sorted", "some", "pandas", "none", "missing"):
            assert check_parquet(tmp_path / f"{name}.parquet", role="embeddings") is None

    def test_an_id_like_the_place_of_the_checksum(self, tmp_path):
        ids = np.array(["sha256:" + "0" * 64, "b"], dtype=object)
        path = Embeddings(np.ones((2, 1), dtype=np.float32), ids).save(tmp_path / "e.parquet")
        assert check_parquet(path, role="embeddings") is None
        assert pq.read_table(path)["id"].to_pylist() == ids.tolist()

    def test_an_empty_table(self, tmp_path):
        path = Embeddings(np.ones((0, 2), dtype=np.float32), np.arange(0)).save(
            tmp_path / "e.parquet"
        )
        assert check_parquet(path, role="embeddings") is None
        assert pq.read_table(path).num_rows == 0
