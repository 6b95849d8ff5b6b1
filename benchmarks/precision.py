"""What lower precision costs in quality: the defaults trained in fp32, tf32 and bf16 on a GPU, and
the linear probe's accuracy.

    python benchmarks/precision.py --sets Photo,CS --data ROOT --seeds 3 --splits 10 --json
    benchmarks/results/precision.json

Everything else is the same: seeds, masks, splits. The probe chooses per split on validation rows.
    Probes run in processes of their own.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch

from graphlatent import NodeLaGraph, load_dataset
from graphlatent.data.splits import random_splits
from graphlatent.probes.linear import linear_probe

PRECISIONS = ("fp32", "tf32", "bf16")


def probe(task: tuple[str, str, int, Any, Any, int]) -> dict[str, Any]:
    """The scores of one embedding."""
    name, precision, seed, rows, labels, num_splits = task
    torch.set_num_threads(1)
    result = linear_probe(rows, labels, splits=random_splits(len(rows), num_splits=num_splits))
    return {
        "set": name,
        "precision": precision,
        "seed": seed,
        "accuracies": [round(100 * a, 3) for a in result.scores],
    }


def main() -> None:
    """Train, probe, print a table and write the record."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--sets", default="Photo,CS")
    options.add_argument("--data", default=None, help="data root [default: GRAPHLATENT_DATA]")
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--splits", type=int, default=10)
    options.add_argument("--json", type=Path, default=None)
    args = options.parse_args()
    tasks, losses = [], {}
    for name in args.sets.split(","):
        graph = load_dataset(name, root=args.data).graph
        for precision in PRECISIONS:
            for seed in range(args.seeds):
                model = NodeLaGraph(precision=precision, random_state=seed).fit(graph)
                losses[name, precision, seed] = model.history_.loss[-1]
                tasks.append((name, precision, seed, model.transform(graph), graph.y, args.splits))
    with ProcessPoolExecutor(
        min(len(tasks), os.cpu_count() or 1), mp_context=torch.multiprocessing.get_context("spawn")
    ) as pool:
        found = list(pool.map(probe, tasks))
    for record in found:
        record["last_loss"] = losses[record["set"], record["precision"], record["seed"]]
        scores = f"{np.mean(record['accuracies']):.2f}, last loss {record['last_loss']:.4f}"
        print(record["set"], record["precision"], record["seed"], scores, flush=True)
    if args.json:
        about = {
            "command": (
                f"python benchmarks/precision.py --sets {args.sets} --data ROOT --seeds"
                f" {args.seeds} --splits {args.splits}"
            ),
            "hardware": torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU",
            "torch": torch.__version__,
            "date": datetime.date.today().isoformat(),
        }
        args.json.write_text(json.dumps({**about, "runs": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
