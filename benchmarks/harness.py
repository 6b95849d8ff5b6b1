"""What the speed benchmarks share: timing, a process of its own for each way, records, hardware, and the machine's own rates."""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from graphlatent.memory import reused

WAYS = ("general", "fast")


def parser(doc: str | None) -> argparse.ArgumentParser:
    """The options every speed benchmark has."""
    made = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--device", default="cpu")
    made.add_argument("--data", default=None, help="data root: use the real sets")
    made.add_argument("--seconds", type=float, default=10.0, help="at least so long for each way")
    made.add_argument("--json", type=Path, default=None, help="write the record here")
    made.add_argument("--way", default=None, help=argparse.SUPPRESS)
    return made


def measure(
    build: Callable[[], Callable[[], object]], device: torch.device, *, seconds: float, warm_up: int = 4, least: int = 5
) -> dict[str, Any]:
    """Median seconds of what `build` returns, called many times, and the peak memory it needed on top of what was there before."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    run = build()
    times: list[float] = []
    began = time.perf_counter()
    while len(times) < warm_up + least or time.perf_counter() - began < seconds:
        start = time.perf_counter()
        run()
        if device.type == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    on_host = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    peak = torch.cuda.max_memory_allocated() if device.type == "cuda" else on_host
    return {"seconds": statistics.median(times[warm_up:]), "steps": len(times) - warm_up, "peak_bytes": peak}


def hardware(device: str) -> str:
    """The machine in words."""
    return torch.cuda.get_device_name() if device == "cuda" else f"{platform.machine()}, {torch.get_num_threads()} threads"


def in_own_process(script: str, way: str, args: argparse.Namespace, *more: str) -> dict[str, Any]:
    """What `script --way way` prints as its last line, from a process of its own, so that its peak memory is its own."""
    command = [sys.executable, script, "--way", way, "--device", args.device, "--seconds", str(args.seconds), *more]
    command += ["--data", args.data] if args.data else []
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout}\n{done.stderr}")
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def new_record(script: str, names: str, args: argparse.Namespace) -> dict[str, Any]:
    """A record without its results."""
    data = " --data ROOT" if args.data else ""
    return {
        "command": f"python benchmarks/{Path(script).name} {names} --device {args.device} --seconds {args.seconds:g}{data}",
        "hardware": hardware(args.device),
        "torch": torch.__version__,
        "date": datetime.date.today().isoformat(),
        "shapes": {},
    }


def rates(device: torch.device, *, rows: int, width: int) -> dict[str, float]:
    """What this machine does: operations a second in a product of two matrices, bytes a second in a copy and in fetching random rows.

    Args:
        device: where.
        rows: rows of the matrices a step works on, as its cache sees them.
        width: their columns.
    """
    torch.set_float32_matmul_precision("high")
    table = torch.randn(rows, width, device=device)
    weight = torch.randn(width, width, device=device)
    index = torch.randint(rows, (max(rows, 1 << 17),), device=device)
    out, picked = torch.empty_like(table), torch.empty(index.numel(), width, device=device)
    with reused():
        product = _best(lambda: torch.mm(table, weight, out=out), device)
        copy = _best(lambda: out.copy_(table), device)
        fetch = _best(lambda: torch.index_select(table, 0, index, out=picked), device)
    size = 4 * rows * width
    return {
        "operations_per_second": 2 * rows * width * width / product,
        "bytes_per_second": 2 * size / copy,
        "fetched_bytes_per_second": 4 * index.numel() * width / fetch,
    }


def _best(run: Callable[[], object], device: torch.device) -> float:
    times = []
    for _ in range(8):
        start = time.perf_counter()
        for _ in range(5):
            run()
        if device.type == "cuda":
            torch.cuda.synchronize()
        times.append((time.perf_counter() - start) / 5)
    return min(times[2:])
