"""How long training will take, measured on its first steps and said once."""

from __future__ import annotations

import time
from collections.abc import Callable

MEASURED_SECONDS = 2.0
"""Time that the measured steps take together, at least."""
WORTH_SAYING = 10.0
"""Seconds below which nothing is said."""


class TimeEstimate:
    """Tells how long training takes, once, as soon as that is known.

    The first step is left out where it is short: it also prepares what later steps use.

    Args:
        tell: is called with the estimated seconds from the first step to the last, and with the
            number of epochs.
        clock: the time in seconds.
    """

    def __init__(
        self,
        tell: Callable[[float, int], object],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.tell, self.clock = tell, clock
        # (time, epochs done) at the start, and where measuring begins.
        self.start: tuple[float, float] | None = None
        self.base: tuple[float, float] | None = None
        self.told = False

    def on_step(self, done: float, epochs: int) -> None:
        """Take note of the epochs done; called before the first step and after each."""
        if self.told:
            return
        now = self.clock()
        if self.start is None:
            self.start = (now, done)
        elif self.base is None:
            short = now - self.start[0] < MEASURED_SECONDS
            self.base = (now, done) if short else self.start
        if self.start is None or self.base is None:
            return
        elapsed, steps = now - self.base[0], done - self.base[1]
        if elapsed < MEASURED_SECONDS or steps <= 0:
            return
        self.told = True
        before = self.base[0] - self.start[0]
        seconds = before + elapsed / steps * (epochs - self.base[1])
        if seconds >= WORTH_SAYING:
            self.tell(seconds, epochs)


def in_words(seconds: float) -> str:
    """A duration as people say it: "about 4 minutes"."""
    minutes = round(seconds / 60)
    if seconds < 57.5:
        return f"about {max(5, 5 * round(seconds / 5))} seconds"
    if minutes < 60:
        return "about 1 minute" if minutes == 1 else f"about {minutes} minutes"
    hours, rest = divmod(10 * round(seconds / 600), 60)
    if hours >= 10:
        return f"about {round(seconds / 3600)} hours"
    text = "about 1 hour" if hours == 1 else f"about {hours} hours"
    return f"{text} {rest} minutes" if rest else text
