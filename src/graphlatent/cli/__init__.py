"""The command line: `graphlatent demo | train | embed | probe | links | info | settings | data |
bench`.
"""

from __future__ import annotations

import io
import sys

from graphlatent.errors import missing_package


def main() -> None:
    """Run the command line; the entry point of the `graphlatent` command."""
    try:
        import rich  # noqa: F401
        import typer  # noqa: F401
    except ImportError as error:
        raise SystemExit(
            f"error: {missing_package('typer rich', needed_for='The command line')}"
        ) from error
    for stream in (sys.stdout, sys.stderr):
        # A terminal that lacks a letter shows a question mark
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        from graphlatent.cli.app import app

        app()
    except KeyboardInterrupt:  # before a command has begun
        raise SystemExit(130) from None
