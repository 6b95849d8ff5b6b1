"""The loss and its named terms per epoch, and diagnostics of the embedding at some epochs.

In history.csv the diagnostics are columns after the learning rate, empty where nothing was
measured; epoch 0, the untrained encoder, has a line of its own then.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from graphlatent.display import counted, html_table

GRADIENT_NORM, SELECTED = "gradient_norm", "selected"
"""Names of columns of history.csv that are neither terms nor measurements."""


@dataclass
class History:
    """The loss, its terms and the learning rate of every epoch, averaged over its steps.

    Args:
        loss: the weighted sum of the terms.
        terms: each term by name, before it is multiplied by its weight.
        lr: the learning rate.
        gradient_norm: the norm of the gradient of all weights; None without diagnostics.
        diagnostics: measurements of the embedding by name, with their epochs as "epoch"; empty
            where nothing was measured.
        selected_epoch: the epoch whose weights the fitted model has; None while it trains.
    """

    loss: list[float] = field(default_factory=list)
    terms: dict[str, list[float]] = field(default_factory=dict)
    lr: list[float] = field(default_factory=list)
    gradient_norm: list[float] | None = None
    diagnostics: dict[str, list[float]] = field(default_factory=dict)
    selected_epoch: int | None = None

    @classmethod
    def of(cls, term_names: Sequence[str], *, gradient_norm: bool = False) -> History:
        """An empty history of these terms, with or without the norm of the gradient."""
        norms: list[float] | None = [] if gradient_norm else None
        return cls(terms={name: [] for name in term_names}, gradient_norm=norms)

    def __len__(self) -> int:
        return len(self.loss)

    def __repr__(self) -> str:
        return f"History({self.summary()})"

    def _repr_html_(self) -> str:
        columns = {"loss": self.loss, **self.terms}
        rows = [[name, f"{v[0]:.4g}", f"{v[-1]:.4g}"] for name, v in columns.items() if v]
        return html_table(repr(self), rows, head=["", "first epoch", "last epoch"])

    def summary(self) -> str:
        """The number of epochs, and the loss of the first and the last, in words."""
        epochs = counted(len(self), "epoch")
        return f"{epochs}, loss {self.loss[0]:.4g} to {self.loss[-1]:.4g}" if self.loss else epochs

    def append(
        self,
        loss: float,
        terms: Mapping[str, float],
        lr: float,
        *,
        gradient_norm: float | None = None,
    ) -> None:
        """Add an epoch."""
        self.loss.append(loss)
        for name, column in self.terms.items():
            column.append(terms[name])
        self.lr.append(lr)
        if self.gradient_norm is not None and gradient_norm is not None:
            self.gradient_norm.append(gradient_norm)

    def append_diagnostics(self, epoch: int, values: Mapping[str, float]) -> None:
        """Add what was measured after an epoch; the same names every time."""
        for name, value in {"epoch": float(epoch), **values}.items():
            self.diagnostics.setdefault(name, []).append(value)

    def columns(self) -> dict[str, list[float]]:
        """The table of epochs, column by column, counted from 1, without the diagnostics."""
        epochs = [float(i + 1) for i in range(len(self))]
        norms = {} if self.gradient_norm is None else {GRADIENT_NORM: self.gradient_norm}
        return {"epoch": epochs, "loss": self.loss, **self.terms, "lr": self.lr, **norms}

    def to_csv(self) -> str:
        """The table as CSV; numbers are written so that they read back exactly."""
        columns = self.columns()
        measured = {n: v for n, v in self.diagnostics.items() if n != "epoch"}
        selected = [] if self.selected_epoch is None else [SELECTED]
        at = {int(e): i for i, e in enumerate(self.diagnostics.get("epoch", []))}
        first = 0 if 0 in at or self.selected_epoch == 0 else 1
        lines = [",".join([*columns, *measured, *selected])]
        for epoch in range(first, len(self) + 1):
            row = [str(epoch)]
            row += [repr(v[epoch - 1]) if epoch else "" for n, v in columns.items() if n != "epoch"]
            row += [repr(v[at[epoch]]) if epoch in at else "" for v in measured.values()]
            row += [str(int(epoch == self.selected_epoch))] if selected else []
            lines.append(",".join(row))
        return "\n".join(lines) + "\n"

    @classmethod
    def from_csv(cls, text: str) -> History:
        """The history that `to_csv` wrote.

        Raises:
            ValueError: where the text is not such a table.
        """
        lines = list(csv.reader(io.StringIO(text)))
        names = lines[0] if lines else []
        if names[:2] != ["epoch", "loss"] or "lr" not in names:
            raise ValueError(f"its columns are {', '.join(names)}")
        if any(len(line) != len(names) for line in lines):
            raise ValueError("its lines differ in length")
        table = {name: [line[i] for line in lines[1:]] for i, name in enumerate(names)}
        end = names.index("lr") + 1 + (GRADIENT_NORM in names)
        trained = [i for i, epoch in enumerate(table["epoch"]) if int(epoch) > 0]
        history = cls.from_columns({n: [table[n][i] for i in trained] for n in names[:end]})
        measured = [name for name in names[end:] if name != SELECTED]
        for i, epoch in enumerate(table["epoch"]):
            if measured and table[measured[0]][i]:
                history.append_diagnostics(int(epoch), {n: float(table[n][i]) for n in measured})
        if SELECTED in names:
            history.selected_epoch = int(table["epoch"][table[SELECTED].index("1")])
        return history

    def to_tensor(self) -> Tensor:
        """The table without the epoch and the diagnostics as float64 [epochs, columns]."""
        columns = [v for name, v in self.columns().items() if name != "epoch"]
        return torch.tensor(columns, dtype=torch.float64).reshape(len(columns), -1).T.contiguous()

    def diagnostics_to_tensor(self) -> Tensor:
        """The diagnostics as float64 [measurements, columns], the epoch first."""
        columns = list(self.diagnostics.values())
        if not columns:
            return torch.zeros(0, 0, dtype=torch.float64)
        return torch.tensor(columns, dtype=torch.float64).reshape(len(columns), -1).T.contiguous()

    @classmethod
    def from_tensor(cls, table: Tensor, *, term_names: Sequence[str]) -> History:
        """The history that `to_tensor` wrote, without diagnostics.

        Raises:
            ValueError: where the number of columns is not that of these terms.
        """
        names = ["loss", *term_names, "lr"]
        if table.ndim == 2 and table.shape[1] == len(names) + 1:
            names.append(GRADIENT_NORM)
        if table.ndim != 2 or table.shape[1] != len(names):
            raise ValueError(f"the history has shape {tuple(table.shape)}, not [, {len(names)}]")
        return cls.from_columns(dict(zip(names, table.T.tolist(), strict=True)))

    @classmethod
    def from_snapshot(cls, tensors: Mapping[str, Tensor], position: Mapping[str, Any]) -> History:
        """The history in the tensors and the other values of a snapshot.

        Raises:
            ValueError: where the numbers of columns are not those of the named ones.
            KeyError: where something is missing.
        """
        history = cls.from_tensor(tensors["history"], term_names=position["term_names"])
        table = tensors["diagnostics"]
        if table.numel():
            names = ["epoch", *position["diagnostic_names"]]
            history.diagnostics = dict(zip(names, table.T.tolist(), strict=True))
        return history

    @classmethod
    def from_columns(cls, columns: Mapping[str, Sequence[str | float]]) -> History:
        """The history from named columns; all but those of every history are terms."""
        values = {name: [float(v) for v in column] for name, column in columns.items()}
        own = ("epoch", "loss", "lr", GRADIENT_NORM)
        terms = {n: v for n, v in values.items() if n not in own}
        norms = values.get(GRADIENT_NORM)
        return cls(loss=values["loss"], terms=terms, lr=values["lr"], gradient_norm=norms)
