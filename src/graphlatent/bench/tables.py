"""The paper's tables, made anew from the ledger: what was printed, and what was measured beside it.

A main table (1, 2, binarized) has a column for each data set and a line for each way to come to a
score. The others are ablations: what needs no training, as the main tables have it, then a line for
each variant, what was printed and what was measured in one cell.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from statistics import median

from graphlatent.bench.cells import (
    NOT_AT_HAND,
    NOT_MEASURED,
    counts,
    difference_cell,
    empty_cell,
    measured_cell,
    printed_number,
    published_cell,
    selection,
)
from graphlatent.bench.differences import by_seed, for_every_seed, summary_of
from graphlatent.bench.formats import Block, Cell, Line, Table, markdown
from graphlatent.bench.ledger import Record, read_ledger
from graphlatent.bench.lines import BLOCKS, DIFFERENCES, SHORT, Minus, Wanted, baselines
from graphlatent.bench.recipe import SHAPES, Recipe, all_recipes
from graphlatent.data.datasets import dataset_info
from graphlatent.errors import ConfigError, InputError, bad_argument
from graphlatent.probes.results import ProbeResult

TITLES: Mapping[str, str] = {
    "1": "Table 1: graph classification",
    "2": "Table 2: node classification",
    "3": "Table 3: nodes sampled for a step",
    "9": "Table 9: objectives",
    "10": "Table 10: with and without the input features beside the embedding",
    "figure2": "Figure 2: batch sizes",
    "alpha": "The weight alpha of the invariance term",
    "invariance": "Invariance on masked nodes or on all",
    "binarized": "Table 2 with counts set to 0 and 1",
}
MAIN = ("1", "2", "binarized")
ABSENT_FILE = "absent.json"  # of a ledger: data sets that could not be had, with the reason
_BLOCK = re.compile(
    r"<!-- bench\b(?P<words>.*?)-->(?:(?P<inside>.*?)<!-- end -->)?", flags=re.DOTALL
)
_SPREAD = (
    "Mean ± standard deviation over the splits of a seed, over seeds where there is one split; the"
    " ± of published numbers is the paper's."
)
_INTERVALS = (
    "Differences are of the seeds that both rows have. Intervals are about these data and this way"
    " of splitting them, and are not corrected for how many there are."
)
_MEMORY = (
    "MB: peak memory on the GPU; ours is that of the training steps, the graph they see included,"
    " the median over the seeds."
)


def make_table(name: str, records: Sequence[Record], *, absent: Collection[str] = ()) -> Table:
    """One of `TITLES`, out of records.

    Args:
        name: of the table.
        records: of the ledger; those of other tables do not matter.
        absent: data sets that are not at hand.

    Raises:
        ConfigError: where there is no such table.
        InputError: where records of a row do not match.
    """
    if name not in TITLES:
        raise bad_argument("table", owner="bench", allowed=f"one of {tuple(TITLES)}", got=name)
    recipes = recipes_of(name)
    own = {recipe.name for recipe in recipes}
    above = (
        set()
        if name in MAIN
        else {(recipe.name, wanted.row) for recipe, wanted in _baselines(recipes)}
    )
    source = _Source(
        [r for r in records if r.cell in own or (r.cell, r.row) in above], frozenset(absent)
    )
    blocks, how = (_main if name in MAIN else _ablation)(source, recipes)
    reading = [
        _SPREAD,
        *([_INTERVALS] if name in MAIN else []),
        *([_MEMORY] if name == "3" else []),
        *_provenance(source.records),
    ]
    return Table(
        name,
        f"{TITLES[name]} ({_metrics(recipes)})",
        tuple(blocks),
        (*_about_published(recipes), *how, *reading),
    )


def recipes_of(table: str | None) -> list[Recipe]:
    """The packaged recipes of a table, or of all, in the paper's order."""
    return [recipe for recipe in _recipes() if table in (None, recipe.table)]


@cache
def _recipes() -> tuple[Recipe, ...]:
    return all_recipes()


def filled(text: str, root: Path) -> str:
    """The page with its tables written anew: what stands between `<!-- bench table 1 -->` and the
    next `<!-- end -->`.

    It depends on the ledger alone, not on the data that this machine has: sets that were not at
        hand are named in its absent.json.

    Raises:
        ConfigError: where a block has no end, or names no table.
        InputError: where the ledger is damaged.
    """
    if _BLOCK.search(text) is None:
        return text
    records, absent = read_ledger(root), absent_sets(root)

    def made(match: re.Match[str]) -> str:
        words, start = match["words"].split(), f"<!-- bench{match['words']}-->"
        if (
            words[:1] != ["table"]
            or words[1:2] == []
            or words[1] not in TITLES
            or words[2:] not in ([], ["short"])
        ):
            raise ConfigError(
                f"'{start}' names no table. It must be '<!-- bench table NAME -->', NAME one of"
                f" {', '.join(TITLES)}."
            )
        # Another block begins before the end: it is not ours to replace
        if match["inside"] is None or "<!--" in match["inside"]:
            raise ConfigError(f"'{start}' has no '<!-- end -->' after it.")
        table = make_table(words[1], records, absent=absent)
        return (
            f"<!-- bench {' '.join(words)}"
            f" -->\n{markdown(shortened(table) if words[2:] else table)}\n<!-- end -->"
        )

    return _BLOCK.sub(made, text)


def shortened(table: Table) -> Table:
    """The first block's first lines and the columns that were measured, without notes: for a page
    that links to the whole table.
    """
    block = table.blocks[0]
    kept = [
        i
        for i in range(len(block.columns))
        if any("mean" in line.cells[i].values for line in block.lines)
    ]
    wanted = [each for blocks in BLOCKS.values() for lines in blocks.values() for each in lines]
    labels = {
        "published",
        *(
            each.label
            for each in wanted
            if each.row in SHORT and each.result == "linear/validation"
        ),
    }
    lines = [
        Line(line.label, tuple(line.cells[i] for i in kept))
        for line in block.lines
        if line.label in labels
    ]
    return replace(
        table,
        blocks=(replace(block, columns=tuple(block.columns[i] for i in kept), lines=tuple(lines)),),
        notes=(),
    )


def absent_sets(root: Path) -> frozenset[str]:
    """Data sets that a ledger names as not at hand when it was made: the keys of its absent.json;
    none where it has no such file.

    Raises:
        InputError: where the file is damaged or names a set that is not known.
    """
    path = root / ABSENT_FILE
    if not path.exists():
        return frozenset()
    try:
        return frozenset(
            dataset_info(name).name for name in dict(json.loads(path.read_text(encoding="utf-8")))
        )
    except (OSError, ValueError, TypeError) as error:
        raise InputError(
            f"{path} must be a JSON object that gives a reason for each data set that is not at"
            f" hand. {error}"
        ) from error


# ---- cells of the two kinds of tables


@dataclass(frozen=True)
class _Source:
    """Records of a table, and what could not be measured."""

    records: Sequence[Record]
    absent: frozenset[str]

    def found(self, recipe: Recipe, wanted: Wanted) -> dict[int, ProbeResult]:
        return by_seed(self.records, cell=recipe.name, row=wanted.row, result=wanted.result)

    def cell(self, recipe: Recipe, wanted: Wanted) -> Cell:
        found = self.found(recipe, wanted)
        return measured_cell(found, name=_called(recipe, wanted)) if found else self._none(recipe)

    def difference(self, recipe: Recipe, minus: Minus) -> Cell:
        first, second = self.found(recipe, minus.first), self.found(recipe, minus.second)
        if not first or not second:
            return self._none(recipe)
        second = for_every_seed(second, row=minus.second.row, other=first)
        return difference_cell(first, second, name=f"{recipe.name}, {minus.label}")

    def how(self, recipes: Iterable[Recipe], wanted: Wanted, *, label: str) -> list[_How]:
        """Of every column that was measured: how it was selected, and out of how many scores."""
        found = [(recipe, self.found(recipe, wanted)) for recipe in recipes]
        return [
            _How(
                label,
                recipe.column,
                selection(by),
                counts(summary_of(by, name=_called(recipe, wanted))),
            )
            for recipe, by in found
            if by
        ]

    def _none(self, recipe: Recipe) -> Cell:
        return empty_cell(NOT_AT_HAND if recipe.dataset in self.absent else NOT_MEASURED)


@dataclass(frozen=True)
class _How:
    """Of one cell: its line and column, how it was selected, and out of how many scores."""

    label: str
    column: str
    selection: str
    amount: str


def _main(source: _Source, recipes: Sequence[Recipe]) -> tuple[list[Block], list[str]]:
    """The blocks of a main table, and how each of its lines was selected."""
    level, columns = recipes[0].level, tuple(recipe.column for recipe in recipes)
    published = Line("published", tuple(published_cell(recipe) for recipe in recipes))
    blocks: list[Block] = []
    how: list[_How] = []
    for title, lines in BLOCKS[level].items():
        measured = [
            Line(wanted.label, tuple(source.cell(recipe, wanted) for recipe in recipes))
            for wanted in lines
        ]
        blocks.append(Block(title, columns, (published, *measured)))
        for wanted in lines:
            how += source.how(
                recipes, wanted, label=f"{title}, {wanted.label}" if title else wanted.label
            )
    minus = [
        Line(each.label, tuple(source.difference(recipe, each) for recipe in recipes))
        for each in DIFFERENCES[level]
    ]
    blocks.append(
        Block(
            "Differences in points, paired by seed and split, with 95 % intervals",
            columns,
            tuple(minus),
        )
    )
    return blocks, [*_selections(how), *_amounts(how)]


def _ablation(source: _Source, recipes: Sequence[Recipe]) -> tuple[list[Block], list[str]]:
    """The block of an ablation, and how its cells were selected."""
    place = {(recipe.line, recipe.column): recipe for recipe in recipes}
    lines, columns = (tuple(dict.fromkeys(key[i] for key in place)) for i in (0, 1))
    measured = [
        Line(line, tuple(_variant(source, place.get((line, column))) for column in columns))
        for line in lines
    ]
    how = [
        said
        for recipe in recipes
        for said in source.how([recipe], _shown(recipe), label=recipe.line)
    ]
    untrained: dict[str, list[Cell]] = {}
    beside: list[_How] = []
    for recipe, wanted in _baselines(recipes):
        untrained.setdefault(wanted.label, []).append(source.cell(recipe, wanted))
        beside += source.how([recipe], wanted, label=wanted.label)
    block = Block(
        "", columns, (*(Line(label, tuple(cells)) for label, cells in untrained.items()), *measured)
    )
    selected = _by_column((each.column, each.selection) for each in how)
    shapes = [
        f"{recipe.column}: {recipe.ours['dataset']}"
        for recipe in recipes
        if recipe.dataset in SHAPES
    ]
    return [block], [
        *_selections(beside),
        f"measured: {selected}",
        *_amounts([*beside, *how]),
        *dict.fromkeys(shapes),
    ]


def _baselines(recipes: Sequence[Recipe]) -> list[tuple[Recipe, Wanted]]:
    """For each column of an ablation what needs no training, and the cell that has it: the first of
    the same data with those rows.
    """
    found = []
    for column in dict.fromkeys(recipe.column for recipe in recipes):
        one = next(recipe for recipe in recipes if recipe.column == column)
        same = [
            each
            for each in _recipes()
            if (each.dataset, each.binarize) == (one.dataset, one.binarize)
            and "random" in each.rows
        ]
        found += [
            (same[0] if same else one, wanted)
            for wanted in baselines(one.level, _shown(one).result)
        ]
    return found


def _variant(source: _Source, recipe: Recipe | None) -> Cell:
    """What was printed and what was measured, in one cell."""
    if recipe is None:
        return empty_cell("no such cell")
    cell, printed = source.cell(recipe, _shown(recipe)), recipe.published
    memory = _peak_memory(source.records, recipe) if recipe.table == "3" else None
    text = cell.text if memory is None else f"{cell.text}, {memory:.0f} MB"
    values = {**cell.values, "memory_mb": memory}
    if printed is not None:
        used = "" if printed.memory_mb is None else f", {printed.memory_mb} MB"
        text = f"{printed_number(printed.mean)}{used} published / {text}"
        values |= {
            "published": printed.mean,
            "published_spread": printed.spread,
            "published_memory_mb": printed.memory_mb,
        }
    return replace(cell, text=text, values=values)


def _shown(recipe: Recipe) -> Wanted:
    """Which result an ablation shows: chosen on validation where there is a choice of epochs."""
    return Wanted(
        recipe.line,
        "paper",
        "linear/validation" if len(recipe.evaluation.epochs) > 1 else "linear/fixed",
    )


def _peak_memory(records: Iterable[Record], recipe: Recipe) -> float | None:
    """The median over the seeds (a process's first training also pays what the GPU's libraries take
    once); None where not measured.
    """
    found = [
        record.training.get("peak_memory_mb")
        for record in records
        if record.cell == recipe.name and record.row == "paper"
    ]
    values = [value for value in found if isinstance(value, int | float)]
    return median(values) if values else None


# ---- notes


def _about_published(recipes: Iterable[Recipe]) -> list[str]:
    """How the published numbers were selected, and what to know about them."""
    said, noted = [], []
    for recipe in recipes:
        printed = recipe.published
        if printed is not None:
            runs = "number of runs not given" if printed.runs is None else f"{printed.runs} runs"
            said.append(
                (
                    recipe.column,
                    f"{printed.source}, {runs}; {printed.selection or 'selection not known'}.",
                )
            )
            noted += [(recipe.column, printed.note)] if printed.note else []
    notes = [f"published, {', '.join(columns)}: {text}" for columns, text in _grouped(noted)]
    return [
        f"published: {_by_column(said)}" if said else "published: no numbers are printed.",
        *notes,
    ]


def _selections(how: Sequence[_How]) -> list[str]:
    """How lines were selected, those of equal words together."""
    by_label = {
        label: [(each.column, each.selection) for each in how if each.label == label]
        for label in dict.fromkeys(h.label for h in how)
    }
    selected = _grouped((label, _by_column(said)) for label, said in by_label.items())
    return [f"{'; '.join(labels)}: {text}" for labels, text in selected]


def _amounts(how: Sequence[_How]) -> list[str]:
    """Out of how many seeds and splits most scores are, and those that are not."""
    groups: dict[str, list[_How]] = {}
    for each in how:
        groups.setdefault(each.amount, []).append(each)
    if not groups:
        return []
    usual = max(groups, key=lambda amount: len(groups[amount]))
    others = []
    for amount, cells in groups.items():
        if amount != usual:
            lines = _grouped(
                (label, ", ".join(columns))
                for columns, label in _grouped((each.column, each.label) for each in cells)
            )
            others.append(
                f"{amount}: "
                + "; ".join(f"{'; '.join(labels)} ({columns})" for labels, columns in lines)
            )
    return [
        (
            f"Every score: {usual}."
            if not others
            else f"Every score: {usual}; but {'. '.join(others)}."
        )
    ]


def _provenance(records: Sequence[Record]) -> list[str]:
    """When and on what the records were measured."""
    if not records:
        return []
    dates, hardware = (
        sorted({str(r.about[key]) for r in records if r.about.get(key)})
        for key in ("date", "hardware")
    )
    when = " to ".join(dict.fromkeys(dates[:1] + dates[-1:])) or "date not noted"
    return [
        f"{len(records)} records, {when}; {', '.join(hardware) or 'hardware not noted'}. Each names"
        " its command, seed and commit."
    ]


def _metrics(recipes: Iterable[Recipe]) -> str:
    """The first column's metric, and the columns that have another."""
    first, *others = _grouped((recipe.column, recipe.metric) for recipe in recipes)
    return "; ".join(
        [f"{first[1]} in %", *(f"{', '.join(columns)}: {metric}" for columns, metric in others)]
    )


def _by_column(said: Iterable[tuple[str, str]]) -> str:
    """What was said about columns, once where it is the same for all of them."""
    groups = _grouped(said)
    if not groups:
        return f"{NOT_MEASURED}."
    return (
        groups[0][1]
        if len(groups) == 1
        else " ".join(f"[{', '.join(columns)}] {text}" for columns, text in groups)
    )


def _grouped(pairs: Iterable[tuple[str, str]]) -> list[tuple[list[str], str]]:
    """Names that have the same text, together and each once; in the order of the first."""
    groups: dict[str, dict[str, None]] = {}
    for name, text in pairs:
        groups.setdefault(text, {})[name] = None
    return [(list(names), text) for text, names in groups.items()]


def _called(recipe: Recipe, wanted: Wanted) -> str:
    return f"{recipe.name}, row {wanted.row}, {wanted.result}"
