"""The command line interface `graphlatent`.

Its commands are demo, train, embed, probe, links, info, settings, data and bench.
"""

from __future__ import annotations

import io
import sys


def main() -> None:
    """Run the command line; the entry point of the `graphlatent` command."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that lacks a letter shows a question mark.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        # Imported here, so that Ctrl-C during the import ends quietly.
        from graphlatent.cli.app import app

        app()
    except KeyboardInterrupt:
        raise SystemExit(130) from None
