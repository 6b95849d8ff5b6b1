"""The model of LaGraph: encoder, decoder, readout, and what the cosine objective adds."""

from __future__ import annotations

import copy
from typing import cast

import torch
from torch import Tensor, nn

from graphlatent.config import GraphSettings
from graphlatent.data.batches import EdgeList, Structure
from graphlatent.errors import ConfigError
from graphlatent.methods.lagraph.settings import LaGraphSettings
from graphlatent.nn.decoders import GNNDecoder, MLPDecoder, linear
from graphlatent.nn.encoders import CustomEncoder, GNNEncoder, Kind, build_encoder, initialise
from graphlatent.nn.readout import readout
from graphlatent.ops.sparse import Features


class LaGraphModel(nn.Module):
    """Encoder E, decoder D and readout R of the paper; see `build_model`.

    The cosine objective adds, where its settings need them, a `predictor` of embeddings, a learnt
    `token` [F] in place of masked features, and a `target`, the moving average of the encoder.
    """

    def __init__(
        self,
        encoder: GNNEncoder | CustomEncoder,
        decoder: MLPDecoder | GNNDecoder,
        *,
        pooling: str = "sum",
        predictor: nn.Sequential | None = None,
        token: nn.Parameter | None = None,
        target: GNNEncoder | CustomEncoder | None = None,
    ) -> None:
        super().__init__()
        self.encoder, self.decoder, self.pooling = encoder, decoder, pooling
        self.predictor, self.token, self.target = predictor, token, target

    def prepare(self, edges: EdgeList) -> Structure:
        """The structure that the encoder propagates with."""
        return self.encoder.prepare(edges)

    def encode(self, x: Features, structure: Structure) -> list[Tensor]:
        """The output of every encoder layer, each [N, H]; the last is H of the paper."""
        return self.encoder.layers(x, structure)

    def decode(self, hidden: Tensor, structure: Structure) -> Tensor:
        """D(H), [N, F]; logits for the cross-entropy objectives."""
        out: Tensor = self.decoder(hidden, structure)
        return out

    def pool(self, layers: list[Tensor], graph_id: Tensor, num_graphs: int) -> Tensor:
        """The pooled layers, concatenated, z = R(H), [B, layers * H]."""
        return readout(layers, graph_id, num_graphs=num_graphs, pooling=self.pooling)


def build_model(
    settings: LaGraphSettings, *, in_dim: int, edge_dim: int = 0, generator: torch.Generator
) -> LaGraphModel:
    """A newly initialised model for features of width `in_dim` and resolved settings.

    Raises:
        ConfigError: where edges have features, `edge_dim`, that encoder or decoder do not use.
    """
    if edge_dim and settings.decoder == "gnn":
        raise ConfigError(
            "decoder='gnn' does not use edge features. Use decoder='mlp', or read the graph without"
            " them (edge_features=[])."
        )
    encoder = build_encoder(
        settings,
        in_dim,
        edge_dim=edge_dim,
        last_norm=bool(settings.last_norm),
        generator=generator,
    )
    depth, relu = settings.decoder_layers, settings.output_activation == "relu"
    decoder: MLPDecoder | GNNDecoder
    if settings.decoder == "gnn":
        decoder = GNNDecoder(
            encoder.out_dim,
            in_dim,
            kind=cast(Kind, settings.encoder),
            num_layers=depth,
            relu_output=relu,
            generator=generator,
        )
    else:
        decoder = MLPDecoder(
            encoder.out_dim, in_dim, num_layers=depth, relu_output=relu, generator=generator
        )
    # The invariance term compares sums or means: the bound needs a linear readout.
    mean = isinstance(settings, GraphSettings) and settings.readout == "mean"
    predictor = token = target = None
    if settings.mask_value == "token":
        token = nn.Parameter(torch.zeros(in_dim, dtype=torch.float32))
    if settings.objective == "cosine" and settings.latent_weight > 0:
        width = encoder.out_dim
        predictor = nn.Sequential(linear(width, width), nn.PReLU(), linear(width, width))
        initialise(predictor, generator)
        if settings.momentum is not None:
            target = copy.deepcopy(encoder).requires_grad_(False)
    return LaGraphModel(
        encoder,
        decoder,
        pooling="mean" if mean else "sum",
        predictor=predictor,
        token=token,
        target=target,
    )
