"""A cell of a table: settings, evaluation and published number side by side.

A recipe says all that a cell needs except seeds and device. What the paper leaves open is marked
as ours, with a reason. Packaged recipes are in `recipes/`, one TOML file per table; see
`graphlatent.bench.loading` for reading them and docs/recipes.md for the format.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from graphlatent.bench.methods import LAGRAPH, make_settings
from graphlatent.bench.shapes import SHAPES
from graphlatent.config import Level, Settings
from graphlatent.data.datasets import dataset_info
from graphlatent.methods.lagraph.settings import LaGraphSettings
from graphlatent.methods.registry import method_names

CHOICES = ("dataset", "protocol", "metric", "binarize")
"""Besides settings and evaluation, what a recipe may mark as ours."""
BEST: Mapping[str, str] = {
    "any": "best published, any selection",
    "honest": "best published, honest selection where stated",
}
"""By key of [best] in a recipe: the line of tables that shows the number."""


@dataclass(frozen=True)
class Published:
    """A number printed in a paper.

    Args:
        mean: in per cent.
        source: where it is printed.
        spread: the number printed after ±; None where there is none.
        runs: the number of runs it is the mean of; None where the paper does not say.
        selection: how the epoch was chosen, as far as it is known.
        memory_mb: memory on the GPU; None where it is not printed.
        note: what to know before comparing anything with it.
    """

    mean: float
    source: str
    spread: float | None = None
    runs: int | None = None
    selection: str = ""
    memory_mb: int | None = None
    note: str = ""


@dataclass(frozen=True)
class Evaluation:
    """When the embedding is probed, and the settings of the paper's own probe.

    Args:
        epochs: ascending; validation may choose any of them.
        budget: the epoch of the results where no epoch is chosen.
        probe_epochs: epochs of the paper's own probe (its Table 6); None at graph level.
        probe_weight_decay: its weight decay; None at graph level.
    """

    epochs: tuple[int, ...]
    budget: int
    probe_epochs: int | None = None
    probe_weight_decay: float | None = None


@dataclass(frozen=True)
class LabelBudget:
    """How many graphs have a label, of a table about few labels; shares of all graphs.

    Args:
        train: share with a label to fine-tune on.
        val: share with a label to choose settings on.
        test: share that is scored.
        splits: random stratified splits of a seed.
    """

    train: float
    val: float
    test: float
    splits: int = 1


@dataclass(frozen=True)
class MethodRecipe:
    """Another method in the same cell.

    Args:
        name: of the method, such as "bgrl"; also the name of its row.
        settings: its settings, by name; the method's defaults where none are given.
        evaluation: when its embedding is probed.
        ours: by setting that its paper leaves out, why it is what it is.
        published: the number that its own paper prints; None where there is none.
    """

    name: str
    settings: Mapping[str, Any]
    evaluation: Evaluation
    ours: Mapping[str, str] = field(default_factory=dict)
    published: Published | None = None


@dataclass(frozen=True)
class Recipe:
    """One cell of one table.

    Args:
        name: "table1/MUTAG"; of a file of your own its name without ".toml".
        table: name of the table, such as "1"; "own" for a file of your own.
        column: column of the table, usually the data set.
        line: label of its line in the table.
        dataset: a name for `load_dataset`, or one of `SHAPES`.
        level: what is classified, "node" or "graph".
        protocol: one of `PROTOCOLS`.
        metric: "accuracy" or "micro-F1".
        rows: names of the registered rows that are measured.
        evaluation: when the embedding of the paper's settings is probed.
        paper: the settings that `settings` is made of.
        released: what the released scripts do differently.
        ours: by setting or choice that the paper leaves out, why it is what it is.
        binarize: whether counts are set to 0 and 1.
        published: the number that the paper prints; None where it prints none.
        methods: settings of other methods by name; one for each of them among `rows`.
        best: the highest numbers that any method has published for the data set, by key of `BEST`.
        changes: settings in which the cell differs from our defaults; the row "defaults" then
            measures this variant of them.
        labels: how many graphs have a label; None where all training rows have one.
        published_rows: numbers that the paper prints for other rows than LaGraph's, by row.
    """

    name: str
    table: str
    column: str
    line: str
    dataset: str
    level: Level
    protocol: str
    metric: str
    rows: tuple[str, ...]
    evaluation: Evaluation
    paper: Mapping[str, Any]
    released: Mapping[str, Any] = field(default_factory=dict)
    ours: Mapping[str, str] = field(default_factory=dict)
    binarize: bool = False
    published: Published | None = None
    methods: Mapping[str, MethodRecipe] = field(default_factory=dict)
    best: Mapping[str, Published] = field(default_factory=dict)
    changes: Mapping[str, Any] = field(default_factory=dict)
    labels: LabelBudget | None = None
    published_rows: Mapping[str, Published] = field(default_factory=dict)

    @property
    def is_ablation(self) -> bool:
        """Whether the cell compares variants of the paper's settings, or of our defaults, only.

        Variants of the paper's keep the representation of their recipe and use the linear probe
        alone.
        """
        return "defaults" not in self.rows or bool(self.changes)

    def published_of(self, row: str) -> Published | None:
        """The published number of a row: of another method its own, else the paper's.

        None where this cell does not have that method.
        """
        if row in self.published_rows:
            return self.published_rows[row]
        if row in self.methods:
            return self.methods[row].published
        return None if row in method_names(self.level) else self.published

    def settings(self) -> LaGraphSettings:
        """The paper's settings, with ours where the paper says nothing; a new object each time."""
        return self._lagraph(self.paper, part="settings")

    def released_settings(self) -> LaGraphSettings:
        """The settings of the released scripts: preset "released", and what [released] changes."""
        values = {**self.paper, "preset": "released", **self.released}
        return self._lagraph(values, part="released")

    def default_settings(self) -> LaGraphSettings:
        """The package's defaults, by the same rules for every data set, and what [changes] says."""
        settings = self._lagraph(self.changes, part="changes")
        if self.level == "node" or self.dataset in SHAPES:
            return settings
        info = dataset_info(self.dataset)
        return settings.adapted_to(round(info.num_nodes), has_features=info.num_features > 0)

    def method_settings(self, method: str) -> Settings:
        """The settings of another method, as [methods.NAME] gives them."""
        values = self.methods[method].settings
        where = f"[methods.{method}.settings] of {called(self.name)}"
        return make_settings(method, self.level, values, where=where)

    def _lagraph(self, values: Mapping[str, Any], *, part: str) -> LaGraphSettings:
        where = f"[{part}] of {called(self.name)}"
        settings = make_settings(LAGRAPH, self.level, values, where=where)
        assert isinstance(settings, LaGraphSettings)
        return settings


def called(name: str) -> str:
    """The name of a recipe in messages."""
    return f"recipe '{name.removesuffix('.toml')}'"
