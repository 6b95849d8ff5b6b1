"""What training reports of itself: one row an epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

COLUMNS = ("loss", "reconstruction", "invariance", "lr")


@dataclass
class History:
    """Means over each epoch's steps; `invariance` is the term before it is multiplied by alpha."""

    loss: list[float] = field(default_factory=list)
    reconstruction: list[float] = field(default_factory=list)
    invariance: list[float] = field(default_factory=list)
    lr: list[float] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.loss)

    def append(self, loss: float, reconstruction: float, invariance: float, lr: float) -> None:
        """Add an epoch."""
        self.loss.append(loss)
        self.reconstruction.append(reconstruction)
        self.invariance.append(invariance)
        self.lr.append(lr)

    def columns(self) -> dict[str, list[float]]:
        """The table, column by column, with the epoch counted from 1."""
        epochs = [float(i + 1) for i in range(len(self))]
        return {"epoch": epochs, **{name: list(getattr(self, name)) for name in COLUMNS}}

    def to_csv(self) -> str:
        """The table as CSV; numbers are written so that they read back exactly."""
        rows = zip(*self.columns().values(), strict=True)
        lines = [",".join(["epoch", *COLUMNS])]
        lines += [",".join([str(int(row[0])), *(repr(v) for v in row[1:])]) for row in rows]
        return "\n".join(lines) + "\n"

    def to_tensor(self) -> Tensor:
        """The table as float64 [epochs, 4]."""
        return (
            torch.tensor([getattr(self, name) for name in COLUMNS], dtype=torch.float64)
            .reshape(len(COLUMNS), -1)
            .T.contiguous()
        )

    @classmethod
    def from_tensor(cls, table: Tensor) -> History:
        """The history that `to_tensor` wrote."""
        return cls(*[list(column) for column in table.T.tolist()])

    @classmethod
    def from_columns(cls, columns: Mapping[str, Sequence[float]]) -> History:
        """The history out of named columns."""
        return cls(*[[float(v) for v in columns[name]] for name in COLUMNS])
