"""The ledger: one JSON record per cell, row and seed, with everything needed to run it again.

Tables and the README are made from records alone.
"""

from __future__ import annotations

import datetime
import json
import math
import os
import platform
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from graphlatent._version import __version__
from graphlatent.errors import InputError
from graphlatent.io.atomic import write_json
from graphlatent.probes.results import ProbeResult


@dataclass(frozen=True)
class Record:
    """What one row of one cell gave for one seed.

    Args:
        cell: name of the recipe, such as "table1/MUTAG".
        row: "raw", "propagated", "random", "paper", "released" or "defaults".
        seed: of training and of folds.
        results: by "probe/selection": probe "linear", "rbf" or "paper-probe"; selection
            "validation" (everything chosen per split), "fixed" (the budget's epoch, the paper's
            representation) or "test" (the released protocol).
        about: command, commit, versions, hardware, device, date, seconds.
        training: epochs, seconds, last loss, peak memory; empty where nothing is trained.
    """

    cell: str
    row: str
    seed: int
    results: Mapping[str, ProbeResult]
    about: Mapping[str, Any]
    training: Mapping[str, Any] = field(default_factory=dict)

    def path(self, root: Path) -> Path:
        """Where the record is kept under the ledger's root."""
        return record_path(root, self.cell, self.row, self.seed)


def record_path(root: Path, cell: str, row: str, seed: int) -> Path:
    """Where the record of a cell, row and seed is kept under the ledger's root."""
    return root / cell / f"{row}-{seed}.json"


def write_record(root: Path, record: Record) -> Path:
    """Write a record, atomically. Returns its path."""
    path = record.path(root)
    write_json(
        path,
        {
            **asdict(record),
            "results": {name: _plain(result) for name, result in record.results.items()},
        },
    )
    return path


def read_record(path: Path) -> Record:
    """The record in a file. Raises `InputError` where it is none."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        results = {name: _result(each) for name, each in values["results"].items()}
        if type(values["seed"]) is not int:
            raise ValueError(f"seed must be an integer, got {values['seed']!r}")
        cell, row = _text(values, "cell"), _text(values, "row")
        return Record(
            cell, row, values["seed"], results, dict(values["about"]), dict(values["training"])
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        why = f"{type(error).__name__}: {error}"
        raise InputError(
            f"{path} is not a record of the ledger ({why}). Delete it and run its cell again."
        ) from error


def read_ledger(root: Path, cells: Iterable[str] | None = None) -> list[Record]:
    """The records under a root, by cell, row and seed; of some cells only, where given.

    Raises:
        InputError: where a file is no record, or is not where its record belongs, so that a copy
            would be counted twice.
    """
    folders = [root] if cells is None else [root / cell for cell in cells]
    paths = sorted({path for folder in folders for path in folder.rglob("*-*.json")})
    records = [read_record(path) for path in paths]
    for path, record in zip(paths, records, strict=True):
        if record.path(root) != path:
            raise InputError(
                f"{path} holds the record that belongs into {record.path(root)}. Delete it, or move"
                " it there."
            )
    return sorted(records, key=lambda r: (r.cell, r.row, r.seed))


def results_of(records: Sequence[Record], *, cell: str, row: str, result: str) -> list[ProbeResult]:
    """One result per seed, in their order; empty where it was not measured. Raises `InputError` as
    `records_of` does.
    """
    return [
        record.results[result] for record in records_of(records, cell=cell, row=row, result=result)
    ]


def records_of(records: Sequence[Record], *, cell: str, row: str, result: str) -> list[Record]:
    """The records of a row that hold a result, in their order. Those that do not say their recipe
    go with any.

    Raises:
        InputError: where they were measured with different recipes, so that their mean would be of
            no recipe at all.
    """
    found = [
        record
        for record in records
        if record.cell == cell and record.row == row and result in record.results
    ]
    seeds: dict[str, list[int]] = {}
    for record in found:
        if record.about.get("recipe") is not None:
            seeds.setdefault(str(record.about["recipe"]), []).append(record.seed)
    if len(seeds) > 1:
        listed = "; ".join(
            f"{', '.join(map(str, sorted(of)))} with recipe {recipe}"
            for recipe, of in seeds.items()
        )
        raise InputError(
            f"The seeds of {cell}, row '{row}', were measured with different recipes, so they"
            f" cannot be averaged: seeds {listed}. Run the cell again with all of these seeds: what"
            " was measured with another recipe is then measured anew."
        )
    return found


def surroundings(device: torch.device) -> dict[str, Any]:
    """Commit, versions, hardware and date, for a record."""
    processor = f"{platform.machine()} CPU, {torch.get_num_threads()} thread(s)"
    return {
        "commit": _commit(),
        "versions": {
            "graphlatent": __version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
        "device": device.type,
        "hardware": torch.cuda.get_device_name(device) if device.type == "cuda" else processor,
        "date": datetime.date.today().isoformat(),
    }


def _plain(result: ProbeResult) -> dict[str, Any]:
    """The result for JSON, which has no NaN: a choice without a score says null."""
    values = result.to_dict()
    choices = [
        {**each, "val_score": None if math.isnan(each["val_score"]) else each["val_score"]}
        for each in values["choices"]
    ]
    return {**values, "choices": choices}


def _result(values: Mapping[str, Any]) -> ProbeResult:
    """The result that `_plain` wrote. Raises `ValueError` where its scores or words are none."""
    for key in ("selection", "metric", "splits"):
        _text(values, key)
    choices = [
        {**each, "val_score": math.nan if each["val_score"] is None else each["val_score"]}
        for each in values["choices"]
    ]
    result = ProbeResult.from_dict({**values, "choices": choices})
    if not result.scores or not all(
        type(score) in (int, float) and 0 <= score <= 1 for score in result.scores
    ):
        raise ValueError(
            f"scores must be one or more numbers from 0 to 1, got {list(result.scores)}"
        )
    for name, scores in result.others.items():
        if len(scores) != len(result.scores) or not all(
            type(score) in (int, float) for score in scores
        ):
            raise ValueError(
                f"{name} must be one number for each of the {len(result.scores)} scores, got"
                f" {list(scores)}"
            )
    return result


def _text(values: Mapping[str, Any], key: str) -> str:
    value = values[key]
    if not isinstance(value, str):
        raise ValueError(f"{key} must be text, got {value!r}")
    return value


def _commit() -> str:
    """The commit of the source tree, "+" where it was changed since; "" where there is none to ask.

    The environment variable GRAPHLATENT_COMMIT goes before: for a copy of the tree that left its
        history behind.
    """
    if os.environ.get("GRAPHLATENT_COMMIT"):
        return os.environ["GRAPHLATENT_COMMIT"]
    command = ["git", "describe", "--always", "--dirty=+", "--exclude=*"]
    try:
        done = subprocess.run(
            command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False
        )
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
