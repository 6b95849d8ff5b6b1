"""Generated blocks of Markdown pages: what stands between a mark and the next `<!-- end -->`.

A mark is `<!-- NAME ARGUMENTS -->` with a registered NAME; other comments are left alone. `table`
is registered here: `<!-- table 2 -->` and `<!-- table 2 short -->`. `benchmarks/pages.py` registers
the blocks that are made from the speed records, and fills every page of the project.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from graphlatent.bench.formats import markdown
from graphlatent.bench.ledger import Record, read_ledger
from graphlatent.bench.recipe_files import table_files
from graphlatent.bench.tables import absent_sets, make_table, shortened
from graphlatent.errors import ConfigError, InputError

BlockMaker: TypeAlias = Callable[[Sequence[str]], str]
"""From the arguments of a mark to the text of its block."""
END = "<!-- end -->"
_MARK = re.compile(rf"<!-- (?P<mark>[\w -]+?) -->(?:(?P<inside>.*?){re.escape(END)})?", re.DOTALL)


def fill_page(text: str, makers: Mapping[str, BlockMaker]) -> str:
    """The page with its generated blocks made anew.

    Args:
        text: of the page.
        makers: by name of a mark what makes its block.

    Raises:
        ConfigError: where a block has no end, or its arguments are wrong.
    """
    done, rest = "", text
    while (match := _MARK.search(rest)) is not None:
        name, *arguments = match["mark"].split()
        start = f"<!-- {match['mark']} -->"
        if name not in makers:
            end_of_mark = match.start() + len(start)
            done, rest = done + rest[:end_of_mark], rest[end_of_mark:]
            continue
        # Another block that begins before the end must not be replaced.
        if match["inside"] is None or "<!--" in match["inside"]:
            raise ConfigError(f"'{start}' has no '{END}' after it.")
        done += f"{rest[: match.start()]}{start}\n{makers[name](arguments)}\n{END}"
        rest = rest[match.end() :]
    return done + rest


def fill_pages(
    pages: Sequence[Path], makers: Mapping[str, BlockMaker]
) -> dict[Path, tuple[str, str]]:
    """The text of each page, as it is and as it should be. Nothing is written.

    Raises:
        InputError: where a page cannot be read.
        ConfigError: as `fill_page` does.
    """
    texts = {page: _read(page) for page in pages}
    return {page: (text, fill_page(text, makers)) for page, text in texts.items()}


def table_maker(root: Path) -> BlockMaker:
    """Makes `table` blocks from a ledger.

    They depend on the ledger alone, not on the data that this machine has: sets that were not
    available are named in its absent.json.
    """
    # Read once, and only where a page has a table.
    read: list[tuple[list[Record], frozenset[str]]] = []

    def make(arguments: Sequence[str]) -> str:
        names = [table.name for table in table_files()]
        name, short = (*arguments, "")[0], list(arguments[1:])
        if name not in names or short not in ([], ["short"]):
            raise ConfigError(
                f"'<!-- {' '.join(('table', *arguments))} -->' names no table. It must be"
                f" '<!-- table NAME -->' or '<!-- table NAME short -->', NAME one of"
                f" {', '.join(names)}."
            )
        if not read:
            read.append((read_ledger(root), absent_sets(root)))
        records, absent = read[0]
        table = make_table(name, records, absent=absent)
        return markdown(shortened(table) if short else table)

    return make


def _read(page: Path) -> str:
    try:
        return page.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"Cannot read the page {page}: {getattr(error, 'strerror', None) or error}."
        ) from error
