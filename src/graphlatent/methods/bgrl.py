"""BGRL: bootstrapped graph latents (`Thakoor et al. 2022 <https://arxiv.org/abs/2102.06514>`_).

Two views of the graph have some feature columns masked and some edges dropped. From the online
encoder's embedding of a node in one view, a predictor q predicts the embedding of the node in the
other view by the target encoder, a moving average of the online encoder:

    L = 1/N sum_i [ 2 - cos(q(h1_i), t2_i) - cos(q(h2_i), t1_i) ]
    target <- m * target + (1 - m) * online,   m = 1 - (1 - m_0) (cos(pi step / steps) + 1) / 2
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, TypeAlias, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from graphlatent import config
from graphlatent.config import Doc, Level, NodeSettings, Range
from graphlatent.data.batches import Batch, BatchSource, EdgeList, Structure
from graphlatent.data.pieces import PieceSource
from graphlatent.estimator import NodeEstimator
from graphlatent.methods.base import EmbeddedViews, Method, Term
from graphlatent.methods.registry import register
from graphlatent.nn.decoders import linear
from graphlatent.nn.edge_dropout import DroppableMatrix, drop_edges
from graphlatent.nn.encoders import CustomEncoder, GNNEncoder, build_encoder, initialise
from graphlatent.ops.feature_views import MaskedColumns
from graphlatent.ops.sparse import Features

View: TypeAlias = tuple[Features, Structure]
Share: TypeAlias = Annotated[float, Range(0, 1), Doc("share that is dropped in this view")]


@dataclass(kw_only=True, eq=False, repr=False)
class BGRLSettings(NodeSettings):
    """Settings of `NodeBGRL`: those of the paper for Computers, with fewer epochs."""

    hidden_dim: config.HiddenDim = 256
    num_layers: config.NumLayers = 2
    out_dim: Annotated[int, Range(1), Doc("width of the last layer, the embedding")] = 128
    predictor_dim: Annotated[int, Range(1), Doc("width of the predictor's hidden layer")] = 512
    momentum: Annotated[float, Range(0, 1), Doc("of the moving average, in the first step")] = 0.99
    feature_mask_1: Share = 0.2
    feature_mask_2: Share = 0.1
    edge_drop_1: Share = 0.5
    edge_drop_2: Share = 0.4
    epochs: config.Epochs = 1000
    lr: config.LearningRate = 5e-4
    optimizer: config.Optimizer = "adamw"
    weight_decay: config.WeightDecay = 1e-5
    schedule: config.Schedule = "cosine"
    warmup_ratio: config.WarmupRatio = 0.1
    row_normalize: config.RowNormalize = True
    precision: config.Float32Precision = "tf32"


class BGRLModel(nn.Module):
    """Online encoder, predictor, target encoder, and the number of completed steps."""

    def __init__(
        self, encoder: GNNEncoder | CustomEncoder, predictor_dim: int, *, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.encoder, width = encoder, encoder.out_dim
        into, back = linear(width, predictor_dim), linear(predictor_dim, width)
        self.predictor = nn.Sequential(into, nn.PReLU(), back)
        self.target = copy.deepcopy(encoder)
        initialise(self.predictor, generator)
        if isinstance(encoder, GNNEncoder):
            # Weights of its own, as in the authors' code; a user's module starts as a copy.
            initialise(self.target, generator)
        self.target.requires_grad_(False)
        self.register_buffer("steps", torch.zeros((), dtype=torch.float32))


class BGRL(Method[BGRLSettings]):
    """Bootstrapped graph latents."""

    name: ClassVar[str] = "bgrl"
    term_names: tuple[str, ...] = ("view_1", "view_2")
    fixed_shapes: ClassVar[bool] = True
    parallel: ClassVar[bool] = True
    has_views: ClassVar[bool] = True

    def __init__(self, settings: BGRLSettings, *, level: Level) -> None:
        super().__init__(settings, level=level)
        self.steps_per_epoch = settings.steps_per_epoch

    def begin(self, model: nn.Module, source: BatchSource) -> BatchSource:
        """Count the steps of an epoch, for the schedule of the moving average."""
        if isinstance(source, PieceSource):
            self.steps_per_epoch = source.num_steps
        return source

    def build(self, in_dim: int, *, generator: torch.Generator) -> BGRLModel:
        """A newly initialised predictor and encoders with batch norm before every activation."""
        settings, norm = self.settings, {"last_norm": True, "norm_first": True}
        encoder = build_encoder(
            settings,
            in_dim,
            edge_dim=self.edge_dim,
            out_dim=settings.out_dim,
            **norm,
            generator=generator,
        )
        return BGRLModel(encoder, settings.predictor_dim, generator=generator)

    def prepare(self, model: nn.Module, edges: EdgeList) -> Structure:
        """A propagation matrix, or edges with features, from which edges can be dropped."""
        encoder = cast(BGRLModel, model).encoder
        if isinstance(encoder, GNNEncoder) and not encoder.edge_dim:
            return DroppableMatrix.of(edges, kind=encoder.kind)
        return edges

    def step(
        self, model: nn.Module, batch: Batch, *, generator: torch.Generator
    ) -> dict[str, Term]:
        """The two terms of the loss, for two random views."""
        return self.terms(cast(BGRLModel, model), batch, *self._draw_views(batch, generator))

    def views(self, model: nn.Module, batch: Batch, *, generator: torch.Generator) -> EmbeddedViews:
        """The online encoder's embeddings of the graph, and of two random views of it."""
        encoder = cast(BGRLModel, model).encoder
        first, second = (encoder.layers(*v)[-1] for v in self._draw_views(batch, generator))
        if batch.counts is not None:
            first, second = first[batch.counts], second[batch.counts]
        return EmbeddedViews(self.encode(model, batch)[-1], first, second)

    def _draw_views(self, batch: Batch, generator: torch.Generator) -> list[View]:
        s, x, gen = self.settings, batch.x, generator
        views: list[View] = []
        for mask, drop in ((s.feature_mask_1, s.edge_drop_1), (s.feature_mask_2, s.edge_drop_2)):
            keep = torch.rand(x.shape[1], generator=gen, device=x.device) >= mask
            structure = drop_edges(batch.structure, drop, generator=gen)
            views.append((MaskedColumns(x, keep.to(x.dtype)), structure))
        return views

    def terms(self, model: BGRLModel, batch: Batch, view_1: View, view_2: View) -> dict[str, Term]:
        """The two terms of the loss, for given views."""
        with torch.no_grad():
            targets = [model.target.layers(*view)[-1] for view in (view_2, view_1)]
        counts = torch.ones_like(batch.graph_id) if batch.counts is None else batch.counts
        terms = {}
        for name, view, target in zip(self.term_names, (view_1, view_2), targets, strict=True):
            predicted = model.predictor(model.encoder.layers(*view)[-1])
            distance = 1 - functional.cosine_similarity(predicted, target)
            terms[name] = Term((distance * counts).sum(), counts.sum())
        return terms

    @torch.no_grad()
    def after_step(self, model: nn.Module) -> None:
        """Update the moving average of the target encoder."""
        bgrl, settings = cast(BGRLModel, model), self.settings
        share = cast(Tensor, bgrl.steps) / max(settings.epochs * self.steps_per_epoch, 1)
        towards = (1 - settings.momentum) * (torch.cos(math.pi * share) + 1) / 2
        for target, online in zip(bgrl.target.parameters(), bgrl.encoder.parameters(), strict=True):
            target.lerp_(online, towards)
        cast(Tensor, bgrl.steps).add_(1)


@register
@dataclass(kw_only=True, repr=False, eq=False)
class NodeBGRL(BGRLSettings, NodeEstimator):
    """Embeddings of nodes by `BGRL <https://arxiv.org/abs/2102.06514>`_.

    >>> embeddings = NodeBGRL().fit_transform((edge_index, x))                  # doctest: +SKIP

    The momentum follows a schedule over all `epochs`, also in `snapshots`.
    """

    method: ClassVar[type[Method[Any]]] = BGRL
    settings_class: ClassVar[type[config.Settings]] = BGRLSettings
