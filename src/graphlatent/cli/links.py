"""`graphlatent links`: how well embeddings know edges that training did not see."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from graphlatent._version import __version__
from graphlatent.cli.models import (
    estimator_for,
    for_input,
    make_estimator,
    options_in_file,
    settings_in_file,
)
from graphlatent.cli.options import InputOptions, SettingsOptions
from graphlatent.cli.output import Debug, Json, Overwrite, Quiet, command_output
from graphlatent.cli.predicted_links import refuse_training_options, show_links
from graphlatent.cli.saved_options import OtherGraph
from graphlatent.cli.scores import print_scores
from graphlatent.display import counted
from graphlatent.errors import ConfigError
from graphlatent.io.atomic import refuse_unwritable, write_json
from graphlatent.io.config_file import DEFAULT_METHOD

if TYPE_CHECKING:
    from graphlatent.estimator import Estimator


def links(
    source: Annotated[
        str,
        typer.Argument(
            metavar="INPUT|RUN", help="Anything 'train' takes; with --predict a run folder."
        ),
    ],
    reading: InputOptions,
    settings: SettingsOptions,
    other: OtherGraph = None,
    predict: Annotated[
        int | None,
        typer.Option(
            "--predict", help="List this many likely links of a trained run instead.", min=1
        ),
    ] = None,
    method: Annotated[
        str | None, typer.Option("--method", help=f"Name of the method ({DEFAULT_METHOD}).")
    ] = None,
    val: Annotated[
        float,
        typer.Option("--val", help="Share of the edges on which the scoring of pairs is chosen."),
    ] = 0.05,
    test: Annotated[float, typer.Option("--test", help="Share of the edges to measure on.")] = 0.1,
    seeds: Annotated[
        int,
        typer.Option(
            "--seeds",
            help="Number of repetitions, each with other held-out edges and a new model.",
            min=1,
            max=10_000,
        ),
    ] = 3,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", help="JSON file for the whole result; with --predict a .csv or .parquet."
        ),
    ] = None,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Measure how well links can be predicted, or predict the missing links of a run.

    To measure, train without held-out edges, then tell these from pairs without an edge.
    """
    with command_output(quiet=quiet, as_json=as_json, debug=debug) as output:
        if predict is not None:
            refuse_training_options(settings, method)
            show_links(
                output, Path(source), other, reading, count=predict, out=out, overwrite=overwrite
            )
            return
        if other is not None:
            raise ConfigError("A second input goes with --predict only. Give one graph.")
        from graphlatent.config import to_mapping
        from graphlatent.data.describe import describe_graph
        from graphlatent.probes.evaluation.links import LinkPlan, evaluate_links
        from graphlatent.probes.evaluation.score_tables import score_tables

        if out is not None:
            refuse_unwritable(out, overwrite=overwrite)
        estimator = _estimator(settings, method)
        estimator.set_params(progress=not quiet and not as_json)
        # Wrong settings fail here, before a large file is read.
        resolved = estimator._resolved()
        first = estimator.random_state
        plan = LinkPlan(val_ratio=val, test_ratio=test, seeds=range(first, first + seeds))
        before = for_input(options_in_file(settings), source, reading.nodes)
        options = reading.table_options(before)
        graph = reading.read(source, options, symmetrize=estimator.symmetrize)
        splits = plan.splits(graph)
        num_test, num_val = (len(p.nodes) // 2 for p in (splits[first].test, splits[first].val))
        output.note(
            f"{graph.num_nodes:,} nodes, {num_test:,} edges held out to measure on and {num_val:,}"
            " to choose on, each set beside as many pairs without an edge;"
            f" {counted(seeds, 'time')}"
        )
        comparison = evaluate_links(estimator, splits)
        result = {
            "version": __version__,
            "input": {"source": source, **describe_graph(graph)},
            "method": type(estimator).method.name,
            "settings": to_mapping(resolved),
            "seeds": list(plan.seeds),
            "val": val,
            "test": test,
            "test_edges": num_test,
            "selection": comparison.selection,
            **comparison.to_dict(),
        }
        title = f"Held-out edges against other pairs, {num_test:,} of each"
        print_scores(output, title, score_tables(comparison))
        output.say(
            "AUC: the chance that an edge scores higher than another pair. AP: average precision."
            " Both are 50 by guessing."
        )
        output.say(f"How it was selected: {comparison.selection}")
        output.result(result)
        if out is not None:
            write_json(out, result)
            output.say(f"All scores and choices: {out}")


def _estimator(settings: SettingsOptions, method: str | None) -> Estimator:
    config = settings_in_file(settings)
    if config.level not in (None, "node"):
        raise ConfigError(
            f"{settings.config} has settings of {config.level} level. Links join nodes: give"
            " settings of node level."
        )
    return make_estimator(estimator_for("node", method or config.method), config.settings, settings)
