"""The settings of LaGraph, with presets for the paper and for the released scripts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias

from torch import nn

from graphlatent.config import (
    Doc,
    Encoder,
    Epochs,
    GraphSettings,
    HiddenDim,
    LearningRate,
    NodeSettings,
    NumLayers,
    Range,
    Settings,
)
from graphlatent.errors import ConfigError

Objective: TypeAlias = Literal["mse-embed", "mse-output", "ce-embed", "ce-output", "denoise"]
Preset: TypeAlias = Literal["paper", "released"]
DecoderLayers: TypeAlias = Annotated[int, Range(1), Doc("decoder layers; 1 is a linear map")]
Alpha: TypeAlias = Annotated[float, Range(0), Doc("weight of the invariance term")]
MaskRatio: TypeAlias = Annotated[
    float, Range(0, 1, open_low=True), Doc("share of each graph's nodes that is masked in a step")
]

PRESETS: Mapping[str, Mapping[str, Any]] = {
    "paper": {
        "loss_reduction": "sum",
        "last_norm": False,
        "output_activation": "none",
        "mask_rounding": "round",
    },
    "released": {
        "loss_reduction": "mean",
        "last_norm": True,
        "output_activation": "relu",
        "mask_rounding": "floor",
    },
}


@dataclass(kw_only=True, eq=False, repr=False)
class LaGraphSettings(Settings):
    """Settings of LaGraph at both levels; None in one of the last four means the preset's value."""

    preset: Annotated[
        Preset,
        Doc("'paper': the published formulas; 'released': what the authors' scripts train with"),
    ] = "paper"
    decoder: Annotated[
        Literal["mlp", "gnn"], Doc("'mlp'; at graph level also 'gnn', with the encoder's layers")
    ] = "mlp"
    decoder_layers: DecoderLayers
    objective: Annotated[
        Objective,
        Doc("reconstruction and invariance terms; 'denoise' is the denoising autoencoder"),
    ] = "mse-embed"
    alpha: Alpha
    invariance_on: Annotated[
        Literal["masked", "all"],
        Doc("rows compared by the invariance term; the theory requires 'masked'"),
    ] = "masked"
    mask_ratio: MaskRatio
    mask_value: Annotated[Literal["noise", "zeros"], Doc("the value of masked features")] = "noise"
    noise_std: Annotated[float, Range(0), Doc("standard deviation of the masking noise")] = 0.5
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
        return PRESETS[self.preset]

    def check_together(self, owner: str) -> None:
        """Raise a `ConfigError` where settings contradict each other."""
        super().check_together(owner)
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
        if self.invariance_on == "all" and graph_level and self.objective.endswith("-embed"):
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


@dataclass(kw_only=True, eq=False, repr=False)
class NodeLaGraphSettings(LaGraphSettings, NodeSettings):
    """Settings of `NodeLaGraph`; docs/defaults.md explains the defaults."""

    encoder: Encoder = "gcn"
    hidden_dim: HiddenDim = 512
    num_layers: NumLayers = 2
    decoder_layers: DecoderLayers = 1
    alpha: Alpha = 2.0
    mask_ratio: MaskRatio = 0.05
    epochs: Epochs = 200
    lr: LearningRate = 1e-3


@dataclass(kw_only=True, eq=False, repr=False)
class GraphLaGraphSettings(LaGraphSettings, GraphSettings):
    """Settings of `GraphLaGraph`; docs/defaults.md explains the defaults."""

    encoder: Encoder = "gin"
    hidden_dim: HiddenDim = 128
    num_layers: NumLayers = 3
    decoder_layers: DecoderLayers = 2
    alpha: Alpha = 10.0
    mask_ratio: MaskRatio = 0.05
    epochs: Epochs = 10
    lr: LearningRate = 1e-4
