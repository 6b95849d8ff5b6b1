"""Fixtures that more than one test file uses."""

from __future__ import annotations

import os
import subprocess

# pytest imports it where a finalizer fails, which may be within another import: Python 3.11 then
# raises a KeyError there.
import tracemalloc  # noqa: F401
from pathlib import Path

import pytest
import torch

# Triton reads this when it is first imported, which importing graphlatent does.
if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")

from graphlatent.methods.lagraph.method import LaGraph

NPZ_FILES = {
    "Computers": "amazon_electronics_computers.npz",
    "Photo": "amazon_electronics_photo.npz",
    "CS": "ms_academic_cs.npz",
    "Physics": "ms_academic_phy.npz",
    "PPI-small": "ppi_small.npz",
}


NUM_THREADS = torch.get_num_threads()


@pytest.fixture(autouse=True)
def same_number_of_threads():
    """Every test begins with the number of threads that the process began with.

    Rounding errors, and warnings about them, depend on it.
    """
    if torch.get_num_threads() != NUM_THREADS:
        torch.set_num_threads(NUM_THREADS)


@pytest.fixture
def random_biases(monkeypatch):
    """LaGraph starts from random biases and a random token.

    They are 0 else, and a node whose neighbours are all masked then starts at the kink of the
    activation: rounding errors decide on which side of it, and so on the first gradient. Two ways
    to compute the same loss can only be compared over several steps without that.
    """
    original = LaGraph.build

    def build(self, in_dim, *, generator):
        model = original(self, in_dim, generator=generator)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if (name.startswith("encoder.convs") and "bias" in name) or name == "token":
                    parameter.normal_(std=0.3, generator=generator)
        return model

    monkeypatch.setattr(LaGraph, "build", build)


def _has(root: Path, name: str) -> bool:
    file = {**NPZ_FILES, "BBBP": "BBBP.csv"}.get(name, f"{name}_A.txt")
    return (root / name / "raw" / file).is_file()


@pytest.fixture(scope="session")
def data_root(tmp_path_factory):
    """A function: names of real data sets -> a root folder that holds them; skips the test where
    they are not available.

    They are looked for under the environment variable GRAPHLATENT_DATA, else unpacked by
    ../shared/data/unpack.
    """
    unpack = Path(__file__).resolve().parents[2] / "shared" / "data" / "unpack"
    given = os.environ.get("GRAPHLATENT_DATA")
    unpacked = tmp_path_factory.getbasetemp() / "data-root"

    def root_with(*names: str) -> Path:
        if given and all(_has(Path(given), name) for name in names):
            return Path(given)
        if not unpack.is_file():
            pytest.skip(
                f"{', '.join(names)}: not under GRAPHLATENT_DATA, and there is no {unpack.name}"
                " script beside the repository"
            )
        missing = [name for name in names if not _has(unpacked, name)]
        if missing:
            done = subprocess.run(
                [str(unpack), str(unpacked), *missing], capture_output=True, text=True, check=False
            )
            if done.returncode:
                pytest.skip(f"{', '.join(missing)}: not available ({done.stderr.strip()})")
        return unpacked

    return root_with
