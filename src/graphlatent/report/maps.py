"""Maps: embeddings in the plane, one point per row, as a picture or as an interactive page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from matplotlib.lines import Line2D
from torch import Tensor

from graphlatent.embedding import Embeddings
from graphlatent.errors import InputError
from graphlatent.explore.layouts import KeptLayouts
from graphlatent.explore.projection import TITLES, MapMethod, Projection, default_method, project
from graphlatent.io.runfolder import RunFolder
from graphlatent.report.colours import (
    MARKERS,
    OTHER,
    PALETTE,
    Colouring,
    Group,
    colouring,
    date_ticks,
)
from graphlatent.report.plots import INK, chart_suffix, new_figure, plain_frame, save_chart

Array: TypeAlias = np.ndarray[Any, Any]

SUFFIXES = (".png", ".svg", ".pdf", ".html")
# Longest texts, in characters
_TITLE, _LABEL = 70, 40
# Points above which vector formats hold a picture of them
_MOST_VECTORS = 5_000


@dataclass(frozen=True, eq=False)
class Map:
    """Points in the plane with what is written at them.

    Args:
        projection: the points.
        colours: None for one colour.
        ids: of each point as text, for hovering; None for row numbers.
        title: above the map.
    """

    projection: Projection
    colours: Colouring | None
    ids: Sequence[str] | None
    title: str

    @property
    def note(self) -> str:
        """How the points were laid out, in words."""
        total, method = len(self.projection.points), TITLES[self.projection.method]
        placed = self.projection.num_placed
        if not placed:
            return f"{total:,} points by {method}"
        return (
            f"{total:,} points: {total - placed:,} by {method}, the others at the median of their"
            " 5 nearest among these"
        )


def plot_map(
    embedding: Array | Tensor,
    path: Path | str,
    *,
    labels: Array | Tensor | Sequence[Any] | None = None,
    label_name: str = "class",
    ids: Sequence[Any] | None = None,
    title: str = "Embedding",
    method: MapMethod | None = None,
    seed: int = 0,
) -> Path:
    """Draw the embedding in the plane, one point per row, and return the path of the map.

    Args:
        embedding: one row per node or graph [M, D].
        path: of the file: .png, .svg, .pdf, or .html for an interactive page.
        labels: class or number of each row [M], which gives its colour; None for one colour. Text
            and up to 24 different whole numbers are classes.
        label_name: above the legend.
        ids: of each row [M], shown by an interactive page where the pointer is.
        title: above the map.
        method: "pca" for the first two principal components, "tsne" or "umap"; by default
            t-SNE, and UMAP of more than 5,000 rows where umap-learn is installed.
        seed: of the layout.

    Raises:
        ConfigError: where `method` is none of these.
        InputError: where the embedding is not a finite 2-D array, or the labels are not one per
            row.
        MissingDependencyError: where UMAP or an interactive page needs a package.
        OutputError: where the file cannot be written.
    """
    made = make_map(
        embedding,
        labels=labels,
        label_name=label_name,
        ids=ids,
        title=title,
        method=method,
        seed=seed,
    )
    return write_map(made, Path(path))


def make_map(
    embedding: Array | Tensor,
    *,
    labels: Array | Tensor | Sequence[Any] | None = None,
    label_name: str = "class",
    ids: Sequence[Any] | None = None,
    title: str = "Embedding",
    method: MapMethod | None = None,
    seed: int = 0,
    sample: int | None = None,
    layouts: KeptLayouts | None = None,
) -> Map:
    """The points of a map with their colours; see `plot_map`.

    `sample` is the number of rows that t-SNE or UMAP lays out at most. A layout among `layouts` is
    used again, and a new one is kept there.
    """
    rows = _checked_rows(embedding)
    colours = None
    if labels is not None:
        colours = colouring(_checked_labels(labels, num_rows=len(rows)), title=label_name)
    lay_out = project if layouts is None else layouts.project
    found = lay_out(rows, method=method or default_method(len(rows)), seed=seed, sample=sample)
    names = None if ids is None else [str(each) for each in ids]
    return Map(found, colours, names, title)


def write_map(made: Map, path: Path) -> Path:
    """Write a map as .png, .svg, .pdf or .html, and return the path."""
    if path.suffix.lower() == ".html":
        from graphlatent.report.interactive import write_page

        return write_page(made, path)
    chart_suffix(path, also=".html")
    figure = new_figure(5.4 + _legend_width(made.colours), 5.0)
    axes = figure.add_subplot()
    _scatter(figure, axes, made)
    axes.set_title(_written(made.title, width=_TITLE), fontsize=13, color=INK, loc="left", pad=12)
    axes.set_xlabel(made.projection.axes[0], fontsize=10, color=INK)
    axes.set_ylabel(made.projection.axes[1], fontsize=10, color=INK)
    axes.set_xticks([])
    axes.set_yticks([])
    plain_frame(axes)
    if made.projection.num_placed:
        figure.supxlabel(made.note, fontsize=8, color=INK, x=0.02, ha="left")
    return save_chart(figure, path)


def map_of_run(embeddings: Embeddings, labels: Any, *, label_name: str, run: RunFolder) -> Map:
    """A map that takes seconds: t-SNE of at most 1,500 rows, the others beside these.

    Args:
        embeddings: of the run.
        labels: that came with its input, or None; used for the colours where there is one per row.
        label_name: what they are called.
        run: where the layout is kept if all rows were laid out.
    """
    num_rows = len(embeddings.values)
    values = None if labels is None else np.asarray(labels)
    if values is not None and values.shape != (num_rows,):
        values = None
    what = "nodes" if embeddings.id_name == "id" else "graphs"
    return make_map(
        embeddings.values,
        labels=values,
        label_name=label_name,
        title=f"{num_rows:,} {what}",
        method="tsne" if default_method(num_rows) != "pca" else "pca",
        sample=1_500,
        layouts=KeptLayouts(run.path, run),
    )


def _legend_width(colours: Colouring | None) -> float:
    """The width beside the points that a legend or a scale needs, in inches."""
    if colours is None:
        return 0.0
    if colours.numbers is not None:
        return 1.0
    longest = max(len(group.name) for group in colours.groups)
    return (0.5 + 0.085 * longest) * _num_columns(colours.groups)


def _num_columns(groups: Sequence[Group]) -> int:
    return 1 if len(groups) <= 16 else 2


def _scatter(figure: Any, axes: Any, made: Map) -> None:
    """Draw the points by class, in random order so that no class covers another."""
    points, colours = made.projection.points, made.colours
    many = len(points) > _MOST_VECTORS
    style = {
        "s": float(np.clip(20_000 / len(points), 1.5, 40)),
        "alpha": 0.6 if many else 0.85,
        "linewidths": 0.0 if many else 0.3,
        "edgecolors": "none" if many else "white",
        "rasterized": many,
    }
    if colours is None:
        axes.scatter(*points.T, color=PALETTE[0], **style)
        return
    mixed = torch.randperm(len(points), generator=torch.Generator().manual_seed(0)).numpy()
    color = np.full(len(points), OTHER, dtype=object)
    marker = np.zeros(len(points), dtype=np.int64)
    for group in colours.groups:
        color[group.rows], marker[group.rows] = group.color, MARKERS.index(group.marker)
    numbers = colours.numbers
    for i, shape in enumerate(MARKERS):
        drawn = mixed[marker[mixed] == i]
        drawn = drawn if numbers is None else drawn[np.isnan(numbers[drawn])]
        if len(drawn):
            axes.scatter(*points[drawn].T, c=color[drawn].tolist(), marker=shape, **style)
    if numbers is not None:
        drawn = mixed[~np.isnan(numbers[mixed])]
        low, high, extend = _limits(numbers[drawn])
        dots = axes.scatter(
            *points[drawn].T, c=numbers[drawn], cmap="viridis", vmin=low, vmax=high, **style
        )
        bar = figure.colorbar(dots, ax=axes, extend=extend, shrink=0.8)
        bar.solids.set_alpha(1)
        if colours.are_dates:
            ticks, dates = date_ticks(low, high)
            bar.set_ticks(ticks, labels=dates)
        bar.set_label(_written(colours.title), color=INK)
    if colours.groups:
        _legend(axes, colours.groups, title="" if numbers is not None else colours.title)


def _limits(numbers: Array) -> tuple[float, float, str]:
    """The ends of the scale, and at which of them values lie beyond.

    A few extreme values would leave one colour to all others, so the scale ends at the first and
    the last percentile where they are far from the rest.
    """
    low, first, last, high = np.percentile(numbers, [0, 1, 99, 100])
    below, above = (first - low > last - first), (high - last > last - first)
    extend = "both" if below and above else "min" if below else "max" if above else "neither"
    return float(first if below else low), float(last if above else high), extend


def _legend(axes: Any, groups: Sequence[Group], *, title: str) -> None:
    handles = [
        Line2D(
            [],
            [],
            linestyle="",
            color=g.color,
            marker=g.marker,
            markersize=6,
            label=_written(g.name),
        )
        for g in groups
    ]
    beside = {"loc": "upper left", "bbox_to_anchor": (1.01, 1)}
    below = {"loc": "upper left", "bbox_to_anchor": (0, -0.08)}
    legend = axes.legend(
        handles=handles,
        title=_written(title) or None,
        ncols=_num_columns(groups),
        frameon=False,
        fontsize=9,
        handletextpad=0.3,
        borderaxespad=0.0,
        **(beside if title else below),
    )
    legend.set_alignment("left")


def _written(text: str, *, width: int = _LABEL) -> str:
    """A text as matplotlib writes it, without formulas between dollar signs, and not too long."""
    short = text if len(text) <= width else text[: width - 3] + "..."
    return short.replace("$", r"\$")


def _checked_rows(embedding: Array | Tensor) -> Array:
    rows = embedding.detach().cpu().numpy() if isinstance(embedding, Tensor) else embedding
    rows = np.asarray(rows)
    if rows.ndim != 2 or 0 in rows.shape:
        raise InputError(
            "The embedding must be a 2-D array, one row per node or graph. Got shape"
            f" {tuple(rows.shape)}."
        )
    if not np.isfinite(rows).all():
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
