"""Random graphs of communities as Parquet tables, written by blocks in bounded memory.

    python benchmarks/scale_data.py FOLDER --nodes 1000000 --edges 20000000 --features 64

Writes FOLDER/edges/part-*.parquet (source, target), and, with features, FOLDER/nodes.parquet (id)
and FOLDER/x.npy with rows in the order of the node table. Ids are text such as 'user-00001234' in
random order: neither the order of rows nor that of ids says which nodes are close. Features are a
vector of the community and noise.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

Array: TypeAlias = np.ndarray[Any, Any]
COMMUNITY, INSIDE = 10_000, 0.7
"""Nodes of a community, and the share of edges within one."""
BLOCK = 1_000_000
FILE = 10_000_000


def edge_blocks(num_nodes: int, num_edges: int, *, seed: int = 0) -> Iterator[tuple[Array, Array]]:
    """Both ends of the edges, a block at a time; nodes of a community have neighbouring numbers."""
    rng = np.random.default_rng(seed)
    for start in range(0, num_edges, BLOCK):
        size = min(BLOCK, num_edges - start)
        source = rng.integers(0, num_nodes, size)
        target = rng.integers(0, num_nodes, size)
        inside = rng.random(size) < INSIDE
        near = source - source % COMMUNITY + rng.integers(0, COMMUNITY, size)
        target[inside] = np.minimum(near, num_nodes - 1)[inside]
        yield source, target


def ids_of(number: Array, num_nodes: int) -> Any:
    """The ids of nodes: their numbers shuffled, as text of 13 bytes."""
    # Multiplying by a number without a common factor permutes 0 to N - 1.
    factor = next(f for f in range(int(0.618 * num_nodes), num_nodes + 2) if _coprime(f, num_nodes))
    digits = pc.cast(pa.array(number * factor % num_nodes), pa.string())
    return pc.binary_join_element_wise("user-", pc.utf8_lpad(digits, 8, "0"), "")


def _coprime(factor: int, size: int) -> bool:
    return factor > 0 and math.gcd(factor, size) == 1


def write_edges(folder: Path, *, num_nodes: int, num_edges: int) -> None:
    """Write the edge table as files of up to 10 million rows."""
    folder.mkdir(parents=True)
    schema = pa.schema({"source": pa.string(), "target": pa.string()})
    writer = None
    for i, ends in enumerate(edge_blocks(num_nodes, num_edges)):
        if i * BLOCK % FILE == 0:
            if writer is not None:
                writer.close()
            writer = pq.ParquetWriter(folder / f"part-{i * BLOCK // FILE:04d}.parquet", schema)
        columns = [ids_of(end, num_nodes) for end in ends]
        writer.write_table(pa.table(columns, schema=schema))
    if writer is not None:
        writer.close()


def write_nodes(folder: Path, *, num_nodes: int, num_features: int) -> None:
    """Write the node table and the feature matrix."""
    rng = np.random.default_rng(1)
    vectors = rng.normal(size=(-(-num_nodes // COMMUNITY), num_features)).astype(np.float32)
    x = np.lib.format.open_memmap(
        folder / "x.npy", mode="w+", dtype=np.float32, shape=(num_nodes, num_features)
    )
    with pq.ParquetWriter(folder / "nodes.parquet", pa.schema({"id": pa.string()})) as writer:
        for start in range(0, num_nodes, BLOCK):
            number = np.arange(start, min(start + BLOCK, num_nodes))
            writer.write_table(pa.table({"id": ids_of(number, num_nodes)}))
            noise = rng.standard_normal((len(number), num_features), dtype=np.float32)
            x[number] = vectors[number // COMMUNITY] + 2 * noise
    x.flush()


def main() -> None:
    """Write the tables."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("folder", type=Path)
    options.add_argument("--nodes", type=int, required=True)
    options.add_argument("--edges", type=int, required=True)
    options.add_argument("--features", type=int, default=0)
    args = options.parse_args()
    write_edges(args.folder / "edges", num_nodes=args.nodes, num_edges=args.edges)
    if args.features:
        write_nodes(args.folder, num_nodes=args.nodes, num_features=args.features)


if __name__ == "__main__":
    main()
