"""The scores of a comparison as tables of text: for the command line, for `repr` and notebooks."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass

from graphlatent.probes.evaluation.comparison import EMBEDDINGS, ProbeComparison
from graphlatent.probes.results import Summary

_TITLES = ("mean", "std over\nsplits", "std over\nseeds", "95 %\ninterval", "embeddings\nminus it")


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
        titles = [title.replace("\n", " ") for title in self.columns]
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
        digits: after the point; None for three significant digits.
    """

    factor: float
    symbol: str
    digits: int | None

    def number(self, value: float, *, sign: str = "") -> str:
        """A value without its symbol; '-' for NaN."""
        if math.isnan(value):
            return "-"
        form = f"{sign}.3g" if self.digits is None else f"{sign}.{self.digits}f"
        return f"{self.factor * value:{form}}"


def unit_of(metric: str) -> Unit:
    """Per cent for scores between 0 and 1; R2 as it is; errors in the label's own units."""
    return {"R2": Unit(1, "", 3), "MAE": Unit(1, "", None)}.get(metric, Unit(100, " %", 1))


def _table(
    metric: str, summaries: dict[str, Summary], differences: dict[str, Summary]
) -> ScoreTable:
    unit = unit_of(metric)
    rows = [
        [
            name,
            *map(unit.number, (summary.mean, summary.std_splits, summary.std_seeds)),
            _interval(summary, unit),
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


def _interval(summary: Summary, unit: Unit) -> str:
    if math.isnan(summary.low):
        return "-"
    # No score is above 1.
    low, high = summary.low, summary.high
    if unit.digits is not None:
        high = min(high, 1.0)
    return f"{unit.number(low)} to {unit.number(high)}"
