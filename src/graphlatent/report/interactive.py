"""A map as one HTML file that needs no network: pointing at a point shows its id and value.

It holds plotly's own script, 4 to 5 MB.
"""

from __future__ import annotations

import html
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from graphlatent.errors import MissingDependencyError
from graphlatent.io.atomic import write_atomically
from graphlatent.report.colours import MARKERS, PALETTE, date_ticks

if TYPE_CHECKING:
    from graphlatent.report.maps import Map

_SYMBOLS = dict(zip(MARKERS, ("circle", "triangle-up", "square"), strict=True))


def write_page(made: Map, path: Path) -> Path:
    """Write a map as an interactive page.

    Raises:
        MissingDependencyError: where plotly is not installed.
        OutputError: where the file cannot be written.
    """
    figure = _figure(made)
    write_atomically(
        path, lambda to: to.write_text(figure.to_html(include_plotlyjs=True), encoding="utf-8")
    )
    return path


def _figure(made: Map) -> Any:
    try:
        import plotly.graph_objects as go
    except ImportError as error:
        raise MissingDependencyError(
            "An interactive map needs the package 'plotly'. Install it with: pip install"
            " 'graphlatent[interactive]', or write a .png."
        ) from error
    figure = go.Figure()
    for trace in _traces(made):
        figure.add_trace(go.Scattergl(mode="markers", hoverinfo="text", **trace))
    title = made.title if made.colours is None else f"{made.title}, by {made.colours.title}"
    figure.update_layout(
        title=html.escape(title),
        template="plotly_white",
        legend={"title": {"text": "" if made.colours is None else html.escape(made.colours.title)}},
        annotations=[
            {
                "text": html.escape(made.note),
                "showarrow": False,
                "xref": "paper",
                "yref": "paper",
                "x": 0,
                "y": -0.1,
            }
        ],
    )
    for axis, name in zip(("xaxis", "yaxis"), made.projection.axes, strict=True):
        figure.update_layout({axis: {"title": name, "showticklabels": False, "zeroline": False}})
    return figure


def _traces(made: Map) -> list[dict[str, Any]]:
    """One set of points for each entry of the legend, and one for those with a number."""
    points, colours = made.projection.points, made.colours
    size = float(np.clip(200 / np.sqrt(len(points)), 3, 9))
    if colours is None:
        every = np.arange(len(points))
        return [_trace(made, every, {"size": size, "color": PALETTE[0]}, name="")]
    traces = [
        _trace(
            made,
            group.rows,
            {"size": size, "color": group.color, "symbol": _SYMBOLS[group.marker]},
            name=group.name,
        )
        for group in colours.groups
    ]
    if colours.numbers is not None:
        rows = np.flatnonzero(~np.isnan(colours.numbers))
        numbers = colours.numbers[rows]
        bar: dict[str, Any] = {"title": html.escape(colours.title)}
        if colours.are_dates:
            bar["tickvals"], bar["ticktext"] = date_ticks(numbers.min(), numbers.max())
        marker = {
            "size": size,
            "color": numbers.tolist(),
            "colorscale": "Viridis",
            "colorbar": bar,
        }
        traces.append(_trace(made, rows, marker, name="") | {"showlegend": False})
    return traces


def _trace(made: Map, rows: Any, marker: dict[str, Any], *, name: str) -> dict[str, Any]:
    x, y = made.projection.points[rows].T.round(4).tolist()
    return {
        "x": x,
        "y": y,
        "name": html.escape(name),
        "marker": {"opacity": 0.8, **marker},
        "text": [_hover(made, row) for row in rows.tolist()],
    }


def _hover(made: Map, row: int) -> str:
    """What is shown at a point; plotly takes text for HTML."""
    name = f"row {row}" if made.ids is None else made.ids[row]
    value = "" if made.colours is None else f"{made.colours.title}: {made.colours.texts[row]}"
    return "<br>".join(html.escape(each) for each in (name, value) if each)
