"""`graphlatent ingest`: tables larger than memory as a store."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graphlatent.cli.options import ColumnOptions, listed_names
from graphlatent.cli.output import Debug, Json, Output, Overwrite, Quiet, command_output
from graphlatent.display import counted

if TYPE_CHECKING:
    from graphlatent.data.store.store import GraphStore


def ingest(
    edges: Annotated[
        str,
        typer.Argument(
            metavar="EDGES",
            help="Edge table: a file (.parquet .csv .tsv .txt, also .gz), a folder or a pattern.",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", help="The store to write, a folder.")],
    tables: ColumnOptions,
    features: Annotated[
        Path | None,
        typer.Option(
            "--features",
            metavar="FILE",
            help="Feature matrix (.npy, or .npz of SciPy) with rows in the order of the nodes.",
        ),
    ] = None,
    features_columns: Annotated[
        str | None,
        typer.Option(
            "--features-columns",
            metavar="COLUMNS",
            help="Node table: feature columns, separated by commas (all but ids and labels).",
        ),
    ] = None,
    directed: Annotated[
        bool, typer.Option("--directed", help="Keep directions; otherwise edges go both ways.")
    ] = False,
    unknown: Annotated[
        str,
        typer.Option("--unknown", help="Edges of nodes not in the node table: error or drop."),
    ] = "error",
    memory: Annotated[
        str | None,
        typer.Option(
            "--memory",
            metavar="SIZE",
            help="What the process may take, such as 4GB (half of what is available).",
        ),
    ] = None,
    threads: Annotated[
        int | None, typer.Option("--threads", metavar="NUMBER", help="Of DuckDB (all cores).")
    ] = None,
    shards: Annotated[
        int | None,
        typer.Option(
            "--shards",
            metavar="NUMBER",
            min=2,
            help="Also write so many parts into OUT/shards, one for each of several processes.",
        ),
    ] = None,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Turn tables larger than memory into a store, which every command reads as a graph."""
    with command_output(quiet=quiet, as_json=as_json, debug=debug) as output:
        # Asked first: importing the rest takes seconds.
        from graphlatent.data.store.database import imported_duckdb

        imported_duckdb()
        from graphlatent.data.store.ingest import IngestOptions
        from graphlatent.data.store.ingest import ingest as write_store

        began = time.monotonic()
        reading = replace(tables.table_options(), features=listed_names(features_columns))
        options = IngestOptions(reading, directed=directed, unknown=unknown)  # type: ignore[arg-type]
        with _progress(output) as told:
            store, written = write_store(
                edges,
                out,
                nodes=tables.nodes,
                features=features,
                options=options,
                memory=memory,
                threads=threads,
                overwrite=overwrite,
                told=told,
            )
            sharded = None if shards is None else _shards(store, shards, memory=memory, told=told)
        seconds = round(time.monotonic() - began, 3)
        size = f"{counted(store.num_nodes, 'node')}, {_edges_in_words(store)}"
        if written:
            output.say(f"Wrote {out}: {size}, in {seconds:.1f} s.")
            output.say(f"Train on it: graphlatent train {shlex.quote(str(out))} --out RUN")
        else:
            output.say(f"{out} is up to date: {size}. The tables and options are as they were.")
        about = describe_store(store)
        if sharded is not None:
            about["shards"] = _report_shards(output, out, *sharded)
        output.result({**about, "store": str(out), "written": written, "seconds": seconds})


def _shards(
    store: GraphStore, count: int, *, memory: str | None, told: Callable[[str, int], None]
) -> tuple[dict[str, Any], bool]:
    # Importing takes seconds.
    told("preparing shards", 0)
    from graphlatent.data.memory_limit import limited_memory
    from graphlatent.training.sharding import shard_store

    with limited_memory(memory):
        return shard_store(store, count, told=told)


def _report_shards(
    output: Output, out: Path, about: dict[str, Any], written: bool
) -> dict[str, Any]:
    """Say what the shards are; the same for a program."""
    from graphlatent.data.store.share import share_of

    folder, count = out / "shards", about["count"]
    lost, total = about["lost_edges"], about["num_distinct_edges"]
    sizes = [shard["num_nodes"] for shard in about["parts"]]
    nodes = f"{min(sizes):,} to {max(sizes):,} nodes"
    if written:
        output.say(
            f"Wrote {count} shards into {folder}, of {nodes} each. {lost:,} of {total:,} edges"
            f" ({share_of(lost, total)}) are between them: training on shards does not see these."
        )
        train = f"torchrun --nproc-per-node {count} -m graphlatent train"
        output.say(f"Train on them: {train} {shlex.quote(str(folder))} --out RUN")
    else:
        output.say(f"{folder} is up to date: {count} shards, of {nodes} each.")
    return {"count": count, "nodes": sizes, "lost_edges": lost, "written": written}


def describe_store(store: GraphStore) -> dict[str, Any]:
    """What a store holds; a share, with the other shards."""
    about = {} if store.share is None else store.share.about
    shards = {"shards": about["count"], "lost_edges": about["lost_edges"]} if about else {}
    return {
        "nodes": about.get("num_nodes", store.num_nodes),
        "edges": about.get("num_distinct_edges", store.num_distinct_edges),
        "stored_edges": about.get("num_edges", store.num_edges),
        **shards,
        "undirected": store.undirected,
        "weighted": store.weighted,
        "features": store.feature_kind or "none",
        "feature_dim": store.feature_dim,
        "columns": list(store.column_names),
        "labels": list(store.about["labels"]),
        "id_name": store.id_name,
        "bytes": store.num_bytes,
        "notes": list(store.notes),
    }


def _edges_in_words(store: GraphStore) -> str:
    kind = "undirected" if store.undirected else "directed"
    return counted(store.num_distinct_edges, f"{kind} edge")


@contextmanager
def _progress(output: Output) -> Iterator[Callable[[str, int], None]]:
    """Stages and rows on a terminal; without one, a line at the end of each stage."""
    last: list[Any] = ["", 0, time.monotonic()]

    def ended() -> None:
        if last[0] and not output.quiet and not output.err.is_terminal:
            rows = f", {last[1]:,} rows" if last[1] else ""
            output.err.print(f"{last[0]}{rows}: {time.monotonic() - last[2]:.1f} s", style="dim")

    with output.working("ingesting") as shown:

        def told(stage: str, rows: int) -> None:
            if stage != last[0]:
                ended()
                last[:] = [stage, rows, time.monotonic()]
            last[1] = rows
            shown(f"{stage}, {rows:,} rows" if rows else stage)

        yield told
        ended()
