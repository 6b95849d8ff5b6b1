"""Seconds, memory and disk of ingesting, training on and embedding graphs of growing size.

    python benchmarks/scale.py ingest --sizes 1e6,1e7,1e8 --folder FOLDER --json FILE
    python benchmarks/scale.py train --sizes 2e7 --folder FOLDER --json FILE

Tables are made by scale_data.py, `ingest` with a node for every 10 edges and no features, `train`
with a node for every 20 edges and 64 features. Every command is run as a user runs it, in a process
of its own. Memory is its peak resident set (VmHWM), in which all counts that the process has
in memory: DuckDB's buffers, libraries, and pages of memory-mapped files, which the system takes
back when others need them; `anonymous_bytes` is the peak without pages of files. `cpu_seconds`
are of all cores together, and hardly depend on what else the machine does. Disk is what files
take up, counted every 0.2 s; `temporary_bytes` includes the store that is being built.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import os
import platform
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

DATA = Path(__file__).with_name("scale_data.py")
PACKAGES = ("torch", "numpy", "duckdb", "pyarrow", "pymetis")
NODE_EVERY, NODE_EVERY_WITH_FEATURES, FEATURES = 10, 20, 64
MEMORY = "4GB"
MOST = 8 << 30
"""A process that takes more memory is stopped, before the machine has none left."""
WAYS = {
    "": [],
    "clusters": ["--batching", "clusters"],
    "neighbors": ["--batching", "neighbors"],
    "paper": ["--set", "preset=paper"],
}
"""What is trained, and the options for it."""
_STAGE = re.compile(r"^(\S.*?)(?:, [\d,]+ rows)?: ([\d.]+) s$")


def measured(words: Sequence[str], *, temporary: Path | None = None) -> dict[str, Any]:
    """Run a command of graphlatent in a process of its own, and measure it.

    Args:
        words: the command and its arguments.
        temporary: a folder whose size at its peak is measured.
    """
    command = [sys.executable, "-m", "graphlatent", *words]
    # What is measured is the code beside this script, whatever is installed.
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1] / "src")}
    began, busy = time.perf_counter(), _cpu_seconds()
    with tempfile.TemporaryFile("w+") as told:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=told, env=environment)
        peaks = {"VmHWM": 0, "RssAnon": 0, "disk": 0}
        disk = threading.Thread(target=_watch_disk, args=(process, temporary, peaks))
        disk.start()
        while process.poll() is None:
            for name, size in _memory(process.pid).items():
                peaks[name] = max(peaks[name], size)
            if peaks["VmHWM"] > MOST:
                process.kill()
            time.sleep(0.02)
        seconds = time.perf_counter() - began
        disk.join()
        told.seek(0)
        lines = told.read().splitlines()
    if process.returncode:
        ended = f"exit code {process.returncode}, {peaks['VmHWM'] / 2**30:.2f} GiB"
        raise SystemExit("\n".join([" ".join(words), *lines, ended]))
    stages = [match.groups() for line in lines if (match := _STAGE.match(line))]
    found = {
        "seconds": round(seconds, 2),
        "cpu_seconds": round(_cpu_seconds() - busy, 2),
        "peak_bytes": peaks["VmHWM"],
        "anonymous_bytes": peaks["RssAnon"],
    }
    if temporary is not None:
        found["temporary_bytes"] = peaks["disk"]
    if stages:
        found["stages"] = {name: float(taken) for name, taken in stages}
    notes = [line for line in lines if line.startswith("note: ")]
    return {**found, "notes": notes} if notes else found


def _cpu_seconds() -> float:
    """What processes that ended have computed, on all cores together."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _memory(pid: int) -> dict[str, int]:
    """Bytes that a process has in memory: at most until now, and now without pages of files."""
    with suppress(OSError, ValueError):
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        fields = dict(line.split(":", 1) for line in lines)
        if "VmHWM" in fields:
            return {name: 1024 * int(fields[name].split()[0]) for name in ("VmHWM", "RssAnon")}
    return {}


def _watch_disk(
    process: subprocess.Popen[bytes], folder: Path | None, peaks: dict[str, int]
) -> None:
    while folder is not None and process.poll() is None:
        peaks["disk"] = max(peaks["disk"], disk_usage(folder))
        time.sleep(0.2)


def disk_usage(path: Path) -> int:
    """Bytes that a file, or the files of a folder, take up on the disk."""
    total = 0
    for each in [path, *path.rglob("*")]:
        with suppress(OSError):
            total += 0 if each.is_dir() else each.stat().st_blocks * 512
    return total


def surroundings() -> dict[str, Any]:
    """Hardware, versions and date."""
    versions = {name: importlib.metadata.version(name) for name in PACKAGES}
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "hardware": f"{os.cpu_count()} CPU cores ({platform.machine()}), {memory:.0f} GiB",
        "versions": {"python": platform.python_version(), **versions},
        "date": datetime.date.today().isoformat(),
    }


def record(path: Path | None, found: dict[str, Any]) -> None:
    """Print a record, and write it to a file in place of one of the same case."""
    print(json.dumps(found), flush=True)
    if path is None:
        return
    old = [json.loads(x) for x in path.read_text().splitlines()] if path.exists() else []
    key = ("command", "edges", "way")
    kept = [r for r in old if any(r.get(name) != found.get(name) for name in key)]
    lines = [json.dumps(r) for r in [*kept, {**found, **surroundings()}]]
    path.write_text("".join(f"{line}\n" for line in lines))


def tables(folder: Path, *, num_nodes: int, num_edges: int, num_features: int = 0) -> Path:
    """The folder of the tables of a graph, which are made where they are not there."""
    name = folder / f"{num_edges}-{num_nodes}-{num_features}"
    if not name.exists():
        sizes = {"nodes": num_nodes, "edges": num_edges, "features": num_features}
        options = [word for key, size in sizes.items() for word in (f"--{key}", str(size))]
        unfinished = name.with_suffix(".part")
        shutil.rmtree(unfinished, ignore_errors=True)
        subprocess.run([sys.executable, str(DATA), str(unfinished), *options], check=True)
        unfinished.rename(name)
    return name


def ingest(made: Path, *, features: bool = False) -> dict[str, Any]:
    """Ingest tables into the folder `store` beside them."""
    store = made / "store"
    shutil.rmtree(store, ignore_errors=True)
    given = ["--nodes", "nodes.parquet", "--features", "x.npy"] if features else []
    paths = [str(made / word) if "." in word else word for word in given]
    limits = ["--memory", MEMORY, "--threads", "2"]
    words = ["ingest", str(made / "edges"), *paths, "--out", str(store), *limits]
    found = measured(words, temporary=made / ".store.ingest")
    manifest = json.loads((store / "manifest.json").read_text())
    return {
        "what": "ingest",
        "command": " ".join(["graphlatent ingest edges", *given, "--out store", *limits]),
        "stored_edges": manifest["num_edges"],
        **found,
        "input_bytes": sum(disk_usage(made / word) for word in ("edges", *given[1::2])),
        "store_bytes": disk_usage(store),
    }


def train(made: Path, way: str) -> dict[str, Any]:
    """Train one epoch on a store, into the folder `run` beside it."""
    run = made / f"run-{way or 'auto'}"
    shutil.rmtree(run, ignore_errors=True)
    options = ["--epochs", "1", *WAYS[way]]
    found = measured(["train", str(made / "store"), "--out", str(run), *options])
    command = " ".join(["graphlatent train store --out run", *options])
    results = json.loads((run / "results.json").read_text())
    kept = {key: results[key] for key in ("loss", "embedding_dim")}
    return {"what": "train", "command": command, "way": way, **found, **kept}


def embed(made: Path, way: str) -> dict[str, Any]:
    """Embed a store by a trained run."""
    out = made / "embeddings.parquet"
    out.unlink(missing_ok=True)
    run = made / f"run-{way or 'auto'}"
    found = measured(["embed", str(run), str(made / "store"), "--out", str(out)])
    results = json.loads((run / "results.json").read_text())
    settings = (run / "config.toml").read_text()
    return {
        "what": "embed",
        "command": "graphlatent embed run store --out embeddings.parquet",
        "way": way,
        **found,
        "preset": re.findall(r'^preset = "(.*)"', settings, re.MULTILINE)[0],
        "embedding_dim": results["embedding_dim"],
        "file_bytes": disk_usage(out),
    }


def main() -> None:
    """Measure the sizes that were asked for."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("what", choices=["ingest", "train"])
    options.add_argument("--sizes", default="1e6", help="numbers of edges")
    options.add_argument("--ways", default=",clusters,neighbors,paper", help="of training")
    options.add_argument("--folder", type=Path, required=True, help="where files go")
    options.add_argument("--json", type=Path, default=None, help="write the records here")
    options.add_argument("--keep", action="store_true", help="keep tables and store")
    args = options.parse_args()
    features = FEATURES if args.what == "train" else 0
    for size in (int(float(word)) for word in args.sizes.split(",")):
        every = NODE_EVERY_WITH_FEATURES if features else NODE_EVERY
        sizes = {"nodes": size // every, "edges": size, "features": features}
        made = tables(args.folder, **{f"num_{key}": value for key, value in sizes.items()})
        if not features or not (made / "store").exists():
            record(args.json, {**sizes, **ingest(made, features=bool(features))})
        for way in args.ways.split(",") if features else ():
            if not way:
                # The first training finds the clusters, and the others have them.
                shutil.rmtree(made / "store" / "cache", ignore_errors=True)
            record(args.json, {**sizes, **train(made, way)})
            if way in ("", "paper"):
                record(args.json, {**sizes, **embed(made, way)})
        if not args.keep:
            shutil.rmtree(made)


if __name__ == "__main__":
    main()
