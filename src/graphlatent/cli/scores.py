"""Tables of scores printed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from graphlatent.cli.output import Output

if TYPE_CHECKING:
    from graphlatent.probes.evaluation.score_tables import ScoreTable


def print_scores(output: Output, title: str, tables: Sequence[ScoreTable]) -> None:
    """Print a title and a table of scores for each metric."""
    output.say(title)
    for table in tables:
        output.table("", list(table.columns), [list(row) for row in table.rows])
