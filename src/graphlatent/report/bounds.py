"""The chart of both sides of the bounds through training."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from graphlatent.errors import InputError
from graphlatent.report.colours import PALETTE
from graphlatent.report.plots import INK, new_figure, plain_frame, save_chart
from graphlatent.theory.bounds import BOUNDS, Form
from graphlatent.theory.runs import BoundRun

_NAMES = {"theorem1": "Theorem 1", "corollary1": "Corollary 1", "corollary2": "Corollary 2"}
# Values beyond which the scale is logarithmic.
_FAR = 300
_STYLES: dict[Form, str] = {"printed": "--", "corrected": "-"}


def plot_bounds(
    runs: Sequence[BoundRun], path: Path | str, *, bounds: Sequence[str] = BOUNDS
) -> Path:
    """Draw both sides of the bounds over the epochs, and the gaps; return the path of the chart.

    Lines are means over the trainings, bands reach from the smallest to the largest.

    Args:
        runs: with the same logged epochs.
        path: of the file; its suffix is the format.
        bounds: which of `BOUNDS`.

    Raises:
        InputError: where there are no runs, or their epochs differ.
        OutputError: where the file cannot be written.
    """
    epochs = {tuple(point.epoch for point in run.points) for run in runs}
    if len(epochs) != 1:
        raise InputError(
            f"plot_bounds needs runs with the same logged epochs. Got {len(runs)} runs and"
            f" {len(epochs)} lists of epochs."
        )
    (listed,) = epochs
    figure = new_figure(10.0, 4.2)
    sides, gaps = figure.add_subplot(1, 2, 1), figure.add_subplot(1, 2, 2)
    left = [[point.estimate.left.value for point in run.points] for run in runs]
    _band(sides, listed, left, color=PALETTE[6], label="left side", width=2.4)
    for i, bound in enumerate(bounds):
        for form, style in _STYLES.items():
            rights = [[p.estimate.right(bound, form=form).value for p in r.points] for r in runs]
            above = [[p.estimate.gap(bound, form=form).value for p in r.points] for r in runs]
            label = f"{_NAMES[bound]}, {form}"
            for axes, values in ((sides, rights), (gaps, above)):
                _band(axes, listed, values, color=PALETTE[i], label=label, style=style)
    gaps.axhline(0, color=PALETTE[6], linewidth=1)
    sides.set_title("Both sides, per node", fontsize=11, color=INK, loc="left")
    gaps.set_title("Right side less left side", fontsize=11, color=INK, loc="left")
    gaps.text(0.98, 0.02, "below 0: no bound", transform=gaps.transAxes, ha="right", fontsize=9)
    for axes in (sides, gaps):
        _scale(axes)
        axes.set_xlabel("epoch", fontsize=10, color=INK)
        axes.margins(x=0.03)
        plain_frame(axes)
    handles, labels = sides.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right upper", fontsize=9, frameon=False)
    return save_chart(figure, Path(path))


def _band(
    axes: Any,
    epochs: Sequence[int],
    values: Sequence[Sequence[float]],
    *,
    color: str,
    label: str,
    style: str = "-",
    width: float = 1.8,
) -> None:
    """A line of means over the runs, and the band from the smallest to the largest value."""
    table = np.asarray(values, dtype=float)
    marker = "o" if len(epochs) <= 25 else None
    mean = table.mean(0)
    axes.plot(
        epochs, mean, style, color=color, label=label, linewidth=width, marker=marker, markersize=3
    )
    axes.fill_between(epochs, table.min(0), table.max(0), color=color, alpha=0.15, linewidth=0)


def _scale(axes: Any) -> None:
    """A logarithmic scale where values differ by much, symmetric about 0 where some are below."""
    lines = np.concatenate([np.asarray(line.get_ydata(), dtype=float) for line in axes.lines])
    low, high = lines.min(), lines.max()
    if max(abs(low), abs(high)) <= _FAR:
        return
    if low > 0:
        axes.set_yscale("log")
    else:
        axes.set_yscale("symlog", linthresh=10)
        axes.set_ylim(bottom=min(2 * low, -5))
