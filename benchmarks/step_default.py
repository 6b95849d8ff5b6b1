"""What a step of the default costs: its four terms on the fast path, against the paper's objective
at equal width, and against the same four terms the general way.

    python benchmarks/step_default.py --shapes photo,computers,cs --device cpu --json out.json

The shapes, ways and measures are those of step_node.py; both objectives have the masks, the decoder
and the precision of their presets.
"""

from __future__ import annotations

import datetime
import json
from typing import Any

import harness
import torch
from step_node import SHAPES, fast_step, synthetic

WIDTH = 512
WAYS: dict[str, dict[str, Any]] = {
    "paper": {},
    "plus": {"preset": "plus"},
    "reference": {"preset": "plus", "engine": "general"},
}


def one_way(name: str, way: str, device: torch.device, *, seconds: float) -> dict[str, Any]:
    """Measure one way of one shape in this process."""
    graph = synthetic(name)
    return harness.measure(
        lambda: fast_step(graph, device, WIDTH, "fp32", **WAYS[way]), device, seconds=seconds
    )


def main() -> None:
    """Measure every shape and print a table."""
    options = harness.parser(__doc__)
    options.add_argument("--shapes", default="photo,computers,cs")
    args = options.parse_args()
    if args.way:
        device = torch.device(args.device)
        harness.answer(
            args.way,
            lambda way: one_way(args.shapes, way, device, seconds=args.seconds),
        )
        return
    record: dict[str, Any] = {
        "command": f"python benchmarks/step_default.py --shapes {args.shapes}"
        f" --device {args.device} --seconds {args.seconds:g} --rounds {args.rounds}",
        "hardware": harness.hardware(args.device),
        "torch": torch.__version__,
        "date": datetime.date.today().isoformat(),
        "shapes": {},
    }
    for name in args.shapes.split(","):
        assert name in SHAPES
        rounds = [
            harness.all_ways(__file__, list(WAYS), args, "--shapes", name)
            for _ in range(args.rounds)
        ]
        found = {way: min((r[way] for r in rounds), key=lambda r: r["seconds"]) for way in WAYS}
        record["shapes"][name] = found
        times = " ".join(f"{way} {found[way]['seconds']:.4f} s," for way in WAYS)
        ratio = found["plus"]["seconds"] / found["paper"]["seconds"]
        print(f"{name:10} {times} plus / paper {ratio:.2f}", flush=True)
        if args.json:
            args.json.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
