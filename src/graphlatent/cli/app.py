"""The commands, put together."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from graphlatent._version import __version__
from graphlatent.cli.bench import compact_records, compare_rows, fill, list_cells, show_table
from graphlatent.cli.bench_run import run_rows
from graphlatent.cli.bound import bound
from graphlatent.cli.cluster import cluster
from graphlatent.cli.demo import demo
from graphlatent.cli.denoise import denoise
from graphlatent.cli.doctor import doctor
from graphlatent.cli.embed import embed
from graphlatent.cli.export import export
from graphlatent.cli.finetune import finetune, predict
from graphlatent.cli.info import info, list_data, settings
from graphlatent.cli.ingest import ingest
from graphlatent.cli.links import links
from graphlatent.cli.map import draw_map
from graphlatent.cli.neighbors import neighbors
from graphlatent.cli.options import with_option_groups
from graphlatent.cli.outliers import outliers
from graphlatent.cli.plain_help import PlainCommand, PlainGroup
from graphlatent.cli.probe import probe
from graphlatent.cli.streams import closed_output, is_of_a_stream, report
from graphlatent.cli.train import train
from graphlatent.ops.started import started_rank

# The base of click's errors, which are in click or in typer, depending on the version of typer.
_ClickError: Any = typer.BadParameter.__mro__[2]

app = typer.Typer(
    name="graphlatent",
    help="Embeddings of nodes and graphs without labels, by latent graph prediction (LaGraph).",
    no_args_is_help=True,
    cls=PlainGroup,
    pretty_exceptions_enable=False,
)
data = typer.Typer(
    help="Data sets that can be given by name.", no_args_is_help=True, cls=PlainGroup
)
data.command("list", cls=PlainCommand)(list_data)
app.add_typer(data, name="data")
bench = typer.Typer(
    help="The tables of the paper: published numbers, and measuring them again.",
    no_args_is_help=True,
    cls=PlainGroup,
)
bench.command("list", cls=PlainCommand)(list_cells)
bench.command("run", cls=PlainCommand)(run_rows)
bench.command("table", cls=PlainCommand)(show_table)
bench.command("compare", cls=PlainCommand)(compare_rows)
bench.command("fill", cls=PlainCommand)(fill)
bench.command("compact", cls=PlainCommand)(compact_records)
app.add_typer(bench, name="bench")
_COMMANDS: tuple[Any, ...] = (
    *(demo, train, info, embed, probe, draw_map, neighbors, cluster, outliers, links, export),
    *(denoise, finetune, predict, settings, doctor, bound, ingest),
)
for command in _COMMANDS:
    name = "map" if command is draw_map else None
    app.command(name, cls=PlainCommand)(with_option_groups(command))


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


def run_app() -> int:
    """Run the command that the process was started with. Returns its exit code.

    A mistake in the arguments is one line, as every other mistake is.

    Raises:
        OutputClosedError: where standard output cannot be written.
    """
    try:
        # None, or the code of a typer.Exit.
        return int(app(standalone_mode=False) or 0)
    except typer.Abort:
        raise KeyboardInterrupt from None
    except _ClickError as error:
        message = " ".join(error.format_message().split())
        # Without one, the help was shown instead.
        if message and started_rank() == 0:
            path = "graphlatent" if error.ctx is None else error.ctx.command_path
            end = "" if message.endswith((".", "?", "!")) else "."
            report(f"error: {message}{end} See '{path} --help'.")
        return 2
    except OSError as error:
        if not is_of_a_stream(error):
            raise
        raise closed_output(error) from error
