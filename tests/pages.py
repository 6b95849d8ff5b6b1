"""Pages of the documentation as they stand: their blocks are run in order, in the current folder.

A page is Markdown with these kinds of blocks:

- `csv NAME` is a file: it is written, or, where it is there, must begin with these lines;
- `python` is run, all blocks of a page with the same names;
- a block without a language holds commands, one a line (`graphlatent ...`,
  `python examples/NAME.py ...`);
- `text` is what the block before it prints. A line `...` stands for any lines, and decimal numbers
  may differ a little, since they depend on the machine. In `text varies` numbers and ids are free:
  which ids are the first may depend on the machine.
"""

from __future__ import annotations

import contextlib
import io
import re
import runpy
import shlex
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from commands import typed
from installed import ROOT

_FENCE = re.compile(r"^```(\w*) *(\S*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")


@dataclass(frozen=True)
class Block:
    """A fenced block: its language ('' for commands), what stands beside it, and its text."""

    language: str
    info: str
    text: str


@dataclass
class PageRun:
    """What a page left: the names of its Python, and what each of its blocks printed."""

    names: dict[str, Any] = field(default_factory=dict)
    printed: list[str] = field(default_factory=list)


def blocks(text: str, language: str | None = None) -> list[Block]:
    """The blocks of a page, or those of one language."""
    found = [Block(*match) for match in _FENCE.findall(text)]
    return [block for block in found if language in (None, block.language)]


def commands_of(block: Block) -> list[list[str]]:
    """The commands of a block, as words."""
    return [shlex.split(line, comments=True) for line in block.text.strip().splitlines()]


def run_page(page: Path, *, replace: dict[str, str] | None = None) -> PageRun:
    """Run a page; `replace` exchanges parts of its text, such as a large number of rows."""
    text = page.read_text(encoding="utf-8")
    for old, new in (replace or {}).items():
        assert old in text, f"{page.name} has no {old!r}"
        text = text.replace(old, new)
    done = PageRun()
    for block in blocks(text):
        if block.language == "csv":
            _file(block)
        elif block.language == "python":
            done.printed.append(_python(block, page, done.names))
        elif block.language == "":
            done.printed.append("".join(_command(words) for words in commands_of(block)))
        elif block.language == "text":
            problem = difference(block.text, done.printed[-1], varies=block.info == "varies")
            assert problem is None, f"{page.name}: {problem}\n\nprinted:\n{done.printed[-1]}"
    return done


def difference(shown: str, printed: str, *, varies: bool = False) -> str | None:
    """Why a page does not show what was printed; None if it does."""
    alike = _same_words if varies else _same_line
    lines = [line.rstrip() for line in printed.splitlines() if line.strip()]
    at, free = 0, False
    for line in (line.rstrip() for line in shown.splitlines() if line.strip()):
        if line.strip() == "...":
            free = True
            continue
        places = range(at, len(lines) if free else min(at + 1, len(lines)))
        place = next((i for i in places if alike(line, lines[i])), None)
        if place is None:
            return f"{line!r} is not printed" + ("" if free else f" as line {at + 1}")
        at, free = place + 1, False
    return None if free or at == len(lines) else f"{lines[at]!r} is printed too"


def _same_words(shown: str, printed: str) -> bool:
    """Equal but for space and for what has a digit in it: numbers and ids."""
    words = [re.sub(r"\S*\d\S*", "0", line).split() for line in (shown, printed)]
    return words[0] == words[1]


def _same_line(shown: str, printed: str) -> bool:
    """Equal but for space, and for decimal numbers that differ a little."""
    words = [" ".join(_NUMBER.sub("0", line).split()) for line in (shown, printed)]
    numbers = [_NUMBER.findall(line) for line in (shown, printed)]
    if words[0] != words[1] or len(numbers[0]) != len(numbers[1]):
        return False
    return all(_same_number(a, b) for a, b in zip(*numbers, strict=True))


def _same_number(shown: str, printed: str) -> bool:
    """Whole numbers are equal; others differ by at most 0.03 or 5 %, per cents by 1.5 points."""
    decimals = [len(each.partition(".")[2]) for each in (shown, printed)]
    if decimals[0] != decimals[1] or decimals[0] == 0:
        return shown == printed
    first, second = (float(each.replace(",", "")) for each in (shown, printed))
    allowed = 1.5 if decimals[0] == 1 else max(0.03, 0.05 * abs(first))
    return abs(first - second) <= allowed


def _file(block: Block) -> None:
    """Write the file of a block, or compare its beginning."""
    path = Path(block.info)
    if not path.exists():
        path.write_text(block.text, encoding="utf-8")
        return
    shown = block.text.removesuffix("...\n")
    there = path.read_text(encoding="utf-8")
    assert there.startswith(shown), f"{path} begins with {there[: len(shown)]!r}"


def _python(block: Block, page: Path, names: dict[str, Any]) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(block.text, page.name, "exec"), names)
    return printed.getvalue()


def _command(words: list[str]) -> str:
    """What a command prints; it must succeed."""
    program, *arguments = words
    if program == "graphlatent":
        code, printed = typed(*arguments)
        assert code == 0, f"{shlex.join(words)}: {printed}"
        return printed
    assert program == "python", f"unknown program: {program}"
    script = ROOT / arguments[0]
    with (
        mock.patch.object(sys, "argv", [str(script), *arguments[1:]]),
        contextlib.redirect_stdout(io.StringIO()) as captured,
    ):
        runpy.run_path(str(script), run_name="__main__")
    return captured.getvalue()
