"""The cells of the paper's tables: settings, evaluation and printed number side by side, one TOML
file each.

A recipe says all that a cell needs except seeds and device. What the paper does not say is marked
as ours, with a reason, under [ours]. A file may extend another one: it then holds only what
differs. The printed number is never inherited, since it belongs to one cell. The format is
described in docs/recipes.md.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from graphlatent.bench.recipe_files import called, check_keys, packaged, packaged_file, read_values
from graphlatent.config import (
    Level,
    from_mapping,
    resolve,
    to_mapping,
)
from graphlatent.data.datasets import DATASETS, dataset_info
from graphlatent.errors import ConfigError, InputError, bad_argument
from graphlatent.methods.lagraph.settings import (
    GraphLaGraphSettings,
    LaGraphSettings,
    NodeLaGraphSettings,
)
from graphlatent.probes.metrics import METRICS

TABLES = ("1", "2", "3", "9", "10", "figure2", "alpha", "invariance", "binarized", "own")
ROWS = ("raw", "propagated", "random", "paper", "released", "defaults", "tuned")


@dataclass(frozen=True)
class Shape:
    """A made-up graph of communities of a published set's size, for a set that cannot always be
    had.

    Args:
        of: the published set.
        homophily: share of a node's neighbours in its own community.
        sigma: standard deviation of the features' noise.
    """

    of: str
    homophily: float
    sigma: float


# Neighbours help and do not tell all: of 12,000 nodes a linear classifier knows about 0.7 and 0.3
# by their features, 0.8 and 0.75 by A^2 X.
SHAPES: Mapping[str, Shape] = {
    "Flickr-shape": Shape("Flickr", 0.5, 3.0),
    "Reddit-shape": Shape("Reddit", 0.15, 3.0),
}
# Of each protocol the layouts of files that carry what it needs: whole graphs, one graph, published
# parts of nodes, of graphs.
PROTOCOLS: Mapping[str, tuple[str, ...]] = {
    "folds": ("tu",),
    "splits": ("npz", "saint"),
    "inductive": ("saint",),
    "inductive-graphs": ("ppi",),
}
_TABLE_3 = ("Flickr", "Reddit", "Physics", *SHAPES)
_LINES = (
    "MSE-Embed",
    "MSE-Output",
    "CE-Embed",
    "CE-Output",
    "with concat",
    "without concat",
    "masked nodes",
    "all nodes",
)
_TEXTS = ("table", "column", "line", "dataset", "level", "protocol", "metric")
_PARTS = ("published", "settings", "released", "ours", "evaluation")
_KEYS = (*_TEXTS, "rows", "binarize", *_PARTS)
_CHOICES = ("dataset", "protocol", "metric", "binarize")  # keys at the top that may be ours
_GIVEN_LATER = ("random_state", "device", "progress")


@dataclass(frozen=True)
class Published:
    """The number that the paper prints in a cell.

    Args:
        mean: in per cent.
        source: where it is printed.
        spread: what stands after the ±; None where nothing does.
        runs: how many runs it is of; None where the paper does not say.
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
    """When and how the embedding is probed.

    Args:
        epochs: ascending; after which ones validation may stop.
        budget: the one of them that is taken where nothing is chosen.
        probe_epochs: epochs of the paper's own probe (its Table 6); None at graph level.
        probe_weight_decay: its weight decay; None at graph level.
    """

    epochs: tuple[int, ...]
    budget: int
    probe_epochs: int | None = None
    probe_weight_decay: float | None = None


@dataclass(frozen=True)
class Recipe:
    """One cell of one table.

    Args:
        name: "table1/MUTAG"; of a file of your own its name without ".toml".
        table: one of `TABLES`.
        column: where in the table, usually the data set.
        line: its label in the table.
        dataset: a name for `load_dataset`, or one of `SHAPES`.
        level: what is classified, "node" or "graph".
        protocol: one of `PROTOCOLS`.
        metric: "accuracy" or "micro-F1".
        rows: which of `ROWS` are measured.
        evaluation: when and how the embedding is probed.
        paper: the settings that `settings` is made of.
        released: what the released scripts do differently.
        ours: by setting or choice that the paper leaves out, why it is what it is.
        binarize: whether counts are set to 0 and 1.
        published: the printed number; None where the paper prints none.
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

    def settings(self) -> LaGraphSettings:
        """The paper's settings, with ours where it is silent; a new object each time."""
        return self._made(self.paper, part="settings")

    def released_settings(self) -> LaGraphSettings:
        """The settings of the released scripts: preset "released", and what [released] changes."""
        return self._made({**self.paper, "preset": "released", **self.released}, part="released")

    def default_settings(self) -> LaGraphSettings:
        """The package's defaults, with the recipe's `degree_cap`, so that all rows of a cell start
        from the same features.
        """
        return self._made(
            {key: self.paper[key] for key in ("degree_cap",) if key in self.paper}, part="settings"
        )

    @property
    def fingerprint(self) -> str:
        """Of all that decides what is measured, the defaults of the package included; not of words,
        rows and the printed number.
        """
        values: list[Any] = [
            self.dataset,
            self.level,
            self.protocol,
            self.metric,
            self.binarize,
            asdict(self.evaluation),
        ]
        settings = [
            to_mapping(each)
            for each in (self.settings(), self.released_settings(), self.default_settings())
        ]
        values += [asdict(SHAPES[self.dataset])] if self.dataset in SHAPES else []
        return hashlib.sha256(
            json.dumps([*values, *settings], sort_keys=True).encode()
        ).hexdigest()[:16]

    def _made(self, values: Mapping[str, Any], *, part: str) -> LaGraphSettings:
        settings_class = NodeLaGraphSettings if self.level == "node" else GraphLaGraphSettings
        return from_mapping(settings_class, values, where=f"[{part}] of {called(self.name)}")


def load_recipe(name: str) -> Recipe:
    """The packaged recipe of that name, such as "table1/MUTAG".

    Raises:
        ConfigError: where there is none; the message names the nearest.
    """
    return _built(read_values(packaged_file(name), name=name, folder=None, known=_KEYS), name=name)


def all_recipes() -> tuple[Recipe, ...]:
    """Every packaged recipe: table by table, each in the paper's order of columns and lines."""
    return tuple(sorted((load_recipe(name) for name in packaged()), key=_place))


def read_recipe(path: str | Path) -> Recipe:
    """The recipe in a TOML file of your own.

    It may extend a packaged recipe (`extends = "table1/MUTAG"`) or a file beside it (`extends =
    "base.toml"`).

    Raises:
        ConfigError: where the file cannot be read, or anything in it is unknown, missing, of a
            wrong type or out of range.
    """
    path = Path(path)
    return _built(
        read_values(path, name=path.name, folder=path.parent, known=_KEYS), name=path.stem
    )


# ---- from one mapping to a checked recipe


def _built(values: Mapping[str, Any], *, name: str) -> Recipe:
    owner = called(name)
    _require(values, (*_TEXTS, "rows", "settings", "evaluation"), where=owner)
    for key in _PARTS:
        if not isinstance(values.get(key, {}), dict):
            raise bad_argument(key, owner=owner, allowed=f"a table [{key}]", got=values[key])
    texts: dict[str, Any] = {key: _text(values, key, owner=owner, needed=True) for key in _TEXTS}
    _one_of(texts["table"], TABLES, key="table", owner=owner)
    _one_of(texts["level"], ("graph", "node"), key="level", owner=owner)
    _one_of(texts["metric"], METRICS, key="metric", owner=owner)
    _one_of(texts["protocol"], PROTOCOLS, key="protocol", owner=owner)
    binarize = values.get("binarize", False)
    if not isinstance(binarize, bool):
        raise bad_argument("binarize", owner=owner, allowed="true or false", got=binarize)
    recipe = Recipe(
        name=name,
        **texts,
        rows=_rows(values["rows"], owner=owner),
        evaluation=_evaluation(values["evaluation"], level=texts["level"], owner=owner),
        paper=dict(values["settings"]),
        released=dict(values.get("released", {})),
        ours=dict(values.get("ours", {})),
        binarize=binarize,
        published=_published(values["published"], owner=owner) if "published" in values else None,
    )
    _check_data(recipe, owner=owner)
    _check_settings(recipe, owner=owner)
    _check_ours(recipe, owner=owner)
    return recipe


def _published(table: Mapping[str, Any], *, owner: str) -> Published:
    where = f"[published] of {owner}"
    check_keys(table, known=[f.name for f in fields(Published)], where=where)
    _require(
        table,
        ("mean", "source"),
        where=where,
        way_out="Give it there: a printed number is not inherited.",
    )
    return Published(
        mean=_number(table, "mean", owner=where, high=100),
        source=_text(table, "source", owner=where, needed=True),
        spread=_number(table, "spread", owner=where, high=100),
        runs=_number(table, "runs", owner=where, low=1, whole=True),
        selection=_text(table, "selection", owner=where),
        memory_mb=_number(table, "memory_mb", owner=where, low=1, whole=True),
        note=_text(table, "note", owner=where),
    )


def _evaluation(table: Mapping[str, Any], *, level: str, owner: str) -> Evaluation:
    where = f"[evaluation] of {owner}"
    # The paper's SVM has neither
    probe = ("probe_epochs", "probe_weight_decay") if level == "node" else ()
    check_keys(table, known=("epochs", "budget", *probe), where=where)
    _require(table, ("epochs", "budget", *probe), where=where)
    epochs, budget = table["epochs"], _number(table, "budget", owner=where, whole=True)
    counts = (
        isinstance(epochs, list)
        and len(epochs) > 0
        and all(type(e) is int and e >= 0 for e in epochs)
    )
    if not counts or sorted(set(epochs)) != epochs:
        raise bad_argument(
            "epochs",
            owner=where,
            allowed="a list of one or more ascending ints of at least 0",
            got=epochs,
        )
    if budget not in epochs:
        raise bad_argument(
            "budget", owner=where, allowed=f"one of its epochs, {epochs}", got=budget
        )
    return Evaluation(
        tuple(epochs),
        budget,
        _number(table, "probe_epochs", owner=where, low=1, whole=True),
        _number(table, "probe_weight_decay", owner=where),
    )


def _check_data(recipe: Recipe, *, owner: str) -> None:
    try:
        info = dataset_info(
            SHAPES[recipe.dataset].of if recipe.dataset in SHAPES else recipe.dataset
        )
    except InputError as error:
        raise ConfigError(f"The data set of {owner} is not known. {error}") from error
    if info.level != recipe.level:
        raise bad_argument(
            "level",
            owner=owner,
            allowed=f"'{info.level}' for the data set {recipe.dataset}",
            got=recipe.level,
        )
    fitting = tuple(name for name, layouts in PROTOCOLS.items() if info.layout in layouts)
    _one_of(
        recipe.protocol,
        fitting,
        key="protocol",
        owner=f"{owner}, whose data set is {recipe.dataset},",
    )


def _check_settings(recipe: Recipe, *, owner: str) -> None:
    for part, values in (("settings", recipe.paper), ("released", recipe.released)):
        for key in _GIVEN_LATER:
            if key in values:
                raise ConfigError(
                    f"The setting '{key}' has no place in [{part}] of {owner}: it is given when the"
                    " recipe is run."
                )
    paper = resolve(recipe.settings(), owner=f"[settings] of {owner}")
    released = recipe.released_settings()
    # Elsewhere it may be without meaning: the scripts' ReLU does not go with cross-entropy
    if "released" in recipe.rows:
        resolve(released, owner=f"[released] of {owner}")
    last = recipe.evaluation.epochs[-1]
    if paper.epochs != last:
        allowed = f"the last of its evaluation epochs, {last}"
        raise bad_argument(
            "epochs", owner=f"[settings] of {owner}", allowed=allowed, got=paper.epochs
        )


def _check_ours(recipe: Recipe, *, owner: str) -> None:
    where = f"[ours] of {owner}"
    of_probe = [
        f.name for f in fields(Evaluation) if getattr(recipe.evaluation, f.name) is not None
    ]
    check_keys(recipe.ours, known=(*recipe.paper, *of_probe, *_CHOICES), where=where)
    for key in recipe.ours:
        _text(recipe.ours, key, owner=where, needed=True)


def _rows(value: Any, *, owner: str) -> tuple[str, ...]:
    listed = (
        isinstance(value, list)
        and len(value) > 0
        and all(isinstance(row, str) and row in ROWS for row in value)
    )
    if not listed or len(set(value)) < len(value):
        raise bad_argument(
            "rows", owner=owner, allowed=f"a list of different names out of {ROWS}", got=value
        )
    return tuple(value)


def _require(
    table: Mapping[str, Any],
    keys: Iterable[str],
    *,
    where: str,
    way_out: str = "Give it there, or extend a recipe that has it.",
) -> None:
    missing = [f"'{key}'" for key in keys if key not in table]
    if missing:
        raise ConfigError(f"Missing in {where}: {', '.join(missing)}. {way_out}")


def _one_of(value: str, allowed: Iterable[str], *, key: str, owner: str) -> None:
    allowed = tuple(allowed)
    if value not in allowed:
        raise bad_argument(key, owner=owner, allowed=f"one of {allowed}", got=value)


def _text(table: Mapping[str, Any], key: str, *, owner: str, needed: bool = False) -> str:
    """The text at `key`; "" where there is none and none is needed."""
    value = table.get(key, "")
    if not isinstance(value, str) or (needed and not value.strip()):
        raise bad_argument(
            key, owner=owner, allowed="text that is not empty" if needed else "text", got=value
        )
    return value


def _number(
    table: Mapping[str, Any],
    key: str,
    *,
    owner: str,
    low: float = 0,
    high: float = math.inf,
    whole: bool = False,
) -> Any:
    """The number at `key`; None where there is none."""
    if key not in table:
        return None
    value = table[key]
    if (
        isinstance(value, bool)
        or not isinstance(value, int if whole else int | float)
        or not low <= value <= high
        or math.isinf(value)
    ):
        limits = f"from {low:g}" + ("" if math.isinf(high) else f" to {high:g}")
        raise bad_argument(
            key, owner=owner, allowed=f"{'an int' if whole else 'a number'} {limits}", got=value
        )
    return value


# ---- the order of the paper


def _place(recipe: Recipe) -> tuple[int, int, float, int]:
    """Table, column, then the number in the line's label, then the paper's order of labels without
    a number.
    """
    columns = _TABLE_3 if recipe.table == "3" else tuple(info.name for info in DATASETS)
    number = re.search(r"\d[\d,]*", recipe.line)
    return (
        TABLES.index(recipe.table),
        _position(recipe.column, columns),
        float(number[0].replace(",", "")) if number else math.inf,
        _position(recipe.line, _LINES),
    )


def _position(value: str, order: tuple[str, ...]) -> int:
    return order.index(value) if value in order else len(order)
