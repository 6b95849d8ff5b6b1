"""Charts as PNG, PDF or SVG files: what they share, and that of the training history.

Figures are made without pyplot, so that no window opens and no global state changes.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from graphlatent.errors import InputError
from graphlatent.io.atomic import write_atomically
from graphlatent.io.history import History
from graphlatent.report.colours import PALETTE

INK, _GRID = "#333333", "#DDDDDD"
_DPI = 150
# Columns of a history that are no part of the loss.
_NOT_DRAWN = ("epoch", "lr")
_PANELS_PER_ROW = 4


def plot_history(history: History | Mapping[str, Sequence[float]], path: Path | str) -> Path:
    """Draw the loss and each of its terms over the epochs, and return the path of the chart.

    Args:
        history: of a fitted estimator, or columns by name: "loss" and any terms. "epoch" is
            counted from 1 where it is missing; "lr" is not drawn.
        path: of the file; its suffix is the format.

    Raises:
        InputError: where there is nothing to draw, or the columns differ in length or are empty.
        OutputError: where the file cannot be written.
    """
    history = history.columns() if isinstance(history, History) else history
    columns = {
        name: np.asarray(values, dtype=float)
        for name, values in history.items()
        if name not in _NOT_DRAWN
    }
    if not columns:
        raise InputError(
            "plot_history needs at least one column besides 'epoch' and 'lr', such as 'loss'. Got"
            f" {tuple(history)}."
        )
    length = len(next(iter(columns.values())))
    epochs = np.asarray(
        history["epoch"] if "epoch" in history else np.arange(1, length + 1), dtype=float
    )
    lengths = {name: len(column) for name, column in {"epoch": epochs, **columns}.items()}
    if length == 0 or len(set(lengths.values())) > 1:
        raise InputError(
            f"plot_history needs columns of one length, at least one epoch. Got {lengths}."
        )
    per_row = min(len(columns), _PANELS_PER_ROW)
    num_rows = -(-len(columns) // per_row)
    figure = new_figure(3.6 * per_row, 2.9 * num_rows)
    for i, (name, column) in enumerate(columns.items()):
        axes = figure.add_subplot(num_rows, per_row, i + 1)
        # A line through one point is invisible.
        marker, color = "o" if length <= 25 else None, PALETTE[i % len(PALETTE)]
        axes.plot(epochs, column, color=color, linewidth=1.8, marker=marker, markersize=3.5)
        axes.set_title(_panel_title(name), fontsize=11, color=INK, loc="left")
        axes.set_xlabel("epoch", fontsize=10, color=INK)
        axes.grid(axis="y", color=_GRID, linewidth=0.8)
        axes.locator_params(axis="x", integer=True, nbins=6)
        if column.min() > 0 and column.max() > 100 * column.min():
            axes.set_yscale("log")
        else:
            axes.locator_params(axis="y", nbins=6)
        axes.margins(x=0.03, y=0.08)
        plain_frame(axes)
    return save_chart(figure, Path(path))


def _panel_title(name: str) -> str:
    words = name.replace("_", " ").capitalize()
    return words if name == "loss" else f"{words} term"


def new_figure(width: float, height: float) -> Any:
    """An empty figure of a size in inches, without pyplot."""
    figure = Figure(figsize=(width, height), dpi=_DPI, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def plain_frame(axes: Any) -> None:
    """Leave only the left and the lower line of a frame."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#888888")
    axes.tick_params(labelsize=9, colors=INK, length=3)
    axes.set_axisbelow(True)


def save_chart(figure: Any, path: Path) -> Path:
    """Write a figure in the format of the path's suffix, atomically."""
    kind = chart_suffix(path)
    with warnings.catch_warnings():
        # The font lacks letters of some languages, which are drawn as boxes.
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
        write_atomically(
            path,
            lambda temporary: figure.savefig(temporary, format=kind, dpi=_DPI, facecolor="white"),
        )
    return path


def chart_suffix(path: Path, *, also: str = "") -> str:
    """The format of a chart by its path's suffix, of which `also` is another that is allowed."""
    kind = path.suffix.lstrip(".").lower()
    if kind not in ("png", "pdf", "svg"):
        endings = ".png, .pdf or .svg" if not also else f".png, .pdf, .svg or {also}"
        raise InputError(
            f"A chart must be written to a file that ends in {endings}. Got '{path.name}'."
        )
    return kind
