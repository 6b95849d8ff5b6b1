"""`graphlatent bench list | table | compare | fill | compact`: tables, published and measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from graphlatent.cli.output import Debug, Json, Output, Overwrite, Quiet, command_output
from graphlatent.errors import InputError, bad_argument
from graphlatent.io.atomic import refuse_unwritable, write_text

if TYPE_CHECKING:
    from graphlatent.bench.differences import Comparison
    from graphlatent.bench.ledger import Record

DEFAULT_RESULTS = Path("results")

Results: TypeAlias = Annotated[
    Path | None, typer.Option("--results", help="Folder of the records (default: results).")
]
Data: TypeAlias = Annotated[
    Path | None, typer.Option("--data", help="Data root (default: GRAPHLATENT_DATA).")
]


def list_cells(
    table: Annotated[
        str | None, typer.Option("--table", help="Only this table, such as 1 or alpha.")
    ] = None,
    results: Results = None,
    data: Data = None,
    quiet: Quiet = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """List the cells of tables: published number, whether the data is there, what is measured."""
    with command_output(quiet=quiet, as_json=as_json, debug=debug) as output:
        from graphlatent.bench.loading import all_recipes, find_table, recipes_of
        from graphlatent.bench.progress import SEEDS, cell_progress
        from graphlatent.data.datasets import data_root

        if table is not None:
            find_table(table, argument="--table", owner="bench list")
        recipes = all_recipes() if table is None else recipes_of(table)
        records = _records(output, results, cells=[recipe.name for recipe in recipes])
        where = data or data_root()
        cells = [cell_progress(recipe, records, root=where) for recipe in recipes]
        lines = [
            [
                each.cell,
                each.dataset,
                each.published_text,
                "yes" if each.available else "no",
                f"{each.measured} of {each.goal}",
            ]
            for each in cells
        ]
        output.table(
            f"{len(cells)} cells, rows x seeds measured; data root {where}",
            ["cell", "data set", "published", "data", "measured"],
            lines,
        )
        found = [asdict(each) for each in cells]
        output.result({"data": str(where), "seeds": SEEDS, "cells": found})


def show_table(
    name: Annotated[
        str, typer.Argument(metavar="TABLE", help="Name of the table, such as 1 or alpha.")
    ],
    form: Annotated[
        str | None,
        typer.Option(
            "--format", help="md, csv or html (default: by the ending of --out, else md)."
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
    """Make a table of published and measured numbers from the records.

    It also shows how the numbers were selected, and differences between rows.
    """
    with command_output(quiet=quiet, as_json=as_json, debug=debug) as output:
        from graphlatent.bench.formats import FORMATS, rows
        from graphlatent.bench.progress import unavailable_sets
        from graphlatent.bench.tables import make_table
        from graphlatent.data.datasets import data_root

        write = FORMATS[_format(form, out)]
        if out is not None:
            refuse_unwritable(out, overwrite=overwrite)
        records, where = _records(output, results), data or data_root()
        made = make_table(name, records, absent=unavailable_sets(records, root=where))
        if out is not None:
            write_text(out, write(made) + "\n")
            output.say(f"{made.title}: written to {out}")
        elif not as_json:
            # Without rich, which would wrap lines and add styles.
            typer.echo(write(made))
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
    """Compare two rows of the records: the paired difference and its 95 % interval.

    Results are paired by seed and split.
    """
    with command_output(quiet=quiet, as_json=as_json, debug=debug) as output:
        from graphlatent.bench.differences import compare, parse_cell_rows

        first, second = parse_cell_rows(tokens)
        records = _records(output, results, cells=[first.cell, second.cell])
        found = compare(records, first=first, second=second, result=result)
        if found.only_one:
            output.note(
                "left out: seeds that only one of the two was measured with,"
                f" {', '.join(map(str, found.only_one))}"
            )
        _report(output, found)


def fill(
    pages: Annotated[
        list[Path],
        typer.Argument(
            metavar="PAGE...", help="Markdown pages with <!-- table 1 --> ... <!-- end -->."
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
    """Update the tables of Markdown pages from the records."""
    with command_output(quiet=quiet, as_json=as_json, debug=debug) as output:
        from graphlatent.bench.pages import fill_pages, table_maker

        root = _folder(results or DEFAULT_RESULTS)
        # All of them are made before any is written.
        texts = fill_pages(pages, {"table": table_maker(root)})
        changed = [page for page, (old, new) in texts.items() if old != new]
        for page in pages:
            if page in changed and not check:
                write_text(page, texts[page][1])
            done = "differs from the records" if check else "updated"
            output.say(f"{page}: {done if page in changed else 'as the records say'}")
        output.result(
            {"changed": [str(page) for page in changed], "checked": [str(page) for page in pages]}
        )
    if check and changed:
        raise typer.Exit(1)


def compact_records(
    stale: Annotated[
        bool,
        typer.Option(
            "--stale", help="Also drop records of packaged cells whose settings have changed since."
        ),
    ] = False,
    results: Results = None,
    quiet: Quiet = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Sort the records by cell, row and seed, and drop those that later ones replaced.

    With --stale also those that were measured with other settings than their recipes have today.
    """
    with command_output(quiet=quiet, as_json=as_json, debug=debug) as output:
        from graphlatent.bench.ledger import compact
        from graphlatent.bench.stale import is_stale

        root = _folder(results or DEFAULT_RESULTS)
        dropped = compact(root, keep=lambda record: not (stale and is_stale(record)))
        what = "replaced or stale" if stale else "replaced"
        for path, count in dropped.items():
            output.say(f"{path}: {count} {what} records dropped")
        output.result({str(path): count for path, count in dropped.items()})


# ---- shared by the commands


def _folder(path: Path) -> Path:
    if not path.is_dir():
        raise InputError(f"There is no folder {path}. Give the folder of the records by --results.")
    return path


def _records(
    output: Output, results: Path | None, *, cells: Sequence[str] | None = None
) -> list[Record]:
    from graphlatent.bench.ledger import read_ledger

    if results is None and not DEFAULT_RESULTS.exists():
        output.note(
            f"there is no folder '{DEFAULT_RESULTS}' here, so nothing is measured; --results names"
            " another"
        )
        return []
    return read_ledger(_folder(results or DEFAULT_RESULTS), cells)


def _format(form: str | None, out: Path | None) -> str:
    from graphlatent.bench.formats import FORMATS

    if form is None:
        return out.suffix[1:] if out is not None and out.suffix[1:] in FORMATS else "md"
    if form not in FORMATS:
        raise bad_argument(
            "--format", owner="bench table", allowed=f"one of {tuple(FORMATS)}", got=form
        )
    return form


def _report(output: Output, found: Comparison) -> None:
    from graphlatent.bench.cells import counts, interval, points

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
    text = (
        f"{points(summary.mean)} points, 95 % interval {interval(summary)}, {counts(summary)},"
        " paired"
    )
    output.say(f"{found.first} minus {found.second}: {text}.")
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
