"""`graphlatent embed`: embeddings of a graph by a trained run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from graphlatent.cli.options import GraphInput, InputOptions
from graphlatent.cli.output import (
    TIMEOUT,
    Debug,
    Json,
    Overwrite,
    Quiet,
    Timeout,
    command_output,
)
from graphlatent.cli.saved_options import graph_for_model
from graphlatent.display import counted


def embed(
    run_path: Annotated[Path, typer.Argument(metavar="RUN", help="A finished run folder.")],
    source: GraphInput,
    out: Annotated[Path, typer.Option("--out", help="File to write: .parquet, .npz or .csv.")],
    reading: InputOptions,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    as_json: Json = False,
    debug: Debug = False,
    timeout: Timeout = TIMEOUT,
) -> None:
    """Embed a graph with a trained run: the same graph, or a new one of its kind.

    Column names default to those used in training. The processes that torchrun starts share the
    graphs of a run that embeds whole graphs.
    """
    with command_output(quiet=quiet, as_json=as_json, debug=debug, timeout=timeout) as output:
        from graphlatent.embedding import check_embedding_path
        from graphlatent.methods.registry import load_estimator
        from graphlatent.ops.collective import rank

        if rank() == 0:
            check_embedding_path(out, overwrite=overwrite)
        estimator = load_estimator(run_path)
        graph = graph_for_model(output, run_path, estimator, source, reading)
        embeddings = estimator.embed(graph)
        if rank() > 0:
            return
        embeddings.save(out, overwrite=overwrite)
        num_rows, width = embeddings.values.shape
        output.say(f"{counted(num_rows, 'embedding')} of width {width} in {out}")
        output.result({"rows": num_rows, "embedding_dim": width, "embeddings": str(out)})
