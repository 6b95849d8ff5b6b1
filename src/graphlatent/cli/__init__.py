"""The command line interface `graphlatent`.

app.py puts the commands together. Importing this package imports no command, and importing a
command no torch: `--help` answers at once.
"""

from __future__ import annotations

import os
import signal
import sys

from graphlatent.cli.interrupts import INTERRUPTED, on_interrupt
from graphlatent.cli.streams import (
    OutputClosedError,
    discard_output,
    finish_output,
    prepare_streams,
    report,
)


def main() -> None:
    """Run the command line; the entry point of the `graphlatent` command."""
    signal.signal(signal.SIGINT, on_interrupt)
    # Read when torch is loaded. Threads that wait for each other would keep the processor busy,
    # which made training 5 times as slow where other programs were using it.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    prepare_streams()
    try:
        from graphlatent.cli.app import run_app

        code = run_app()
        finish_output()
    except KeyboardInterrupt:
        report("Interrupted.")
        code = INTERRUPTED
    except OutputClosedError as error:
        discard_output()
        code = 1
        if str(error):
            report(f"error: {error}")
            code = 2
    # Nothing is left to be interrupted.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(code)
