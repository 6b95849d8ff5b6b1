"""Warnings about values that are far from the others, or from those that a model was fitted on."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from graphlatent.data.column_spec import ColumnSpec
from graphlatent.data.places import place_of
from graphlatent.display import are
from graphlatent.errors import warn

Array: TypeAlias = np.ndarray[Any, Any]

FAR = 1e6
"""Standard deviations from the mean; fitted values reach the square root of their number at most.
"""
_MOVED = 10
"""Distances between the fitted quartiles that a median of new values may be from the fitted one."""
_FEWEST = 20
"""Values whose median and quartiles say something about their unit."""
_OUTLIERS = 100
"""The standard deviation over the distance between the quartiles that comes from outliers."""


def warn_of_far_values(
    standard: Array, *, name: str, mean: float, std: float, node_ids: Array | None
) -> None:
    """Warn where a standardised column has values beyond `FAR`; most likely its unit is another.

    Args:
        standard: the column as it is encoded, (value - mean) / std [N].
        name: of the column.
        mean: of the fitted values.
        std: their standard deviation.
        node_ids: names of the nodes [N], for the message.
    """
    distance = np.abs(standard)
    # What float32 cannot hold is refused with a message of its own.
    far = (distance > FAR) & (distance < np.finfo(np.float32).max)
    if not far.any():
        return
    row = int(np.where(far, distance, 0).argmax())
    warn(
        f"Column '{name}' holds {standard[row] * std + mean:g} {place_of(row, node_ids)}, which is"
        f" {distance[row]:.2g} standard deviations from the mean of the fitted values ({mean:g},"
        f" standard deviation {std:g}); {are(int(far.sum()), 'value')} that far from it."
        " Embeddings of such rows say little. Check the unit of the column, or fit a new model."
    )


def median_and_spread(numbers: Array) -> dict[str, float]:
    """`median` and `spread` of a `ColumnSpec`; empty for few values, or equal quartiles."""
    if len(numbers) < _FEWEST:
        return {}
    low, median, high = np.percentile(numbers, [25, 50, 75]).tolist()
    # The rounding errors of equal values are no spread.
    if high - low <= 1e-6 * max(abs(low), abs(high)):
        return {}
    return {"median": median, "spread": high - low}


def warn_of_moved_median(numbers: Array, column: ColumnSpec) -> None:
    """Warn where the median of new values is far from the fitted one; most likely another unit.

    Outliers among the fitted values make the standard deviation large, so that `FAR` of them may
    not be reached by any value.

    Args:
        numbers: the new values, without missing ones [N].
        column: the encoding; nothing is known where its `spread` is 0.
    """
    if not column.spread or len(numbers) < _FEWEST:
        return
    median = float(np.median(numbers))
    distance = abs(median - column.median) / column.spread
    if distance > _MOVED:
        warn(
            f"The median of column '{column.name}' is {median:g}, but {column.median:g} when the"
            f" model was fitted: {distance:.2g} times the distance between the quartiles away."
            " Check the unit of the column, or fit a new model."
        )


def outlier_note(column: ColumnSpec) -> str:
    """What to do about a column that is standardised by its outliers; empty where it is not."""
    if not column.spread or column.scale <= _OUTLIERS * column.spread:
        return ""
    return (
        f"Column '{column.name}' has outliers: half of its values are within {column.spread:.4g} of"
        f" each other, but the standard deviation is {column.scale:.4g}, so that most values hardly"
        " differ once they are standardised. Correct the outliers, or give the column's logarithm."
    )
