"""`config.toml` of a run folder: level, method, settings, and how the input was read."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphlatent._version import __version__
from graphlatent.errors import ConfigError, shown, shown_path
from graphlatent.io.atomic import write_text
from graphlatent.io.regular_files import read_regular

# Python 3.10 has `Traversable` elsewhere.
if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    from torch import nn

DEFAULT_METHOD = "lagraph"


@dataclass(frozen=True)
class RunConfig:
    """The content of a configuration file.

    Args:
        settings: values by name.
        level: 'node' or 'graph'; None where the file does not say.
        method: name of a registered method.
        reading: options of the reader, such as names of columns; empty where there are none.
    """

    settings: Mapping[str, Any]
    level: str | None = None
    method: str = DEFAULT_METHOD
    reading: Mapping[str, Any] = field(default_factory=dict)

    def settings_with(self, encoder: nn.Module | None, *, where: str) -> Mapping[str, Any]:
        """The settings, with `encoder` in place of the name of a custom encoder.

        Args:
            encoder: required where the settings name a custom encoder, and None otherwise.
            where: the run folder, for error messages.

        Raises:
            ConfigError: where an encoder is missing or not needed.
        """
        stored = str(self.settings.get("encoder"))
        custom = stored.startswith("custom:")
        if custom and encoder is None:
            name = stored.partition(":")[2]
            raise ConfigError(
                f"{where} was trained with your own encoder {name}. Load it with"
                f" encoder={name}(...)."
            )
        if encoder is not None and not custom:
            raise ConfigError(
                f"{where} was trained with encoder='{stored}'; leave out the 'encoder' argument."
            )
        return {**self.settings, "encoder": encoder} if custom else self.settings


def write_config(path: Path, config: RunConfig) -> None:
    """Write a configuration as the TOML that `read_config` and `train --config` read."""
    lines = [f"# graphlatent {__version__}"]
    lines += [f'level = "{config.level}"'] if config.level is not None else []
    lines += [f'method = "{config.method}"']
    for name, table in (("settings", config.settings), ("reading", config.reading)):
        if table or name == "settings":
            values = {key: value for key, value in table.items() if value is not None}
            lines += ["", f"[{name}]", *(f"{k} = {_toml(v)}" for k, v in values.items())]
    write_text(path, "\n".join(lines) + "\n")


def _toml(value: Any) -> str:
    """A value as TOML: as JSON, but characters beyond U+FFFF unescaped, and DEL escaped."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def read_toml(path: Path | Traversable) -> dict[str, Any]:
    """The content of a TOML file; a byte order mark at its start is skipped.

    Raises:
        ConfigError: where it cannot be read, or is a pipe or a device, which might never end.
    """
    toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    try:
        content = read_regular(path) if isinstance(path, Path) else path.read_bytes()
        values: dict[str, Any] = toml.loads(content.decode("utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"Cannot read {shown_path(path)}: {error.strerror}.") from error
    except RecursionError as error:
        raise ConfigError(
            f"{path} is nested too deeply. Write its tables and lists without nesting."
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}. Save it as UTF-8.") from error
    except toml.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}.") from error
    except ValueError as error:
        raise ConfigError(f"{path} holds an int of thousands of digits. Correct it.") from error
    return values


def read_config(path: Path) -> RunConfig:
    """The configuration in a TOML file, whose settings are in a table [settings] or at the top.

    Raises:
        ConfigError: where the file cannot be read, or has settings in both places.
    """
    values = read_toml(path)
    level, method = values.pop("level", None), values.pop("method", DEFAULT_METHOD)
    table, reading = values.pop("settings", {}), values.pop("reading", {})
    if level is not None and level not in ("node", "graph"):
        raise ConfigError(f"{path}: level must be 'node' or 'graph'. Got {shown(level)} instead.")
    if not isinstance(table, dict) or (table and values):
        raise ConfigError(
            f"{path} must hold its settings either all in a table [settings] or all at the top."
        )
    if not isinstance(reading, dict) or not isinstance(method, str):
        raise ConfigError(f'{path} must hold a table [reading] and method = "NAME", if any.')
    return RunConfig(table or values, level, method, reading)
