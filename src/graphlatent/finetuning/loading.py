"""Classifiers by level, and out of folders."""

from __future__ import annotations

from pathlib import Path

from graphlatent.finetuning.classifier import GraphLaGraphClassifier, NodeLaGraphClassifier
from graphlatent.io.runfolder import RunFolder


def load_classifier(
    folder: str | Path, *, device: str | None = None
) -> NodeLaGraphClassifier | GraphLaGraphClassifier:
    """The fitted classifier in a folder, of nodes or of graphs.

    Args:
        folder: that `save` or `graphlatent finetune` wrote.
        device: as in `FineTunedClassifier.load`.
    """
    return classifier_class(str(RunFolder(folder).read_config().level)).load(folder, device=device)


def classifier_class(level: str) -> type[NodeLaGraphClassifier] | type[GraphLaGraphClassifier]:
    """The classifier of a level, 'node' or 'graph'."""
    return NodeLaGraphClassifier if level == "node" else GraphLaGraphClassifier
