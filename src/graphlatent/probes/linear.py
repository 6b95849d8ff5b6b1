"""The linear probe of nodes: logistic regression on frozen rows, everything chosen per split on its
validation rows.

Legend: M rows, D columns, K labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphlatent.data.splits import Split
from graphlatent.errors import InputError, bad_argument
from graphlatent.probes.design import PREPROCESSING, Array, Preprocessing, checked_table
from graphlatent.probes.fitting import Fit, Setting, Tables, answers, best_answers
from graphlatent.probes.protocol import Answer, Protocol, Visible
from graphlatent.probes.results import Choice, ProbeResult

STRENGTHS = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
STRENGTH_RANGE = (1e-8, 1e3)
"""Beyond it float64 does not tell the minimum apart, and nobody needs it: rows have mean squared
norm 1.
"""
SELECTION = (
    "Per split, the {what} with the highest validation {metric}; among equals the one named first,"
    " then the larger strength. The test labels of a split are read once, after its choice."
)
REFITTED = " Then fitted once more on its training and validation rows together."


def linear_probe(
    representation: Any,
    labels: Array | Tensor | Sequence[Any],
    *,
    splits: Sequence[Split],
    strengths: Sequence[float] = STRENGTHS,
    preprocessing: Sequence[Preprocessing] = PREPROCESSING,
    refit: bool = False,
    metric: str | None = None,
    device: torch.device | str = "cpu",
) -> ProbeResult:
    """Test scores of logistic regression on a representation, every setting chosen on validation
    rows of the same split.

    Args:
        representation: one row per node or graph [M, D]: array, tensor, SciPy sparse matrix or
            `SparseMatrix`; or several by name, such as epochs, of which each split chooses one too.
        labels: one class per row [M], numbers or names; or a 0/1 table of several labels per row
            [M, K], each then fitted against the rest.
        splits: which rows train, choose and test; see `graphlatent.data.splits`.
        strengths: L2 strengths to choose from. They are meant for rows of mean squared norm 1, to
            which the training rows are scaled, so the same ones fit any representation.
        preprocessing: ways to prepare the rows to choose from. "none": as they are; "row": each row
            divided by its length; "standard": each column divided by its standard deviation over
            the training rows.
        refit: after the choice, fit once more on training and validation rows together, as
            cross-validation over folds does.
        metric: "accuracy" or "micro-F1"; None is accuracy for classes and micro-F1 for a table of
            labels.
        device: where to compute; in float64.

    Raises:
        ConfigError: where an argument is out of range.
        InputError: where rows, labels and splits do not fit together.
    """
    candidates = as_candidates(representation)
    protocol = Protocol(labels, splits, metric=metric or _usual_metric(labels))
    settings = checked_settings(strengths, preprocessing, owner="linear_probe")
    found = linear_answers(candidates, protocol, settings=settings, refit=refit, device=device)
    return protocol.final(
        best_on_validation(found),
        selection=words(len(found) > 1, protocol.metric) + (REFITTED if refit else ""),
    )


def linear_answers(
    candidates: Mapping[str, Any],
    protocol: Protocol,
    *,
    settings: Sequence[Setting],
    refit: bool = False,
    device: torch.device | str = "cpu",
) -> dict[str, tuple[Answer, ...]]:
    """For every candidate and split the answers under the settings that are best on its validation
    rows.

    Args:
        candidates: representations by name.
        protocol: labels and splits; the test labels stay closed.
        settings: to choose from, the first of equals.
        refit: fit the chosen ones once more on training and validation rows together.
        device: where to compute.
    """
    parts = protocol.visible()
    if any(len(part.val) == 0 for part in parts):
        raise InputError(
            "A split without validation rows leaves nothing to choose settings on. Use svm_probe,"
            " which makes inner folds."
        )
    found = {}
    for name, representation in candidates.items():
        tables = Tables(checked_rows(representation, protocol.num_rows), device)
        fits = [Fit(part.train, part.train_labels, part.val) for part in parts]
        truth = [part.val_labels for part in parts]
        test = [part.test for part in parts]
        best = best_answers(
            tables, fits, truth, settings, test=test, classifier="logistic", metric=protocol.metric
        )
        given = [each.answer for each in best]
        if refit:
            given = answers(
                tables,
                [_whole_fit(part) for part in parts],
                [settings[each.setting] for each in best],
                classifier="logistic",
            )
        choices = [choice_of(name, settings[each.setting], each.score) for each in best]
        found[name] = tuple(
            Answer(choice, predicted) for choice, predicted in zip(choices, given, strict=True)
        )
    return found


def best_on_validation(found: Mapping[str, Sequence[Answer]]) -> tuple[Answer, ...]:
    """For every split the answer of the candidate with the highest validation score there; the
    first of equals.
    """
    return tuple(
        max(of_split, key=lambda answer: answer.choice.val_score)
        for of_split in zip(*found.values(), strict=True)
    )


def as_candidates(representation: Any) -> dict[str, Any]:
    """Representations by name; a single one has the name ""."""
    if not isinstance(representation, Mapping):
        return {"": representation}
    if not representation:
        raise InputError("There is no representation to probe: the mapping is empty.")
    return {str(name): rows for name, rows in representation.items()}


def checked_rows(representation: Any, num_rows: int) -> Any:
    """The representation as a table with one row per label."""
    table = checked_table(representation)
    if table.shape[0] != num_rows:
        raise InputError(
            f"Labels must be one per row of the representation, {table.shape[0]}. Got {num_rows}."
        )
    return table


def checked_settings(
    strengths: Sequence[float], preprocessing: Sequence[Preprocessing], *, owner: str
) -> tuple[Setting, ...]:
    """Every combination, in the order in which equals are preferred: the preprocessing named first,
    then the larger strength.
    """
    least, most = STRENGTH_RANGE
    if len(strengths) == 0 or not all(least <= s <= most for s in strengths):
        raise bad_argument(
            "strengths",
            owner=owner,
            allowed=f"one or more floats in the range [{least:g}, {most:g}]",
            got=strengths,
        )
    if (
        isinstance(preprocessing, str)
        or not preprocessing
        or not set(preprocessing) <= set(PREPROCESSING)
    ):
        raise bad_argument(
            "preprocessing",
            owner=owner,
            allowed=f"one or more of {PREPROCESSING}",
            got=preprocessing,
        )
    return tuple(
        Setting(how, s)
        for how in preprocessing
        for s in sorted(map(float, strengths), reverse=True)
    )


def choice_of(candidate: str, setting: Setting, score: float) -> Choice:
    """A choice in plain values."""
    return Choice(
        candidate,
        {"preprocessing": setting.preprocessing, "strength": setting.strength},
        float(score),
    )


def words(several: bool, metric: str) -> str:
    """How the linear probe selects."""
    what = (
        "representation, preprocessing and L2 strength"
        if several
        else "preprocessing and L2 strength"
    )
    return SELECTION.format(what=what, metric=metric)


def _whole_fit(part: Visible) -> Fit:
    """Training and validation rows together, to answer for the test rows."""
    return Fit(
        np.concatenate([part.train, part.val]),
        np.concatenate([part.train_labels, part.val_labels]),
        part.test,
    )


def _usual_metric(labels: Any) -> str:
    return "micro-F1" if np.ndim(labels) == 2 else "accuracy"
