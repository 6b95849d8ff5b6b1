"""Embeddings of nodes and graphs without labels, by latent graph prediction (LaGraph, ICML 2022).

>>> from graphlatent import NodeLaGraph
>>> embeddings = NodeLaGraph().fit_transform((edge_index, x))               # doctest: +SKIP
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

# Before anything allocates: torch reads this setting once.
from graphlatent.ops.memory import ask_for_huge_pages

ask_for_huge_pages()

from graphlatent._version import __version__

if TYPE_CHECKING:
    from graphlatent.data.datasets import load_dataset
    from graphlatent.data.graph import GraphData
    from graphlatent.data.readers.options import TableOptions
    from graphlatent.data.readers.read import read_graphs
    from graphlatent.embedding import Embeddings
    from graphlatent.errors import GraphLatentError, GraphLatentWarning
    from graphlatent.finetuning.classifier import GraphLaGraphClassifier, NodeLaGraphClassifier
    from graphlatent.finetuning.loading import load_classifier
    from graphlatent.io.runfolder import RunFolder
    from graphlatent.methods.bgrl import NodeBGRL
    from graphlatent.methods.dgi import NodeDGI
    from graphlatent.methods.lagraph.estimators import GraphLaGraph, NodeLaGraph
    from graphlatent.methods.registry import load_estimator
    from graphlatent.probes.evaluation.probe import probe
    from graphlatent.probes.training_probe import TrainingProbe
    from graphlatent.saved import read_embeddings
    from graphlatent.training.selection import choose_run

__all__ = [
    "Embeddings",
    "GraphData",
    "GraphLaGraph",
    "GraphLaGraphClassifier",
    "GraphLatentError",
    "GraphLatentWarning",
    "NodeBGRL",
    "NodeDGI",
    "NodeLaGraph",
    "NodeLaGraphClassifier",
    "RunFolder",
    "TableOptions",
    "TrainingProbe",
    "__version__",
    "choose_run",
    "load_classifier",
    "load_dataset",
    "load_estimator",
    "probe",
    "read_embeddings",
    "read_graphs",
]

# Imported when they are first asked for, since torch and scikit-learn take two seconds.
_HOMES = {
    "Embeddings": "embedding",
    "GraphData": "data.graph",
    "GraphLaGraph": "methods.lagraph.estimators",
    "GraphLaGraphClassifier": "finetuning.classifier",
    "GraphLatentError": "errors",
    "GraphLatentWarning": "errors",
    "NodeBGRL": "methods.bgrl",
    "NodeDGI": "methods.dgi",
    "NodeLaGraph": "methods.lagraph.estimators",
    "NodeLaGraphClassifier": "finetuning.classifier",
    "RunFolder": "io.runfolder",
    "TableOptions": "data.readers.options",
    "TrainingProbe": "probes.training_probe",
    "choose_run": "training.selection",
    "load_classifier": "finetuning.loading",
    "load_dataset": "data.datasets",
    "load_estimator": "methods.registry",
    "probe": "probes.evaluation.probe",
    "read_embeddings": "saved",
    "read_graphs": "data.readers.read",
}
_MODULES = [
    "bench",
    "config",
    "data",
    "embedding",
    "errors",
    "estimator",
    "explore",
    "finetuning",
    "io",
    "methods",
    "nn",
    "ops",
    "probes",
    "report",
    "representations",
    "saved",
    "setting_types",
    "theory",
    "training",
    "weisfeiler_lehman",
]


def __getattr__(name: str) -> Any:
    """A public name or a module of the package, imported at its first use."""
    if name in _MODULES:
        return import_module(f"graphlatent.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'graphlatent' has no attribute {name!r}")
    value = getattr(import_module(f"graphlatent.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
