"""How an estimator presents itself, from the declarations of its settings.

That is its signature, its docstring, and the table that a notebook shows.
"""

from __future__ import annotations

import dataclasses
import inspect
import textwrap
from typing import Any

from graphlatent.config import Settings, describe
from graphlatent.display import counted, html_table

_WIDTH = 96


def document_settings(cls: type[Settings], *, settings: type[Settings], base: type) -> None:
    """Give an estimator class a signature without annotations and numpydoc sections.

    Args:
        cls: changed in place.
        settings: the settings that it inherits.
        base: its base class, whose docstring lists the learnt attributes.
    """
    parameters = [
        inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default)
        for field in dataclasses.fields(settings)
    ]
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    shown: Any = cls
    shown.__signature__ = inspect.Signature(parameters)
    # The one that scikit-learn reads, and that `help` shows too.
    if "__init__" in vars(cls):
        shown.__init__.__signature__ = inspect.Signature([own, *parameters])
    text = inspect.cleandoc(cls.__doc__ or "")
    cls.__doc__ = "\n\n".join([text, _parameters(settings), _attributes(base)]).rstrip() + "\n"


class ShownInNotebook:
    """A mixin that shows an estimator as a table: whether it is fitted, and changed settings."""

    @property
    def _repr_html_(self) -> Any:
        return self._as_table

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._as_table()}

    def _as_table(self) -> str:
        estimator: Any = self
        rows: list[tuple[str, object]] = [("fitted", "no")]
        if hasattr(estimator, "model_"):
            rows = [
                ("fitted", estimator.history_.summary()),
                ("embedding", counted(estimator.embedding_dim_, "column")),
            ]
        for field in dataclasses.fields(estimator):
            value = getattr(estimator, field.name)
            if value is not field.default and value != field.default:
                rows.append((field.name, value))
        return html_table(type(self).__name__, rows)


def _parameters(settings: type[Settings]) -> str:
    lines = ["Parameters", "----------"]
    for name, allowed, default, meaning in describe(settings):
        field = next(field for field in dataclasses.fields(settings) if field.name == name)
        preset = field.default is None and default is not None
        of_preset = " (of the preset)" if preset else ""
        lines += _entry(f"{name} : {allowed}, default={default!r}{of_preset}", meaning)
    return "\n".join(lines)


def _attributes(base: type) -> str:
    """The section that the base class has in Google's style, in numpydoc's."""
    _, _, listed = inspect.cleandoc(base.__doc__ or "").partition("Attributes:\n")
    lines = ["Attributes", "----------"] if listed else []
    for line in textwrap.dedent(listed).splitlines():
        name, found, meaning = line.partition(": ")
        lines += _entry(name, meaning) if found else []
    return "\n".join(lines)


def _entry(head: str, meaning: str) -> list[str]:
    lines = textwrap.wrap(meaning, _WIDTH, break_on_hyphens=False)
    return [head, *(f"    {line}" for line in lines)]
