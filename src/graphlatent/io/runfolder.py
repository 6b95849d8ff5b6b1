"""The folder of a run: what was asked, what it ran on, where it is, what came out. Written
atomically, no pickle.

- `config.toml`: level, method, settings, and how the input was read
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
import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy
import scipy
import torch
from torch import Tensor

from graphlatent._version import __version__
from graphlatent.config import Settings
from graphlatent.errors import RunFolderError
from graphlatent.io.atomic import remove_leftovers, write_json, write_text
from graphlatent.io.config_file import RunConfig, read_config, write_config
from graphlatent.io.history import History
from graphlatent.io.tensors import load_tensors, save_tensors

FORMAT = 1
CHECKED = ("config.toml", "features.json", "model.safetensors")


def versions(settings: Settings, *, device: torch.device, fingerprint: str) -> dict[str, Any]:
    """What a run depends on beside its settings."""
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
        reading: options with which the input was read, kept in config.toml.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        replace: bool = False,
        reading: Mapping[str, Any] | None = None,
    ) -> None:
        self.path, self.replace = Path(path), replace
        self.reading: Mapping[str, Any] = reading or {}

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
        self, config: RunConfig, *, features: Mapping[str, Any], about: Mapping[str, Any]
    ) -> None:
        """Write what is known before training, after making an old model here invalid.

        Args:
            config: level, method and settings.
            features: how features are encoded.
            about: versions and the fingerprint of the input.
        """
        self._clear()
        write_config(self.path / "config.toml", replace(config, reading=self.reading))
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
        save_tensors(self.state_path, snapshot.tensors, snapshot.position)

    def load_snapshot(self) -> Snapshot | None:
        """The latest snapshot, or None where none was saved before the run stopped."""
        for folder in (self.path, self.state_path.parent):
            if folder.is_dir():
                remove_leftovers(folder)
        if not self.state_path.is_file():
            return None
        tensors, metadata = load_tensors(self.state_path)
        if metadata is None:
            raise RunFolderError(
                f"{self.state_path} is not a checkpoint of graphlatent. Start again with"
                " --overwrite."
            )
        return Snapshot(tensors, metadata)

    def finish(self, model_state: Mapping[str, Tensor], history: History) -> None:
        """Write the trained model, and last the manifest that makes the folder complete."""
        write_text(self.path / "history.csv", history.to_csv())
        save_tensors(
            self.path / "model.safetensors",
            model_state,
            json.dumps({"format": FORMAT, "version": __version__}),
        )
        checksums = {name: _sha256(self.path / name) for name in CHECKED}
        write_json(
            self.path / "manifest.json",
            {"format": FORMAT, "graphlatent": __version__, "sha256": checksums},
        )

    def read_config(self) -> RunConfig:
        """Level, method, settings and reading options, as written by `begin`."""
        if not self.started:
            raise RunFolderError(
                f"{self.path} is not a run folder of graphlatent: it has no config.toml."
            )
        config = read_config(self.path / "config.toml")
        if config.level not in ("node", "graph"):
            raise RunFolderError(
                f'{self.path / "config.toml"} does not say level = "node" or "graph".'
            )
        return config

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
        return load_tensors(self.path / "model.safetensors")[0]

    def read_history(self) -> History:
        """The loss terms per epoch; from the latest snapshot where the run is not complete."""
        if not (self.path / "history.csv").is_file():
            snapshot = self.load_snapshot()
            if snapshot is None:
                return History()
            try:
                names = json.loads(snapshot.position)["term_names"]
                return History.from_tensor(snapshot.tensors["history"], term_names=names)
            except (ValueError, KeyError, TypeError) as error:
                raise RunFolderError(f"{self.state_path} is damaged: {error}.") from error
        try:
            return History.from_csv((self.path / "history.csv").read_text(encoding="utf-8"))
        except (ValueError, IndexError) as error:
            raise RunFolderError(f"{self.path / 'history.csv'} is damaged: {error}.") from error

    def check_same(self, config: RunConfig, *, fingerprint: str) -> None:
        """Raise a `RunFolderError` that shows the difference where a run would change on resuming.

        Args:
            config: level, method and settings of now.
            fingerprint: of the input of now.
        """
        old = self.read_config()
        differences = [
            f"{name}: {before} in the run, {now} now"
            for name, before, now in (
                ("level", old.level, config.level),
                ("method", old.method, config.method),
            )
            if before != now
        ]
        if not differences:
            before, now = old.settings, config.settings
            differences = [
                f"{key}: {before.get(key)!r} in the run, {now.get(key)!r} now"
                for key in {**before, **now}
                if before.get(key) != now.get(key)
            ]
        if self.read_json("versions.json").get("input") != fingerprint:
            differences.append("the input graph: its fingerprint is another one than the run's")
        if differences:
            raise RunFolderError(
                f"Cannot resume {self.path}: "
                + "; ".join(differences)
                + ". Use the same input and settings, or another --out."
            )


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
