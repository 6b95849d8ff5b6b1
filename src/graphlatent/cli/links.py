"""`graphlatent links`: how well embeddings know edges that training did not see."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from graphlatent._version import __version__
from graphlatent.cli.output import Debug, Json, Output, Overwrite, Quiet, speaking
from graphlatent.cli.reading import (
    FeatureNames,
    GraphColumn,
    Id,
    Input,
    Label,
    Nodes,
    Source,
    Target,
    Weight,
    about_graph,
    read_input,
    table_options,
)
from graphlatent.cli.scores import EMBEDDINGS, RAW, UNTRAINED, Measured, scores_json, show
from graphlatent.cli.train import make_estimator
from graphlatent.config import to_mapping
from graphlatent.data.features import encode_features, fit_features
from graphlatent.data.graph import GraphData
from graphlatent.errors import ConfigError
from graphlatent.estimator import Estimator
from graphlatent.io.atomic import refuse_unwritable, write_json
from graphlatent.io.config_file import RunConfig, read_config
from graphlatent.probes.links import LinkResult, LinkSplit, hold_out_edges, link_probe
from graphlatent.probes.results import ProbeResult
from graphlatent.representations import raw_features


def links(
    source: Input,
    nodes: Nodes = None,
    config: Annotated[
        Path | None, typer.Option("--config", help="Settings as TOML; a run's config.toml will do.")
    ] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", help="A setting, key=value; see 'graphlatent settings'."),
    ] = None,
    val: Annotated[
        float, typer.Option("--val", help="Share of the edges to choose how pairs are scored on.")
    ] = 0.05,
    test: Annotated[float, typer.Option("--test", help="Share of the edges to measure on.")] = 0.1,
    seeds: Annotated[
        int,
        typer.Option(
            "--seeds",
            help="How often: each time other edges are held out and a model is trained.",
            min=1,
        ),
    ] = 3,
    source_column: Source = None,
    target_column: Target = None,
    weight_column: Weight = None,
    id_column: Id = None,
    graph_column: GraphColumn = None,
    label: Label = None,
    features: FeatureNames = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="JSON file for the whole result.")
    ] = None,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Predict links: hold out edges, train on the others alone, and tell the held-out ones from
    pairs without an edge.
    """
    with speaking(quiet=quiet, as_json=as_json, debug=debug) as output:
        if out is not None:
            refuse_unwritable(out, overwrite=overwrite)
        if not (0 < val < 1 and 0 < test < 1 and val + test < 1):
            raise ConfigError(
                "--val and --test are shares of the edges: both above 0, together below 1. Got"
                f" {val} and {test}."
            )
        estimator = _estimator(config, assignments or [])
        estimator.set_params(progress=not quiet and not as_json)
        estimator._resolved()  # wrong settings fail here, before a large file is read
        options = table_options(
            source_column, target_column, weight_column, id_column, graph_column, label, features
        )
        graph = read_input(source, nodes, options, symmetrize=estimator.symmetrize)
        drawn = range(estimator.random_state, estimator.random_state + seeds)
        splits = {
            seed: hold_out_edges(graph, val_ratio=val, test_ratio=test, seed=seed) for seed in drawn
        }
        first = splits[drawn[0]]
        output.note(
            f"{graph.num_nodes:,} nodes, {len(first.test.nodes) // 2:,} edges held out to measure"
            f" on and {len(first.val.nodes) // 2:,} to choose on, each set beside as many pairs"
            f" without an edge; {seeds} time(s)"
        )
        found = [_of_split(estimator, split, seed) for seed, split in splits.items()]
        measured = {name: _by_score([each[name] for each in found]) for name in found[0]}
        result = {
            "version": __version__,
            "input": {"source": source, **about_graph(graph)},
            "settings": to_mapping(estimator._resolved()),
            "seeds": list(drawn),
            "val": val,
            "test": test,
            "test_edges": found[0][EMBEDDINGS].num_edges,
            "selection": found[0][EMBEDDINGS].selection,
            **scores_json(measured),
        }
        _report(output, measured, result)
        if out is not None:
            write_json(out, result)
            output.say(f"All scores and choices: {out}")


def _estimator(config: Path | None, assignments: list[str]) -> Estimator:
    found = RunConfig({}) if config is None else read_config(config)
    level, values = found.level, dict(found.settings)
    if level not in (None, "node"):
        raise ConfigError(
            f"{config} has settings of {level} level. Links join nodes: give settings of node"
            " level."
        )
    return make_estimator("node", values, assignments, where=str(config or "--set"))


def _of_split(estimator: Estimator, split: LinkSplit, seed: int) -> dict[str, LinkResult]:
    """The result of every representation, all made of the edges that are left."""
    untrained = type(estimator)(
        **{**estimator.get_params(), "random_state": seed, "epochs": 0, "progress": False}
    )
    estimator = type(estimator)(**{**estimator.get_params(), "random_state": seed})
    rows: dict[str, Any] = {
        EMBEDDINGS: estimator.fit_transform(split.graph),
        UNTRAINED: untrained.fit_transform(split.graph),
    }
    rows[RAW] = _raw(split.graph, estimator)
    return {name: link_probe(each, split, seed=seed) for name, each in rows.items()}


def _raw(graph: GraphData, estimator: Estimator) -> Any:
    """The features that the encoder gets; of nodes without any, their degrees among the edges that
    are left.
    """
    spec = fit_features(graph, degree_cap=estimator.degree_cap, standardize=estimator.standardize)
    return raw_features(encode_features(spec, graph), level="node")


def _by_score(results: list[LinkResult]) -> Measured:
    """One score per seed."""
    scores = {"AUC": [result.auc for result in results], "AP": [result.ap for result in results]}
    return {
        name: [
            ProbeResult((value,), (result.choice,), result.selection, name)
            for value, result in zip(values, results, strict=True)
        ]
        for name, values in scores.items()
    }


def _report(output: Output, measured: Mapping[str, Measured], result: dict[str, Any]) -> None:
    show(
        output,
        f"Held-out edges against other pairs, {result['test_edges']:,} of each, in %",
        measured,
    )
    output.say(
        "AUC: the chance that an edge scores higher than another pair. AP: average precision. Both"
        " are 50 by guessing."
    )
    output.say(f"How it was selected: {result['selection']}")
    output.result(result)
