"""Which estimator a command trains, and its settings out of files and `--set`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graphlatent.cli.options import SettingsOptions
from graphlatent.errors import ConfigError, bad_argument
from graphlatent.io.config_file import DEFAULT_METHOD, RunConfig, read_config

if TYPE_CHECKING:
    from graphlatent.data.readers.options import TableOptions
    from graphlatent.estimator import Estimator


@dataclass(frozen=True)
class ModelOptions:
    """Which method is trained, and what it embeds."""

    level: Annotated[
        str | None,
        typer.Option("--level", help="'node' or 'graph': what gets an embedding (node)."),
    ] = None
    method: Annotated[
        str | None, typer.Option("--method", help=f"Name of the method ({DEFAULT_METHOD}).")
    ] = None


def estimator_for(level: str, method: str = DEFAULT_METHOD) -> type[Estimator]:
    """The estimator class of a method at a level. Raises `ConfigError` where there is none."""
    from graphlatent.methods.registry import estimator_class

    if level not in ("node", "graph"):
        raise bad_argument("level", owner="graphlatent", allowed="'node' or 'graph'", got=level)
    return estimator_class(method, level)


def settings_in_file(options: SettingsOptions) -> RunConfig:
    """What the file given by `--config` says; nothing where none was given."""
    return RunConfig({}) if options.config is None else read_config(options.config)


def options_in_file(options: SettingsOptions) -> TableOptions:
    """How the file given by `--config` says that tables are read; the defaults where it does not.

    Raises:
        InputError: where the file names an option that there is not, or a value of a wrong type.
    """
    from graphlatent.data.readers.options import TableOptions

    reading = settings_in_file(options).reading
    return TableOptions.from_dict({**TableOptions().to_dict(), **reading})


def for_input(options: TableOptions, source: str, nodes: Path | None) -> TableOptions:
    """Remembered options without those that mean nothing for the input.

    These are the columns of a node table where edges come alone, and all about tables in other
    formats. Those bring their own node attributes, so that labels must stay named.
    """
    from graphlatent.data.readers.arrow import table_suffix
    from graphlatent.data.readers.later import remembered_options

    if nodes is None and options.smiles is None and table_suffix(Path(source)) is not None:
        return options.without_nodes()
    return remembered_options(options, source)


def make_estimator(
    cls: type[Estimator], values: Mapping[str, Any], options: SettingsOptions
) -> Estimator:
    """An estimator with the settings of a file, and over them those given by `--set`.

    Raises:
        ConfigError: where a setting is unknown or out of range, or the encoder is one that only
            Python knows.
    """
    from graphlatent.config import from_mapping, parse_value

    assigned = [parse_value(cls.settings_class, text) for text in options.assignments or ()]
    values = {**values, **dict(assigned)}
    short = dict(options.short)
    if options.dim is not None:
        short[_name_of_width(cls, values)] = options.dim
    twice = [name for name, _ in assigned if name in short]
    if twice:
        raise ConfigError(
            f"The setting '{twice[0]}' is given twice, by --set and by a flag of its own. Give it"
            " once."
        )
    values = {**values, **short}
    if str(values.get("encoder", "")).startswith("custom:"):
        raise ConfigError(
            "This run was trained with your own encoder; continue it from Python: fit(graph,"
            " run=RunFolder(path))."
        )
    return from_mapping(cls, values, where=str(options.config or "--set"))


def _name_of_width(cls: type[Estimator], values: Mapping[str, Any]) -> str:
    """The setting that limits the columns of the embedding, by its kind."""
    from graphlatent.config import from_mapping

    asked = from_mapping(cls.settings_class, values, where="--set")
    kind = getattr(asked, "embedding", None) or asked.preset_values().get("embedding")
    return "embedding_dim" if kind in ("combined", "standard") else "hidden_dim"
