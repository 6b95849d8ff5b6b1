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

from graphlatent.cli.models import estimator_for, make_estimator
from graphlatent.cli.options import GraphInput, InputOptions, SettingsOptions
from graphlatent.cli.output import Debug, Json, Output, Overwrite, Quiet, speaking
from graphlatent.data.datasets import find_dataset
from graphlatent.data.describe import describe_graph
from graphlatent.errors import ConfigError, OutputError, TrainingInterrupted
from graphlatent.estimator import LaGraphEstimator
from graphlatent.io.atomic import refuse_existing, write_json
from graphlatent.io.runfolder import RunFolder, read_toml
from graphlatent.training.loop import Hooks
from graphlatent.training.progress import training_bar


def train(
    source: GraphInput,
    out: Annotated[Path, typer.Option("--out", help="The run folder to write.")],
    reading: InputOptions,
    settings: SettingsOptions,
    level: Annotated[
        str | None,
        typer.Option("--level", help="'node' or 'graph': what gets an embedding (node)."),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the unfinished run in --out.")
    ] = False,
    save_every: Annotated[
        float, typer.Option("--save-every", help="Seconds between checkpoints.", min=0)
    ] = 30.0,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Learn embeddings without labels and save model, history and embeddings in a run folder."""
    with speaking(quiet=quiet, as_json=as_json, debug=debug) as output:
        options = reading.table_options()
        run = RunFolder(out, replace=overwrite, reading=options.to_dict())
        if resume:
            _check_resumable(run)
        else:
            _check_free(run, overwrite=overwrite)
        estimator = _estimator(run, source, level, settings, resume=resume)
        estimator.set_params(progress=not quiet and not as_json)
        # Wrong settings fail here, before a large file is read
        estimator._resolved()
        graph = reading.read(source, options, symmetrize=estimator.symmetrize)
        about = describe_graph(graph)
        output.note(_summary(about, estimator))
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
        estimator.embed(graph).save(out / "embeddings.parquet", overwrite=True)
        result = _result(estimator, about=about, seconds=seconds, out=out)
        write_json(out / "results.json", result)
        _report(output, result)


def _estimator(
    run: RunFolder, source: str, level: str | None, settings: SettingsOptions, *, resume: bool
) -> LaGraphEstimator:
    values: dict[str, Any] = {}
    if resume:
        level, values = _agreeing_level(run, level)
    if settings.config is not None:
        config_level, values = read_toml(settings.config)
        level = level or config_level
    if level is None:
        known = None if Path(source).exists() else find_dataset(source)
        level = known.level if known else "node"
    return make_estimator(estimator_for(level), values, settings)


def _agreeing_level(run: RunFolder, level: str | None) -> tuple[str, dict[str, Any]]:
    old, values = run.read_settings()
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


def _summary(about: dict[str, Any], estimator: LaGraphEstimator) -> str:
    graphs = "1 graph" if about["graphs"] == 1 else f"{about['graphs']:,} graphs"
    return (
        f"{graphs}, {about['nodes']:,} nodes, {about['edges']:,} directed edges, features:"
        f" {about['features']}; {estimator.epochs} epochs"
    )


def _result(
    estimator: LaGraphEstimator,
    *,
    about: dict[str, Any],
    seconds: float,
    out: Path,
) -> dict[str, Any]:
    history = estimator.history_
    return {
        "level": estimator.level,
        "input": about,
        "epochs": len(history),
        "loss": history.loss[-1] if len(history) else None,
        "reconstruction": history.reconstruction[-1] if len(history) else None,
        "invariance": history.invariance[-1] if len(history) else None,
        "embedding_dim": estimator.embedding_dim_,
        "seconds": round(seconds, 3),
        "run": str(out),
        "embeddings": str(out / "embeddings.parquet"),
    }


def _report(output: Output, result: dict[str, Any]) -> None:
    rows = result["input"]["nodes"] if result["level"] == "node" else result["input"]["graphs"]
    loss = "" if result["loss"] is None else f", loss {result['loss']:.4g}"
    output.say(f"Trained {result['epochs']} epochs in {result['seconds']:.1f} s{loss}.")
    output.say(f"{rows:,} embeddings of width {result['embedding_dim']} in {result['embeddings']}")
    output.say(f"New data: graphlatent embed {result['run']} INPUT --out FILE.parquet")
    output.result(result)
