"""The folder of a run. Every file is written atomically, without pickle.

- `config.toml`: level, method, settings, and options with which the input was read
- `versions.json`: versions, seed, device, fingerprint of the input
- `features.json`: encoding of the features (columns, categories, widths), fixed at fit time
- `coordinates.safetensors`: coordinates of the fitted nodes with their ids, where there are any
- `state/last.safetensors`: weights, optimizer, generators and history, from which a run is resumed
- `history.csv`: loss and terms per epoch
- `model.safetensors`: trained weights and batch-norm statistics
- `manifest.json`: checksums; written last, so that its presence marks a complete folder
- `embeddings.parquet`, `results.json`: written by the command line
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
from graphlatent.io.paths import checked_path
from graphlatent.io.tensors import load_tensors, save_tensors

FORMAT = 1
CHECKED = ("config.toml", "features.json", "model.safetensors")
COORDINATES = "coordinates.safetensors"
# The files of an old run that a new one deletes, in this order.
_REPLACED = (
    "manifest.json",
    "results.json",
    "embeddings.parquet",
    "history.csv",
    "model.safetensors",
    "config.toml",
    COORDINATES,
    "state/last.safetensors",
)


def versions(settings: Settings, *, device: torch.device, fingerprint: str) -> dict[str, Any]:
    """Versions, platform, device, seed and input of a run."""
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
    """The state from which a run is resumed: named tensors, and other values as JSON text."""

    tensors: Mapping[str, Tensor]
    position: str


class RunFolder:
    """The files of one run.

    Args:
        path: the folder.
        replace: start a new run where the folder already holds one, instead of resuming it. The
            old one is deleted once the new input and settings have been checked.
        reading: options with which the input was read, stored in config.toml.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        replace: bool = False,
        reading: Mapping[str, Any] | None = None,
    ) -> None:
        self.path, self.replace = checked_path(path, name="path", owner="RunFolder"), replace
        self.reading: Mapping[str, Any] = reading or {}

    @property
    def state_path(self) -> Path:
        """The path of the latest snapshot."""
        return self.path / "state" / "last.safetensors"

    @property
    def complete(self) -> bool:
        """Whether training has finished and the model is written."""
        return (self.path / "manifest.json").is_file()

    @property
    def started(self) -> bool:
        """Whether the folder holds a run, complete or not."""
        return (self.path / "config.toml").is_file()

    def begin(
        self,
        config: RunConfig,
        *,
        features: Mapping[str, Any],
        about: Mapping[str, Any],
        coordinates: Mapping[str, Tensor] | None = None,
    ) -> None:
        """Write the files that are known before training, after deleting those of an old run.

        Args:
            config: level, method and settings.
            features: encoding of the features.
            about: versions and the fingerprint of the input.
            coordinates: those of the fitted nodes as named tensors, or None.
        """
        self._clear()
        if coordinates is not None:
            # Before config.toml, whose presence marks a run that can be resumed.
            save_tensors(self.path / COORDINATES, coordinates, json.dumps({"format": FORMAT}))
        write_config(self.path / "config.toml", replace(config, reading=self.reading))
        write_json(self.path / "features.json", features)
        write_json(self.path / "versions.json", about)

    def _clear(self) -> None:
        """Delete the files of an old run, its manifest first, and no other files."""
        for name in _REPLACED:
            if (self.path / name).is_file():
                (self.path / name).unlink()

    def save_snapshot(self, snapshot: Snapshot) -> None:
        """Replace the latest snapshot."""
        save_tensors(self.state_path, snapshot.tensors, snapshot.position)

    def load_snapshot(self) -> Snapshot | None:
        """The latest snapshot, or None where none was saved."""
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
        """Write the history, the trained model and, last, the manifest."""
        write_text(self.path / "history.csv", history.to_csv())
        save_tensors(
            self.path / "model.safetensors",
            model_state,
            json.dumps({"format": FORMAT, "version": __version__}),
        )
        has_coordinates = (self.path / COORDINATES).is_file()
        names = (*CHECKED, COORDINATES) if has_coordinates else CHECKED
        checksums = {name: _sha256(self.path / name) for name in names}
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
        """The trained weights; checks the version and the checksums.

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
        checksums = checksums if isinstance(checksums, dict) else {}
        for name in (*CHECKED, COORDINATES) if COORDINATES in checksums else CHECKED:
            if not (self.path / name).is_file():
                raise RunFolderError(
                    f"{self.path} lacks {name}. Copy the whole folder, or train again."
                )
            if _sha256(self.path / name) != checksums.get(name):
                raise RunFolderError(
                    f"{self.path / name} is not as it was saved: its checksum differs. Copy it"
                    " again, or train again."
                )
        return load_tensors(self.path / "model.safetensors")[0]

    def read_coordinates(self) -> dict[str, Tensor] | None:
        """The coordinates of the fitted nodes as named tensors, or None where there are none."""
        path = self.path / COORDINATES
        return load_tensors(path)[0] if path.is_file() else None

    def read_history(self) -> History:
        """The loss and its terms per epoch; of an incomplete run, from the latest snapshot."""
        if not (self.path / "history.csv").is_file():
            snapshot = self.load_snapshot()
            if snapshot is None:
                return History()
            if '"term_names"' not in snapshot.position:
                raise RunFolderError(
                    f"{self.state_path} was written by an earlier version of graphlatent, and"
                    " cannot be resumed. Start again with --overwrite."
                )
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
        """Raise a `RunFolderError` that lists what differs from the run in this folder.

        Args:
            config: current level, method and settings.
            fingerprint: fingerprint of the current input.
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
            differences.append("the input graph: its fingerprint differs from that of the run")
        if differences:
            raise RunFolderError(
                f"Cannot resume {self.path}: "
                + "; ".join(differences)
                + ". Use the same input and settings, or another --out."
            )


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
