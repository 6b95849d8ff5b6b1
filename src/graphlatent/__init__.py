"""Embeddings of nodes and graphs without labels, by latent graph prediction (LaGraph, ICML 2022).

>>> from graphlatent import NodeLaGraph
>>> embeddings = NodeLaGraph().fit_transform((edge_index, x))               # doctest: +SKIP
"""

# Before anything allocates: torch reads this setting once.
from graphlatent.ops.memory import ask_for_huge_pages

ask_for_huge_pages()

from graphlatent._version import __version__
from graphlatent.data.datasets import load_dataset
from graphlatent.data.graph import GraphData
from graphlatent.data.readers.options import TableOptions
from graphlatent.data.readers.read import read_graphs
from graphlatent.embedding import Embeddings
from graphlatent.errors import GraphLatentError, GraphLatentWarning
from graphlatent.io.runfolder import RunFolder
from graphlatent.methods.bgrl import NodeBGRL
from graphlatent.methods.dgi import NodeDGI
from graphlatent.methods.lagraph.estimators import GraphLaGraph, NodeLaGraph
from graphlatent.methods.registry import load_estimator

__all__ = [
    "Embeddings",
    "GraphData",
    "GraphLaGraph",
    "GraphLatentError",
    "GraphLatentWarning",
    "NodeBGRL",
    "NodeDGI",
    "NodeLaGraph",
    "RunFolder",
    "TableOptions",
    "__version__",
    "load_dataset",
    "load_estimator",
    "read_graphs",
]
