"""`graphlatent embed`: embeddings of a graph by a trained run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from graphlatent.cli.output import Debug, Json, Overwrite, Quiet, speaking
from graphlatent.cli.reading import (
    FeatureNames,
    GraphColumn,
    Id,
    Input,
    Label,
    Nodes,
    Source,
    Target,
    Weight,
    read_input,
    table_options,
)
from graphlatent.cli.train import ESTIMATORS
from graphlatent.data.readers.options import TableOptions
from graphlatent.embedding import check_embedding_path
from graphlatent.io.runfolder import RunFolder


def embed(
    run_path: Annotated[Path, typer.Argument(metavar="RUN", help="A finished run folder.")],
    source: Input,
    out: Annotated[Path, typer.Option("--out", help="File to write: .parquet, .npz or .csv.")],
    nodes: Nodes = None,
    overwrite: Overwrite = False,
    source_column: Source = None,
    target_column: Target = None,
    weight_column: Weight = None,
    id_column: Id = None,
    graph_column: GraphColumn = None,
    label: Label = None,
    features: FeatureNames = None,
    quiet: Quiet = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Embed a graph, the trained one or a new one of the same kind. Column names default to those
    of the training.
    """
    with speaking(quiet=quiet, as_json=as_json, debug=debug) as output:
        check_embedding_path(out, overwrite=overwrite)
        run = RunFolder(run_path)
        given = (
            source_column,
            target_column,
            weight_column,
            id_column,
            graph_column,
            label,
            features,
        )
        estimator = ESTIMATORS[str(run.read_config().level)].load(run_path)
        options = _unlabelled(
            table_options(*given, before=_options(run, with_nodes=nodes is not None))
        )
        graph = read_input(source, nodes, options, symmetrize=estimator.symmetrize)
        embeddings = estimator.embed(graph)
        embeddings.save(out, overwrite=overwrite)
        output.say(
            f"{embeddings.values.shape[0]:,} embeddings of width {embeddings.values.shape[1]} in"
            f" {out}"
        )
        output.result(
            {
                "rows": embeddings.values.shape[0],
                "embedding_dim": embeddings.values.shape[1],
                "embeddings": str(out),
            }
        )


def _unlabelled(options: TableOptions) -> TableOptions:
    """The options with label columns left out of the features, whether they are there or not: new
    nodes need no labels.
    """
    return replace(options, label=None, drop=(*options.labels, *options.drop))


def _options(run: RunFolder, *, with_nodes: bool) -> TableOptions:
    """The column names that the training was given, where the run remembers them."""
    if not (run.path / "results.json").is_file():
        return TableOptions()
    reading = run.read_json("results.json").get("reading")
    if not isinstance(reading, dict):
        return TableOptions()
    options = TableOptions.from_dict(reading)
    return options if with_nodes else replace(options, features=None)
