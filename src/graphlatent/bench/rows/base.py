"""What a row of a table is, and the registry of rows.

A row is one way to come to a representation and to score it: raw features, a trained method. It has
a name, says what defines it in a cell, measures itself there, and says which lines of tables show
its results. Everything else (recipes, runner, records, tables, command line) goes through the
registry. A new row is a subclass of `Row` in this folder and one `register` call.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from graphlatent.bench.context import CellContext
from graphlatent.bench.recipe import Recipe
from graphlatent.config import Level
from graphlatent.errors import ConfigError
from graphlatent.probes.results import ProbeResult

CHOSEN, AT_BUDGET, UNTRAINED = "linear/validation", "linear/fixed", "linear/untrained"
CHOSEN_RBF, CHOSEN_PAPER_PROBE = "rbf/validation", "paper-probe/validation"
CHOSEN_SVM = "svm/validation"
"""The better of the linear and the RBF SVM in inner folds; likewise "svm/fixed"."""
VALIDATION, FIXED, START = "validation", "fixed", "untrained"
"""Second parts of the names of results."""
EITHER_SVM = "linear or RBF chosen in inner folds"
"""The end of the labels of such results."""
SVM_BLOCK = "Linear or RBF SVM, chosen in inner folds"
"""The block of tables that shows them; its lines are those of the short form."""
PUBLISHED = "published"
"""In place of a result: the number that a paper prints."""
BEST_OF = "best/"
"""Start of what stands in place of a result: the highest number published, "best/any"."""


@dataclass(frozen=True)
class RowPlan:
    """All that defines a row in a cell besides data, protocol and metric, in plain values.

    Records keep it, and `graphlatent.bench.fingerprint` compares it: what is left out here can
    change without making a record stale.

    Args:
        probes: by name what each probe chooses from.
        method: the registered method that is trained; "" where nothing is.
        settings: all of its resolved settings that matter to the row.
        candidates: what a split may choose from, such as epochs and representations.
    """

    probes: Mapping[str, Mapping[str, Any]]
    method: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    candidates: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class RowOutcome:
    """What a row measured.

    Args:
        results: by "probe/selection".
        training: epochs, seconds, last loss, peak memory; empty where nothing was trained.
    """

    results: Mapping[str, ProbeResult]
    training: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class TableRow:
    """A line of a table.

    Args:
        label: in words.
        row: name of a registered row, such as "paper".
        result: which of its results, such as "linear/validation"; `PUBLISHED` for the number that
            is printed for the row, `BEST_OF` and a key of [best] for the highest of any method.
        headline: whether the short form of a table has it.
        block: title of its block at graph level; "" for the one of its probe.
    """

    label: str
    row: str
    result: str
    headline: bool = False
    block: str = ""


@dataclass(frozen=True)
class RowDifference:
    """A line of differences.

    Args:
        label: in words.
        first: what is compared.
        second: what is subtracted from it.
    """

    label: str
    first: TableRow
    second: TableRow


class Row(ABC):
    """A row of tables."""

    name: str
    """As recipes, records and the command line call it."""
    label: str
    """As tables call it."""
    seeded: bool = True
    """Whether the training seed matters. If not, only seed 0 is measured where splits are fixed."""
    levels: tuple[Level, ...] = ("node", "graph")
    """Where it can be measured."""
    uses_defaults: bool = False
    """Whether it measures our defaults, with what a recipe changes of them."""

    @abstractmethod
    def plan(self, recipe: Recipe) -> RowPlan:
        """All that defines the row in a cell."""

    @abstractmethod
    def measure(self, cell: CellContext) -> RowOutcome:
        """The results of the row in a cell, for the seed of the context."""

    def table_rows(self, level: Level) -> Sequence[TableRow]:
        """The lines of main tables that show the row."""
        return [TableRow(self.label, self.name, CHOSEN, headline=True)]

    def differences(self, level: Level) -> Sequence[RowDifference]:
        """The lines of differences below main tables that are about the row."""
        return []


def svm_lines(row: Row, label: str = "") -> list[TableRow]:
    """The lines of a row of graphs: linear SVM, RBF SVM, and the better of both in inner folds.

    `label` stands for the row in the last line; by default its own.
    """
    return [
        TableRow(row.label, row.name, CHOSEN),
        TableRow(row.label, row.name, CHOSEN_RBF),
        TableRow(f"{label or row.label}, {EITHER_SVM}", row.name, CHOSEN_SVM, headline=True),
    ]


_ROWS: dict[str, Row] = {}


def register(row: Row) -> Row:
    """Make a row known by its name. Raises `ConfigError` where the name is taken."""
    if row.name in _ROWS:
        raise ConfigError(f"There is a row '{row.name}' already. Give the new one another name.")
    _ROWS[row.name] = row
    return row


def unregister(name: str) -> None:
    """Forget a row, for tests that registered it."""
    del _ROWS[name]


def registered() -> dict[str, Row]:
    """The registered rows by name, in the order of registration: that of tables."""
    return dict(_ROWS)
