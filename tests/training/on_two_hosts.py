"""A training on two hosts; run by torchrun as: on_two_hosts.py DISK.

DISK has the folder 'shards', with one shard, and the whole graph, 'store'. Every process writes
DISK/found.json: fingerprints of its models, and what is on its disk.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from graphlatent import NodeLaGraph
from graphlatent.ops.collective import rank, world_size
from graphlatent.ops.processes import joined
from processes_data import ON_HOSTS, bits


def main(disk: Path) -> None:
    found = {"rank": rank(), "size": world_size(), "disk": sorted(p.name for p in disk.iterdir())}
    found["shards"] = sorted(p.name for p in (disk / "shards").iterdir())
    for name in ("shards", "store"):
        model = NodeLaGraph(progress=False, **ON_HOSTS).fit(disk / name)
        found[f"of {name}"] = bits(model)
    (disk / "found.json").write_text(json.dumps(found))


if __name__ == "__main__":
    with joined(timeout=120):
        main(Path(sys.argv[1]))
