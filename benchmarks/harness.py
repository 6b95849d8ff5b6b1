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
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from graphlatent.memory import reused


def parser(doc: str | None) -> argparse.ArgumentParser:
    """The options every speed benchmark has."""
    made = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--device", default="cpu")
    made.add_argument("--data", default=None, help="data root: use the real sets")
    made.add_argument("--seconds", type=float, default=10.0, help="at least so long for each way")
    made.add_argument("--rounds", type=int, default=2, help="measure all ways so many times in turn, and keep the best of each")
    made.add_argument("--json", type=Path, default=None, help="write the record here")
    made.add_argument("--profile", action="store_true", help="also say which kernels the fast way spends its time in")
    made.add_argument("--way", default=None, help=argparse.SUPPRESS)
    return made


def measure(build: Callable[[], Callable[[], object]], device: torch.device, *, seconds: float) -> dict[str, Any]:
    """Median seconds of what `build` returns, called many times, and the peak memory it needed on top of what was there before."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
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


def compare(script: str, shapes: str, names: dict[str, list[str]], ways: list[str], args: argparse.Namespace) -> None:
    """Measure every way of every name, print a table, and write the record where `--json` says."""
    measured = f"--seconds {args.seconds:g} --rounds {args.rounds}" + (" --data ROOT" if args.data else "")
    record: dict[str, Any] = {
        "command": f"python benchmarks/{Path(script).name} {shapes} --device {args.device} {measured}",
        "hardware": hardware(args.device),
        "torch": torch.__version__,
        "date": datetime.date.today().isoformat(),
        "shapes": {},
    }
    print(
        f"{'':10} {'general s':>10} {'fast s':>9} {'ratio':>6} {'floor s':>9} {'x floor':>8} {'memory, GiB':>15}   ({record['hardware']})"
    )
    for name, more in names.items():
        rounds = [{way: in_own_process(script, way, args, *more) for way in ways} for _ in range(args.rounds)]
        result: dict[str, Any] = {way: min((r[way] for r in rounds), key=lambda found: found.get("seconds", 0)) for way in ways}
        general, fast, least = result["general"], result["fast"], result["floor"]["seconds"]
        result["ratio"], result["times_floor"] = general["seconds"] / fast["seconds"], fast["seconds"] / least
        record["shapes"][name] = result
        memory = " / ".join(f"{way['peak_bytes'] / 2**30:.2f}" for way in (general, fast))
        times = f"{general['seconds']:10.4f} {fast['seconds']:9.4f} {result['ratio']:6.2f} {least:9.4f} {result['times_floor']:8.2f}"
        low = f"   bf16 {result['bf16']['seconds']:.4f} s, {result['bf16']['peak_bytes'] / 2**30:.2f} GiB" if "bf16" in result else ""
        print(f"{name:10} {times} {memory:>15}{low}", flush=True)
        for kernel, share in result.get("profile", {}).get("kernels", []):
            print(f"{'':12}{share:6.1%}  {kernel}")
    if args.json:
        args.json.write_text(json.dumps(record, indent=2) + "\n")


def profile(run: Callable[[], object], *, calls: int = 10) -> dict[str, Any]:
    """Where the time of `run` goes: microseconds a call, and the shares of the kernels (on a CPU, of torch's operations)."""
    from torch.profiler import ProfilerActivity, profile

    on_gpu = torch.cuda.is_available()
    for _ in range(5):
        run()
    with warnings.catch_warnings(), profile(activities=[ProfilerActivity.CUDA if on_gpu else ProfilerActivity.CPU]) as found:
        warnings.simplefilter("ignore")
        for _ in range(calls):
            run()
        if on_gpu:
            torch.cuda.synchronize()
    spent = {e.key: e.self_device_time_total if on_gpu else e.self_cpu_time_total for e in found.key_averages()}
    total = sum(spent.values())
    shares: dict[str, float] = {}
    for name, time_spent in spent.items():
        kind = _kind_of_kernel(name)
        shares[kind] = shares.get(kind, 0.0) + time_spent / total
    ranked = sorted(shares.items(), key=lambda pair: -pair[1])
    return {"microseconds": total / calls, "kernels": [[name, share] for name, share in ranked if share >= 0.01]}


KERNELS = {
    "dense products": ("gemm", "nvjet", "cutlass", "splitK", "aten::mm", "aten::addmm"),
    "sparse products": ("_rows", "_placed"),
    "activation and batch norm": ("_statistics", "_merge", "_apply", "_column_sums", "_backward", "batch_norm", "relu"),
    "sorting (the random order of the mask)": ("sort", "Sort"),
    "Adam": ("multi_tensor_apply", "_fused_adam"),
    "random numbers": ("distribution", "aten::normal_", "aten::uniform_"),
    "sums over rows or columns": ("reduce_kernel", "aten::sum", "addmv", "gemv"),
    "copies and zeros": ("memcpy", "Memcpy", "copy", "Memset", "Fill", "aten::zero_", "aten::fill_", "aten::cat", "CatArray"),
    "elementwise": ("elementwise", "aten::add", "aten::mul", "aten::sub", "index"),
}


def _kind_of_kernel(name: str) -> str:
    return next((kind for kind, words in KERNELS.items() if any(word in name for word in words)), "the rest")


def rates(device: torch.device, *, rows: int, width: int) -> dict[str, float]:
    """What this machine does: operations a second in a product of two matrices, bytes a second in a copy and in fetching random rows.

    Args:
        device: where.
        rows: rows of the matrices a step works on, as its cache sees them.
        width: their columns.
    """
    torch.set_float32_matmul_precision("high")
    rows = max(rows, 1024)
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


def over_rates(counted: dict[str, float], measured: dict[str, float]) -> dict[str, Any]:
    """The floor: what was counted over what was measured, one after the other."""
    seconds = (
        counted["operations"] / measured["operations_per_second"]
        + counted["streamed_bytes"] / measured["bytes_per_second"]
        + counted["fetched_bytes"] / measured["fetched_bytes_per_second"]
    )
    return {"seconds": seconds, **counted, **measured}


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
