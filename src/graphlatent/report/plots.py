"""Two charts as PNG, PDF or SVG files: the training history, and the embedding in the plane.

Figures are made without pyplot, so that no window opens and no global state changes. The colours
are Okabe and Ito's palette, which colour-blind readers can distinguish; from the ninth class on,
markers differ too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from sklearn.manifold import TSNE
from torch import Tensor

from graphlatent.errors import InputError, bad_argument
from graphlatent.io.atomic import write_atomically
from graphlatent.io.history import History

Array: TypeAlias = np.ndarray[Any, Any]
MapMethod: TypeAlias = Literal["pca", "tsne"]

PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000", "#F0E442")
MARKERS = ("o", "^", "s")
_INK, _GRID, _OTHER = "#333333", "#DDDDDD", "#BBBBBB"
_DPI = 150
_MAX_TSNE_POINTS = 3000
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
    figure = _figure(3.6 * per_row, 2.9 * num_rows)
    for i, (name, column) in enumerate(columns.items()):
        axes = figure.add_subplot(num_rows, per_row, i + 1)
        # A line through one point is invisible.
        marker, color = "o" if length <= 25 else None, PALETTE[i % len(PALETTE)]
        axes.plot(epochs, column, color=color, linewidth=1.8, marker=marker, markersize=3.5)
        axes.set_title(_panel_title(name), fontsize=11, color=_INK, loc="left")
        axes.set_xlabel("epoch", fontsize=10, color=_INK)
        axes.grid(axis="y", color=_GRID, linewidth=0.8)
        axes.locator_params(axis="x", integer=True, nbins=6)
        if column.min() > 0 and column.max() > 100 * column.min():
            axes.set_yscale("log")
        else:
            axes.locator_params(axis="y", nbins=6)
        axes.margins(x=0.03, y=0.08)
        _plain_frame(axes)
    return _save(figure, Path(path))


def plot_map(
    embedding: Array | Tensor,
    path: Path | str,
    *,
    labels: Array | Tensor | Sequence[Any] | None = None,
    title: str = "Embedding",
    method: MapMethod = "pca",
    seed: int = 0,
) -> Path:
    """Draw the embedding in the plane, one point per row, and return the path of the chart.

    Args:
        embedding: one row per node or graph [M, D].
        path: of the file; its suffix is the format.
        labels: class of each row [M], which gives its colour; None for one colour.
        title: above the chart.
        method: "pca" for the first two principal components, "tsne" for t-SNE (of at most 3,000
            rows, sampled at random).
        seed: of the sample and of t-SNE.

    Raises:
        ConfigError: where `method` is neither.
        InputError: where the embedding is not a finite 2-D array, or the labels are not one per
            row.
        OutputError: where the file cannot be written.
    """
    if method not in ("pca", "tsne"):
        raise bad_argument("method", owner="plot_map", allowed="'pca' or 'tsne'", got=method)
    rows = _checked_rows(embedding)
    classes = None if labels is None else _checked_labels(labels, num_rows=len(rows))
    shown = np.arange(len(rows))
    if method == "tsne" and len(rows) > _MAX_TSNE_POINTS:
        order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed))
        shown = np.sort(order[:_MAX_TSNE_POINTS].numpy())
    points, names = (
        _pca(rows) if method == "pca" else _tsne(rows[torch.from_numpy(shown)], seed=seed)
    )
    figure = _figure(6.4, 5.0)
    axes = figure.add_subplot()
    _scatter(axes, points, None if classes is None else classes[shown])
    axes.set_title(title, fontsize=13, color=_INK, loc="left", pad=12)
    axes.set_xlabel(names[0], fontsize=10, color=_INK)
    axes.set_ylabel(names[1], fontsize=10, color=_INK)
    axes.set_xticks([])
    axes.set_yticks([])
    _plain_frame(axes)
    if len(shown) < len(rows):
        note = f"{len(shown):,} of {len(rows):,} rows"
        axes.text(1, 1.01, note, transform=axes.transAxes, ha="right", fontsize=9, color=_INK)
    return _save(figure, Path(path))


def _panel_title(name: str) -> str:
    words = name.replace("_", " ").capitalize()
    return words if name == "loss" else f"{words} term"


def _pca(rows: Tensor) -> tuple[Array, tuple[str, str]]:
    """Scores of the first two principal components [M, 2], and titles of the axes.

    By hand, because scikit-learn's `PCA` divides by 0 for a single row.
    """
    centred = rows - rows.mean(0)
    _, spread, axes = torch.linalg.svd(centred, full_matrices=False)
    # The sign of a component is arbitrary: largest entry positive.
    sign = torch.sign(axes.gather(1, axes.abs().argmax(1, keepdim=True)))
    points = centred.new_zeros(len(rows), 2)
    coordinates = centred @ (axes * sign)[:2].T
    points[:, : coordinates.shape[1]] = coordinates
    total = float((spread**2).sum())
    share = [float(s**2) / total if total > 0 else 0.0 for s in spread[:2]] + [0.0, 0.0]
    return points.numpy(), (
        f"first component ({share[0]:.0%} of variance)",
        f"second component ({share[1]:.0%})",
    )


def _tsne(rows: Tensor, *, seed: int) -> tuple[Array, tuple[str, str]]:
    """t-SNE coordinates [M, 2], and titles of the axes."""
    if len(rows) < 4:
        raise InputError(f"t-SNE needs at least 4 rows. Got {len(rows)}. Use method='pca'.")
    perplexity = min(30.0, (len(rows) - 1) / 3)
    init = "pca" if min(rows.shape) >= 2 else "random"
    points: Array = TSNE(
        perplexity=perplexity, init=init, learning_rate="auto", random_state=seed
    ).fit_transform(rows.numpy())
    return points, ("t-SNE 1", "t-SNE 2")


def _scatter(axes: Any, points: Array, classes: Array | None) -> None:
    """Draw the points by class, in random order so that no class covers another."""
    area = float(np.clip(20_000 / len(points), 6, 40))
    style = {"s": area, "alpha": 0.85, "linewidths": 0.3, "edgecolors": "white"}
    if classes is None:
        axes.scatter(*points.T, color=PALETTE[0], **style)
        return
    names, looks = _looks(classes)
    of_point = np.searchsorted(names, classes)
    mixed = torch.randperm(len(points), generator=torch.Generator().manual_seed(0)).numpy()
    for marker in MARKERS:
        drawn = mixed[[looks[i][1] == marker for i in of_point[mixed]]]
        if len(drawn):
            axes.scatter(
                *points[drawn].T, c=[looks[i][0] for i in of_point[drawn]], marker=marker, **style
            )
    _legend(axes, names, looks)


def _looks(classes: Array) -> tuple[Array, list[tuple[str, str]]]:
    """The classes in order, and the colour and marker of each.

    Where there are more classes than pairs of them, the smallest classes share one grey.
    """
    names, sizes = np.unique(classes, return_counts=True)
    own_look = np.sort(np.argsort(-sizes, kind="stable")[: len(PALETTE) * len(MARKERS)])
    looks = [(_OTHER, MARKERS[0])] * len(names)
    for place, i in enumerate(own_look):
        looks[i] = (PALETTE[place % len(PALETTE)], MARKERS[place // len(PALETTE)])
    return names, looks


def _legend(axes: Any, names: Array, looks: Sequence[tuple[str, str]]) -> None:
    own = [(str(name), look) for name, look in zip(names, looks, strict=True) if look[0] != _OTHER]
    num_others = len(names) - len(own)
    entries = (
        [*own, (f"{num_others} other{'s' if num_others > 1 else ''}", (_OTHER, MARKERS[0]))]
        if num_others
        else own
    )
    handles = [
        Line2D([], [], linestyle="", color=color, marker=marker, markersize=6, label=text)
        for text, (color, marker) in entries
    ]
    columns = 1 if len(entries) <= 16 else 2
    where = {"loc": "upper left", "bbox_to_anchor": (1.01, 1), "borderaxespad": 0.0}
    legend = axes.legend(
        handles=handles,
        title="class",
        ncols=columns,
        frameon=False,
        fontsize=9,
        handletextpad=0.3,
        **where,
    )
    legend.set_alignment("left")


def _figure(width: float, height: float) -> Any:
    figure = Figure(figsize=(width, height), dpi=_DPI, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _plain_frame(axes: Any) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#888888")
    axes.tick_params(labelsize=9, colors=_INK, length=3)
    axes.set_axisbelow(True)


def _save(figure: Any, path: Path) -> Path:
    kind = path.suffix.lstrip(".").lower()
    if kind not in ("png", "pdf", "svg"):
        raise InputError(
            f"A chart must be written to a file that ends in .png, .pdf or .svg. Got '{path.name}'."
        )
    write_atomically(
        path, lambda temporary: figure.savefig(temporary, format=kind, dpi=_DPI, facecolor="white")
    )
    return path


def _checked_rows(embedding: Array | Tensor) -> Tensor:
    rows = (
        embedding.detach().cpu()
        if isinstance(embedding, Tensor)
        else torch.from_numpy(np.array(embedding))
    )
    if rows.ndim != 2 or 0 in rows.shape:
        raise InputError(
            "The embedding must be a 2-D array, one row per node or graph. Got shape"
            f" {tuple(rows.shape)}."
        )
    rows = rows.to(torch.float64)
    if not bool(torch.isfinite(rows).all()):
        raise InputError("The embedding holds NaN or infinite values and cannot be drawn.")
    return rows


def _checked_labels(labels: Array | Tensor | Sequence[Any], *, num_rows: int) -> Array:
    classes = labels.detach().cpu().numpy() if isinstance(labels, Tensor) else np.asarray(labels)
    if classes.shape != (num_rows,):
        raise InputError(
            f"Labels must be one class per row of the embedding, shape ({num_rows},). Got shape"
            f" {classes.shape}."
        )
    return classes
