"""`graphlatent probe`: what embeddings know about labels that training never saw."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import numpy as np
import typer

from graphlatent.cli.labelled import (
    Embedded,
    match_rows,
    read_embeddings,
    read_features,
    read_labels,
)
from graphlatent.cli.output import Debug, Json, Output, Overwrite, Quiet, speaking
from graphlatent.cli.scores import EMBEDDINGS, RAW, Measured, scores_json, show
from graphlatent.cli.targets import Target, as_target, refuse_label
from graphlatent.data.columns import ColumnSpec, fit_column
from graphlatent.data.features import FeatureSpec, encode_columns
from graphlatent.data.readers.options import TableOptions
from graphlatent.data.splits import Split, fold_splits, random_splits
from graphlatent.errors import ConfigError, InputError, RunFolderError
from graphlatent.io.atomic import refuse_unwritable, write_json
from graphlatent.io.runfolder import RunFolder
from graphlatent.ops.sparse import SparseMatrix
from graphlatent.probes.clustering import cluster_probe
from graphlatent.probes.communities import community_probe
from graphlatent.probes.knn import knn_probe
from graphlatent.probes.linear import linear_probe
from graphlatent.probes.protocol import Answer, Protocol
from graphlatent.probes.results import Choice, ProbeResult
from graphlatent.probes.svm import svm_probe

Array: TypeAlias = np.ndarray[Any, Any]
KINDS = ("linear", "svm", "rbf", "knn", "clusters", "spectral", "communities")
_IN_FOLDS = ("svm", "rbf")
_SEARCHES = {
    "clusters": "k-means",
    "spectral": "spectral clustering",
    "communities": "overlapping k-means",
}
_ZEROS = "all zeros"


def probe(
    embeddings: Annotated[
        Path,
        typer.Argument(
            metavar="EMBEDDINGS",
            help="A run folder, or a .parquet, .npz, .csv or .npy of embeddings.",
        ),
    ],
    labels: Annotated[
        Path,
        typer.Option(
            "--labels",
            help=(
                "Table (.csv .tsv .parquet) with ids and labels, or .npy / .npz in the same order."
            ),
        ),
    ],
    label: Annotated[
        list[str] | None,
        typer.Option("--label", help="Column of labels; several times for columns of 0 and 1."),
    ] = None,
    id_column: Annotated[
        str | None,
        typer.Option("--id", help="Column of ids in --labels and --raw (as in the embeddings)."),
    ] = None,
    kind: Annotated[str, typer.Option("--kind", help=f"One of {', '.join(KINDS)}.")] = "linear",
    splits: Annotated[
        int | None, typer.Option("--splits", help="Random splits (20).", min=1)
    ] = None,
    train: Annotated[
        float | None, typer.Option("--train", help="Share of the rows to train on (0.1).")
    ] = None,
    val: Annotated[
        float | None, typer.Option("--val", help="Share of the rows to choose settings on (0.1).")
    ] = None,
    folds: Annotated[
        int | None,
        typer.Option(
            "--folds", help="Stratified folds instead of random splits (10 for svm, rbf).", min=2
        ),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(
            "--seeds",
            help="Repeat with so many seeds of splits (1), or of clusters and communities (5).",
            min=1,
        ),
    ] = None,
    raw: Annotated[
        Path | None,
        typer.Option("--raw", help="Node table: probe its feature columns beside the embeddings."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="JSON file for the whole result.")
    ] = None,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Measure what embeddings know: a simple model on frozen rows, its settings chosen without the
    test labels.
    """
    with speaking(quiet=quiet, as_json=as_json, debug=debug) as output:
        plan = _plan(kind, splits, train, val, folds, seeds)
        if out is not None:
            refuse_unwritable(out, overwrite=overwrite)
        rows = read_embeddings(embeddings)
        table = read_labels(labels, labels=label or (), id_column=id_column, like=rows)
        place = match_rows(rows, table)
        target = as_target(
            {name: values[place] for name, values in table.columns.items()}, where=table.name
        )
        _refuse_seen(embeddings, target)
        drawn = _drawn(target, plan)
        representations: dict[str, Any] = {EMBEDDINGS: rows.values[target.kept]}
        notes = _notes(
            target,
            plan,
            drawn,
            num_rows=len(place),
            num_unused=len(table.keys[0].values) - len(place),
        )
        if raw is not None:
            features, names = _raw_rows(raw, rows, target, run=embeddings, id_column=id_column)
            representations[RAW] = features[target.kept]
            notes.append(f"raw features: {len(names)} column(s): {', '.join(names)}")
        for note in notes:
            output.note(note)
        measured = _measured(representations, target, plan, drawn)
        result = _result(
            measured,
            target,
            plan,
            {"embeddings": str(embeddings), "labels": str(labels), "notes": notes},
        )
        _report(output, measured, plan, result)
        if out is not None:
            write_json(out, result)
            output.say(f"All scores and choices: {out}")


@dataclass(frozen=True)
class _Plan:
    """How to measure. Random splits where `folds` is None."""

    kind: str
    splits: int
    train: float
    val: float
    folds: int | None
    seeds: int

    @property
    def words(self) -> str:
        """Which rows were measured on."""
        if self.kind in _SEARCHES:
            return f"{self.seeds} seed(s) of {_SEARCHES[self.kind]} on all rows with a label"
        seeds = "" if self.seeds == 1 else f", with {self.seeds} seeds"
        if self.folds is not None:
            return f"{self.folds} shuffled folds{seeds}"
        test = 1 - self.train - self.val
        return (
            f"{self.splits} random splits: {self.train:.0%} train, {self.val:.0%} choose,"
            f" {test:.0%} test{seeds}"
        )


def _plan(
    kind: str,
    splits: int | None,
    train: float | None,
    val: float | None,
    folds: int | None,
    seeds: int | None,
) -> _Plan:
    if kind not in KINDS:
        raise ConfigError(f"--kind must be one of {', '.join(KINDS)}. Got {kind!r}.")
    given = {"--splits": splits, "--train": train, "--val": val, "--folds": folds}
    useless = {
        **dict.fromkeys(
            _SEARCHES, ("it needs no training rows", ("--splits", "--train", "--val", "--folds"))
        ),
        "svm": ("its settings are chosen in inner folds", ("--splits", "--train", "--val")),
        "rbf": ("its settings are chosen in inner folds", ("--splits", "--train", "--val")),
    }.get(kind)
    if useless is None and folds is not None:
        useless = ("every row is tested once and trains otherwise", ("--splits", "--train"))
    wrong = [option for option in (useless[1] if useless else ()) if given[option] is not None]
    if useless and wrong:
        raise ConfigError(
            f"Leave out {' and '.join(wrong)}: with --kind"
            f" {kind}{'' if folds is None else ' and --folds'}, {useless[0]}."
        )
    folds = 10 if kind in _IN_FOLDS and folds is None else folds
    return _Plan(
        kind,
        splits or 20,
        0.1 if train is None else train,
        0.1 if val is None else val,
        folds,
        seeds or (5 if kind in _SEARCHES else 1),
    )


def _notes(
    target: Target,
    plan: _Plan,
    drawn: Sequence[tuple[Split, ...]],
    *,
    num_rows: int,
    num_unused: int,
) -> list[str]:
    """What a reader of the scores should know about the rows."""
    notes = []
    if len(target.kept) < num_rows:
        notes.append(
            f"{num_rows - len(target.kept)} of {num_rows} rows have no label and are left out"
        )
    if plan.kind == "communities":
        empty = [name for name, size in target.sizes.items() if size == 0]
        notes += [f"left out, since they have no member: {', '.join(empty)}"] if empty else []
    if num_unused:
        notes.append(f"{num_unused} row(s) of the labels have no embedding and are not used")
    if plan.folds is not None and not target.several:
        few = {name: size for name, size in target.sizes.items() if size < plan.folds}
        if few:
            shown = ", ".join(f"{name} ({size})" for name, size in list(few.items())[:5]) + (
                ", ..." if len(few) > 5 else ""
            )
            notes.append(
                f"{len(few)} class(es) have fewer members than the {plan.folds} folds, so some"
                f" folds do not test them: {shown}"
            )
    num_classes, every = len(target.sizes), [split for splits in drawn for split in splits]
    lacking = (
        0
        if target.several
        else sum(len(np.unique(target.values[split.train])) < num_classes for split in every)
    )
    if lacking:
        notes.append(
            f"in {lacking} of {len(every)} splits a class has no training row, so its test rows can"
            " only be answered wrong; more rows or a larger --train would help"
        )
    return notes


def _refuse_seen(run: Path, target: Target) -> None:
    """Raise where a label to be probed was a feature of the run in the folder `run`."""
    if not (run / "features.json").is_file():
        return
    features = {
        column.name
        for column in FeatureSpec.from_dict(RunFolder(run).read_json("features.json")).columns
    }
    for name in target.names:
        if name in features:
            raise InputError(
                f"The column '{name}' was a feature of the run {run}, so its embeddings have seen"
                " what is to be probed and the score would say nothing. Train again with --label"
                f" {name}, which keeps it out. To measure how much of a feature embeddings keep,"
                f" give {run / 'embeddings.parquet'} instead of the folder."
            )


@dataclass(frozen=True)
class _Encoding:
    """How the features of embeddings were made from a node table, as far as their run says.

    Args:
        columns: the columns that the encoder was given; None where there is no run, or its features
            were not columns of a table.
        standardize: whether the run standardises numbers.
        labels: columns that the run kept out of the features.
    """

    columns: tuple[ColumnSpec, ...] | None = None
    standardize: bool = False
    labels: tuple[str, ...] = ()


def _encoding(run: RunFolder) -> _Encoding:
    if not run.started:
        return _Encoding()
    settings = run.read_config().settings
    spec = FeatureSpec.from_dict(run.read_json("features.json"))
    return _Encoding(
        spec.columns or None, bool(settings.get("standardize", True)), _labels_of_run(run)
    )


def _labels_of_run(run: RunFolder) -> tuple[str, ...]:
    if not (run.path / "results.json").is_file():
        return ()
    reading = run.read_json("results.json").get("reading")
    try:
        return TableOptions.from_dict(reading if isinstance(reading, dict) else {}).labels
    except InputError as error:
        raise RunFolderError(
            f"{run.path / 'results.json'} is damaged: {error} Copy the file again, or give"
            " embeddings.parquet instead of the folder."
        ) from error


def _raw_rows(
    path: Path, rows: Embedded, target: Target, *, run: Path, id_column: str | None
) -> tuple[Any, list[str]]:
    """The feature columns of a node table as numbers, float32 [M, W], dense or SciPy CSR, and the
    columns' names.

    For a run these are the features that its encoder was given. A file does not say how features
    were encoded: numbers are then taken as they are, and the probe chooses the preprocessing as it
    does for the embeddings. Neither the labels that are probed nor those of the run are features.
    """
    encoding = _encoding(RunFolder(run))
    only = None if encoding.columns is None else [spec.name for spec in encoding.columns]
    table = read_features(
        path,
        leave_out=(*target.names, *encoding.labels),
        only=only,
        id_column=id_column,
        like=rows,
    )
    place = match_rows(rows, table)
    columns = {name: values[place] for name, values in table.columns.items()}
    specs = encoding.columns or tuple(
        fit_column(name, values, standardize=encoding.standardize)
        for name, values in columns.items()
    )
    for name, values in columns.items():
        refuse_label(values, target, name=name, where=table.name)
    encoded = encode_columns(specs, columns)
    numbers = encoded.to_scipy() if isinstance(encoded, SparseMatrix) else encoded.numpy()
    return numbers, list(columns)


# --- measuring ---


def _drawn(target: Target, plan: _Plan) -> list[tuple[Split, ...]]:
    """The splits of every seed; () where the probe makes its own folds."""
    if target.several and plan.kind not in ("linear", "knn", "communities"):
        raise ConfigError(
            f"--kind {plan.kind} needs one class per row, and {len(target.names)} label columns"
            " came. Use linear, knn or communities."
        )
    if plan.kind == "communities" and not target.several:
        raise ConfigError(
            "--kind communities needs a column of 0 and 1 for each community: give --label several"
            " times, or an array [M, K]. For one class per row use clusters."
        )
    if plan.kind not in ("linear", "knn"):
        return [()] * plan.seeds
    num_rows = len(target.values)
    if plan.folds is not None:
        strata = np.zeros(num_rows) if target.several else target.values
        return [
            fold_splits(strata, num_folds=plan.folds, val_ratio=plan.val, seed=seed)
            for seed in range(plan.seeds)
        ]
    return [
        random_splits(
            num_rows, num_splits=plan.splits, train_ratio=plan.train, val_ratio=plan.val, seed=seed
        )
        for seed in range(plan.seeds)
    ]


def _measured(
    representations: Mapping[str, Any],
    target: Target,
    plan: _Plan,
    drawn: Sequence[tuple[Split, ...]],
) -> dict[str, Measured]:
    """Scores by representation."""
    if plan.kind in _SEARCHES:
        return {
            name: _searched(rows, target.values, plan) for name, rows in representations.items()
        }
    measured = {}
    for name, rows in representations.items():
        measured[name] = _by_score(
            [_of_seed(rows, target.values, plan, splits, seed) for seed, splits in enumerate(drawn)]
        )
    if target.several:
        measured[_ZEROS] = _by_score([_all_zeros(target.values, splits) for splits in drawn])
    return measured


def _of_seed(
    rows: Any, labels: Array, plan: _Plan, splits: tuple[Split, ...], seed: int
) -> ProbeResult:
    if plan.kind in _IN_FOLDS:
        return svm_probe(
            rows,
            labels,
            kernel="rbf" if plan.kind == "rbf" else "linear",
            num_folds=plan.folds or 10,
            seed=seed,
        )
    # As cross-validation does: fitted once more on all but the test fold
    refit = plan.folds is not None
    if plan.kind == "knn":
        return knn_probe(
            rows,
            labels,
            splits=splits,
            metric="micro-F1" if labels.ndim == 2 else "accuracy",
            refit=refit,
        )
    return linear_probe(rows, labels, splits=splits, refit=refit)


def _all_zeros(labels: Array, splits: tuple[Split, ...]) -> ProbeResult:
    """What somebody gets who answers no label at all."""
    protocol = Protocol(labels, splits, metric="micro-F1")
    return protocol.final(
        protocol.choose(
            lambda part: Answer(
                Choice("", {}, math.nan),
                np.zeros((len(part.test), labels.shape[1]), dtype=np.int64),
            )
        ),
        selection="Nothing was chosen: every answer is 0.",
    )


def _searched(rows: Any, labels: Array, plan: _Plan) -> Measured:
    """Clusters or communities that were found without labels, and how well they agree with them."""
    seeds, about = range(plan.seeds), Choice("", {"method": _SEARCHES[plan.kind]}, math.nan)
    if plan.kind == "communities":
        overlapping = community_probe(rows, labels, seeds=seeds)
        scores, said = (
            {
                "NMI": overlapping.nmi,
                "F1": overlapping.f1,
                "omega": overlapping.omega,
            },
            overlapping.selection,
        )
    else:
        found = cluster_probe(
            rows, labels, method="spectral" if plan.kind == "spectral" else "kmeans", seeds=seeds
        )
        scores, said = {"NMI": found.nmi, "ARI": found.ari, "ACC": found.acc}, found.selection
    return {
        name: [ProbeResult((value,), (about,), said, name) for value in values]
        for name, values in scores.items()
    }


def _by_score(results: Sequence[ProbeResult]) -> Measured:
    """The same answers under their own score first, then under the others."""
    found = {results[0].metric: list(results)}
    for name in results[0].others:
        found[name] = [
            replace(result, scores=result.others[name], metric=name, others={})
            for result in results
        ]
    return found


# --- telling ---


def _result(
    measured: Mapping[str, Measured], target: Target, plan: _Plan, about: dict[str, Any]
) -> dict[str, Any]:
    first = next(iter(measured[EMBEDDINGS].values()))[0]
    return {
        **about,
        "kind": plan.kind,
        "metric": first.metric,
        "measured_on": plan.words,
        "selection": first.selection,
        "label": list(target.names),
        "rows": len(target.values),
        "sizes": target.sizes,
        **scores_json(measured),
    }


def _report(
    output: Output, measured: Mapping[str, Measured], plan: _Plan, result: dict[str, Any]
) -> None:
    show(output, f"{plan.kind} probe of {result['rows']:,} rows, in %", measured)
    output.say(f"Measured on {plan.words}.")
    output.say(f"How it was selected: {result['selection']}")
    output.result(result)
