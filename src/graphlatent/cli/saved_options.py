"""Arguments of the commands that read what a run left."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from graphlatent.errors import InputError

if TYPE_CHECKING:
    from graphlatent.embedding import Embeddings

EmbeddingsPath: TypeAlias = Annotated[
    Path,
    typer.Argument(
        metavar="RUN", help="A run folder, or a .parquet, .npz, .csv or .npy of embeddings."
    ),
]
TableOut: TypeAlias = Annotated[
    Path | None, typer.Option("--out", help="File to write: .csv or .parquet.")
]


def ids_of_text(embeddings: Embeddings, given: Sequence[str], graph: str | None) -> list[Any]:
    """The ids that were given as text: integers where the ids are integers.

    Args:
        embeddings: with the ids.
        given: as typed.
        graph: of the nodes, as typed, where embeddings are of nodes of several graphs.

    Raises:
        InputError: where a graph is named and there are none, or the other way round.
    """
    if embeddings.graphs is None and graph is not None:
        raise InputError("These are not embeddings of nodes of several graphs. Leave --graph out.")
    if embeddings.graphs is not None and graph is None:
        raise InputError(
            "These are embeddings of nodes of several graphs. Name the graph of --id with --graph."
        )
    ids = [_as_typed(each, embeddings.ids) for each in given]
    if embeddings.graphs is None:
        return ids
    name = _as_typed(str(graph), embeddings.graphs)
    return [(name, each) for each in ids]


def _as_typed(text: str, ids: Any) -> Any:
    if ids.dtype.kind not in "iu":
        return text
    try:
        return int(text)
    except ValueError:
        return text
