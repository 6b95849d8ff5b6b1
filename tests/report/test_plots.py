"""Charts: what is drawn is what was given, and nothing global is touched."""

from __future__ import annotations

import struct
import sys

import numpy as np
import pytest

import graphlatent.report.plots as plots
from graphlatent.errors import InputError, OutputError
from graphlatent.io.history import History
from graphlatent.report.maps import plot_map
from graphlatent.report.plots import plot_history

HISTORY = {
    "epoch": [1, 2, 3],
    "loss": [3.0, 2.0, 1.5],
    "reconstruction": [2.0, 1.5, 1.2],
    "invariance": [0.5, 0.25, 0.15],
    "lr": [0.1] * 3,
}


@pytest.fixture
def figures(monkeypatch):
    """The figures that the test saves."""
    saved = []
    original = plots.save_chart
    monkeypatch.setattr(
        plots, "save_chart", lambda figure, path: saved.append(figure) or original(figure, path)
    )
    return saved


def png_size(path):
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG")
    return struct.unpack(">II", content[16:24])


def test_history_draws_the_columns(tmp_path, figures):
    path = plot_history(HISTORY, tmp_path / "new" / "history.png")
    width, height = png_size(path)
    assert (width, height) == (round(3 * 3.6 * 150), round(2.9 * 150))
    panels = figures[0].axes
    assert [panel.get_title(loc="left") for panel in panels] == [
        "Loss",
        "Reconstruction term",
        "Invariance term",
    ]
    for panel, name in zip(panels, ("loss", "reconstruction", "invariance"), strict=True):
        np.testing.assert_array_equal(
            panel.lines[0].get_xydata(), np.column_stack([HISTORY["epoch"], HISTORY[name]])
        )
        assert panel.get_yscale() == "linear"


def test_history_without_epochs_and_over_many_magnitudes(tmp_path, figures):
    plot_history({"loss": [1e4, 1e2, 1.0]}, tmp_path / "history.svg")
    (panel,) = figures[0].axes
    np.testing.assert_array_equal(panel.lines[0].get_xdata(), [1, 2, 3])
    assert panel.get_yscale() == "log"


def test_diagnostics_have_panels_of_their_own_from_epoch_0(tmp_path, figures):
    history = History.of(["a"], gradient_norm=True)
    history.append_diagnostics(0, {"effective_rank": 9.0, "dead_units": 0.0})
    for loss in (3.0, 2.0, 1.0):
        history.append(loss, {"a": loss}, 0.1, gradient_norm=2 * loss)
    history.append_diagnostics(3, {"effective_rank": 5.0, "dead_units": 0.25})
    history.selected_epoch = 1
    plot_history(history, tmp_path / "history.png")
    panels = {panel.get_title(loc="left"): panel for panel in figures[0].axes}
    assert list(panels) == ["Loss", "A term", "Gradient norm", "Effective rank", "Dead units"]
    rank = panels["Effective rank"].lines
    np.testing.assert_array_equal(rank[0].get_xydata(), [[0, 9], [3, 5]])
    # A line at the epoch whose weights were kept, which is not the last one.
    np.testing.assert_array_equal(rank[1].get_xdata(), [1, 1])
    np.testing.assert_array_equal(panels["Gradient norm"].lines[0].get_ydata(), [6, 4, 2])
    history.selected_epoch = 3
    plot_history(history, tmp_path / "history.png")
    assert all(len(panel.lines) == 1 for panel in figures[1].axes)


def test_any_named_terms_are_drawn(tmp_path, figures):
    history = History.of(["same_view", "b", "c", "d"])
    history.append(1.0, dict.fromkeys(history.terms, 0.5), lr=0.1)
    plot_history(history.columns(), tmp_path / "history.svg")
    # Five panels in two rows of four
    assert figures[0].get_size_inches().tolist() == pytest.approx([4 * 3.6, 2 * 2.9])
    titles = [panel.get_title(loc="left") for panel in figures[0].axes]
    assert titles[:3] == ["Loss", "Same view term", "B term"]
    assert len(titles) == 5


def test_pyplot_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)  # importing it would raise
    plot_history(HISTORY, tmp_path / "history.png")
    plot_map(np.eye(3), tmp_path / "map.png", labels=[0, 1, 2])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["history.png", "map.png"]


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (
            lambda path: plot_history({"epoch": [1]}, path / "a.png"),
            InputError,
            (
                "plot_history needs at least one column besides 'epoch' and 'lr', such as 'loss'."
                " Got ('epoch',)."
            ),
        ),
        (
            lambda path: plot_history({"epoch": [1], "loss": [1.0, 2.0]}, path / "a.png"),
            InputError,
            (
                "plot_history needs columns of one length, at least one epoch. Got {'epoch': 1,"
                " 'loss': 2}."
            ),
        ),
        (
            lambda path: plot_history({"loss": []}, path / "a.png"),
            InputError,
            (
                "plot_history needs columns of one length, at least one epoch. Got {'epoch': 0,"
                " 'loss': 0}."
            ),
        ),
        (
            lambda path: plot_history(HISTORY, path / "a.gif"),
            InputError,
            "A chart must be written to a file that ends in .png, .pdf or .svg. Got 'a.gif'.",
        ),
    ],
)
def test_bad_input(tmp_path, call, kind, message):
    with pytest.raises(kind) as caught:
        call(tmp_path)
    assert str(caught.value) == message
    assert not list(tmp_path.iterdir())


def test_a_path_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="Cannot write"):
        plot_history(HISTORY, tmp_path / "file" / "history.png")


def test_a_history_is_drawn_as_its_columns_are(tmp_path):
    history = History([3.0, 2.0], {"a": [1.0, 0.5]}, [0.1, 0.1])
    first = plot_history(history, tmp_path / "history.png").read_bytes()
    assert first == plot_history(history.columns(), tmp_path / "columns.png").read_bytes()
