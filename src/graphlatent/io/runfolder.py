"""The folder of a run: what was asked, what it ran on, where it is, what came out. Written
atomically, no pickle.

- `config.toml`: level, settings, and how the input was read
- `versions.json`: versions, seed, device, fingerprint of the input
- `features.json`: how features are encoded (columns, categories, widths), fixed at fit time
- `state/last.safetensors`: weights, optimiser, generators, history: all that a killed run needs to
  go on
- `history.csv`: loss terms per epoch
- `model.safetensors`: the trained weights and batch-norm statistics
- `manifest.json`: checksums; written last, so a folder with it is complete
- `embeddings.parquet, results.json`: written by the command line
"""

from __future__ import annotations

import hashlib
import importlib
import json
import platform
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from graphlatent._version import __version__
from graphlatent.config import Settings, to_mapping
from graphlatent.errors import ConfigError, RunFolderError, missing_package
from graphlatent.io.atomic import remove_leftovers, write_atomically, write_json, write_text
from graphlatent.io.history import COLUMNS, History

FORMAT = 1
CHECKED = ("config.toml", "features.json", "model.safetensors")


def write_toml(
    path: Path,
    values: Mapping[str, Any],
    *,
    level: str,
    reading: Mapping[str, Any] | None = None,
) -> None:
    """Write settings as the TOML that `read_toml` and `train --config` read; `reading` beside them
    in a table of its own.
    """
    lines = [f"# graphlatent {__version__}", f'level = "{level}"', "", "[settings]"]
    lines += [f"{key} = {json.dumps(value)}" for key, value in values.items()]
    if reading is not None:
        lines += ["", "[reading]", *(f"{k} = {json.dumps(v)}" for k, v in reading.items())]
    write_text(path, "\n".join(lines) + "\n")


def read_toml(path: Path) -> tuple[str | None, dict[str, Any]]:
    """(level, settings) of a TOML file; settings stand in a table [settings] or at the top."""
    values = _load_toml(path)
    values.pop("reading", None)
    level = values.pop("level", None)
    table = values.pop("settings", {})
    if not isinstance(table, dict) or (table and values):
        raise ConfigError(
            f"{path} must hold its settings either all in a table [settings] or all at the top."
        )
    return level, table or values


def _load_toml(path: Path) -> dict[str, Any]:
    toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    try:
        values: dict[str, Any] = toml.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"Cannot read {path}: {error.strerror}.") from error
    except (toml.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}.") from error
    return values


def versions(settings: Settings, *, device: torch.device, fingerprint: str) -> dict[str, Any]:
    """What a run depends on beside its settings."""
    import numpy
    import scipy

    packages = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "scipy": scipy.__version__,
    }
    return {
        "format": FORMAT,
        "graphlatent": __version__,
        "packages": packages,
        "platform": platform.platform(),
        "device": str(device),
        "random_state": int(settings.random_state),
        "input": fingerprint,
    }


@dataclass(frozen=True)
class Snapshot:
    """Everything a run needs to go on: tensors by name, and a few numbers as JSON text."""

    tensors: Mapping[str, Tensor]
    position: str


class RunFolder:
    """The files of one run.

    Args:
        path: the folder.
        replace: start anew where there is a run already, instead of taking it up; the old one is
            kept until the new one's input and settings have been found good.
        reading: how the input of a new run was read, as plain values; kept in config.toml.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        replace: bool = False,
        reading: Mapping[str, Any] | None = None,
    ) -> None:
        self.path, self.replace, self.reading = Path(path), replace, reading

    @property
    def state_path(self) -> Path:
        """Where the latest snapshot is."""
        return self.path / "state" / "last.safetensors"

    @property
    def complete(self) -> bool:
        """Whether training ended and its model was written."""
        return (self.path / "manifest.json").is_file()

    @property
    def started(self) -> bool:
        """Whether there is a run here at all, complete or not."""
        return (self.path / "config.toml").is_file()

    def begin(
        self,
        level: str,
        settings: Settings,
        *,
        features: Mapping[str, Any],
        about: Mapping[str, Any],
    ) -> None:
        """Write what is known before training: settings, encoding of features, versions. An old
        model here is voided first.
        """
        _saver()  # said before anything is written
        self._clear()
        write_toml(
            self.path / "config.toml", to_mapping(settings), level=level, reading=self.reading
        )
        write_json(self.path / "features.json", features)
        write_json(self.path / "versions.json", about)

    def _clear(self) -> None:
        """Forget an old run here, the mark of its completeness first; files of others stay."""
        for name in (
            "manifest.json",
            "results.json",
            "embeddings.parquet",
            "history.csv",
            "model.safetensors",
            "config.toml",
        ):
            if (self.path / name).is_file():
                (self.path / name).unlink()
        if self.state_path.is_file():
            self.state_path.unlink()

    def save_snapshot(self, snapshot: Snapshot) -> None:
        """Replace the latest snapshot."""
        _save_tensors(self.state_path, snapshot.tensors, snapshot.position)

    def load_snapshot(self) -> Snapshot | None:
        """The latest snapshot, or None where none was saved before the run stopped."""
        for folder in (self.path, self.state_path.parent):
            if folder.is_dir():
                remove_leftovers(folder)
        if not self.state_path.is_file():
            return None
        tensors, metadata = _load_tensors(self.state_path)
        if metadata is None:
            raise RunFolderError(
                f"{self.state_path} is not a checkpoint of graphlatent. Start again with"
                " --overwrite."
            )
        return Snapshot(tensors, metadata)

    def finish(self, model_state: Mapping[str, Tensor], history: History) -> None:
        """Write the trained model, and last the manifest that makes the folder complete."""
        write_text(self.path / "history.csv", history.to_csv())
        _save_tensors(
            self.path / "model.safetensors",
            model_state,
            json.dumps({"format": FORMAT, "version": __version__}),
        )
        checksums = {name: _sha256(self.path / name) for name in CHECKED}
        write_json(
            self.path / "manifest.json",
            {"format": FORMAT, "graphlatent": __version__, "sha256": checksums},
        )

    def read_settings(self) -> tuple[str, dict[str, Any]]:
        """(level, settings) as written by `begin`."""
        if not self.started:
            raise RunFolderError(
                f"{self.path} is not a run folder of graphlatent: it has no config.toml."
            )
        level, values = read_toml(self.path / "config.toml")
        if level not in ("node", "graph"):
            raise RunFolderError(
                f'{self.path / "config.toml"} does not say level = "node" or "graph".'
            )
        return level, values

    def read_reading(self) -> Mapping[str, Any] | None:
        """How the input was read, as written by `begin`; None where the run does not say."""
        if not self.started:
            return None
        reading = _load_toml(self.path / "config.toml").get("reading")
        if not isinstance(reading, dict | None):
            raise RunFolderError(
                f"{self.path / 'config.toml'} is damaged: 'reading' must be a table."
            )
        return reading

    def read_json(self, name: str) -> dict[str, Any]:
        """The content of one of the folder's JSON files."""
        try:
            value = json.loads((self.path / name).read_text(encoding="utf-8"))
        except OSError as error:
            raise RunFolderError(f"{self.path} lacks {name}: {error.strerror}.") from error
        except ValueError as error:
            raise RunFolderError(f"{self.path / name} is damaged: {error}.") from error
        if not isinstance(value, dict):
            raise RunFolderError(f"{self.path / name} is damaged: it does not hold a JSON object.")
        return value

    def read_model(self) -> dict[str, Tensor]:
        """The trained weights, after checking version and checksums.

        Raises:
            RunFolderError: where training has not finished, or a file is missing, of another
                version, or was changed.
        """
        if not self.started:
            raise RunFolderError(
                f"{self.path} is not a run folder of graphlatent: it has no config.toml."
            )
        if not self.complete:
            raise RunFolderError(
                f"{self.path} holds an unfinished run. Finish it with 'graphlatent train ... --out"
                f" {self.path} --resume'."
            )
        manifest = self.read_json("manifest.json")
        if manifest.get("format") != FORMAT:
            raise RunFolderError(
                f"{self.path} was written in format {manifest.get('format')!r}, by graphlatent"
                f" {manifest.get('graphlatent')}; this is graphlatent {__version__}, which reads"
                f" format {FORMAT}. Train again, or install that version."
            )
        checksums = manifest.get("sha256")
        for name in CHECKED:
            if not (self.path / name).is_file():
                raise RunFolderError(
                    f"{self.path} lacks {name}. Copy the whole folder, or train again."
                )
            if not isinstance(checksums, dict) or _sha256(self.path / name) != checksums.get(name):
                raise RunFolderError(
                    f"{self.path / name} is not as it was saved: its checksum differs. Copy it"
                    " again, or train again."
                )
        return _load_tensors(self.path / "model.safetensors")[0]

    def read_history(self) -> History:
        """The loss terms per epoch; from the latest snapshot where the run is not complete."""
        if not (self.path / "history.csv").is_file():
            snapshot = self.load_snapshot()
            return History.from_tensor(snapshot.tensors["history"]) if snapshot else History()
        try:
            lines = (self.path / "history.csv").read_text(encoding="utf-8").splitlines()
            rows = [[float(v) for v in line.split(",")] for line in lines[1:]]
            return History(*[[row[i + 1] for row in rows] for i in range(len(COLUMNS))])
        except (ValueError, IndexError) as error:
            raise RunFolderError(f"{self.path / 'history.csv'} is damaged: {error}.") from error

    def check_same(self, level: str, settings: Settings, *, fingerprint: str) -> None:
        """Raise a `RunFolderError` that shows the difference where a run would go on with other
        settings or another input.
        """
        old_level, old = self.read_settings()
        new = to_mapping(settings)
        differences = [f"level: {old_level} in the run, {level} now"] if old_level != level else []
        if not differences:
            changed = [key for key in {**old, **new} if old.get(key) != new.get(key)]
            differences = [
                f"{key}: {old.get(key)!r} in the run, {new.get(key)!r} now" for key in changed
            ]
        if self.read_json("versions.json").get("input") != fingerprint:
            differences.append("the input graph: its fingerprint is another one than the run's")
        if differences:
            raise RunFolderError(
                f"Cannot resume {self.path}: "
                + "; ".join(differences)
                + ". Use the same input and settings, or another --out."
            )


def _saver() -> Callable[..., bytes]:
    """The serialiser. Not `save_file`, which leaves a temporary file of its own when the process is
    killed inside it.
    """
    try:
        from safetensors.torch import save
    except ImportError as error:
        raise missing_package("safetensors", needed_for="Saving a model") from error
    return save


def _save_tensors(path: Path, tensors: Mapping[str, Tensor], about: str) -> None:
    """Write tensors and one text; a single key, since safetensors writes several in no fixed
    order.
    """
    # Tied weights are refused
    contiguous = {
        name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()
    }
    content = _saver()(contiguous, metadata={"graphlatent": about})
    write_atomically(path, lambda temporary: temporary.write_bytes(content))


def _load_tensors(path: Path) -> tuple[dict[str, Tensor], str | None]:
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError as error:
        raise missing_package("safetensors", needed_for="Loading a model") from error
    try:
        with safe_open(str(path), framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in list(file.keys())}
            return tensors, (file.metadata() or {}).get("graphlatent")
    except (SafetensorError, OSError, ValueError) as error:
        raise RunFolderError(
            f"{path} is truncated or damaged: {error}. Copy it again, or train again."
        ) from error


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
