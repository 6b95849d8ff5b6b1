"""The estimators `NodeLaGraph` and `GraphLaGraph`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
import torch

from graphlatent.config import Settings
from graphlatent.estimator import Array, Estimator, GraphEstimator, NodeEstimator
from graphlatent.methods.base import Method
from graphlatent.methods.lagraph.method import LaGraph
from graphlatent.methods.lagraph.prediction import predict_latent
from graphlatent.methods.lagraph.settings import GraphLaGraphSettings, NodeLaGraphSettings
from graphlatent.methods.registry import register


class _ReconstructMixin(Estimator):
    """The method `reconstruct` of both estimators."""

    def reconstruct(self, X: Any) -> Array:
        """The predicted latent features of every node, D(E(A, X)).

        Args:
            X: one graph or several, as for `transform`.

        Returns:
            float32 [N, F]; logits after a 'ce-' objective.
        """
        batch = self._read_batch(X)
        with torch.no_grad():
            latent = cast(LaGraph, self.method_).reconstruct(self.model_, batch)
        return latent.cpu().numpy().astype(np.float32, copy=False)

    def reconstruction_error(self, X: Any) -> Array:
        """How badly the decoder reconstructs the features of every node, float32 [N].

        It is the error of the objective: 1 - cosine for 'cosine' (NaN where all features are 0),
        the cross-entropy for 'ce-...', and the squared distance otherwise.

        Args:
            X: one graph or several, as for `transform`.
        """
        batch, method = self._read_batch(X), cast(LaGraph, self.method_)
        errors = method.row_errors(self.model_, batch)
        return errors.cpu().numpy().astype(np.float32, copy=False)


class _LatentMixin(Estimator):
    """The method `predict_latent` of the node estimator."""

    def predict_latent(self, X: Any, *, sigma: float | None = None, missing: Any = None) -> Array:
        """Denoised and completed features: the predicted latent features in the units of X.

        Every node is predicted from the others, by the decoder with the node's own features masked,
        and the prediction is combined with these features as the noise deserves. Missing entries
        are predicted from everything that is observed. `features_.names` has the columns' names;
        columns of numbers are in their own units, categories one column each.

        Args:
            X: one graph or several, as for `transform`; with features.
            sigma: standard deviation of the noise in a feature; 0 keeps what is observed and
                fills only what is missing. None estimates it from the similarity of neighbours.
            missing: bool [N, F], True where an entry of the feature matrix is not known; its value
                there is a guess, such as the mean of the column. Missing values of columns of a
                table, which `impute` filled, are known without it.

        Returns:
            float32 [N, F].

        Raises:
            InputError: where the graph has no features, `missing` has another shape, or the noise
                cannot be estimated.
            ConfigError: where `sigma` is negative, or the decoder does not predict features.
        """
        return predict_latent(self, X, sigma=sigma, missing=missing)


@register
@dataclass(kw_only=True, repr=False, eq=False)
class NodeLaGraph(NodeLaGraphSettings, NodeEstimator, _ReconstructMixin, _LatentMixin):
    """Embeddings of nodes by latent graph prediction.

    This is Algorithm 1 of `LaGraph <https://arxiv.org/abs/2202.08333>`_.

    >>> embeddings = NodeLaGraph(epochs=100).fit_transform((edge_index, x))     # doctest: +SKIP
    """

    method: ClassVar[type[Method[Any]]] = LaGraph
    settings_class: ClassVar[type[Settings]] = NodeLaGraphSettings


@register
@dataclass(kw_only=True, repr=False, eq=False)
class GraphLaGraph(GraphLaGraphSettings, GraphEstimator, _ReconstructMixin):
    """Embeddings of whole graphs by latent graph prediction.

    This is Algorithm 2 of `LaGraph <https://arxiv.org/abs/2202.08333>`_.

    >>> embeddings = GraphLaGraph().fit_transform(list_of_graphs)               # doctest: +SKIP
    """

    method: ClassVar[type[Method[Any]]] = LaGraph
    settings_class: ClassVar[type[Settings]] = GraphLaGraphSettings
