"""A progress bar, and once the time that training takes: in a terminal and in a notebook."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress
from rich.status import Status
from rich.table import Column

from graphlatent.config import NodeSettings, Settings
from graphlatent.display import counted
from graphlatent.training.duration import TimeEstimate, in_words
from graphlatent.training.loop import Hooks, Progress

# A silent training of this length in a session of a person is worth a line.
_LONG = 60.0
# From here on the line says how to train for a shorter time.
_VERY_LONG = 300.0


class _Bar(Protocol):
    """What draws progress; nothing is drawn before `start`."""

    def start(self, epochs: int) -> None: ...

    def update(self, progress: Progress) -> None: ...

    def stop(self) -> None: ...


@contextmanager
def training_bar(
    settings: Settings, *, hooks: Hooks | None = None, after_seconds: float = 1.0
) -> Iterator[Hooks]:
    """Hooks that draw a progress bar on standard error, and say once how long training takes.

    Nothing is drawn unless `settings.progress` is True and standard error is a terminal or a
    notebook. The time is also said without a bar; where `progress` is False, only of a training of
    more than a minute in an interactive session.

    Args:
        settings: of the training; resolved, so that the advice fits the graph.
        hooks: hooks to extend; their own functions are still called.
        after_seconds: time before the bar appears.
    """
    hooks = hooks or Hooks()
    if not settings.progress and not (_in_notebook() or hasattr(sys, "ps1")):
        yield hooks
        return
    estimate = TimeEstimate(lambda seconds, epochs: _tell_time(seconds, epochs, settings))
    bar = _bar() if settings.progress else None
    began, started, wrapped = time.monotonic(), False, hooks

    def on_step(done: float, epochs: int) -> None:
        estimate.on_step(done, epochs)
        wrapped.on_step(done, epochs)

    def on_epoch(progress: Progress) -> None:
        nonlocal started
        if bar is not None and not started and time.monotonic() - began > after_seconds:
            bar.start(progress.epochs)
            started = True
        if bar is not None and started:
            bar.update(progress)
        wrapped.on_epoch(progress)

    def on_stage(stage: str, done: int, total: int) -> None:
        nonlocal started
        if bar is not None and started:
            bar.stop()
            started = False
        line.show(f"{stage}: {done / max(total, 1):.0%} of {counted(total, 'node')}")
        wrapped.on_stage(stage, done, total)

    line = _StatusLine(shown=bar is not None)
    try:
        yield replace(hooks, on_step=on_step, on_epoch=on_epoch, on_stage=on_stage)
    finally:
        if bar is not None and started:
            bar.stop()
        line.stop()


def _tell_time(seconds: float, epochs: int, settings: Settings) -> None:
    series = _SERIES.get()
    if (not settings.progress and seconds < _LONG) or (series is not None and series.told):
        return
    most = "" if settings.patience is None else "at most "
    text = f"training takes {most}{in_words(seconds)} ({counted(epochs, 'epoch')})"
    if series is not None:
        series.told = True
        text += f", {counted(series.count, 'time')}"
    if seconds >= _VERY_LONG:
        text += f"; {_shorter(settings)} would take less"
    _console().print(f"note: {text}", style="dim")


@dataclass
class _Series:
    """Several trainings of one command, and whether their time was said."""

    count: int
    told: bool = False


_SERIES: ContextVar[_Series | None] = ContextVar("series", default=None)


@contextmanager
def series_of_trainings(count: int) -> Iterator[None]:
    """Within this context the time is said for the first of `count` trainings only."""
    token = _SERIES.set(_Series(count) if count > 1 else None)
    try:
        yield
    finally:
        _SERIES.reset(token)


def _shorter(settings: Settings) -> str:
    """Settings with which training is shorter."""
    ways = []
    if getattr(settings, "_small_is_shorter", False):
        ways.append("size=small")
    if isinstance(settings, NodeSettings) and settings.batching in ("auto", "full"):
        ways.append("batching=nodes")
    return " or ".join([*ways, "fewer epochs"])


def _bar() -> _Bar | None:
    if _in_notebook():
        return _NotebookBar()
    return _TerminalBar() if sys.stderr.isatty() else None


def _in_notebook() -> bool:
    """Whether a Jupyter kernel runs this process; asked as tqdm.auto does."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and "IPKernelApp" in shell.config


def _console() -> Console:
    # Not as a notebook's own output: rich would need ipywidgets for that.
    return Console(stderr=True, highlight=False, soft_wrap=True, force_jupyter=False)


class _StatusLine:
    """A line on a terminal that says what is computed after training."""

    def __init__(self, *, shown: bool) -> None:
        self.shown = shown and sys.stderr.isatty()
        self.status: Status | None = None

    def show(self, text: str) -> None:
        if self.shown and self.status is None:
            self.status = _console().status(text)
            self.status.start()
        elif self.status is not None:
            self.status.update(text)

    def stop(self) -> None:
        if self.status is not None:
            self.status.stop()


class _TerminalBar:
    def __init__(self) -> None:
        # Many terms are wrapped, so that the numbers beside them are never cut off.
        terms = TextColumn("{task.fields[terms]}", table_column=Column(no_wrap=False))
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            terms,
            TimeRemainingColumn(),
        )
        self.bar = RichProgress(*columns, console=Console(stderr=True), transient=False)
        self.task = self.bar.add_task("training", terms="")

    def start(self, epochs: int) -> None:
        self.bar.update(self.task, total=epochs)
        self.bar.start()

    def update(self, progress: Progress) -> None:
        values = {"loss": progress.loss, **progress.terms}
        shown = "  ".join(f"{name} {value:.4g}" for name, value in values.items())
        if (rank := progress.diagnostics.get("effective_rank")) is not None:
            shown += f"  rank {rank:.3g}"
        self.bar.update(self.task, completed=progress.epoch, terms=shown)

    def stop(self) -> None:
        self.bar.stop()


class _NotebookBar:
    """A widget where ipywidgets is installed, otherwise a line of text that is rewritten."""

    def __init__(self) -> None:
        self.bar: Any = None

    def start(self, epochs: int) -> None:
        with warnings.catch_warnings():
            # tqdm suggests ipywidgets, which nobody needs.
            warnings.simplefilter("ignore")
            from tqdm.auto import tqdm
        self.bar = tqdm(total=epochs, desc="training", unit="epoch", file=sys.stderr)

    def update(self, progress: Progress) -> None:
        rank = progress.diagnostics.get("effective_rank")
        shown = {} if rank is None else {"rank": f"{rank:.3g}"}
        self.bar.set_postfix(loss=f"{progress.loss:.4g}", **shown, refresh=False)
        self.bar.update(progress.epoch - self.bar.n)

    def stop(self) -> None:
        self.bar.close()
