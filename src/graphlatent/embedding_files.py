"""Embeddings of a graph by rows: computed in blocks, into memory or streamed to a file.

What is computed on the way is in temporary arrays beside the file. Where the process is killed,
calling the function again goes on at the block at which it was, to the same bytes.
"""

from __future__ import annotations

import copy
import hashlib
import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor, nn

from graphlatent._version import __version__
from graphlatent.config import to_mapping
from graphlatent.data.csr import CSRGraph
from graphlatent.embedding import Embeddings, check_finite_rows
from graphlatent.errors import GraphLatentError, InputError, OutputError
from graphlatent.io.atomic import move_into_place, refuse_unwritable
from graphlatent.io.lock import FolderLock
from graphlatent.io.parquet import write_row_groups
from graphlatent.io.paths import checked_path
from graphlatent.io.scratch import Progress, Scratch, ScratchArray, no_progress
from graphlatent.methods.base import Method
from graphlatent.ops.row_blocks import MEMORY, BlockPlan, Rows
from graphlatent.training.layerwise import Layerwise, check_layerwise
from graphlatent.training.layerwise_head import embedding_rows

SUFFIXES = (".npy", ".parquet")
Ids = Callable[[int, int], np.ndarray[Any, Any]]
"""The ids of the nodes from one to another."""


def numbers(start: int, stop: int) -> np.ndarray[Any, Any]:
    """The numbers of the nodes, for graphs whose nodes have no ids."""
    return np.arange(start, stop)


@torch.no_grad()
def embed_by_rows(
    method: Method[Any],
    model: nn.Module,
    graph: CSRGraph,
    *,
    ids: Ids = numbers,
    memory: int = MEMORY,
    block_rows: int | None = None,
    folder: Path | None = None,
    progress: Progress = no_progress,
) -> np.ndarray[Any, np.dtype[np.float32]]:
    """The embeddings of the nodes of a graph by rows, float32 [N, D] in memory.

    Args:
        method: of the model.
        model: finished (`finish_model_by_rows`).
        graph: with encoded features.
        ids: of nodes, for messages.
        memory: about how many bytes a block may take.
        block_rows: rows of a block instead; None for as many as fit.
        folder: where temporary files go, in a folder of their own; None for the system's.
        progress: is told of every block.

    Raises:
        ConfigError: where the model cannot embed a graph layer by layer.
        InputError: where an embedding is not finite.
        OutputError: where there is no room for temporary files.
    """
    check_layerwise(method, model)
    plan = BlockPlan(graph.indptr, memory, block_rows)
    with tempfile.TemporaryDirectory(prefix="graphlatent-", dir=folder) as temporary:
        scratch = Scratch(Path(temporary) / "arrays", graph.num_nodes, progress=progress)
        run, local = Layerwise.of(model, graph, plan, scratch), _on_cpu(model)
        width, rows = embedding_rows(run, method, local)
        rows = _checked(rows, local, ids)
        out = np.empty((graph.num_nodes, width), dtype=np.float32)
        for start, stop in _output_blocks(run, width):
            out[start:stop] = rows(start, stop).numpy()
            progress("embeddings", stop, graph.num_nodes)
    return out


@torch.no_grad()
def embed_to_file(
    method: Method[Any],
    model: nn.Module,
    graph: CSRGraph,
    path: str | Path,
    *,
    fingerprint: str,
    of_run: str | None = None,
    ids: Ids = numbers,
    memory: int = MEMORY,
    block_rows: int | None = None,
    overwrite: bool = False,
    progress: Progress = no_progress,
) -> Path:
    """Write the embeddings of the nodes of a graph by rows to a file, in bounded memory.

    A `.npy` file has the float32 matrix [N, D] alone; a `.parquet` file is one of
    `Embeddings.save`, with ids, written row group by row group. The file appears when it is
    complete. Temporary arrays are in a folder beside it, '.NAME.parts', which a killed process
    leaves behind: the same call goes on from there, another one deletes it.

    Args:
        method: of the model.
        model: finished (`finish_model_by_rows`).
        graph: with encoded features.
        path: of the file; its suffix is the format.
        fingerprint: of the graph with its encoded features and ids, by which a call is known to be
            the same.
        of_run: identity of the run that a `.parquet` file belongs to, or None.
        ids: of nodes.
        memory: about how many bytes a block may take.
        block_rows: rows of a block instead; None for as many as fit.
        overwrite: whether a file that is there may be replaced.
        progress: is told of every block.

    Raises:
        ConfigError: where the model cannot embed a graph layer by layer.
        InputError: where an embedding is not finite; names the first.
        OutputError: where the suffix is unknown, the file exists, or it cannot be written.
    """
    path = checked_path(path, name="path", owner="embed_to_file")
    if path.suffix.lower() not in SUFFIXES:
        raise OutputError(
            f"Embeddings of a large graph are written as {' or '.join(SUFFIXES)}. Got"
            f" '{path.name}'. Write one of these and convert it, part by part."
        )
    refuse_unwritable(path, overwrite=overwrite)
    check_layerwise(method, model)
    local, plan = _on_cpu(model), BlockPlan(graph.indptr, memory, block_rows)
    parts = path.with_name(f".{path.name}.parts")
    with FolderLock(parts).held():
        key = _key(method, local, plan, graph, fingerprint)
        scratch = Scratch(parts, graph.num_nodes, key=key, progress=progress)
        try:
            run = Layerwise.of(local, graph, plan, scratch)
            width, rows = embedding_rows(run, method, local)
            blocks = _output_blocks(run, width)
            array = scratch.fill("embeddings", width, blocks, _checked(rows, local, ids))
            complete = array.path
            if path.suffix.lower() == ".parquet":
                complete = array.path.with_suffix(".parquet")
                _write_parquet(array, run, ids, complete, of_run=of_run)
            move_into_place(complete, path)
        except GraphLatentError:
            scratch.remove()
            raise
        except OSError as error:
            scratch.remove()
            raise OutputError(
                f"Cannot write {path}: {error.strerror or error}. Choose another path, or make room"
                " and rights there."
            ) from error
        scratch.remove()
    return path


def _output_blocks(run: Layerwise, width: int) -> list[tuple[int, int]]:
    """The blocks in which embeddings are computed, from about as many columns again."""
    return run.blocks(2 * width)


def _checked(rows: Rows, model: nn.Module, ids: Ids) -> Rows:
    """The same rows, of which each block is checked."""

    def checked(start: int, stop: int) -> Tensor:
        values = rows(start, stop)
        # The ids are needed for a message only.
        if not bool(torch.isfinite(values).all()):
            where = f" (rows {start} to {stop - 1})"
            block = Embeddings(values.numpy(), ids(start, stop))
            check_finite_rows(block, model=model, where=where)
        return values

    return checked


def _write_parquet(
    array: ScratchArray, run: Layerwise, ids: Ids, path: Path, *, of_run: str | None
) -> None:
    """Write an array with ids, block by block; a block is a row group."""

    def tables() -> Iterator[pa.Table]:
        schema = None
        for start, stop in _output_blocks(run, array.shape[1]) or [(0, 0)]:
            table = Embeddings(array.rows(start, stop).numpy(), ids(start, stop)).to_arrow()
            schema = table.schema if schema is None else schema
            if table.schema != schema:
                raise InputError(
                    f"The ids of the first nodes are of type {schema.field(0).type}, those of nodes"
                    f" {start} to {stop - 1} of type {table.schema.field(0).type}. Use integers, or"
                    " text, for all."
                )
            yield table
            run.scratch.progress("file", stop, run.num_nodes)

    write_row_groups(tables(), path, run=of_run)


def _on_cpu(model: nn.Module) -> nn.Module:
    """The model in evaluation mode on the CPU; a copy where it is elsewhere."""
    on_cpu = all(each.device.type == "cpu" for each in model.parameters())
    return (model if on_cpu else copy.deepcopy(model).cpu()).eval()


def _key(
    method: Method[Any], model: nn.Module, plan: BlockPlan, graph: CSRGraph, fingerprint: str
) -> str:
    """What names everything that the embeddings and their blocks depend on."""
    digest = hashlib.sha256()
    for name, value in model.state_dict().items():
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}\n".encode())
        digest.update(value.detach().contiguous().numpy().tobytes())
    about = {
        "version": __version__,
        "torch": torch.__version__,
        "method": method.name,
        "settings": to_mapping(method.settings),
        "model": digest.hexdigest(),
        "graph": fingerprint,
        "sizes": [graph.num_nodes, graph.num_edges, graph.x.shape[1], graph.undirected],
        "blocks": [plan.memory, plan.block_rows],
    }
    return hashlib.sha256(json.dumps(about, sort_keys=True, default=str).encode()).hexdigest()
