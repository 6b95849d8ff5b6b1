"""Charts: what is drawn is what was given, and nothing global is touched."""

from __future__ import annotations

import struct
import sys

import numpy as np
import pytest
import torch

import graphlatent.report.plots as plots
from graphlatent.errors import ConfigError, InputError, OutputError
from graphlatent.io.history import History
from graphlatent.report.plots import MARKERS, PALETTE, plot_history, plot_map

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
    original = plots._save
    monkeypatch.setattr(
        plots, "_save", lambda figure, path: saved.append(figure) or original(figure, path)
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


def test_pca_by_hand():
    rows = torch.tensor([[3.0, 0.0], [-3.0, 0.0], [0.0, 1.0], [0.0, -1.0]], dtype=torch.float64)
    points, names = plots._pca(rows + 7)
    np.testing.assert_allclose(points, rows, atol=1e-12)
    assert names == ("first component (90% of variance)", "second component (10%)")


def test_pca_against_scikit_learn():
    from sklearn.decomposition import PCA

    rows = np.random.default_rng(0).normal(size=(40, 6)) * np.arange(1, 7)
    ours, names = plots._pca(torch.from_numpy(rows))
    model = PCA(2)
    np.testing.assert_allclose(np.abs(ours), np.abs(model.fit_transform(rows)), atol=1e-9)
    assert f"{model.explained_variance_ratio_[0]:.0%}" in names[0]


@pytest.mark.parametrize("shape", [(1, 1), (1, 4), (5, 1)])
def test_tiny_maps(tmp_path, shape):
    assert png_size(plot_map(np.zeros(shape), tmp_path / "map.png", labels=np.zeros(shape[0])))


def test_map_draws_every_row_in_its_class_colour(tmp_path, figures):
    from matplotlib.colors import to_hex

    rows = np.random.default_rng(0).normal(size=(30, 3))
    labels = np.array(["b", "a", "c"] * 10)
    plot_map(rows, tmp_path / "map.png", labels=labels, title="Thirty rows")
    (axes,) = figures[0].axes
    (drawn,) = axes.collections
    points, _ = plots._pca(torch.from_numpy(rows))
    colour_at = {
        tuple(p): to_hex(c).upper()
        for p, c in zip(np.asarray(drawn.get_offsets()), drawn.get_facecolors(), strict=True)
    }
    expected = dict(zip("abc", PALETTE, strict=False))
    assert colour_at == {tuple(p): expected[label] for p, label in zip(points, labels, strict=True)}
    assert axes.get_title(loc="left") == "Thirty rows"
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["a", "b", "c"]


def test_more_classes_than_colours():
    capacity = len(PALETTE) * len(MARKERS)
    # The first five are the smallest
    classes = np.concatenate([np.arange(capacity + 3), np.arange(5, capacity + 3)])
    names, looks = plots._looks(classes)
    assert len(names) == capacity + 3
    assert [i for i, look in enumerate(looks) if look[0] == plots._OTHER] == [2, 3, 4]
    own = [look for look in looks if look[0] != plots._OTHER]
    assert len(set(own)) == capacity


def test_tsne_is_subsampled_and_repeatable(tmp_path, figures, monkeypatch):
    monkeypatch.setattr(plots, "_MAX_TSNE_POINTS", 30)
    rows = np.random.default_rng(0).normal(size=(50, 4)) + 8 * np.eye(4)[np.arange(50) % 4]
    for _ in range(2):
        plot_map(rows, tmp_path / "map.png", labels=np.arange(50) % 4, method="tsne", seed=1)
    first, second = (np.asarray(figure.axes[0].collections[0].get_offsets()) for figure in figures)
    assert first.shape == (30, 2)
    np.testing.assert_array_equal(first, second)
    assert [text.get_text() for text in figures[0].axes[0].texts] == ["30 of 50 rows"]


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
        (
            lambda path: plot_map(np.eye(3), path / "a.png", method="umap"),
            ConfigError,
            "The 'method' parameter of plot_map must be 'pca' or 'tsne'. Got 'umap' instead.",
        ),
        (
            lambda path: plot_map(np.eye(3), path / "a.png", labels=[1]),
            InputError,
            "Labels must be one class per row of the embedding, shape (3,). Got shape (1,).",
        ),
        (
            lambda path: plot_map(np.full((3, 2), np.inf), path / "a.png"),
            InputError,
            "The embedding holds NaN or infinite values and cannot be drawn.",
        ),
        (
            lambda path: plot_map(np.zeros(3), path / "a.png"),
            InputError,
            "The embedding must be a 2-D array, one row per node or graph. Got shape (3,).",
        ),
        (
            lambda path: plot_map(np.eye(3), path / "a.png", method="tsne"),
            InputError,
            "t-SNE needs at least 4 rows. Got 3. Use method='pca'.",
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
