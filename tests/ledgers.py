"""Small ledgers that tests write themselves, and tables made from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from graphlatent.bench.formats import Table
from graphlatent.bench.ledger import Record, read_ledger, write_record
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
    choices = tuple(Choice("epoch 1", {"strength": 1.0}, 0.5) for _ in scores)
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
        write_record(root, made[-1])
    return made


def table(root: Path, name: str, **options) -> Table:
    return make_table(name, read_ledger(root), **options)


def text(made: Table, line: str, column: str, block: int = 0) -> str:
    (found,) = [each for each in made.blocks[block].lines if each.label == line]
    return found.cells[made.blocks[block].columns.index(column)].text


def note(made: Table, start: str) -> str:
    (found,) = [each for each in made.notes if each.startswith(start)]
    return found
