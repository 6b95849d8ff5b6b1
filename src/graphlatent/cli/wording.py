"""Messages of the library as a user of the command line needs them: flags instead of arguments."""

from __future__ import annotations

import re
import sys
from dataclasses import fields
from functools import cache

# Flags that are not called as the argument is.
_FLAGS = {"graph": "--graph-column", "node_attributes": "--features"}
_OPTION = re.compile(r"(?:[Tt]he )?option '(\w+)'")
_OPTIONS = re.compile(r"(?:[Tt]he )?options ('\w+'(?:(?:,| and|, and) '\w+')+)")
_PARAMETER = re.compile(r"The '(?:--)?([\w-]+)' parameter of ([\w. ]+?) (must|has)\b")
_VALUE = re.compile(r"(?<![\w.'\"-])(?<!--set )([a-z]\w*)=('[^']*'|True|False|None)(?![\w'])")
# What the library says for both of its users: "symmetrize=False (on the command line --set ...)".
_ASIDE = re.compile(r"(?:\w+=\S+ )?\(on the command line ([^)]*)\)")
_EITHER = re.compile(r"[\w=\[\]'-]+, (--[\w-]+(?: (?:''|[\w-]+))?) on the command line")
_TOO = re.compile(r" ?\((--[\w-]+(?: [\w-]+)?) on the command line\)")
_SHORT = re.compile(r"\(\w+(?:='\w+')?, (--[\w-]+(?: \w+)?)\)")
# Of functions whose parameters are flags of the same name.
_WITHOUT = re.compile(
    r"The '(\w+)' parameter of probe has no effect without '(\w+)'\. Set that, or leave '\1' out"
)


def at_shell(text: str) -> str:
    """A message with the names of flags, and settings as `--set` takes them."""
    text = text.replace("(--overwrite, overwrite=True)", "with --overwrite")
    text = _EITHER.sub(r"\1", _ASIDE.sub(_aside, text))
    text = _SHORT.sub(r"(\1)", _TOO.sub(_unless_named, text))
    text = _OPTION.sub(lambda found: _flag(found[1]), text)
    text = _OPTIONS.sub(lambda found: re.sub(r"'(\w+)'", lambda n: _flag(n[1]), found[1]), text)
    text = _WITHOUT.sub(r"--\1 has no effect without --\2. Set that, or leave --\1 out", text)
    text = _PARAMETER.sub(_parameter, text)
    return _VALUE.sub(_assignment, text)


def _aside(found: re.Match[str]) -> str:
    return f"({found[1]})" if found[0].startswith("(") else found[1]


def _unless_named(found: re.Match[str]) -> str:
    """The flag in parentheses, but for one whose option was named in the words before."""
    before = found.string[: found.start()]
    name = found[1].removeprefix("--").replace("-", "_")
    return "" if before.endswith(f"option '{name}'") else f" ({found[1]})"


def _flag(name: str) -> str:
    return _FLAGS.get(name, "--" + name.replace("_", "-"))


def _parameter(found: re.Match[str]) -> str:
    name, owner, verb = found.groups()
    if owner == "bench":
        # An argument without a flag.
        return f"{name.upper()} {verb}"
    if name == "path":
        # A flag in some commands, an argument in others.
        return f"The path {verb}"
    if name in _settings():
        return f"The setting '{name}' {verb}"
    return f"{_flag(name)} {verb}"


def _assignment(found: re.Match[str]) -> str:
    name, value = found.groups()
    if name not in _settings():
        return found[0]
    value = value.strip("'")
    if name == "device":
        return f"--device {value}"
    return f"--set {name}={value.lower() if value in ('True', 'False', 'None') else value}"


def _settings() -> frozenset[str]:
    """The names of all settings, where a message can be about one: importing them takes a while."""
    return _all_settings() if "graphlatent.methods.lagraph.settings" in sys.modules else frozenset()


@cache
def _all_settings() -> frozenset[str]:
    from graphlatent.methods.lagraph.settings import GraphLaGraphSettings, NodeLaGraphSettings

    both = (*fields(NodeLaGraphSettings), *fields(GraphLaGraphSettings))
    return frozenset(field.name for field in both)
