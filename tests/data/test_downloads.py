"""Downloads of named data sets, without a network."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import pytest
import torch_geometric.data
from torch_geometric.datasets import PPI, Coauthor, Flickr, TUDataset

from graphlatent.data import downloads
from graphlatent.data.datasets import dataset_info, load_dataset
from graphlatent.errors import InputError
from raw_sets import write_npz, write_ppi, write_saint, write_tu


@pytest.fixture
def web(monkeypatch):
    """What is asked for, and a dict of files by address that stands for the network."""
    pages: dict[str, Path] = {}
    asked = []

    def bring(url, folder, log=True, filename=None):
        asked.append(url)
        if url not in pages:
            raise OSError("no network")
        path = Path(folder) / (filename or url.rpartition("/")[2])
        path.write_bytes(pages[url].read_bytes())
        return str(path)

    monkeypatch.setattr(torch_geometric.data, "download_url", bring)
    monkeypatch.setattr(
        torch_geometric.data,
        "download_google_url",
        lambda key, folder, filename: bring(key, folder, filename=filename),
    )
    return pages, asked


def zipped(folder, path, *, under):
    with zipfile.ZipFile(path, "w") as archive:
        for file in folder.iterdir():
            archive.write(file, f"{under}{file.name}")
    return path


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("NCI1", r"NCI1_A.txt, NCI1_graph_indicator.txt and the other files of the set"),
        ("PPI", r"train_graph.json, train_feats.npy, .*"),
        ("Flickr", r"adj_full.npz, feats.npy, class_map.json, role.json"),
        ("CS", r"ms_academic_cs.npz"),
    ],
)
def test_what_cannot_be_downloaded(tmp_path, web, name, files):
    folder = tmp_path / dataset_info(name).folder
    # What the first try left behind does not pass for data
    for _ in range(2):
        with pytest.raises(
            InputError,
            match=(
                rf"^The data set {name} is not \(or not whole\) under .* and could not be"
                rf" downloaded: OSError: no network. Put its files \({files}\) into"
                rf" {folder / 'raw'}, or name another root, for example by the environment variable"
            ),
        ):
            load_dataset(name, root=tmp_path)
        assert list(folder.iterdir()) == []


def test_tu_sets_and_ppi_come_as_archives(tmp_path, web):
    pages, asked = web
    folder = write_tu(tmp_path / "far", "MUTAG")
    pages[f"{TUDataset.url}/MUTAG.zip"] = zipped(folder, tmp_path / "a.zip", under="MUTAG/")
    pages[PPI.url] = zipped(write_ppi(tmp_path / "far"), tmp_path / "b.zip", under="")
    assert load_dataset("MUTAG", root=tmp_path).graph.num_graphs == 3
    assert load_dataset("PPI", root=tmp_path).graph.num_graphs == 4
    assert asked == list(pages)
    # The second time they are there
    load_dataset("MUTAG", root=tmp_path)
    load_dataset("PPI", root=tmp_path)
    assert asked == list(pages)
    assert [path.name for path in (tmp_path / "PPI").iterdir()] == ["raw"]


def test_flickr_comes_as_four_files(tmp_path, web):
    pages, asked = web
    folder = write_saint(tmp_path / "far", "Flickr")
    names = ("adj_full.npz", "feats.npy", "class_map.json", "role.json")
    keys = (Flickr.adj_full_id, Flickr.feats_id, Flickr.class_map_id, Flickr.role_id)
    # One is missing: none is kept
    for key, name in zip(keys[:3], names[:3], strict=True):
        pages[key] = folder / name
    with pytest.raises(InputError, match="no network"):
        load_dataset("Flickr", root=tmp_path)
    assert list((tmp_path / "Flickr").iterdir()) == []
    pages[keys[3]] = folder / names[3]
    assert load_dataset("Flickr", root=tmp_path).graph.num_nodes == 4
    assert asked == [*keys, *keys]


def test_an_archive_without_the_files(tmp_path, web):
    pages, _ = web
    (tmp_path / "empty").mkdir()
    pages[PPI.url] = zipped(tmp_path / "empty", tmp_path / "b.zip", under="")
    with pytest.raises(InputError, match=r"PPI is not .* what was downloaded does not hold all of"):
        load_dataset("PPI", root=tmp_path)


def test_checksums_of_npz_files(tmp_path, web, monkeypatch):
    pages, asked = web
    file = write_npz(tmp_path / "far", "CS", "ms_academic_cs.npz") / "ms_academic_cs.npz"
    url = f"{Coauthor.url}ms_academic_cs.npz"
    pages[url] = file
    with pytest.raises(
        InputError,
        match=(
            r"^What came from https?://.*/ms_academic_cs.npz is not the published"
            r" ms_academic_cs.npz: its SHA-256 is [0-9a-f]{64}, not 6faa31200f8c.* It was not kept"
        ),
    ):
        load_dataset("CS", root=tmp_path)
    assert list((tmp_path / "CS").iterdir()) == []
    found = hashlib.sha256(file.read_bytes()).hexdigest()
    monkeypatch.setitem(downloads.SHA256, "ms_academic_cs.npz", found)
    assert load_dataset("CS", root=tmp_path).graph.num_edges == 2
    assert asked == [url, url]


@pytest.mark.parametrize("name", ["Computers", "Photo", "CS", "Physics"])
def test_the_files_have_their_checksums(data_root, name):
    info = dataset_info(name)
    path = data_root(name) / info.folder / "raw" / info.raw_files[0]
    assert hashlib.sha256(path.read_bytes()).hexdigest() == downloads.SHA256[path.name]
