"""A comparison of probes printed as a table."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from graphlatent.cli.output import Output

if TYPE_CHECKING:
    from graphlatent.probes.evaluation.comparison import ProbeComparison
    from graphlatent.probes.results import Summary

_COLUMNS = ["probe", "mean", "std over\nsplits", "std over\nseeds", "95 % interval", "n"]


def print_scores(output: Output, title: str, comparison: ProbeComparison) -> None:
    """Print a table of the summaries, in per cent."""
    lines = [
        [
            f"{name}: {metric}",
            _percent(summary.mean),
            _percent(summary.std_splits),
            _percent(summary.std_seeds),
            _interval(summary, is_score=name in comparison.results),
            str(summary.n),
        ]
        for name, metrics in comparison.summaries().items()
        for metric, summary in metrics.items()
    ]
    output.table(title, _COLUMNS, lines)


def _interval(summary: Summary, *, is_score: bool) -> str:
    if math.isnan(summary.low):
        return "-"
    # No score is above 1; a difference of two may be.
    low, high = (
        (max(summary.low, -1.0), min(summary.high, 1.0))
        if is_score
        else (summary.low, summary.high)
    )
    return f"{_percent(low)} to {_percent(high)}"


def _percent(value: float) -> str:
    return "-" if math.isnan(value) else f"{100 * value:.1f}"
