"""The loss and its named terms, one row per epoch."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from graphlatent.display import counted, html_table


@dataclass
class History:
    """The loss, its terms and the learning rate of every epoch, averaged over its steps.

    Args:
        loss: the weighted sum of the terms.
        terms: each term by name, before it is multiplied by its weight.
        lr: the learning rate.
    """

    loss: list[float] = field(default_factory=list)
    terms: dict[str, list[float]] = field(default_factory=dict)
    lr: list[float] = field(default_factory=list)

    @classmethod
    def of(cls, term_names: Sequence[str]) -> History:
        """An empty history of these terms."""
        return cls(terms={name: [] for name in term_names})

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

    def append(self, loss: float, terms: Mapping[str, float], lr: float) -> None:
        """Add an epoch."""
        self.loss.append(loss)
        for name, column in self.terms.items():
            column.append(terms[name])
        self.lr.append(lr)

    def columns(self) -> dict[str, list[float]]:
        """The table, column by column, with the epoch counted from 1."""
        epochs = [float(i + 1) for i in range(len(self))]
        return {"epoch": epochs, "loss": self.loss, **self.terms, "lr": self.lr}

    def to_csv(self) -> str:
        """The table as CSV; numbers are written so that they read back exactly."""
        columns = self.columns()
        rows = zip(*columns.values(), strict=True)
        lines = [",".join(columns)]
        lines += [",".join([str(int(row[0])), *(repr(v) for v in row[1:])]) for row in rows]
        return "\n".join(lines) + "\n"

    @classmethod
    def from_csv(cls, text: str) -> History:
        """The history that `to_csv` wrote.

        Raises:
            ValueError: where the text is not such a table.
        """
        lines = list(csv.reader(io.StringIO(text)))
        names = lines[0] if lines else []
        if names[:2] != ["epoch", "loss"] or names[-1] != "lr":
            raise ValueError(f"its columns are {', '.join(names)}")
        rows = [[float(value) for value in line] for line in lines[1:]]
        if any(len(row) != len(names) for row in rows):
            raise ValueError("its lines differ in length")
        return cls.from_columns({name: [row[i] for row in rows] for i, name in enumerate(names)})

    def to_tensor(self) -> Tensor:
        """The table without the epoch as float64 [epochs, columns]."""
        columns = [self.loss, *self.terms.values(), self.lr]
        return torch.tensor(columns, dtype=torch.float64).reshape(len(columns), -1).T.contiguous()

    @classmethod
    def from_tensor(cls, table: Tensor, *, term_names: Sequence[str]) -> History:
        """The history that `to_tensor` wrote.

        Raises:
            ValueError: where the number of columns is not that of these terms.
        """
        names = ["loss", *term_names, "lr"]
        if table.ndim != 2 or table.shape[1] != len(names):
            raise ValueError(f"the history has shape {tuple(table.shape)}, not [, {len(names)}]")
        return cls.from_columns(dict(zip(names, table.T.tolist(), strict=True)))

    @classmethod
    def from_columns(cls, columns: Mapping[str, Sequence[float]]) -> History:
        """The history from named columns; all but 'epoch', 'loss' and 'lr' are terms."""
        values = {name: [float(v) for v in column] for name, column in columns.items()}
        terms = {n: v for n, v in values.items() if n not in ("epoch", "loss", "lr")}
        return cls(loss=values["loss"], terms=terms, lr=values["lr"])
