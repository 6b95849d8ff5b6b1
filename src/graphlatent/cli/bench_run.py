"""`graphlatent bench run`: measure cells of the paper's tables into the ledger."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from graphlatent.cli.output import Debug, Json, Output, Quiet, command_output
from graphlatent.errors import ConfigError, InputError, bad_argument
from graphlatent.io.atomic import refuse_unwritable_folder

if TYPE_CHECKING:
    from graphlatent.bench.recipe import Recipe
    from graphlatent.bench.runner import Event

MOST_SEEDS = 1_000
STATES = {"done": "done", "skipped": "skipped", "missing": "without data", "failed": "failed"}


def run_rows(
    cells: Annotated[
        list[str] | None,
        typer.Argument(metavar="[CELL...]", help="Cells, such as table1/MUTAG, or recipe files."),
    ] = None,
    tables: Annotated[
        list[str] | None, typer.Option("--table", help="All cells of a table; may be given again.")
    ] = None,
    rows: Annotated[
        str | None,
        typer.Option(
            "--rows",
            metavar="NAMES",
            help="Only these rows, separated by commas (default: those of a cell).",
        ),
    ] = None,
    seeds: Annotated[
        str,
        typer.Option(
            "--seeds",
            metavar="NUMBERS",
            help="How many, such as 5, or which, such as 0-4 or 0,2,7.",
        ),
    ] = "5",
    results: Annotated[Path, typer.Option("--results", help="Folder of the records.")] = Path(
        "results"
    ),
    data: Annotated[
        Path | None, typer.Option("--data", help="Data root (default: GRAPHLATENT_DATA).")
    ] = None,
    device: Annotated[str, typer.Option("--device", help="auto, cpu, cuda or cuda:1.")] = "auto",
    probe_device: Annotated[
        str | None, typer.Option("--probe-device", help="Where to probe (default: as --device).")
    ] = None,
    jobs: Annotated[
        int,
        typer.Option(
            "--jobs", min=1, max=1024, help="Processes; each gets its share of the cores."
        ),
    ] = 1,
    quiet: Quiet = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Measure cells of the paper's tables, or recipes of your own.

    Rows that are measured already are skipped, so a stopped run can be continued with the same
    command.
    """
    with command_output(quiet=quiet, as_json=as_json, debug=debug) as output:
        from graphlatent.bench.runner import run_cells
        from graphlatent.ops.devices import pick_device

        recipes, which = _recipes(cells or [], tables or []), parsed_seeds(seeds)
        chosen = None if rows is None else _rows(rows, recipes)
        number, total = (
            count(1),
            len(which)
            * sum(row in (chosen or recipe.rows) for recipe in recipes for row in recipe.rows),
        )
        _refuse_file(results)
        for each in (device, probe_device or device):
            # A wrong device is refused here, before any process starts.
            pick_device(each)

        def on_event(event: Event) -> None:
            _check_data(event, data)
            _tell(output, event, next(number), total)

        events = run_cells(
            recipes,
            seeds=which,
            rows=chosen,
            ledger=results,
            data=data,
            device=device,
            probe_device=probe_device,
            jobs=jobs,
            command=_command(
                cells or [],
                tables or [],
                rows=rows,
                seeds=seeds,
                device=device,
                probe_device=probe_device,
            ),
            on_event=on_event,
        )
        found = Counter(event.state for event in events)
        output.say(", ".join(f"{found[state]} {words}" for state, words in STATES.items()))
        output.result(
            {
                **{state: found[state] for state in STATES},
                "events": [asdict(event) for event in events],
            }
        )
        missing = {event.cell for event in events if event.state == "missing"}
        names = sorted({recipe.dataset for recipe in recipes if recipe.name in missing})
        if names and not found["failed"]:
            how = _how_to_get(names, data)
            if not found["done"]:
                raise InputError(f"Nothing was measured. {how}")
            output.note(how)
    if found["failed"]:
        raise typer.Exit(1)


def _how_to_get(names: Sequence[str], data: Path | None) -> str:
    """Where data sets were looked for, and how to get them."""
    from graphlatent.data.datasets import ROOT_VARIABLE, data_root

    root = data or data_root()
    where = "" if data is None else f"{ROOT_VARIABLE}={shlex.quote(str(data))} "
    one = len(names) == 1
    more = "" if one else ", and so on"
    return (
        f"The data {'set' if one else 'sets'} {', '.join(names)} {'is' if one else 'are'} not in"
        f" {root}. Download {'it' if one else 'them'} with '{where}graphlatent info {names[0]}'"
        f"{more}, or name the folder that has {'it' if one else 'them'} by --data."
    )


def parsed_seeds(text: str) -> list[int]:
    """The seeds that a text names, each once, in the order given.

    "5" means the first five; "0-4" and "0,2,7" name the seeds themselves.

    Raises:
        ConfigError: where it means none, or more than `MOST_SEEDS`.
    """
    found: dict[int, None] = {}
    how_many = re.fullmatch(r"\s*([1-9]\d{,17})\s*", text)
    for part in [f"0-{int(how_many[1]) - 1}"] if how_many else text.split(","):
        match = re.fullmatch(r"\s*(\d{1,18})(?:-(\d{1,18}))?\s*", part)
        if match is None or int(match[2] or match[1]) < int(match[1]):
            raise bad_argument(
                "--seeds",
                owner="bench run",
                allowed="how many, such as 5, or which, such as 0-4 or 0,2,7",
                got=text,
            )
        part_of = range(int(match[1]), int(match[2] or match[1]) + 1)
        # A larger range is not expanded at all.
        if len(part_of) <= MOST_SEEDS:
            found |= dict.fromkeys(part_of)
        if max(len(part_of), len(found)) > MOST_SEEDS:
            raise bad_argument(
                "--seeds", owner="bench run", allowed=f"{MOST_SEEDS:,} seeds at most", got=text
            )
    return list(found)


def _rows(text: str, recipes: Sequence[Recipe]) -> list[str]:
    """The rows that a text names.

    Raises `ConfigError` where it names none, or one that no cell has.
    """
    from graphlatent.bench.rows import row_names

    chosen = [row.strip() for row in text.split(",") if row.strip()]
    known = [row for row in row_names() if any(row in recipe.rows for recipe in recipes)]
    if not chosen:
        raise bad_argument(
            "--rows",
            owner="bench run",
            allowed=f"one or more of {tuple(known)}, separated by commas",
            got=text,
        )
    # Names of no row at all are refused by the runner.
    lacking = [row for row in chosen if row in row_names() and row not in known]
    if lacking:
        rows = "row" if len(lacking) == 1 else "rows"
        raise ConfigError(
            f"None of the named cells has {rows} {', '.join(lacking)} of --rows. They have:"
            f" {', '.join(known)}."
        )
    return chosen


def _refuse_file(results: Path) -> None:
    """Raise where no folder of records can be at the path, or be made there."""
    there = next((path for path in (results, *results.parents) if path.exists()), None)
    if there is not None and not there.is_dir():
        raise ConfigError(
            f"--results must be a folder of records, and {there} is a file. Name another folder; it"
            " is made where it is not."
        )
    refuse_unwritable_folder(results)


def _check_data(event: Event, data: Path | None) -> None:
    """Raise an error where a row has no data because the data folder does not exist.

    Rows on synthetic graphs and rows that are measured already need no data.
    """
    if event.state == "missing" and data is not None and not data.is_dir():
        raise InputError(
            f"There is no folder {data}, so {event.cell} cannot be measured. Give the folder of the"
            " data sets by --data, or leave it out to use GRAPHLATENT_DATA."
        )


def _recipes(cells: Sequence[str], tables: Sequence[str]) -> list[Recipe]:
    """The recipes of cells and tables, each once."""
    from graphlatent.bench.loading import find_table, load_recipe, recipes_of

    for table in tables:
        find_table(table, argument="--table", owner="bench run")
    own: dict[str, str] = {}
    for cell in dict.fromkeys(cell for cell in cells if cell.endswith(".toml")):
        same = own.setdefault(Path(cell).stem, cell)
        if Path(same).resolve() != Path(cell).resolve():
            raise ConfigError(
                f"{same} and {cell} have the same name, so their records would be the same."
                " Rename one of them."
            )
    named = [_own_recipe(cell) if cell.endswith(".toml") else load_recipe(cell) for cell in cells]
    recipes = {
        recipe.name: recipe
        for recipe in [*named, *(recipe for table in tables for recipe in recipes_of(table))]
    }
    if not recipes:
        raise ConfigError(
            "Nothing to run. Name cells, such as table1/MUTAG, or a table, such as --table 1;"
            " 'graphlatent bench list' lists them."
        )
    return list(recipes.values())


def _own_recipe(path: str) -> Recipe:
    from graphlatent.bench.loading import read_recipe

    try:
        return read_recipe(path)
    except RecursionError as error:
        raise ConfigError(
            f"{path} is nested too deeply to be a recipe. Write its tables and lists without"
            " nesting."
        ) from error


def _command(
    cells: Sequence[str],
    tables: Sequence[str],
    *,
    rows: str | None,
    seeds: str,
    device: str,
    probe_device: str | None = None,
) -> str:
    """What to type to measure the same again, wherever data and records are kept."""
    options = [word for table in tables for word in ("--table", table)] + (
        ["--rows", rows] if rows is not None else []
    )
    probed = [] if probe_device is None else ["--probe-device", probe_device]
    return shlex.join(
        [
            "graphlatent",
            "bench",
            "run",
            *cells,
            *options,
            "--seeds",
            seeds,
            "--device",
            device,
            *probed,
        ]
    )


def _tell(output: Output, event: Event, number: int, total: int) -> None:
    line = f"[{number}/{total}] {event.cell} {event.row}, seed {event.seed}: {event.text}"
    if event.state == "failed":
        output.err.print(f"failed: {line}", style="red", markup=False)
    elif event.state == "done":
        output.say(line)
