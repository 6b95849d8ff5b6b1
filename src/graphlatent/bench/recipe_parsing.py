"""From the values of a recipe file to a checked recipe."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from graphlatent.bench.methods import GIVEN_LATER, resolved_settings
from graphlatent.bench.recipe import (
    BEST,
    CHOICES,
    Evaluation,
    LabelBudget,
    MethodRecipe,
    Published,
    Recipe,
    called,
)
from graphlatent.bench.recipe_files import check_keys, table_files
from graphlatent.bench.recipe_values import names, number, one_of, require, text
from graphlatent.bench.rows import all_rows, method_rows
from graphlatent.bench.shapes import SHAPES
from graphlatent.config import Level, Settings
from graphlatent.data.datasets import dataset_info
from graphlatent.errors import ConfigError, InputError, bad_argument
from graphlatent.probes.metrics import OF_ENTRIES

# By protocol the layouts of files that hold what it needs: whole graphs (twice), one graph,
# published parts of nodes, published parts of graphs.
PROTOCOLS: Mapping[str, tuple[str, ...]] = {
    "folds": ("tu",),
    "few-labels": ("tu",),
    "splits": ("npz", "saint"),
    "inductive": ("saint", "parts"),
    "inductive-graphs": ("ppi",),
}
FEW_LABELS = "few-labels"
OWN_TABLE = "own"
BUDGET = "budget"
"""In place of epochs: those of `evaluation.budget`."""
_TEXTS = ("table", "column", "line", "dataset", "level", "protocol", "metric")
_TABLES = (
    "published",
    "settings",
    "released",
    "ours",
    "evaluation",
    "methods",
    "best",
    "changes",
    "labels",
    "published_rows",
)
KEYS = (*_TEXTS, "rows", "binarize", *_TABLES)
_METHOD_KEYS = ("settings", "evaluation", "ours", "published")


def parse_recipe(values: Mapping[str, Any], *, name: str) -> Recipe:
    """The recipe that the values of a file describe.

    Raises:
        ConfigError: where anything is unknown, missing, of a wrong type or out of range.
    """
    owner = called(name)
    require(values, (*_TEXTS, "rows", "settings", "evaluation"), where=owner)
    for key in _TABLES:
        if not isinstance(values.get(key, {}), dict):
            raise bad_argument(key, owner=owner, allowed=f"a table [{key}]", got=values[key])
    texts: dict[str, Any] = {key: text(values, key, owner=owner, needed=True) for key in _TEXTS}
    tables = (*(table.name for table in table_files()), OWN_TABLE)
    one_of(texts["table"], tables, key="table", owner=owner)
    one_of(texts["level"], ("graph", "node"), key="level", owner=owner)
    one_of(texts["metric"], OF_ENTRIES, key="metric", owner=owner)
    one_of(texts["protocol"], PROTOCOLS, key="protocol", owner=owner)
    binarize = values.get("binarize", False)
    if not isinstance(binarize, bool):
        raise bad_argument("binarize", owner=owner, allowed="true or false", got=binarize)
    evaluation = _evaluation(
        values["evaluation"], where=f"[evaluation] of {owner}", probed=texts["level"] == "node"
    )
    rows = _rows(values["rows"], owner=owner, level=texts["level"])
    recipe = Recipe(
        name=name,
        **texts,
        rows=rows,
        evaluation=evaluation,
        paper={"epochs": evaluation.epochs[-1], **values["settings"]},
        released=_with_budget(values.get("released", {}), evaluation),
        ours=dict(values.get("ours", {})),
        binarize=binarize,
        published=_published(values.get("published"), where=f"[published] of {owner}"),
        methods={
            row: _method(values.get("methods", {}), row, owner=owner)
            for row in rows
            if row in method_rows()
        },
        best=_best(values.get("best", {}), owner=owner),
        changes=dict(values.get("changes", {})),
        labels=_labels(values.get("labels"), protocol=texts["protocol"], owner=owner),
        published_rows=_published_rows(values.get("published_rows", {}), rows, owner=owner),
    )
    _check_data(recipe, owner=owner)
    _check_settings(recipe, owner=owner)
    _check_changes(recipe, owner=owner)
    _check_ours(recipe, owner=owner)
    return recipe


def _method(methods: Mapping[str, Any], name: str, *, owner: str) -> MethodRecipe:
    """The part of a recipe about another method."""
    where = f"[methods.{name}] of {owner}"
    table = methods.get(name, {})
    check_keys(table, known=_METHOD_KEYS, where=where)
    require(table, ("evaluation",), where=where)
    evaluation = _evaluation(
        {BUDGET: _last(table["evaluation"]), **table["evaluation"]},
        where=f"[methods.{name}.evaluation] of {owner}",
        probed=False,
    )
    published = table.get("published", {})
    return MethodRecipe(
        name=name,
        settings={"epochs": evaluation.epochs[-1], **table.get("settings", {})},
        evaluation=evaluation,
        ours=dict(table.get("ours", {})),
        published=_published(
            published if "mean" in published else None,
            where=f"[methods.{name}.published] of {owner}",
        ),
    )


def _labels(table: Mapping[str, Any] | None, *, protocol: str, owner: str) -> LabelBudget | None:
    """The part of a recipe about few labels, which its protocol needs."""
    if (table is not None) != (protocol == FEW_LABELS):
        raise ConfigError(
            f"[labels] and protocol = '{FEW_LABELS}' of {owner} belong together. Give both, or"
            " neither."
        )
    if table is None:
        return None
    where = f"[labels] of {owner}"
    check_keys(table, known=names(LabelBudget), where=where)
    require(table, ("train", "val", "test"), where=where)
    shares = {key: number(table, key, owner=where, high=1) for key in ("train", "val", "test")}
    if min(shares.values()) <= 0 or sum(shares.values()) > 1 + 1e-9:
        raise bad_argument(
            "train, val and test",
            owner=where,
            allowed="shares above 0 that sum to at most 1",
            got=tuple(shares.values()),
        )
    splits = number(table, "splits", owner=where, low=1, whole=True)
    return LabelBudget(**shares, **({} if splits is None else {"splits": splits}))


def _published_rows(
    tables: Mapping[str, Any], rows: tuple[str, ...], *, owner: str
) -> dict[str, Published]:
    where = f"[published_rows] of {owner}"
    check_keys(tables, known=rows, where=where)
    found = {
        row: _published(table, where=f"[published_rows.{row}] of {owner}")
        for row, table in tables.items()
    }
    return {row: number for row, number in found.items() if number is not None}


def _last(evaluation: Mapping[str, Any]) -> Any:
    """The last epoch, if there is one; malformed epochs are reported by `_evaluation`."""
    epochs = evaluation.get("epochs")
    return epochs[-1] if isinstance(epochs, list) and epochs else 0


def _published(table: Mapping[str, Any] | None, *, where: str) -> Published | None:
    if table is None:
        return None
    check_keys(table, known=names(Published), where=where)
    require(
        table,
        ("mean", "source"),
        where=where,
        way_out="Give it there: a published number is not inherited.",
    )
    return Published(
        mean=number(table, "mean", owner=where, high=100),
        source=text(table, "source", owner=where, needed=True),
        spread=number(table, "spread", owner=where, high=100),
        runs=number(table, "runs", owner=where, low=1, whole=True),
        selection=text(table, "selection", owner=where),
        memory_mb=number(table, "memory_mb", owner=where, low=1, whole=True),
        note=text(table, "note", owner=where),
    )


def _best(table: Mapping[str, Any], *, owner: str) -> dict[str, Published]:
    """The highest published numbers by key, in the order of their lines."""
    check_keys(table, known=BEST, where=f"[best] of {owner}")
    for key, value in table.items():
        if not isinstance(value, dict):
            raise bad_argument(
                key, owner=f"[best] of {owner}", allowed=f"a table [best.{key}]", got=value
            )
    made = {key: _published(table.get(key), where=f"[best.{key}] of {owner}") for key in BEST}
    return {key: number for key, number in made.items() if number is not None}


def _evaluation(table: Mapping[str, Any], *, where: str, probed: bool) -> Evaluation:
    # The SVM of the paper has neither.
    probe = ("probe_epochs", "probe_weight_decay") if probed else ()
    check_keys(table, known=("epochs", "budget", *probe), where=where)
    require(table, ("epochs", "budget", *probe), where=where)
    budget = number(table, "budget", owner=where, whole=True)
    epochs = [budget] if table["epochs"] == BUDGET else table["epochs"]
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
        number(table, "probe_epochs", owner=where, low=1, whole=True),
        number(table, "probe_weight_decay", owner=where),
    )


def _with_budget(values: Mapping[str, Any], evaluation: Evaluation) -> dict[str, Any]:
    """Settings whose epochs may be given as the budget's."""
    if values.get("epochs") == BUDGET:
        return {**values, "epochs": evaluation.budget}
    return dict(values)


def _check_data(recipe: Recipe, *, owner: str) -> None:
    name = SHAPES[recipe.dataset].of if recipe.dataset in SHAPES else recipe.dataset
    try:
        info = dataset_info(name)
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
    one_of(
        recipe.protocol,
        fitting,
        key="protocol",
        owner=f"{owner}, whose data set is {recipe.dataset},",
    )


def _check_settings(recipe: Recipe, *, owner: str) -> None:
    parts = {
        "settings": recipe.paper,
        "released": recipe.released,
        "changes": recipe.changes,
    }
    parts |= {f"methods.{name}.settings": each.settings for name, each in recipe.methods.items()}
    for part, values in parts.items():
        for key in GIVEN_LATER:
            if key in values:
                raise ConfigError(
                    f"The setting '{key}' has no place in [{part}] of {owner}: it is given when the"
                    " recipe is run."
                )
    made: dict[str, tuple[Settings, Evaluation]] = {
        "settings": (recipe.settings(), recipe.evaluation)
    }
    for name, each in recipe.methods.items():
        made[f"methods.{name}.settings"] = (recipe.method_settings(name), each.evaluation)
    released = recipe.released_settings()
    for part, (settings, evaluation) in made.items():
        epochs = resolved_settings(settings, owner=f"[{part}] of {owner}")["epochs"]
        last = evaluation.epochs[-1]
        if epochs != last:
            allowed = f"the last of its evaluation epochs, {last}"
            raise bad_argument("epochs", owner=f"[{part}] of {owner}", allowed=allowed, got=epochs)
    # Elsewhere they may be without meaning: the ReLU of the scripts does not go with cross-entropy.
    if "released" in recipe.rows:
        resolved_settings(released, owner=f"[released] of {owner}")


def _check_changes(recipe: Recipe, *, owner: str) -> None:
    """Changes are of settings that exist, in range, and of the row that is made of them."""
    if not recipe.changes:
        return
    where = f"[changes] of {owner}"
    if not any(all_rows()[row].uses_defaults for row in recipe.rows):
        raise ConfigError(
            f"{where} has no effect, since it is about the row 'defaults'. Add it to 'rows', or"
            " leave [changes] out."
        )
    if "degree_cap" in recipe.changes:
        raise ConfigError(
            f"The setting 'degree_cap' has no place in {where}: all rows of a cell start from the"
            " same features. Give it in [settings]."
        )
    resolved_settings(recipe.default_settings(), owner=where)


def _check_ours(recipe: Recipe, *, owner: str) -> None:
    where = f"[ours] of {owner}"
    _check_reasons(
        recipe.ours, known=(*recipe.paper, *_given(recipe.evaluation), *CHOICES), where=where
    )
    for name, each in recipe.methods.items():
        _check_reasons(
            each.ours,
            known=(*each.settings, *_given(each.evaluation)),
            where=f"[methods.{name}.ours] of {owner}",
        )


def _check_reasons(ours: Mapping[str, Any], *, known: Iterable[str], where: str) -> None:
    check_keys(ours, known=known, where=where)
    for key in ours:
        text(ours, key, owner=where, needed=True)


def _given(evaluation: Evaluation) -> list[str]:
    return [name for name in names(Evaluation) if getattr(evaluation, name) is not None]


def _rows(value: Any, *, owner: str, level: Level) -> tuple[str, ...]:
    known = tuple(name for name, row in all_rows().items() if level in row.levels)
    listed = (
        isinstance(value, list)
        and len(value) > 0
        and all(isinstance(row, str) and row in known for row in value)
    )
    if not listed or len(set(value)) < len(value):
        raise bad_argument(
            "rows", owner=owner, allowed=f"a list of different names out of {known}", got=value
        )
    return tuple(value)
