"""Fine-tuning: epochs of gradient steps on the labelled rows, through the pre-trained encoder.

Batch norm keeps the statistics that were measured on the pre-training graphs, and trains its weight
and bias. Statistics of a few labelled graphs would be noisy, they would differ from those used in
prediction, and a head fitted on the frozen embedding would no longer fit it.
Legend: M rows (nodes or graphs), D columns of an embedding, K classes or labels.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import InitVar, dataclass, field
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from graphlatent.data.batches import GraphBatches
from graphlatent.data.graph import GraphData
from graphlatent.errors import NonFiniteLossError
from graphlatent.estimator import Estimator
from graphlatent.finetuning.head import DEFAULT_L2, PROBE_L2, ClassifierHead
from graphlatent.finetuning.labels import PartialLabels
from graphlatent.finetuning.loss import label_loss
from graphlatent.finetuning.settings import FineTuneSettings
from graphlatent.nn.combined_graph_head import CombinedGraphHead
from graphlatent.nn.norm import BatchNorm
from graphlatent.training.setup import suited_threads

Array = np.ndarray[Any, Any]
# Graphs that are predicted at once.
_PREDICTED_AT_ONCE = 512
State = dict[str, Tensor]


@dataclass(frozen=True)
class EpochRecord:
    """The losses of one epoch.

    Args:
        epoch: from 1; 0 is before the first step.
        loss: mean over the epoch's batches; NaN for epoch 0.
        val_loss: of the validation rows after it; NaN where there are none.
    """

    epoch: int
    loss: float
    val_loss: float


@dataclass(eq=False)
class FineTuner:
    """An encoder and a head in training.

    Args:
        estimator: fitted; its encoder is trained, so give a copy (`tunable_copy`).
        graph: with encoded features.
        labels: of its nodes or graphs.
        train: numbers of the rows to train on.
        weights: of `labels.label_weights`.
        settings: of fine-tuning.
        rows: the embeddings of all rows, where they are known.
    """

    estimator: Estimator
    graph: GraphData
    labels: PartialLabels
    train: Array
    weights: Tensor
    settings: FineTuneSettings
    rows: InitVar[Tensor | None] = None
    head: ClassifierHead = field(init=False)

    def __post_init__(self, rows: Tensor | None) -> None:
        self.everything = self.estimator._batch(self.graph)
        device = self.everything.graph_id.device
        self.codes = torch.from_numpy(self.labels.codes).to(device)
        self.encoder = cast(nn.Module, self.estimator.model_.encoder)
        self.encoder.requires_grad_(True)
        self.source = None
        if self.estimator.level == "graph":
            size = self.settings.batch_size
            self.source = GraphBatches(self.everything, self.graph.ptr, batch_size=size)
        self.generator = torch.Generator().manual_seed(self.settings.random_state * 4 + 2)
        head = ClassifierHead(self.estimator.embedding_dim_, len(self.labels.classes))
        self.head = head.to(device)
        rows = self.embed(np.arange(len(self.labels.codes))) if rows is None else rows
        weighted = has_weighted_columns(self.estimator)
        self.head.fit_scale(rows, same=weighted, generator=self.generator)
        self.optimizer = torch.optim.Adam(
            [*self.encoder.parameters(), *self.head.linear.parameters()],
            lr=self.settings.lr,
            weight_decay=self.settings.weight_decay,
        )

    @torch.no_grad()
    def embed(self, rows: Array) -> Tensor:
        """The embeddings of some rows in evaluation mode, without a gradient."""
        self.estimator.model_.eval()
        with suited_threads(self.graph, self.estimator.settings_, whole=self.source is None):
            if self.source is None:
                return self._embedded(torch.from_numpy(rows))
            parts = torch.split(torch.from_numpy(rows), _PREDICTED_AT_ONCE)
            return torch.cat([self._embedded(part) for part in parts])

    def _embedded(self, rows: Tensor) -> Tensor:
        """The embeddings of some rows, [rows, D], with a gradient where it is enabled."""
        method, model = self.estimator.method_, self.estimator.model_
        rows = rows.to(self.codes.device)
        if self.source is None:
            return method.embed(model, self.everything)[rows]
        return method.embed(model, self.source.take(rows))

    def fit_probe(self, val: Array) -> float:
        """Set the head to a linear probe of the frozen embedding; its L2 weight.

        That is the one with the lowest loss on the validation rows `val`, `DEFAULT_L2` where there
        are none.
        """
        l2 = torch.tensor(PROBE_L2 if len(val) else (DEFAULT_L2,), dtype=torch.float64)
        rows = torch.from_numpy(self.train)
        found = self.head.fit_probe(
            self.embed(self.train), self.codes[rows.to(self.codes.device)], self.weights, l2
        )
        losses = []
        embedded = self.embed(val) if len(found) > 1 else None
        for coefficients in found:
            self.head.set_linear(coefficients)
            losses.append(0.0 if embedded is None else self._loss_of(embedded, val))
        best = int(np.argmin(losses))
        self.head.set_linear(found[best])
        return float(l2[best])

    def run_epoch(self) -> float:
        """One pass over the training rows. Returns its mean loss.

        Raises:
            NonFiniteLossError: where the loss is not a finite number.
        """
        rows = torch.from_numpy(self.train)
        if self.source is None:
            plan = [rows]
        else:
            order = torch.randperm(len(rows), generator=self.generator)
            plan = list(torch.split(rows[order], self.settings.batch_size))
        training_mode(self.estimator.model_)
        work = suited_threads(self.graph, self.estimator.settings_, whole=self.source is None)
        with work:
            losses = [self._step(part) for part in plan]
        self.estimator.model_.eval()
        mean = float(torch.stack(losses).mean())
        if not np.isfinite(mean):
            raise NonFiniteLossError(
                "The loss of fine-tuning is not a finite number. Try a smaller lr (now"
                f" {self.settings.lr:g})."
            )
        return mean

    def _step(self, rows: Tensor) -> Tensor:
        self.optimizer.zero_grad(set_to_none=True)
        logits = self.head(self._embedded(rows))
        loss = label_loss(logits, self.codes[rows.to(self.codes.device)], self.weights)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        return loss.detach()

    @torch.no_grad()
    def logits(self, rows: Array) -> Tensor:
        """The logits of some rows, [rows, K], not divided by the temperature."""
        out: Tensor = self.head(self.embed(rows))
        return out

    def loss(self, rows: Array) -> float:
        """The loss of some rows in evaluation mode."""
        return self._loss_of(self.embed(rows), rows)

    @torch.no_grad()
    def _loss_of(self, embedded: Tensor, rows: Array) -> float:
        codes = self.codes[torch.from_numpy(rows).to(self.codes.device)]
        return float(label_loss(self.head(embedded), codes, self.weights))

    def state(self) -> tuple[State, State]:
        """Copies of the weights of encoder and head."""
        return tuple(  # type: ignore[return-value]
            {name: value.detach().clone() for name, value in each.state_dict().items()}
            for each in (self.encoder, self.head)
        )

    def restore(self, state: tuple[Mapping[str, Tensor], Mapping[str, Tensor]]) -> None:
        """Set the weights that `state` returned."""
        self.encoder.load_state_dict(state[0])
        self.head.load_state_dict(state[1])


def tunable_copy(estimator: Estimator) -> Estimator:
    """A fitted estimator with its own copy of the model, whose weights may be changed."""
    tuned = copy.copy(estimator)
    tuned.model_ = copy.deepcopy(estimator.model_)
    return tuned


def has_weighted_columns(estimator: Estimator) -> bool:
    """Whether the columns of a fitted estimator's embedding have the variance they should have.

    They do where they are principal components, or blocks that were weighed.
    """
    head = getattr(estimator.model_, "head", None)
    return isinstance(head, CombinedGraphHead) or getattr(head, "components", None) is not None


def training_mode(model: nn.Module) -> None:
    """Set a model to training mode, but its batch norms to evaluation."""
    model.train()
    for module in model.modules():
        if isinstance(module, BatchNorm | nn.modules.batchnorm._BatchNorm):
            module.eval()


def tune(tuner: FineTuner, *, val: Array) -> list[EpochRecord]:
    """Run the epochs of the settings; the head is fitted first where they say so.

    With validation rows the state with the lowest validation loss is kept, the earlier of equals;
    that before the first epoch counts too. Without, the last state.

    Args:
        tuner: changed in place.
        val: validation rows; may be empty.

    Returns:
        The losses of each epoch, with validation rows also before the first.
    """
    settings, nan = tuner.settings, float("nan")
    if settings.linear_probe:
        tuner.fit_probe(val)
    if len(val) == 0:
        return [EpochRecord(i + 1, tuner.run_epoch(), nan) for i in range(settings.epochs)]
    best, kept, since = tuner.loss(val), tuner.state(), 0
    history = [EpochRecord(0, nan, best)]
    for epoch in range(1, settings.epochs + 1):
        history.append(EpochRecord(epoch, tuner.run_epoch(), tuner.loss(val)))
        since += 1
        if history[-1].val_loss < best:
            best, kept, since = history[-1].val_loss, tuner.state(), 0
        if settings.patience is not None and since >= settings.patience:
            break
    tuner.restore(kept)
    return history
