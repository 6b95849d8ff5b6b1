"""Run folders that are damaged, mixed up or hostile.

Damage is refused, or changes nothing. Changes that come with right checksums may be accepted, but
give no traceback, no embedding that is not finite, and touch nothing outside the folder.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from fuzz import hostile
from fuzz.compare import plain_values, require
from fuzz.harness import Place, Refused, command
from fuzz.mutate import damaged
from fuzz.signals import arguments, process, write_inputs
from graphlatent import load_estimator, read_graphs

_SMALL = ("--set", "epochs=2", "--set", "hidden_dim=4", "--set", "device=cpu", "--quiet")


def prepare(folder: Path) -> None:
    """Runs with features and with coordinates, one of them unfinished, and their embeddings."""
    write_inputs(folder)
    nodes = [f"n{i},{i / 4},{'ab'[i % 2]}" for i in range(14)]
    (folder / "nodes.csv").write_text("\n".join(["id,size,kind", *nodes]) + "\n")
    command("train", folder / "edges.csv", "--out", folder / "coordinates", *_SMALL)
    table = ("--nodes", folder / "nodes.csv")
    command("train", folder / "edges.csv", *table, "--out", folder / "features", *_SMALL)
    whole = process(arguments(folder, folder / "whole", *table), count=folder / "operations")
    middle = int((folder / "operations").read_text()) // 2
    killed = process(arguments(folder, folder / "unfinished", *table), operation=middle)
    if whole.code != 0 or killed.code != -signal.SIGKILL:
        raise RuntimeError(f"{whole} {killed}")
    for name in ("coordinates", "features"):
        np.save(folder / f"{name}.npy", _embed(folder / name, folder, name))


def _embed(run: Path, inputs: Path, name: str) -> Any:
    nodes = inputs / "nodes.csv" if name == "features" else None
    estimator = load_estimator(run)
    return estimator.transform(read_graphs(inputs / "edges.csv", nodes=nodes))


def folders(rng: random.Random, place: Place) -> None:
    """Change a copy of a run, or the input of an unfinished one, and use it."""
    if rng.random() < 0.1:
        other_input(rng, place)
        return
    outside = place.folder / "outside"
    outside.mkdir()
    for name in ("last.safetensors", "model.safetensors", "mine.txt"):
        (outside / name).write_text("not yours")
    name = rng.choice(("coordinates", "features", "features", "unfinished"))
    run = place.folder / "run"
    shutil.copytree(place.prepared / name, run)
    if rng.random() < 0.5:
        said = rng.choice(_DAMAGE)(run, rng, place)
        trusted = False
    else:
        said = rng.choice(hostile.CHANGES)(run, rng)
        write_checksums(run)
        trusted = True
    try:
        use = _resume if name == "unfinished" else rng.choice(_USES)
        use(run, rng, place, name, f"{name}: {said}", trusted)
    finally:
        kept = all(file.read_text() == "not yours" for file in outside.iterdir())
        kept = kept and len(list(outside.iterdir())) == 3
        require(kept, f"a file outside the folder was changed; {name}: {said}")


def _use_embed(
    run: Path, rng: random.Random, place: Place, name: str, said: str, trusted: bool
) -> None:
    rows = _embed(run, place.prepared, name)
    require(np.isfinite(rows).all(), f"embeddings are not finite; {said}")
    before = np.load(place.prepared / f"{name}.npy")
    require(trusted or np.array_equal(rows, before), f"embeddings differ; {said}")


def _use_command(
    run: Path, rng: random.Random, place: Place, name: str, said: str, trusted: bool
) -> None:
    nodes = ("--nodes", place.prepared / "nodes.csv") if name == "features" else ()
    out = place.folder / "rows.npz"
    command("embed", run, place.prepared / "edges.csv", *nodes, "--out", out, "--quiet")


def _use_info(
    run: Path, rng: random.Random, place: Place, name: str, said: str, trusted: bool
) -> None:
    command("info", run, *rng.choice(((), ("--json",))))


def _overwrite(
    run: Path, rng: random.Random, place: Place, name: str, said: str, trusted: bool
) -> None:
    command("train", place.prepared / "edges.csv", "--out", run, "--overwrite", *_SMALL)
    rows = _embed(run, place.prepared, "coordinates")
    before = np.load(place.prepared / "coordinates.npy")
    require(np.array_equal(rows, before), f"a replaced run differs; {said}")


def _resume(
    run: Path, rng: random.Random, place: Place, name: str, said: str, trusted: bool
) -> None:
    if rng.random() < 0.2:
        command("info", run)
        return
    table = ("--nodes", str(place.prepared / "nodes.csv"))
    try:
        command(*arguments(place.prepared, run, *table, "--resume", "--quiet"))
    except Refused as error:
        # The settings of a run that goes on may ask for anything, as those of a new one may.
        if trusted and "Out of memory" in str(error):
            return
        raise
    same = (run / "model.safetensors").read_bytes() == (
        place.prepared / "whole" / "model.safetensors"
    ).read_bytes()
    require(trusted or same, f"the resumed model differs; {said}")


_USES: tuple[Callable[..., None], ...] = (
    *(_use_embed, _use_embed, _use_embed, _use_command, _use_info, _overwrite),
)


def other_input(rng: random.Random, place: Place) -> None:
    """An unfinished run goes on with the graph that it was started with, and with no other."""
    run, inputs = place.folder / "run", place.folder / "inputs"
    shutil.copytree(place.prepared / "unfinished", run)
    inputs.mkdir()
    files = {name: (place.prepared / name).read_bytes() for name in ("edges.csv", "nodes.csv")}
    changed = rng.choice(sorted(files))
    before = _read_plain(place.prepared)
    for name, data in files.items():
        (inputs / name).write_bytes(damaged(data, rng, times=1) if name == changed else data)
    after = _read_plain(inputs)
    command(*arguments(inputs, run, "--nodes", str(inputs / "nodes.csv"), "--resume", "--quiet"))
    said = f"resumed with other input, {changed}: {(inputs / changed).read_bytes()!r}"
    require(after == before, said)


def _read_plain(inputs: Path) -> str:
    return plain_values(read_graphs(inputs / "edges.csv", nodes=inputs / "nodes.csv"))


def _files(run: Path) -> list[Path]:
    return sorted(path for path in run.rglob("*") if path.is_file())


def _damage_bytes(run: Path, rng: random.Random, place: Place) -> str:
    tensors = sorted(run.rglob("*.safetensors"))
    path = rng.choice(tensors if tensors and rng.random() < 0.4 else _files(run))
    path.write_bytes(damaged(path.read_bytes(), rng))
    return f"damaged {path.name}: {path.read_bytes()[:3000]!r}"


def _remove(run: Path, rng: random.Random, place: Place) -> str:
    path = rng.choice(_files(run))
    if rng.random() < 0.5:
        path.unlink()
        return f"without {path.name}"
    path.write_bytes(b"")
    return f"empty {path.name}"


def _replace_by_other(run: Path, rng: random.Random, place: Place) -> str:
    """A file of another run."""
    path = rng.choice(_files(run))
    other = place.prepared / rng.choice(("coordinates", "features", "unfinished", "whole"))
    source = other / path.relative_to(run)
    if source.is_file():
        shutil.copy(source, path)
    return f"{path.name} of {other.name}"


def _odd_file(run: Path, rng: random.Random, place: Place) -> str:
    """A link, a folder, a pipe or a device in the place of a file, or of the folder of states."""
    path = rng.choice([*_files(run), *([run / "state"] if (run / "state").is_dir() else [])])
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
    outside = place.folder / "outside"
    targets = ("/dev/zero", "/dev/null", path, "nowhere", outside, outside / "model.safetensors")
    how = rng.choice(("folder", "pipe", *targets))
    if how == "folder":
        path.mkdir()
    elif how == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(how)
    return f"{path.name} is {how}"


_DAMAGE: tuple[Callable[[Path, random.Random, Place], str], ...] = (
    *(_damage_bytes, _damage_bytes, _remove, _replace_by_other, _odd_file),
)


def write_checksums(run: Path) -> None:
    """Make every checksum in the folder's JSON files that of the file it names."""
    for path in run.glob("*.json"):
        try:
            value = json.loads(path.read_text())
        except (ValueError, OSError, RecursionError):
            continue
        if _write_sums(value, run):
            path.write_text(json.dumps(value))


def _write_sums(value: Any, run: Path) -> bool:
    changed = False
    for name, inner in value.items() if isinstance(value, dict) else ():
        if isinstance(inner, dict):
            changed |= _write_sums(inner, run)
        elif isinstance(inner, str) and len(inner) == 64 and (run / name).is_file():
            value[name] = hashlib.sha256((run / name).read_bytes()).hexdigest()
            changed = True
    return changed
