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
        metric: with its unit.
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


def percent(value: float, *, sign: str = "") -> str:
    """A score in per cent; '-' for NaN."""
    return "-" if math.isnan(value) else f"{100 * value:{sign}.1f}"


def _table(
    metric: str, summaries: dict[str, Summary], differences: dict[str, Summary]
) -> ScoreTable:
    rows = [
        [
            name,
            percent(summary.mean),
            percent(summary.std_splits),
            percent(summary.std_seeds),
            _interval(summary),
            _difference(differences.get(name)),
        ]
        for name, summary in summaries.items()
    ]
    shown = [0, *(i for i in range(1, len(_TITLES) + 1) if any(row[i] != "-" for row in rows))]
    titles = (f"{metric} in %", *_TITLES)
    return ScoreTable(
        f"{metric} in %", [titles[i] for i in shown], [[row[i] for i in shown] for row in rows]
    )


def _difference(summary: Summary | None) -> str:
    if summary is None:
        return "-"
    mean = percent(summary.mean, sign="+")
    if math.isnan(summary.low):
        return mean
    return f"{mean} [{percent(summary.low, sign='+')}, {percent(summary.high, sign='+')}]"


def _interval(summary: Summary) -> str:
    if math.isnan(summary.low):
        return "-"
    # No score is above 1.
    low, high = max(summary.low, -1.0), min(summary.high, 1.0)
    return f"{percent(low)} to {percent(high)}"
