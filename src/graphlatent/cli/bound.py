"""`graphlatent bound`: the paper's theorems, checked where latent features are known."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graphlatent.cli.models import estimator_for, make_estimator, settings_in_file
from graphlatent.cli.options import SettingsOptions
from graphlatent.cli.output import Debug, Json, Output, Overwrite, Quiet, command_output
from graphlatent.cli.result_tables import check_table_path, records, write_table
from graphlatent.cli.saved_options import TableOut
from graphlatent.display import counted
from graphlatent.io.atomic import refuse_unwritable

if TYPE_CHECKING:
    from graphlatent.theory.runs import BoundRun

# Small enough that a training takes a second.
_DEFAULTS = {
    "preset": "paper",
    "objective": "mse-output",
    "hidden_dim": 64,
    "epochs": 100,
    "lr": 1e-3,
}
_TITLES = {"theorem1": "Theorem 1", "corollary1": "Corollary 1", "corollary2": "Corollary 2"}


def bound(
    options: SettingsOptions,
    level: Annotated[
        str, typer.Option("--level", help="'node' or 'graph': one graph, or 40 small ones.")
    ] = "node",
    seeds: Annotated[
        int, typer.Option("--seeds", help="Number of graphs and trainings.", min=1)
    ] = 5,
    points: Annotated[
        int, typer.Option("--points", help="Epochs at which the bounds are checked.", min=1)
    ] = 6,
    num_nodes: Annotated[
        int, typer.Option("--num-nodes", help="Nodes of the graph, at node level.")
    ] = 300,
    feature_dim: Annotated[int, typer.Option("--feature-dim", help="Features of a node.")] = 16,
    sigma: Annotated[
        float, typer.Option("--sigma", help="Noise of a feature; latent features have size 1.")
    ] = 1.0,
    homophily: Annotated[
        float, typer.Option("--homophily", help="Share of edges in communities, at node level.")
    ] = 0.7,
    masks: Annotated[
        int, typer.Option("--masks", help="Random masks for each estimate.", min=2)
    ] = 16,
    draws: Annotated[
        int, typer.Option("--draws", help="Draws of the noise for each mask.", min=1)
    ] = 8,
    compared: Annotated[
        str,
        typer.Option(
            "--compared",
            help="Rows of the invariance: 'masked'; with 'unmasked' or 'all' the theorem fails.",
        ),
    ] = "masked",
    leak: Annotated[
        float,
        typer.Option(
            "--leak", help="Share of its features that a mask shows; above 0 the theorem fails."
        ),
    ] = 0.0,
    plot: Annotated[
        Path | None, typer.Option("--plot", help="Chart to write: .png, .svg or .pdf.")
    ] = None,
    out: TableOut = None,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Check the paper's bounds through training, as printed and corrected.

    Graphs are synthetic, so that both sides are known. Unless they are set, settings are those of
    preset=paper with objective=mse-output, 64 wide, 100 epochs. docs/theory.md has the proof.
    """
    with command_output(quiet=quiet, as_json=as_json, debug=debug) as output:
        check_table_path(out, overwrite=overwrite)
        from graphlatent.theory.estimation import Sampling
        from graphlatent.theory.runs import LatentGraphOptions, bound_runs, bound_table

        if plot is not None:
            from graphlatent.report.plots import chart_suffix

            chart_suffix(plot)
            refuse_unwritable(plot, overwrite=overwrite)
        values = {**_DEFAULTS, **settings_in_file(options).settings}
        estimator = make_estimator(estimator_for(level), values, options)
        made = LatentGraphOptions(num_nodes, feature_dim, sigma, homophily)
        sampling = Sampling(masks, draws, compared, leak)  # type: ignore[arg-type]
        runs = []
        with output.working("training") as show:
            for run in bound_runs(
                estimator,
                made,
                seeds=seeds,
                points=points,
                sampling=sampling,
            ):
                runs.append(run)
                show(f"{len(runs)} of {seeds}")
        # Pooled rows are about graphs.
        bounds = list(_TITLES)[: 3 if level == "graph" else 2]
        table = bound_table(runs, bounds=bounds)
        _print(output, table, runs, bounds)
        if plot is not None:
            from graphlatent.report.bounds import plot_bounds

            plot_bounds(runs, plot, bounds=bounds)
            output.say(f"Chart: {plot}")
        if out is not None:
            write_table(table, out)
            output.say(f"Each seed and epoch: {out}")
        held = {name: _held(runs, name) for name in bounds}
        output.result({"seeds": len(runs), "holds": held, "points": records(table)})


def _print(output: Output, table: Any, runs: Sequence[BoundRun], bounds: Sequence[str]) -> None:
    means = table.groupby("epoch", as_index=False).mean()
    # In two lines, so that seven columns fit into 80 characters.
    columns = {"error\nof F": "error_of_f", "left\nside": "left"}
    columns["Theorem 1\nprinted"] = "theorem1_printed"
    columns |= {f"{_TITLES[name]}\ncorrected": f"{name}_corrected" for name in bounds}
    values = means[list(columns.values())].to_numpy().tolist()
    epochs = means["epoch"].astype(int)
    rows = [
        [str(epoch), *(f"{value:.2f}" if value < 1000 else f"{value:,.0f}" for value in row)]
        for epoch, row in zip(epochs, values, strict=True)
    ]
    seeds = counted(len(runs), "seed")
    title = f"Both sides per node, means over {seeds}"
    output.table(title, ["epoch", *columns], rows)
    from graphlatent.theory.runs import FORMS, smallest_gap

    for name in bounds:
        for form in FORMS:
            gap = smallest_gap(runs, name, form=form).estimate.gap(name, form=form)
            holding = sum(run.holds(name, form=form) for run in runs)
            output.say(
                f"{_TITLES[name]}, {form}: holds at every logged epoch in {holding} of {seeds};"
                f" smallest gap {gap.value:.3f} (standard error {gap.standard_error:.3f})."
            )
    if "corollary2" in bounds:
        output.say(
            f"Corollary 2 assumes a constant k of the readout; its right side has the largest"
            f" |H_J - H'_J| / |z - z'| that was met, up to {table['readout_constant'].max():.3g}."
            f" In the mean {table['readout_ratio'].max():.3g} would do."
        )


def _held(runs: Sequence[BoundRun], name: str) -> dict[str, int]:
    from graphlatent.theory.runs import FORMS

    return {form: sum(run.holds(name, form=form) for run in runs) for form in FORMS}
