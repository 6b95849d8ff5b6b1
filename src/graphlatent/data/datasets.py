"""Data sets by name: the fifteen of the paper, and PPI-small.

Raw files are looked for under a root folder, in the places PyTorch Geometric's own classes use, and
are downloaded from where those classes find them. Our own readers read them: they keep counts and
sparsity, and run no code from files. PyG's folder `processed` is never opened, since its files are
pickles.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from graphlatent.data.assemble import assemble
from graphlatent.data.downloads import download, download_npz
from graphlatent.data.graph import GraphData, RawGraph
from graphlatent.data.readers.array_files import open_arrays
from graphlatent.data.readers.npz import read_npz
from graphlatent.data.readers.ppi import PPI_FILES, read_ppi
from graphlatent.data.readers.saint import SAINT_FILES, read_saint
from graphlatent.data.readers.tu import find_tu, read_tu
from graphlatent.errors import InputError, bad_argument
from graphlatent.io.paths import checked_path
from graphlatent.io.regular_files import near_name

Level: TypeAlias = Literal["graph", "node"]
Layout: TypeAlias = Literal["tu", "npz", "ppi", "saint", "parts"]

ROOT_VARIABLE = "GRAPHLATENT_DATA"


@dataclass(frozen=True)
class DatasetInfo:
    """A data set and its published sizes.

    Args:
        name: the paper's name.
        level: whether whole graphs or nodes are classified.
        layout: form of the raw files.
        folder: folder under the root, as PyTorch Geometric names it.
        num_graphs: B.
        num_nodes: nodes of a graph, on average.
        num_edges: undirected edges of a graph, on average. Of COLLAB with its 2,837 self-loops, of
            PPI-small with half of its 6,322: `load_dataset` drops them.
        num_features: F; 0 where there are none and node degrees are used instead.
        num_classes: K; of PPI and PPI-small the labels, of which a node may have any number.
        aliases: other names it is known by.
        raw_files: names of the raw files; empty for the TU layout, whose names follow from
            `folder`.
    """

    name: str
    level: Level
    layout: Layout
    folder: str
    num_graphs: int
    num_nodes: float
    num_edges: float
    num_features: int
    num_classes: int
    aliases: tuple[str, ...] = ()
    raw_files: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Dataset:
    """A data set, read.

    Args:
        graph: the graph or graphs; `y` holds the labels.
        info: what it is.
        train_mask: the published training part, bool over nodes [N], of PPI over graphs [B]; None
            where none is published.
        val_mask: the published validation part, likewise.
        test_mask: the published test part, likewise.
    """

    graph: GraphData
    info: DatasetInfo
    train_mask: Tensor | None = None
    val_mask: Tensor | None = None
    test_mask: Tensor | None = None

    def __repr__(self) -> str:
        return f"Dataset({self.info.name}, {self.graph!r})"


DATASETS: tuple[DatasetInfo, ...] = (
    DatasetInfo("NCI1", "graph", "tu", "NCI1", 4110, 29.87, 32.30, 37, 2),
    DatasetInfo("PROTEINS", "graph", "tu", "PROTEINS", 1113, 39.06, 72.82, 3, 2),
    DatasetInfo("DD", "graph", "tu", "DD", 1178, 284.32, 715.66, 89, 2, ("D&D",)),
    DatasetInfo("MUTAG", "graph", "tu", "MUTAG", 188, 17.93, 19.79, 7, 2),
    DatasetInfo("COLLAB", "graph", "tu", "COLLAB", 5000, 74.49, 2457.78, 0, 3),
    DatasetInfo(
        "RDT-B", "graph", "tu", "REDDIT-BINARY", 2000, 429.63, 497.75, 0, 2, ("REDDIT-BINARY",)
    ),
    DatasetInfo(
        "RDT-M5K",
        "graph",
        "tu",
        "REDDIT-MULTI-5K",
        4999,
        508.52,
        594.87,
        0,
        5,
        ("REDDIT-MULTI-5K",),
    ),
    DatasetInfo("IMDB-B", "graph", "tu", "IMDB-BINARY", 1000, 19.77, 96.53, 0, 2, ("IMDB-BINARY",)),
    DatasetInfo(
        "Computers",
        "node",
        "npz",
        "Computers",
        1,
        13752,
        245861,
        767,
        10,
        ("Amazon-Computers",),
        ("amazon_electronics_computers.npz",),
    ),
    DatasetInfo(
        "Photo",
        "node",
        "npz",
        "Photo",
        1,
        7650,
        119081,
        745,
        8,
        ("Amazon-Photo",),
        ("amazon_electronics_photo.npz",),
    ),
    DatasetInfo(
        "CS",
        "node",
        "npz",
        "CS",
        1,
        18333,
        81894,
        6805,
        15,
        ("Coauthor-CS",),
        ("ms_academic_cs.npz",),
    ),
    DatasetInfo(
        "Physics",
        "node",
        "npz",
        "Physics",
        1,
        34493,
        247962,
        8415,
        5,
        ("Coauthor-Physics",),
        ("ms_academic_phy.npz",),
    ),
    DatasetInfo("PPI", "node", "ppi", "PPI", 24, 2373, 34133, 50, 121, (), PPI_FILES),
    # The smaller PPI of GraphSAINT (arXiv:1907.04931), one graph: not the 24 graphs of the paper.
    DatasetInfo(
        "PPI-small",
        "node",
        "parts",
        "PPI-small",
        1,
        14755,
        225270,
        50,
        121,
        (),
        ("ppi_small.npz",),
    ),
    DatasetInfo("Flickr", "node", "saint", "Flickr", 1, 89250, 449878, 500, 7, (), SAINT_FILES),
    DatasetInfo(
        "Reddit",
        "node",
        "saint",
        "Reddit2",
        1,
        232965,
        11606919,
        602,
        41,
        ("Reddit2",),
        SAINT_FILES,
    ),
)


def data_root() -> Path:
    """The folder in which data sets are looked for.

    It is the environment variable GRAPHLATENT_DATA, or ~/.cache/graphlatent where that is not set.
    """
    return Path(os.environ.get(ROOT_VARIABLE) or Path.home() / ".cache" / "graphlatent")


def find_dataset(name: str) -> DatasetInfo | None:
    """The data set known by this name (case does not matter), or None."""
    return _by_name().get(name.lower())


def dataset_info(name: str) -> DatasetInfo:
    """The data set known by this name, ignoring case.

    Raises `InputError`, which suggests the nearest name, where there is none.
    """
    found = find_dataset(name)
    if found is not None:
        return found
    near = near_dataset(name)
    hint = f" Did you mean {near!r}?" if near else ""
    raise InputError(
        f"There is no data set {name!r}. Known are"
        f" {', '.join(info.name for info in DATASETS)}.{hint}"
    )


def near_dataset(name: str) -> str | None:
    """The name of the data set that is spelt most nearly like this, or None."""
    known = _by_name()
    near = difflib.get_close_matches(name.lower(), known, n=1)
    return known[near[0]].name if near else None


def no_such_input(source: str) -> InputError:
    """The error of a text that names no file, folder or data set."""
    path = Path(source)
    hint = near_name(path) if source else ""
    if path.name == source and not path.suffix:
        near = near_dataset(source)
        hint = hint or (f"Did you mean the data set '{near}'?" if near else "")
        hint = hint or "'graphlatent data list' lists the data sets."
        return InputError(f"There is no file, folder or data set named '{source}'. {hint}")
    if not hint and not path.parent.exists():
        hint = f"There is no folder {path.parent} either. Check the path."
    return InputError(f"There is no file {source}. {hint or 'Check the path.'}")


def is_present(info: DatasetInfo, root: Path) -> bool:
    """Whether the raw files are under `root`, so that nothing need be downloaded."""
    raw = root / info.folder / "raw"
    return (
        all((raw / name).is_file() for name in info.raw_files)
        if info.raw_files
        else find_tu(root / info.folder) is not None
    )


def load_dataset(name: str, *, root: str | Path | None = None, binarize: bool = False) -> Dataset:
    """The data set of that name, edges in both directions, self-loops left out.

    Args:
        name: a name or alias out of `DATASETS`; case does not matter.
        root: folder that holds or will hold the raw files, ROOT/FOLDER/raw; None for `data_root()`.
        binarize: set the counts of the Amazon and Coauthor sets to 0 and 1, as PyTorch Geometric
            does. The other sets have no counts and come as they are.

    Raises:
        InputError: where the name is not known, the files are damaged, or they are not there and
            cannot be downloaded.
    """
    if not isinstance(name, str):
        raise bad_argument("name", owner="load_dataset", allowed="a string", got=name)
    info = dataset_info(name)
    place = data_root() if root is None else checked_path(root, name="root", owner="load_dataset")
    if info.layout == "tu":
        return Dataset(_undirected(_read_tu(info, place)), info)
    if info.layout == "npz":
        return Dataset(_undirected([_read_npz(info, place, binarize=binarize)]), info)
    if info.layout == "parts":
        return _load_parts(info, place)
    return _load_ppi(info, place) if info.layout == "ppi" else _load_saint(info, place)


def _by_name() -> dict[str, DatasetInfo]:
    return {name.lower(): info for info in DATASETS for name in (info.name, *info.aliases)}


def _undirected(graphs: list[RawGraph]) -> GraphData:
    return assemble([replace(_without_loops(graph), directed=False) for graph in graphs])


def _without_loops(graph: RawGraph) -> RawGraph:
    kept = graph.edge_index[0] != graph.edge_index[1]
    if bool(kept.all()):
        return graph
    weight = None if graph.edge_weight is None else graph.edge_weight[kept]
    columns = {name: values[kept] for name, values in (graph.edge_columns or {}).items()} or None
    edges = graph.edge_index[:, kept]
    return replace(graph, edge_index=edges, edge_weight=weight, edge_columns=columns)


def _read_tu(info: DatasetInfo, root: Path) -> list[RawGraph]:
    folder = root / info.folder
    if not is_present(info, root):
        _fetch(info, root, lambda: download(info.layout, folder))
    graphs = read_tu(folder)
    _, classes = np.unique(np.concatenate([g.y for g in graphs]), return_inverse=True)
    return [replace(graph, y=classes[i : i + 1]) for i, graph in enumerate(graphs)]


def _read_npz(info: DatasetInfo, root: Path, *, binarize: bool) -> RawGraph:
    path = root / info.folder / "raw" / info.raw_files[0]
    if not path.is_file():
        _fetch(info, root, lambda: download_npz(path.name, root / info.folder))
    return read_npz(path, binarize=binarize)


def _load_ppi(info: DatasetInfo, root: Path) -> Dataset:
    if not is_present(info, root):
        _fetch(info, root, lambda: download(info.layout, root / info.folder))
    parts = read_ppi(root / info.folder / "raw", name=info.name)
    part_of_graph = torch.repeat_interleave(
        torch.arange(3), torch.tensor([len(part) for part in parts])
    )
    graph = _undirected([raw for part in parts for raw in part])
    return Dataset(graph, info, part_of_graph == 0, part_of_graph == 1, part_of_graph == 2)


def _load_parts(info: DatasetInfo, root: Path) -> Dataset:
    """One .npz with edges [2, E], each once; x; y; and split: 0 train, 1 validation, 2 test."""
    path = root / info.folder / "raw" / info.raw_files[0]
    if not path.is_file():
        raise _unavailable(info, root, "there is no place to download it from")
    what = f"{path} cannot be read as the data set {info.name}"
    try:
        with open_arrays(path, what=what) as arrays:
            edges, split, x, y = (arrays[name] for name in ("edges", "split", "x", "y"))
    except KeyError as error:
        raise InputError(f"{what}: it lacks the array {error}.") from error
    raw = RawGraph(
        torch.from_numpy(edges.astype(np.int64)),
        num_nodes=len(x),
        x=torch.from_numpy(x.astype(np.float32)),
        y=torch.from_numpy(y.astype(np.int64)),
    )
    part = torch.from_numpy(split.astype(np.int64))
    return Dataset(_undirected([raw]), info, part == 0, part == 1, part == 2)


def _load_saint(info: DatasetInfo, root: Path) -> Dataset:
    if not is_present(info, root):
        _fetch(info, root, lambda: download(info.layout, root / info.folder))
    raw, parts = read_saint(root / info.folder / "raw", name=info.name)
    train, val, test = (torch.from_numpy(part) for part in parts)
    return Dataset(_undirected([raw]), info, train, val, test)


def _fetch(info: DatasetInfo, root: Path, bring: Callable[[], None]) -> None:
    """Download raw files; an error also names the folder where they belong."""
    try:
        bring()
    except InputError:
        raise
    # Network, server or archive: in each case the set is not available.
    except Exception as error:
        raise _unavailable(
            info, root, f"could not be downloaded: {type(error).__name__}: {error}"
        ) from error
    if not is_present(info, root):
        raise _unavailable(info, root, "what was downloaded does not hold all of its files")


def _unavailable(info: DatasetInfo, root: Path, why: str) -> InputError:
    files = (
        ", ".join(info.raw_files)
        or f"{info.folder}_A.txt, {info.folder}_graph_indicator.txt and the other files of the set"
    )
    return InputError(
        f"The data set {info.name} is not (or not whole) under {root} and {why}. Put its files"
        f" ({files}) into {root / info.folder / 'raw'}, or name another root, for example by the"
        f" environment variable {ROOT_VARIABLE}."
    )
