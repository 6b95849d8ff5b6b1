"""Two charts as PNG (or PDF, SVG) files: how training went, and what the embedding looks like in
the plane.

Figures are made without pyplot, so that no window opens and no global state changes. Colours are
those of Okabe and Ito, told apart by colour-blind readers too; from the ninth class on, shapes
help.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from graphlatent.errors import InputError, bad_argument, missing_package
from graphlatent.io.atomic import write_atomically

Array: TypeAlias = np.ndarray[Any, Any]
MapMethod: TypeAlias = Literal["pca", "tsne"]

PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000", "#F0E442")
MARKERS = ("o", "^", "s")
_INK, _GRID, _OTHER = "#333333", "#DDDDDD", "#BBBBBB"
_DPI = 150
_MAX_TSNE_POINTS = 3000
_PANELS = {"loss": "Loss", "reconstruction": "Reconstruction term", "invariance": "Invariance term"}


def plot_history(history: Mapping[str, Sequence[float]], path: Path | str) -> Path:
    """The path of a chart of the loss and its two terms over the epochs.

    Args:
        history: columns "epoch" (counted from 1 where it is missing), "loss", "reconstruction",
            "invariance"; others are ignored.
        path: where to write; the ending says the format.

    Raises:
        InputError: where none of the columns is there, or the columns differ in length or are
            empty.
        OutputError: where the file cannot be written.
    """
    columns = {name: np.asarray(history[name], dtype=float) for name in _PANELS if name in history}
    if not columns:
        raise InputError(
            f"plot_history needs at least one of the columns {tuple(_PANELS)}. Got"
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
    figure = _figure(3.6 * len(columns), 2.9)
    for i, (name, column) in enumerate(columns.items()):
        axes = figure.add_subplot(1, len(columns), i + 1)
        marker = "o" if length <= 25 else None  # a line through one point is invisible
        axes.plot(epochs, column, color=PALETTE[i], linewidth=1.8, marker=marker, markersize=3.5)
        axes.set_title(_PANELS[name], fontsize=11, color=_INK, loc="left")
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
    """The path of a map of the embedding: one point per row, coloured by class.

    Args:
        embedding: one row per node or graph [M, D].
        path: where to write; the ending says the format.
        labels: class of each row [M], or None for one colour.
        title: above the map.
        method: "pca" for the two directions of largest variance, "tsne" for neighbourhoods (at most
            3,000 rows, drawn at random).
        seed: of that draw and of t-SNE.

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


def _pca(rows: Tensor) -> tuple[Array, tuple[str, str]]:
    """Coordinates along the two first principal axes [M, 2], and what the axes are called."""
    centred = rows - rows.mean(0)
    _, spread, axes = torch.linalg.svd(centred, full_matrices=False)
    # The sign of an axis is free: largest entry positive
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
    """t-SNE coordinates [M, 2], and what the axes are called."""
    try:
        from sklearn.manifold import TSNE
    except ImportError as error:
        raise missing_package("scikit-learn", needed_for="plot_map with method='tsne'") from error
    if len(rows) < 4:
        raise InputError(f"t-SNE needs at least 4 rows. Got {len(rows)}. Use method='pca'.")
    perplexity = min(30.0, (len(rows) - 1) / 3)
    init = "pca" if min(rows.shape) >= 2 else "random"
    points: Array = TSNE(
        perplexity=perplexity, init=init, learning_rate="auto", random_state=seed
    ).fit_transform(rows.numpy())
    return points, ("t-SNE 1", "t-SNE 2")


def _scatter(axes: Any, points: Array, classes: Array | None) -> None:
    """The points, each class in its colour and shape, in a mixed order so that no class lies on top
    of another.
    """
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
    """The classes in order, and the colour and marker of each; beyond the palette, the smallest
    ones share one grey.
    """
    names, sizes = np.unique(classes, return_counts=True)
    own_look = np.sort(np.argsort(-sizes, kind="stable")[: len(PALETTE) * len(MARKERS)])
    looks = [(_OTHER, MARKERS[0])] * len(names)
    for place, i in enumerate(own_look):
        looks[i] = (PALETTE[place % len(PALETTE)], MARKERS[place // len(PALETTE)])
    return names, looks


def _legend(axes: Any, names: Array, looks: Sequence[tuple[str, str]]) -> None:
    from matplotlib.lines import Line2D

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
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise missing_package("matplotlib", needed_for="Drawing charts") from error
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
