"""Run the fuzzers: `python -m fuzz.run --cases 10000 --seed 1`, or `make fuzz`.

A case is drawn from its number alone, the seed of the first case plus its place. Exit code 1 where
any case failed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

# Before torch is imported; more threads gain nothing here, and a forked child must not need them.
os.environ["OMP_NUM_THREADS"] = "1"
# No data set is looked for, and none downloaded.
os.environ["GRAPHLATENT_DATA"] = os.devnull

from fuzz.fuzzers import FUZZERS
from fuzz.harness import FAILURES, KINDS, Fuzzer, import_everything, prepare, run_cases

SHOWN = 20
# Cases of each kind, however small its share is.
LEAST = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the arguments ask for, print counts, and return the exit code."""
    asked = _parser().parse_args(arguments)
    seed = int(time.time()) % 1_000_000 * 1000 if asked.seed is None else asked.seed
    chosen = [f for f in FUZZERS if asked.fuzzer in (None, "", f.name)]
    if not chosen:
        sys.exit(f"There is no fuzzer '{asked.fuzzer}': {', '.join(f.name for f in FUZZERS)}.")
    import_everything()
    total, began = sum(f.share for f in chosen), time.monotonic()
    report, failures = {}, []
    _say(f"seed {seed}, {asked.cases} cases")
    with tempfile.TemporaryDirectory(prefix="graphlatent-fuzz-") as scratch:
        for fuzzer in chosen:
            number = max(min(LEAST, asked.cases), round(asked.cases * fuzzer.share / total))
            prepared = prepare(fuzzer, Path(scratch) / fuzzer.name)
            counts, found = _run(fuzzer, range(seed, seed + number), prepared)
            report[fuzzer.name] = counts
            failures += found
    _say(_table(report))
    alike: dict[str, list[dict[str, object]]] = {}
    for failure in failures:
        alike.setdefault(_likeness(failure), []).append(failure)
    for group in list(alike.values())[: asked.show]:
        _say(_shown(group))
    if len(alike) > asked.show:
        _say(f"... and {len(alike) - asked.show} other kinds")
    _say(f"{len(failures)} failures, {time.monotonic() - began:.0f} s, seed {seed}")
    if asked.json is not None:
        asked.json.write_text(json.dumps({"counts": report, "failures": failures}, indent=1))
    return 1 if failures else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m fuzz.run", description="Run the fuzzers.")
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, help="number of the first case; default: by the clock")
    parser.add_argument("--fuzzer", help="only the fuzzer of this name")
    parser.add_argument("--show", type=int, default=SHOWN, help="kinds of failures to print")
    parser.add_argument("--json", type=Path, help="write counts and failures to this file")
    return parser


def _run(
    fuzzer: Fuzzer, seeds: range, prepared: Path
) -> tuple[dict[str, float], list[dict[str, object]]]:
    counts: Counter[str] = Counter()
    failures: list[dict[str, object]] = []
    began = last = time.monotonic()
    for seed, outcome in run_cases(fuzzer, seeds, prepared=prepared):
        counts[outcome.kind] += 1
        if outcome.kind in FAILURES and outcome.kind not in fuzzer.allowed:
            failures.append(
                {
                    "fuzzer": fuzzer.name,
                    "seed": seed,
                    "kind": outcome.kind,
                    "detail": outcome.detail,
                }
            )
        if time.monotonic() - last > 15:
            last = time.monotonic()
            _say(f"  {fuzzer.name}: {counts.total()} of {len(seeds)}, {len(failures)} failures")
    seconds = round(time.monotonic() - began, 1)
    return {"cases": len(seeds), **{k: counts[k] for k in KINDS}, "seconds": seconds}, failures


def _table(report: dict[str, dict[str, float]]) -> str:
    names = ["cases", *KINDS, "seconds"]
    widths = [max(8, len(name)) for name in names]
    lines = [" " * 14 + "  ".join(n.rjust(w) for n, w in zip(names, widths, strict=True))]
    for fuzzer, counts in report.items():
        cells = (f"{counts[n]:g}".rjust(w) for n, w in zip(names, widths, strict=True))
        lines.append(fuzzer.ljust(14) + "  ".join(cells))
    return "\n".join(lines)


def _likeness(failure: dict[str, object]) -> str:
    """Equal for failures that look alike: the last place in the product, and the last line."""
    detail = str(failure["detail"]).strip()
    places = re.findall(r'src/graphlatent/(\S+)", line (\d+)', detail)
    last = detail.splitlines()[-1] if detail else ""
    last = re.sub(r"[\d.]+", "0", last)[:40]
    return f"{failure['fuzzer']} {failure['kind']} {places[-1:] or last}"


def _shown(group: list[dict[str, object]]) -> str:
    first = group[0]
    again = f"make fuzz FUZZER={first['fuzzer']} SEED={first['seed']} CASES=1"
    others = f", {len(group)} like it" if len(group) > 1 else ""
    return f"\n{first['kind']} ({again}{others})\n{str(first['detail'])[-1500:].strip()}"


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
