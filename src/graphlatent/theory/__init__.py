"""The paper's theorems on graphs whose latent features are known: both sides, estimated."""

from graphlatent.theory.bounds import (
    BOUNDS,
    BoundEstimate,
    Estimate,
    readout_constant,
    theory_alpha,
)
from graphlatent.theory.estimation import LatentPredictor, Masker, Sampling, estimate_bound
from graphlatent.theory.lipschitz import lipschitz_constant
from graphlatent.theory.runs import (
    BoundRun,
    LatentGraphOptions,
    bound_runs,
    bound_table,
    smallest_gap,
)
from graphlatent.theory.trained import BoundPoint, bound_of, bound_through_training

__all__ = [
    "BOUNDS",
    "BoundEstimate",
    "BoundPoint",
    "BoundRun",
    "Estimate",
    "LatentGraphOptions",
    "LatentPredictor",
    "Masker",
    "Sampling",
    "bound_of",
    "bound_runs",
    "bound_table",
    "bound_through_training",
    "estimate_bound",
    "lipschitz_constant",
    "readout_constant",
    "smallest_gap",
    "theory_alpha",
]
