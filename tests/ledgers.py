"""Small ledgers that tests write themselves, and tables made from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from graphlatent.bench.formats import Table
from graphlatent.bench.ledger import (
    Record,
    RecordKey,
    append_record,
    ledger_file,
    read_ledger,
    read_record,
)
from graphlatent.bench.runner import Event
from graphlatent.bench.tables import make_table
from graphlatent.probes.results import Choice, ProbeResult

NAME = "linear/validation"
GRAPH_SETS = ("NCI1", "PROTEINS", "DD", "MUTAG", "COLLAB", "RDT-B", "RDT-M5K", "IMDB-B")
FIRST, SECOND = [[0.8, 0.9], [0.7, 0.8]], [[0.7, 0.8], [0.6, 0.7]]


def probe_result(
    scores: Sequence[float],
    *,
    splits: str = "same",
    selection: str = "On validation.",
    metric: str = "accuracy",
) -> ProbeResult:
    choices = tuple(Choice("epoch 1", {"l2": 1.0}, 0.5) for _ in scores)
    return ProbeResult(tuple(scores), choices, selection, metric, {}, splits)


def measure(
    root: Path,
    cell: str,
    row: str,
    results: Mapping[str, Sequence[Sequence[float]]],
    *,
    seeds: Sequence[int] | None = None,
    training: Mapping[str, Any] | None = None,
    about: Mapping[str, Any] | None = None,
    **kinds: Any,
) -> list[Record]:
    """Write the records of a row: results by name, scores by seed and split. Splits of seed 3 are
    called "same 3".
    """
    count = len(next(iter(results.values())))
    made = []
    for i, seed in enumerate(seeds if seeds is not None else range(count)):
        of_seed = {**kinds, "splits": f"{kinds.get('splits', 'same')} {seed}"}
        found = {name: probe_result(scores[i], **of_seed) for name, scores in results.items()}
        made.append(
            Record(
                cell,
                row,
                seed,
                found,
                about or {"date": "2026-01-02", "hardware": "a CPU"},
                training or {},
            )
        )
        append_record(root, made[-1])
    return made


def table(root: Path, name: str, **options) -> Table:
    return make_table(name, read_ledger(root), **options)


def text(made: Table, line: str, column: str, block: int = 0) -> str:
    (found,) = [each for each in made.blocks[block].lines if each.label == line]
    return found.cells[made.blocks[block].columns.index(column)].text


def note(made: Table, start: str) -> str:
    (found,) = [each for each in made.notes if each.startswith(start)]
    return found


def states(events: Iterable[Event]) -> list[tuple[str, str, int, str]]:
    return [(event.cell, event.row, event.seed, event.state) for event in events]


def results(records: Iterable[Record]) -> dict[RecordKey, Mapping[str, ProbeResult]]:
    return {record.key: record.results for record in records}


def drop(root: Path, cell: str, row: str, seed: int) -> None:
    """Delete the record of a row."""
    path = ledger_file(root, cell)
    lines = path.read_text().splitlines(keepends=True)
    kept = [
        line
        for number, line in enumerate(lines, start=1)
        if read_record(line, path=path, number=number).key != (cell, row, seed)
    ]
    assert len(kept) == len(lines) - 1
    path.write_text("".join(kept))
