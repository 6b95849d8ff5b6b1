"""`graphlatent finetune` and `graphlatent predict`: classes from few labels."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graphlatent.cli.options import GraphInput, InputOptions
from graphlatent.cli.out_folder import to_be_written
from graphlatent.cli.output import Debug, Json, Output, Overwrite, Quiet, command_output
from graphlatent.cli.result_tables import check_table_path, show_table
from graphlatent.cli.saved_options import graph_for_model
from graphlatent.display import counted
from graphlatent.errors import ConfigError
from graphlatent.io.atomic import write_json

if TYPE_CHECKING:
    from graphlatent.data.graph import GraphData
    from graphlatent.estimator import Estimator
    from graphlatent.finetuning.classifier import FineTunedClassifier


def finetune(
    run_path: Annotated[Path, typer.Argument(metavar="RUN", help="A finished run folder.")],
    source: GraphInput,
    out: Annotated[Path, typer.Option("--out", help="The run folder to write.")],
    reading: InputOptions,
    ratio: Annotated[
        float | None,
        typer.Option(
            "--ratio", help="Share of the labels to use; the others measure the accuracy (all)."
        ),
    ] = None,
    epochs: Annotated[
        int | None, typer.Option("--epochs", help="Passes over the labelled rows, at most (50).")
    ] = None,
    lr: Annotated[float | None, typer.Option("--lr", help="Learning rate (0.001).")] = None,
    validation: Annotated[
        float | None,
        typer.Option(
            "--validation", help="Share of the labels held out to decide when to stop (0.2)."
        ),
    ] = None,
    balanced: Annotated[
        bool, typer.Option("--balanced", help="Weigh classes so that rare ones count as much.")
    ] = False,
    no_probe: Annotated[
        bool,
        typer.Option("--no-probe", help="Start from a head of zeros instead of a linear probe."),
    ] = False,
    seed: Annotated[int | None, typer.Option("--seed", help="Seed of all random choices.")] = None,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Fine-tune a trained run with labels of some nodes or graphs, to predict those of others.

    Rows with an empty cell or -1 in the column --label have no label.
    """
    with (
        command_output(quiet=quiet, as_json=as_json, debug=debug) as output,
        ExitStack() as stack,
    ):
        from graphlatent.finetuning.loading import classifier_class
        from graphlatent.io.runfolder import RunFolder
        from graphlatent.methods.registry import load_estimator
        from graphlatent.saved import input_paths, write_embeddings

        run = RunFolder(out, replace=overwrite)
        if run.path.resolve() == run_path.resolve():
            raise ConfigError(f"--out is the run that is fine-tuned, {run_path}. Choose another.")
        # Until the last file is written, so that no other process writes in between.
        stack.enter_context(to_be_written(run))
        given = {
            "epochs": epochs,
            "lr": lr,
            "validation_ratio": validation,
            "class_weight": "balanced" if balanced else None,
            "linear_probe": False if no_probe else None,
            "random_state": seed,
        }
        if ratio is not None and not 0 < ratio < 1:
            raise ConfigError(f"--ratio must be a number between 0 and 1. Got {ratio:g}.")
        estimator = load_estimator(run_path)
        classifier = classifier_class(estimator.level).from_pretrained(estimator)
        classifier.set_params(**{name: v for name, v in given.items() if v is not None})
        # Wrong settings fail here, before a large file is read.
        classifier._checked()
        _refuse_known_labels(estimator, reading, run_path)
        graph = graph_for_model(output, run_path, estimator, source, reading, labels=True)
        shown, hidden = _labels(graph, ratio, classifier)
        with output.working("fine-tuning"):
            classifier.fit(graph, shown)
        if classifier.multilabel_ and reading.label:
            import numpy as np

            classifier.classes_ = np.array(reading.label)
        score = None if hidden is None else classifier.score(graph, hidden)
        # Other commands read the graph of this run again as it was read here.
        classifier.estimator_.reading_ = graph.reading
        classifier._write(run, graph=graph)
        write_embeddings(run, classifier.estimator_.embed(graph))
        result = _result(classifier, shown, hidden, score, run.path)
        write_json(run.results_path, {**result, "input": input_paths(source, reading.nodes)})
        _report(output, result, linear_probe=classifier.linear_probe)


def predict(
    run_path: Annotated[
        Path, typer.Argument(metavar="RUN", help="A run folder that 'finetune' wrote.")
    ],
    source: GraphInput,
    reading: InputOptions,
    out: Annotated[
        Path | None, typer.Option("--out", help="File to write: .csv or .parquet.")
    ] = None,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Predict classes and their probabilities with a fine-tuned run."""
    with command_output(quiet=quiet, as_json=as_json, debug=debug) as output:
        from graphlatent.finetuning.loading import load_classifier

        check_table_path(out, overwrite=overwrite)
        classifier = load_classifier(run_path)
        graph = graph_for_model(output, run_path, classifier.estimator_, source, reading)
        found = classifier.predict_table(graph).reset_index()
        show_table(output, f"Predictions of {len(found):,}", found, out=out)
        rows = "nodes" if classifier.level == "node" else "graphs"
        output.result({"rows": len(found), "of": rows, "out": None if out is None else str(out)})


def _refuse_known_labels(estimator: Estimator, reading: InputOptions, run_path: Path) -> None:
    """Raise where a label was a feature of the run, which the encoder would be told again."""
    features = {column.name for column in estimator.features_.columns}
    known = [name for name in reading.label or () if name in features]
    if known:
        raise ConfigError(
            f"Column '{known[0]}' was a feature of {run_path}, so it cannot be predicted with it."
            f" Train again with --label {known[0]}."
        )


def _labels(graph: GraphData, ratio: float | None, classifier: FineTunedClassifier) -> Any:
    """The labels to fine-tune on, and those that are held out; None where all are used."""
    import numpy as np
    import torch

    from graphlatent.finetuning.labels import held_out, read_labels

    if graph.y is None:
        raise ConfigError("There are no labels. Name their column with --label.")
    if ratio is None:
        return graph.y, None
    y = graph.y.astype(object)
    num_rows = graph.num_nodes if classifier.level == "node" else graph.num_graphs
    labels = read_labels(y, num_rows=num_rows, of=classifier.level, owner="finetune")
    generator = torch.Generator().manual_seed(classifier.random_state * 4)
    kept, others = held_out(labels, 1 - ratio, generator=generator)
    shown, hidden = np.full(y.shape, -1, dtype=object), np.full(y.shape, -1, dtype=object)
    shown[kept], hidden[others] = labels.values(kept), labels.values(others)
    return shown, (hidden if len(others) else None)


def _result(
    classifier: FineTunedClassifier, shown: Any, hidden: Any, score: float | None, path: Path
) -> dict[str, Any]:
    from graphlatent.finetuning.labels import missing_labels

    def labelled(y: Any) -> int:
        known = ~missing_labels(y)
        return int((known.any(1) if known.ndim == 2 else known).sum())

    metric = "micro_f1" if classifier.multilabel_ else "accuracy"
    majority = hidden is not None and not classifier.multilabel_
    return {
        "level": classifier.level,
        "classes": classifier.classes_.tolist(),
        "labelled": labelled(shown),
        "held_out": 0 if hidden is None else labelled(hidden),
        f"held_out_{metric}": score,
        **({"held_out_majority": _majority_share(shown, hidden)} if majority else {}),
        "epochs": classifier.best_epoch_,
        "run": str(path),
    }


def _majority_share(shown: Any, hidden: Any) -> float:
    """The accuracy on `hidden` of the most frequent class of `shown`."""
    import numpy as np

    from graphlatent.finetuning.labels import missing_labels

    names, counts = np.unique(shown[~missing_labels(shown)].astype(str), return_counts=True)
    held_out = hidden[~missing_labels(hidden)].astype(str)
    return float(np.mean(held_out == names[counts.argmax()]))


def _report(output: Output, result: dict[str, Any], *, linear_probe: bool) -> None:
    kind = result["level"]
    kept = "."
    if result["epochs"] == 0:
        start = "the linear probe" if linear_probe else "the head of zeros it started from"
        kept = f". No epoch was better on validation than the start: what is saved is {start}."
    elif result["epochs"]:
        epochs = counted(result["epochs"], "epoch")
        kept = f"; the state after {epochs} was the best on validation."
    output.say(f"Fine-tuned on labels of {counted(result['labelled'], kind)}{kept}")
    for name, title in (("accuracy", "Accuracy"), ("micro_f1", "Micro-F1")):
        score = result.get(f"held_out_{name}")
        if score is not None:
            majority = result.get("held_out_majority")
            beside = "" if majority is None else f" (majority class: {100 * majority:.1f} %)"
            output.say(
                f"{title} on {counted(result['held_out'], kind)}"
                f" whose labels were held out: {100 * score:.1f} %{beside}"
            )
    output.say(f"Predictions: graphlatent predict {result['run']} INPUT --out FILE.csv")
    output.result(result)
