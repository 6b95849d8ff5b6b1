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
    Output,
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
    graphs of a run that embeds whole graphs. A store is embedded in blocks of its nodes, into a
    .parquet or .npy file; a killed command goes on where it was.
    """
    with command_output(quiet=quiet, as_json=as_json, debug=debug, timeout=timeout) as output:
        from graphlatent.data.readers.stores import is_store_path, refuse_shards, store_read_with
        from graphlatent.embedding import check_embedding_path
        from graphlatent.embedding_files import SUFFIXES
        from graphlatent.io.scratch import in_words
        from graphlatent.methods.registry import load_estimator
        from graphlatent.ops.collective import rank

        refuse_shards(source)
        in_blocks = is_store_path(source) and out.suffix.lower() in SUFFIXES
        if rank() == 0 and not in_blocks:
            check_embedding_path(out, overwrite=overwrite)
        estimator = load_estimator(run_path)
        if in_blocks and rank() == 0:
            store = store_read_with(source, reading.nodes, options=reading.table_options(None))
            with output.working("embedding") as shown:
                estimator.embed_to(store, out, overwrite=overwrite, progress=in_words(shown))
            about = {"rows": store.num_nodes, "embedding_dim": estimator.embedding_dim_}
            _report(output, **about, out=out)
        if in_blocks:
            return
        graph = graph_for_model(output, run_path, estimator, source, reading)
        embeddings = estimator.embed(graph)
        if rank() > 0:
            return
        embeddings.save(out, overwrite=overwrite)
        num_rows, width = embeddings.values.shape
        _report(output, rows=num_rows, embedding_dim=width, out=out)


def _report(output: Output, *, rows: int, embedding_dim: int, out: Path) -> None:
    output.say(f"{counted(rows, 'embedding')} of width {embedding_dim} in {out}")
    output.result({"rows": rows, "embedding_dim": embedding_dim, "embeddings": str(out)})
