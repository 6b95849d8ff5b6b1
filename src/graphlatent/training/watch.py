"""The diagnostics of one training run: measuring, warning, and keeping the selected weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from graphlatent.data.batches import BatchSource
from graphlatent.errors import warn
from graphlatent.io.history import History
from graphlatent.methods.base import Method
from graphlatent.ops.collective import first_only
from graphlatent.training.collapse import collapse_warning, find_collapse
from graphlatent.training.diagnostics import (
    Monitor,
    is_measured,
    measure_names,
    measured_epochs,
)
from graphlatent.training.selection import selected_epoch, selects

DIAGNOSTICS, START, KEPT = "diagnostics", "diagnostics_start", "selected."
"""Names in a snapshot: the measurements, the sampled rows of the untrained encoder, and the prefix
of the selected weights.
"""


class Watch:
    """Measures a run at some epochs and keeps the weights of the selected one.

    All that it decides follows from the history, so that a resumed run decides the same.

    Args:
        method: of the run, with its settings.
        model: the trained model.
        source: the training set.
    """

    def __init__(self, method: Method[Any], model: nn.Module, source: BatchSource) -> None:
        self.method, self.settings, self.model = method, method.settings, model
        self.source = source
        self.names = measure_names(method) if self.settings.diagnostics else ()
        self.start: Tensor | None = None
        self.kept: dict[str, Tensor] = {}
        self._monitor: Monitor | None = None

    def due(self, epoch: int, history: History) -> bool:
        """Whether the model is to be measured after this epoch, and has not been yet."""
        if not self.names or not is_measured(epoch, self.settings.epochs):
            return False
        return epoch not in history.diagnostics.get("epoch", [])

    def measure(self, epoch: int, history: History) -> None:
        """Measure the model and add that to the history; warn where the embedding collapses.

        Warns:
            GraphLatentWarning: at the first sign of collapse, unless on_collapse is "ignore".
        """
        history.append_diagnostics(epoch, first_only(self._measured))
        if selects(self.settings) and selected_epoch(history, self.settings) == epoch:
            state = self.model.state_dict()
            self.kept = {name: value.detach().clone() for name, value in state.items()}
        collapse = find_collapse(history, self.settings)
        if collapse is None or collapse.epoch != epoch or self.settings.on_collapse == "ignore":
            return
        warn(collapse_warning(collapse, self.settings))

    def _measured(self) -> dict[str, float]:
        """The measurements of the model; of several processes the first makes them."""
        if self._monitor is None:
            self._monitor = Monitor(self.method, self.source, start=self.start)
        values = self._monitor.measure(self.model)
        self.start = self._monitor.start
        return values

    def stops(self, history: History) -> bool:
        """Whether training ends because of a collapse."""
        return (
            self.settings.on_collapse == "stop"
            and find_collapse(history, self.settings) is not None
        )

    def finish(self, history: History) -> None:
        """Load the weights of the selected epoch, and record which one it is.

        Nothing is done for the history of a complete run, which knows its epoch.
        """
        if history.selected_epoch is not None:
            return
        history.selected_epoch = len(history)
        if self.names and selects(self.settings) and self.kept:
            history.selected_epoch = selected_epoch(history, self.settings)
            self.model.load_state_dict(self.kept)

    def tensors(self, history: History) -> dict[str, Tensor]:
        """What a snapshot must contain."""
        start = {} if self.start is None else {START: self.start}
        kept = {f"{KEPT}{name}": value for name, value in self.kept.items()}
        return {DIAGNOSTICS: history.diagnostics_to_tensor(), **start, **kept}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Return to the state of a snapshot."""
        device = next(self.model.parameters()).device
        self.start, self._monitor = tensors.get(START), None
        self.kept = {
            name.removeprefix(KEPT): value.to(device)
            for name, value in tensors.items()
            if name.startswith(KEPT)
        }

    def started(self) -> dict[str, Tensor]:
        """What a snapshot has of the untrained encoder, which the model must be."""
        if not self.names:
            return {}
        monitor = Monitor(self.method, self.source)
        monitor.measure(self.model)
        return {} if monitor.start is None else {START: monitor.start}

    def expected(
        self, tensors: Mapping[str, Tensor], epoch: int, *, same_sample: bool = True
    ) -> dict[str, Tensor]:
        """Tensors of the shapes and types that a snapshot of this run has after `epoch` epochs.

        Args:
            tensors: of the snapshot.
            epoch: of the snapshot.
            same_sample: whether the nodes that it has measured are those that this process would.
        """
        if not self.names:
            return {DIAGNOSTICS: torch.empty(0, 0, dtype=torch.float64)}
        count = len(measured_epochs(epoch, self.settings.epochs))
        table = torch.empty(count, 1 + len(self.names), dtype=torch.float64)
        # Later rows are compared with them row by row; any number of columns will do.
        shape = tensors[START].shape if START in tensors else torch.Size()
        any_rows = not same_sample and len(shape) == 2
        num_rows = shape[0] if any_rows else len(Monitor(self.method, self.source).rows)
        width = shape[1] if len(shape) == 2 and shape[1] > 0 else 1
        forms = {DIAGNOSTICS: table, START: torch.empty(num_rows, width)}
        if selects(self.settings):
            forms |= {f"{KEPT}{name}": v for name, v in self.model.state_dict().items()}
        return forms

    def check(self, tensors: Mapping[str, Tensor], epoch: int) -> None:
        """Raise a `ValueError` where diagnostics are not of the epochs that this run measures."""
        wanted = measured_epochs(epoch, self.settings.epochs) if self.names else []
        if self.names and tensors[DIAGNOSTICS][:, 0].tolist() != wanted:
            raise ValueError(f"its {DIAGNOSTICS} are not of the epochs {wanted}")
