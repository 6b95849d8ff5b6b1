from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from graphlatent.data.datasets import DATASETS, dataset_info, find_dataset, is_present, load_dataset
from graphlatent.data.datasets import data_root as default_root
from graphlatent.errors import InputError
from graphlatent.ops.sparse import SparseMatrix, to_dense
from raw_sets import write_parts, write_ppi, write_saint, write_tu

REAL = ["NCI1", "PROTEINS", "MUTAG", "IMDB-B", "Computers", "Photo", "CS", "Physics"]
MULTI_5K = pytest.param("RDT-M5K", marks=pytest.mark.slow)  # 64 MB of text


def test_the_sets_of_the_paper_and_ppi_small():
    assert [info.name for info in DATASETS if info.level == "graph"] == [
        "NCI1",
        "PROTEINS",
        "DD",
        "MUTAG",
        "COLLAB",
        "RDT-B",
        "RDT-M5K",
        "IMDB-B",
    ]
    assert [info.name for info in DATASETS if info.level == "node"] == [
        "Computers",
        "Photo",
        "CS",
        "Physics",
        "PPI",
        "PPI-small",
        "Flickr",
        "Reddit",
    ]
    names = [name.lower() for info in DATASETS for name in (info.name, *info.aliases)]
    assert len(set(names)) == len(names)


def test_names_and_aliases():
    assert dataset_info("mutag").name == "MUTAG"
    assert dataset_info("reddit-binary").name == "RDT-B"
    assert find_dataset("IMDB-BINARY").folder == "IMDB-BINARY"
    assert find_dataset("karate") is None
    with pytest.raises(
        InputError,
        match=(
            r"There is no data set 'PROTEIN'. Known are NCI1, .*, Reddit. Did you mean 'PROTEINS'\?"
        ),
    ):
        dataset_info("PROTEIN")
    with pytest.raises(InputError, match=r"There is no data set 'qqq'. Known are .*Reddit\.$"):
        load_dataset("qqq")


def test_default_root(monkeypatch):
    monkeypatch.setenv("GRAPHLATENT_DATA", "/somewhere")
    assert default_root() == Path("/somewhere")
    monkeypatch.delenv("GRAPHLATENT_DATA")
    assert default_root() == Path.home() / ".cache" / "graphlatent"


@pytest.mark.parametrize("name", [*REAL, MULTI_5K])
def test_real_sets_have_their_published_sizes(data_root, name):
    info = dataset_info(name)
    root = data_root(info.folder)
    assert is_present(info, root)
    graph = load_dataset(name, root=root).graph
    assert graph.num_graphs == info.num_graphs
    assert graph.num_nodes / graph.num_graphs == pytest.approx(info.num_nodes, abs=0.005)
    assert graph.num_edges / 2 / graph.num_graphs == pytest.approx(info.num_edges, abs=0.005)
    assert (0 if graph.x is None else graph.x.shape[1]) == info.num_features
    assert np.unique(graph.y).tolist() == list(range(info.num_classes))
    assert len(graph.y) == (graph.num_graphs if info.level == "graph" else graph.num_nodes)
    assert graph.undirected
    assert not (graph.edge_index[0] == graph.edge_index[1]).any()


def test_the_real_ppi_small(data_root):
    data = load_dataset("ppi-small", root=data_root("PPI-small"))
    graph, info = data.graph, data.info
    assert (graph.num_nodes, graph.x.shape[1]) == (info.num_nodes, info.num_features)
    # The published number counts each of the 6,322 self-loops as half an edge
    assert graph.num_edges / 2 + 6322 / 2 == info.num_edges
    assert graph.y.shape == (graph.num_nodes, info.num_classes)
    assert set(np.unique(graph.y)) == {0, 1} and graph.x.unique().tolist() == [0, 1]
    parts = torch.stack([data.train_mask, data.val_mask, data.test_mask])
    assert parts.sum(1).tolist() == [9716, 1825, 3214] and bool((parts.sum(0) == 1).all())
    source, target = parts.int().argmax(0)[graph.edge_index]
    assert torch.equal(source, target)  # no edge crosses a split


@pytest.mark.parametrize(("name", "isolated"), [("Computers", 281), ("Photo", 115)])
def test_isolated_nodes_of_the_amazon_sets(data_root, name, isolated):
    graph = load_dataset(name, root=data_root(name)).graph
    assert int((graph.degree == 0).sum()) == isolated
    assert isinstance(graph.x, torch.Tensor)
    assert graph.x.unique().tolist() == [0, 1]


def test_counts_of_the_coauthor_sets_stay_or_are_binarized(data_root):
    root = data_root("CS")
    counts, binary = (
        load_dataset("CS", root=root).graph.x,
        load_dataset("cs", root=root, binarize=True).graph.x,
    )
    assert isinstance(counts, SparseMatrix)
    assert counts.value.max() > 1
    assert binary.value.unique().tolist() == [1]
    assert torch.equal(counts.col, binary.col)


@pytest.mark.parametrize("name", ["MUTAG", "IMDB-BINARY"])
def test_equal_to_what_pyg_reads(data_root, tmp_path, name):
    from torch_geometric.datasets import TUDataset

    root = data_root(name)
    (tmp_path / name).mkdir()
    (tmp_path / name / "raw").symlink_to(root / name / "raw")
    ours, theirs = load_dataset(name, root=root).graph, TUDataset(str(tmp_path), name)
    assert len(theirs) == ours.num_graphs
    for i in (0, 1, 17, len(theirs) - 1):
        data, start, stop = theirs[i], int(ours.ptr[i]), int(ours.ptr[i + 1])
        inside = (ours.edge_index[0] >= start) & (ours.edge_index[0] < stop)
        assert torch.equal(ours.edge_index[:, inside] - start, data.edge_index)
        assert stop - start == data.num_nodes
        assert ours.y[i] == int(data.y)
        assert ours.x is None or torch.equal(ours.x[start:stop], data.x)


def test_ppi_layout(tmp_path):
    raw = write_ppi(tmp_path)
    data = load_dataset("PPI", root=tmp_path)
    assert is_present(data.info, tmp_path)
    assert data.graph.num_graphs == 4
    assert data.graph.ptr.tolist() == [0, 3, 7, 10, 15]
    assert data.train_mask.tolist() == [True, True, False, False]
    assert data.val_mask.tolist() == [False, False, True, False]
    assert data.test_mask.tolist() == [False, False, False, True]
    assert data.graph.num_edges == 2 * (2 + 3 + 2 + 4)
    assert np.array_equal(data.graph.y[:7], np.load(raw / "train_labels.npy"))
    assert data.graph.y.dtype == np.int64
    assert np.allclose(to_dense(data.graph.x)[-5:], np.load(raw / "test_feats.npy"), atol=1e-6)


@pytest.mark.parametrize(("name", "folder"), [("Flickr", "Flickr"), ("Reddit", "Reddit2")])
def test_saint_layout(tmp_path, name, folder):
    write_saint(tmp_path, folder)
    data = load_dataset(name, root=tmp_path)
    assert data.info.name == name
    assert data.graph.edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert data.graph.x.tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert data.graph.y.tolist() == [2, 0, 1, 2]
    assert data.train_mask.tolist() == [True, False, True, False]
    assert data.val_mask.tolist() == [False, True, False, False]
    assert data.test_mask.tolist() == [False, False, False, True]
    assert data.graph.edge_weight is None


class TestParts:
    """One .npz with its parts: PPI-small."""

    def test_layout(self, tmp_path):
        write_parts(tmp_path)
        data = load_dataset("PPI-small", root=tmp_path)
        assert is_present(data.info, tmp_path)
        # Each edge once, in both directions, without the self-loop
        assert data.graph.edge_index.tolist() == [[0, 1], [1, 0]]
        assert data.graph.x.tolist() == np.eye(4, 3).tolist()
        assert data.graph.y.tolist() == [[1, 0], [0, 0], [1, 1], [0, 1]]
        assert data.train_mask.tolist() == [True, True, False, False]
        assert data.val_mask.tolist() == [False, False, False, True]
        assert data.test_mask.tolist() == [False, False, True, False]

    def test_no_file(self, tmp_path):
        with pytest.raises(
            InputError,
            match=(
                r"^The data set PPI-small is not \(or not whole\) under .* and there is no place to"
                r" download it from\. Put its files \(ppi_small\.npz\) into .*PPI-small/raw, or"
                r" name another root"
            ),
        ):
            load_dataset("PPI-small", root=tmp_path)

    @pytest.mark.parametrize("change", [{"split": None}, {"x": np.array([{}], dtype=object)}])
    def test_damaged(self, tmp_path, change):
        path = write_parts(tmp_path, **change)
        with pytest.raises(InputError, match=r"ppi_small.npz cannot be read as the data set PPI-s"):
            load_dataset("PPI-small", root=tmp_path)
        path.write_bytes(b"PK damaged")
        with pytest.raises(InputError, match=r"ppi_small.npz cannot be read as the data set PPI-s"):
            load_dataset("PPI-small", root=tmp_path)


def test_tu_layout_gives_classes_from_zero(tmp_path):
    write_tu(tmp_path, "REDDIT-MULTI-5K")
    data = load_dataset("RDT-M5K", root=tmp_path)
    assert data.graph.y.tolist() == [1, 0, 1]
    assert data.graph.edge_index.tolist() == [[0, 1], [1, 0]]
    assert data.train_mask is None


def test_damaged_raw_files_are_named(tmp_path):
    raw = tmp_path / "Photo" / "raw"
    raw.mkdir(parents=True)
    (raw / "amazon_electronics_photo.npz").write_bytes(b"PK damaged")
    with pytest.raises(InputError, match=r"amazon_electronics_photo.npz cannot be read"):
        load_dataset("Photo", root=tmp_path)
