"""The few named errors of graphlatent, and the one way they are worded.

Every error a user can cause derives from :class:`GraphLatentError`; its message names what was
wrong, what is allowed, what came instead, and the way out. The command line prints such messages
without a traceback, exit code 2.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from graphlatent.not_fitted import NotFittedError as NotFittedError


class GraphLatentError(Exception):
    """Base of every error that graphlatent raises on purpose."""


class InputError(GraphLatentError, ValueError):
    """The graph, table or file that came in cannot be used as it is."""


class ConfigError(GraphLatentError, ValueError):
    """A setting is unknown, of the wrong type, out of range, or contradicts another."""


class RunFolderError(GraphLatentError, ValueError):
    """A run folder is damaged, of another version, or does not match the run to be continued."""


class OutputError(GraphLatentError, OSError):
    """An output path exists already or cannot be written."""


class ProtocolError(GraphLatentError, RuntimeError):
    """A probe's test labels were asked for out of turn."""


class NonFiniteLossError(GraphLatentError, RuntimeError):
    """Training met a loss that is not a finite number."""


class TrainingInterrupted(GraphLatentError):  # noqa: N818 - not an error
    """The user pressed Ctrl-C; the step was finished and the state saved."""


class LostProcessError(GraphLatentError, RuntimeError):
    """Another of several processes was lost, so that this one cannot go on.

    Args:
        message: names the process.
        told: another process prints the message.
    """

    def __init__(self, message: str, *, told: bool = False) -> None:
        super().__init__(message)
        self.told = told


class MissingDependencyError(GraphLatentError, ImportError):
    """An optional package is needed for what was asked."""


class GraphLatentWarning(UserWarning):
    """Something about the input that works, but that the user should know."""


_PACKAGE = str(Path(__file__).parent / "_")[:-1]


def warn(text: str) -> None:
    """Issue a `GraphLatentWarning` at the line that called into the package."""
    level, outermost = 1, 1
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code.co_filename.startswith(_PACKAGE):
            outermost = level
        level, frame = level + 1, frame.f_back
    warnings.warn(text, GraphLatentWarning, stacklevel=outermost + 1)


def bad_argument(name: str, *, owner: str, allowed: str, got: object) -> ConfigError:
    """A `ConfigError` worded as scikit-learn words it: the argument, what is allowed, what came."""
    return ConfigError(
        f"The '{name}' parameter of {owner} must be {allowed}. Got {shown(got)} instead."
    )


def shown(value: object) -> str:
    """A value as an error message shows it, of whatever size: at most 100 characters."""
    try:
        text = repr(value)
    # An int of more than 4300 digits, or an object whose own __repr__ fails.
    except Exception:
        return f"one of type {type(value).__name__} that cannot be printed"
    return text if len(text) <= 100 else f"{text[:80]}... ({len(text):,} characters)"


def shown_path(path: object) -> str:
    """A path as an error message shows it: where it is long, its beginning."""
    text = str(path)
    return text if len(text) <= 200 else f"{text[:60]}... ({len(text):,} characters)"


def missing_package(package: str, *, needed_for: str) -> MissingDependencyError:
    """A `MissingDependencyError` that says what to install."""
    return MissingDependencyError(
        f"{needed_for} needs the package '{package}'. Install it with: pip install {package}"
    )


def no_effect(name: str, *, owner: str, without: str) -> ConfigError:
    """A `ConfigError` for an argument that is used only together with another one, `without`."""
    return ConfigError(
        f"The '{name}' parameter of {owner} has no effect without {without}. Set that, or leave"
        f" '{name}' out."
    )


def not_fitted(owner: str) -> GraphLatentError:
    """The error of an estimator that is used before `fit`."""
    from graphlatent.not_fitted import NotFittedError

    return NotFittedError(
        f"This {owner} is not fitted yet. Call 'fit' with a graph, or 'load' a saved folder, first."
    )


def __getattr__(name: str) -> Any:
    """`NotFittedError`, which alone needs scikit-learn: importing that takes a second."""
    if name == "NotFittedError":
        from graphlatent.not_fitted import NotFittedError

        return NotFittedError
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
