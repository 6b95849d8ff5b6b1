"""`graphlatent bench run`: measure cells of the paper's tables into the ledger."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from itertools import count
from pathlib import Path
from typing import Annotated

import typer

from graphlatent.bench.recipe import ROWS, Recipe, load_recipe, read_recipe
from graphlatent.bench.runner import Event, run_cells
from graphlatent.bench.tables import TITLES, recipes_of
from graphlatent.cli.output import Debug, Json, Output, Quiet, speaking
from graphlatent.errors import ConfigError, bad_argument

STATES = {"done": "done", "skipped": "skipped", "missing": "without data", "failed": "failed"}


def run_rows(
    cells: Annotated[list[str] | None, typer.Argument(metavar="[CELL...]", help="Cells, such as table1/MUTAG, or recipe files.")] = None,
    tables: Annotated[list[str] | None, typer.Option("--table", help="All cells of a table; may be given again.")] = None,
    rows: Annotated[str | None, typer.Option("--rows", help="Only these rows, separated by commas [default: those of a cell].")] = None,
    seeds: Annotated[str, typer.Option("--seeds", help="How many, such as 5, or which, such as 0-4 or 0,2,7.")] = "5",
    results: Annotated[Path, typer.Option("--results", help="Folder of the records.")] = Path("results"),
    data: Annotated[Path | None, typer.Option("--data", help="Data root [default: GRAPHLATENT_DATA].")] = None,
    device: Annotated[str, typer.Option("--device", help="auto, cpu, cuda or cuda:1.")] = "auto",
    probe_device: Annotated[str | None, typer.Option("--probe-device", help="Where to probe [default: as --device].")] = None,
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="Processes; each gets its share of the cores.")] = 1,
    quiet: Quiet = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Measure cells of the paper's tables. What is measured already is skipped, so a stopped run goes on."""
    with speaking(quiet=quiet, as_json=as_json, debug=debug) as output:
        recipes = _recipes(cells or [], tables or [])
        chosen = None if rows is None else [row.strip() for row in rows.split(",") if row.strip()]
        number, total = count(1), len(parsed_seeds(seeds)) * sum(row in (chosen or ROWS) for recipe in recipes for row in recipe.rows)
        events = run_cells(
            recipes,
            seeds=parsed_seeds(seeds),
            rows=chosen,
            ledger=results,
            data=data,
            device=device,
            probe_device=probe_device,
            jobs=jobs,
            command=_command(cells or [], tables or [], rows=rows, seeds=seeds, device=device),
            on_event=lambda event: _tell(output, event, next(number), total),
        )
        found = Counter(event.state for event in events)
        missing = sorted({event.text for event in events if event.state == "missing"})
        output.say("; ".join([", ".join(f"{found[state]} {words}" for state, words in STATES.items()), *missing]))
        output.result({**{state: found[state] for state in STATES}, "events": [asdict(event) for event in events]})
    if found["failed"]:
        raise typer.Exit(1)


def parsed_seeds(text: str) -> list[int]:
    """The seeds that a text means, each once, in its order: "5" is the first five, "0-4" and "0,2,7" are those."""
    if re.fullmatch(r"\s*[1-9]\d*\s*", text):
        return list(range(int(text)))
    found: dict[int, None] = {}
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d+)(?:-(\d+))?\s*", part)
        if match is None or int(match[2] or match[1]) < int(match[1]):
            raise bad_argument("--seeds", owner="bench run", allowed="how many, such as 5, or which, such as 0-4 or 0,2,7", got=text)
        found |= dict.fromkeys(range(int(match[1]), int(match[2] or match[1]) + 1))
    return list(found)


def _recipes(cells: Sequence[str], tables: Sequence[str]) -> list[Recipe]:
    """The recipes of cells and tables, each once."""
    for table in tables:
        if table not in TITLES:
            raise bad_argument("--table", owner="bench run", allowed=f"one of {tuple(TITLES)}", got=table)
    named = [read_recipe(cell) if cell.endswith(".toml") else load_recipe(cell) for cell in cells]
    recipes = {recipe.name: recipe for recipe in [*named, *(recipe for table in tables for recipe in recipes_of(table))]}
    if not recipes:
        raise ConfigError(
            "Nothing to run. Name cells, such as table1/MUTAG, or a table, such as --table 1; 'graphlatent bench list' lists them."
        )
    return list(recipes.values())


def _command(cells: Sequence[str], tables: Sequence[str], *, rows: str | None, seeds: str, device: str) -> str:
    """What to type to measure the same again, wherever data and records are kept."""
    options = [word for table in tables for word in ("--table", table)] + (["--rows", rows] if rows is not None else [])
    return shlex.join(["graphlatent", "bench", "run", *cells, *options, "--seeds", seeds, "--device", device])


def _tell(output: Output, event: Event, number: int, total: int) -> None:
    line = f"[{number}/{total}] {event.cell} {event.row}, seed {event.seed}: {event.text}"
    if event.state == "failed":
        output.err.print(f"failed: {line}", style="red", markup=False)
    elif event.state == "done":
        output.say(line)
