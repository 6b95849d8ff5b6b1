"""`graphlatent train`: from a file to a run folder with a trained model and embeddings."""

from __future__ import annotations

import shlex
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graphlatent.cli.models import (
    ModelOptions,
    estimator_for,
    for_input,
    make_estimator,
    options_in_file,
    settings_in_file,
)
from graphlatent.cli.options import GraphInput, InputOptions, SettingsOptions
from graphlatent.cli.out_folder import to_be_written
from graphlatent.cli.output import (
    TIMEOUT,
    Debug,
    Json,
    Output,
    Overwrite,
    Quiet,
    Timeout,
    Verbose,
    command_output,
)
from graphlatent.display import counted
from graphlatent.errors import ConfigError, TrainingInterrupted
from graphlatent.io.atomic import write_json
from graphlatent.io.config_file import RunConfig, read_toml

if TYPE_CHECKING:
    from graphlatent.config import Settings
    from graphlatent.data.readers.options import TableOptions
    from graphlatent.data.store.store import AnyGraph
    from graphlatent.estimator import Estimator
    from graphlatent.io.runfolder import RunFolder
    from graphlatent.training.loop import Hooks


def train(
    source: GraphInput,
    out: Annotated[Path, typer.Option("--out", help="The run folder to write.")],
    model: ModelOptions,
    reading: InputOptions,
    settings: SettingsOptions,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the unfinished run in --out.")
    ] = False,
    save_every: Annotated[
        float, typer.Option("--save-every", help="Seconds between checkpoints.", min=0)
    ] = 30.0,
    no_map: Annotated[bool, typer.Option("--no-map", help="Draw no map.png.")] = False,
    overwrite: Overwrite = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
    as_json: Json = False,
    debug: Debug = False,
    timeout: Timeout = TIMEOUT,
) -> None:
    """Learn embeddings without labels and save model, history and embeddings in a run folder.

    Several processes train one model, on one machine or several: torchrun --nproc-per-node 2 -m
    graphlatent train ... Each takes its part of every step's graphs or pieces; the first writes.
    """
    common = {"quiet": quiet, "as_json": as_json, "debug": debug, "verbose": verbose}
    with command_output(**common, timeout=timeout) as output, ExitStack() as stack:
        from graphlatent.cli.ingest import describe_store
        from graphlatent.data.describe import describe_graph
        from graphlatent.data.graph import GraphData
        from graphlatent.data.graph_labels import level_labels
        from graphlatent.data.memory_limit import limited_memory
        from graphlatent.data.readers.stores import is_store_path
        from graphlatent.data.store.store import GraphStore
        from graphlatent.estimator_stores import store_in_pieces
        from graphlatent.io.input_place import input_place
        from graphlatent.io.runfolder import RunFolder
        from graphlatent.ops.collective import rank
        from graphlatent.report.maps import map_of_run, write_map
        from graphlatent.saved import input_paths, write_embeddings
        from graphlatent.training.encoding import uses_coordinates
        from graphlatent.training.several import check_shareable

        # It also counts in choosing what a step sees, and how a graph is cut.
        stack.enter_context(limited_memory(reading.max_memory))
        run = RunFolder(out, replace=overwrite)
        if rank() == 0:
            stack.enter_context(to_be_written(run, resume=resume))
        before = options_in_file(settings)
        if resume and settings.config is None:
            before = _reading_of_first(run)
        options = reading.table_options(for_input(before, source, reading.nodes))
        run.reading = options.to_dict()
        level = _level_of_input(source, options)
        estimator = _estimator(run, model, settings, resume=resume, default=level or "node")
        by_default = not (level or model.level or settings.config or resume)
        estimator.set_params(progress=not quiet and not as_json and rank() == 0)
        # Wrong settings fail here, before a large file is read.
        resolved = estimator._resolved()
        check_shareable(estimator.method, resolved)
        store = None
        if estimator.level == "node" and is_store_path(source):
            store = store_in_pieces(estimator, source, reading.nodes, options, run=run)
        with output.timed("input read"):
            graph = store or reading.read(source, options, symmetrize=estimator.symmetrize)
        labels = level_labels(graph, estimator.level) if isinstance(graph, GraphData) else None
        if is_store_path(source):
            # Its tables were read before, by `ingest`.
            run.reading = graph.reading.to_dict()
        run.place = input_place(source, reading.nodes)
        fitted = estimator._resolved(graph, run=run)
        output.after_loss = (
            "What was saved goes on with the same command and --resume, also with another number of"
            " processes."
        )
        if rank() > 0:
            _fit(estimator, graph, run, settings=fitted, save_every=save_every)
            if store is None:
                estimator.embed(graph)
            return
        share = graph.share if isinstance(graph, GraphStore) else None
        if isinstance(graph, GraphStore):
            about = {"graphs": 1, **describe_store(graph)}
        else:
            about = describe_graph(graph, coordinates=uses_coordinates(graph, resolved, run=run))
        about |= input_paths(source, reading.nodes)
        output.note(_summary(about, fitted))
        if by_default and about["graphs"] > 1:
            output.note("every node gets an embedding; for one row per graph: --level graph")
        _tell_conditions(output, resolved, fitted)
        if share is not None:
            output.note(
                f"{share.count} shards: {share.lost_edges()}, and training does not see them"
            )
        if run.complete and resume:
            output.note(f"the run in {out} is trained; what it lacks is written")
        began = time.monotonic()
        _fit(estimator, graph, run, settings=fitted, save_every=save_every)
        seconds = time.monotonic() - began
        if isinstance(graph, GraphData):
            with output.timed("embeddings computed and written"):
                embeddings = estimator.embed(graph)
                write_embeddings(run, embeddings)
        elif share is None and not run.embeddings_path.is_file():
            # Those of a store are written before a run is complete.
            estimator.embed_to(graph, run.embeddings_path)
        output.detail(f"CPU threads in training: {estimator.num_threads_}")
        about |= run.place
        result = _result(estimator, about=about, seconds=seconds, run=run)
        if not no_map and isinstance(graph, GraphData):
            name = options.labels[0] if options.labels else "label"
            first = labels[:, 0] if labels is not None and len(options.labels) > 1 else labels
            made = map_of_run(embeddings, first, label_name=name, run=run)
            write_map(made, run.map_path)
            result["map"] = str(run.map_path)
        if share is not None:
            result["embeddings"] = None
        write_json(run.results_path, result)
        command = _probe_command(run, source, reading, options, values=labels)
        _report(output, result, probe=command)
        if share is not None:
            whole = shlex.join([str(run.path), share.about["store"]])
            output.say(
                "No process has the whole graph, so that no embeddings were written. On a machine"
                f" that has it: graphlatent embed {whole} --out FILE.parquet"
            )


def _config_of_first(run: RunFolder) -> RunConfig:
    """The configuration of a run, which the first process reads: others may be elsewhere."""
    from graphlatent.ops.collective import first_only

    return RunConfig(**first_only(lambda: asdict(run.read_config())))


def _reading_of_first(run: RunFolder) -> TableOptions:
    """The options that the input of a run was read with, which the first process knows."""
    from graphlatent.data.readers.options import TableOptions, options_of_run
    from graphlatent.ops.collective import current, first_only

    if current() is None:
        return options_of_run(run)
    stored = first_only(lambda: options_of_run(run).to_dict())
    return TableOptions.from_dict(stored) if stored else TableOptions()


def _level_of_input(source: str, options: TableOptions) -> str | None:
    """The level of a data set or of molecules; None where the input does not say."""
    from graphlatent.data.datasets import find_dataset
    from graphlatent.io.regular_files import exists

    if options.smiles is not None:
        return "graph"
    known = None if exists(source) else find_dataset(source)
    return known.level if known else None


def _estimator(
    run: RunFolder,
    model: ModelOptions,
    settings: SettingsOptions,
    *,
    resume: bool,
    default: str,
) -> Estimator:
    config = settings_in_file(settings)
    level, method, values = config.level, config.method, config.settings
    if resume:
        before = _config_of_first(run)
        level, method = _agreeing(run, before, model)
        if settings.config is not None:
            said = read_toml(settings.config)
            _agreeing(run, before, ModelOptions(said.get("level"), said.get("method")))
        values = before.settings if settings.config is None else values
    if level is None and model.level is None:
        level = default
    cls = estimator_for(model.level or str(level), model.method or method)
    return make_estimator(cls, values, settings)


def _agreeing(run: RunFolder, before: RunConfig, model: ModelOptions) -> tuple[str, str]:
    """Level and method of a run that is resumed. Raises where other ones were asked for."""
    for name, old, new in (
        ("level", before.level, model.level),
        ("method", before.method, model.method),
    ):
        if new is not None and new != old:
            raise ConfigError(
                f"{run.path} is a run of {name} '{old}'; --{name} {new} does not fit. Leave"
                f" --{name} out, or use another --out."
            )
    return str(before.level), before.method


def _fit(
    estimator: Estimator, graph: AnyGraph, run: RunFolder, *, settings: Settings, save_every: float
) -> None:
    from graphlatent.training.progress import training_bar

    with (
        _interruptible() as stop,
        training_bar(settings, hooks=_hooks(run, save_every, stop)) as hooks,
    ):
        try:
            estimator.fit(graph, run=run, hooks=hooks)
        except TrainingInterrupted as interruption:
            raise TrainingInterrupted(
                f"{interruption} Saved. Go on with the same command and --resume."
            ) from None


def _hooks(run: RunFolder, save_every: float, stop: threading.Event) -> Hooks:
    from graphlatent.training.loop import Hooks

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


def _summary(about: dict[str, Any], settings: Settings) -> str:
    graphs, nodes = counted(about["graphs"], "graph"), counted(about["nodes"], "node")
    kind = "undirected" if about["undirected"] else "directed"
    of_edges = f", edge features: {about['edge_features']}" if "edge_features" in about else ""
    return (
        f"{graphs}, {nodes}, {counted(about['edges'], kind + ' edge')}, features:"
        f" {about['features']}{of_edges}; {counted(settings.epochs, 'epoch')}"
    )


def _tell_conditions(output: Output, asked: Settings, fitted: Settings) -> None:
    """Say which defaults the size of the graph has changed; with --verbose also all the others."""
    import torch

    from graphlatent._version import __version__
    from graphlatent.config import to_mapping
    from graphlatent.ops.devices import pick_device

    if fitted.epochs < asked.epochs:
        output.note(
            "a graph of this size has other defaults, so that training ends in minutes:"
            f" hidden_dim={fitted.hidden_dim}, epochs={fitted.epochs}; for those of smaller graphs:"
            f" --set hidden_dim={asked.hidden_dim} --epochs {asked.epochs}"
        )
    device = pick_device(fitted.device)
    output.detail(f"graphlatent {__version__}, torch {torch.__version__}, device {device}")
    settings = to_mapping(fitted).items()
    output.detail("settings: " + ", ".join(f"{name}={value}" for name, value in settings))


def _result(
    estimator: Estimator,
    *,
    about: dict[str, Any],
    seconds: float,
    run: RunFolder,
) -> dict[str, Any]:
    from graphlatent.training.diagnostics import latest

    history = estimator.history_
    return {
        "level": estimator.level,
        "method": estimator.method.name,
        "input": about,
        "epochs": len(history),
        "selected_epoch": history.selected_epoch,
        "diagnostics": latest(history.diagnostics),
        "loss": history.loss[-1] if len(history) else None,
        **{name: column[-1] if column else None for name, column in history.terms.items()},
        "embedding_dim": estimator.embedding_dim_,
        "coordinates": estimator.features_.structure_dim,
        "seconds": round(seconds, 3),
        "run": str(run.path),
        "embeddings": str(run.embeddings_path),
    }


def _probe_command(
    run: RunFolder, source: str, reading: InputOptions, options: TableOptions, *, values: Any
) -> str | None:
    """The command that probes the labels that were named, where they are in a table.

    Of several labels the first one, unless the values of all are 0 and 1, which one probe takes.
    """
    table = reading.nodes if options.smiles is None else Path(source)
    if not options.labels or table is None:
        return None
    together = values is not None and all(value in (0, 1) for value in values.ravel().tolist())
    names = options.labels if together else options.labels[:1]
    named = [word for name in names for word in ("--label", name)]
    return shlex.join(["graphlatent", "probe", str(run.path), "--labels", str(table), *named])


def _report(output: Output, result: dict[str, Any], *, probe: str | None) -> None:
    rows = result["input"]["nodes"] if result["level"] == "node" else result["input"]["graphs"]
    loss = "" if result["loss"] is None else f", loss {result['loss']:.4g}"
    output.say(f"Trained {counted(result['epochs'], 'epoch')} in {result['seconds']:.1f} s{loss}.")
    if result["selected_epoch"] != result["epochs"]:
        output.say(f"The weights are those after epoch {result['selected_epoch']}.")
    if result["embeddings"] is not None:
        width, where = result["embedding_dim"], result["embeddings"]
        output.say(f"{counted(rows, 'embedding')} of width {width} in {where}")
    if "map" in result:
        output.say(
            f"Map: {result['map']}. Other colours: graphlatent map {result['run']} --color COLUMN"
        )
    if result["coordinates"]:
        output.say(
            "The embeddings contain coordinates computed from the edges, which nodes of other"
            " graphs do not have: for those, train with --set structure=none."
        )
    if probe is not None:
        output.say(f"What they know about the labels: {probe}")
    output.say(f"New data: graphlatent embed {result['run']} INPUT --out FILE.parquet")
    output.result(result)
