"""The model of LaGraph: encoder, decoder and readout."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from graphlatent.config import GraphSettings
from graphlatent.data.batches import EdgeList, Structure
from graphlatent.methods.lagraph.settings import LaGraphSettings
from graphlatent.nn.decoders import GNNDecoder, MLPDecoder
from graphlatent.nn.encoders import CustomEncoder, GNNEncoder, Kind, build_encoder
from graphlatent.nn.readout import readout
from graphlatent.ops.sparse import Features


class LaGraphModel(nn.Module):
    """Encoder E, decoder D and readout R of the paper; see `build_model`."""

    def __init__(
        self,
        encoder: GNNEncoder | CustomEncoder,
        decoder: MLPDecoder | GNNDecoder,
        *,
        pooling: str = "sum",
    ) -> None:
        super().__init__()
        self.encoder, self.decoder, self.pooling = encoder, decoder, pooling

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
    settings: LaGraphSettings, *, in_dim: int, generator: torch.Generator
) -> LaGraphModel:
    """A newly initialised model for features of width `in_dim` and resolved settings."""
    encoder = build_encoder(
        settings, in_dim, last_norm=bool(settings.last_norm), generator=generator
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
    pooling = settings.readout if isinstance(settings, GraphSettings) else "sum"
    return LaGraphModel(encoder, decoder, pooling=pooling)
