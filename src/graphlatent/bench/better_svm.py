"""The better of the linear and the RBF SVM, by their scores in inner folds.

Both SVMs of a row are probed in the same outer folds, and choose in the same inner folds of each
training part. So an outer fold can also choose between them, without a look at its test labels:
from predictions where a row is measured, and from the scores and choices of a record where it was
measured without that.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from graphlatent.probes.protocol import SplitPrediction
from graphlatent.probes.results import Choice, ProbeResult

LINEAR, RBF, BETTER = "linear", "rbf", "svm"
"""First parts of the names of results: "linear/validation", "rbf/validation", "svm/validation"."""
BETTER_SELECTION = (
    "Per outer fold, the linear or the RBF SVM, whichever has the higher mean accuracy over the"
    " inner folds of its training part; the linear one among equals. Each of them is selected as in"
    " its own line."
)


def better_predictions(
    linear: Sequence[SplitPrediction], rbf: Sequence[SplitPrediction]
) -> tuple[SplitPrediction, ...]:
    """For every outer fold the prediction of the SVM that is better in its inner folds."""
    return tuple(
        replace(second, choice=_named(second.choice, RBF))
        if _prefers_rbf(first.choice, second.choice)
        else replace(first, choice=_named(first.choice, LINEAR))
        for first, second in zip(linear, rbf, strict=True)
    )


def better_result(linear: ProbeResult, rbf: ProbeResult) -> ProbeResult | None:
    """The same from results; None where they are of other splits, or a choice has no score.

    The choice looks at the scores in inner folds alone, not at those of the test folds.
    """
    choices = (*linear.choices, *rbf.choices)
    comparable = (linear.splits, linear.metric, len(linear.choices)) == (
        rbf.splits,
        rbf.metric,
        len(rbf.choices),
    )
    if not comparable or any(math.isnan(choice.val_score) for choice in choices):
        return None
    of_rbf = [_prefers_rbf(*pair) for pair in zip(linear.choices, rbf.choices, strict=True)]
    chosen = [rbf if second else linear for second in of_rbf]
    return ProbeResult(
        tuple(each.scores[k] for k, each in enumerate(chosen)),
        tuple(
            _named(each.choices[k], RBF if each is rbf else LINEAR) for k, each in enumerate(chosen)
        ),
        BETTER_SELECTION,
        linear.metric,
        {
            name: tuple(each.others[name][k] for k, each in enumerate(chosen))
            for name in linear.others
            if name in rbf.others
        },
        linear.splits,
    )


def with_better_svm(results: Mapping[str, ProbeResult]) -> dict[str, ProbeResult]:
    """The results, and the better of "linear/NAME" and "rbf/NAME" where only these are there."""
    found = dict(results)
    for name, linear in results.items():
        probe, _, selection = name.partition("/")
        other, better = f"{RBF}/{selection}", f"{BETTER}/{selection}"
        if probe == LINEAR and other in results and better not in results:
            made = better_result(linear, results[other])
            found |= {} if made is None else {better: made}
    return found


def _prefers_rbf(linear: Choice, rbf: Choice) -> bool:
    # Rounded, because the linear SVM's scores are: the last digits of a mean must not decide.
    return round(rbf.val_score, 12) > round(linear.val_score, 12)


def _named(choice: Choice, kernel: str) -> Choice:
    return replace(choice, settings={**choice.settings, "kernel": kernel})
