"""Commands as a user types them, and what must hold for all of them."""

from __future__ import annotations

import json

from typer.testing import CliRunner, Result

from graphlatent.cli.app import app


def invoked(*args: object) -> Result:
    """What is left of a command that ended as commands end."""
    result = CliRunner().invoke(app, [str(each) for each in args])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def run(*args: object) -> tuple[int, str, str]:
    """(exit code, standard output, standard error) of a command."""
    result = invoked(*args)
    return result.exit_code, result.stdout, result.stderr


def typed(*args: object) -> tuple[int, str]:
    """(exit code, what a terminal shows: both outputs in their order) of a command."""
    result = invoked(*args)
    return result.exit_code, result.output


def told(*args: object) -> dict:
    """What a command that must succeed says with --json."""
    code, out, err = run(*args, "--json")
    assert code == 0, err
    found: dict = json.loads(out)
    return found


def fails(*args: object) -> str:
    """The message of a command that must fail as a user error: exit code 2, one sentence beside
    notes, no traceback.
    """
    code, out, err = run(*args)
    assert (code, out) == (2, ""), err
    (message,) = [line for line in err.strip().splitlines() if not line.startswith("note: ")]
    assert message.startswith("error: ") and "Traceback" not in err
    return message.removeprefix("error: ")


def error_output(*args: object) -> str:
    """Standard error of a command that must fail as a user error: exit code 2, no traceback, at
    most two lines beside notes.
    """
    code, _, err = run(*args)
    lines = [line for line in err.splitlines() if not line.startswith("note:")]
    assert code == 2, err
    assert "Traceback" not in err
    assert len(lines) <= 2 and lines[0].startswith("error: "), err
    return err
