"""The notes below a table: selection, number of scores, date and hardware."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from graphlatent.bench.cells import NOT_MEASURED
from graphlatent.bench.ledger import Record
from graphlatent.bench.recipe import Published, Recipe
from graphlatent.display import counted

SPREAD = (
    "Mean ± standard deviation over the splits of a seed, over seeds where there is one split; the"
    " ± of published numbers is the paper's."
)
INTERVALS = (
    "Differences are of the seeds that both rows have. Intervals are about these data and this way"
    " of splitting them, and are not corrected for how many there are."
)
DIFFERENCES = "Differences in points, paired by seed and split, with 95 % intervals"
"""The title of the block of differences."""
MEMORY = (
    "MB: peak memory on the GPU; ours is that of the training steps, the graph they see included,"
    " the median over the seeds."
)


@dataclass(frozen=True)
class Provenance:
    """How the score in one cell of a table was obtained.

    Args:
        label: of its line.
        column: of the cell.
        selection: how it was selected, in words.
        amount: out of how many scores, such as "5 seeds x 20 splits".
    """

    label: str
    column: str
    selection: str
    amount: str


def published_notes(printed: Iterable[tuple[str, Published | None]], *, title: str) -> list[str]:
    """How published numbers were selected, and what to know about them.

    Args:
        printed: by column.
        title: what their line is called.
    """
    selections, remarks = [], []
    for column, number in printed:
        if number is not None:
            runs = (
                "number of runs not given" if number.runs is None else counted(number.runs, "run")
            )
            selection = number.selection or "selection not known"
            selections.append((column, f"{number.source}, {runs}; {selection}."))
            remarks += [(column, number.note)] if number.note else []
    if not selections:
        return [f"{title}: no numbers are printed."]
    notes = [f"{title}, {', '.join(columns)}: {text}" for columns, text in grouped(remarks)]
    return [f"{title}: {by_column(selections)}", *notes]


def dataset_notes(recipes: Iterable[Recipe]) -> list[str]:
    """About columns whose data set is ours, each once."""
    texts = [(r.column, r.ours["dataset"]) for r in recipes if "dataset" in r.ours]
    return [f"{', '.join(columns)}: {text}" for columns, text in grouped(texts)]


def selection_notes(found: Sequence[Provenance]) -> list[str]:
    """How lines were selected, those of equal words together."""
    by_label = {
        label: [(each.column, each.selection) for each in found if each.label == label]
        for label in dict.fromkeys(each.label for each in found)
    }
    selected = grouped((label, by_column(texts)) for label, texts in by_label.items())
    return [f"{'; '.join(labels)}: {text}" for labels, text in selected]


def amount_notes(found: Sequence[Provenance]) -> list[str]:
    """Out of how many seeds and splits most scores are, and those that are not."""
    groups: dict[str, list[Provenance]] = {}
    for each in found:
        groups.setdefault(each.amount, []).append(each)
    if not groups:
        return []
    usual = max(groups, key=lambda amount: len(groups[amount]))
    others = []
    for amount, cells in groups.items():
        if amount != usual:
            lines = grouped(
                (label, ", ".join(columns))
                for columns, label in grouped((each.column, each.label) for each in cells)
            )
            listed = "; ".join(f"{'; '.join(labels)} ({columns})" for labels, columns in lines)
            others.append(f"{amount}: {listed}")
    if not others:
        return [f"Every score: {usual}."]
    return [f"Every score: {usual}; but {'. '.join(others)}."]


def record_notes(records: Sequence[Record]) -> list[str]:
    """When and on what the records were measured."""
    if not records:
        return []
    dates, hardware = (
        sorted({str(r.about[key]) for r in records if r.about.get(key)})
        for key in ("date", "hardware")
    )
    when = " to ".join(dict.fromkeys(dates[:1] + dates[-1:])) or "date not noted"
    where = ", ".join(hardware) or "hardware not noted"
    return [f"{len(records)} records, {when}; {where}. Each names its command, seed and commit."]


def metrics_in_words(recipes: Iterable[Recipe]) -> str:
    """The first column's metric, and the columns that have another."""
    first, *others = grouped((recipe.column, recipe.metric) for recipe in recipes)
    return "; ".join(
        [f"{first[1]} in %", *(f"{', '.join(columns)}: {metric}" for columns, metric in others)]
    )


def by_column(texts: Iterable[tuple[str, str]]) -> str:
    """Texts about columns, once where they are the same for all of them."""
    groups = grouped(texts)
    if not groups:
        return f"{NOT_MEASURED}."
    if len(groups) == 1:
        return groups[0][1]
    return " ".join(f"[{', '.join(columns)}] {text}" for columns, text in groups)


def grouped(pairs: Iterable[tuple[str, str]]) -> list[tuple[list[str], str]]:
    """Names that have the same text, together and each once; in the order of the first."""
    groups: dict[str, dict[str, None]] = {}
    for name, text in pairs:
        groups.setdefault(text, {})[name] = None
    return [(list(names), text) for text, names in groups.items()]
