"""`graphlatent cluster`: groups of similar embeddings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from graphlatent.cli.output import Debug, Json, Overwrite, Quiet, command_output
from graphlatent.cli.result_tables import check_table_path, write_table
from graphlatent.cli.saved_options import EmbeddingsPath

# Clusters whose members are listed
_LISTED = 50


def cluster(
    path: EmbeddingsPath,
    k: Annotated[int, typer.Option("--k", help="Number of clusters.", min=1)],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="File to write, ids and clusters: .csv or .parquet (beside the embeddings).",
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option("--seed", help="Seed of the random starts.", min=0, max=2**31 - 1)
    ] = 0,
    restarts: Annotated[
        int, typer.Option("--restarts", help="Random starts, of which the best is kept.", min=1)
    ] = 3,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Divide embeddings into K clusters by k-means, and write the cluster of every id."""
    with command_output(quiet=quiet, as_json=as_json, debug=debug) as output:
        out = _beside(path) if out is None else out
        check_table_path(out, overwrite=overwrite)
        from graphlatent.explore.clusters import typical_rows
        from graphlatent.explore.neighbours import id_columns
        from graphlatent.saved import read_embeddings

        embeddings = read_embeddings(path)
        clusters = embeddings.cluster(k, seed=seed, restarts=restarts)
        write_table(clusters.reset_index(), out)
        sizes = clusters.value_counts().reindex(range(k), fill_value=0)
        typical = [
            ["/".join(map(str, each)) for each in zip(*names.values(), strict=True)]
            for names in (
                id_columns(embeddings, rows)
                for rows in typical_rows(embeddings.values, clusters.to_numpy(), count=3)
            )
        ]
        lines = [
            [str(number), f"{sizes[number]:,}", ", ".join(names)]
            for number, names in enumerate(typical)
        ]
        output.table(
            f"{k} clusters of {len(clusters):,} by k-means",
            ["cluster", "size", "nearest to its centre"],
            lines[:_LISTED],
        )
        output.say(f"Cluster of every {embeddings.id_name}: {out}")
        output.result(
            {
                "embeddings": str(path),
                "out": str(out),
                "sizes": sizes.tolist(),
                "typical": dict(enumerate(typical)),
            }
        )


def _beside(path: Path) -> Path:
    """Where clusters are written by default: in the run folder, or beside the file."""
    return path / "clusters.csv" if path.is_dir() else path.with_name(f"{path.stem}-clusters.csv")
