"""`graphlatent map`: embeddings in the plane, as a picture and as an interactive page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from graphlatent.cli.output import Debug, Json, Output, Overwrite, Quiet, command_output
from graphlatent.cli.saved_options import EmbeddingsPath
from graphlatent.errors import ConfigError, bad_argument
from graphlatent.io.atomic import refuse_unwritable

# Those of explore/projection.py, which imports torch.
METHODS = ("tsne", "umap", "pca")


def draw_map(
    path: EmbeddingsPath,
    color: Annotated[
        str | None,
        typer.Option(
            "--color",
            metavar="COLUMN",
            help="Column that gives the colour: of --labels, or of the run.",
        ),
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option("--labels", help="Table with ids and the column (the run's node table)."),
    ] = None,
    id_column: Annotated[
        str | None,
        typer.Option(
            "--id", metavar="COLUMN", help="Column of ids in --labels (as in the embeddings)."
        ),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            "--method",
            help="tsne, umap or pca (tsne; above 5,000 rows umap, where it is installed).",
        ),
    ] = None,
    title: Annotated[
        str | None, typer.Option("--title", metavar="TEXT", help="Title above the map.")
    ] = None,
    seed: Annotated[
        int, typer.Option("--seed", help="Seed of the layout.", min=0, max=2**31 - 1)
    ] = 0,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help=(
                "File to write: .png, .svg, .pdf or .html (map.png in the run folder, and map.html"
                " where plotly is installed)."
            ),
        ),
    ] = None,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Draw embeddings in the plane, one point per node or graph."""
    with command_output(quiet=quiet, as_json=as_json, debug=debug) as output:
        if method is not None and method not in METHODS:
            allowed = f"one of {', '.join(METHODS)}"
            raise bad_argument("--method", owner="map", allowed=allowed, got=method)
        if color is None and (labels is not None or id_column is not None):
            raise ConfigError("Name the column of --labels that gives the colour by --color.")
        paths = _paths(path, out, color=color, method=method)
        is_plain = color is None and method is None and out is None
        if is_plain and not overwrite and path.is_dir() and paths[0].is_file():
            raise ConfigError(
                f"{paths[0]} is there already; 'train' draws it. Choose another colour by --color"
                " COLUMN or another layout by --method, or draw it anew with --overwrite."
            )
        for each in paths:
            refuse_unwritable(each, overwrite=overwrite)
        made = _made(path, color, labels, id_column, method=method, title=title, seed=seed)
        _write(output, made, paths)
        output.result(
            {
                "embeddings": str(path),
                "maps": [str(each) for each in paths],
                "method": made.projection.method,
                "points": len(made.projection.points),
                "placed_by_neighbours": made.projection.num_placed,
            }
        )


def _made(
    path: Path,
    color: str | None,
    labels: Path | None,
    id_column: str | None,
    *,
    method: Any,
    title: str | None,
    seed: int,
) -> Any:
    from graphlatent.explore.layouts import KeptLayouts
    from graphlatent.report.maps import make_map
    from graphlatent.report.values import values_of
    from graphlatent.saved import read_embeddings

    embeddings = read_embeddings(path)
    values = None
    if color is not None:
        values = values_of(path, color, table=labels, id_column=id_column)
    what = "nodes" if embeddings.id_name == "id" else "graphs"
    names = embeddings.ids.tolist()
    if embeddings.graphs is not None:
        pairs = zip(embeddings.graphs.tolist(), names, strict=True)
        names = [f"{graph} / {node}" for graph, node in pairs]
    return make_map(
        embeddings.values,
        labels=values,
        label_name=color or "class",
        ids=names,
        title=title or f"{len(names):,} {what}",
        method=method,
        seed=seed,
        layouts=KeptLayouts(path),
    )


def _paths(path: Path, out: Path | None, *, color: str | None, method: str | None) -> list[Path]:
    """The files to write: the one that was named, or a picture and a page beside the embeddings."""
    if out is not None:
        return [out]
    from importlib.util import find_spec

    is_folder = path.is_dir()
    parts = [*([] if is_folder else [path.stem]), "map", color, method]
    name = "-".join(re.sub(r"[^\w.-]+", "_", part)[:40] for part in parts if part)
    folder = path if is_folder else path.parent
    suffixes = [".png", ".html"] if find_spec("plotly") else [".png"]
    return [folder / f"{name}{suffix}" for suffix in suffixes]


def _write(output: Output, made: Any, paths: list[Path]) -> None:
    from graphlatent.report.maps import write_map

    for each in paths:
        write_map(made, each)
    output.say(f"Map of {made.note}: {paths[0]}")
    if len(paths) > 1:
        output.say(f"To point at and zoom into, in a browser: {paths[1]}")
