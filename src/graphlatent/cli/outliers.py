"""`graphlatent outliers`: the most unusual rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graphlatent.cli.options import InputOptions
from graphlatent.cli.output import Debug, Json, Output, Overwrite, Quiet, command_output
from graphlatent.cli.result_tables import check_table_path, records, show_table
from graphlatent.cli.saved_options import EmbeddingsPath, OtherGraph, TableOut, graph_of
from graphlatent.errors import ConfigError, GraphLatentError, bad_argument

if TYPE_CHECKING:
    from graphlatent.embedding import Embeddings


def outliers(
    path: EmbeddingsPath,
    reading: InputOptions,
    source: OtherGraph = None,
    top: Annotated[
        int, typer.Option("--top", help="How many are listed; --out has all.", min=1)
    ] = 20,
    neighbours: Annotated[
        int,
        typer.Option(
            "--k", help="Number of nearest rows over which the distance is averaged.", min=1
        ),
    ] = 5,
    by: Annotated[
        str, typer.Option("--by", help="Order by 'distance' or 'error' of reconstruction.")
    ] = "distance",
    out: TableOut = None,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """List nodes or graphs that are far from all others, or badly reconstructed by the decoder."""
    with command_output(quiet=quiet, as_json=as_json, debug=debug) as output:
        if by not in ("distance", "error"):
            raise bad_argument("--by", owner="outliers", allowed="'distance' or 'error'", got=by)
        check_table_path(out, overwrite=overwrite)
        from graphlatent.explore.outliers import EXACT
        from graphlatent.saved import read_embeddings

        embeddings = read_embeddings(path)
        error = _error(output, path, embeddings, source, reading, needed=by == "error")
        if len(embeddings.values) > EXACT:
            output.note(
                f"of more than {EXACT:,} rows the nearest are looked for in the 20 nearest k-means"
                " cells only"
            )
        found = embeddings.outliers(neighbours=neighbours, error=error, by=by)  # type: ignore[arg-type]
        title = f"Most unusual of {len(found):,}, by {by}"
        show_table(output, title, found, out=out, most=top)
        output.say(f"distance: mean cosine distance to the {neighbours} nearest rows.")
        if error is not None:
            output.say(
                "reconstruction error: what the decoder makes of the embedding, against the"
                " features (--by error to order by it)."
            )
        output.result({"embeddings": str(path), "by": by, "outliers": records(found.head(top))})


def _error(
    output: Output,
    path: Path,
    embeddings: Embeddings,
    source: str | None,
    reading: InputOptions,
    *,
    needed: bool,
) -> Any:
    """The reconstruction error of every row; None, with a note that says why, where it is unknown.

    Raises:
        GraphLatentError: where it is needed and unknown.
    """
    try:
        return _of_run(path, embeddings, source, reading)
    except GraphLatentError as reason:
        if needed or source is not None or reading != InputOptions():
            raise
        output.note(f"without reconstruction errors: {reason}")
        return None


def _of_run(path: Path, embeddings: Embeddings, source: str | None, reading: InputOptions) -> Any:
    from graphlatent.explore.link_table import rows_of_nodes
    from graphlatent.io.runfolder import RunFolder
    from graphlatent.methods.registry import load_estimator

    if not RunFolder(path).started:
        raise ConfigError(f"{path} is a file of embeddings, and the decoder is in a run folder.")
    estimator = load_estimator(path)
    if not hasattr(estimator, "reconstruction_error"):
        raise ConfigError(f"the method '{type(estimator).method.name}' has no decoder.")
    if estimator.level == "graph":
        raise ConfigError("the decoder reconstructs nodes, and these are embeddings of graphs.")
    import numpy as np

    graph = graph_of(path, source, reading)
    error = np.full(len(embeddings.values), np.nan)
    error[rows_of_nodes(embeddings, graph)] = estimator.reconstruction_error(graph)
    return error
