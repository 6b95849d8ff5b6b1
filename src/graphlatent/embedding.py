"""Embeddings of graphs by a trained model, with the user's ids."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import torch
from torch import Tensor, nn

from graphlatent.data.batches import Batch
from graphlatent.data.graph import GraphData
from graphlatent.errors import OutputError
from graphlatent.io.atomic import refuse_unwritable, write_atomically
from graphlatent.io.paths import checked_path
from graphlatent.methods.base import Method

SUFFIXES = (".parquet", ".npz", ".csv")


@dataclass(frozen=True, eq=False)
class Embeddings:
    """Embeddings, one row per node or graph.

    Args:
        values: float32 [M, D].
        ids: the user's id of each row [M].
        id_name: name of the id column, 'id' for nodes or 'graph' for graphs.
        graphs: graph of each node [M], where nodes of several graphs were embedded; else None.
    """

    values: np.ndarray[Any, np.dtype[np.float32]]
    ids: np.ndarray[Any, Any]
    id_name: str = "id"
    graphs: np.ndarray[Any, Any] | None = None

    @property
    def names(self) -> list[str]:
        """The column names of the values: e0, e1 and so on."""
        return [f"e{i}" for i in range(self.values.shape[1])]

    def to_arrow(self) -> pa.Table:
        """A `pyarrow.Table` with the ids first and one float column per dimension.

        Ids of mixed types become text.
        """
        columns = {}
        if self.graphs is not None:
            columns["graph"] = pa.array(_storable(self.graphs).tolist())
        columns[self.id_name] = pa.array(_storable(self.ids).tolist())
        columns |= {name: pa.array(self.values[:, i]) for i, name in enumerate(self.names)}
        return pa.table(columns)

    def to_pandas(self) -> pd.DataFrame:
        """A `pandas.DataFrame` indexed by id, or by (graph, id) for nodes of several graphs."""
        index: pd.Index[Any] = pd.Index(self.ids, name=self.id_name, tupleize_cols=False)
        if self.graphs is not None:
            index = pd.MultiIndex.from_arrays([self.graphs, index], names=["graph", self.id_name])
        return pd.DataFrame(self.values, columns=self.names, index=index)

    def save(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write a `.parquet`, `.npz` (arrays 'ids' and 'embeddings') or `.csv` file, atomically.

        Raises:
            OutputError: where the suffix is unknown, the file exists, or it cannot be written.
        """
        path = checked_path(path, name="path", owner="Embeddings.save")
        check_embedding_path(path, overwrite=overwrite)
        writers = {
            ".parquet": self._write_parquet,
            ".npz": self._write_npz,
            ".csv": self._write_csv,
        }
        write_atomically(path, writers[path.suffix.lower()])
        return path

    def _write_parquet(self, path: Path) -> None:
        pyarrow.parquet.write_table(self.to_arrow(), path)

    def _write_npz(self, path: Path) -> None:
        arrays = {"ids": _storable(self.ids), "embeddings": self.values}
        if self.graphs is not None:
            arrays["graphs"] = _storable(self.graphs)
        with path.open("wb") as file:
            np.savez_compressed(file, **arrays)  # type: ignore[arg-type]

    def _write_csv(self, path: Path) -> None:
        pyarrow.csv.write_csv(self.to_arrow(), path)


def _storable(ids: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Ids as numbers or text; others, such as tuples or mixed types, by their `repr`."""
    if ids.dtype != object:
        return ids
    types = {type(value) for value in ids}
    if types == {str}:
        return ids.astype(str)
    if types <= {int, np.int64}:
        return ids.astype(np.int64)
    return np.array([repr(value) for value in ids])


def check_embedding_path(path: Path, *, overwrite: bool) -> None:
    """Raise an `OutputError` where embeddings cannot be saved under `path`.

    For use before a long computation.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise OutputError(f"Embeddings are written as {', '.join(SUFFIXES)}. Got '{path.name}'.")
    refuse_unwritable(path, overwrite=overwrite)


def node_embeddings(values: np.ndarray[Any, np.dtype[np.float32]], graph: GraphData) -> Embeddings:
    """The rows `values` [N, D] of the nodes of `graph`, with their ids."""
    ids = np.arange(graph.num_nodes) if graph.node_ids is None else graph.node_ids
    if graph.num_graphs == 1:
        return Embeddings(values, ids)
    return Embeddings(values, ids, graphs=_graph_ids(graph)[graph.graph_of_node.numpy()])


def graph_embeddings(values: np.ndarray[Any, np.dtype[np.float32]], graph: GraphData) -> Embeddings:
    """The rows `values` [B, D] of the graphs in `graph`, with their ids."""
    return Embeddings(values, _graph_ids(graph), id_name="graph")


def _graph_ids(graph: GraphData) -> np.ndarray[Any, Any]:
    return np.arange(graph.num_graphs) if graph.graph_ids is None else graph.graph_ids


@torch.no_grad()
def embedded_rows(method: Method[Any], model: nn.Module, batch: Batch) -> Tensor:
    """The embeddings of a batch by a trained model, [N, D] of nodes or [B, D] of graphs."""
    return method.embed(model.eval(), batch)
