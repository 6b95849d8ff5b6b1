"""Whether training damages the embedding, by measures that need no labels, and what to do then."""

from __future__ import annotations

from dataclasses import dataclass

from graphlatent.config import Settings
from graphlatent.io.history import History

RANK_SHARE = 0.25
"""Collapse: an effective rank below this share of that of the untrained encoder."""
RECOVERED_SHARE = 0.4
"""Collapse: the untrained embedding is recovered to less than this share of what the untrained
encoder's own rows allow. The paper's objective on CS, which gains there, keeps 0.5 of it."""
# Too few rows for a regression: its errors on other rows say nothing about the embedding.
_RECOVERABLE = 0.8


@dataclass(frozen=True)
class Collapse:
    """The first measured epoch with a sign of collapse.

    Args:
        epoch: when it was measured.
        sign: what was measured, in words.
    """

    epoch: int
    sign: str


def find_collapse(history: History, settings: Settings) -> Collapse | None:
    """The first sign of collapse in the diagnostics of a history; None where there is none.

    Recovery is a sign only with the paper's invariance term, which removes features from the
    embedding; other objectives lose some of it where they gain. Nor is it one of a combined
    embedding, which carries the features and their averages beside the encoder's output.
    """
    removes = getattr(settings, "alpha", 0.0) > 0
    carried = getattr(settings, "embedding", "") == "combined"
    measured = history.diagnostics
    ranks, recovered = (measured.get(name, []) for name in ("effective_rank", "recovery"))
    for epoch, rank, recovery in zip(measured.get("epoch", []), ranks, recovered, strict=True):
        if rank < RANK_SHARE * ranks[0]:
            sign = (
                f"its effective rank is {rank:.3g}, {rank / ranks[0]:.0%} of the untrained"
                f" encoder's {ranks[0]:.3g}"
            )
            return Collapse(int(epoch), sign)
        comparable = recovered[0] >= _RECOVERABLE and removes and not carried
        if comparable and recovery < RECOVERED_SHARE * recovered[0]:
            sign = (
                f"a linear map recovers {max(recovery, 0.0):.0%} of the variance of the untrained"
                " encoder's embedding from it"
            )
            return Collapse(int(epoch), sign)
    return None


def collapse_warning(collapse: Collapse, settings: Settings) -> str:
    """The warning about a collapse: what was measured, and which settings to change."""
    after = f"after epoch {collapse.epoch} of {settings.epochs}"
    if settings.on_collapse == "stop":
        outcome = "Training stops, and the weights of the last measurement before are kept."
    else:
        outcome = (
            "on_collapse='stop' ends training there and keeps the weights before it;"
            " on_collapse='ignore' omits this warning."
        )
    return (
        f"Training may be damaging the embedding: {after}, {collapse.sign}. That is no damage where"
        " what is lost was noise; with some labels, compare the scores with those of epochs=0."
        f" {_advice(settings)} {outcome}"
    )


def _advice(settings: Settings) -> str:
    """What to change, as a sentence; settings that the method does not have are left out."""
    ways = [f"a smaller lr (now {settings.lr:g})"]
    alpha = getattr(settings, "alpha", 0.0)
    if alpha:
        ways.append(f"a smaller alpha (now {alpha:g})")
    if getattr(settings, "mask_value", "") == "noise" and settings.noise_std:  # type: ignore[attr-defined]
        noise = settings.noise_std  # type: ignore[attr-defined]
        ways.append(f"noise_std (now {noise:g}) on the scale of the features")
    if getattr(settings, "preset", "plus") != "plus":
        ways.append("preset='plus'")
    return f"Try {', '.join(ways[:-1])} or {ways[-1]}." if len(ways) > 1 else f"Try {ways[0]}."
