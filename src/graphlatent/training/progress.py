"""A progress bar with the loss terms and the time left."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress
from rich.table import Column

from graphlatent.config import Settings
from graphlatent.training.loop import Hooks, Progress


@contextmanager
def training_bar(
    settings: Settings, *, hooks: Hooks | None = None, after_seconds: float = 1.0
) -> Iterator[Hooks]:
    """Hooks that draw a progress bar on standard error.

    Nothing is drawn unless `settings.progress` is True and standard error is a terminal.

    Args:
        settings: `progress` and `epochs`.
        hooks: hooks to extend; their own `on_epoch` is still called.
        after_seconds: time before the bar appears.
    """
    hooks = hooks or Hooks()
    if not settings.progress or not sys.stderr.isatty():
        yield hooks
        return
    # Many terms are wrapped, so that the numbers beside them are never cut off.
    terms = TextColumn("{task.fields[terms]}", table_column=Column(no_wrap=False))
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        terms,
        TimeRemainingColumn(),
    )
    bar = RichProgress(*columns, console=Console(stderr=True), transient=False)
    task = bar.add_task("training", total=settings.epochs, terms="")
    start, wrapped = time.monotonic(), hooks.on_epoch

    def on_epoch(progress: Progress) -> None:
        values = "  ".join(f"{name} {value:.4g}" for name, value in progress.terms.items())
        shown = f"loss {progress.loss:.4g}  {values}"
        bar.update(task, completed=progress.epoch, terms=shown)
        if not bar.live.is_started and time.monotonic() - start > after_seconds:
            bar.start()
        wrapped(progress)

    try:
        yield replace(hooks, on_epoch=on_epoch)
    finally:
        if bar.live.is_started:
            bar.stop()
