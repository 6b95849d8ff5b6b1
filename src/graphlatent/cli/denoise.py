"""`graphlatent denoise`: features of nodes without noise, and with missing values filled."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from graphlatent.cli.options import InputOptions
from graphlatent.cli.output import Debug, Json, Overwrite, Quiet, command_output
from graphlatent.cli.result_tables import check_table_path, write_table
from graphlatent.cli.saved_options import OtherGraph, graph_of
from graphlatent.display import counted
from graphlatent.errors import ConfigError


def denoise(
    path: Annotated[Path, typer.Argument(metavar="RUN", help="A finished run folder.")],
    out: Annotated[Path, typer.Option("--out", help="File to write: .csv or .parquet.")],
    reading: InputOptions,
    source: OtherGraph = None,
    sigma: Annotated[
        float | None,
        typer.Option(
            "--sigma",
            help="Noise in a feature (estimated from the edges); 0 fills missing values only.",
        ),
    ] = None,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Predict the latent features of nodes: their features denoised, and missing values filled.

    Missing values of tables are those that training filled with --impute.
    """
    with command_output(quiet=quiet, as_json=as_json, debug=debug) as output:
        check_table_path(out, overwrite=overwrite)
        import pandas as pd
        import torch

        from graphlatent.data.decoding import decoded_names, feature_columns, missing_entries
        from graphlatent.embedding import node_embeddings
        from graphlatent.methods.lagraph.estimators import NodeLaGraph
        from graphlatent.methods.registry import load_estimator

        estimator = load_estimator(path)
        if not isinstance(estimator, NodeLaGraph):
            raise ConfigError(
                f"{path} holds a {estimator.level}-level model of the method"
                f" '{type(estimator).method.name}', and only node-level models of 'lagraph' predict"
                " latent features. Train one with: graphlatent train INPUT --out RUN2"
            )
        graph = graph_of(path, source, reading)
        latent = estimator.predict_latent(graph, sigma=sigma)
        # A category has several features, which are missing together.
        columns = feature_columns(estimator.features_)
        first = torch.cat([columns.new_ones(1), torch.diff(columns)]) > 0
        filled = int(missing_entries(estimator.features_, graph)[:, first].sum())
        rows = node_embeddings(latent, graph)
        frame = pd.DataFrame(latent, columns=decoded_names(estimator.features_))
        frame.insert(0, rows.id_name, rows.ids)
        if rows.graphs is not None:
            frame.insert(0, "graph", rows.graphs)
        write_table(frame, out)
        num_nodes, width = latent.shape
        output.say(
            f"{counted(width, 'feature')} of {counted(num_nodes, 'node')} in {out};"
            f" {counted(filled, 'missing value')} filled"
        )
        output.result({"rows": num_nodes, "features": width, "filled": filled, "latent": str(out)})
