"""The interface of a self-supervised method, and the terms of its loss.

A method builds a model, computes the named terms of its loss in a training step, may update the
model after an optimizer step (moving averages), and encodes. Training, checkpoints, history,
progress bar, plots, estimators, command line and bench use a method through this interface only.
docs/adding_a_method.md is a tutorial.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, Literal, TypeAlias, TypeVar

import torch
from torch import Tensor, nn

from graphlatent.config import Level, Settings
from graphlatent.data.batches import Batch, BatchSource, EdgeList, Structure
from graphlatent.nn.combined_graph_head import CombinedGraphHead
from graphlatent.nn.encoders import GNNEncoder, no_edge_features
from graphlatent.nn.graph_head import GraphHead
from graphlatent.nn.node_head import NodeHead
from graphlatent.nn.norm import BatchNorm
from graphlatent.nn.propagation import as_gcn_matrix
from graphlatent.nn.readout import num_poolings, pooled_features, pooled_magnitude, readout
from graphlatent.ops.collective import all_sum, current
from graphlatent.ops.sparse import SparseMatrix, to_dense


@dataclass(frozen=True, eq=False)
class Term:
    """One named term of a loss, stored as a sum and a count.

    Sums and counts of micro-batches or processes are added before the division, because the root of
    a mean cannot be averaged over parts.

    Args:
        sum: sum of the errors, a scalar with a gradient.
        count: the divisor of the sum; less than 1 counts as 1.
        weight: factor of the term in the loss.
        shape: 'mean' is sum / count, 'root' is its square root.
    """

    sum: Tensor
    count: float | Tensor
    weight: float = 1.0
    shape: Literal["mean", "root"] = "mean"

    @property
    def value(self) -> Tensor:
        """The term before it is multiplied by its weight, a scalar."""
        count = self.count
        mean = self.sum / (count.clamp(min=1) if isinstance(count, Tensor) else max(count, 1.0))
        return safe_sqrt(mean) if self.shape == "root" else mean

    def __add__(self, other: Term) -> Term:
        return replace(self, sum=self.sum + other.sum, count=self.count + other.count)


Terms: TypeAlias = Mapping[str, Term]


@dataclass(frozen=True, eq=False)
class Loss:
    """The weighted sum of the terms, and each term's own value before weighting; scalars."""

    total: Tensor
    values: Mapping[str, Tensor]


def combine(terms: Terms) -> Loss:
    """The loss of terms, whose sums may have been added over micro-batches.

    Those of several processes are added here, so that all have the loss of the rows of all.
    """
    terms = over_processes(terms)
    values = {name: term.value for name, term in terms.items()}
    weighted = [
        value if terms[name].weight == 1.0 else terms[name].weight * value
        for name, value in values.items()
    ]
    total = weighted[0]
    for value in weighted[1:]:
        total = total + value
    return Loss(total, values)


def add_terms(first: Terms, second: Terms) -> dict[str, Term]:
    """The terms of two micro-batches added up."""
    return {name: term + second[name] for name, term in first.items()}


def over_processes(terms: Terms) -> Terms:
    """The terms with sums and counts of all processes, added up in one message in float64."""
    if current() is None:
        return terms
    sums = [term.sum for term in terms.values()]
    counts = [torch.as_tensor(term.count, device=sums[0].device) for term in terms.values()]
    both = all_sum(torch.stack([each.to(torch.float64) for each in (*sums, *counts)]))
    total, count = both[: len(sums)], both[len(sums) :].detach()
    return {
        name: replace(term, sum=total[i].to(term.sum.dtype), count=count[i].to(term.sum.dtype))
        for i, (name, term) in enumerate(terms.items())
    }


def safe_sqrt(value: Tensor) -> Tensor:
    """The square root, with value 0 and gradient 0 at 0."""
    positive = value > 0
    root = torch.sqrt(torch.where(positive, value, torch.ones_like(value)))
    return torch.where(positive, root, torch.zeros_like(value))


@dataclass(frozen=True, eq=False)
class EmbeddedViews:
    """What diagnostics measure of a batch.

    Args:
        rows: the encoder's embeddings without a head, of nodes [N, D] or of graphs [B, D].
        first: embeddings of some nodes in one view, [R, H]; None of a method without two views.
        second: the same nodes in the other view, [R, H].
    """

    rows: Tensor
    first: Tensor | None = None
    second: Tensor | None = None


AnySettings = TypeVar("AnySettings", bound=Settings)


class Method(ABC, Generic[AnySettings]):
    """One self-supervised method with its settings.

    Args:
        settings: resolved settings (`config.resolve`).
        level: what is embedded, 'node' or 'graph'.

    The model that `build` returns must have an attribute `encoder` (nn/encoders.py). State that
    changes in training must be parameters or buffers of the model, so that checkpoints contain it.
    """

    name: ClassVar[str]
    """The method's name on the command line and in recipes."""
    term_names: tuple[str, ...]
    """The names of the terms that `step` returns, in order."""
    fixed_shapes: ClassVar[bool] = False
    """Whether `step` has shapes that do not depend on values, and no host synchronisation."""
    has_views: ClassVar[bool] = False
    """Whether `views` returns the same nodes in two views, which should be embedded alike."""
    parallel: ClassVar[bool] = False
    """Whether several processes may share a step: its terms are sums over rows, or use the sums of
    ops/collective.py where they are not."""
    edge_dim: int = 0
    """Features of an edge, for `build_encoder`; set before `build` is called."""

    def __init__(self, settings: AnySettings, *, level: Level) -> None:
        self.settings, self.level = settings, level

    @abstractmethod
    def build(self, in_dim: int, *, generator: torch.Generator) -> nn.Module:
        """A newly initialised model for features of width `in_dim`, on the CPU in float32."""

    @abstractmethod
    def step(self, model: nn.Module, batch: Batch, *, generator: torch.Generator) -> Terms:
        """The terms of the loss on one batch.

        Args:
            model: in training mode.
            batch: input of the step; where `batch.counts` is given, only those rows count.
            generator: source of all randomness, on the batch's device.
        """

    # Optional methods, with defaults that suit most methods.

    def encode(self, model: nn.Module, batch: Batch) -> list[Tensor]:
        """The output of every encoder layer, each [N, H], from which embeddings are computed."""
        layers: list[Tensor] = model.encoder.layers(  # type: ignore[union-attr, operator]
            batch.x, batch.structure
        )
        return layers

    def embed(self, model: nn.Module, batch: Batch) -> Tensor:
        """The embeddings of a batch: [N, D] of nodes or [B, D] of graphs.

        Args:
            model: in evaluation mode.
            batch: whole graphs; the rows of one do not depend on the others.
        """
        layers, head = self.encode(model, batch), _head(model)
        if self.level == "graph":
            pooled = self._pooled(layers, batch)
            if isinstance(head, CombinedGraphHead):
                return head.forward(_own_features(batch), pooled)
            return head.forward(pooled) if isinstance(head, GraphHead) else pooled
        if isinstance(head, NodeHead):
            matrix = self.smoothing_matrix(model, batch)
            return head.forward(batch.x, matrix, layers[-1], batch.coordinates)
        if getattr(self.settings, "concat_input", False):
            return torch.cat([layers[-1], to_dense(batch.x)], dim=1)
        return layers[-1]

    @torch.no_grad()
    def fit_head(self, model: nn.Module, batch: Batch) -> None:
        """Fit the model's head, where it has one, to the embeddings of the training set.

        Called once after training, when batch-norm statistics have been measured; not for a model
        that has neither a batch norm nor an attribute `head`.

        Args:
            model: in evaluation mode.
            batch: the whole training set.
        """
        head = _head(model)
        if head is None:
            return
        layers, generator = self.encode(model, batch), self.head_generator()
        if isinstance(head, GraphHead):
            head.fit(self._pooled(layers, batch), generator=generator)
        elif isinstance(head, CombinedGraphHead):
            pooled = self._pooled(layers, batch)
            magnitude = pooled_magnitude(batch.x, batch.graph_id, num_graphs=batch.num_graphs)
            head.fit(_own_features(batch), pooled, magnitude=magnitude, generator=generator)
        else:
            matrix = self.smoothing_matrix(model, batch)
            head.fit(batch.x, matrix, layers[-1], batch.coordinates, generator=generator)

    def head_generator(self) -> torch.Generator:
        """The generator that a head is fitted with."""
        # Streams 0 to 2 of the seed are used in training.
        return torch.Generator().manual_seed(self.settings.random_state * 4 + 3)

    def views(self, model: nn.Module, batch: Batch, *, generator: torch.Generator) -> EmbeddedViews:
        """Embeddings for diagnostics; a method with two views returns both and sets `has_views`.

        Args:
            model: as in a step; called without gradients.
            batch: part of the training set, or all of it.
            generator: source of all randomness, on the batch's device.
        """
        return EmbeddedViews(self._embedded(self.encode(model, batch), batch))

    def _embedded(self, layers: list[Tensor], batch: Batch) -> Tensor:
        """The embeddings before any head, of nodes or of graphs."""
        return self._pooled(layers, batch) if self.level == "graph" else layers[-1]

    def smoothing_matrix(self, model: nn.Module, batch: Batch) -> SparseMatrix:
        """The matrix D^-1/2 (A + I) D^-1/2 of a batch, [N, N], for the head of a node embedding."""
        kind = getattr(model.encoder, "kind", None)
        return as_gcn_matrix(batch.structure, kind=kind, dtype=batch.x.dtype)

    def build_with_head(
        self,
        in_dim: int,
        *,
        generator: torch.Generator,
        coordinate_dim: int = 0,
        edge_dim: int = 0,
    ) -> nn.Module:
        """The model that `build` returns, with a head `model.head` where the settings ask for one.

        The head is not fitted yet (`fit_head`).

        Args:
            in_dim: number of features.
            generator: of the initial weights, on the CPU.
            coordinate_dim: number of coordinates that the embedding contains.
            edge_dim: number of features of an edge.

        Raises:
            ConfigError: where edges have features and the encoder does not use them.
        """
        self.edge_dim = edge_dim
        # Also where another default dtype is set, in which modules of torch are built.
        model = self.build(in_dim, generator=generator).to(torch.float32)
        if getattr(model.encoder, "edge_dim", 0) != edge_dim:
            raise no_edge_features(f"The method '{self.name}'")
        settings = self.settings
        kind, dim = getattr(settings, "embedding", ""), getattr(settings, "embedding_dim", None)
        if kind in ("standard", "combined") and hasattr(model, "head"):
            raise TypeError(f"embedding='{kind}' needs the name 'head' of the model of {self.name}")
        feature_weight = getattr(settings, "feature_weight", 1.0)
        if kind in ("standard", "combined") and self.level == "graph":
            poolings = num_poolings(getattr(settings, "readout", "sum"))
            width = poolings * sum(self._layer_widths(model, in_dim))
            model.head = (
                GraphHead(width, embedding_dim=dim)
                if kind == "standard"
                else CombinedGraphHead(
                    2 * in_dim, width, embedding_dim=dim, feature_weight=feature_weight
                )
            )
        elif kind == "combined":
            model.head = NodeHead(
                in_dim,
                self._layer_widths(model, in_dim)[-1],
                embedding_dim=dim,
                feature_weight=feature_weight,
                encoder_weight=getattr(settings, "encoder_weight", 1.0),
                coordinate_dim=coordinate_dim,
            )
        return model

    @torch.no_grad()
    def _layer_widths(self, model: nn.Module, in_dim: int) -> list[int]:
        """The widths of the encoder's layers, found by encoding a graph of two nodes."""
        parameter, was_training = next(model.parameters()), model.training
        device, dtype = parameter.device, parameter.dtype
        attr = torch.zeros(2, self.edge_dim) if self.edge_dim else None
        edges = EdgeList(torch.tensor([[0, 1], [1, 0]]), None, 2, edge_attr=attr)
        structure = self.prepare(model, edges).to(device, dtype)
        x = torch.zeros(2, in_dim, device=device, dtype=dtype)
        graph_id = torch.zeros(2, dtype=torch.int64, device=device)
        batch = Batch(x, structure, graph_id, 1, torch.arange(2, device=device))
        widths = [layer.shape[1] for layer in self.encode(model.eval(), batch)]
        model.train(was_training)
        return widths

    def _pooled(self, layers: list[Tensor], batch: Batch) -> Tensor:
        pooling: str = getattr(self.settings, "readout", "sum")
        return readout(layers, batch.graph_id, num_graphs=batch.num_graphs, pooling=pooling)

    def after_step(self, model: nn.Module) -> None:
        """Update the model after an optimizer step, such as a moving average of its weights."""

    def check_features(self, x: Tensor | SparseMatrix) -> None:
        """Raise an `InputError` where the method does not support these features."""

    def prepare(self, model: nn.Module, edges: EdgeList) -> Structure:
        """The structure that the model propagates with, computed once for fixed edges."""
        structure: Structure = model.encoder.prepare(edges)  # type: ignore[union-attr, operator]
        return structure

    def begin(self, model: nn.Module, source: BatchSource) -> BatchSource:
        """Precompute values that are the same in all steps; called once, before the first step.

        Returns:
            The source of batches to train on: `source`, or one that yields equivalent batches.
        """
        return source

    def chooses_feature_form(self, model: nn.Module) -> bool:
        """Whether features may be converted to dense or sparse, whichever multiplies faster."""
        return isinstance(model.encoder, GNNEncoder)

    def can_capture(self, model: nn.Module) -> bool:
        """Whether a step on a GPU may be captured as a CUDA graph."""
        encoder = model.encoder
        return self.fixed_shapes and isinstance(encoder, GNNEncoder) and not encoder.edge_dim

    def after_epoch(self, values: Mapping[str, float]) -> bool:
        """Inspect an epoch's mean terms; True where later steps are computed differently.

        Captured steps are then captured again. On a GPU it is not called after every epoch.
        """
        return False

    def state(self) -> dict[str, Any]:
        """The state outside the model that a checkpoint must contain, as JSON values."""
        return {}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restore the state that `state` returned."""

    def measure(self, model: nn.Module, batch: Batch) -> None:
        """Run all parts of the model whose batch-norm statistics are used after training."""
        self.encode(model, batch)

    def measured_after(
        self, model: nn.Module
    ) -> tuple[Sequence[BatchNorm], Callable[[Tensor], object]] | None:
        """What `measure` runs on the encoder's last layer, if it is a function of its rows.

        Returns:
            The batch norms in the order in which they run, and the function of the rows [N, H] that
            contains them; None where there are none.
        """
        return None

    def has_own_embedding(self) -> bool:
        """Whether a class computes embeddings, or what they need, in another way than this one."""
        names = ["encode", "embed", "fit_head", "smoothing_matrix"]
        # The other half of `measure` on rows.
        if type(self).measured_after is Method.measured_after:
            names.append("measure")
        return any(getattr(type(self), name) is not getattr(Method, name) for name in names)


def _head(model: nn.Module) -> GraphHead | CombinedGraphHead | NodeHead | None:
    head = getattr(model, "head", None)
    return head if isinstance(head, GraphHead | CombinedGraphHead | NodeHead) else None


def _own_features(batch: Batch) -> Tensor:
    return pooled_features(batch.x, batch.graph_id, num_graphs=batch.num_graphs)
