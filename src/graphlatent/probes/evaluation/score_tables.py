"""The scores of a comparison as tables of text: for the command line, for `repr` and notebooks."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass

from graphlatent.probes.evaluation.comparison import EMBEDDINGS, ProbeComparison
from graphlatent.probes.metrics import METRICS
from graphlatent.probes.results import Summary

_TITLES = ("mean", "std,\nsplits", "std,\nseeds", "95 %\ninterval", "embeddings\nminus it")


@dataclass(frozen=True)
class ScoreTable:
    """One metric of every representation.

    Args:
        metric: its name.
        columns: titles, the first that of the representations' names.
        rows: of text.
    """

    metric: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    def to_text(self) -> str:
        """Lines of equal columns."""
        titles = [title.replace(",\n", " over ").replace("\n", " ") for title in self.columns]
        lines = [titles, *self.rows]
        widths = [max(len(line[i]) for line in lines) for i in range(len(titles))]
        return "\n".join(
            "  ".join(
                cell.ljust(width) if i == 0 else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        )

    def to_html(self) -> str:
        """A table of a notebook."""
        head = "".join(f"<th>{html.escape(title)}</th>" for title in self.columns)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
            for row in self.rows
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def score_tables(comparison: ProbeComparison) -> list[ScoreTable]:
    """A table for each metric; columns without a value are left out."""
    summaries, differences = comparison.summaries(), comparison.differences()
    return [
        _table(
            metric,
            {name: summaries[name][metric] for name in comparison.results},
            {name: each[metric] for name, each in differences.items()},
        )
        for metric in summaries[EMBEDDINGS]
    ]


@dataclass(frozen=True)
class Unit:
    """How the values of a metric are written.

    Args:
        factor: from values to what is written.
        symbol: behind a single value.
        digits: after the point.
        least: the least value that there can be.
        most: the largest.
    """

    factor: float
    symbol: str
    digits: int
    least: float
    most: float

    def number(self, value: float, *, sign: str = "") -> str:
        """A value without its symbol; '-' for NaN."""
        return "-" if math.isnan(value) else f"{self.factor * value:{sign},.{self.digits}f}"

    def interval(self, summary: Summary) -> str:
        """The 95 % interval, as far as there can be such values."""
        if math.isnan(summary.low):
            return "-"
        low, high = max(summary.low, self.least), min(summary.high, self.most)
        return f"{self.number(low)} to {self.number(high)}"


def unit_of(metric: str, mean: float) -> Unit:
    """Per cent for scores up to 1; R2 as it is; errors in the label's units, three digits of them.

    Args:
        metric: its name.
        mean: of a representation, which decides how many digits of an error are written.
    """
    if metric == "R2":
        return Unit(1, "", 2, -math.inf, 1)
    if metric == "MAE":
        size = math.floor(math.log10(mean)) if mean > 0 else 0
        return Unit(1, "", max(0, 2 - size), 0, math.inf)
    # The agreement of clusters may be below 0.
    return Unit(100, " %", 1, 0 if metric in METRICS else -1, 1)


def _table(
    metric: str, summaries: dict[str, Summary], differences: dict[str, Summary]
) -> ScoreTable:
    unit = unit_of(metric, summaries[EMBEDDINGS].mean)
    rows = [
        [
            name,
            *map(unit.number, (summary.mean, summary.std_splits, summary.std_seeds)),
            unit.interval(summary),
            _difference(differences.get(name), unit),
        ]
        for name, summary in summaries.items()
    ]
    shown = [0, *(i for i in range(1, len(_TITLES) + 1) if any(row[i] != "-" for row in rows))]
    titles = (f"{metric} in %" if unit.symbol else metric, *_TITLES)
    return ScoreTable(metric, [titles[i] for i in shown], [[row[i] for i in shown] for row in rows])


def _difference(summary: Summary | None, unit: Unit) -> str:
    if summary is None:
        return "-"
    mean, low, high = (
        unit.number(each, sign="+") for each in (summary.mean, summary.low, summary.high)
    )
    return mean if math.isnan(summary.low) else f"{mean} [{low}, {high}]"
