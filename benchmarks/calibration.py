"""Are the probabilities of fine-tuned classifiers those with which they are right?

    GRAPHLATENT_DATA=... python benchmarks/calibration.py [--sets MUTAG,IMDB-B] [--seeds 5]

10 % of the graphs have labels, of which a fifth are for validation. The reliability curve is that
of 80 % of the graphs, without and with the temperature fitted to the validation part. Writes
results/calibration.json beside this file.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import sys
from pathlib import Path

import numpy as np
import torch

from graphlatent import GraphLaGraph, GraphLaGraphClassifier, load_dataset
from graphlatent.data.splits import budget_splits
from graphlatent.finetuning.calibration import reliability_curve

OUT = Path(__file__).parent / "results" / "calibration.json"


def measure(name: str, seeds: int) -> dict[str, object]:
    """Confidence and frequency of being right, by bin, all seeds together."""
    data = load_dataset(name)
    y = np.asarray(data.graph.y)
    sure: dict[str, list[np.ndarray]] = {"without": [], "with": []}
    right, temperatures = [], []
    for seed in range(seeds):
        (split,) = budget_splits(y, train_ratio=0.1, seed=seed)
        known = np.full(len(y), -1)
        known[split.train] = y[split.train]
        start = GraphLaGraph(size="small", random_state=seed, device="cpu")
        fitted = GraphLaGraphClassifier(pretraining=start, random_state=seed).fit(data.graph, known)
        temperatures.append(float(fitted.head_.temperature))
        probability = fitted.predict_proba(data.graph)[split.test]
        sure["with"].append(probability.max(1))
        right.append(fitted.predict(data.graph)[split.test] == y[split.test])
        fitted.head_.temperature.fill_(1.0)
        sure["without"].append(fitted.predict_proba(data.graph)[split.test].max(1))
    found: dict[str, object] = {"accuracy": float(np.concatenate(right).mean())}
    for way, values in sure.items():
        curve = reliability_curve(np.concatenate(values), np.concatenate(right))
        each = [
            reliability_curve(s, r).calibration_error for s, r in zip(values, right, strict=True)
        ]
        found[way] = {
            "confidence": curve.confidence.round(4).tolist(),
            "frequency": curve.frequency.round(4).tolist(),
            "count": curve.count.tolist(),
            "calibration_error": curve.calibration_error,
            "calibration_error_of_seeds": each,
        }
    return {**found, "temperatures": temperatures}


def main() -> None:
    """Measure every set and write the record."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sets", default="MUTAG,IMDB-B")
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    record = {
        "command": " ".join(["python", "benchmarks/calibration.py", *sys.argv[1:]]),
        "date": datetime.date.today().isoformat(),
        "hardware": f"{platform.machine()} CPU, {torch.get_num_threads()} thread(s)",
        "seeds": options.seeds,
        "sets": {name: measure(name, options.seeds) for name in options.sets.split(",")},
    }
    OUT.write_text(json.dumps(record, indent=1) + "\n")
    for name, found in record["sets"].items():
        errors = [100 * found[way]["calibration_error"] for way in ("without", "with")]
        print(f"{name}: {errors[0]:.1f} points without the temperature, {errors[1]:.1f} with it")


if __name__ == "__main__":
    main()
