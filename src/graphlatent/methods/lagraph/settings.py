"""The settings of LaGraph, and its presets.

A preset gives the values of settings that are None: 'plus' is our default, 'paper' the published
formulas, 'released' what the authors' scripts train with.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, TypeAlias

from torch import nn

from graphlatent.config import (
    FROM_PRESET,
    AnySettings,
    Doc,
    Encoder,
    Epochs,
    GraphEmbedding,
    GraphSettings,
    GraphStructure,
    HiddenDim,
    LearningRate,
    NodeEmbedding,
    NodeSettings,
    NodeStructure,
    NumLayers,
    Range,
    Readout,
    ScaleFeatures,
    Settings,
)
from graphlatent.errors import ConfigError, no_effect

Objective: TypeAlias = Literal[
    "cosine", "mse-embed", "mse-output", "ce-embed", "ce-output", "denoise"
]
Preset: TypeAlias = Literal["plus", "paper", "released"]
Size: TypeAlias = Literal["small", "base", "large"]
DecoderLayers: TypeAlias = Annotated[
    int, Range(1, 10_000), Doc("decoder layers; 1 is a linear map")
]
Alpha: TypeAlias = Annotated[float, Range(0), Doc("weight of the invariance term")]
MaskRatio: TypeAlias = Annotated[
    float, Range(0, 1, open_low=True), Doc("share of each graph's nodes that is masked in a step")
]
DropRatio: TypeAlias = Annotated[
    float, Range(0, 0.99), Doc("share that is dropped in the masked view; objective='cosine' only")
]

_PAPER: Mapping[str, Any] = {
    "objective": "mse-embed",
    "mask_ratio": 0.05,
    "mask_value": "noise",
    "loss_reduction": "sum",
    "last_norm": False,
    "output_activation": "none",
    "mask_rounding": "round",
    "variance_weight": 0.0,
    "scale_features": False,
    "structure": "none",
}
_RELEASED: Mapping[str, Any] = {
    **_PAPER,
    "loss_reduction": "mean",
    "last_norm": True,
    "output_activation": "relu",
    "mask_rounding": "floor",
}
_PLUS: Mapping[str, Any] = {
    **_PAPER,
    "objective": "cosine",
    "mask_value": "token",
    "variance_weight": 1.0,
    "scale_features": True,
    "structure": "auto",
}

_PAPER_NODE: Mapping[str, Any] = {
    "hidden_dim": 512,
    "num_layers": 2,
    "decoder_layers": 1,
    "alpha": 2.0,
    "embedding": "encoder",
    "epochs": 200,
    "lr": 1e-3,
}
_PAPER_GRAPH: Mapping[str, Any] = {
    "hidden_dim": 128,
    "num_layers": 3,
    "decoder_layers": 2,
    "alpha": 10.0,
    "readout": "sum",
    "embedding": "readout",
    "epochs": 10,
    "lr": 1e-4,
}
NODE_PRESETS: Mapping[str, Mapping[str, Any]] = {
    "paper": {**_PAPER, **_PAPER_NODE},
    "released": {**_RELEASED, **_PAPER_NODE},
    "plus": {
        **_PLUS,
        **_PAPER_NODE,
        "alpha": 0.0,
        "mask_ratio": 0.75,
        "embedding": "combined",
        "epochs": 100,
    },
}
GRAPH_PRESETS: Mapping[str, Mapping[str, Any]] = {
    "paper": {**_PAPER, **_PAPER_GRAPH},
    "released": {**_RELEASED, **_PAPER_GRAPH},
    "plus": {
        **_PLUS,
        "hidden_dim": 256,
        "num_layers": 3,
        "decoder_layers": 1,
        "alpha": 0.0,
        "mask_ratio": 0.5,
        "readout": "root",
        "embedding": "combined",
        "epochs": 20,
        "lr": 5e-4,
    },
}
SMALL_GRAPH = 5_000
"""Nodes up to which the default is narrower and has no variance term.

By accuracy on parts of Photo, Computers and CS with 2,700 to 4,000 nodes (docs/defaults.md).
"""
_SMALL_WIDTH = 256
LARGE_GRAPH = 50_000
"""Nodes beyond which the default is narrower and shorter, so that training ends in minutes."""
PIECE_STEPS = 500
"""Steps after which the default ends on pieces that cover the graph, but for the last epoch.

An epoch there sees every node once. At least one is done.
"""
# Epochs times nodes of the default for larger graphs, and the smallest number of epochs.
_NODE_EPOCHS, _LEAST_EPOCHS = 3_000_000, 10

# What the sizes change of 'plus'.
NODE_SIZES: Mapping[str, Mapping[str, Any]] = {
    "small": {"hidden_dim": 128},
    "base": {},
    "large": {"hidden_dim": 1024, "epochs": 300},
}
GRAPH_SIZES: Mapping[str, Mapping[str, Any]] = {
    "small": {"hidden_dim": 64},
    "base": {},
    "large": {"hidden_dim": 512, "epochs": 40},
}


@dataclass(kw_only=True, eq=False, repr=False)
class LaGraphSettings(Settings):
    """Settings of LaGraph at both levels; None means the preset's value."""

    preset: Annotated[
        Preset,
        Doc(
            "'plus': our default; 'paper': the published formulas; 'released': what the authors'"
            " scripts train with"
        ),
    ] = "plus"
    size: Annotated[
        Size,
        Doc(
            "of preset='plus': 'small' is faster and narrower, 'large' slower and wider; 'base' has"
            " width 256 up to 5,000 nodes, and above 50,000 that and the epochs of 'small'"
        ),
    ] = "base"
    scale_features: ScaleFeatures = FROM_PRESET
    decoder: Annotated[
        Literal["mlp", "gnn"], Doc("'mlp'; at graph level also 'gnn', with the encoder's layers")
    ] = "mlp"
    decoder_layers: DecoderLayers = FROM_PRESET
    objective: Annotated[
        Objective,
        Doc(
            "'cosine': the terms with the weights below; others: reconstruction and invariance of"
            " the paper, 'denoise' the denoising autoencoder"
        ),
    ] = FROM_PRESET
    reconstruction_weight: Annotated[
        float, Range(0), Doc("'cosine': weight of all nodes' reconstruction from the plain view")
    ] = 1.0
    masked_weight: Annotated[
        float, Range(0), Doc("'cosine': weight of masked nodes' reconstruction from their view")
    ] = 1.0
    latent_weight: Annotated[
        float, Range(0), Doc("'cosine': weight of the prediction of masked nodes' embeddings")
    ] = 1.0
    variance_weight: Annotated[
        float, Range(0), Doc("'cosine': weight of the embedding's variance and covariance term")
    ] = FROM_PRESET
    momentum: Annotated[
        float | None,
        Range(0, 1),
        Doc("'cosine': embeddings are predicted of a moving average of the encoder; None: of it"),
    ] = None
    alpha: Alpha = FROM_PRESET
    invariance_on: Annotated[
        Literal["masked", "all"],
        Doc("rows compared by the invariance term; the theory requires 'masked'"),
    ] = "masked"
    mask_ratio: MaskRatio = FROM_PRESET
    mask_value: Annotated[
        Literal["noise", "zeros", "token", "swap"],
        Doc("features of masked nodes: noise, 0, a learnt row, or those of another node"),
    ] = FROM_PRESET
    noise_std: Annotated[float, Range(0), Doc("standard deviation of the masking noise")] = 0.5
    edge_drop: DropRatio = 0.0
    feature_drop: DropRatio = 0.0
    engine: Annotated[
        Literal["auto", "general"],
        Doc("'auto': the fastest exact path; 'general': two encoder runs, for checking"),
    ] = "auto"
    loss_reduction: Annotated[
        Literal["sum", "mean"] | None,
        Doc("squared norms over features: paper 'sum', released 'mean'"),
    ] = None
    last_norm: Annotated[
        bool | None, Doc("batch norm after the last encoder layer: paper no, released yes")
    ] = None
    output_activation: Annotated[
        Literal["none", "relu"] | None, Doc("after the decoder: paper 'none', released 'relu'")
    ] = None
    mask_rounding: Annotated[
        Literal["round", "floor"] | None,
        Doc("masked nodes: paper 'round', at least 1; released 'floor'"),
    ] = None

    def preset_values(self) -> Mapping[str, Any]:
        """The values of the preset, which replace None."""
        graph_level = isinstance(self, GraphSettings)
        presets = GRAPH_PRESETS if graph_level else NODE_PRESETS
        sizes = GRAPH_SIZES if graph_level else NODE_SIZES
        # An unknown name, or what is none, is refused by the check of the setting itself.
        preset, size = (v if isinstance(v, str) else "" for v in (self.preset, self.size))
        values = presets.get(preset, presets["paper"])
        return {**values, **sizes.get(size, {})} if preset == "plus" else values

    def check_together(self, owner: str) -> None:
        """Raise a `ConfigError` where settings contradict each other."""
        super().check_together(owner)
        if self.size != "base" and self.preset != "plus":
            raise no_effect("size", owner=owner, without="preset='plus'")
        graph_level = isinstance(self, GraphSettings)
        custom = isinstance(self.encoder, nn.Module)
        if self.decoder == "gnn" and not graph_level:
            raise ConfigError(
                f"The 'decoder' parameter of {owner} must be 'mlp': at node level the bound needs a"
                " decoder of row-wise layers."
            )
        if self.decoder == "gnn" and custom:
            raise ConfigError(
                f"decoder='gnn' of {owner} uses the layers of the encoder, so encoder must be"
                " 'gcn' or 'gin'."
            )
        row_wise = self.objective.endswith("-embed") or self.objective == "cosine"
        if self.invariance_on == "all" and graph_level and row_wise:
            raise ConfigError(
                f"invariance_on='all' of {owner} has no meaning for '{self.objective}': a graph's"
                " embedding already pools all nodes. Use 'masked', or an '-output' objective."
            )
        if self.precision == "bf16" and (self.engine == "general" or custom):
            raise ConfigError(
                f"precision='bf16' of {owner} needs a built-in encoder and engine='auto'. Use"
                " 'tf32' or 'fp32'."
            )
        if self.objective.startswith("ce-") and self.output_activation == "relu":
            raise ConfigError(
                f"objective='{self.objective}' of {owner} needs output_activation='none': its"
                " outputs are logits."
            )
        self._check_cosine(owner)

    def _check_cosine(self, owner: str) -> None:
        if self.objective != "cosine":
            if self.edge_drop or self.feature_drop:
                raise ConfigError(
                    f"edge_drop and feature_drop of {owner} need objective='cosine': in the paper"
                    " the views differ in the features of masked nodes only."
                )
            return
        graph_level = isinstance(self, GraphSettings)
        weights = ("reconstruction_weight", "masked_weight", "latent_weight", "alpha")
        if not any(getattr(self, name) > 0 for name in weights):
            raise ConfigError(
                f"{owner} has nothing to learn: {', '.join(weights)} are all 0. Give one of them a"
                " positive value, or use epochs=0 for the random initial encoder."
            )
        if self.output_activation == "relu" or self.decoder == "gnn" or self.last_norm:
            raise ConfigError(
                f"objective='cosine' of {owner} needs decoder='mlp', output_activation='none' and"
                " last_norm=False. Leave them out, or use an objective of the paper."
            )
        if self.edge_drop and graph_level and self.encoder == "gcn":
            raise ConfigError(
                f"edge_drop of {owner} needs encoder='gin' or a module of your own. Got 'gcn'."
            )

    def _with_unset(self: AnySettings, values: Mapping[str, Any]) -> AnySettings:
        """These settings, with the given values where they are None."""
        return replace(self, **{k: v for k, v in values.items() if getattr(self, k) is None})

    @property
    def _small_is_shorter(self) -> bool:
        """Whether size='small' would make training shorter: not where it is as narrow already."""
        sizes = GRAPH_SIZES if isinstance(self, GraphSettings) else NODE_SIZES
        wider = self.hidden_dim is None or self.hidden_dim > sizes["small"]["hidden_dim"]
        return self.preset == "plus" and self.size != "small" and wider


@dataclass(kw_only=True, eq=False, repr=False)
class NodeLaGraphSettings(LaGraphSettings, NodeSettings):
    """Settings of `NodeLaGraph`; docs/defaults.md explains the defaults."""

    encoder: Encoder = "gcn"
    hidden_dim: HiddenDim = FROM_PRESET
    num_layers: NumLayers = FROM_PRESET
    epochs: Epochs = FROM_PRESET
    lr: LearningRate = FROM_PRESET
    embedding: NodeEmbedding = FROM_PRESET
    structure: NodeStructure = FROM_PRESET

    def adapted_to(self, num_nodes: int, *, has_features: bool = True) -> NodeLaGraphSettings:
        """The settings, with the default of a small or large graph where they are None."""
        if self.preset != "plus":
            return self
        values: dict[str, Any] = {}
        if num_nodes <= SMALL_GRAPH:
            values = {"variance_weight": 0.0}
            values |= {"hidden_dim": _SMALL_WIDTH} if self.size == "base" else {}
        # Steps on parts of a fixed size take no longer in a larger graph.
        elif num_nodes > LARGE_GRAPH and self.size != "large" and self.batching != "nodes":
            epochs = max(_LEAST_EPOCHS, _NODE_EPOCHS // num_nodes)
            values = {**NODE_SIZES["small"], "epochs": epochs}
        if self.batching in ("clusters", "neighbors"):
            values["epochs"] = self._epochs_of_pieces(num_nodes)
        return self._with_unset(values)

    def _epochs_of_pieces(self, num_nodes: int) -> int:
        """Epochs with about PIECE_STEPS steps, at least one and at most those of the size."""
        steps = max(1, math.ceil(num_nodes / self.nodes_per_step))
        return min(int(self.preset_values()["epochs"]), max(1, round(PIECE_STEPS / steps)))


@dataclass(kw_only=True, eq=False, repr=False)
class GraphLaGraphSettings(LaGraphSettings, GraphSettings):
    """Settings of `GraphLaGraph`; docs/defaults.md explains the defaults."""

    encoder: Encoder = "gin"
    hidden_dim: HiddenDim = FROM_PRESET
    num_layers: NumLayers = FROM_PRESET
    epochs: Epochs = FROM_PRESET
    lr: LearningRate = FROM_PRESET
    readout: Readout = FROM_PRESET
    embedding: GraphEmbedding = FROM_PRESET
    structure: GraphStructure = FROM_PRESET

    def adapted_to(self, num_nodes: int, *, has_features: bool = True) -> GraphLaGraphSettings:
        """The settings, with the default embedding of graphs without features where it is None.

        Features that are computed from the edges are in the readouts already. Their sums beside
        these gained nothing on IMDB-B and COLLAB and cost accuracy on RDT-B (docs/defaults.md).
        """
        if self.preset != "plus" or has_features or self.feature_weight != 1.0:
            return self
        return self._with_unset({"embedding": "standard"})
