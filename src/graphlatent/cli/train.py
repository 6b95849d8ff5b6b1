"""`graphlatent train`: from a file to a run folder with a trained model and embeddings."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

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
from graphlatent.config import from_mapping, parse_value
from graphlatent.data.datasets import find_dataset
from graphlatent.data.readers.options import TableOptions
from graphlatent.errors import ConfigError, OutputError, TrainingInterrupted
from graphlatent.estimator import Estimator
from graphlatent.io.atomic import refuse_existing, write_json
from graphlatent.io.config_file import read_config
from graphlatent.io.runfolder import RunFolder
from graphlatent.methods.lagraph.estimators import GraphLaGraph, NodeLaGraph
from graphlatent.training.loop import Hooks
from graphlatent.training.progress import training_bar

ESTIMATORS: dict[str, type[NodeLaGraph] | type[GraphLaGraph]] = {
    "node": NodeLaGraph,
    "graph": GraphLaGraph,
}


def train(
    source: Input,
    out: Annotated[Path, typer.Option("--out", help="The run folder to write.")],
    level: Annotated[
        str | None,
        typer.Option("--level", help="'node' or 'graph': what gets an embedding (node)."),
    ] = None,
    nodes: Nodes = None,
    config: Annotated[
        Path | None, typer.Option("--config", help="Settings as TOML; a run's config.toml will do.")
    ] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", help="A setting, key=value; see 'graphlatent settings'."),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the unfinished run in --out.")
    ] = False,
    save_every: Annotated[
        float, typer.Option("--save-every", help="Seconds between checkpoints.", min=0)
    ] = 30.0,
    overwrite: Overwrite = False,
    source_column: Source = None,
    target_column: Target = None,
    weight_column: Weight = None,
    id_column: Id = None,
    graph_column: GraphColumn = None,
    label: Label = None,
    features: FeatureNames = None,
    quiet: Quiet = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Learn embeddings without labels and save model, history and embeddings in a run folder."""
    with speaking(quiet=quiet, as_json=as_json, debug=debug) as output:
        run = RunFolder(out, replace=overwrite)
        options = table_options(
            source_column, target_column, weight_column, id_column, graph_column, label, features
        )
        if resume:
            _check_resumable(run)
        else:
            _check_free(run, overwrite=overwrite)
        estimator = _estimator(run, source, level, config, assignments or [], resume=resume)
        estimator.set_params(progress=not quiet and not as_json)
        estimator._resolved()  # wrong settings fail here, before a large file is read
        graph = read_input(source, nodes, options, symmetrize=estimator.symmetrize)
        output.note(_summary(about_graph(graph), estimator))
        began = time.monotonic()
        with (
            _interruptible() as stop,
            training_bar(estimator, hooks=_hooks(run, save_every, stop)) as hooks,
        ):
            try:
                estimator.fit(graph, run=run, hooks=hooks)
            except TrainingInterrupted as interruption:
                raise TrainingInterrupted(
                    f"{interruption} Saved. Go on with the same command and --resume."
                ) from None
        seconds = time.monotonic() - began
        embeddings = estimator.embed(graph)
        embeddings.save(out / "embeddings.parquet", overwrite=True)
        result = _result(
            estimator, graph_facts=about_graph(graph), seconds=seconds, out=out, options=options
        )
        write_json(out / "results.json", result)
        _report(output, result)


def _estimator(
    run: RunFolder,
    source: str,
    level: str | None,
    config: Path | None,
    assignments: list[str],
    *,
    resume: bool,
) -> Estimator:
    values: dict[str, Any] = {}
    if resume:
        level, values = _agreeing_level(run, level)
    if config is not None:
        found = read_config(config)
        level, values = level or found.level, dict(found.settings)
    if level is None:
        known = None if Path(source).exists() else find_dataset(source)
        level = known.level if known else "node"
    return make_estimator(level, values, assignments, where=str(config or "--set"))


def make_estimator(
    level: str, values: dict[str, Any], assignments: list[str], *, where: str
) -> Estimator:
    """An estimator of the settings in a file, then of those given by --set.

    Raises:
        ConfigError: where a setting is unknown or out of range, or the encoder is one that only
            Python knows.
    """
    cls = ESTIMATORS[level].settings_class
    values = {**values, **dict(parse_value(cls, text) for text in assignments)}
    if str(values.get("encoder", "")).startswith("custom:"):
        raise ConfigError(
            "This run was trained with your own encoder; go on with it from Python: fit(graph,"
            " run=RunFolder(path))."
        )
    return from_mapping(ESTIMATORS[level], values, where=where)


def _agreeing_level(run: RunFolder, level: str | None) -> tuple[str, dict[str, Any]]:
    config = run.read_config()
    old, values = str(config.level), dict(config.settings)
    if level is not None and level != old:
        raise ConfigError(
            f"{run.path} is a {old}-level run; --level {level} does not fit. Leave --level out, or"
            " use another --out."
        )
    return old, values


def _check_free(run: RunFolder, *, overwrite: bool) -> None:
    refuse_existing(run.path, overwrite=overwrite)
    if (
        run.path.is_dir()
        and any(run.path.iterdir())
        and not run.started
        and not (run.path / "manifest.json").exists()
    ):
        raise OutputError(
            f"{run.path} is not a run folder, so it is not replaced. Choose another --out."
        )


def _check_resumable(run: RunFolder) -> None:
    if run.replace:
        raise ConfigError(
            "--resume goes on with a run and --overwrite replaces it. Give one of them."
        )
    if not run.started:
        raise ConfigError(
            f"There is no run to resume in {run.path}. Leave out --resume to start one."
        )
    if run.complete:
        raise ConfigError(
            f"The run in {run.path} is complete; there is nothing to resume. Its embeddings:"
            f" graphlatent embed {run.path} INPUT --out FILE."
        )


def _hooks(run: RunFolder, save_every: float, stop: threading.Event) -> Hooks:
    last = [time.monotonic()]

    def save_due() -> bool:
        due = time.monotonic() - last[0] >= save_every
        last[0] = time.monotonic() if due else last[0]
        return due

    return replace(Hooks(), save_due=save_due, save=run.save_snapshot, stop_requested=stop.is_set)


@contextmanager
def _interruptible() -> Iterator[threading.Event]:
    """An event that Ctrl-C sets; a second Ctrl-C interrupts at once."""
    stop = threading.Event()

    def on_signal(number: int, frame: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    before = signal.signal(signal.SIGINT, on_signal)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)


def _summary(facts: dict[str, Any], estimator: Estimator) -> str:
    graphs = "1 graph" if facts["graphs"] == 1 else f"{facts['graphs']:,} graphs"
    return (
        f"{graphs}, {facts['nodes']:,} nodes, {facts['edges']:,} directed edges, features:"
        f" {facts['features']}; {estimator.epochs} epochs"
    )


def _result(
    estimator: Estimator,
    *,
    graph_facts: dict[str, Any],
    seconds: float,
    out: Path,
    options: TableOptions,
) -> dict[str, Any]:
    history = estimator.history_
    return {
        "level": estimator.level,
        "input": graph_facts,
        "epochs": len(history),
        "loss": history.loss[-1] if len(history) else None,
        **{name: column[-1] if column else None for name, column in history.terms.items()},
        "embedding_dim": estimator.embedding_dim_,
        "seconds": round(seconds, 3),
        "run": str(out),
        "embeddings": str(out / "embeddings.parquet"),
        "reading": options.to_dict(),
    }


def _report(output: Output, result: dict[str, Any]) -> None:
    rows = result["input"]["nodes"] if result["level"] == "node" else result["input"]["graphs"]
    loss = "" if result["loss"] is None else f", loss {result['loss']:.4g}"
    output.say(f"Trained {result['epochs']} epochs in {result['seconds']:.1f} s{loss}.")
    output.say(f"{rows:,} embeddings of width {result['embedding_dim']} in {result['embeddings']}")
    output.say(f"New data: graphlatent embed {result['run']} INPUT --out FILE.parquet")
    output.result(result)
