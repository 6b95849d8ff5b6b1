"""The method LaGraph: mask, encode both views, reconstruct and compare (Algorithms 1 and 2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, cast

import torch
from torch import Tensor, nn

from graphlatent.config import GraphSettings, Level
from graphlatent.data.batches import (
    Batch,
    BatchSource,
    EdgeList,
    FullBatches,
    GraphBatches,
    Structure,
    WholeSource,
)
from graphlatent.data.pieces import PieceSource
from graphlatent.data.pieces.sample import sampled_rows, similarity_sample
from graphlatent.methods.base import EmbeddedViews, Method, Term
from graphlatent.methods.lagraph.fast import Engine, both_views, choose_engine, compute_terms
from graphlatent.methods.lagraph.masking import MaskedView, draw_mask, mask_slots, num_masked
from graphlatent.methods.lagraph.model import LaGraphModel, build_model
from graphlatent.methods.lagraph.objective import check_features, mean_sq_norm, term_names
from graphlatent.methods.lagraph.padded import PaddedBatch, PaddedBatches
from graphlatent.methods.lagraph.precomputed import EMPTY_CACHE, Precomputed, precompute
from graphlatent.methods.lagraph.reconstruction import SAFE_RATIO
from graphlatent.methods.lagraph.row_errors import row_errors
from graphlatent.methods.lagraph.settings import LaGraphSettings
from graphlatent.methods.lagraph.views import Dropped, draw_dropped
from graphlatent.nn.decoders import MLPDecoder
from graphlatent.nn.edge_dropout import DroppableMatrix
from graphlatent.nn.encoders import GNNEncoder
from graphlatent.nn.norm import BatchNorm
from graphlatent.nn.propagation import as_gcn_matrix
from graphlatent.nn.similarity import NeighbourSimilarity, feature_similarity
from graphlatent.ops.collective import current, mean_of_processes
from graphlatent.ops.kernels import usable
from graphlatent.ops.sparse import SparseMatrix


class LaGraph(Method[LaGraphSettings]):
    """Latent graph prediction (`Xie, Xu and Ji 2022 <https://arxiv.org/abs/2202.08333>`_)."""

    name: ClassVar[str] = "lagraph"
    has_views: ClassVar[bool] = True
    parallel: ClassVar[bool] = True

    def __init__(self, settings: LaGraphSettings, *, level: Level) -> None:
        super().__init__(settings, level=level)
        self.term_names = term_names(settings)
        self.engine: Engine | None = None
        self.source: BatchSource | None = None
        self.cache: Precomputed = EMPTY_CACHE
        self.scale = 0.0
        # The settings with the weights of the terms that `begin` adapts to the training set.
        self.step_settings = settings

    def build(self, in_dim: int, *, generator: torch.Generator) -> LaGraphModel:
        """A newly initialised encoder, decoder and readout."""
        return build_model(
            self.settings, in_dim=in_dim, edge_dim=self.edge_dim, generator=generator
        )

    def check_features(self, x: Tensor | SparseMatrix) -> None:
        """Raise an `InputError` where the objective does not support these features."""
        check_features(x, self.settings)

    def reconstruct(self, model: nn.Module, batch: Batch) -> Tensor:
        """The predicted latent features D(E(A, X)), [N, F]."""
        lagraph = cast(LaGraphModel, model)
        return lagraph.decode(self.encode(lagraph, batch)[-1], batch.structure)

    def row_errors(self, model: nn.Module, batch: Batch) -> Tensor:
        """How badly the features of every node are reconstructed, [N]."""
        hidden = self.encode(model, batch)[-1]
        return row_errors(cast(LaGraphModel, model), batch, hidden, self.settings)

    def measure(self, model: nn.Module, batch: Batch) -> None:
        """Run the encoder and, where it has batch norm, the decoder."""
        hidden = self.encode(model, batch)[-1]
        lagraph = cast(LaGraphModel, model)
        if len(lagraph.decoder.norms):
            lagraph.decode(hidden, batch.structure)

    def measured_after(
        self, model: nn.Module
    ) -> tuple[Sequence[BatchNorm], Callable[[Tensor], object]] | None:
        """The decoder, where it has batch norm."""
        decoder = cast(LaGraphModel, model).decoder
        if not isinstance(decoder, MLPDecoder) or not len(decoder.norms):
            return None
        return [cast(BatchNorm, norm) for norm in decoder.norms], decoder.body

    def step(
        self, model: nn.Module, batch: Batch, *, generator: torch.Generator
    ) -> dict[str, Term]:
        """The terms of the objective for a random mask."""
        lagraph, cache = cast(LaGraphModel, model), self._cache_of(batch)
        mask, dropped = self._draw(lagraph, batch, cache, generator)
        engine = self._engine(lagraph)
        return compute_terms(lagraph, batch, mask, self.step_settings, engine, cache, dropped)

    def views(self, model: nn.Module, batch: Batch, *, generator: torch.Generator) -> EmbeddedViews:
        """The embeddings of the plain view, and the masked nodes' last layer in both views."""
        lagraph, cache = cast(LaGraphModel, model), self._cache_of(batch)
        mask, dropped = self._draw(lagraph, batch, cache, generator)
        views = both_views(lagraph, batch, mask, self._engine(lagraph), cache, dropped)
        masked = views.masked_rows
        if masked is None:
            masked = views.masked[-1][mask.rows]
        rows = self._embedded(views.plain, batch)
        return EmbeddedViews(rows, views.plain[-1][mask.rows], masked)

    def _draw(
        self,
        model: LaGraphModel,
        batch: Batch,
        cache: Precomputed,
        generator: torch.Generator,
    ) -> tuple[MaskedView, Dropped | None]:
        """A random mask, and what else the masked view lacks."""
        mask = draw_mask(
            batch,
            self.settings,
            generator=generator,
            slots=cache.mask_slots,
            token=model.token,
            limit=cache.limit,
        )
        return mask, draw_dropped(batch, self.settings, generator=generator)

    @torch.no_grad()
    def after_step(self, model: nn.Module) -> None:
        """Update the moving average of the encoder, where embeddings are predicted of one."""
        lagraph = cast(LaGraphModel, model)
        if lagraph.target is None:
            return
        assert self.settings.momentum is not None
        pairs = zip(lagraph.target.parameters(), lagraph.encoder.parameters(), strict=True)
        for target, online in pairs:
            target.lerp_(online, 1 - self.settings.momentum)

    def prepare(self, model: nn.Module, edges: EdgeList) -> Structure:
        """The propagation matrix; one from which edges can be dropped where they are."""
        encoder = cast(LaGraphModel, model).encoder
        built_in = isinstance(encoder, GNNEncoder) and not encoder.edge_dim
        if self.settings.edge_drop and self.level == "node" and built_in:
            return DroppableMatrix.of(edges, kind=cast(GNNEncoder, encoder).kind)
        return encoder.prepare(edges)

    # The fast path.

    def chooses_feature_form(self, model: nn.Module) -> bool:
        """True where the masked view is computed from the plain one."""
        return self._engine(cast(LaGraphModel, model)).share

    def can_capture(self, model: nn.Module) -> bool:
        """True where both views are computed together and no N x F output is decoded."""
        engine, settings = self._engine(cast(LaGraphModel, model)), self.settings
        # The features of other nodes have a number of stored values that depends on the draw.
        fixed = settings.mask_value != "swap"
        return engine.share and fixed and (engine.form != "output" or self._cosine)

    @property
    def _cosine(self) -> bool:
        return self.settings.objective == "cosine"

    def begin(self, model: nn.Module, source: BatchSource) -> BatchSource:
        """Precompute norms and products of the features; on a GPU, pad mini-batches of graphs.

        Of pieces nothing is kept but numbers that a sample of the graph is enough for.
        """
        settings, self.source = self.settings, source
        engine = self._engine(cast(LaGraphModel, model))
        if isinstance(source, PieceSource):
            self._begin_pieces(source, engine)
            return source
        everything = cast(WholeSource, source).everything
        self._adapt_variance_weight(model, everything)
        if settings.engine == "general":
            return source
        self.cache = precompute(everything, dtype=engine.dtype)
        if engine.form != "output":
            self.scale = mean_sq_norm(everything, settings, self.cache)
        if self.cache.x_aligned is not None:
            width = everything.x.shape[1]
            everything = replace(everything, x=self.cache.x_aligned[:, :width])
        if isinstance(source, FullBatches):
            slots = mask_slots(everything.graph_size, settings)
            self.cache = replace(self.cache, mask_slots=slots)
            self.source = FullBatches(everything, steps_per_epoch=source.steps_per_epoch)
        elif isinstance(source, GraphBatches):
            self.source = self._graph_source(everything, source, engine)
        return self.source

    def _begin_pieces(self, source: PieceSource, engine: Engine) -> None:
        """What `begin` computes, from a sample of the rows of a graph, or of all its shards."""
        share = source.graph.share
        if self._adapts_variance_weight:
            generator = self._similarity_generator()
            degrees = getattr(source, "degrees", None)
            sample = similarity_sample(source.graph, generator=generator, degrees=degrees)
            matrix = as_gcn_matrix(sample.edges, kind=None, dtype=sample.x.dtype)
            if share is not None:
                # In the same state in all processes, however much the samples took.
                generator = self._similarity_generator()
            similarity = feature_similarity(
                sample.x, matrix, generator=generator, shared=share is not None
            )
            degree = similarity.degree if sample.degree is None else sample.degree
            if share is not None:
                degree = mean_of_processes(degree, weight=source.graph.num_nodes)
            self._weigh_variance(replace(similarity, degree=degree))
        if engine.form != "output":
            x = sampled_rows(source.graph)
            rows = torch.zeros(x.shape[0], dtype=torch.int64)
            batch = Batch(x, EdgeList(rows.new_zeros(2, 0), None, len(rows)), rows, 1, rows)
            self.scale = mean_sq_norm(batch, self.settings, EMPTY_CACHE)
            if share is not None:
                self.scale = mean_of_processes(self.scale, weight=source.graph.num_nodes)

    def _adapt_variance_weight(self, model: nn.Module, everything: Batch) -> None:
        """Lower the variance term's weight where averages over neighbours are mostly noise."""
        if self._adapts_variance_weight:
            matrix = self.smoothing_matrix(model, everything)
            generator = self._similarity_generator()
            self._weigh_variance(feature_similarity(everything.x, matrix, generator=generator))

    @property
    def _adapts_variance_weight(self) -> bool:
        """Only for the embedding of preset='plus' at node level, in which that was measured."""
        return self.settings.combines_nodes and self.settings.variance_weight > 0

    def _similarity_generator(self) -> torch.Generator:
        return torch.Generator().manual_seed(self.settings.random_state * 4 + 3)

    def _weigh_variance(self, similarity: NeighbourSimilarity) -> None:
        weight = similarity.variance_share * self.settings.variance_weight
        self.step_settings = replace(self.settings, variance_weight=weight)

    def _graph_source(
        self, everything: Batch, source: GraphBatches, engine: Engine
    ) -> GraphBatches | PaddedBatches:
        settings = self.settings
        dense = isinstance(everything.x, Tensor) and engine.share
        padded = dense and engine.form != "output" and settings.objective in ("mse-embed", "cosine")
        # Steps that several processes share are not captured, and need no fixed shapes.
        if not padded or not usable(everything.graph_id) or current() is not None:
            return GraphBatches(everything, source.ptr, batch_size=source.batch_size)
        ptr, rounding = source.ptr, str(settings.mask_rounding)
        return PaddedBatches(
            everything,
            self.cache,
            ptr,
            batch_size=source.batch_size,
            num_masked=num_masked(torch.diff(ptr), ratio=settings.mask_ratio, rounding=rounding),
            mask_ratio=settings.mask_ratio,
        )

    def _cache_of(self, batch: Batch) -> Precomputed:
        """The precomputed values of a batch of this run's source."""
        if isinstance(batch, PaddedBatch):
            return batch.cache
        if isinstance(self.source, PieceSource):
            return EMPTY_CACHE
        if self.source is None or batch is cast(WholeSource, self.source).everything:
            return self.cache
        return self.cache.rows(batch.node_id, whole_graphs=isinstance(self.settings, GraphSettings))

    def _engine(self, model: LaGraphModel) -> Engine:
        if self.engine is None:
            self.engine = choose_engine(model, self.settings)
        return self.engine

    def after_epoch(self, values: Mapping[str, float]) -> bool:
        """Change the form of the reconstruction term where rounding errors require it.

        The Gram identity subtracts almost equal numbers where the reconstruction is very good; then
        residuals are computed in blocks.
        """
        if self._cosine:
            return False
        well_reconstructed = values["reconstruction"] < SAFE_RATIO * self.scale
        return self._set_form("blocks" if well_reconstructed else "gram")

    def state(self) -> dict[str, Any]:
        """The form of the reconstruction term, which `after_epoch` may have changed."""
        return {} if self.engine is None else {"form": self.engine.form}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restore the form of the reconstruction term."""
        self._set_form("blocks" if state.get("form") == "blocks" else "gram")

    def _set_form(self, form: str) -> bool:
        """Switch to 'gram' or 'blocks', unless the form is 'output'; True where it changed."""
        if self.engine is None or self.engine.form in ("output", form):
            return False
        self.engine = replace(self.engine, form="blocks" if form == "blocks" else "gram")
        return True
