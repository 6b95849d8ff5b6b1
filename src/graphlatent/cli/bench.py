"""`graphlatent bench list | table | compare | fill`: the paper's tables, printed and measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from graphlatent.bench.cells import counts, interval, points, published_cell
from graphlatent.bench.differences import SEEDLESS, Comparison, compare, sources
from graphlatent.bench.formats import FORMATS, rows
from graphlatent.bench.ledger import Record, read_ledger
from graphlatent.bench.material import at_hand
from graphlatent.bench.recipe import Recipe
from graphlatent.bench.tables import TITLES, filled, make_table, recipes_of
from graphlatent.cli.output import Debug, Json, Output, Overwrite, Quiet, speaking
from graphlatent.data.datasets import DATASETS, data_root, is_present
from graphlatent.errors import InputError, bad_argument
from graphlatent.io.atomic import refuse_unwritable, write_text

SEEDS = 5  # of every row are the goal
DEFAULT_RESULTS = Path("results")

Results: TypeAlias = Annotated[
    Path | None, typer.Option("--results", help="Folder of the records [default: results].")
]
Data: TypeAlias = Annotated[
    Path | None, typer.Option("--data", help="Data root [default: GRAPHLATENT_DATA].")
]


def list_cells(
    table: Annotated[
        str | None, typer.Option("--table", help=f"Only this one: {', '.join(TITLES)}.")
    ] = None,
    results: Results = None,
    data: Data = None,
    quiet: Quiet = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """List the cells of the paper's tables: printed number, data at hand, how much is measured."""
    with speaking(quiet=quiet, as_json=as_json, debug=debug) as output:
        if table is not None and table not in TITLES:
            raise bad_argument(
                "--table", owner="bench list", allowed=f"one of {tuple(TITLES)}", got=table
            )
        recipes = recipes_of(table)
        records = _records(output, results, cells=[recipe.name for recipe in recipes])
        where = data or data_root()
        cells = [_standing(recipe, records, where) for recipe in recipes]
        lines = [
            [
                c["cell"],
                c["dataset"],
                c["published_text"],
                "yes" if c["at_hand"] else "no",
                f"{c['measured']} of {c['goal']}",
            ]
            for c in cells
        ]
        output.table(
            f"{len(cells)} cells, rows x seeds measured; data root {where}",
            ["cell", "data set", "published", "at hand", "measured"],
            lines,
        )
        output.result({"data": str(where), "seeds": SEEDS, "cells": cells})


def show_table(
    name: Annotated[str, typer.Argument(metavar="TABLE", help=f"One of {', '.join(TITLES)}.")],
    form: Annotated[
        str | None,
        typer.Option(
            "--format", help="md, csv or html [default: by the ending of --out, else md]."
        ),
    ] = None,
    results: Results = None,
    data: Data = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="File to write, instead of standard output.")
    ] = None,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Make a table of the paper anew from the records: printed and measured numbers, how they were
    selected, differences.
    """
    with speaking(quiet=quiet, as_json=as_json, debug=debug) as output:
        write = FORMATS[_format(form, out)]
        if out is not None:
            refuse_unwritable(out, overwrite=overwrite)
        records, where = _records(output, results), data or data_root()
        measured = {
            recipe.dataset
            for recipe in recipes_of(None)
            if any(record.cell == recipe.name for record in records)
        }
        absent = [
            info.name
            for info in DATASETS
            if info.name not in measured and not is_present(info, where)
        ]
        made = make_table(name, records, absent=absent)
        if out is not None:
            write_text(out, write(made) + "\n")
            output.say(f"{made.title}: written to {out}")
        elif not as_json:
            typer.echo(write(made))  # as it is: no wrapping, no styles
        written = None if out is None else str(out)
        output.result(
            {
                "table": name,
                "title": made.title,
                "out": written,
                "cells": rows(made),
                "notes": list(made.notes),
            }
        )


def compare_rows(
    tokens: Annotated[
        list[str],
        typer.Argument(
            metavar="CELL ROW ROW | CELL:ROW CELL:ROW",
            help="What to compare, such as table1/MUTAG paper random.",
        ),
    ],
    result: Annotated[
        str, typer.Option("--result", help="Which result of the rows: probe/selection.")
    ] = "linear/validation",
    results: Results = None,
    quiet: Quiet = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Compare two rows of the records, paired by seed and split: the difference and its 95 %
    interval.
    """
    with speaking(quiet=quiet, as_json=as_json, debug=debug) as output:
        first, second = sources(tokens)
        records = _records(output, results, cells=[first.cell, second.cell])
        found = compare(records, first=first, second=second, result=result)
        if found.only_one:
            output.note(
                "left out: seeds that only one of the two was measured with,"
                f" {', '.join(map(str, found.only_one))}"
            )
        _report(output, found)


def fill_pages(
    pages: Annotated[
        list[Path],
        typer.Argument(
            metavar="PAGE...", help="Markdown pages with <!-- bench table 1 --> ... <!-- end -->."
        ),
    ],
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Write nothing; exit code 1 where a page differs from the records."
        ),
    ] = False,
    results: Results = None,
    quiet: Quiet = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Write the tables of Markdown pages anew from the records."""
    with speaking(quiet=quiet, as_json=as_json, debug=debug) as output:
        root = _folder(results or DEFAULT_RESULTS)
        texts = {page: _read(page) for page in pages}
        # All of them before any is written
        anew = {page: filled(text, root) for page, text in texts.items()}
        changed = [page for page, text in texts.items() if anew[page] != text]
        for page in pages:
            if page in changed and not check:
                write_text(page, anew[page])
            done = "differs from the records" if check else "written anew"
            output.say(f"{page}: {done if page in changed else 'as the records say'}")
        output.result(
            {"changed": [str(page) for page in changed], "checked": [str(page) for page in pages]}
        )
    if check and changed:
        raise typer.Exit(1)


# ---- what the commands share


def _folder(path: Path) -> Path:
    if not path.is_dir():
        raise InputError(f"There is no folder {path}. Give the folder of the records by --results.")
    return path


def _records(
    output: Output, results: Path | None, *, cells: Sequence[str] | None = None
) -> list[Record]:
    if results is None and not DEFAULT_RESULTS.exists():
        output.note(
            f"there is no folder '{DEFAULT_RESULTS}' here, so nothing is measured; --results names"
            " another"
        )
        return []
    return read_ledger(_folder(results or DEFAULT_RESULTS), cells)


def _read(page: Path) -> str:
    try:
        return page.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"Cannot read the page {page}: {getattr(error, 'strerror', None) or error}."
        ) from error


def _format(form: str | None, out: Path | None) -> str:
    if form is None:
        return out.suffix[1:] if out is not None and out.suffix[1:] in FORMATS else "md"
    if form not in FORMATS:
        raise bad_argument(
            "--format", owner="bench table", allowed=f"one of {tuple(FORMATS)}", got=form
        )
    return form


def _standing(recipe: Recipe, records: Sequence[Record], root: Path) -> dict[str, Any]:
    """What is printed, at hand and measured of a cell."""
    seeds = {
        row: sorted(r.seed for r in records if r.cell == recipe.name and r.row == row)
        for row in recipe.rows
    }
    # Where splits know no seed
    goals = {
        row: 1 if row in SEEDLESS and recipe.protocol != "folds" else SEEDS for row in recipe.rows
    }
    printed = recipe.published
    return {
        "cell": recipe.name,
        "table": recipe.table,
        "dataset": recipe.dataset,
        "published": None if printed is None else printed.mean,
        "spread": None if printed is None else printed.spread,
        "published_text": "none" if printed is None else published_cell(recipe).text,
        "at_hand": at_hand(recipe, root),
        "measured": sum(min(len(seeds[row]), goals[row]) for row in recipe.rows),
        "goal": sum(goals.values()),
        "seeds_by_row": seeds,
    }


def _report(output: Output, found: Comparison) -> None:
    ones, others = found.first_means, found.second_means
    lines = [
        [str(seed), f"{100 * one:.2f}", f"{100 * other:.2f}", f"{100 * (one - other):+.2f}"]
        for seed, one, other in zip(found.seeds, ones, others, strict=True)
    ]
    output.table(
        f"{found.result}, {found.metric} in %, mean over splits",
        ["seed", str(found.first), str(found.second), "difference"],
        lines,
    )
    summary = found.difference
    said = (
        f"{points(summary.mean)} points, 95 % interval {interval(summary)}, {counts(summary)},"
        " paired"
    )
    output.say(f"{found.first} minus {found.second}: {said}.")
    output.say(found.words)
    numbers = {
        name: 100 * getattr(summary, name)
        for name in ("mean", "low", "high", "std_splits", "std_seeds")
    }
    output.result(
        {
            "first": str(found.first),
            "second": str(found.second),
            "result": found.result,
            "metric": found.metric,
            "difference": {
                name: None if math.isnan(value) else value for name, value in numbers.items()
            },
            "excludes_zero": found.excludes_zero,
            "words": found.words,
            "seeds": list(found.seeds),
            "left_out": list(found.only_one),
            "splits": summary.num_splits,
            "first_means": [100 * mean for mean in ones],
            "second_means": [100 * mean for mean in others],
        }
    )
