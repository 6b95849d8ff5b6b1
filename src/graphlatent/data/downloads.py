"""Downloads of the raw files of named data sets, into a private folder first.

PyTorch Geometric's dataset classes know the addresses, and are used for nothing else: they would
also read pickles out of `processed/`, and a pickle in somebody else's folder runs what it likes.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from graphlatent.errors import InputError

# Of the files as their publisher has them (github.com/shchur/gnn-benchmark).
SHA256 = {
    "amazon_electronics_computers.npz": (
        "b422a8a15c062187e93c1a3a22cfdc7c2ab62ed39e4e0da26c6e28fb2199527c"
    ),
    "amazon_electronics_photo.npz": (
        "9085579aa51bbdabb4fdb4b7881dc23f17d48b652d5a5b06ae8574da00357b09"
    ),
    "ms_academic_cs.npz": "6faa31200f8cf7227ab8a32bde87d4f7eb00a9a66c428ce62b7a55905cf5f42b",
    "ms_academic_phy.npz": "d055c5b625933ddb3309b27b737518d00db5dba8bacf7b21a776e81397bcde98",
}
# Names of the attributes of PyG's classes that hold the ids of files on Google Drive.
_DRIVE_IDS = {
    "adj_full.npz": "adj_full_id",
    "feats.npy": "feats_id",
    "class_map.json": "class_map_id",
    "role.json": "role_id",
}


def download(layout: str, folder: Path) -> None:
    """Download the raw files of a data set into `folder`/raw.

    Files appear there only when all of them have come. The name of the folder is that of the data
    set at its publisher.

    Args:
        layout: 'tu', 'ppi' or 'saint'.
        folder: the data set's folder.
    """
    from torch_geometric import datasets

    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder, prefix=".download-") as private:
        place = Path(private)
        if layout == "tu":
            _fetch_zip(f"{datasets.TUDataset.url}/{folder.name}.zip", place)
            _move(place.rglob(f"{folder.name}_*.txt"), folder / "raw")
        elif layout == "ppi":
            _fetch_zip(datasets.PPI.url, place)
            _move([*place.rglob("*.json"), *place.rglob("*.npy")], folder / "raw")
        else:
            _fetch_from_drive(getattr(datasets, folder.name), place)
            _move([place / name for name in _DRIVE_IDS], folder / "raw")


def download_npz(name: str, folder: Path) -> None:
    """Download a file of the gnn-benchmark data sets into `folder`/raw.

    Raises:
        InputError: where what came is not the published file; it is not kept.
    """
    from torch_geometric import data, datasets

    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder, prefix=".download-") as private:
        url = datasets.Amazon.url + name
        data.download_url(url, private)
        path = Path(private) / name
        found = hashlib.sha256(path.read_bytes()).hexdigest()
        if found != SHA256[name]:
            raise InputError(
                f"What came from {url} is not the published {name}: its SHA-256 is {found}, not"
                f" {SHA256[name]}. It was not kept. Get the file from a source that you trust and"
                f" put it into {folder / 'raw'}."
            )
        _move([path], folder / "raw")


def _fetch_zip(url: str, place: Path) -> None:
    from torch_geometric import data

    data.extract_zip(data.download_url(url, str(place)), str(place))


def _fetch_from_drive(cls: Any, place: Path) -> None:
    from torch_geometric import data

    for name, attribute in _DRIVE_IDS.items():
        data.download_google_url(getattr(cls, attribute), str(place), name)


def _move(files: Any, raw: Path) -> None:
    raw.mkdir(exist_ok=True)
    for path in files:
        path.replace(raw / path.name)
