"""Embeddings with a table of labels, for tests of `graphlatent probe`."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd

import commands

FEW = ["--splits", "3", "--train", "0.3", "--val", "0.3"]
NAMES = np.array([f"user {i:02d}" for i in range(60)], dtype=object)
KINDS = np.array(["ant", "bee", "cat"])[np.arange(60) % 3]

run, told, fails = (
    partial(each, "probe") for each in (commands.run, commands.told, commands.fails)
)


def labels_with(folder, **columns):
    """Write a label table of its own and say where it is."""
    pd.DataFrame({"id": NAMES, **columns}).to_csv(folder / "own.csv", index=False)
    return folder / "own.csv"
