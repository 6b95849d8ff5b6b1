"""Seconds and peak memory of a whole `fit` on a real set, one engine in a process of its own.

python benchmarks/fit.py --set Physics --data ROOT --engine auto --epochs 200
"""

from __future__ import annotations

import argparse
import resource
import time

from graphlatent import NodeLaGraph, load_dataset


def main() -> None:
    """Fit once and print."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--set", default="Physics")
    options.add_argument("--data", default=None, help="data root [default: GRAPHLATENT_DATA]")
    options.add_argument("--engine", default="auto", choices=["auto", "general"])
    options.add_argument("--epochs", type=int, default=200)
    options.add_argument("--device", default="cpu")
    args = options.parse_args()
    graph = load_dataset(args.set, root=args.data).graph
    began = time.perf_counter()
    model = NodeLaGraph(epochs=args.epochs, engine=args.engine, device=args.device).fit(graph)
    seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    what = f"{args.set}, engine={args.engine}, {args.epochs} steps"
    print(
        f"{what}: {seconds:.1f} s, peak resident set {peak:.2f} GiB, last loss"
        f" {model.history_.loss[-1]:.4f}"
    )


if __name__ == "__main__":
    main()
