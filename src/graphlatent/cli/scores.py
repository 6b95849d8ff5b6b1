"""A comparison of probes printed as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphlatent.cli.output import Output

if TYPE_CHECKING:
    from graphlatent.probes.evaluation.comparison import ProbeComparison


def print_scores(output: Output, title: str, comparison: ProbeComparison) -> None:
    """Print a title and a table of scores for each metric."""
    from graphlatent.probes.evaluation.score_tables import score_tables

    output.say(title)
    for table in score_tables(comparison):
        output.table("", list(table.columns), [list(row) for row in table.rows])
