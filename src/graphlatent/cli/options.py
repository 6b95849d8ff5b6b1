"""Options that several commands share, each declared once.

A command takes a group of options as one argument, a dataclass: `with_option_groups` shows typer
every field of it as an option of the command.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, get_type_hints

import typer

if TYPE_CHECKING:
    from graphlatent.data.graph import GraphData
    from graphlatent.data.readers.options import TableOptions

GraphInput: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="INPUT",
        help=(
            "Edge table (.csv .tsv .txt .parquet, packed as .gz or .zip, - for standard input),"
            " .graphml, .gml, .npz, TU folder, store of 'graphlatent ingest', or a data set's name."
        ),
    ),
]


@dataclass(frozen=True)
class ColumnOptions:
    """How tables are read: the node table, and which columns mean what."""

    nodes: Annotated[
        Path | None,
        typer.Option("--nodes", metavar="FILE", help="Node table with ids and feature columns."),
    ] = None
    source_column: Annotated[
        str | None,
        typer.Option(
            "--source", metavar="COLUMN", help="Edge table: column of the edge's start ('source')."
        ),
    ] = None
    target_column: Annotated[
        str | None,
        typer.Option(
            "--target", metavar="COLUMN", help="Edge table: column of the edge's end ('target')."
        ),
    ] = None
    weight_column: Annotated[
        str | None,
        typer.Option(
            "--weight", metavar="COLUMN", help="Edge table: column of weights ('weight', if there)."
        ),
    ] = None
    merge: Annotated[
        str | None,
        typer.Option(
            "--merge",
            help="Weight of repeated edges: sum, mean, count (how often they occur) or max (max).",
        ),
    ] = None
    id_column: Annotated[
        str | None, typer.Option("--id", metavar="COLUMN", help="Node table: column of ids ('id').")
    ] = None
    label: Annotated[
        list[str] | None,
        typer.Option(
            "--label",
            metavar="COLUMN",
            help="Node table: column of labels, kept out of the features; repeat for more.",
        ),
    ] = None
    drop: Annotated[
        list[str] | None,
        typer.Option(
            "--drop",
            metavar="COLUMN",
            help="Node table: column that is no feature; repeat for more.",
        ),
    ] = None
    text: Annotated[
        list[str] | None,
        typer.Option(
            "--text",
            metavar="COLUMN",
            help="Node table: column of codes, read as text (one-hot); repeat for more.",
        ),
    ] = None
    hash: Annotated[
        list[str] | None,
        typer.Option(
            "--hash",
            metavar="COLUMN",
            help="Node table: text whose words are hashed into features; repeat for more.",
        ),
    ] = None
    delimiter: Annotated[
        str | None,
        typer.Option(
            "--delimiter",
            metavar="CHARACTER",
            help="Text tables: between cells, such as ';', tab or space.",
        ),
    ] = None
    encoding: Annotated[
        str | None,
        typer.Option("--encoding", help="Text tables: such as latin-1 or cp1252 (UTF-8)."),
    ] = None
    no_header: Annotated[
        bool | None,
        typer.Option(
            "--no-header/--header",
            help="Text tables: without a header; columns are called 0, 1, ...",
        ),
    ] = None

    def table_options(self, before: TableOptions | None = None) -> TableOptions:
        """Which columns mean what; what was not given is as in `before`, or else the default."""
        from graphlatent.data.readers.options import TableOptions

        given = {name: value for name, value in self._given().items() if value is not None}
        if given.get("graph") == "":
            given["graph"] = None
        return replace(before or TableOptions(), **given)

    def _given(self) -> dict[str, Any]:
        """The options by name, None where not given."""
        return {
            "source": self.source_column,
            "target": self.target_column,
            "weight": self.weight_column,
            "id": self.id_column,
            "label": self.label or None,
            "drop": self.drop or None,
            "text": self.text or None,
            "hash": self.hash or None,
            "delimiter": self.delimiter,
            "encoding": self.encoding,
            "no_header": self.no_header,
            "merge": self.merge,
        }


@dataclass(frozen=True)
class InputOptions(ColumnOptions):
    """How the input of a command is read."""

    graph_column: Annotated[
        str | None,
        typer.Option(
            "--graph-column",
            metavar="COLUMN",
            help=(
                "Both tables: column that says which graph a row is of ('graph', if there); '' for"
                " one graph."
            ),
        ),
    ] = None
    bipartite: Annotated[
        bool,
        typer.Option(
            "--bipartite",
            help=(
                "Source and target are of two kinds (users, items): equal ids are different nodes,"
                " named COLUMN:ID, such as user:7."
            ),
        ),
    ] = False
    time_column: Annotated[
        str | None,
        typer.Option("--time", metavar="COLUMN", help="Edge table: column of times, for --until."),
    ] = None
    until: Annotated[
        str | None,
        typer.Option(
            "--until",
            metavar="DATE",
            help=(
                "Use the edges up to this date or number, inclusive (2024-06-30: to the end of that"
                " day)."
            ),
        ),
    ] = None
    features: Annotated[
        str | None,
        typer.Option(
            "--features",
            metavar="COLUMNS",
            help="Node table: feature columns, separated by commas (all but ids and labels).",
        ),
    ] = None
    impute: Annotated[
        str | None,
        typer.Option(
            "--impute",
            help="Fill missing numbers: mean, median, or indicator (mean, and a feature that says"
            " where). Otherwise they are an error.",
        ),
    ] = None
    unknown: Annotated[
        str | None,
        typer.Option(
            "--unknown",
            help="New data: ignore (and say so) or error, for categories and columns that training"
            " did not have (categories: error, columns: ignore).",
        ),
    ] = None
    edge_features: Annotated[
        str | None,
        typer.Option(
            "--edge-features",
            metavar="COLUMNS",
            help="Edge table: columns to use as features of edges, separated by commas (none).",
        ),
    ] = None
    smiles: Annotated[
        str | None,
        typer.Option(
            "--smiles",
            metavar="COLUMN",
            help="Table of molecules, one a row: column of their SMILES (needs rdkit).",
        ),
    ] = None
    invalid: Annotated[
        str | None,
        typer.Option("--invalid", help="Rows without a valid SMILES: 'error' or 'skip' (error)."),
    ] = None
    max_memory: Annotated[
        str | None,
        typer.Option(
            "--max-memory",
            metavar="SIZE",
            help="Refuse input that takes more memory, such as 4GB (half of what is available).",
        ),
    ] = None

    def _given(self) -> dict[str, Any]:
        return {
            **super()._given(),
            "graph": self.graph_column,
            "features": listed_names(self.features),
            "edge_features": listed_names(self.edge_features),
            "smiles": self.smiles,
            "invalid": self.invalid,
            "impute": self.impute,
            "unknown": self.unknown,
            "bipartite": self.bipartite or None,
            "time": self.time_column,
            "until": self.until,
        }

    def read(self, source: str, options: TableOptions, *, symmetrize: bool) -> GraphData:
        """The graphs of a command's input."""
        from graphlatent.data.readers.read import read_graphs

        return read_graphs(
            source,
            nodes=self.nodes,
            symmetrize=symmetrize,
            options=options,
            max_memory=self.max_memory,
        )


def listed_names(listed: str | None) -> tuple[str, ...] | None:
    """The names in a list that is separated by commas."""
    if listed is None:
        return None
    return tuple(name.strip() for name in listed.split(",") if name.strip())


@dataclass(frozen=True)
class SettingsOptions:
    """Where the settings of an estimator come from."""

    config: Annotated[
        Path | None,
        typer.Option(
            "--config", metavar="FILE", help="Settings as TOML; a run's config.toml will do."
        ),
    ] = None
    assignments: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="A setting, such as mask_ratio=0.5; repeat for more. 'graphlatent settings' lists"
            " all.",
        ),
    ] = None
    epochs: Annotated[
        int | None,
        typer.Option("--epochs", metavar="NUMBER", help="Short for --set epochs=NUMBER."),
    ] = None
    lr: Annotated[
        float | None,
        typer.Option(
            "--lr", metavar="NUMBER", help="Short for --set lr=NUMBER, the learning rate."
        ),
    ] = None
    seed: Annotated[
        int | None,
        typer.Option("--seed", metavar="NUMBER", help="Short for --set random_state=NUMBER."),
    ] = None
    device: Annotated[
        str | None,
        typer.Option("--device", metavar="NAME", help="auto, cpu, cuda or cuda:1 (auto)."),
    ] = None
    dim: Annotated[
        int | None,
        typer.Option(
            "--dim",
            metavar="NUMBER",
            help="Columns of the embedding, at most; where it is the encoder's output, its width.",
        ),
    ] = None
    batching: Annotated[
        str | None,
        typer.Option(
            "--batching",
            metavar="WAY",
            help="Nodes: what a step sees: auto, full, nodes, clusters or neighbors.",
        ),
    ] = None

    @property
    def short(self) -> dict[str, int | float | str]:
        """The settings that were given by a flag of their own; all but `dim`."""
        given = {
            "epochs": self.epochs,
            "lr": self.lr,
            "random_state": self.seed,
            "device": self.device,
            "batching": self.batching,
        }
        return {name: value for name, value in given.items() if value is not None}


def with_option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the fields of its dataclass arguments as options of their own."""
    groups: dict[str, Any] = {}
    parameters = []
    # Not get_type_hints: Python 3.10 puts Optional around the annotation of a default None, which
    # hides the typer.Option in it
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        hint = parameter.annotation
        if dataclasses.is_dataclass(hint):
            groups[parameter.name] = hint
            of_group = get_type_hints(hint, include_extras=True)
            parameters += [
                inspect.Parameter(
                    field.name,
                    inspect.Parameter.KEYWORD_ONLY,
                    default=field.default,
                    annotation=of_group[field.name],
                )
                for field in dataclasses.fields(hint)
            ]
        else:
            parameters.append(
                parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hint)
            )

    @functools.wraps(command)
    def call(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{f.name: given.pop(f.name) for f in dataclasses.fields(group)})
        command(**given)

    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return call
