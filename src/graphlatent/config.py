"""Every setting of graphlatent, once: name, type, allowed values, default, meaning.

The estimators inherit these dataclasses, so a setting is at the same time a constructor argument, a
key of a TOML file and a key of the command line's `--set`. A value of None in one of the last four
method settings means "what the preset says"; `resolve` fills those in and checks everything. The
classes are not frozen because scikit-learn's `set_params` assigns to them; the rest of the package
only ever sees the checked copy that `resolve` returns, and never changes it.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import numbers
import types
from collections.abc import Mapping
from dataclasses import dataclass
from typing import (
    Annotated,
    Any,
    Literal,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from torch import nn

from graphlatent.errors import ConfigError, bad_argument

Level: TypeAlias = Literal["node", "graph"]
Objective: TypeAlias = Literal["mse-embed", "mse-output", "ce-embed", "ce-output", "denoise"]
Preset: TypeAlias = Literal["paper", "released"]


@dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`; `open_low` leaves `low` itself out."""

    low: float
    high: float = math.inf
    open_low: bool = False

    def __contains__(self, value: float) -> bool:
        above = value > self.low if self.open_low else value >= self.low
        return above and value <= self.high and math.isfinite(value)

    def __str__(self) -> str:
        right = "inf)" if math.isinf(self.high) else f"{self.high:g}]"
        return f"in the range {'(' if self.open_low else '['}{self.low:g}, {right}"


@dataclass(frozen=True)
class Doc:
    """What a setting means, in one line."""

    text: str


Encoder: TypeAlias = Annotated[
    Literal["gcn", "gin"] | nn.Module,
    Doc("'gcn', 'gin', or your own module: (x, edge_index, edge_weight) -> one row per node"),
]
HiddenDim: TypeAlias = Annotated[int, Range(1), Doc("width of every encoder layer")]
NumLayers: TypeAlias = Annotated[int, Range(1), Doc("encoder layers")]
DecoderLayers: TypeAlias = Annotated[int, Range(1), Doc("decoder layers; 1 is a linear map")]
Alpha: TypeAlias = Annotated[float, Range(0), Doc("weight of the invariance term")]
MaskRatio: TypeAlias = Annotated[
    float, Range(0, 1, open_low=True), Doc("share of each graph's nodes that is masked in a step")
]
Epochs: TypeAlias = Annotated[
    int, Range(0), Doc("passes over the training data; 0 keeps the random initial encoder")
]
LearningRate: TypeAlias = Annotated[float, Range(0, open_low=True), Doc("Adam's learning rate")]


@dataclass(kw_only=True, eq=False, repr=False)
class Settings:
    """What both levels share."""

    preset: Annotated[
        Preset,
        Doc(
            "'paper': the published formulas; 'released': what the authors' scripts compute in"
            " training"
        ),
    ] = "paper"
    encoder: Encoder
    hidden_dim: HiddenDim
    num_layers: NumLayers
    activation: Annotated[
        Literal["auto", "prelu", "relu"], Doc("'auto': PReLU in GCN, ReLU in GIN")
    ] = "auto"
    decoder: Annotated[
        Literal["mlp", "gnn"], Doc("'mlp'; at graph level also 'gnn', layers of the encoder's kind")
    ] = "mlp"
    decoder_layers: DecoderLayers
    objective: Annotated[
        Objective,
        Doc("reconstruction and invariance terms; 'denoise' is the denoising autoencoder"),
    ] = "mse-embed"
    alpha: Alpha
    invariance_on: Annotated[
        Literal["masked", "all"],
        Doc("rows compared by the invariance term; the theory wants 'masked'"),
    ] = "masked"
    mask_ratio: MaskRatio
    mask_value: Annotated[Literal["noise", "zeros"], Doc("what stands in masked rows")] = "noise"
    noise_std: Annotated[float, Range(0), Doc("standard deviation of the masking noise")] = 0.5
    epochs: Epochs
    lr: LearningRate
    weight_decay: Annotated[float, Range(0), Doc("Adam's weight decay")] = 0.0
    schedule: Annotated[
        Literal["none", "cosine"],
        Doc("learning rate: constant, or cosine down to 0 at the last epoch"),
    ] = "none"
    patience: Annotated[
        int | None,
        Range(1),
        Doc("stop after so many epochs without a better training loss; None: never"),
    ] = None
    degree_cap: Annotated[
        int, Range(1), Doc("graphs without features: one-hot degree, counted up to this")
    ] = 128
    standardize: Annotated[
        bool, Doc("numeric table columns to mean 0, variance 1, fixed at fit time")
    ] = True
    symmetrize: Annotated[bool, Doc("read every edge in both directions")] = True
    device: Annotated[
        str, Doc("'auto' (a GPU where there is one), 'cpu', 'cuda', 'cuda:1' ...")
    ] = "auto"
    random_state: Annotated[
        int, Range(0, 2**31 - 1), Doc("seed of initial weights, masks and batches")
    ] = 0
    engine: Annotated[
        Literal["auto", "general"],
        Doc("'auto': the fastest exact way; 'general': two plain runs, for checking"),
    ] = "auto"
    features: Annotated[
        Literal["auto", "dense", "sparse"],
        Doc("how features are multiplied in training; 'auto': the faster way"),
    ] = "auto"
    precision: Annotated[
        Literal["fp32", "tf32", "bf16"],
        Doc(
            "products on a GPU: full float32, TF32, or bfloat16 activations with float32 sums; CPU:"
            " fp32"
        ),
    ] = "tf32"
    progress: Annotated[bool, Doc("show a progress bar (in a terminal)")] = False
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


@dataclass(kw_only=True, eq=False, repr=False)
class NodeSettings(Settings):
    """Settings of `NodeLaGraph`. Why these defaults: docs/defaults.md."""

    encoder: Encoder = "gcn"
    hidden_dim: HiddenDim = 512
    num_layers: NumLayers = 2
    decoder_layers: DecoderLayers = 1
    alpha: Alpha = 2.0
    mask_ratio: MaskRatio = 0.05
    epochs: Epochs = 200
    lr: LearningRate = 1e-3
    batching: Annotated[
        Literal["full", "nodes"],
        Doc("'full': whole graph a step; 'nodes': a random induced subgraph"),
    ] = "full"
    nodes_per_step: Annotated[int, Range(1), Doc("batching='nodes': nodes drawn for a step")] = 5000
    steps_per_epoch: Annotated[int, Range(1), Doc("gradient steps that make an epoch")] = 1
    concat_input: Annotated[
        bool, Doc("append the input features to the embedding, as the paper does")
    ] = False


@dataclass(kw_only=True, eq=False, repr=False)
class GraphSettings(Settings):
    """Settings of `GraphLaGraph`. Why these defaults: docs/defaults.md."""

    encoder: Encoder = "gin"
    hidden_dim: HiddenDim = 128
    num_layers: NumLayers = 3
    decoder_layers: DecoderLayers = 2
    alpha: Alpha = 10.0
    mask_ratio: MaskRatio = 0.05
    epochs: Epochs = 10
    lr: LearningRate = 1e-4
    batch_size: Annotated[int, Range(1), Doc("graphs in a mini-batch")] = 128
    readout: Annotated[Literal["sum", "mean"], Doc("how node rows become one row per graph")] = (
        "sum"
    )


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

AnySettings = TypeVar("AnySettings", bound=Settings)


def settings_class(level: str) -> type[NodeSettings] | type[GraphSettings]:
    """The settings of a level, 'node' or 'graph'."""
    if level not in ("node", "graph"):
        raise bad_argument("level", owner="graphlatent", allowed="'node' or 'graph'", got=level)
    return NodeSettings if level == "node" else GraphSettings


def field_hints(cls: type[Settings]) -> dict[str, Any]:
    """The annotated type of each setting of `cls`, in order."""
    hints = get_type_hints(cls, include_extras=True)
    return {f.name: hints[f.name] for f in dataclasses.fields(cls)}


def describe(cls: type[Settings]) -> list[tuple[str, str, object, str]]:
    """(name, allowed values, default, meaning) of every setting, for help pages."""
    rows = []
    for field in dataclasses.fields(cls):
        hint = field_hints(cls)[field.name]
        doc = next(m.text for m in hint.__metadata__ if isinstance(m, Doc))
        rows.append((field.name, _allowed(hint), field.default, doc))
    return rows


def resolve(settings: AnySettings, *, owner: str) -> AnySettings:
    """A checked copy of `settings` with the preset's values filled in.

    Raises:
        ConfigError: naming the setting, what is allowed and what came.
    """
    cls = type(settings)
    for name, hint in field_hints(cls).items():
        value = getattr(settings, name)
        if not _fits(value, hint):
            raise bad_argument(name, owner=owner, allowed=_allowed(hint), got=value)
    filled = {k: v for k, v in PRESETS[settings.preset].items() if getattr(settings, k) is None}
    resolved = dataclasses.replace(settings, **{**_plain_numbers(settings), **filled})
    _check_together(resolved, owner)
    return resolved


def from_mapping(cls: type[AnySettings], values: Mapping[str, Any], *, where: str) -> AnySettings:
    """Settings out of a mapping, such as a TOML file; unknown keys are errors that name the nearest
    known key.
    """
    known = [f.name for f in dataclasses.fields(cls)]
    for key in values:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = (
                f" Did you mean '{near[0]}'?"
                if near
                else f" Known settings: {', '.join(sorted(known))}."
            )
            raise ConfigError(f"Unknown setting '{key}' in {where}.{hint}")
    return cls(**values)


def parse_value(cls: type[Settings], assignment: str) -> tuple[str, Any]:
    """The (name, value) of a command-line assignment such as `epochs=50`."""
    key, found, text = assignment.partition("=")
    key, text = key.strip(), text.strip()
    if not found:
        raise ConfigError(
            f"A setting is written key=value, for example epochs=50. Got '{assignment}'."
        )
    hints = field_hints(cls)
    if key not in hints:
        from_mapping(cls, {key: text}, where="--set")  # raises, with the nearest known name
    kinds = _kinds(hints[key])
    if (
        text.lower() in ("none", "null")
        and type(None) in kinds
        and not any("none" in get_args(k) for k in kinds)
    ):
        return key, None
    if bool in kinds and text.lower() in ("true", "false"):
        return key, text.lower() == "true"
    for number in (int, float):
        if number in kinds:
            try:
                return key, number(text)
            except ValueError:
                continue
    return key, text


def to_mapping(settings: Settings) -> dict[str, Any]:
    """Every setting that is not None, as plain values, for a file; a custom encoder is written as
    its class name.

    `progress` is left out: it says what the screen shows, not what is computed.
    """
    values = {
        f.name: getattr(settings, f.name)
        for f in dataclasses.fields(settings)
        if f.name != "progress"
    }
    if isinstance(values["encoder"], nn.Module):
        values["encoder"] = f"custom:{type(values['encoder']).__qualname__}"
    return {k: v for k, v in values.items() if v is not None}


def _check_together(settings: Settings, owner: str) -> None:
    graph_level = isinstance(settings, GraphSettings)
    if settings.decoder == "gnn" and not graph_level:
        raise ConfigError(
            f"The 'decoder' parameter of {owner} must be 'mlp': at node level the bound needs a"
            " decoder of row-wise layers."
        )
    if settings.decoder == "gnn" and isinstance(settings.encoder, nn.Module):
        raise ConfigError(
            f"decoder='gnn' of {owner} repeats the encoder's kind of layer, so encoder must be"
            " 'gcn' or 'gin'."
        )
    if settings.invariance_on == "all" and graph_level and settings.objective.endswith("-embed"):
        raise ConfigError(
            f"invariance_on='all' of {owner} has no meaning for '{settings.objective}': a graph's"
            " embedding already pools all nodes. Use 'masked', or an '-output' objective."
        )
    if settings.precision == "bf16" and (
        settings.engine == "general" or isinstance(settings.encoder, nn.Module)
    ):
        raise ConfigError(
            f"precision='bf16' of {owner} needs a built-in encoder and engine='auto'. Use 'tf32' or"
            " 'fp32'."
        )
    if settings.objective.startswith("ce-") and settings.output_activation == "relu":
        raise ConfigError(
            f"objective='{settings.objective}' of {owner} needs output_activation='none': its"
            " outputs are logits."
        )


def _plain_numbers(settings: Settings) -> dict[str, Any]:
    """Checked numbers of any type (NumPy's, fractions) as Python's own, so that they can be written
    and read back.
    """
    plain: dict[str, Any] = {}
    for name, hint in field_hints(type(settings)).items():
        value, kinds = getattr(settings, name), _kinds(hint)
        if value is not None and (int in kinds or float in kinds):
            plain[name] = int(value) if int in kinds else float(value)
    return plain


def _kinds(hint: Any) -> tuple[Any, ...]:
    inner = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    return get_args(inner) if get_origin(inner) in (Union, types.UnionType) else (inner,)


def _fits(value: Any, hint: Any) -> bool:
    limits = [m for m in hint.__metadata__ if isinstance(m, Range)]
    for kind in _kinds(hint):
        if get_origin(kind) is Literal:
            if isinstance(value, str) and value in get_args(kind):
                return True
        elif kind in (int, float):
            number = isinstance(
                value, numbers.Real if kind is float else numbers.Integral
            ) and not isinstance(value, bool)
            if number and all(value in limit for limit in limits):
                return True
        elif isinstance(value, kind):
            return True
    return False


def _allowed(hint: Any) -> str:
    limits = " ".join(str(m) for m in hint.__metadata__ if isinstance(m, Range))
    words = []
    for kind in _kinds(hint):
        if get_origin(kind) is Literal:
            words += [repr(v) for v in get_args(kind)]
        elif kind is type(None):
            words.append("None")
        else:
            name = {
                int: "an int",
                float: "a float",
                bool: "True or False",
                str: "a string",
                nn.Module: "a torch.nn.Module",
            }[kind]
            words.append(f"{name} {limits}".strip() if kind in (int, float) else name)
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " or " + words[-1]
