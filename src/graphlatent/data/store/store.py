"""`GraphStore`: a graph in a folder that `graphlatent ingest` wrote, opened without reading it.

Row i of the adjacency lists the nodes that node i receives from, ascending, as in `CSRGraph`.
Legend: N nodes, E edges, F features, R rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow.parquet as pq
import torch
from torch import Tensor

from graphlatent.data.graph import GraphData
from graphlatent.data.ids import id_array
from graphlatent.data.memory_limit import require_memory
from graphlatent.data.readers.arrow import LoadedTable, to_array
from graphlatent.data.readers.options import TableOptions, stack_labels
from graphlatent.data.store.columns import StoredColumn
from graphlatent.data.store.content import check_content, check_manifest
from graphlatent.data.store.layout import (
    CACHE,
    DEGREE,
    IDS,
    INDICES,
    INDPTR,
    LABELS,
    MANIFEST,
    WEIGHT,
    X_PARTS,
    X,
    check_files,
    read_manifest,
)
from graphlatent.data.store.npy import mapped
from graphlatent.data.store.share import Share
from graphlatent.display import counted, html_table
from graphlatent.errors import InputError
from graphlatent.io.regular_files import refusing_damage
from graphlatent.ops.sparse import SparseMatrix, take_rows

Array: TypeAlias = np.ndarray[Any, Any]
FeatureKind: TypeAlias = Literal["dense", "sparse", "columns"]


@dataclass(frozen=True, eq=False)
class GraphStore:
    """A graph on disk; its arrays are views of files, of which only what is used is read.

    Args:
        path: the folder.
        about: its manifest.
        share: that it is a shard, and other processes have the others; None for a whole graph,
            which a shard is to a process that opens it by itself.
        version: which file the manifest is; None where the store is not expected to be replaced.
    """

    path: Path
    about: Mapping[str, Any]
    share: Share | None = None
    version: tuple[int, ...] | None = None

    @classmethod
    def open(
        cls, path: str | Path, *, verify: bool = True, share: Share | None = None
    ) -> GraphStore:
        """The store in a folder.

        Args:
            path: the folder.
            verify: compare the checksums of all files and check what they hold, which reads them;
                sizes are always compared.
            share: as `own_shard` returned it, of a shard.

        Raises:
            InputError: where the folder is no store, or a file of it is missing or damaged.
        """
        path = Path(path)
        version = _version(path)
        about = read_manifest(path)
        check_manifest(path, about)
        check_files(path, about["files"], checksums=verify)
        if verify:
            check_content(path, about)
        store = cls(path, about, share, version)
        store.check_current()
        return store

    def check_current(self) -> None:
        """Raise an `InputError` where another store has taken the place of this one.

        Called behind every file that is opened: files of two stores would make a graph of neither.
        """
        if self.version is not None and _version(self.path) != self.version:
            raise InputError(
                f"{self.path} was deleted or replaced while it was read, so that nothing more is"
                " read from it. Start again."
            )

    @property
    def num_nodes(self) -> int:
        """N."""
        return int(self.about["num_nodes"])

    @property
    def num_edges(self) -> int:
        """E: an undirected edge counts twice."""
        return int(self.about["num_edges"])

    @property
    def num_distinct_edges(self) -> int:
        """How many edges there are: an undirected edge is one."""
        if not self.undirected:
            return self.num_edges
        return (self.num_edges + int(self.about["num_self_loops"])) // 2

    @property
    def num_bytes(self) -> int:
        """The size of all files together."""
        return sum(int(file["bytes"]) for file in self.about["files"].values())

    @property
    def undirected(self) -> bool:
        """Every edge is in both rows, with one weight."""
        return bool(self.about["undirected"])

    @property
    def weighted(self) -> bool:
        """Whether edges have weights."""
        return WEIGHT in self.about["files"]

    @property
    def notes(self) -> tuple[str, ...]:
        """What was done to the input, as sentences."""
        return tuple(self.about["notes"])

    @property
    def reading(self) -> TableOptions:
        """The options that the tables were read with."""
        return TableOptions.from_dict(self.about["reading"])

    @property
    def cache(self) -> Path:
        """A folder for what takes long to compute from the graph, such as clusters."""
        return self.path / CACHE

    @cached_property
    def indptr(self) -> Tensor:
        """First edge of each row and the end, int64 [N + 1]."""
        return self._tensor(INDPTR)

    @cached_property
    def indices(self) -> Tensor:
        """The nodes that each row receives from, int32 (int64 from 2^31 nodes on) [E]."""
        return self._tensor(INDICES)

    @cached_property
    def weight(self) -> Tensor | None:
        """The weights of the edges, float32 [E], or None."""
        return self._tensor(WEIGHT) if self.weighted else None

    @cached_property
    def degree(self) -> Tensor:
        """Neighbours of each node, self-loops not counted, int64 [N]; as `GraphData.degree`."""
        return self._tensor(DEGREE)

    @property
    def feature_kind(self) -> FeatureKind | None:
        """In which form the features are there; None where there are none."""
        kind: FeatureKind | None = self.about["features"]["kind"]
        return kind

    @property
    def feature_dim(self) -> int:
        """Columns of the feature matrix, or the number of named columns; 0 without features."""
        return int(self.about["features"]["dim"])

    @property
    def num_feature_values(self) -> int:
        """Numbers that the features have: those that are stored where they are sparse."""
        if self.feature_kind == "sparse":
            return int(self._tensor(X_PARTS[2]).numel())
        return self.num_nodes * max(self.feature_dim, 1)

    @property
    def column_names(self) -> tuple[str, ...]:
        """The names of the feature columns; () where features are no named columns."""
        return tuple(column.name for column in self._columns)

    @property
    def id_name(self) -> str:
        """The name of the column of ids."""
        return str(self.about["id_name"])

    @cached_property
    def labels(self) -> Array | None:
        """The label columns, [N] or [N, K]; None where none was named."""
        names = self.about["labels"]
        if not names:
            return None
        with refusing_damage(f"store: {self.path / LABELS} cannot be read"):
            table = LoadedTable(pq.read_table(self.path / LABELS), LABELS)
        self.check_current()
        return stack_labels([to_array(table, name, option="label") for name in names])

    def features(self, index: Tensor | slice) -> GraphData:
        """Nodes with their features as they were read, without edges: what `FeatureSpec` encodes.

        Args:
            index: numbers of nodes, int64 [R], or a slice of them.

        Returns:
            A graph of R nodes with `x` or `columns`; its node ids are the nodes' numbers.
        """
        numbers = torch.arange(self.num_nodes)[index] if isinstance(index, slice) else index
        return GraphData(
            torch.zeros(2, 0, dtype=torch.int64),
            num_nodes=numbers.numel(),
            ptr=torch.tensor([0, numbers.numel()]),
            x=self._matrix_rows(index, numbers),
            columns={c.name: self._values(c, index) for c in self._columns} or None,
            node_ids=numbers.numpy(),
            undirected=self.undirected,
            reading=self.reading,
        )

    def ids(self, start: int = 0, stop: int | None = None) -> Array:
        """The ids of the nodes `start` to `stop`, int64 or objects (text)."""
        start, stop, _ = slice(start, stop).indices(self.num_nodes)
        if stop <= start:
            return np.zeros(0, dtype=np.int64)
        with (
            refusing_damage(f"store: {self.path / IDS} cannot be read"),
            pq.ParquetFile(self.path / IDS) as file,
        ):
            ends = np.cumsum(
                [file.metadata.row_group(g).num_rows for g in range(file.num_row_groups)]
            )
            first, last = np.searchsorted(ends, [start, stop - 1], side="right").tolist()
            before = int(ends[first - 1]) if first else 0
            groups = list(range(first, last + 1))
            column = file.read_row_groups(groups, use_threads=False).column(0)
            if column.null_count:
                raise ValueError("an id is missing")
        self.check_current()
        return id_array(column.slice(start - before, stop - start).combine_chunks())

    def to_graph(self) -> GraphData:
        """The whole graph in memory.

        Raises:
            InputError: where it needs more memory than reading may take, or is a share.
        """
        if self.share is not None:
            raise InputError(
                f"{self.path} is one of {self.share.count} shards, and this needs the whole graph."
                " Train with batching='clusters', 'nodes' or 'neighbors', or on the whole store."
            )
        # Edges as int64, twice while they are put in order; the files of features and ids.
        needed = 40 * self.num_edges + 80 * self.num_nodes
        skipped = (INDPTR, INDICES, WEIGHT, DEGREE)
        needed += sum(f["bytes"] for name, f in self.about["files"].items() if name not in skipped)
        require_memory(needed, what=f"The graph of {self.path} as a whole")
        row = torch.repeat_interleave(torch.arange(self.num_nodes), torch.diff(self.indptr))
        col = self.indices.to(torch.int64)
        weight = None if self.weight is None else self.weight.clone()
        if not self.undirected:
            # A row receives from its columns.
            order = torch.argsort(col, stable=True)
            row, col = col[order], row[order]
            weight = None if weight is None else weight[order]
        whole = self.features(slice(None))
        return GraphData(
            torch.stack([row, col]),
            num_nodes=self.num_nodes,
            ptr=torch.tensor([0, self.num_nodes]),
            x=whole.x.clone() if isinstance(whole.x, Tensor) else whole.x,
            columns=whole.columns,
            edge_weight=weight,
            node_ids=self.ids(),
            y=self.labels,
            undirected=self.undirected,
            symmetrized=bool(self.about["symmetrized"]),
            notes=self.notes,
            reading=self.reading,
        )

    def fingerprints(self) -> dict[str, str]:
        """A fingerprint of each part of the input by its name in words, from the manifest.

        Those of a share are of the whole store.
        """
        if self.share is not None:
            return dict(self.share.about["fingerprints"])
        stated = {name: f"sha256:{file['sha256']}" for name, file in self.about["files"].items()}
        parts = {
            "edges": (INDPTR, INDICES),
            "edge weights": (WEIGHT,),
            "node ids": (IDS,),
            "feature matrix": (X, *X_PARTS),
            **{f"column '{column.name}'": column.files for column in self._columns},
        }
        return {
            part: " ".join(stated[name] for name in names if name in stated) or "none"
            for part, names in parts.items()
        }

    def __repr__(self) -> str:
        facts = [f"{name} {value}" for name, value in self._facts()]
        return f"GraphStore({str(self.path)!r}: {', '.join(facts)})"

    def _repr_html_(self) -> str:
        return html_table(f"GraphStore {self.path}", self._facts())

    def _facts(self) -> list[tuple[str, str]]:
        kind, dim = self.feature_kind, self.feature_dim
        words = {None: "none", "columns": counted(dim, "column")}
        return [
            ("nodes", f"{self.num_nodes:,}"),
            ("edges", f"{self.num_distinct_edges:,}{'' if self.undirected else ' directed'}"),
            ("weights", "yes" if self.weighted else "no"),
            ("features", words.get(kind, f"{dim:,} {kind}")),
            ("labels", "yes" if self.about["labels"] else "no"),
        ]

    @cached_property
    def _columns(self) -> tuple[StoredColumn, ...]:
        return tuple(StoredColumn(**each) for each in self.about["features"]["columns"])

    def _matrix_rows(self, index: Tensor | slice, numbers: Tensor) -> Tensor | SparseMatrix | None:
        if self.feature_kind == "dense":
            x = self._tensor(X)
            return x[index]
        if self.feature_kind == "sparse":
            shape = (self.num_nodes, self.feature_dim)
            parts = [self._tensor(name) for name in X_PARTS]
            return take_rows(SparseMatrix(parts[0], parts[1], parts[2], shape), numbers)
        return None

    def _values(self, column: StoredColumn, index: Tensor | slice) -> Array:
        values = column.values(self.path, index)
        self.check_current()
        return values

    def _tensor(self, name: str) -> Tensor:
        with refusing_damage(f"store: {self.path / name} cannot be read as an array"):
            tensor = torch.from_numpy(mapped(self.path / name))
        self.check_current()
        return tensor


def _version(folder: Path) -> tuple[int, ...] | None:
    """Which file the manifest in a folder is."""
    try:
        status = (folder / MANIFEST).stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_mtime_ns


AnyGraph: TypeAlias = GraphData | GraphStore
"""What a node estimator can be fitted on: graphs in memory, or one in a store."""
