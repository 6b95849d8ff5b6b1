"""Scores of several representations, seed by seed: summed up, told as a table, and written as
JSON.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, TypeAlias

from graphlatent.cli.output import Output
from graphlatent.probes.results import ProbeResult, Summary, paired, summarize

Measured: TypeAlias = dict[str, list[ProbeResult]]
"""By the name of the score, one result per seed."""

EMBEDDINGS, RAW, UNTRAINED = "embeddings", "raw features", "untrained encoder"
_COMPARED = (RAW, UNTRAINED)
_COLUMNS = ("probe", "mean", "std over\nsplits", "std over\nseeds", "95 % interval", "n")


def summaries(measured: Mapping[str, Measured]) -> dict[str, dict[str, Summary]]:
    """By representation and score; the paired difference of embeddings and each other one that is
    compared with them comes last.
    """
    found = {
        name: {score: summarize(results) for score, results in scores.items()}
        for name, scores in measured.items()
    }
    others = [name for name in measured if name in _COMPARED]
    for other in others:
        ours, theirs = measured[EMBEDDINGS], measured[other]
        called = "difference" if len(others) == 1 else f"minus {other}"
        found[called] = {score: paired(ours[score], theirs[score]) for score in ours}
    return found


def scores_json(measured: Mapping[str, Measured]) -> dict[str, Any]:
    """Summaries and all results, in plain values."""
    summed = {
        name: {score: {**asdict(s), "n": s.n} for score, s in scores.items()}
        for name, scores in summaries(measured).items()
    }
    results = {
        name: {score: [r.to_dict() for r in of] for score, of in scores.items()}
        for name, scores in measured.items()
    }
    value: dict[str, Any] = plain({"summary": summed, "results": results})
    return value


def plain(value: Any) -> Any:
    """The same with None in the place of NaN, which JSON does not know."""
    if isinstance(value, Mapping):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def show(output: Output, title: str, measured: Mapping[str, Measured]) -> None:
    """A table of the summaries, in per cent."""

    def percent(value: float) -> str:
        return "-" if math.isnan(value) else f"{100 * value:.1f}"

    lines = []
    for name, scores in summaries(measured).items():
        for score, s in scores.items():
            # No score is above 1
            low, high = (
                (s.low, s.high) if name not in measured else (max(s.low, -1.0), min(s.high, 1.0))
            )
            interval = "-" if math.isnan(s.low) else f"{percent(low)} to {percent(high)}"
            lines.append(
                [
                    f"{name}: {score}",
                    percent(s.mean),
                    percent(s.std_splits),
                    percent(s.std_seeds),
                    interval,
                    str(s.n),
                ]
            )
    output.table(title, list(_COLUMNS), lines)
