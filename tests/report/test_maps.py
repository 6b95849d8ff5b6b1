"""Maps: what is drawn is what was given, in the colour of its class or of its number."""

from __future__ import annotations

import json
import re
import struct
import sys

import numpy as np
import pytest
from matplotlib.colors import to_hex

import graphlatent.report.maps as maps
from graphlatent.errors import InputError, MissingDependencyError, OutputError
from graphlatent.report.colours import MARKERS, OTHER, PALETTE, colouring, date_ticks
from graphlatent.report.maps import plot_map

ROWS = np.random.default_rng(0).normal(size=(30, 3))


@pytest.fixture
def figures(monkeypatch):
    """The figures that the test saves."""
    saved = []
    original = maps.save_chart
    monkeypatch.setattr(
        maps, "save_chart", lambda figure, path: saved.append(figure) or original(figure, path)
    )
    return saved


def page_data(path):
    """The traces of an interactive page."""
    found = re.search(r"Plotly\.newPlot\(\s*\"[^\"]+\",\s*(\[.*?\]),\s*\{", path.read_text(), re.S)
    return json.loads(found[1])


class TestColours:
    @pytest.mark.parametrize(
        ("values", "kind"),
        [
            (["b", "a", "c"], "classes"),
            ([True, False, True], "classes"),
            ([3, 1, 2], "classes"),
            ([3.0, 1.0, np.nan], "classes"),
            (list(range(24)), "classes"),
            (list(range(25)), "numbers"),
            ([0.5, 1.0, 2.0], "numbers"),
            ([0.5, None, 2.0], "numbers"),
            ([None, None, "a"], "classes"),
            (["1.5", "2.5"], "classes"),
        ],
    )
    def test_classes_or_numbers(self, values, kind):
        dtype = object if None in values else None
        found = colouring(np.array(values, dtype=dtype))
        assert ("classes" if found.numbers is None else "numbers") == kind

    def test_classes_are_in_order_and_those_without_a_class_are_named(self):
        found = colouring(np.array([10, None, 2, 10], dtype=object), title="size")
        assert [(g.name, g.rows.tolist()) for g in found.groups] == [
            ("2", [2]),
            ("10", [0, 3]),
            ("(no value)", [1]),
        ]
        assert found.texts.tolist() == ["10", "(no value)", "2", "10"]

    def test_more_classes_than_colours(self):
        capacity = len(PALETTE) * len(MARKERS)
        names = np.array([f"c{i:02d}" for i in range(capacity + 3)])
        # The first five are the smallest
        found = colouring(np.concatenate([names, names[5:]])).groups
        assert found[-1].name == "3 others" and found[-1].color == OTHER
        assert sorted(found[-1].rows.tolist()) == [2, 3, 4]
        assert len({group.color for group in found}) == capacity + 1
        assert len({group.marker for group in found}) == len(MARKERS)

    def test_values_of_mixed_types_and_long_names(self):
        found = colouring(np.array(["a" * 50, 3, "b"], dtype=object))
        assert sorted(g.name for g in found.groups) == ["3", "a" * 27 + "...", "b"]


def test_every_row_is_drawn_in_its_class_colour(tmp_path, figures):
    labels = np.array(["b", "a", "c"] * 10)
    path = plot_map(ROWS, tmp_path / "map.png", labels=labels, title="Thirty", method="pca")
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG") and struct.unpack(">II", content[16:24])[1] == 750
    (axes,) = figures[0].axes
    (drawn,) = axes.collections
    points = maps.make_map(ROWS, method="pca").projection.points
    colour_at = {
        tuple(p): to_hex(c).upper()
        for p, c in zip(np.asarray(drawn.get_offsets()), drawn.get_facecolors(), strict=True)
    }
    expected = dict(zip("abc", PALETTE, strict=False))
    assert colour_at == {tuple(p): expected[label] for p, label in zip(points, labels, strict=True)}
    assert axes.get_title(loc="left") == "Thirty"
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["a", "b", "c"]


def test_numbers_have_a_scale_that_extremes_do_not_stretch(tmp_path, figures):
    rows, values = np.random.default_rng(0).normal(size=(300, 3)), np.linspace(0, 1, 300)
    values[7], values[8] = 1e6, np.nan
    plot_map(rows, tmp_path / "map.png", labels=values, label_name="amount", method="pca")
    axes, bar = figures[0].axes
    without, dots = axes.collections
    assert len(without.get_offsets()) == 1 and len(dots.get_offsets()) == 299
    assert dots.get_clim()[1] < 2 and bar.get_ylabel() == "amount"
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["(no value)"]


@pytest.mark.parametrize("unit", ["D", "ns"])
def test_dates_have_a_scale(tmp_path, figures, unit):
    dates = np.array(["2020-01-01", "NaT", "2020-01-11", "2021-01-01", "2020-07-01"] * 6, "M8[D]")
    plot_map(ROWS, tmp_path / "map.png", labels=dates.astype(f"M8[{unit}]"), method="pca")
    axes, bar = figures[0].axes
    without, dots = axes.collections
    assert len(without.get_offsets()) == 6 and len(dots.get_offsets()) == 24
    assert sorted(set(dots.get_array())) == [18262, 18272, 18444, 18628]
    ticks = [text.get_text() for text in bar.get_yticklabels()]
    assert ticks == ["2020-01-01", "2020-04-02", "2020-07-02", "2020-10-01", "2021-01-01"]
    assert bar.get_yticks()[[0, -1]].tolist() == [18262, 18628]


def test_dates_as_text():
    times = np.array(["2020-01-01T06:30", "NaT"], "M8[s]")
    assert colouring(times).texts.tolist() == ["2020-01-01 06:30", "(no value)"]
    assert colouring(times.astype("M8[D]")).texts.tolist() == ["2020-01-01", "(no value)"]
    assert [group.name for group in colouring(times[1:]).groups] == ["(no value)"]
    assert date_ticks(0.0, 1.0)[1][1] == "1970-01-01 06:00"
    assert date_ticks(2932896.0, 2932896.0) == ([2932896.0], ["9999-12-31"])


@pytest.mark.parametrize("date", ["9999-12-31", "2020-01-01"])
def test_one_date_alone_can_be_drawn(tmp_path, figures, date):
    plot_map(ROWS, tmp_path / "map.png", labels=np.full(30, date, "M8[D]"), method="pca")
    assert [text.get_text() for text in figures[0].axes[1].get_yticklabels()] == [date]


def test_many_points_say_how_they_were_placed(tmp_path, figures, monkeypatch):
    monkeypatch.setitem(maps.project.__globals__["SAMPLE"], "tsne", 12)
    plot_map(ROWS, tmp_path / "map.svg", method="tsne")
    assert figures[0].get_supxlabel() == (
        "30 points: 12 by t-SNE, the others at the median of their 5 nearest among these"
    )


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_texts_that_matplotlib_would_read_otherwise(tmp_path, figures, suffix):
    labels = np.array(["$10 to $20", "$\\frac", "\u4e2d\u6587", "a_b^c", ""] * 6)
    path = plot_map(
        ROWS,
        tmp_path / f"map{suffix}",
        labels=labels,
        title="$" + "x" * 300,
        label_name="price in $",
        method="pca",
    )
    assert path.stat().st_size > 1000
    (axes,) = figures[0].axes
    assert axes.get_title(loc="left") == r"\$" + "x" * 66 + "..."
    shown = {text.get_text() for text in axes.get_legend().get_texts()}
    assert r"\$10 to \$20" in shown and "\u4e2d\u6587" in shown


def test_a_page_shows_ids_and_values(tmp_path):
    pytest.importorskip("plotly")
    labels, ids = np.array(["<b>x</b>", "y"] * 15), [f"node & {i}" for i in range(30)]
    path = plot_map(
        ROWS, tmp_path / "m.html", labels=labels, ids=ids, label_name="kind", method="pca"
    )
    first, second = page_data(path)
    assert first["name"] == "&lt;b&gt;x&lt;/b&gt;" and second["name"] == "y"
    assert second["text"][0] == "node &amp; 1<br>kind: y" and len(second["text"]) == 15
    points = maps.make_map(ROWS, method="pca").projection.points
    np.testing.assert_allclose(first["x"], points[::2, 0], atol=1e-4)
    assert "cdn.plot.ly" not in path.read_text().split("Plotly.newPlot")[-1]
    numbers = plot_map(ROWS, tmp_path / "n.html", labels=np.linspace(0, 1, 30), method="pca")
    (trace,) = page_data(numbers)
    assert trace["marker"]["colorscale"] and trace["text"][0] == "row 0<br>class: 0"


def test_pages_need_plotly(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "plotly", None)
    monkeypatch.setitem(sys.modules, "plotly.graph_objects", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'graphlatent\[interactive\]'"):
        plot_map(ROWS, tmp_path / "map.html", method="pca")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("rows", "more", "message"),
    [
        (ROWS, {"labels": [1]}, "Labels must be one class per row of the embedding, shape (30,)."),
        (np.full((3, 2), np.inf), {}, "The embedding holds NaN or infinite values and cannot be"),
        (np.zeros(3), {}, "The embedding must be a 2-D array, one row per node or graph. Got"),
        (np.eye(3), {"method": "tsne"}, "t-SNE needs at least 4 rows. Got 3. Use method='pca'."),
    ],
)
def test_bad_input(tmp_path, rows, more, message):
    with pytest.raises(InputError) as caught:
        plot_map(rows, tmp_path / "a.png", **more)
    assert str(caught.value).startswith(message)
    assert not list(tmp_path.iterdir())


def test_formats_and_paths(tmp_path):
    with pytest.raises(InputError, match=r"ends in \.png, \.pdf, \.svg or \.html\. Got 'a\.gif'"):
        plot_map(ROWS, tmp_path / "a.gif", method="pca")
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="Cannot write"):
        plot_map(ROWS, tmp_path / "file" / "map.png", method="pca")
