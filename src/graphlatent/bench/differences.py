"""Differences between measured rows.

They are paired by seed and split where both rows were measured on the same ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from graphlatent.bench.ledger import Record, records_of
from graphlatent.bench.loading import load_recipe
from graphlatent.bench.recipe_files import cell_names
from graphlatent.bench.rows import all_rows
from graphlatent.errors import ConfigError, InputError
from graphlatent.probes.results import ProbeResult, Summary, paired, summarize


@dataclass(frozen=True)
class Difference:
    """The mean of one row minus that of another, shares between -1 and 1.

    Args:
        mean: first minus second.
        summary: of the differences score by score; None where the two were not measured on the same
            seeds and splits, so that `mean` is the difference of two means and has no interval
            here.
    """

    mean: float
    summary: Summary | None


@dataclass(frozen=True)
class CellRow:
    """A row of a cell of the ledger."""

    cell: str
    row: str

    def __str__(self) -> str:
        return f"{self.cell}:{self.row}"


@dataclass(frozen=True)
class Comparison:
    """Two rows side by side, on the seeds that both have.

    Args:
        first: a row.
        second: the row that is subtracted from it.
        result: which of their results, such as "linear/validation".
        metric: of the scores.
        seeds: that both were measured with.
        only_one: seeds that were left out, since only one was measured with them.
        first_means: of the first, by seed.
        second_means: of the second, by seed.
        difference: of the scores, first minus second.
    """

    first: CellRow
    second: CellRow
    result: str
    metric: str
    seeds: tuple[int, ...]
    only_one: tuple[int, ...]
    first_means: tuple[float, ...]
    second_means: tuple[float, ...]
    difference: Summary

    @property
    def excludes_zero(self) -> bool:
        """Whether 0 is outside the 95 % interval; False where there is no interval."""
        return self.difference.low > 0 or self.difference.high < 0

    @property
    def words(self) -> str:
        """What the interval says."""
        if math.isnan(self.difference.low):
            return "One seed and one split give no interval, and nothing to conclude."
        if not self.excludes_zero:
            return (
                f"The interval includes 0: it is not shown which of {self.first} and {self.second}"
                " scores higher."
            )
        high, low = (
            (self.first, self.second) if self.difference.mean > 0 else (self.second, self.first)
        )
        return f"The interval excludes 0: {high} scores higher than {low}."


def by_seed(
    records: Sequence[Record], *, cell: str, row: str, result: str
) -> dict[int, ProbeResult]:
    """One result per seed in ascending order; empty where nothing was measured.

    Raises `InputError` where seeds were measured with different settings.
    """
    found = {
        record.seed: record.results[result]
        for record in records_of(records, cell=cell, row=row, result=result)
    }
    return dict(sorted(found.items()))


def summary_of(found: Mapping[int, ProbeResult], *, name: str) -> Summary:
    """The summary of results by seed.

    Raises `InputError` with their name where the results do not match.
    """
    try:
        return summarize(list(found.values()))
    except InputError as error:
        raise InputError(
            f"{name}, seeds {_listed(found)}: {error} Delete the records that differ and run the"
            " cell again."
        ) from error


def difference(
    first: Mapping[int, ProbeResult], second: Mapping[int, ProbeResult], *, name: str
) -> Difference:
    """First minus second: paired on the seeds that both have, else of the two means.

    Args:
        first: results by seed; one or more.
        second: likewise.
        name: what messages call them.

    Raises:
        InputError: where the seeds of one of them do not match among each other.
    """
    shared = sorted(first.keys() & second.keys())
    try:
        summary = paired([first[seed] for seed in shared], [second[seed] for seed in shared])
    except InputError:
        return Difference(
            summary_of(first, name=name).mean - summary_of(second, name=name).mean, None
        )
    return Difference(summary.mean, summary)


def for_every_seed(
    found: Mapping[int, ProbeResult], *, row: str, other: Mapping[int, ProbeResult]
) -> dict[int, ProbeResult]:
    """Results by seed, with a result that does not depend on the seed repeated for every seed.

    A row without randomness has a single result. It is used for each seed of the other row that has
    the same splits.
    """
    registered = all_rows()
    if row not in registered or registered[row].seeded or len(found) != 1:
        return dict(found)
    (only,) = found.values()
    return {
        **{seed: only for seed, result in other.items() if result.splits == only.splits},
        **found,
    }


def parse_cell_rows(tokens: Sequence[str]) -> tuple[CellRow, CellRow]:
    """The two rows named by CELL ROW ROW or by CELL:ROW CELL:ROW.

    Raises `ConfigError` where the text has neither form.
    """
    if len(tokens) == 3 and not any(":" in token for token in tokens):
        return CellRow(tokens[0], tokens[1]), CellRow(tokens[0], tokens[2])
    pairs = [token.split(":") for token in tokens]
    if len(tokens) == 2 and all(len(pair) == 2 and all(pair) for pair in pairs):
        return CellRow(*pairs[0]), CellRow(*pairs[1])
    raise ConfigError(
        "A comparison is CELL ROW ROW, such as 'table1/MUTAG paper random', or CELL:ROW CELL:ROW,"
        " such as 'table9/MUTAG-ce-embed:paper table9/MUTAG-mse-embed:paper'. Got"
        f" '{' '.join(tokens)}'."
    )


def compare(
    records: Sequence[Record], *, first: CellRow, second: CellRow, result: str
) -> Comparison:
    """Two rows of the ledger, paired by seed and split.

    Raises:
        ConfigError: where a cell is neither in the ledger nor a packaged recipe.
        InputError: where one was not measured, or they are not of the same data, metric and splits.
    """
    _check_same_data(records, first, second)
    left, right = _needed(records, first, result), _needed(records, second, result)
    left, right = (
        for_every_seed(left, row=first.row, other=right),
        for_every_seed(right, row=second.row, other=left),
    )
    shared = tuple(sorted(left.keys() & right.keys()))
    if not shared:
        raise InputError(
            f"{first} and {second} have no seed in common: {_listed(left)} and {_listed(right)}."
            " Run both with the same seeds."
        )
    metrics = {found[seed].metric for found in (left, right) for seed in shared}
    if len(metrics) > 1:
        raise InputError(
            f"{first} and {second} are scored by different metrics,"
            f" {' and '.join(sorted(metrics))}: they cannot be compared."
        )
    ones, others = [left[seed] for seed in shared], [right[seed] for seed in shared]
    means = [tuple(each.mean for each in results) for results in (ones, others)]
    only_one = tuple(sorted(left.keys() ^ right.keys()))
    return Comparison(
        first,
        second,
        result,
        metrics.pop(),
        shared,
        only_one,
        means[0],
        means[1],
        paired(ones, others),
    )


def _check_same_data(records: Sequence[Record], *names: CellRow) -> None:
    measured = {record.cell for record in records}
    sets = {}
    for name in names:
        # A cell of a file of one's own is known by its records alone.
        if name.cell in cell_names() or name.cell not in measured:
            sets[str(name)] = load_recipe(name.cell).dataset
    if len(set(sets.values())) > 1:
        where = " and ".join(f"{name} is measured on {dataset}" for name, dataset in sets.items())
        raise InputError(f"{where}. A comparison needs the same data set.")


def _needed(records: Sequence[Record], name: CellRow, result: str) -> dict[int, ProbeResult]:
    found = by_seed(records, cell=name.cell, row=name.row, result=result)
    if not found:
        there: dict[str, set[str]] = {}
        for record in records:
            if record.cell == name.cell:
                there.setdefault(record.row, set()).update(record.results)
        listed = (
            "; ".join(
                f"{row} ({', '.join(sorted(results))})" for row, results in sorted(there.items())
            )
            or "nothing"
        )
        raise InputError(
            f"'{result}' of {name} was not measured. Measured of {name.cell}: {listed}."
        )
    return found


def _listed(seeds: Mapping[int, object]) -> str:
    return ", ".join(str(seed) for seed in sorted(seeds))
