"""What training does to an embedding: how far it moves from that of the untrained encoder, and
whether it collapses.

    python benchmarks/collapse.py --cells table1/MUTAG,table2/Photo --data ROOT --json
    benchmarks/results/collapse.json

Trains with a cell's settings, its learning rate and alpha replaced where others are named, and
takes the embedding of all nodes or graphs after some epochs, in eval mode, without the features
appended. Columns are standardised, constant ones left out.

Effective rank: the exponential of the entropy of the shares of the eigenvalues of the columns'
    correlations, in words how many directions
carry the embedding; it falls where an embedding collapses. Likeness: linear CKA to the untrained
encoder's embedding, 1 where the two differ by a rotation and a scale alone.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from graphlatent import GraphLaGraph, NodeLaGraph
from graphlatent.bench.data import load_bundle
from graphlatent.bench.loading import load_recipe


def standardised(rows: np.ndarray) -> np.ndarray:
    """Columns of mean 0 and variance 1, in float64; constant ones left out."""
    centred = rows.astype(np.float64) - rows.mean(0, dtype=np.float64)
    scale = centred.std(0)
    kept = scale > 1e-6 * scale.max()
    return centred[:, kept] / scale[kept]


def effective_rank(rows: np.ndarray) -> float:
    """Between 1 and the number of columns that are not constant."""
    share = np.linalg.eigvalsh(rows.T @ rows).clip(0)
    share = share[share > 0] / share.sum()
    return float(np.exp(-(share * np.log(share)).sum()))


def likeness(rows: np.ndarray, others: np.ndarray) -> float:
    """Linear CKA of two embeddings of the same nodes or graphs, both centred: between 0 and 1."""
    across = np.linalg.norm(rows.T @ others) ** 2
    return float(across / (np.linalg.norm(rows.T @ rows) * np.linalg.norm(others.T @ others)))


def measure(
    cell: str,
    *,
    root: Path | None,
    rates: list[float],
    alphas: list[float],
    epochs: list[int],
    seed: int,
) -> list[dict[str, Any]]:
    """One entry for each setting and epoch."""
    recipe = load_recipe(cell)
    data = load_bundle(recipe, root)
    own = recipe.settings()
    found = []
    for rate in dict.fromkeys([own.lr, *rates]):
        for alpha in dict.fromkeys([own.alpha, *alphas]):
            settings = replace(
                own,
                lr=rate,
                alpha=alpha,
                epochs=max(epochs),
                random_state=seed,
                device="cpu",
                progress=False,
            )
            node = recipe.level == "node"
            estimator = (
                NodeLaGraph(**{**vars(settings), "concat_input": False})
                if node
                else GraphLaGraph(**vars(settings))
            )
            first = None
            for epoch, then in estimator.snapshots(data.train_graph, epochs=[0, *epochs]):
                rows = standardised(then.transform(data.graph))
                first = rows if first is None else first
                as_printed = rate == own.lr and alpha == own.alpha
                found.append(
                    {
                        "cell": cell,
                        "lr": rate,
                        "alpha": alpha,
                        "of the paper": as_printed,
                        "epoch": epoch,
                    }
                )
                found[-1] |= {
                    "columns": rows.shape[1],
                    "effective_rank": effective_rank(rows),
                    "likeness": likeness(rows, first),
                }
                print(found[-1], flush=True)
    return found


def main() -> None:
    """Measure, print and write the record."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument(
        "--cells", default="table1/MUTAG,table1/PROTEINS,table1/NCI1,table1/IMDB-B"
    )
    options.add_argument("--rates", default="1e-3", help="learning rates beside the cell's own")
    options.add_argument(
        "--alphas", default="", help="weights of the invariance term beside the cell's own"
    )
    options.add_argument("--epochs", default="5,20,50")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument(
        "--data", type=Path, default=None, help="data root [default: GRAPHLATENT_DATA]"
    )
    options.add_argument("--json", type=Path, default=None, help="appended to where it is there")
    args = options.parse_args()
    rates, alphas = (
        [float(value) for value in text.split(",") if value] for text in (args.rates, args.alphas)
    )
    epochs = [int(value) for value in args.epochs.split(",")]
    runs = []
    for cell in args.cells.split(","):
        runs += measure(
            cell, root=args.data, rates=rates, alphas=alphas, epochs=epochs, seed=args.seed
        )
    if args.json:
        named = (
            f"--cells {args.cells} --rates {args.rates!r} --alphas {args.alphas!r} --epochs"
            f" {args.epochs} --seed {args.seed}"
        )
        about = {
            "command": f"python benchmarks/collapse.py {named} --data ROOT",
            "hardware": f"{os.cpu_count()} CPU cores ({platform.machine()})",
            "versions": {"torch": torch.__version__},
            "date": datetime.date.today().isoformat(),
        }
        before = json.loads(args.json.read_text()) if args.json.exists() else []
        args.json.write_text(json.dumps([*before, {**about, "runs": runs}], indent=1) + "\n")


if __name__ == "__main__":
    main()
