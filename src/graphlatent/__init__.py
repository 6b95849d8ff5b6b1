"""Embeddings of nodes and graphs without labels, by latent graph prediction (LaGraph)."""

from graphlatent._version import __version__

__all__ = ["__version__"]
