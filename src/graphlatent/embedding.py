"""Embeddings of graphs by a trained model, with the user's ids."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import torch
from torch import Tensor, nn

from graphlatent.config import Level
from graphlatent.data.batches import Batch, GraphBatches
from graphlatent.data.graph import GraphData
from graphlatent.data.memory_limit import require_memory
from graphlatent.display import counted, html_table
from graphlatent.errors import InputError, OutputError
from graphlatent.io.atomic import refuse_unwritable, write_atomically
from graphlatent.io.half import as_half, short_decimals
from graphlatent.io.parquet import write_parquet
from graphlatent.io.paths import checked_path
from graphlatent.io.word2vec import check_names, write_word2vec
from graphlatent.methods.base import Method
from graphlatent.ops.collective import current, from_first, gathered_rows, rank, world_size

SUFFIXES = (".parquet", ".npz", ".csv")
WORD2VEC = ".vec"
# Rows and columns that a notebook shows.
_SHOWN = 5


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

    def __repr__(self) -> str:
        rows = counted(len(self.values), "node" if self.id_name == "id" else "graph")
        return f"Embeddings({rows}, {counted(self.values.shape[1], 'column')})"

    def _repr_html_(self) -> str:
        first = [*self.names[:_SHOWN], *(["..."] if len(self.names) > _SHOWN else [])]
        more = ["..."] * (len(first) > _SHOWN)
        rows = [
            [self.ids[i], *(f"{value:.4g}" for value in self.values[i, :_SHOWN]), *more]
            for i in range(min(_SHOWN, len(self.values)))
        ]
        rows += [["..."] * (1 + len(first))] if len(self.values) > _SHOWN else []
        return html_table(repr(self), rows, head=[self.id_name, *first])

    @property
    def names(self) -> list[str]:
        """The column names of the values: e0, e1 and so on."""
        return [f"e{i}" for i in range(self.values.shape[1])]

    def to_arrow(self) -> pa.Table:
        """A `pyarrow.Table` with the ids first and one float column per dimension.

        Ids of mixed types become text.
        """
        return self._arrow(self.values)

    def _arrow(self, values: np.ndarray[Any, Any]) -> pa.Table:
        columns = {}
        if self.graphs is not None:
            columns["graph"] = pa.array(storable_ids(self.graphs).tolist())
        columns[self.id_name] = pa.array(storable_ids(self.ids).tolist())
        columns |= {name: pa.array(values[:, i]) for i, name in enumerate(self.names)}
        return pa.table(columns)

    def to_pandas(self) -> pd.DataFrame:
        """A `pandas.DataFrame` indexed by id, or by (graph, id) for nodes of several graphs."""
        return pd.DataFrame(self.values, columns=self.names, index=self._index())

    def _index(self) -> pd.Index[Any]:
        index: pd.Index[Any] = pd.Index(self.ids, name=self.id_name, tupleize_cols=False)
        if self.graphs is None:
            return index
        return pd.MultiIndex.from_arrays([self.graphs, index], names=["graph", self.id_name])

    def most_similar(self, ids: Any, k: int = 10) -> pd.DataFrame:
        """The most similar other rows of some ids, by the cosine of their angle.

        All rows are compared. Equal similarities are in the order of the rows.

        Args:
            ids: one id or a list of them; (graph, id) for nodes of several graphs.
            k: how many neighbours of each; all others where there are fewer.

        Returns:
            One row per id and neighbour, the most similar first: the id, rank (from 1), the
            neighbour's id and the similarity, from -1 to 1.

        Raises:
            InputError: where an id has no embedding.
        """
        from graphlatent.explore.neighbours import most_similar

        return most_similar(self, ids, k)

    def cluster(self, k: int, *, seed: int = 0, restarts: int = 3) -> pd.Series[Any]:
        """The cluster of every row, by k-means on the rows as they are.

        Args:
            k: number of clusters.
            seed: of the random starts.
            restarts: number of starts, of which the best is kept.

        Returns:
            Numbers of clusters from 0, the largest first, indexed as `to_pandas()` is.

        Raises:
            InputError: where there are fewer rows than clusters.
        """
        from graphlatent.explore.clusters import cluster_by_size

        clusters = cluster_by_size(self.values, k, restarts=restarts, seed=seed)
        return pd.Series(clusters, index=self._index(), name="cluster")

    def outliers(
        self,
        *,
        neighbours: int = 5,
        error: Any = None,
        by: Literal["distance", "error"] = "distance",
    ) -> pd.DataFrame:
        """The rows in the order of how unusual they are, the most unusual first.

        Of more than 20,000 rows, the nearest are looked for in the nearest k-means cells only.

        Args:
            neighbours: to how many of its nearest rows the distance of a row is averaged.
            error: reconstruction error of each row, as `estimator.reconstruction_error(graph)`
                returns it.
            by: the distance, or the error.

        Returns:
            Ids, 'distance' (mean cosine distance to the nearest rows, 0 to 2) and, where it was
            given, 'reconstruction_error'.
        """
        from graphlatent.explore.outliers import outliers

        return outliers(self, neighbours=neighbours, error=error, by=by)

    def predict_links(self, graph: GraphData, k: int, *, seed: int = 0) -> pd.DataFrame:
        """The `k` pairs of nodes without an edge that look most like the edges of a graph.

        Both directions of an edge count as one, and pairs are of the same graph. Up to 10,000 nodes
        all pairs are scored; of more, pairs of near nodes, of nodes near to a neighbour, and of
        nodes that share a neighbour. `graphlatent links` measures how well edges can be predicted.

        Args:
            graph: whose nodes are embedded; from `read_graphs`.
            k: how many pairs.
            seed: of the pairs that the score is fitted on.

        Returns:
            Ids of both nodes, 'score' (estimated probability that there is an edge), 'similarity'
            (cosine) and 'shared_neighbours', the best first.

        Raises:
            InputError: where a node of the graph has no embedding, or there is nothing to predict.
        """
        from graphlatent.explore.link_table import link_table

        return link_table(self, graph, k, seed=seed)[0]

    def reduced(self, dim: int) -> Embeddings:
        """The first `dim` principal components of the rows, for smaller files and faster search.

        Raises:
            ConfigError: where `dim` is not between 1 and the width.
        """
        from graphlatent.explore.reduction import principal_components

        return replace(self, values=principal_components(self.values, dim))

    def save(self, path: str | Path, *, overwrite: bool = False, float16: bool = False) -> Path:
        """Write a `.parquet`, `.npz` (arrays 'ids' and 'embeddings') or `.csv` file, atomically.

        Parquet files have a checksum, which is compared when they are read. `.vec` is the text
        format of word2vec.

        Args:
            path: of the file; its suffix is the format.
            overwrite: whether a file that is there may be replaced.
            float16: write three digits, in half the space.

        Raises:
            OutputError: where the suffix is unknown, the file exists, or it cannot be written.
        """
        path = checked_path(path, name="path", owner="Embeddings.save")
        check_embedding_path(path, overwrite=overwrite)
        writers = {
            ".parquet": self._write_parquet,
            ".npz": self._write_npz,
            ".csv": self._write_csv,
            WORD2VEC: self._write_word2vec,
        }
        values = as_half(self.values) if float16 else self.values
        write = writers[path.suffix.lower()]
        write_atomically(path, lambda to: write(to, values))
        return path

    def _write_parquet(self, path: Path, values: np.ndarray[Any, Any]) -> None:
        try:
            write_parquet(self._arrow(values), path)
        except pa.ArrowNotImplementedError as error:
            raise OutputError(
                f"This version of pyarrow, {pa.__version__}, cannot write float16 to Parquet."
                " Install a newer one, or save as .npz."
            ) from error

    def _write_npz(self, path: Path, values: np.ndarray[Any, Any]) -> None:
        arrays = {"ids": _fixed_width(storable_ids(self.ids)), "embeddings": values}
        if self.graphs is not None:
            arrays["graphs"] = _fixed_width(storable_ids(self.graphs))
        with path.open("wb") as file:
            np.savez_compressed(file, **arrays)  # type: ignore[arg-type]

    def _write_csv(self, path: Path, values: np.ndarray[Any, Any]) -> None:
        pyarrow.csv.write_csv(self._arrow(_for_text(values)), path)

    def _write_word2vec(self, path: Path, values: np.ndarray[Any, Any]) -> None:
        if self.graphs is not None:
            raise OutputError(
                "Nodes of several graphs have two ids, and word2vec's format has one name for each"
                " row. Choose another format."
            )
        names = [str(each) for each in storable_ids(self.ids).tolist()]
        check_names(names)
        write_word2vec(names, _for_text(values), path)


def _for_text(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return short_decimals(values) if values.dtype == np.float16 else values


def storable_ids(ids: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Ids as int64, or text as objects; others, such as tuples or mixed types, by their `repr`.

    Raises `OutputError` where different ids have the same `repr`.
    """
    if ids.dtype != object:
        return ids
    values = ids.tolist()
    types = {type(value) for value in values}
    if types == {str}:
        return ids
    if types <= {int, np.int64} and all(-(2**63) <= value < 2**63 for value in values):
        return ids.astype(np.int64)
    texts = [repr(value) for value in values]
    if len(set(texts)) != len(set(values)):
        raise OutputError(
            "Different ids are written as the same text, so a file would mix them up. Rename the"
            " nodes or graphs to integers or text."
        )
    return np.fromiter(texts, dtype=object, count=len(texts))


def _fixed_width(ids: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Storable ids as a `.npz` file without pickle holds them."""
    if ids.dtype != object:
        return ids
    num_bytes = 4 * len(ids) * max(map(len, ids), default=0)
    require_memory(num_bytes, what="An .npz file, in which all ids are as long as the longest,")
    texts = ids.astype(np.str_)
    if texts.tolist() != ids.tolist():
        raise OutputError(
            "An id ends with a NUL character, which NumPy cuts off. Save the embeddings as"
            " .parquet."
        )
    return texts


def check_embedding_path(path: Path, *, overwrite: bool) -> None:
    """Raise an `OutputError` where embeddings cannot be saved under `path`.

    For use before a long computation.
    """
    if path.suffix.lower() not in (*SUFFIXES, WORD2VEC):
        known = ", ".join((*SUFFIXES, WORD2VEC))
        raise OutputError(f"Embeddings are written as {known}. Got '{path.name}'.")
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


def unembedded_rows(graph: GraphData, *, level: Level) -> Embeddings:
    """The nodes or graphs of `graph` with their ids, and with no values yet: [M, 0]."""
    if level == "node":
        return node_embeddings(np.empty((graph.num_nodes, 0), np.float32), graph)
    return graph_embeddings(np.empty((graph.num_graphs, 0), np.float32), graph)


def _graph_ids(graph: GraphData) -> np.ndarray[Any, Any]:
    return np.arange(graph.num_graphs) if graph.graph_ids is None else graph.graph_ids


def check_finite_rows(embeddings: Embeddings, *, model: nn.Module, where: str = "") -> Embeddings:
    """The embeddings as they are.

    Args:
        embeddings: all, or some.
        model: by which they were computed.
        where: which they are, for the message.

    Raises:
        InputError: where one holds a value that is NaN or infinite; names the first.
    """
    # The extremes are NaN where a value is; no matrix of truth values is made.
    values = torch.from_numpy(embeddings.values)
    if not values.numel() or all(bool(torch.isfinite(end)) for end in torch.aminmax(values)):
        return embeddings
    broken = np.flatnonzero(~np.isfinite(embeddings.values).all(axis=1))
    if not all(bool(torch.isfinite(v).all()) for v in model.state_dict().values()):
        reason = "the model's weights are not finite. Train again with a smaller lr."
    else:
        reason = (
            "its features or edge weights, or those of its neighbours, are too far from those that"
            " the model was fitted on. Check their units, or fit a new model."
        )
    first, kind = int(broken[0]), "node" if embeddings.id_name == "id" else "graph"
    graph = "" if embeddings.graphs is None else f" of graph {embeddings.graphs[first]!s}"
    raise InputError(
        f"{len(broken)} of {len(values)} embeddings{where} are not finite numbers, the first that"
        f" of {kind} {embeddings.ids[first]!s}{graph}: {reason}"
    )


@torch.no_grad()
def embedded_rows(method: Method[Any], model: nn.Module, batch: Batch) -> Tensor:
    """The embeddings of a batch by a trained model, [N, D] of nodes or [B, D] of graphs."""
    return method.embed(model.eval(), batch)


def shared_rows(
    method: Method[Any], model: nn.Module, batch: Batch, ptr: Tensor
) -> np.ndarray[Any, Any]:
    """The embeddings of a batch [M, D]; of several processes each computes some of the graphs.

    Embeddings of nodes are computed by the first process. All processes return all rows.

    Args:
        method: embeds.
        model: trained.
        batch: whole graphs.
        ptr: first node of each graph and the end, int64 [graphs + 1].
    """
    if current() is None:
        return embedded_rows(method, model, batch).cpu().numpy()
    if method.level == "node":
        _, found = from_first(lambda: (None, {"rows": embedded_rows(method, model, batch)}))
        return found["rows"].numpy()
    own = torch.tensor_split(torch.arange(batch.num_graphs), world_size())[rank()]
    source = GraphBatches(batch, ptr, batch_size=max(1, len(own)))
    part = source.take(own.to(batch.graph_id.device))
    return torch.cat(gathered_rows(embedded_rows(method, model, part))).cpu().numpy()
