"""The folder of a run. Every file is written atomically, without pickle.

- `config.toml`: level, method, settings, and options with which the input was read
- `versions.json`: versions, seed, device, fingerprints of the input
- `features.json`: encoding of the features (columns, categories, widths), fixed at fit time
- `coordinates.safetensors`: coordinates of the fitted nodes with their ids, where there are any
- `state/last.safetensors`: weights, optimizer, generators and history, from which a run is resumed
- `history.csv`: loss and terms per epoch
- `model.safetensors`: trained weights and batch-norm statistics
- `manifest.json`: checksums; written last, so that its presence marks a complete folder
- `classifier.safetensors`: the head of a fine-tuned classifier, where there is one
- `embeddings.parquet`, `results.json`: written by the command line

config.toml is the last file that is written before training: a folder without it holds no run, one
with it can be resumed. Who writes holds the folder's lock (lock.py); who reads needs none.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from graphlatent._version import __version__
from graphlatent.errors import OutputError, RunFolderError
from graphlatent.io.atomic import refuse_existing, write_json, write_text
from graphlatent.io.config_file import RunConfig, read_config, write_config
from graphlatent.io.differences import encoding_differences, input_differences
from graphlatent.io.history import History
from graphlatent.io.layout import (
    CHECKED,
    COORDINATES,
    EMBEDDINGS,
    MAP,
    OPTIONAL,
    RESULTS,
    STATE,
    clear,
    identity,
    is_free,
    is_run,
    refuse_links,
    remove_leftovers,
)
from graphlatent.io.lock import FolderLock
from graphlatent.io.paths import checked_path
from graphlatent.io.regular_files import open_regular, read_regular
from graphlatent.io.tensors import load_tensors, save_tensors
from graphlatent.io.unfinished import unfinished
from graphlatent.io.versions import FORMAT

_BLOCK = 1 << 20
# Between the position and the identity of the run; the position has no line ends.
_OF_RUN = "\nrun:"


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
        # Where the input was read from, for those who resume with another one.
        self.place: Mapping[str, Any] = {}
        self._lock = FolderLock(self.path)

    def __repr__(self) -> str:
        return f"RunFolder({str(self.path)!r})"

    @property
    def state_path(self) -> Path:
        """The path of the latest snapshot."""
        return self.path / STATE

    @property
    def embeddings_path(self) -> Path:
        """The path of the embeddings that the command line writes."""
        return self.path / EMBEDDINGS

    @property
    def map_path(self) -> Path:
        """The path of the map that the command line draws after training."""
        return self.path / MAP

    @property
    def results_path(self) -> Path:
        """The path of the results that the command line writes."""
        return self.path / RESULTS

    @property
    def complete(self) -> bool:
        """Whether training has finished and the model is written."""
        return (self.path / "manifest.json").is_file()

    @property
    def started(self) -> bool:
        """Whether the folder holds a run, complete or not."""
        return (self.path / "config.toml").is_file()

    def can_resume(self) -> bool:
        """Whether there is a run with all files that are needed to go on with it.

        An earlier version that was killed as it began may have left config.toml alone. Nothing is
        lost then by starting again.

        Raises:
            RunFolderError: where files are missing beside a snapshot or a trained model.
        """
        if not self.started:
            return False
        lost = [n for n in ("versions.json", "features.json") if not (self.path / n).is_file()]
        if lost and (self.complete or self.state_path.is_file()):
            raise RunFolderError(
                f"{self.path} lacks {' and '.join(lost)}, so that its run cannot be continued. Copy"
                " the whole folder, or start again with --overwrite."
            )
        return not lost

    def check_free(self, *, overwrite: bool) -> None:
        """Raise an `OutputError` where a new run cannot be started in this folder.

        Args:
            overwrite: whether it may replace a run. What is no run is never replaced.
        """
        if self.path.is_dir() and is_free(self.path):
            return
        if not overwrite and (state := unfinished(self)):
            raise OutputError(f"{state} Or choose another path, or replace it by --overwrite.")
        refuse_existing(self.path, overwrite=overwrite)
        if self.path.is_dir() and not is_run(self.path):
            raise OutputError(
                f"{self.path} is not a run folder, so it is not replaced. Choose another --out."
            )

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the folder's lock, so that no other process writes in it.

        Everything that writes takes it; around several of these it is held throughout.

        Raises:
            OutputError: where another process writes in the folder, one of its files is a link, or
                it cannot be written to.
        """
        refuse_links(self.path)
        with self._lock.held() as taken:
            if taken:
                remove_leftovers(self.path)
            yield

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
            about: versions and the fingerprints of the input.
            coordinates: those of the fitted nodes as named tensors, or None.
        """
        with self.writing():
            clear(self.path)
            write_json(self.path / "versions.json", about)
            write_json(self.path / "features.json", features)
            if coordinates is not None:
                save_tensors(self.path / COORDINATES, coordinates, json.dumps({"format": FORMAT}))
                # They are no part of the input, and another seed gives other ones.
                checksums = {COORDINATES: self._sha256(COORDINATES)}
                write_json(self.path / "versions.json", {**about, "sha256": checksums})
            write_config(self.path / "config.toml", replace(config, reading=self.reading))

    def save_snapshot(self, snapshot: Snapshot) -> None:
        """Replace the latest snapshot."""
        with self.writing():
            about = snapshot.position + _OF_RUN + identity(self.path)
            save_tensors(self.state_path, snapshot.tensors, about)

    def load_snapshot(self) -> Snapshot | None:
        """The latest snapshot, or None where none was saved.

        Raises:
            RunFolderError: where it is damaged, or was saved by another run.
        """
        if not self.state_path.is_file():
            return None
        tensors, metadata = load_tensors(self.state_path)
        if metadata is None:
            raise RunFolderError(
                f"{self.state_path} is not a checkpoint of graphlatent. Start again with"
                " --overwrite."
            )
        position, _, of_run = metadata.partition(_OF_RUN)
        # Snapshots of earlier versions do not say whose they are.
        if of_run and of_run != identity(self.path):
            raise RunFolderError(
                f"{self.state_path} is the checkpoint of another run, or another file of this run"
                " was changed. Copy the whole folder, or start again with --overwrite."
            )
        return Snapshot(tensors, position)

    def finish(self, model_state: Mapping[str, Tensor], history: History) -> None:
        """Write the history, the trained model and, last, the manifest."""
        with self.writing():
            write_text(self.path / "history.csv", history.to_csv())
            save_tensors(
                self.path / "model.safetensors",
                model_state,
                json.dumps({"format": FORMAT, "version": __version__}),
            )
            names = (*CHECKED, *(name for name in OPTIONAL if (self.path / name).is_file()))
            checksums = {name: self._sha256(name) for name in names}
            write_json(
                self.path / "manifest.json",
                {"format": FORMAT, "graphlatent": __version__, "sha256": checksums},
            )

    def read_config(self) -> RunConfig:
        """Level, method, settings and reading options, as written by `begin`."""
        self._check_started()
        config = read_config(self.path / "config.toml")
        if config.level not in ("node", "graph"):
            raise RunFolderError(
                f'{self.path / "config.toml"} does not say level = "node" or "graph".'
            )
        return config

    def read_json(self, name: str) -> dict[str, Any]:
        """The content of one of the folder's JSON files."""
        try:
            value = json.loads(read_regular(self.path / name).decode("utf-8"))
        except FileNotFoundError as error:
            raise self._lacking(name) from error
        except OSError as error:
            raise RunFolderError(f"Cannot read {self.path / name}: {error.strerror}.") from error
        except (ValueError, RecursionError) as error:
            raise RunFolderError(
                f"{self.path / name} is damaged: {error}. Copy it again, or train again."
            ) from error
        if not isinstance(value, dict):
            raise RunFolderError(
                f"{self.path / name} is damaged: it does not hold a JSON object. Copy it again, or"
                " train again."
            )
        return value

    def read_model(self) -> dict[str, Tensor]:
        """The trained weights; checks the version and the checksums.

        Raises:
            RunFolderError: where training has not finished, or a file is missing, of another
                version, or was changed.
        """
        self._check_started()
        if not self.complete:
            raise RunFolderError(str(unfinished(self)))
        manifest = self.read_json("manifest.json")
        if manifest.get("format") != FORMAT:
            raise RunFolderError(
                f"{self.path} was written in format {manifest.get('format')!r}, by graphlatent"
                f" {manifest.get('graphlatent')}; this is graphlatent {__version__}, which reads"
                f" format {FORMAT}. Train again, or install that version."
            )
        checksums = manifest.get("sha256")
        checksums = checksums if isinstance(checksums, dict) else {}
        for name in (*CHECKED, *(name for name in OPTIONAL if name in checksums)):
            if self._sha256(name) != checksums.get(name):
                raise RunFolderError(
                    f"{self.path / name} is not as it was saved: its checksum differs. Copy it"
                    " again, or train again."
                )
        return load_tensors(self.path / "model.safetensors")[0]

    def _check_started(self) -> None:
        if not self.started:
            raise RunFolderError(
                f"{self.path} is not a run folder of graphlatent: it has no config.toml. Give the"
                " folder that 'graphlatent train --out' or 'save' wrote."
            )

    def _lacking(self, name: str) -> RunFolderError:
        return RunFolderError(f"{self.path} lacks {name}. Copy the whole folder, or train again.")

    def _sha256(self, name: str) -> str:
        try:
            digest = hashlib.sha256()
            with open_regular(self.path / name) as file:
                while block := file.read(_BLOCK):
                    digest.update(block)
            return digest.hexdigest()
        except FileNotFoundError as error:
            raise self._lacking(name) from error
        except OSError as error:
            raise RunFolderError(f"Cannot read {self.path / name}: {error.strerror}.") from error

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
                return History.from_snapshot(snapshot.tensors, json.loads(snapshot.position))
            except (ValueError, KeyError, TypeError) as error:
                raise RunFolderError(f"{self.state_path} is damaged: {error}.") from error
        try:
            return History.from_csv(read_regular(self.path / "history.csv").decode("utf-8"))
        except (OSError, ValueError, IndexError) as error:
            raise RunFolderError(f"{self.path / 'history.csv'} is damaged: {error}.") from error

    def check_same(
        self,
        config: RunConfig,
        *,
        fingerprints: Mapping[str, str],
        features: Mapping[str, Any],
    ) -> None:
        """Raise a `RunFolderError` that lists what differs from the run in this folder.

        Args:
            config: current level, method and settings.
            fingerprints: those of the current input as it was read, by part.
            features: current encoding of the features.
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
        about = self.read_json("versions.json")
        differences += input_differences(about.get("input"), fingerprints)
        recorded = about.get("sha256")
        recorded = recorded.get(COORDINATES) if isinstance(recorded, dict) else None
        has_coordinates = (self.path / COORDINATES).is_file()
        if has_coordinates and recorded and recorded != self._sha256(COORDINATES):
            differences.append(f"{COORDINATES}: not the file that the run began with")
        # Another input or other settings explain another encoding.
        if not differences:
            differences = encoding_differences(self.read_json("features.json"), features)
        if differences:
            raise RunFolderError(
                f"Cannot resume {self.path}: "
                + "; ".join(differences)
                + ". Use the same input and settings, or another --out."
            )
