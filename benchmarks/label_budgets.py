"""Draw accuracy against the number of labelled graphs, from the records in results/.

python benchmarks/label_budgets.py [--out docs/images/label_budgets.png]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from graphlatent.bench.ledger import Record, read_ledger
from graphlatent.bench.loading import recipes_of
from graphlatent.bench.recipe import Recipe
from graphlatent.bench.rows import find_row
from graphlatent.bench.rows.base import CHOSEN
from graphlatent.bench.rows.finetuned import FROM_PROBE
from graphlatent.data.datasets import dataset_info
from graphlatent.report.colours import PALETTE
from graphlatent.report.plots import INK, new_figure, plain_frame, save_chart

ROOT = Path(__file__).parents[1]
LINES = {
    "few-raw": CHOSEN,
    "finetune-random": FROM_PROBE,
    "finetune-paper": FROM_PROBE,
    "finetune-defaults-random": FROM_PROBE,
    "finetune-defaults": FROM_PROBE,
}


def scores(records: list[Record], cell: Recipe, row: str) -> np.ndarray:
    """The mean test accuracy of each seed, in per cent."""
    found = [r for r in records if (r.cell, r.row) == (cell.name, row)]
    return np.array([100 * np.mean(r.results[LINES[row]].scores) for r in found])


def main() -> None:
    """One panel for each data set, one line for each row."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "images" / "label_budgets.png")
    options = parser.parse_args()
    records = read_ledger(ROOT / "results")
    cells = recipes_of("label-budgets")
    sets = list(dict.fromkeys(cell.dataset for cell in cells))
    figure = new_figure(5.2 * len(sets), 4.4)
    for i, name in enumerate(sets):
        axes = figure.add_subplot(1, len(sets), i + 1)
        own = [cell for cell in cells if cell.dataset == name]
        for color, row in zip(PALETTE, LINES, strict=False):
            points = []
            for cell in own:
                found = scores(records, cell, row)
                if len(found) and cell.labels is not None:
                    count = max(1, round(cell.labels.train * dataset_info(name).num_graphs))
                    # Standard error of the mean over seeds.
                    error = found.std(ddof=1) / len(found) ** 0.5 if len(found) > 1 else 0.0
                    points.append((count, found.mean(), error))
            if points:
                x, mean, error = map(np.array, zip(*points, strict=True))
                label = find_row(row).label
                axes.errorbar(
                    x, mean, error, color=color, marker="o", markersize=3.5, capsize=2, label=label
                )
        axes.set_xscale("log")
        counts = [round(c.labels.train * dataset_info(name).num_graphs) for c in own if c.labels]
        axes.set_xticks([max(1, count) for count in counts], [str(max(1, c)) for c in counts])
        axes.minorticks_off()
        axes.set_title(name, fontsize=11, color=INK, loc="left")
        axes.set_xlabel("graphs with a label to train on", fontsize=10, color=INK)
        axes.set_ylabel("test accuracy in %", fontsize=10, color=INK)
        plain_frame(axes)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncol=2, fontsize=9, frameon=False)
    print(save_chart(figure, options.out))


if __name__ == "__main__":
    main()
