"""`graphlatent probe`: what embeddings know about labels that training never saw."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from graphlatent.cli.output import (
    TIMEOUT,
    Debug,
    Json,
    Overwrite,
    Quiet,
    Timeout,
    command_output,
)
from graphlatent.cli.scores import print_scores
from graphlatent.errors import ConfigError
from graphlatent.io.atomic import refuse_unwritable, write_json

# Those of probes/evaluation/plan.py, which imports torch.
KINDS = ("linear", "svm", "rbf", "knn", "clusters", "spectral", "communities")


def probe(
    embeddings: Annotated[
        Path,
        typer.Argument(
            metavar="EMBEDDINGS",
            help="A run folder, or a .parquet, .npz, .csv or .npy of embeddings.",
        ),
    ],
    labels: Annotated[
        Path | None,
        typer.Option(
            "--labels",
            help=(
                "Table (.csv .tsv .parquet) with ids and labels, or .npy / .npz in the same order,"
                " in place of the labels that came with the graph of the run."
            ),
        ),
    ] = None,
    label: Annotated[
        list[str] | None,
        typer.Option(
            "--label",
            metavar="COLUMN",
            help="Column of labels; several times for columns of 0 and 1.",
        ),
    ] = None,
    id_column: Annotated[
        str | None,
        typer.Option(
            "--id",
            metavar="COLUMN",
            help="Column of ids in --labels, --raw and --nodes (as in the embeddings).",
        ),
    ] = None,
    kind: Annotated[str, typer.Option("--kind", help=f"One of {', '.join(KINDS)}.")] = "linear",
    metric: Annotated[
        str | None,
        typer.Option(
            "--metric",
            help=(
                "Metric that is shown and by which settings are chosen: accuracy, balanced, f1,"
                " auc, ap; of numbers r2, mae (as it suits the labels)."
            ),
        ),
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(
            "--task",
            help="'classification' or 'regression' (regression where labels are real-valued).",
        ),
    ] = None,
    positive: Annotated[
        str | None,
        typer.Option(
            "--positive",
            help="The positive one of two classes, for ap (1, true, yes or the rarer).",
        ),
    ] = None,
    splits: Annotated[
        int | None, typer.Option("--splits", help="Random splits (20).", min=1, max=10_000)
    ] = None,
    train: Annotated[
        float | None, typer.Option("--train", help="Share of the rows to train on (0.1).")
    ] = None,
    val: Annotated[
        float | None, typer.Option("--val", help="Share of the rows to choose settings on (0.1).")
    ] = None,
    folds: Annotated[
        int | None,
        typer.Option(
            "--folds", help="Stratified folds instead of random splits (10 for svm, rbf).", min=2
        ),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(
            "--seeds",
            help="Number of seeds of splits (default: 1), clusters or communities (default: 5).",
            min=1,
            max=10_000,
        ),
    ] = None,
    raw: Annotated[
        Path | None,
        typer.Option(
            "--raw", help="Node table whose feature columns are the raw features to compare with."
        ),
    ] = None,
    no_baselines: Annotated[
        bool,
        typer.Option(
            "--no-baselines",
            help="Probe the embeddings alone: no features, untrained encoder and majority class.",
        ),
    ] = False,
    graph: Annotated[
        str | None,
        typer.Option(
            "--graph",
            help="What the embeddings are of, as 'graphlatent train' takes it (that of the run).",
        ),
    ] = None,
    nodes: Annotated[
        Path | None, typer.Option("--nodes", help="Node table that goes with --graph.")
    ] = None,
    source_column: Annotated[
        str | None, typer.Option("--source", help="Edge table: column of the start ('source').")
    ] = None,
    target_column: Annotated[
        str | None, typer.Option("--target", help="Edge table: column of the end ('target').")
    ] = None,
    max_memory: Annotated[
        str | None,
        typer.Option(
            "--max-memory",
            help="Refuse a graph that takes more memory, such as 4GB (half of what is available).",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="JSON file for the whole result.")
    ] = None,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    as_json: Json = False,
    debug: Debug = False,
    timeout: Timeout = TIMEOUT,
) -> None:
    """Measure what embeddings know with a simple model on the frozen embeddings.

    Its settings are chosen without the test labels. The processes that torchrun starts share seeds
    and baselines.
    """
    with command_output(quiet=quiet, as_json=as_json, debug=debug, timeout=timeout) as output:
        from graphlatent.data.readers.options import options_of_run
        from graphlatent.io.runfolder import RunFolder
        from graphlatent.ops.collective import rank
        from graphlatent.probes.evaluation.baselines import GraphChoice
        from graphlatent.probes.evaluation.files import read_task
        from graphlatent.probes.evaluation.plan import evaluation_plan
        from graphlatent.probes.evaluation.report import PreparedProbe
        from graphlatent.saved import labels_of_run

        plan = evaluation_plan(
            kind, splits=splits, train=train, val=val, folds=folds, seeds=seeds, metric=metric
        )
        if out is not None and rank() == 0:
            refuse_unwritable(out, overwrite=overwrite)
        columns = {"source": source_column, "target": target_column}
        choice = GraphChoice(
            graph,
            nodes,
            {name: column for name, column in columns.items() if column is not None},
            id_column,
            max_memory,
        )
        if no_baselines and graph is not None:
            raise ConfigError(
                "Leave out '--graph': with --no-baselines nothing is computed from it."
            )
        source = labels_of_run(embeddings) if labels is None else labels
        names = tuple(label or ())
        if labels is None:
            names = names or options_of_run(RunFolder(embeddings)).labels
        probe_task = read_task(
            embeddings,
            source,
            label=names,
            id_column=id_column,
            raw=raw,
            graph=choice,
            baselines=not no_baselines,
            task=task,
            positive=positive,
        )
        prepared = PreparedProbe.of(probe_task, plan)
        for note in prepared.notes:
            output.note(note)
        with output.working("probing") as progress:
            report = prepared.run(baselines=not no_baselines, progress=progress)
        where = str(source) if isinstance(source, Path) else source.where
        result = {"embeddings": str(embeddings), "labels": where, **report.to_dict()}
        print_scores(output, report.title, report.tables)
        for sentence in report.sentences:
            output.say(sentence)
        output.result(result)
        if out is not None and rank() == 0:
            write_json(out, result)
            output.say(f"All scores and choices: {out}")
