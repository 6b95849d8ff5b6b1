"""Bounds through several trainings, as a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pandas as pd
from sklearn.base import clone

from graphlatent.data.synthetic import LatentGraph, LatentGraphSet, latent_graph, latent_graph_set
from graphlatent.errors import bad_argument
from graphlatent.estimator import Estimator
from graphlatent.theory.bounds import BOUNDS, Form
from graphlatent.theory.estimation import Sampling
from graphlatent.theory.trained import BoundPoint, bound_through_training

FORMS: tuple[Form, Form] = ("printed", "corrected")


@dataclass(frozen=True)
class LatentGraphOptions:
    """Which synthetic graphs are made; those of graph level are 40 small ones.

    Args:
        num_nodes: of the one graph at node level.
        feature_dim: d.
        sigma: standard deviation of the noise; the mean square of a latent feature is 1.
        homophily: share of the edges inside a community, at node level.
    """

    num_nodes: int = 300
    feature_dim: int = 16
    sigma: float = 1.0
    homophily: float = 0.7

    def make(self, level: str, *, seed: int) -> LatentGraph | LatentGraphSet:
        """The graph or graphs of a seed."""
        if level == "graph":
            width = self.feature_dim
            return latent_graph_set(num_graphs=40, feature_dim=width, sigma=self.sigma, seed=seed)
        return latent_graph(
            num_nodes=self.num_nodes,
            feature_dim=self.feature_dim,
            sigma=self.sigma,
            homophily=self.homophily,
            seed=seed,
        )


@dataclass(frozen=True, eq=False)
class BoundRun:
    """The bounds at several epochs of one training."""

    seed: int
    points: tuple[BoundPoint, ...]

    def holds(self, bound: str, *, form: Form = "corrected") -> bool:
        """Whether a bound holds at every logged epoch."""
        return all(point.estimate.holds(bound, form=form) for point in self.points)


def bound_runs(
    estimator: Estimator,
    options: LatentGraphOptions,
    *,
    seeds: int = 5,
    points: int = 6,
    sampling: Sampling | None = None,
) -> Iterator[BoundRun]:
    """Bounds through trainings on a new graph each, with consecutive seeds.

    Args:
        estimator: its `random_state` is the first seed.
        options: of the graphs.
        seeds: number of trainings.
        points: number of logged epochs, evenly spaced from 0 to the last.
        sampling: number of masks and draws, and what is compared.
    """
    for name, value, least in (("seeds", seeds, 1), ("points", points, 1)):
        if value < least:
            allowed = f"an int of {least} or more"
            raise bad_argument(name, owner="bound_runs", allowed=allowed, got=value)
    last = estimator._resolved().epochs
    epochs = sorted({round(last * i / max(points - 1, 1)) for i in range(points)})
    for seed in range(estimator.random_state, estimator.random_state + seeds):
        made = options.make(estimator.level, seed=seed)
        each = clone(estimator).set_params(random_state=seed)
        traced = bound_through_training(
            each,
            made,
            epochs=epochs,
            sampling=sampling,
            seed=seed,
        )
        yield BoundRun(seed, tuple(traced))


def bound_table(runs: Sequence[BoundRun], *, bounds: Sequence[str] = BOUNDS) -> pd.DataFrame:
    """One row per seed and epoch: both sides, and gaps with their standard errors."""
    rows = []
    for run in runs:
        for point in run.points:
            estimate = point.estimate
            row = {"seed": run.seed, "epoch": point.epoch, "error_of_f": estimate.error.value}
            row["left"] = estimate.left.value
            for bound in bounds:
                for form in FORMS:
                    gap = estimate.gap(bound, form=form)
                    name = f"{bound}_{form}"
                    row[name] = estimate.right(bound, form=form).value
                    row[f"{name}_gap"], row[f"{name}_gap_se"] = gap.value, gap.standard_error
            row["lipschitz"] = estimate.lipschitz
            row["readout_constant"] = estimate.readout_constant
            row["readout_ratio"] = estimate.readout_ratio
            rows.append(row)
    return pd.DataFrame(rows)


def smallest_gap(runs: Sequence[BoundRun], bound: str, *, form: Form) -> BoundPoint:
    """The logged point at which the right side exceeds the left one least."""
    points = [point for run in runs for point in run.points]
    return min(points, key=lambda point: point.estimate.gap(bound, form=form).value)
