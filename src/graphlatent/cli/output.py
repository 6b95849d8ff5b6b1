"""What every command shares: what it prints, and how it fails.

Results go to standard output (as JSON with `--json`), notes and progress to standard error. A
mistake of the user is one or two lines on standard error and exit code 2; an interruption is exit
code 130, and the loss of one of several processes 1.
"""

from __future__ import annotations

import io
import json
import math
import re
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NoReturn, TypeAlias

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from graphlatent.cli.interrupts import INTERRUPTED, command_begins
from graphlatent.cli.streams import is_of_a_stream, report
from graphlatent.cli.wording import at_shell
from graphlatent.errors import (
    ConfigError,
    GraphLatentError,
    GraphLatentWarning,
    LostProcessError,
    TrainingInterrupted,
    shown,
    shown_path,
)
from graphlatent.ops.started import started_rank, started_together

Quiet: TypeAlias = Annotated[
    bool, typer.Option("--quiet", "-q", help="No notes and no progress bar.")
]
Json: TypeAlias = Annotated[
    bool, typer.Option("--json", help="One JSON object on standard output, for machines.")
]
Verbose: TypeAlias = Annotated[
    bool,
    typer.Option("--verbose", "-v", help="Also show versions, device, all settings and times."),
]
Debug: TypeAlias = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
Timeout: TypeAlias = Annotated[
    float,
    typer.Option(
        "--timeout",
        metavar="SECONDS",
        help="Under torchrun: after how long a process that does not answer counts as lost.",
        min=1.0,
    ),
]
TIMEOUT = 300.0
"""That of ops/processes.py, which imports torch."""
Overwrite: TypeAlias = Annotated[
    bool, typer.Option("--overwrite", help="Replace what is at the output path.")
]


LOST = 1
"""Exit code where another process was lost."""
OUT_OF_MEMORY = (
    "Out of memory. Try --set hidden_dim=64, --set batching=nodes, a smaller input or a larger"
    " machine."
)


# All but tabs and line ends.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def _out_of_memory(error: Exception) -> bool:
    """Whether an error says that memory ran out: Python's own, or torch's on a CPU or a GPU."""
    return (
        isinstance(error, MemoryError)
        or "can't allocate memory" in str(error)
        or "out of memory" in str(error)
    )


class SafeConsole(Console):
    """A console on which text cannot move the cursor or set the title: control characters show."""

    def render_str(self, text: str, **options: Any) -> Text:
        """The text without control characters; those of files would act on the terminal."""
        shown = _CONTROL.sub(lambda found: repr(found[0])[1:-1], text)
        return super().render_str(shown, **options)


@dataclass
class Output:
    """What a command prints, on standard output and standard error."""

    quiet: bool
    as_json: bool
    verbose: bool = False
    out: Console = field(
        default_factory=lambda: SafeConsole(
            highlight=False, soft_wrap=True, markup=False, emoji=False
        )
    )
    err: Console = field(
        default_factory=lambda: SafeConsole(
            stderr=True, highlight=False, soft_wrap=True, markup=False, emoji=False
        )
    )

    noted: set[str] = field(default_factory=set)
    after_loss: str = ""
    """What to do where another process was lost, as a sentence."""

    def note(self, text: str) -> None:
        """A remark, on standard error, each once; silent with `--quiet`."""
        text = at_shell(text)
        if not self.quiet and text not in self.noted:
            self.noted.add(text)
            self.err.print(f"note: {text}", style="dim")

    def detail(self, text: str) -> None:
        """A line on standard error, only with `--verbose`."""
        if self.verbose:
            self.err.print(text, style="dim")

    @contextmanager
    def timed(self, what: str) -> Iterator[None]:
        """Say with `--verbose` how long something took."""
        began = time.monotonic()
        yield
        self.detail(f"{what} in {time.monotonic() - began:.1f} s")

    @contextmanager
    def working(self, doing: str) -> Iterator[Callable[[str], None]]:
        """A line on a terminal's standard error that says what is being worked on.

        The context is a function that changes it; the line is gone at the end.
        """
        if self.quiet or not self.err.is_terminal:
            yield lambda what: None
            return
        with self.err.status(doing) as status:
            yield lambda what: status.update(f"{doing} {what}")

    def say(self, text: str = "") -> None:
        """A line of the result; silent with `--json`."""
        if not self.as_json:
            self.out.print(text)

    def table(self, title: str, columns: list[str], rows: list[list[str]]) -> None:
        """A table of the result; silent with `--json`."""
        if self.as_json:
            return
        table = Table(title=title or None, title_justify="left")
        # Names that are typed again, such as those of cells, are not broken into lines.
        are_names = all(" " not in row[0] for row in rows)
        for i, name in enumerate(columns):
            first = i == 0
            justify: Literal["left", "right"] = "left" if first else "right"
            table.add_column(name, justify=justify, overflow="fold", no_wrap=first and are_names)
        for row in rows:
            table.add_row(*row)
        self.out.print(table)

    def settings(self, title: str, rows: list[list[str]]) -> None:
        """Settings with their defaults, meanings and allowed values; silent with `--json`."""
        if self.as_json:
            return
        self.out.print(title, style="bold")
        for name, default, meaning, allowed in rows:
            self.out.print(f"  {name} = {default}")
            self.out.print(f"      {meaning}  [{allowed}]", style="dim")

    def result(self, value: dict[str, Any]) -> None:
        """The whole result for machines; only with `--json`."""
        if self.as_json:
            # Not through rich, which would wrap lines.
            typer.echo(json.dumps(_plain(value), allow_nan=False))


def _plain(value: Any) -> Any:
    """A value of a file as JSON can hold it: dates, and numbers that are not finite, as text."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    known = isinstance(value, str | int) or value is None
    return value if known or (isinstance(value, float) and math.isfinite(value)) else str(value)


@contextmanager
def command_output(
    *,
    quiet: bool,
    as_json: bool,
    debug: bool,
    verbose: bool = False,
    timeout: float | None = None,
) -> Iterator[Output]:
    """The output of a command, as a context manager.

    Errors become messages and exit codes, and warnings become notes. Of several processes that
    torchrun started, only the first prints.

    Args:
        quiet: no notes and no progress.
        as_json: print the result as JSON.
        debug: show the traceback of an error.
        verbose: print details.
        timeout: of a command that processes share, the seconds after which one that does not answer
            counts as lost; None of a command of one process.
    """
    command_begins()
    output = Output(quiet, as_json, verbose) if started_rank() == 0 else _nowhere()
    with warnings.catch_warnings():
        warnings.simplefilter("always", GraphLatentWarning)
        default_show = warnings.showwarning

        def show(
            message: Warning | str, category: type[Warning], *args: Any, **kwargs: Any
        ) -> None:
            if issubclass(category, GraphLatentWarning):
                output.note(str(message))
            elif started_rank() == 0:
                default_show(message, category, *args, **kwargs)

        warnings.showwarning = show
        try:
            with _together(timeout):
                yield output
        except LostProcessError as lost:
            if not lost.told:
                report(f"error: {at_shell(f'{lost} {output.after_loss}'.strip())}")
            raise typer.Exit(LOST) from None
        except TrainingInterrupted as stop:
            output.err.print(str(stop))
            raise typer.Exit(INTERRUPTED) from None
        except KeyboardInterrupt:
            output.err.print("Interrupted.")
            raise typer.Exit(INTERRUPTED) from None
        except (GraphLatentError, MemoryError, RuntimeError) as error:
            if not isinstance(error, GraphLatentError) and not _out_of_memory(error):
                raise
            if debug:
                output.err.print(traceback.format_exc())
            text = str(error) if isinstance(error, GraphLatentError) else OUT_OF_MEMORY
            _fail(output, text)
        except UnicodeEncodeError as error:
            if debug:
                output.err.print(traceback.format_exc())
            _fail(output, f"{shown(error.object)} is not valid UTF-8. Name it otherwise.")
        except OSError as error:
            if is_of_a_stream(error):
                raise
            if debug:
                output.err.print(traceback.format_exc())
            where = "" if error.filename is None else f" {shown_path(error.filename)}"
            _fail(output, f"Cannot use{where}: {error.strerror or error}. Check the path.")


def _together(timeout: float | None) -> AbstractContextManager[None]:
    """A context in which the processes that torchrun started compute together."""
    if not started_together():
        return nullcontext()
    if timeout is None:
        raise ConfigError(
            "This command runs in one process. Start it without torchrun; train, embed and probe"
            " are those that several processes share."
        )
    from graphlatent.ops.processes import joined

    return joined(timeout=timeout)


def _nowhere() -> Output:
    """The output of a process that prints nothing."""
    nowhere = SafeConsole(file=io.StringIO())
    return Output(quiet=True, as_json=False, out=nowhere, err=nowhere)


def _fail(output: Output, text: str) -> NoReturn:
    output.err.print(f"error: {at_shell(text)}", style="red")
    raise typer.Exit(2) from None
