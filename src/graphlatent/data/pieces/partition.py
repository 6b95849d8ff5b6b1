"""A partition of the nodes of a graph into parts of about one size with few edges between them."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from graphlatent.data.csr import CSRGraph
from graphlatent.data.memory_limit import memory_limit, readable
from graphlatent.data.pieces.growing import grown_parts
from graphlatent.errors import MissingDependencyError, OutputError, warn
from graphlatent.io.atomic import write_atomically
from graphlatent.io.regular_files import open_regular

# Memory that METIS takes, in bytes per node and per stored edge: measured, see docs/scale.md.
_NODE_BYTES, _EDGE_BYTES = 200, 140
# METIS is silent, for minutes from so many stored edges on.
_LONG_EDGES = 10_000_000
# Changed where the partition of a graph changes, so that a cached one is not used then.
_VERSION = 2
_HASHED = 1 << 24


def partition(graph: CSRGraph, num_parts: int, *, cache: Path | None = None) -> Tensor:
    """The part of each node, int64 [N], of `num_parts` parts; the same each time.

    It is METIS's where its memory suffices, and otherwise that of `growing.grown_parts`.

    Args:
        graph: by rows.
        num_parts: at least 1.
        cache: a folder in which the partition of a graph is kept, if it can be written to and is no
            link; None keeps none.

    Raises:
        MissingDependencyError: where pymetis is not installed.

    Warns:
        GraphLatentWarning: where METIS would take too much memory, or takes long.
    """
    if num_parts <= 1:
        return torch.zeros(graph.num_nodes, dtype=torch.int64)
    if cache is None or cache.is_symlink():
        return _computed(graph, num_parts)
    path = cache / f"parts-{num_parts}-{structure_fingerprint(graph)}.bin"
    known = _read(path, graph.num_nodes, num_parts)
    if known is not None:
        return known
    parts = _computed(graph, num_parts)
    # A store may be on a disk that is only read.
    with suppress(OutputError):
        write_atomically(path, lambda temporary: _write(temporary, parts))
    return parts


def metis_bytes(num_nodes: int, num_edges: int) -> int:
    """About the memory that METIS takes for a graph, in bytes."""
    return _NODE_BYTES * num_nodes + _EDGE_BYTES * num_edges


def has_metis() -> bool:
    """Whether METIS is available."""
    try:
        import pymetis  # noqa: F401
    except ImportError:
        return False
    return True


def structure_fingerprint(graph: CSRGraph) -> str:
    """16 hex digits of a graph's rows and edges, without weights; read in blocks."""
    digest = hashlib.blake2b(f"{_VERSION} {graph.undirected}".encode(), digest_size=8)
    for values in (graph.indptr, graph.indices):
        for block in torch.split(values, _HASHED):
            digest.update(np.ascontiguousarray(block.to(torch.int64).numpy()).data)
    return digest.hexdigest()


def _computed(graph: CSRGraph, num_parts: int) -> Tensor:
    if not has_metis():
        raise MissingDependencyError(
            "batching='clusters' needs the package 'pymetis'. Install it with: pip install"
            " 'graphlatent[scale]'. Or use batching='neighbors', which does without."
        )
    needed, limit = metis_bytes(graph.num_nodes, graph.num_edges), memory_limit()
    if needed > limit:
        warn(
            f"METIS would need about {readable(needed)} of memory for this graph, and"
            f" {readable(limit)} may be used: its parts come from label propagation, with more"
            " edges between them."
        )
        return grown_parts(graph, num_parts)
    if graph.num_edges >= _LONG_EDGES:
        warn(
            f"METIS cuts the graph into {num_parts:,} parts, which takes minutes for"
            f" {graph.num_edges:,} stored edges. Those of a store are kept in it for the next time."
        )
    return _metis(graph, num_parts)


def _metis(graph: CSRGraph, num_parts: int) -> Tensor:
    import pymetis

    starts, ends = _symmetric(graph)
    adjacency = pymetis.CSRAdjacency(adj_starts=starts, adjacent=ends)
    options = pymetis.Options(seed=0)
    _, parts = pymetis.part_graph(num_parts, adjacency, options=options)
    return torch.from_numpy(np.asarray(parts, dtype=np.int64))


def _symmetric(graph: CSRGraph) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Row starts and ends of the edges in both directions without self-loops, as METIS takes them.

    Both are int64.
    """
    indptr, indices = graph.indptr.numpy(), graph.indices.numpy()
    ones = np.ones(len(indices), dtype=np.int8)
    shape = (graph.num_nodes, graph.num_nodes)
    matrix = sp.csr_matrix((ones, indices, indptr), shape=shape)
    if not graph.undirected:
        matrix = (matrix + matrix.T).tocsr()
    row = np.repeat(np.arange(shape[0]), np.diff(matrix.indptr))
    between = row != matrix.indices
    starts = np.zeros(shape[0] + 1, dtype=np.int64)
    np.cumsum(np.bincount(row[between], minlength=shape[0]), out=starts[1:])
    return starts, matrix.indices[between].astype(np.int64)


def _write(path: Path, parts: Tensor) -> None:
    """Write the parts as little-endian int32, behind the SHA-256 of these bytes."""
    content = parts.numpy().astype("<i4").tobytes()
    path.write_bytes(hashlib.sha256(content).digest() + content)


def _read(path: Path, num_nodes: int, num_parts: int) -> Tensor | None:
    """A cached partition; None where there is none, or it is damaged."""
    size = hashlib.sha256().digest_size
    try:
        with open_regular(path, most=size + 4 * num_nodes) as file:
            content = file.read()
    except OSError:
        return None
    if len(content) != size + 4 * num_nodes or path.is_symlink():
        return None
    if hashlib.sha256(content[size:]).digest() != content[:size]:
        return None
    values = np.frombuffer(content, "<i4", offset=size)
    if num_nodes and not (values.min() >= 0 and values.max() < num_parts):
        return None
    return torch.from_numpy(values.astype(np.int64))
