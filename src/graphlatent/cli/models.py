"""Which estimator a command uses, and its settings out of files and `--set`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from graphlatent.cli.options import SettingsOptions
from graphlatent.config import from_mapping, parse_value
from graphlatent.errors import ConfigError, bad_argument
from graphlatent.estimator import GraphLaGraph, LaGraphEstimator, NodeLaGraph
from graphlatent.io.runfolder import RunFolder

ESTIMATORS: dict[tuple[str, str], type[LaGraphEstimator]] = {
    ("lagraph", "node"): NodeLaGraph,
    ("lagraph", "graph"): GraphLaGraph,
}


def estimator_for(level: str, method: str = "lagraph") -> type[LaGraphEstimator]:
    """The estimator class of a method at a level. Raises `ConfigError` where there is none."""
    if level not in ("node", "graph"):
        raise bad_argument("level", owner="graphlatent", allowed="'node' or 'graph'", got=level)
    if (method, level) not in ESTIMATORS:
        names = ", ".join(name for name, of in ESTIMATORS if of == level)
        raise bad_argument(
            "method", owner=f"graphlatent at {level} level", allowed=f"one of {names}", got=method
        )
    return ESTIMATORS[method, level]


def make_estimator(
    estimator_class: type[LaGraphEstimator], values: dict[str, Any], options: SettingsOptions
) -> LaGraphEstimator:
    """An estimator with the settings of a file, and over them those given by `--set`.

    Raises:
        ConfigError: where a setting is unknown or out of range, or the encoder is one that only
            Python knows.
    """
    assigned = [parse_value(estimator_class, text) for text in options.assignments or ()]
    values = {**values, **dict(assigned)}
    if str(values.get("encoder", "")).startswith("custom:"):
        raise ConfigError(
            "This run was trained with your own encoder; go on with it from Python: fit(graph,"
            " run=RunFolder(path))."
        )
    return from_mapping(estimator_class, values, where=str(options.config or "--set"))


def load_estimator(path: Path) -> LaGraphEstimator:
    """The fitted estimator of a finished run."""
    level, _ = RunFolder(path).read_settings()
    return estimator_for(level).load(path)
