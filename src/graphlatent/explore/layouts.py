"""Layouts of maps, kept beside the embeddings so that another colour needs no new one.

t-SNE of 5,000 rows takes a minute. A layout is used again for the same rows, method, seed and
number of rows that are laid out. A file that is damaged, or of other rows, is as none.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch

from graphlatent.errors import GraphLatentWarning, OutputError, RunFolderError
from graphlatent.explore.projection import SAMPLE, MapMethod, Projection, project
from graphlatent.io.layout import MAP_POINTS
from graphlatent.io.runfolder import RunFolder
from graphlatent.io.tensors import load_tensors, save_tensors

Array: TypeAlias = np.ndarray[Any, Any]


@dataclass(frozen=True)
class KeptLayouts:
    """Layouts of the embeddings in a run folder or in a file, one for each method.

    Args:
        path: the run folder, or the file of embeddings.
        run: of that folder, where this process writes in it already.
    """

    path: Path
    run: RunFolder | None = None

    def project(
        self, rows: Array, *, method: MapMethod, seed: int = 0, sample: int | None = None
    ) -> Projection:
        """Rows in the plane as `projection.project` returns them, from the kept layout if it fits.

        A new layout is kept where all rows were laid out, or as many as the method can.
        Principal components are not kept, since they take no time.
        """
        if method not in SAMPLE:
            return project(rows, method=method, seed=seed, sample=sample)
        most = SAMPLE[method]
        count = min(len(rows), sample or most)
        about = _fingerprint(rows, method=method, seed=seed, count=count)
        found = self._read(about, method, len(rows))
        if found is None:
            found = project(rows, method=method, seed=seed, sample=sample)
            if count == min(len(rows), most):
                self._keep(found, about)
        return found

    def place(self, method: str) -> Path:
        """The file of the layout by a method."""
        name = MAP_POINTS.format(method=method)
        if self.path.is_dir():
            return self.path / name
        return self.path.with_name(f"{self.path.stem}-{name}")

    def _read(self, about: str, method: MapMethod, num_rows: int) -> Projection | None:
        place = self.place(method)
        if not place.is_file():
            return None
        try:
            tensors, text = load_tensors(place)
            kept = json.loads(text or "")
            points = tensors["points"].numpy()
            if kept["of"] != about or points.shape != (num_rows, 2):
                return None
            first, second = kept["axes"]
            return Projection(points, (first, second), method, kept["num_placed"])
        except (RunFolderError, ValueError, LookupError, TypeError):
            return None

    def _keep(self, found: Projection, about: str) -> None:
        text = json.dumps({"of": about, "axes": found.axes, "num_placed": found.num_placed})
        # A folder that cannot be written to, or in which another process writes
        with contextlib.suppress(OutputError), self._writable() as writable:
            if writable:
                points = {"points": torch.from_numpy(np.ascontiguousarray(found.points))}
                save_tensors(self.place(found.method), points, text)

    @contextmanager
    def _writable(self) -> Iterator[bool]:
        """Whether a layout may be written; a run folder is locked, and is written once complete."""
        if not self.path.is_dir():
            yield True
            return
        run = self.run or RunFolder(self.path)
        if not run.complete:
            yield False
            return
        with warnings.catch_warnings():
            # On file systems without locks
            warnings.simplefilter("ignore", GraphLatentWarning)
            with run.writing():
                yield True


def _fingerprint(rows: Array, *, method: str, seed: int, count: int) -> str:
    digest = hashlib.sha256(f"{method} {seed} {count} {rows.dtype} {rows.shape}\n".encode())
    digest.update(np.ascontiguousarray(rows).data)
    return digest.hexdigest()
