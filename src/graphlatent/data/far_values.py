"""A warning about features of new nodes that are far from those that a model was fitted on."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from graphlatent.data.places import place_of
from graphlatent.display import are
from graphlatent.errors import warn

Array: TypeAlias = np.ndarray[Any, Any]

FAR = 1e6
"""Standard deviations from the mean; fitted values reach the square root of their number at most.
"""


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
