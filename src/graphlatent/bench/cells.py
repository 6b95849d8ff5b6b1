"""From published and measured numbers to the cells of a table, and to words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from graphlatent.bench.differences import difference, summary_of
from graphlatent.bench.formats import Cell
from graphlatent.bench.recipe import Published
from graphlatent.probes.results import ProbeResult, Summary

NOT_AVAILABLE, NOT_MEASURED = "data not available", "not measured"


def empty_cell(why: str) -> Cell:
    """A cell that says why there is no number."""
    return Cell(why, values={"state": why})


def published_cell(printed: Published | None, *, missing: str = "not printed") -> Cell:
    """What a paper prints: mean ± spread; `missing` where it prints nothing."""
    if printed is None:
        return empty_cell(missing)
    text = printed_number(printed.mean) + (
        "" if printed.spread is None else f" ± {printed_number(printed.spread)}"
    )
    values = {
        "published": printed.mean,
        "published_spread": printed.spread,
        "selection": printed.selection,
    }
    return Cell(
        text,
        "" if printed.runs is None else f"{printed.runs} runs",
        {"state": "published", **values},
    )


def measured_cell(found: Mapping[int, ProbeResult], *, name: str) -> Cell:
    """Mean ± spread of one or more results by seed.

    Raises `InputError` with their name where the results do not match.
    """
    summary = summary_of(found, name=name)
    low, high = (f"{100 * end:.1f}" for end in (summary.low, summary.high))
    interval = "" if math.isnan(summary.low) else f"95 % [{low}, {high}], "
    return Cell(
        score(summary),
        interval + counts(summary),
        {"state": "measured", **_values(summary), "selection": selection(found)},
    )


def difference_cell(
    first: Mapping[int, ProbeResult], second: Mapping[int, ProbeResult], *, name: str
) -> Cell:
    """First minus second in points, with its interval where they are paired.

    Raises `InputError` where the results do not match.
    """
    found = difference(first, second, name=name)
    if found.summary is None:
        return Cell(
            f"{points(found.mean)} (not paired)",
            values={"state": "not paired", "mean": 100 * found.mean},
        )
    return Cell(
        f"{points(found.mean)} {interval(found.summary)}",
        counts(found.summary),
        {"state": "paired", **_values(found.summary)},
    )


def score(summary: Summary) -> str:
    """Mean ± spread over splits, over seeds where there is one split: "78.1 ± 2.4"."""
    spread = summary.std_seeds if math.isnan(summary.std_splits) else summary.std_splits
    return f"{100 * summary.mean:.1f}" + ("" if math.isnan(spread) else f" ± {100 * spread:.1f}")


def points(share: float) -> str:
    """A difference of shares in points, with its sign: "+1.23".

    Two decimals, because rounding to one could make an interval that contains 0 look as if it
    excluded 0.
    """
    # Adding 0.0 makes -0.0 positive.
    return f"{round(100 * share, 2) + 0.0:+.2f}"


def interval(summary: Summary) -> str:
    """The 95 % interval of a difference: "[+0.41, +2.03]"."""
    if math.isnan(summary.low):
        return "(no interval)"
    # Rounded outwards, so that an interval that contains 0 still does.
    low, high = (
        math.floor(1e4 * summary.low + 1e-6) / 1e4,
        math.ceil(1e4 * summary.high - 1e-6) / 1e4,
    )
    return f"[{points(low)}, {points(high)}]"


def counts(summary: Summary) -> str:
    """How many scores: "5 seeds x 10 splits"."""
    return " x ".join(
        f"{n} {name}{'s' if n > 1 else ''}"
        for n, name in ((summary.num_seeds, "seed"), (summary.num_splits, "split"))
    )


def printed_number(value: float) -> str:
    """As the paper prints it: one decimal, two in Table 3."""
    return f"{value:.1f}" if round(value, 1) == value else f"{value:.2f}"


def selection(found: Mapping[int, ProbeResult]) -> str:
    """How results were chosen; every way, should seeds differ."""
    return " / ".join(dict.fromkeys(result.selection for result in found.values()))


def _values(summary: Summary) -> dict[str, Any]:
    shares = {
        name: 100 * getattr(summary, name)
        for name in ("mean", "std_splits", "std_seeds", "low", "high")
    }
    return {**shares, "seeds": summary.num_seeds, "splits": summary.num_splits}
