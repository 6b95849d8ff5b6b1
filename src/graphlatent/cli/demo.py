"""`graphlatent demo`: training, scores and pictures on synthetic graphs, at both levels."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from graphlatent.cli.output import Debug, Json, Output, Overwrite, Quiet, command_output
from graphlatent.io.atomic import refuse_existing, refuse_unwritable_folder, write_json

if TYPE_CHECKING:
    from graphlatent.report.demo import DemoResult


def demo(
    out: Annotated[
        Path, typer.Option("--out", help="Folder for runs, embeddings, scores and pictures.")
    ] = Path("demo"),
    seed: Annotated[
        int,
        typer.Option(
            "--seed", help="Seed of the synthetic graphs and of training.", min=0, max=2**31 - 1
        ),
    ] = 0,
    no_map: Annotated[bool, typer.Option("--no-map", help="Draw no maps.")] = False,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Train on synthetic latent graphs, whose latent features are known.

    Needs no downloads and takes about a minute.
    """
    with command_output(quiet=quiet, as_json=as_json, debug=debug) as output:
        refuse_existing(out, overwrite=overwrite)
        refuse_unwritable_folder(out)
        from graphlatent.report.demo import run_demo

        began = time.monotonic()
        progress = not quiet and not as_json
        found = run_demo(out, seed=seed, progress=progress, maps=not no_map, note=output.note)
        result = {**found.to_dict(), "seconds": round(time.monotonic() - began, 1)}
        write_json(out / "results.json", result)
        _report(output, found, out, maps=not no_map)
        output.say(
            f"Done in {result['seconds']:.0f} s. Next: graphlatent train YOUR_EDGES.csv --out"
            " my-run"
        )
        output.result(result)


def _report(output: Output, found: DemoResult, out: Path, *, maps: bool) -> None:
    rows = [
        [
            name,
            *(f"{100 * p.mean:.1f} ± {100 * p.std:.1f}" for p in (result, found.graph[name])),
        ]
        for name, result in found.node.items()
    ]
    output.table(
        "linear probe, test accuracy in % (mean ± standard deviation over splits)",
        ["representation", "nodes", "graphs"],
        rows,
    )
    output.say(f"How it was selected, nodes: {found.node['LaGraph'].selection}")
    output.say(f"How it was selected, graphs: {found.graph['LaGraph'].selection}")
    output.say(
        f"Distance to the latent features F: observed {found.observed_distance:.1f}, predicted by"
        f" LaGraph as in the paper {found.predicted_distance:.1f}"
    )
    node, graph = out / "node", out / "graph"
    output.say(f"Embeddings: {node / 'embeddings.parquet'}, {graph / 'embeddings.parquet'}")
    drawn = "map.png" if maps else "loss.png"
    beside = " and loss.png beside them" if maps else ""
    output.say(f"Pictures: {node / drawn}, {graph / drawn}{beside}")
