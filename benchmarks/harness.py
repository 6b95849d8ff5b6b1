"""What the speed benchmarks share: timing, a process of its own for each way, records, hardware,
and the machine's own rates.
"""

from __future__ import annotations

import argparse
import datetime
import gc
import json
import os
import platform
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch


def parser(doc: str | None) -> argparse.ArgumentParser:
    """The options every speed benchmark has."""
    made = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--device", default="cpu")
    made.add_argument("--data", default=None, help="data root: use the real sets")
    made.add_argument("--seconds", type=float, default=10.0, help="at least so long for each way")
    made.add_argument(
        "--rounds",
        type=int,
        default=2,
        help="measure all ways so many times in turn, and keep the best of each",
    )
    made.add_argument("--json", type=Path, default=None, help="write the record here")
    made.add_argument(
        "--profile",
        action="store_true",
        help="also say which kernels the fast path spends its time in",
    )
    made.add_argument("--way", default=None, help=argparse.SUPPRESS)
    return made


def measure(
    build: Callable[[], Callable[[], object]], device: torch.device, *, seconds: float
) -> dict[str, Any]:
    """Median seconds of what `build` returns, called many times, and the peak memory it needed on
    top of what was there before.
    """
    gc.collect()
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here on
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    run = build()
    times: list[float] = []
    warm_up, least = (4, 20) if device.type == "cuda" else (2, 3)
    began = time.perf_counter()
    while len(times) < warm_up + least or time.perf_counter() - began < seconds:
        start = time.perf_counter()
        run()
        if device.type == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    peak = (
        torch.cuda.max_memory_allocated() if device.type == "cuda" else resident("VmHWM") - before
    )
    return {
        "seconds": statistics.median(times[warm_up:]),
        "steps": len(times) - warm_up,
        "peak_bytes": peak,
    }


def resident(field: str) -> int:
    """Bytes this process holds in memory (VmRSS), or held at most (VmHWM)."""
    line = next(
        line
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith(field)
    )
    return 1024 * int(line.split()[1])


def hardware(device: str) -> str:
    """The machine in words."""
    return (
        torch.cuda.get_device_name()
        if device == "cuda"
        else f"{platform.machine()}, {torch.get_num_threads()} threads"
    )


def answer(ways: str, one_way: Callable[[str], dict[str, Any]]) -> None:
    """Measure the ways named in `ways` in this process and print what was found as one line of
    JSON.
    """
    found = {}
    for way in ways.split(","):
        found[way] = one_way(way)
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
    print(json.dumps(found))


def in_own_process(script: str, ways: str, args: argparse.Namespace, *more: str) -> dict[str, Any]:
    """What `script --way ways` prints as its last line, from a process of its own."""
    command = [
        sys.executable,
        script,
        "--way",
        ways,
        "--device",
        args.device,
        "--seconds",
        str(args.seconds),
        *more,
    ]
    command += ["--data", args.data] if args.data else []
    # what graphlatent asks of the system for itself, the general path does not get
    environment = {**os.environ, "THP_MEM_ALLOC_ENABLE": "0"} if ways == "general" else None
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout}\n{done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def all_ways(script: str, ways: list[str], args: argparse.Namespace, *more: str) -> dict[str, Any]:
    """Every way once: on a CPU each in a process of its own, so that its peak memory is its own; a
    GPU counts memory by itself.
    """
    if args.device == "cuda":
        return in_own_process(script, ",".join(ways), args, *more)
    return {way: in_own_process(script, way, args, *more)[way] for way in ways}


def compare(
    script: str, shapes: str, names: dict[str, list[str]], ways: list[str], args: argparse.Namespace
) -> None:
    """Measure every way of every name, print a table, and write the record where `--json` says."""
    measured = f"--seconds {args.seconds:g} --rounds {args.rounds}" + (
        " --data ROOT" if args.data else ""
    )
    record: dict[str, Any] = {
        "command": (
            f"python benchmarks/{Path(script).name} {shapes} --device {args.device} {measured}"
        ),
        "hardware": hardware(args.device),
        "torch": torch.__version__,
        "date": datetime.date.today().isoformat(),
        "shapes": {},
    }
    print(
        f"{'':10} {'general s':>10} {'fast s':>9} {'ratio':>6} {'floor s':>9} {'x floor':>8}"
        f" {'memory, GiB':>15}   ({record['hardware']})"
    )
    for name, more in names.items():
        rounds = [all_ways(script, ways, args, *more) for _ in range(args.rounds)]
        result: dict[str, Any] = {
            way: min((r[way] for r in rounds), key=lambda found: found.get("seconds", 0))
            for way in ways
        }
        general, fast, least = result["general"], result["fast"], result["floor"]["seconds"]
        result["ratio"], result["times_floor"] = (
            general["seconds"] / fast["seconds"],
            fast["seconds"] / least,
        )
        record["shapes"][name] = result
        memory = " / ".join(f"{way['peak_bytes'] / 2**30:.2f}" for way in (general, fast))
        times = (
            f"{general['seconds']:10.4f} {fast['seconds']:9.4f} {result['ratio']:6.2f} {least:9.4f}"
            f" {result['times_floor']:8.2f}"
        )
        low = (
            f"   bf16 {result['bf16']['seconds']:.4f} s,"
            f" {result['bf16']['peak_bytes'] / 2**30:.2f} GiB"
            if "bf16" in result
            else ""
        )
        print(f"{name:10} {times} {memory:>15}{low}", flush=True)
        for kernel, share in result.get("profile", {}).get("kernels", []):
            print(f"{'':12}{share:6.1%}  {kernel}")
        if args.json:
            args.json.write_text(json.dumps(record, indent=2) + "\n")


def profile(run: Callable[[], object], *, calls: int = 10) -> dict[str, Any]:
    """Where the time of `run` goes: microseconds a call, and the shares of the kernels (on a CPU,
    of torch's operations).
    """
    from torch.profiler import ProfilerActivity, profile

    on_gpu = torch.cuda.is_available()
    for _ in range(5):
        run()
    with (
        warnings.catch_warnings(),
        profile(activities=[ProfilerActivity.CUDA if on_gpu else ProfilerActivity.CPU]) as found,
    ):
        warnings.simplefilter("ignore")
        for _ in range(calls):
            run()
        if on_gpu:
            torch.cuda.synchronize()
    spent = {
        e.key: e.self_device_time_total if on_gpu else e.self_cpu_time_total
        for e in found.key_averages()
    }
    total = sum(spent.values())
    shares: dict[str, float] = {}
    for name, time_spent in spent.items():
        kind = _kind_of_kernel(name)
        shares[kind] = shares.get(kind, 0.0) + time_spent / total
    ranked = sorted(shares.items(), key=lambda pair: -pair[1])
    return {
        "microseconds": total / calls,
        "kernels": [[name, share] for name, share in ranked if share >= 0.01],
    }


KERNELS = {
    # A CPU's profile does not tell them apart
    "products, dense and sparse": ("aten::mm", "aten::addmm"),
    "dense products": ("gemm", "nvjet", "cutlass", "splitK"),
    "sparse products": ("_rows", "_placed"),
    "activation and batch norm": (
        "_statistics",
        "_merge",
        "_apply",
        "_column_sums",
        "_backward",
        "batch_norm",
        "relu",
    ),
    "sorting (the random order of the mask)": ("sort", "Sort"),
    "Adam": ("multi_tensor_apply", "_fused_adam"),
    "random numbers": ("distribution", "aten::normal_", "aten::uniform_"),
    "sums over rows or columns": ("reduce_kernel", "aten::sum", "addmv", "gemv"),
    "copies and zeros": (
        "memcpy",
        "Memcpy",
        "copy",
        "Memset",
        "Fill",
        "aten::zero_",
        "aten::fill_",
        "aten::cat",
        "CatArray",
    ),
    "elementwise": ("elementwise", "aten::add", "aten::mul", "aten::sub", "index"),
}


def _kind_of_kernel(name: str) -> str:
    return next(
        (kind for kind, words in KERNELS.items() if any(word in name for word in words)), "the rest"
    )


def floor(
    device: torch.device, *, rows: int, width: int, operations: float, moved_bytes: float
) -> dict[str, Any]:
    """The least time for what was counted, over what this machine does, measured here: operations
    and bytes, one after the other.

    Args:
        device: where.
        rows: rows of the matrices a step works on, as the machine's caches see them.
        width: their columns.
        operations: of dense products.
        moved_bytes: read or written, each array once for each pass over it that cannot be avoided.
    """
    torch.set_float32_matmul_precision("high")
    rows = max(rows, 1024)
    table, weight = (
        torch.randn(rows, width, device=device),
        torch.randn(width, width, device=device),
    )
    out = torch.empty_like(table)
    product = _best(lambda: torch.mm(table, weight, out=out), device)
    copy = _best(lambda: out.copy_(table), device)
    rate, bandwidth = 2 * rows * width * width / product, 2 * 4 * rows * width / copy
    seconds = operations / rate + moved_bytes / bandwidth
    counted = {"operations": operations, "moved_bytes": moved_bytes}
    return {
        "seconds": seconds,
        **counted,
        "operations_per_second": rate,
        "bytes_per_second": bandwidth,
    }


def _best(run: Callable[[], object], device: torch.device) -> float:
    times = []
    for _ in range(20):
        start = time.perf_counter()
        for _ in range(5):
            run()
        if device.type == "cuda":
            torch.cuda.synchronize()
        times.append((time.perf_counter() - start) / 5)
    return min(times[2:])
