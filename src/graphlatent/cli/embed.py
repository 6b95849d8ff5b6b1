"""`graphlatent embed`: embeddings of a graph by a trained run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from graphlatent.cli.options import GraphInput, InputOptions
from graphlatent.cli.output import Debug, Json, Overwrite, Quiet, command_output
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
) -> None:
    """Embed a graph with a trained run: the same graph, or a new one of its kind.

    Column names default to those used in training.
    """
    with command_output(quiet=quiet, as_json=as_json, debug=debug) as output:
        from graphlatent.data.readers.later import with_codes
        from graphlatent.data.readers.options import options_of_run
        from graphlatent.embedding import check_embedding_path
        from graphlatent.io.runfolder import RunFolder
        from graphlatent.methods.registry import load_estimator

        check_embedding_path(out, overwrite=overwrite)
        estimator = load_estimator(run_path)
        before = options_of_run(RunFolder(run_path))
        if reading.nodes is None:
            before = replace(before, features=None, text=(), hash=())
        if before.until is not None and reading.until is None:
            output.note(
                f"The run was trained on edges until {before.until}; here all edges are read. To"
                " leave later ones out, give --until."
            )
            before = before.without_until()
        options = reading.table_options(before).without_labels()
        if reading.nodes is not None:
            options = with_codes(options, estimator.features_.columns)
        graph = reading.read(source, options, symmetrize=estimator.symmetrize)
        embeddings = estimator.embed(graph)
        embeddings.save(out, overwrite=overwrite)
        num_rows, width = embeddings.values.shape
        output.say(f"{counted(num_rows, 'embedding')} of width {width} in {out}")
        output.result({"rows": num_rows, "embedding_dim": width, "embeddings": str(out)})
