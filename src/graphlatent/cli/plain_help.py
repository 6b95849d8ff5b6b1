"""Help pages in plain words: what to write after an option, and nothing after a flag."""

from __future__ import annotations

from inspect import cleandoc
from pathlib import Path
from typing import Any

from typer.core import TyperCommand, TyperGroup

_WORDS = {str: "NAME", int: "NUMBER", float: "NUMBER", Path: "PATH", list[str]: "NAME"}


class PlainCommand(TyperCommand):
    """A command whose help shows `--out PATH` and `--quiet`, not `<path>` and `<bool>`, and whose
    paragraphs are as wide as the terminal.
    """

    def __init__(self, *args: Any, help: str | None = None, **kwargs: Any) -> None:
        super().__init__(*args, help=_paragraphs(help), **kwargs)

    def get_params(self, ctx: Any) -> list[Any]:
        """The parameters, with words for what they take."""
        return _plain(super().get_params(ctx))


class PlainGroup(TyperGroup):
    """The same of a group of commands."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The parameters, with words for what they take."""
        return _plain(super().get_params(ctx))


def _paragraphs(text: str | None) -> str | None:
    """A docstring with each paragraph in one line."""
    if text is None:
        return None
    return "\n\n".join(" ".join(each.split()) for each in cleandoc(text).split("\n\n"))


def _plain(params: list[Any]) -> list[Any]:
    for param in params:
        if param.param_type_name == "option" and param.metavar is None:
            flag = getattr(param, "is_flag", False)
            param.metavar = "" if flag else _WORDS.get(_type_of(param))
    return params


def _type_of(param: Any) -> Any:
    """The annotated type of an option; None in versions of typer that do not tell."""
    return getattr(getattr(param, "type_descriptor", None), "annotation", None)
