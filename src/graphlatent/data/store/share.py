"""Opening shards: which of them this process trains on, and what is known of the whole store.

A folder of shards has shards.json and, for each shard that the machine needs, a store in a folder
named by its number. shards.json is the same everywhere: it describes the whole store and has the
checksum of every shard's manifest. Legend: K shards.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from graphlatent.data.store.layout import MANIFEST, SHARDS_FILE, checksum
from graphlatent.errors import InputError
from graphlatent.io.regular_files import is_folder, read_regular
from graphlatent.ops.collective import gathered_json, rank, world_size

SHARDS_FORMAT = 1
_DIGEST = "sha256"
_AGAIN = "Write the shards again with 'graphlatent ingest ... --shards NUMBER'"


@dataclass(frozen=True, eq=False)
class Share:
    """That a store is a shard, and other processes have the others.

    Args:
        index: which of the shards it is, from 0.
        name: names these shards: the checksum of shards.json.
        about: what shards.json says of the whole store, as `write_shards` wrote it.
    """

    index: int
    name: str
    about: Mapping[str, Any]

    @property
    def count(self) -> int:
        """K."""
        return int(self.about["count"])

    @property
    def num_nodes(self) -> int:
        """Nodes of the whole store."""
        return int(self.about["num_nodes"])

    def lost_edges(self) -> str:
        """A sentence about the edges between shards."""
        lost, total = self.about["lost_edges"], self.about["num_distinct_edges"]
        return f"{lost:,} of {total:,} edges ({share_of(lost, total)}) are between shards"


def share_of(part: int, total: int) -> str:
    """A part of a whole in words, such as '3.4 %'."""
    return f"{100 * part / max(total, 1):.1f} %"


def sealed(about: Mapping[str, Any]) -> dict[str, Any]:
    """What shards.json holds: `about` with a checksum of it."""
    return {**about, _DIGEST: _digest(about)}


def is_shards(folder: Path) -> bool:
    """Whether a folder holds shards, all or some of those of a store."""
    return is_folder(folder) and (folder / SHARDS_FILE).is_file()


def read_shards(folder: Path) -> dict[str, Any]:
    """What shards.json says.

    Raises:
        InputError: where it is damaged, or of a later version.
    """
    path = folder / SHARDS_FILE
    try:
        about = json.loads(read_regular(path))
        digest = about.pop(_DIGEST)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        reason = " ".join(str(error).split()[:20])
        raise InputError(
            f"{path} cannot be read: {reason}. Copy it again. {_AGAIN} otherwise."
        ) from None
    if digest != _digest(about):
        raise InputError(
            f"{path} is damaged: its sha256 is {_digest(about)}, and {digest} was written. Copy it"
            f" again. {_AGAIN} otherwise."
        )
    if about["shards"] != SHARDS_FORMAT:
        raise InputError(
            f"{path} is of format {about['shards']}, and this version reads format"
            f" {SHARDS_FORMAT}. {_AGAIN}, or install the version that wrote them."
        )
    found: dict[str, Any] = about
    return found


def shards_here(folder: Path, about: Mapping[str, Any]) -> list[int]:
    """The numbers of the shards that this machine has.

    Raises:
        InputError: where one of them is another one than shards.json says.
    """
    here = []
    for number, shard in enumerate(about["parts"]):
        path = folder / str(number) / MANIFEST
        if not path.is_file():
            continue
        if checksum(path) != shard["manifest"]:
            raise InputError(
                f"{path.parent} is no shard of these: its {MANIFEST} is damaged, or of other shards"
                f" (the sha256 should be {shard['manifest']}). Copy it again. {_AGAIN} otherwise."
            )
        here.append(number)
    return here


def own_shard(folder: Path) -> Share:
    """The shard that this process trains on, out of those that its machine has.

    Every process says which shards it can read, and each gets one, so that all are used.

    Raises:
        InputError: where there are more or fewer processes than shards, a shard that no process
            can read, or damage. All processes raise the same.
    """
    about: dict[str, Any] = {}
    found: dict[str, Any] = {"error": None, "name": "", "here": []}
    try:
        about = read_shards(folder)
        found |= {"name": _digest(about), "here": shards_here(folder, about)}
    except InputError as error:
        found["error"] = str(error)
    every = gathered_json(found)
    for number, each in enumerate(every):
        if each["error"] is not None:
            where = f"Process {number}: " if len(every) > 1 else ""
            raise InputError(f"{where}{each['error']}")
    names = [each["name"] for each in every]
    for number, name in enumerate(names):
        if name != names[0]:
            raise InputError(
                f"Process {number} has another {SHARDS_FILE} in {folder} than process 0. Copy the"
                " shards that one 'graphlatent ingest --shards' wrote to every machine."
            )
    count = len(about["parts"])
    if world_size() != count:
        there = "is 1" if world_size() == 1 else f"are {world_size()}"
        raise InputError(
            f"{folder} holds shards for {count} processes, and there {there}. Start training on"
            f" them by: torchrun --nproc-per-node {count} -m graphlatent train {folder} --out RUN"
            f" (the processes may be on several machines). {about['store']} is the whole store, and"
            f" {folder / '0'} one shard, which are read as any other store."
        )
    assigned = assigned_shards([each["here"] for each in every])
    missing = sorted(set(range(count)) - set(assigned.values()))
    if missing:
        raise InputError(
            f"Shard {missing[0]} of {folder} cannot be given to a process: no machine has it, or"
            " those that have it have more shards than processes. Copy the shards so that every"
            " machine has one for each of its processes."
        )
    return Share(assigned[rank()], names[0], about)


def assigned_shards(readable: list[list[int]]) -> dict[int, int]:
    """A shard for each process, that of its number if possible: process -> shard.

    As many processes as possible have one.

    Args:
        readable: the shards that each process can read.
    """
    owner: dict[int, int] = {}

    def give(process: int, seen: set[int]) -> bool:
        # An augmenting path of a bipartite matching.
        for shard in sorted(readable[process], key=lambda shard: shard != process):
            if shard in seen:
                continue
            seen.add(shard)
            if shard not in owner or give(owner[shard], seen):
                owner[shard] = process
                return True
        return False

    for process in range(len(readable)):
        give(process, set())
    return {process: shard for shard, process in owner.items()}


def _digest(about: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()
