"""Files of a data root cannot run code: every pickle in it is planted with a payload."""

from __future__ import annotations

import io
import json
import os
import pickle

import numpy as np
import pytest
import torch
import torch_geometric.data
from torch_geometric.datasets import PPI, Flickr

from graphlatent.data.datasets import DATASETS, load_dataset
from graphlatent.errors import InputError
from raw_sets import write_ppi, write_saint, write_set

# Every name that PyG's classes read from `processed`.
PROCESSED = ("pre_transform.pt", "pre_filter.pt", "data.pt", "train.pt", "val.pt", "test.pt")


class Payload:
    """Makes a folder when it is unpickled."""

    def __init__(self, marker):
        self.marker = str(marker)

    def __reduce__(self):
        return os.mkdir, (self.marker,)


def plant(root, info, marker):
    for name in PROCESSED:
        path = root / info.folder / "processed" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.save(Payload(marker), path)


def pickled(marker):
    """A .npy file with a pickled object."""
    file = io.BytesIO()
    np.save(file, np.array([Payload(marker)], dtype=object), allow_pickle=True)
    return file.getvalue()


def test_the_payload_works(tmp_path):
    pickle.loads(pickle.dumps(Payload(tmp_path / "ran")))
    assert (tmp_path / "ran").is_dir()
    torch.save(Payload(tmp_path / "again"), tmp_path / "file.pt")
    torch.load(tmp_path / "file.pt", weights_only=False)
    assert (tmp_path / "again").is_dir()
    (tmp_path / "file.npy").write_bytes(pickled(tmp_path / "third"))
    np.load(tmp_path / "file.npy", allow_pickle=True)
    assert (tmp_path / "third").is_dir()


@pytest.mark.parametrize("info", DATASETS, ids=lambda info: info.name)
def test_processed_files_are_never_read(tmp_path, info):
    write_set(tmp_path, info)
    plant(tmp_path, info, tmp_path / "ran")
    assert load_dataset(info.name, root=tmp_path).graph.num_nodes > 0
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("info", DATASETS, ids=lambda info: info.name)
def test_nor_where_raw_files_are_missing(tmp_path, info, monkeypatch):
    def refuse(*args, **kwargs):
        raise OSError("no network")

    monkeypatch.setattr(torch_geometric.data, "download_url", refuse)
    monkeypatch.setattr(torch_geometric.data, "download_google_url", refuse)
    plant(tmp_path, info, tmp_path / "ran")
    with pytest.raises(InputError, match=r"is not \(or not whole\) under"):
        load_dataset(info.name, root=tmp_path)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("info", DATASETS, ids=lambda info: info.name)
def test_pickles_instead_of_raw_files(tmp_path, info):
    for path in sorted(write_set(tmp_path, info).iterdir()):
        before = path.read_bytes()
        arrays = {}
        if path.suffix == ".npz":
            with np.load(path) as file:
                arrays = dict(file)
        payload = Payload(tmp_path / "ran")
        versions = [pickle.dumps(payload), pickled(tmp_path / "ran")]
        for key in arrays:
            file = io.BytesIO()
            np.savez(file, **{**arrays, key: np.array([payload], dtype=object)})
            versions.append(file.getvalue())
        for content in versions:
            path.write_bytes(content)
            with pytest.raises(InputError):
                load_dataset(info.name, root=tmp_path)
            assert not (tmp_path / "ran").exists()
        path.write_bytes(before)


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("role.json", "[" * 100_000),
        ("role.json", "[]"),
        ("role.json", json.dumps({"tr": [0], "va": [4], "te": []})),
        ("role.json", json.dumps({"tr": [0], "va": [-1], "te": []})),
        ("role.json", json.dumps({"tr": [True], "va": [], "te": []})),
        ("role.json", json.dumps({"tr": [0]})),
        ("class_map.json", json.dumps({"0": 10**30})),
        ("class_map.json", json.dumps({"0": 1.5})),
        ("class_map.json", json.dumps({"9": 1})),
        ("class_map.json", '{"0": ' + "1" * 5000 + "}"),
        ("class_map.json", b"\xff\xfe{"),
        ("feats.npy", b""),
    ],
)
def test_damaged_files_of_flickr(tmp_path, file, content):
    raw = write_saint(tmp_path, "Flickr")
    (raw / file).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(
        InputError,
        match=r"raw(/feats.npy| cannot be read as the data set Flickr: \w+:) .*again",
    ):
        load_dataset("Flickr", root=tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        "[]",
        "{}",
        '{"directed": true, "links": []}',
        '{"links": [{"source": 0, "target": 7}]}',
        '{"links": [{"source": "0", "target": 1}]}',
        '{"links": [{"source": 0.5, "target": 1}]}',
        '{"links": [[0, 1]]}',
    ],
)
def test_damaged_files_of_ppi(tmp_path, content):
    raw = write_ppi(tmp_path)
    (raw / "train_graph.json").write_text(content)
    with pytest.raises(InputError, match=r"raw cannot be read as the data set PPI: \w+: .*again"):
        load_dataset("PPI", root=tmp_path)


def test_arrays_of_different_length(tmp_path):
    raw = write_ppi(tmp_path)
    np.save(raw / "valid_labels.npy", np.zeros((2, 121)))
    with pytest.raises(InputError, match=r"valid_feats.npy has shape \(3, 50\), valid_labels.npy"):
        load_dataset("PPI", root=tmp_path)
    raw = write_saint(tmp_path, "Flickr")
    np.save(raw / "feats.npy", np.zeros((3, 2)))
    with pytest.raises(InputError, match=r"adj_full.npz has shape \(4, 4\), feats.npy \(3, 2\)"):
        load_dataset("Flickr", root=tmp_path)


@pytest.mark.filterwarnings("ignore")
def test_equal_to_what_pyg_reads(tmp_path):
    write_saint(tmp_path, "Flickr")
    write_ppi(tmp_path)
    flickr, ours = Flickr(str(tmp_path / "Flickr"))[0], load_dataset("Flickr", root=tmp_path)
    assert torch.equal(ours.graph.edge_index, flickr.edge_index)
    assert torch.equal(ours.graph.x, flickr.x)
    assert ours.graph.y.tolist() == flickr.y.tolist()
    assert torch.equal(ours.val_mask, flickr.val_mask)
    pytest.importorskip("networkx")
    data, ours = load_dataset("PPI", root=tmp_path), None
    parts = [graph for part in ("train", "val", "test") for graph in PPI(tmp_path / "PPI", part)]
    edges = [g.edge_index + int(data.graph.ptr[i]) for i, g in enumerate(parts)]
    theirs = {tuple(edge) for each in edges for edge in each.t().tolist()}
    assert {tuple(edge) for edge in data.graph.edge_index.t().tolist()} == theirs
    assert torch.equal(data.graph.x, torch.cat([g.x for g in parts]))
