"""Shards of a store by cluster, with what processes with different shards need in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from graphlatent.data.csr import CSRGraph, MatrixRows
from graphlatent.data.pieces.growing import grown_parts
from graphlatent.data.pieces.partition import has_metis, partition
from graphlatent.data.store.shards import write_shards, written_shards
from graphlatent.data.store.store import GraphStore
from graphlatent.errors import InputError, bad_argument, warn
from graphlatent.training.stored_encoding import encodings_for_shards


def shard_store(
    store: GraphStore,
    count: int,
    *,
    told: Callable[[str, int], None] = lambda stage, rows: None,
) -> tuple[dict[str, Any], bool]:
    """Write the shards of a store, clusters with few edges between them, into its folder 'shards'.

    Shards of another number are replaced once the new ones are complete.

    Args:
        store: the whole graph.
        count: number of shards, one for each process.
        told: is called with the stage and the number of rows that it has done.

    Returns:
        What shards.json says of them, and whether they were written: not where they were there.

    Raises:
        ConfigError: where `count` is no number of shards.
        InputError: where a shard would have no node.
        OutputError: where the folder cannot be written.
    """
    if isinstance(count, bool) or not isinstance(count, int) or count < 2:
        raise bad_argument(
            "count", owner="shard_store", allowed="a whole number of at least 2", got=count
        )
    known = written_shards(store, count=count)
    if known is not None:
        return known, False
    if count > store.num_nodes:
        raise InputError(
            f"{store.path}: {count} shards of {store.num_nodes:,} nodes would leave some without"
            " any. Ask for fewer."
        )
    told("finding clusters", store.num_nodes)
    parts = _clusters(store, count)
    told("fitting encodings of features", store.num_nodes)
    about = encodings_for_shards(store)
    return write_shards(store, parts, count=count, about=about, told=told), True


def _clusters(store: GraphStore, count: int) -> torch.Tensor:
    rows = MatrixRows(torch.zeros(store.num_nodes, 0))
    graph = CSRGraph(store.indptr, store.indices, store.weight, rows, undirected=store.undirected)
    if has_metis():
        return partition(graph, count, cache=store.cache)
    warn(
        "The package 'pymetis' is not installed: the shards come from label propagation, with more"
        " edges between them. Install it with: pip install 'graphlatent[scale]'."
    )
    return grown_parts(graph, count)
