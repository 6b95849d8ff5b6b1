"""Seconds and peak memory of embedding a large graph layer by layer, from memory-mapped arrays.

python benchmarks/layerwise.py --nodes 1000000 --edges 20000000

Makes an undirected graph of communities, with features that are a vector of the community and
noise, as .npy files in a temporary folder. A randomly initialised model of the default preset is
finished on it (batch-norm statistics, fit of the head) and then embeds it to a file. Peak resident
set sizes include the pages of memory-mapped files.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from harness import resident

from graphlatent import NodeLaGraph
from graphlatent.config import resolve
from graphlatent.data.csr import CSRGraph, MatrixRows
from graphlatent.embedding_files import embed_to_file
from graphlatent.ops.row_blocks import MEMORY
from graphlatent.training.fitted import finish_model_by_rows
from graphlatent.training.loop import seeded

NUM_COMMUNITIES, INSIDE = 100, 0.7


def make_graph(folder: Path, *, num_nodes: int, num_edges: int, num_features: int) -> None:
    """Write indptr.npy, indices.npy (int32) and x.npy of a random graph."""
    rng = np.random.default_rng(0)
    community = rng.integers(0, NUM_COMMUNITIES, num_nodes)
    members = np.argsort(community, kind="stable")
    begin = np.searchsorted(community[members], np.arange(NUM_COMMUNITIES + 1))
    source, target = rng.integers(0, num_nodes, (2, num_edges), dtype=np.int64)
    inside = rng.random(num_edges) < INSIDE
    of = community[source[inside]]
    place = begin[of] + (rng.random(len(of)) * (begin[of + 1] - begin[of])).astype(np.int64)
    target[inside] = members[place]
    key = np.concatenate([source * num_nodes + target, target * num_nodes + source])
    key.sort()
    key = key[np.concatenate([[True], key[1:] != key[:-1]])]
    row, col = key // num_nodes, key % num_nodes
    indptr = np.zeros(num_nodes + 1, dtype=np.int64)
    indptr[1:] = np.cumsum(np.bincount(row, minlength=num_nodes))
    np.save(folder / "indptr.npy", indptr)
    np.save(folder / "indices.npy", col.astype(np.int32))
    vectors = rng.normal(size=(NUM_COMMUNITIES, num_features)).astype(np.float32)
    x = np.lib.format.open_memmap(
        folder / "x.npy", mode="w+", dtype=np.float32, shape=(num_nodes, num_features)
    )
    for start in range(0, num_nodes, 100_000):
        rows = vectors[community[start : start + 100_000]]
        x[start : start + 100_000] = rows + 2 * rng.normal(size=rows.shape)
    x.flush()


def mapped(path: Path) -> torch.Tensor:
    """An array of a file, memory-mapped."""
    return torch.from_numpy(np.load(path, mmap_mode="c"))


def main() -> None:
    """Make a graph, embed it, and print."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--nodes", type=int, default=100_000)
    options.add_argument("--edges", type=int, default=2_000_000)
    options.add_argument("--features", type=int, default=128)
    options.add_argument("--hidden", type=int, default=128)
    options.add_argument("--memory", type=int, default=MEMORY, help="bytes of a block")
    options.add_argument("--format", default="npy", choices=["npy", "parquet"])
    options.add_argument("--folder", default=None, help="where files go [default: the system's]")
    options.add_argument("--stages", action="store_true", help="also print seconds of each stage")
    options.add_argument("--make", type=Path, default=None, help=argparse.SUPPRESS)
    args = options.parse_args()
    sizes = {"num_nodes": args.nodes, "num_edges": args.edges, "num_features": args.features}
    if args.make:
        make_graph(args.make, **sizes)
        return
    with tempfile.TemporaryDirectory(dir=args.folder) as name:
        folder = Path(name)
        # In a process of its own, so that its memory does not count.
        command = [sys.executable, __file__, "--make", name]
        for option in ("nodes", "edges", "features"):
            command += [f"--{option}", str(getattr(args, option))]
        subprocess.run(command, check=True)
        x = MatrixRows(mapped(folder / "x.npy"))
        graph = CSRGraph(mapped(folder / "indptr.npy"), mapped(folder / "indices.npy"), None, x)
        print(f"{graph.num_nodes:,} nodes, {graph.num_edges:,} stored edges")
        settings = resolve(NodeLaGraph(hidden_dim=args.hidden), owner="NodeLaGraph")
        method = NodeLaGraph.method(settings, level="node")
        model = method.build_with_head(args.features, generator=seeded(0, 0))
        print(f"before: {resident('VmRSS') / 2**30:.2f} GiB; {torch.get_num_threads()} threads")
        where = {"memory": args.memory, "progress": Stages() if args.stages else quiet}
        for what in ("finish", "embed"):
            Path("/proc/self/clear_refs").write_text("5")
            began = time.perf_counter()
            if what == "finish":
                finish_model_by_rows(method, model, graph, folder=folder, **where)
            else:
                path = folder / f"embeddings.{args.format}"
                embed_to_file(method, model, graph, path, fingerprint="benchmark", **where)
            seconds, peak = time.perf_counter() - began, resident("VmHWM") / 2**30
            print(f"{what}: {seconds:.1f} s, peak resident set {peak:.2f} GiB", flush=True)
        print(f"steps of the averages: {int((model.head.steps > 0).sum()) - 1}")


def quiet(stage: str, done: int, total: int) -> None:
    """Print nothing."""


class Stages:
    """Prints the seconds of every stage."""

    def __init__(self) -> None:
        self.began = time.perf_counter()

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Print the stage if it is finished."""
        if done == total:
            now = time.perf_counter()
            size = resident("VmRSS") / 2**30
            print(f"  {stage}: {now - self.began:.1f} s, {size:.2f} GiB", flush=True)
            self.began = now


if __name__ == "__main__":
    main()
