"""Charts as PNG, PDF or SVG files: what they share, and that of the training history.

Figures are made without pyplot, so that no window opens and no global state changes.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from graphlatent.errors import InputError
from graphlatent.io.atomic import write_atomically
from graphlatent.io.history import GRADIENT_NORM, History
from graphlatent.report.colours import PALETTE

INK, _GRID = "#333333", "#DDDDDD"
_DPI = 150
# Columns of a history that are no part of the loss.
_NOT_DRAWN = ("epoch", "lr")
_PANELS_PER_ROW = 4


def plot_history(history: History | Mapping[str, Sequence[float]], path: Path | str) -> Path:
    """Draw the loss, its terms and the diagnostics over the epochs; returns the chart's path.

    Args:
        history: of a fitted estimator, or columns by name: "loss" and any terms. "epoch" is
            counted from 1 where it is missing; "lr" is not drawn. Diagnostics begin at epoch 0,
            the untrained encoder; a dotted line is at the epoch whose weights were kept, where it
            is not the last one.
        path: of the file; its suffix is the format.

    Raises:
        InputError: where there is nothing to draw, or the columns differ in length or are empty.
        OutputError: where the file cannot be written.
    """
    measured = history.diagnostics if isinstance(history, History) else {}
    selected = history.selected_epoch if isinstance(history, History) else None
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
    panels = [_Panel(_panel_title(name), epochs, values) for name, values in columns.items()]
    panels += [
        _Panel(_words(name), np.asarray(measured["epoch"]), np.asarray(values))
        for name, values in measured.items()
        if name != "epoch"
    ]
    per_row = min(len(panels), _PANELS_PER_ROW)
    num_rows = -(-len(panels) // per_row)
    figure = new_figure(3.6 * per_row, 2.9 * num_rows)
    for i, panel in enumerate(panels):
        axes = figure.add_subplot(num_rows, per_row, i + 1)
        _draw(axes, panel, color=PALETTE[i % len(PALETTE)])
        if selected is not None and selected < length:
            axes.axvline(selected, color="#888888", linewidth=1.0, linestyle=":")
    return save_chart(figure, Path(path))


@dataclass(frozen=True, eq=False)
class _Panel:
    """One curve with its title."""

    title: str
    epochs: Any
    values: Any


def _draw(axes: Any, panel: _Panel, *, color: str) -> None:
    """Draw a curve, on a logarithmic scale where it spans more than two decades."""
    values = panel.values
    # A line through one point is invisible.
    marker = "o" if len(values) <= 25 else None
    axes.plot(panel.epochs, values, color=color, linewidth=1.8, marker=marker, markersize=3.5)
    axes.set_title(panel.title, fontsize=11, color=INK, loc="left")
    axes.set_xlabel("epoch", fontsize=10, color=INK)
    axes.grid(axis="y", color=_GRID, linewidth=0.8)
    axes.locator_params(axis="x", integer=True, nbins=6)
    if values.min() > 0 and values.max() > 100 * values.min():
        axes.set_yscale("log")
    else:
        axes.locator_params(axis="y", nbins=6)
    axes.margins(x=0.03, y=0.08)
    plain_frame(axes)


def _panel_title(name: str) -> str:
    return _words(name) if name in ("loss", GRADIENT_NORM) else f"{_words(name)} term"


def _words(name: str) -> str:
    return name.replace("_", " ").capitalize()


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
