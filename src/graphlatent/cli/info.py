"""`graphlatent info`, `graphlatent settings` and `graphlatent data list`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graphlatent.cli.ingest import describe_store
from graphlatent.cli.models import estimator_for
from graphlatent.cli.options import InputOptions
from graphlatent.cli.output import Debug, Json, Output, Quiet, command_output
from graphlatent.cli.wording import at_shell
from graphlatent.io.config_file import DEFAULT_METHOD

if TYPE_CHECKING:
    from graphlatent.io.runfolder import RunFolder

# Facts that are sentences.
_REMARKS = ("notes", "problems")


def info(
    source: Annotated[
        str,
        typer.Argument(
            metavar="RUN|INPUT", help="A run folder, a store, or anything 'train' takes."
        ),
    ],
    reading: InputOptions,
    quiet: Quiet = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Show what a run, store or input holds: sizes, features, problems, what columns become."""
    with command_output(quiet=quiet, as_json=as_json, debug=debug) as output:
        from graphlatent.data.describe import describe_graph, find_problems
        from graphlatent.data.describe_columns import column_facts, in_lines
        from graphlatent.data.readers.stores import is_store_path, opened
        from graphlatent.io.regular_files import is_folder
        from graphlatent.io.runfolder import RunFolder

        shown: dict[str, Any] = {}
        # Asked first: the name may be too long to be looked up.
        if is_folder(Path(source)) and (run := RunFolder(source)).started:
            facts = _about_run(run)
        elif is_store_path(source):
            # Its sizes are in its manifest; the graph may not fit into memory.
            facts = describe_store(opened(Path(source)))
        else:
            options = reading.table_options()
            # The notes are in the table.
            output.quiet = True
            graph = reading.read(source, options, symmetrize=True)
            problems = find_problems(graph, features_named=options.features is not None)
            facts = {**describe_graph(graph), "problems": problems}
            if graph.columns:
                columns = column_facts(graph)
                shown = {"columns": in_lines(columns)}
                facts["columns"] = {fact.name: fact.becomes for fact in columns}
        for name in set(_REMARKS) & set(facts):
            facts[name] = [at_shell(each) for each in facts[name]]
        _show(output, source, facts, shown)


def _about_run(run: RunFolder) -> dict[str, Any]:
    config = run.read_config()
    about, history = run.read_json("versions.json"), run.read_history()
    facts: dict[str, Any] = {
        "level": config.level,
        "method": config.method,
        "complete": run.complete,
        "epochs_done": len(history),
        "epochs_asked": config.settings.get("epochs"),
    }
    if len(history):
        facts |= {"first_loss": history.loss[0], "last_loss": history.loss[-1]}
    facts |= {
        "graphlatent": about.get("graphlatent"),
        "device": about.get("device"),
        "random_state": about.get("random_state"),
    }
    facts |= {"features": run.read_json("features.json").get("kind"), **_input_of(run)}
    facts["settings"] = dict(config.settings)
    if run.complete:
        # A damaged folder is an error.
        run.read_model()
    return facts


def _input_of(run: RunFolder) -> dict[str, Any]:
    """What `train` says in a run folder about the graph that it read."""
    results = run.read_json("results.json") if run.results_path.is_file() else {}
    given = results.get("input")
    if not isinstance(given, dict):
        return {}
    return {name: given[name] for name in ("features", "nodes", "edges", "source") if name in given}


def _show(output: Output, source: str, facts: dict[str, Any], shown: dict[str, Any]) -> None:
    """Print the facts; people see those in `shown` in another form than machines."""
    rows = []
    for key, value in {**facts, **shown}.items():
        if isinstance(value, dict):
            text = ", ".join(f"{k}={v}" for k, v in value.items())
        elif isinstance(value, list):
            text = "\n".join(str(v) for v in value) or "none"
        else:
            text = _cell(value)
        rows.append([key.replace("_", " "), text])
    if not output.as_json:
        from rich.table import Table

        table = Table(title=source, title_justify="left", show_header=False)
        for row in rows:
            table.add_row(*row)
        output.out.print(table, markup=False)
    output.result(facts)


def settings(
    level: Annotated[str, typer.Option("--level", help="'node' or 'graph'.")] = "node",
    method: Annotated[str, typer.Option("--method", help="Name of the method.")] = DEFAULT_METHOD,
    quiet: Quiet = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """List every setting with its default, meaning and allowed values.

    They are arguments of the estimators in Python, and names for --set and for TOML files here.
    """
    with command_output(quiet=quiet, as_json=as_json, debug=debug) as output:
        from graphlatent.config import describe

        rows = describe(estimator_for(level, method).settings_class)
        output.settings(
            f"settings of method '{method}' at {level} level",
            [[name, str(default), doc, allowed] for name, allowed, default, doc in rows],
        )
        output.result(
            {
                name: {"allowed": allowed, "default": default, "meaning": doc}
                for name, allowed, default, doc in rows
            }
        )


def list_data(
    root: Annotated[
        Path | None, typer.Option("--root", help="Data root (default: GRAPHLATENT_DATA).")
    ] = None,
    quiet: Quiet = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """List the data sets of the paper that can be used by name, and which are available locally."""
    with command_output(quiet=quiet, as_json=as_json, debug=debug) as output:
        from graphlatent.data.datasets import DATASETS, data_root, is_present

        where = root or data_root()
        rows = [
            {
                "name": entry.name,
                "level": entry.level,
                "available": is_present(entry, where),
                **_sizes(entry),
            }
            for entry in DATASETS
        ]
        columns = list(rows[0])
        output.table(
            f"data sets, root {where}",
            [c.replace("_", " ") for c in columns],
            [[_cell(row[c]) for c in columns] for row in rows],
        )
        output.result({"root": str(where), "datasets": rows})


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.6g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _sizes(entry: Any) -> dict[str, Any]:
    return {
        "graphs": entry.num_graphs,
        "nodes": entry.num_nodes,
        "features": entry.num_features,
        "classes": entry.num_classes,
    }
