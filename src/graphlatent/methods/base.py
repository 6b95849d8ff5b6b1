"""What a self-supervised method is: the contract that the rest of the package knows it by.

A method builds a model, computes the named terms of its loss in a training step, may act after an
optimizer step (moving averages), and encodes. Training, checkpoints, history, progress bar, plots,
estimators, command line and bench know a method through this file alone. docs/adding_a_method.md
walks through a new one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, Literal, TypeAlias, TypeVar

import torch
from torch import Tensor, nn

from graphlatent.config import Level, Settings
from graphlatent.data.batches import Batch, BatchSource, EdgeList, Structure
from graphlatent.nn.encoders import GNNEncoder
from graphlatent.ops.sparse import SparseMatrix


@dataclass(frozen=True, eq=False)
class Term:
    """One named part of a loss, kept as a sum and a count.

    Sums of several micro-batches or processes are added before anything is divided, because the
    root of a mean does not split.

    Args:
        sum: sum of the errors, a scalar with a gradient.
        count: what to divide it by; less than 1 counts as 1.
        weight: of the term in the loss.
        shape: 'mean' is sum / count, 'root' is its square root.
    """

    sum: Tensor
    count: float | Tensor
    weight: float = 1.0
    shape: Literal["mean", "root"] = "mean"

    @property
    def value(self) -> Tensor:
        """The term before it is multiplied by its weight, a scalar."""
        count = self.count
        mean = self.sum / (count.clamp(min=1) if isinstance(count, Tensor) else max(count, 1.0))
        return safe_sqrt(mean) if self.shape == "root" else mean

    def __add__(self, other: Term) -> Term:
        return replace(self, sum=self.sum + other.sum, count=self.count + other.count)


Terms: TypeAlias = Mapping[str, Term]


@dataclass(frozen=True, eq=False)
class Loss:
    """The weighted sum of the terms, and each term's own value before weighting; scalars."""

    total: Tensor
    values: Mapping[str, Tensor]


def combine(terms: Terms) -> Loss:
    """The loss of terms whose sums may have been added over micro-batches or processes."""
    values = {name: term.value for name, term in terms.items()}
    weighted = [
        value if terms[name].weight == 1.0 else terms[name].weight * value
        for name, value in values.items()
    ]
    total = weighted[0]
    for value in weighted[1:]:
        total = total + value
    return Loss(total, values)


def add_terms(first: Terms, second: Terms) -> dict[str, Term]:
    """The terms of two micro-batches together."""
    return {name: term + second[name] for name, term in first.items()}


def safe_sqrt(value: Tensor) -> Tensor:
    """The square root, with value 0 and gradient 0 at 0."""
    positive = value > 0
    root = torch.sqrt(torch.where(positive, value, torch.ones_like(value)))
    return torch.where(positive, root, torch.zeros_like(value))


AnySettings = TypeVar("AnySettings", bound=Settings)


class Method(ABC, Generic[AnySettings]):
    """One self-supervised method with its settings.

    Args:
        settings: resolved (`config.resolve`).
        level: what is embedded, 'node' or 'graph'.

    The model that `build` returns must have an attribute `encoder` (nn/encoders.py). State that
    training changes belongs into the model, as parameters or buffers, so that checkpoints keep it.
    """

    name: ClassVar[str]
    """What the method is called on the command line and in recipes."""
    term_names: ClassVar[tuple[str, ...]]
    """The terms that `step` returns, in this order."""
    fixed_shapes: ClassVar[bool] = False
    """No tensor's shape in `step` depends on values, and nothing makes the host wait for a GPU."""

    def __init__(self, settings: AnySettings, *, level: Level) -> None:
        self.settings, self.level = settings, level

    @abstractmethod
    def build(self, in_dim: int, *, generator: torch.Generator) -> nn.Module:
        """A freshly initialised model for features of width `in_dim`, on the CPU in float32."""

    @abstractmethod
    def step(self, model: nn.Module, batch: Batch, *, generator: torch.Generator) -> Terms:
        """The terms of the loss on one batch.

        Args:
            model: in training mode.
            batch: one step's input; `batch.counts`, where given, says which rows count.
            generator: source of all randomness, on the batch's device.
        """

    # What most methods leave as it is.

    def encode(self, model: nn.Module, batch: Batch) -> list[Tensor]:
        """The output of every encoder layer, each [N, H]: what an embedding is read from."""
        layers: list[Tensor] = model.encoder.layers(  # type: ignore[union-attr, operator]
            batch.x, batch.structure
        )
        return layers

    def after_step(self, model: nn.Module) -> None:
        """Update what the optimizer does not, such as a moving average. Part of a captured step."""

    def check_features(self, x: Tensor | SparseMatrix) -> None:
        """Raise an `InputError` where the method cannot work on these features."""

    def prepare(self, model: nn.Module, edges: EdgeList) -> Structure:
        """What the model propagates with, precomputed once for fixed edges."""
        structure: Structure = model.encoder.prepare(edges)  # type: ignore[union-attr, operator]
        return structure

    def begin(self, model: nn.Module, source: BatchSource) -> BatchSource:
        """Precompute what no step changes; may return another source of the same batches.

        Called once, before the first step.
        """
        return source

    def chooses_feature_form(self, model: nn.Module) -> bool:
        """Whether features may be turned dense or sparse, whichever multiplies faster."""
        return isinstance(model.encoder, GNNEncoder)

    def can_capture(self, model: nn.Module) -> bool:
        """Whether a step on a GPU may be captured as a CUDA graph."""
        return self.fixed_shapes and isinstance(model.encoder, GNNEncoder)

    def after_epoch(self, values: Mapping[str, float]) -> bool:
        """Look at an epoch's mean terms; True where later steps are computed in another way.

        Captured steps are then captured again. On a GPU not every epoch is looked at.
        """
        return False

    def state(self) -> dict[str, Any]:
        """What a checkpoint must keep besides the model: plain values, as for JSON."""
        return {}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go back to what `state` returned."""

    def measure(self, model: nn.Module, batch: Batch) -> None:
        """Run every part of the model whose batch-norm statistics are needed after training."""
        self.encode(model, batch)
