"""The commands, put together."""

from __future__ import annotations

from typing import Annotated

import typer

from graphlatent._version import __version__
from graphlatent.cli.bench import compact_records, compare_rows, fill, list_cells, show_table
from graphlatent.cli.bench_run import run_rows
from graphlatent.cli.demo import demo
from graphlatent.cli.embed import embed
from graphlatent.cli.info import info, list_data, settings
from graphlatent.cli.links import links
from graphlatent.cli.options import with_option_groups
from graphlatent.cli.probe import probe
from graphlatent.cli.train import train

app = typer.Typer(
    name="graphlatent",
    help="Embeddings of nodes and graphs without labels, by latent graph prediction (LaGraph).",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
data = typer.Typer(help="The data sets of the paper.", no_args_is_help=True)
data.command("list")(list_data)
app.add_typer(data, name="data")
bench = typer.Typer(help="The tables of the paper: printed and measured.", no_args_is_help=True)
bench.command("list")(list_cells)
bench.command("run")(run_rows)
bench.command("table")(show_table)
bench.command("compare")(compare_rows)
bench.command("fill")(fill)
bench.command("compact")(compact_records)
app.add_typer(bench, name="bench")
for command in (demo, train, embed, probe, links, info, settings):
    app.command()(with_option_groups(command))


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"graphlatent {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Embeddings of nodes and graphs without labels, by latent graph prediction (LaGraph)."""
