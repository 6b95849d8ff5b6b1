"""The row of the Weisfeiler-Lehman subtree kernel: whole graphs, without any training."""

from __future__ import annotations

from collections.abc import Sequence

from graphlatent.bench.context import CellContext
from graphlatent.bench.probing import kernel_grid
from graphlatent.bench.recipe import Recipe
from graphlatent.bench.rows.base import (
    CHOSEN,
    VALIDATION,
    Row,
    RowOutcome,
    RowPlan,
    TableRow,
    register,
    svm_lines,
)
from graphlatent.config import Level
from graphlatent.probes.svm import INNER_FOLDS, NESTED
from graphlatent.weisfeiler_lehman import subtree_kernels

ITERATIONS = (1, 2, 3, 4, 5)
"""Numbers of iterations that a fold chooses from."""


class WeisfeilerLehmanRow(Row):
    """Counts of Weisfeiler-Lehman labels (Shervashidze et al. 2011).

    The first label of a node is its row of encoded features: in sets without features its degree,
    capped as for every row of the cell.
    """

    name, label, seeded = "wl", "Weisfeiler-Lehman subtree kernel", False
    levels = ("graph",)

    def plan(self, recipe: Recipe) -> RowPlan:
        """SVMs on precomputed kernels, one kernel for each number of iterations."""
        return RowPlan(
            {"linear": kernel_grid(), "rbf": kernel_grid()},
            candidates={"iterations": list(ITERATIONS)},
        )

    def measure(self, cell: CellContext) -> RowOutcome:
        """The kernel as it is, and the RBF kernel of its distances with as many iterations."""
        kernels = subtree_kernels(cell.data.graph, iterations=max(ITERATIONS))
        named = {f"{h} iteration{'s' if h > 1 else ''}": kernels[h] for h in ITERATIONS}
        num_folds = len(cell.protocol().splits)
        linear = cell.probes.on_kernels(named, [list(named)] * num_folds, kernel="linear")
        chosen = [[prediction.choice.candidate] for prediction in linear]
        rbf = cell.probes.on_kernels(named, chosen, kernel="rbf")
        of_linear, of_rbf = (
            NESTED.format(
                what=f"number of iterations{by} and C", inner=INNER_FOLDS, metric="accuracy"
            )
            for by in ("", " (by the linear SVM)")
        )
        return RowOutcome(
            {
                CHOSEN: cell.final(linear, selection=of_linear),
                **cell.rbf_and_better(linear, rbf, name=VALIDATION, selection=of_rbf),
            }
        )

    def table_rows(self, level: Level) -> Sequence[TableRow]:
        """The kernel, its RBF kernel, and the better of both."""
        return svm_lines(self) if level == "graph" else []


WEISFEILER_LEHMAN = register(WeisfeilerLehmanRow())
