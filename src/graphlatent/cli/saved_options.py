"""Arguments of the commands that read what a run left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from graphlatent.cli.options import InputOptions
from graphlatent.cli.output import Output
from graphlatent.errors import ConfigError, InputError

if TYPE_CHECKING:
    from graphlatent.data.graph import GraphData
    from graphlatent.embedding import Embeddings
    from graphlatent.estimator import Estimator

EmbeddingsPath: TypeAlias = Annotated[
    Path,
    typer.Argument(
        metavar="RUN", help="A run folder, or a .parquet, .npz, .csv or .npy of embeddings."
    ),
]
OtherGraph: TypeAlias = Annotated[
    str | None,
    typer.Argument(
        metavar="[INPUT]", help="The embedded graph, where it is not that of the run any more."
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


def graph_for_model(
    output: Output,
    run_path: Path,
    estimator: Estimator,
    source: str,
    reading: InputOptions,
    *,
    labels: bool = False,
) -> GraphData:
    """A graph for a trained model: the trained one, or a new one of its kind.

    Args:
        output: for notes.
        run_path: the run folder of the model.
        estimator: the model.
        source: the input, as it was typed.
        reading: how it is read; what was not given is as in the run.
        labels: whether labels are read too.
    """
    from graphlatent.data.readers.later import remembered_options, with_codes
    from graphlatent.data.readers.options import options_of_run
    from graphlatent.io.runfolder import RunFolder

    before = remembered_options(options_of_run(RunFolder(run_path)), source)
    if reading.nodes is None:
        before = replace(before, features=None, text=(), hash=())
    if before.until is not None and reading.until is None:
        output.note(
            f"The run was trained on edges until {before.until}; here all edges are read. To"
            " leave later ones out, give --until."
        )
        before = before.without_until()
    options = reading.table_options(before)
    if not labels:
        options = options.without_labels()
    if reading.nodes is not None:
        options = with_codes(options, estimator.features_.columns)
    return reading.read(source, options, symmetrize=estimator.symmetrize)


def graph_of(path: Path, source: str | None, reading: InputOptions) -> GraphData:
    """The graph whose nodes were embedded: `source`, or else the one that a run was trained on.

    Args:
        path: the run folder, or a file of embeddings.
        source: another input, as it was typed; None for that of the run.
        reading: how it is read; what was not given is as in the run.
    """
    from graphlatent.data.readers.later import remembered_options
    from graphlatent.data.readers.options import options_of_run
    from graphlatent.io.runfolder import RunFolder
    from graphlatent.saved import read_input

    run = RunFolder(path)
    if source is None:
        if reading != InputOptions():
            raise ConfigError(
                "The graph of the run is read as it was in training. To read another graph, name it"
                " after RUN."
            )
        return read_input(run)
    symmetrize = run.read_config().settings.get("symmetrize", True) if run.started else True
    before = remembered_options(options_of_run(run), source)
    if reading.nodes is None:
        before = replace(before, features=None)
    options = reading.table_options(before).without_labels()
    return reading.read(source, options, symmetrize=bool(symmetrize))
