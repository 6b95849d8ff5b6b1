"""The model that is trained: an encoder, a decoder and how layers are pooled."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from graphlatent.config import GraphSettings, Settings
from graphlatent.data.batches import EdgeList, Structure
from graphlatent.errors import ConfigError, InputError
from graphlatent.nn.decoders import GNNDecoder, MLPDecoder
from graphlatent.nn.encoders import CustomEncoder, GNNEncoder, Kind
from graphlatent.nn.readout import readout
from graphlatent.ops.sparse import Features


class LaGraphModel(nn.Module):
    """Encoder E, decoder D and readout R of the paper. Built by `build_model`."""

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
        """What the encoder propagates with."""
        return self.encoder.prepare(edges)

    def encode(self, x: Features, structure: Structure) -> list[Tensor]:
        """The output of every encoder layer, each [N, H]; the last is H of the paper."""
        return self.encoder.layers(x, structure)

    def decode(self, hidden: Tensor, structure: Structure) -> Tensor:
        """D(H), [N, F]; logits for the cross-entropy objectives."""
        out: Tensor = self.decoder(hidden, structure)
        return out

    def reconstruct(self, x: Features, structure: Structure, *, decode: bool = False) -> Tensor:
        """D(E(A, X)), [N, F]. Without `decode`, the decoder runs only where it has statistics to
        measure; else H, [N, H].
        """
        hidden = self.encode(x, structure)[-1]
        return self.decode(hidden, structure) if decode or len(self.decoder.norms) else hidden

    def pool(self, layers: list[Tensor], graph_id: Tensor, num_graphs: int) -> Tensor:
        """R(H), z of the paper: pooled layers side by side, [B, layers * H]."""
        return readout(layers, graph_id, num_graphs=num_graphs, how=self.pooling)


def build_model(settings: Settings, *, in_dim: int, generator: torch.Generator) -> LaGraphModel:
    """A freshly initialised model for features of width `in_dim`. `settings` must be resolved."""
    if isinstance(settings.encoder, nn.Module):
        encoder: GNNEncoder | CustomEncoder = CustomEncoder(settings.encoder)
        hidden_dim = _custom_width(encoder, in_dim)
    else:
        hidden_dim = settings.hidden_dim
        encoder = GNNEncoder(
            in_dim,
            kind=settings.encoder,
            hidden_dim=hidden_dim,
            num_layers=settings.num_layers,
            activation=settings.activation,
            last_norm=bool(settings.last_norm),
            generator=generator,
        )
    depth, relu = settings.decoder_layers, settings.output_activation == "relu"
    decoder: MLPDecoder | GNNDecoder
    if settings.decoder == "gnn":
        kind = cast(Kind, settings.encoder)
        decoder = GNNDecoder(
            hidden_dim, in_dim, kind=kind, num_layers=depth, relu_output=relu, generator=generator
        )
    else:
        decoder = MLPDecoder(
            hidden_dim, in_dim, num_layers=depth, relu_output=relu, generator=generator
        )
    pooling = settings.readout if isinstance(settings, GraphSettings) else "sum"
    return LaGraphModel(encoder, decoder, pooling=pooling)


def _custom_width(encoder: nn.Module, in_dim: int) -> int:
    """The width a user's encoder returns, seen by running it once on two linked nodes."""
    parameter = next(encoder.parameters(), None)
    if parameter is None:
        raise ConfigError("The custom encoder has no parameters, so there is nothing to train.")
    x = torch.zeros(2, in_dim, dtype=parameter.dtype, device=parameter.device)
    edges = EdgeList(torch.tensor([[0, 1], [1, 0]], device=x.device), None, 2)
    was_training = encoder.training
    encoder.eval()
    try:
        with torch.no_grad():
            width = int(encoder.layers(x, edges)[-1].shape[1])  # type: ignore[operator]
    except (RuntimeError, ValueError, TypeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"The custom encoder {type(encoder.module).__name__} failed on features of width"
            f" {in_dim}: {error}. It must take (x, edge_index, edge_weight) and accept that width."
        ) from error
    finally:
        encoder.train(was_training)
    return width
