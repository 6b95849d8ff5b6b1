"""`graphlatent links RUN --predict K`: the pairs without an edge that look most like edges."""

from __future__ import annotations

from pathlib import Path

from graphlatent.cli.options import InputOptions, SettingsOptions
from graphlatent.cli.output import Output
from graphlatent.cli.result_tables import check_table_path, records, show_table
from graphlatent.cli.saved_options import graph_of
from graphlatent.errors import ConfigError


def refuse_training_options(settings: SettingsOptions, method: str | None) -> None:
    """Raise a `ConfigError` where an option of training came with --predict."""
    given = {
        "--method": method,
        "--config": settings.config,
        "--set": settings.assignments,
    }
    for name, value in given.items():
        if value:
            raise ConfigError(f"Leave out {name}: --predict uses a run that is trained already.")


def show_links(
    output: Output,
    path: Path,
    source: str | None,
    reading: InputOptions,
    *,
    count: int,
    out: Path | None,
    overwrite: bool,
) -> None:
    """Predict links, print them, and write them where `out` was given.

    Args:
        output: of the command.
        path: the run folder, or a file of embeddings.
        source: the graph, where it is not that of the run any more.
        reading: how it is read.
        count: how many links.
        out: a .csv or .parquet file, or None.
        overwrite: whether it may be replaced.
    """
    check_table_path(out, overwrite=overwrite)
    from graphlatent.explore.link_table import link_table
    from graphlatent.saved import read_embeddings

    embeddings = read_embeddings(path)
    frame, found = link_table(embeddings, graph_of(path, source, reading), count)
    which = (
        "all" if found.exact else "those of near nodes, of nodes near to a neighbour, or that share"
    )
    which = which if found.exact else f"{which} a neighbour"
    output.note(f"{found.num_scored:,} pairs without an edge were scored: {which}")
    title = f"The {len(frame):,} likeliest missing links"
    show_table(output, "The likeliest missing link" if len(frame) == 1 else title, frame, out=out)
    output.say(
        "score: estimated probability that there is an edge, from similarity and shared neighbours."
        " How well edges can be predicted here: graphlatent links INPUT"
    )
    output.result(
        {
            "embeddings": str(path),
            "pairs_scored": found.num_scored,
            "exact": found.exact,
            "links": records(frame),
        }
    )
