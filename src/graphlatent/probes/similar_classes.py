"""A warning of classes that may be one class, spelled in several ways."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from graphlatent.display import listed
from graphlatent.errors import warn

# Groups of spellings that the warning names.
_SHOWN = 4


def warn_of_similar_classes(classes: Iterable[object], *, where: str) -> None:
    """Warn where names of classes are equal apart from case and the space around them.

    Args:
        classes: each once; numbers are left out.
        where: what has these classes, for the message.
    """
    spellings: dict[str, list[str]] = defaultdict(list)
    for name in classes:
        if isinstance(name, str):
            spellings[name.strip().casefold()].append(name)
    several = [listed(names, most=4) for names in spellings.values() if len(names) > 1]
    if not several:
        return
    more = len(several) - _SHOWN
    others = f"; and {more:,} more" if more > 0 else ""
    warn(
        f"{where}: classes that differ only in case or in the space around them count as different"
        f" classes: {'; '.join(several[:_SHOWN])}{others}. If they are the same class, spell it in"
        " one way."
    )
