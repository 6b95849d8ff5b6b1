"""`graphlatent neighbors`: the rows most similar to some."""

from __future__ import annotations

from typing import Annotated

import typer

from graphlatent.cli.output import Debug, Json, Overwrite, Quiet, command_output
from graphlatent.cli.result_tables import check_table_path, records, show_table
from graphlatent.cli.saved_options import EmbeddingsPath, TableOut, ids_of_text


def neighbors(
    path: EmbeddingsPath,
    ids: Annotated[
        list[str],
        typer.Option("--id", metavar="ID", help="A node or graph by its id; repeat for more."),
    ],
    k: Annotated[int, typer.Option("--k", help="Number of neighbours of each.", min=1)] = 10,
    graph: Annotated[
        str | None,
        typer.Option("--graph", help="Graph of the nodes, where there are several graphs."),
    ] = None,
    out: TableOut = None,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """List the nodes or graphs whose embeddings are most similar, by the cosine of their angle."""
    with command_output(quiet=quiet, as_json=as_json, debug=debug) as output:
        check_table_path(out, overwrite=overwrite)
        from graphlatent.saved import read_embeddings

        embeddings = read_embeddings(path)
        found = embeddings.most_similar(ids_of_text(embeddings, ids, graph), k)
        title = f"Most similar of {len(embeddings.values):,}, by cosine"
        show_table(output, title, found, out=out)
        output.result({"embeddings": str(path), "neighbours": records(found)})
