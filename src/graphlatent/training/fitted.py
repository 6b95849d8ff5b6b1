"""From a trained model to one that embeds: batch-norm statistics, head, and its embeddings."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from graphlatent.data.batches import Batch
from graphlatent.methods.base import Method
from graphlatent.nn.norm import has_statistics, measure_statistics
from graphlatent.training.finite import check_statistics, fit_head

if TYPE_CHECKING:
    from graphlatent.training.loop import Training


def finish_model(method: Method[Any], model: nn.Module, everything: Callable[[], Batch]) -> None:
    """Measure batch-norm statistics, and fit the head, on all of the training set; in place.

    Raises:
        NonFiniteLossError, InputError: as `check_statistics`.
    """
    if not has_statistics(model) and not hasattr(model, "head"):
        return
    batch = everything()
    if has_statistics(model):
        measure_statistics(model, lambda: method.measure(model, batch))
        check_statistics(model, method.settings)
    fit_head(method, model, batch)


def current_embedding(training: Training) -> Tensor:
    """The embeddings of the training set if training ended here, float32 [M, D] on the CPU."""
    import torch

    with torch.no_grad():
        model = copy.deepcopy(training.model)
        finish_model(training.method, model, training.everything)
        rows = training.method.embed(model.eval(), training.everything())
    return rows.detach().to("cpu", torch.float32)
