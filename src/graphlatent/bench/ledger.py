"""The ledger: records of measured rows, with everything needed to measure them again.

A record is one line of a JSON-lines file, one file per table: results/table1.jsonl. Of several
lines for the same cell, row and seed the last one counts. Tables and pages are made from records
alone.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

from graphlatent.bench.better_svm import with_better_svm
from graphlatent.bench.fingerprint import fingerprint
from graphlatent.errors import InputError
from graphlatent.io.jsonl import append_line, read_lines, rewrite_lines
from graphlatent.probes.results import ProbeResult

RecordKey: TypeAlias = tuple[str, str, int]
OWN_FILE = "own"
"""The file for records of the user's own recipes, which have no table in their name."""


@dataclass(frozen=True)
class Record:
    """What one row of one cell gave for one seed.

    Args:
        cell: name of the recipe, such as "table1/MUTAG".
        row: name of a registered row, such as "paper".
        seed: of training and of folds.
        results: by "probe/selection": probe "linear", "rbf", "svm" (the better of these two in
            inner folds) or "paper-probe"; selection "validation" (everything chosen per split),
            "fixed" (the last or the budget's epoch, the representation of the settings),
            "representation" (its form alone chosen), "untrained" or "test" (the released protocol).
        about: command, commit, versions, hardware, device, date, seconds.
        training: epochs, seconds, last loss, peak memory; empty where nothing is trained.
        definition: all that defines the row in the cell, as `fingerprint.define` gives it; empty
            where it is not known.
    """

    cell: str
    row: str
    seed: int
    results: Mapping[str, ProbeResult]
    about: Mapping[str, Any]
    training: Mapping[str, Any] = field(default_factory=dict)
    definition: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> RecordKey:
        """What a later record replaces."""
        return self.cell, self.row, self.seed

    @cached_property
    def fingerprint(self) -> str:
        """Of the definition."""
        return fingerprint(self.definition)


def ledger_file(root: Path, cell: str) -> Path:
    """The file that holds the records of a cell."""
    table, found, _ = cell.partition("/")
    return root / f"{table if found else OWN_FILE}.jsonl"


def append_record(root: Path, record: Record) -> Path:
    """Append a record to the file of its table. Returns the file's path."""
    path = ledger_file(root, record.cell)
    results = {name: _plain(result) for name, result in record.results.items()}
    append_line(path, {**asdict(record), "results": results})
    return path


def read_ledger(root: Path, cells: Iterable[str] | None = None) -> list[Record]:
    """The last record of each cell, row and seed under a root.

    With `cells`, only the records of these cells.

    Raises:
        InputError: where a line is no record, or is in the file of another table.
    """
    wanted = None if cells is None else set(cells)
    paths = (
        sorted(root.glob("*.jsonl"))
        if wanted is None
        else sorted({ledger_file(root, cell) for cell in wanted})
    )
    found: dict[RecordKey, Record] = {}
    for path in paths:
        for number, line in enumerate(_lines(path), start=1):
            record = read_record(line, path=path, number=number)
            if wanted is None or record.cell in wanted:
                found[record.key] = record
    return [found[key] for key in sorted(found)]


def read_record(line: str, *, path: Path, number: int) -> Record:
    """The record in a line. Raises `InputError` that names the line where it is none.

    A record with a linear and an RBF SVM also gets the better of both where it has not; both chose
    in the same inner folds, so nothing has to be measured for it.
    """
    where = f"Line {number} of {path}"
    try:
        values = json.loads(line)
        results = with_better_svm({n: _result(each) for n, each in values["results"].items()})
        if type(values["seed"]) is not int:
            raise ValueError(f"seed must be an integer, got {values['seed']!r}")
        cell, row = _text(values, "cell"), _text(values, "row")
        about, training, definition = (
            dict(values[key]) for key in ("about", "training", "definition")
        )
        record = Record(cell, row, values["seed"], results, about, training, definition)
        # Raises where the definition is none.
        _ = record.fingerprint
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        why = f"{type(error).__name__}: {error}"
        raise InputError(
            f"{where} is not a record of the ledger ({why}). Delete the line and run its cell"
            " again."
        ) from error
    if ledger_file(path.parent, cell) != path:
        raise InputError(
            f"{where} holds a record of {cell}, which belongs into"
            f" {ledger_file(path.parent, cell)}. Delete the line, or move it there."
        )
    return record


def compact(root: Path, *, keep: Callable[[Record], bool] = lambda _: True) -> dict[Path, int]:
    """Sort every file by cell, row and seed, and leave out lines that later ones replaced.

    Args:
        root: folder of the records.
        keep: whether a record that nothing replaced is kept.

    Returns:
        By file how many lines were left out.

    Raises:
        InputError: where a line is no record; nothing of its file is changed then.
    """
    dropped = {}
    for path in sorted(root.glob("*.jsonl")):

        def tidied(lines: list[str], path: Path = path) -> list[str]:
            last = {}
            for number, line in enumerate(lines, start=1):
                record = read_record(line, path=path, number=number)
                last[record.key] = record, line
            kept = {key: line for key, (record, line) in last.items() if keep(record)}
            dropped[path] = len(lines) - len(kept)
            return [kept[key] for key in sorted(kept)]

        _lines(path)
        rewrite_lines(path, tidied)
    return dropped


def results_of(records: Sequence[Record], *, cell: str, row: str, result: str) -> list[ProbeResult]:
    """One result per seed, in the order of the records; empty where nothing was measured.

    Raises `InputError` as `records_of` does.
    """
    return [
        record.results[result] for record in records_of(records, cell=cell, row=row, result=result)
    ]


def records_of(records: Sequence[Record], *, cell: str, row: str, result: str) -> list[Record]:
    """The records of a row that hold a result, in their order.

    Records without a stored definition are compatible with any.

    Raises:
        InputError: where they are of different definitions, so that their mean would be of none.
    """
    found = [
        record
        for record in records
        if record.cell == cell and record.row == row and result in record.results
    ]
    seeds: dict[str, list[int]] = {}
    for record in found:
        if record.fingerprint:
            seeds.setdefault(record.fingerprint, []).append(record.seed)
    if len(seeds) > 1:
        listed = "; ".join(
            f"{', '.join(map(str, sorted(of)))} with fingerprint {each}"
            for each, of in seeds.items()
        )
        raise InputError(
            f"The seeds of {cell}, row '{row}', were measured with different settings, so they"
            f" cannot be averaged: seeds {listed}. Run the cell again with all of these seeds: what"
            " was measured with other settings is then measured again."
        )
    return found


def _lines(path: Path) -> list[str]:
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise OSError(None, "it is a pipe or a device")
        return read_lines(path)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"Cannot read the records in {path}: {getattr(error, 'strerror', None) or error}."
        ) from error


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
