"""The sentence of advice: which one, with which numbers, and when none."""

from __future__ import annotations

import pytest

from graphlatent.probes.evaluation.advice import advice
from graphlatent.probes.evaluation.comparison import ProbeComparison
from graphlatent.probes.results import Choice, ProbeResult

CLOSE = (0.8, 0.82, 0.81, 0.79)


def compared(metric="accuracy", **scores):
    """A comparison of representations with these scores on four splits."""
    choice = Choice("", {}, 0.5)
    results = {
        name.replace("_", " "): {
            metric: [ProbeResult(tuple(each), (choice,) * len(each), "", metric, {}, "s")]
        }
        for name, each in scores.items()
    }
    return ProbeComparison(results)


def shifted(by, *, noise=0.0):
    return [each + by + noise * (-1) ** i for i, each in enumerate(CLOSE)]


def test_nothing_to_compare_with():
    assert advice(compared(embeddings=CLOSE)) is None


def test_one_score_has_no_uncertainty():
    told = advice(compared(embeddings=[0.8], majority_class=[0.5]))
    assert told.startswith("One score says nothing about uncertainty")


def test_embeddings_that_know_nothing():
    told = advice(
        compared(embeddings=CLOSE, raw_features=shifted(0.1), majority_class=shifted(0.0))
    )
    words = (
        "It is not shown that the embeddings know anything of this label: accuracy 80.5 % of the"
        " embeddings against 80.5 % (difference +0.0, 95 % interval +0.0 to +0.0)"
    )
    assert told == f"{words}; raw features reach 90.5 %."
    assert advice(compared(embeddings=CLOSE, majority_class=shifted(0.0))) == f"{words}."


def test_appended_features_would_help():
    told = advice(
        compared(
            embeddings=CLOSE,
            raw_features=shifted(0.01, noise=0.001),
            raw_features_appended=shifted(0.05, noise=0.01),
            majority_class=shifted(-0.5),
        )
    )
    # By hand: differences 0.06, 0.04, 0.06, 0.04, so 0.05 -+ 3.182 * 0.011547 / 2
    assert told == (
        "Raw features appended would help: accuracy 85.5 % instead of 80.5 % (difference +5.0, 95"
        " % interval +3.2 to +6.8)."
    )


def test_a_baseline_that_is_better():
    told = advice(
        compared(
            embeddings=CLOSE,
            propagated_features=shifted(0.1, noise=0.01),
            raw_features_appended=shifted(0.05, noise=0.01),
            majority_class=shifted(-0.5),
        )
    )
    assert told.startswith("Propagated features are better here: accuracy 90.5 % instead of 80.5")


@pytest.mark.parametrize(
    ("noise", "words"),
    [
        (0.002, "Propagated features are as good here: accuracy 80.5 % of the embeddings ag"),
        (0.05, "Propagated features cannot be told apart from the embeddings on these splits: "),
    ],
)
def test_a_baseline_that_is_as_good_or_cannot_be_told_apart(noise, words):
    told = advice(
        compared(
            embeddings=CLOSE,
            raw_features=shifted(-0.2),
            propagated_features=shifted(0.0, noise=noise),
            untrained_encoder=shifted(0.0, noise=noise),
            raw_features_appended=shifted(0.0, noise=noise),
            majority_class=shifted(-0.5),
        )
    )
    assert told.startswith(words)


def test_training_that_gained_nothing():
    told = advice(
        compared(
            embeddings=CLOSE,
            raw_features=shifted(-0.2),
            untrained_encoder=shifted(0.0, noise=0.002),
            majority_class=shifted(-0.5),
        )
    )
    assert told.startswith("The untrained encoder is as good here, so training has gained nothing")


def test_embeddings_that_are_better_than_all():
    told = advice(
        compared(
            embeddings=CLOSE,
            raw_features=shifted(-0.2, noise=0.01),
            propagated_features=shifted(-0.1, noise=0.01),
            majority_class=shifted(-0.5),
        )
    )
    assert told.startswith(
        "The embeddings are better than each baseline; the nearest is propagated features:"
        " accuracy 80.5 % of the embeddings against 70.5 % (difference +10.0, 95 % interval"
    )
    alone = advice(compared(embeddings=CLOSE, majority_class=shifted(-0.5)))
    assert alone.startswith("The embeddings are better than the majority class: accuracy 80.5 %")


def test_of_an_error_the_lower_is_the_better():
    told = advice(
        compared(
            "MAE",
            embeddings=CLOSE,
            raw_features_appended=shifted(-0.2, noise=0.01),
            training_mean=shifted(1.0),
        )
    )
    assert told.startswith("Raw features appended would help: MAE 0.605 instead of 0.805 (diffe")
    assert "difference -0.200, 95 % interval -0.218 to -0.182" in told


def test_of_baselines_that_cannot_be_told_apart_the_nearest_is_named():
    told = advice(
        compared(
            embeddings=CLOSE,
            raw_features=shifted(-0.04, noise=0.05),
            untrained_encoder=shifted(0.01, noise=0.05),
            majority_class=shifted(-0.5),
        )
    )
    assert told.startswith("The untrained encoder cannot be told apart from the embeddings on th")
