"""The losses of fine-tuning: cross-entropy of classes, binary cross-entropy of several labels.

Legend: M rows, K classes or labels.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from graphlatent.finetuning.labels import UNLABELLED


def label_loss(logits: Tensor, codes: Tensor, weights: Tensor) -> Tensor:
    """The weighted mean loss of labelled entries, a scalar; 0 where there is none.

    Classes: sum_v w(y_v) * -log softmax(z_v)[y_v] / sum_v w(y_v). Several labels: the same over
    entries, with -log sigmoid(z) of a 1 and -log sigmoid(-z) of a 0.

    Args:
        logits: z [M, K].
        codes: y, int64 [M] or [M, K]; -1 where a label is missing.
        weights: of `labels.label_weights`.
    """
    known = codes != UNLABELLED
    if codes.ndim == 1:
        target = codes[known]
        each = functional.cross_entropy(logits[known], target, reduction="none")
        weight = weights.to(logits)[target]
    else:
        target = codes.clamp(min=0)
        each = functional.binary_cross_entropy_with_logits(
            logits, target.to(logits), reduction="none"
        )
        weight = torch.where(target == 1, weights[1].to(logits), weights[0].to(logits)) * known
    total = weight.sum()
    return (weight * each).sum() / torch.where(total > 0, total, torch.ones_like(total))


def probabilities(logits: Tensor, *, multilabel: bool) -> Tensor:
    """Of classes, rows that sum to 1; of several labels, one probability each, [M, K]."""
    return torch.sigmoid(logits) if multilabel else torch.softmax(logits, dim=1)
