"""The settings that all methods share, and the declaration and checking of settings.

A setting is declared once: name, type, allowed values, default, description. Estimators inherit
these dataclasses, so a setting is a constructor argument, a key of a TOML file and a key of the
command line's `--set` at the same time. A method adds its settings in a dataclass of its own (see
`methods/lagraph/settings.py`). None, where it is allowed, may mean the preset's value; `resolve`
fills it in and checks all settings. The classes are not frozen because scikit-learn's `set_params`
assigns to them; the rest of the package uses the checked copy that `resolve` returns, and never
changes it.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias, TypeVar, get_args

from torch import nn

from graphlatent.encoder_size import refuse_too_large
from graphlatent.errors import ConfigError, no_effect, shown
from graphlatent.setting_types import (
    Diagnostics,
    OnCollapse,
    Select,
    allowed_values,
    check_values,
    union_members,
)
from graphlatent.setting_types import Doc as Doc
from graphlatent.setting_types import Range as Range
from graphlatent.setting_types import field_hints as field_hints

Level: TypeAlias = Literal["node", "graph"]

FROM_PRESET: Any = None
"""The default of a setting whose value the preset gives; see `Settings.preset_values`."""


Encoder: TypeAlias = Annotated[
    Literal["gcn", "gin"] | nn.Module,
    Doc("'gcn', 'gin', or your own module: (x, edge_index, edge_weight) -> one row per node"),
]
HiddenDim: TypeAlias = Annotated[int, Range(1), Doc("width of every encoder layer")]
NumLayers: TypeAlias = Annotated[int, Range(1, 10_000), Doc("encoder layers")]
Epochs: TypeAlias = Annotated[
    int, Range(0), Doc("passes over the training data; 0 keeps the random initial encoder")
]
LearningRate: TypeAlias = Annotated[float, Range(0, open_low=True), Doc("peak learning rate")]
Optimizer: TypeAlias = Annotated[
    Literal["adam", "adamw"], Doc("'adam', or 'adamw' with decoupled weight decay")
]
WeightDecay: TypeAlias = Annotated[float, Range(0), Doc("the optimizer's weight decay")]
Schedule: TypeAlias = Annotated[
    Literal["none", "cosine"],
    Doc("learning rate: constant, or cosine down to 0 at the last epoch"),
]
WarmupRatio: TypeAlias = Annotated[
    float, Range(0, 1), Doc("share of the epochs in which the learning rate grows to its peak")
]
Patience: TypeAlias = Annotated[
    int | None,
    Range(1),
    Doc("stop after this many epochs without a better training loss; None: never"),
]
RowNormalize: TypeAlias = Annotated[
    bool, Doc("divide the features of each node by the sum of their absolute values")
]
ScaleFeatures: TypeAlias = Annotated[
    bool,
    Doc(
        "standardise more than 64 columns that are mostly not 0, unless standardize is False, and"
        " divide all features by one number, so that rows have a mean squared norm of 1"
    ),
]
Float32Precision: TypeAlias = Annotated[
    Literal["fp32", "tf32"], Doc("products on a GPU: full float32, or TF32; on a CPU always fp32")
]
"""The precision setting of methods that do not support bfloat16."""
Readout: TypeAlias = Annotated[
    Literal["sum", "mean", "max", "sum+mean", "sum+max", "mean+max", "sum+mean+max"]
    | Literal["root-sum", "root-mean", "root-max", "root-sum+mean", "root-sum+max"]
    | Literal["root-mean+max", "root-sum+mean+max", "root"],
    Doc(
        "pooling of node rows per graph; 'root-': signed square roots of it; 'root':"
        " 'root-sum+mean+max'. LaGraph's loss pools by 'mean' for 'mean', else by 'sum'"
    ),
]
NodeEmbedding: TypeAlias = Annotated[
    Literal["encoder", "combined"],
    Doc("'encoder': its last layer; 'combined': PCA of features, their 2-hop averages and that"),
]
GraphEmbedding: TypeAlias = Annotated[
    Literal["readout", "standard", "combined"],
    Doc(
        "'readout'; 'standard': its columns with mean 0, variance 1 over the training set;"
        " 'combined': these and pooled features, limited to 3 standard deviations"
    ),
]
NodeStructure: TypeAlias = Annotated[
    Literal["auto", "none", "always"],
    Doc(
        "coordinates computed from the edges: 'auto' as features where there are none, and in the"
        " embedding where edges are predictable; 'always' as features, also beside given ones"
    ),
]
GraphStructure: TypeAlias = Annotated[
    Literal["auto", "none"],
    Doc("'auto': triangles and neighbours' degrees beside the degrees of graphs without features"),
]
EmbeddingDim: TypeAlias = Annotated[
    int | None,
    Range(1),
    Doc("columns of a 'combined' or 'standard' embedding, at most; None: 512 of nodes, else all"),
]
FeatureWeight: TypeAlias = Annotated[
    float, Range(0), Doc("weight of the features in a 'combined' embedding")
]


@dataclass(kw_only=True, eq=False, repr=False)
class Settings:
    """Settings of all methods at both levels: encoder, training, features, device."""

    encoder: Encoder
    hidden_dim: HiddenDim
    num_layers: NumLayers
    activation: Annotated[
        Literal["auto", "prelu", "relu"], Doc("'auto': PReLU in GCN, ReLU in GIN")
    ] = "auto"
    epochs: Epochs
    lr: LearningRate
    optimizer: Optimizer = "adam"
    weight_decay: WeightDecay = 0.0
    schedule: Schedule = "none"
    warmup_ratio: WarmupRatio = 0.0
    patience: Patience = None
    degree_cap: Annotated[
        int, Range(1), Doc("graphs without features: one-hot degree, counted up to this")
    ] = 128
    standardize: Annotated[
        bool, Doc("numeric table columns, unless only 0 and 1, to mean 0, variance 1 at fit time")
    ] = True
    row_normalize: RowNormalize = False
    scale_features: ScaleFeatures = False
    symmetrize: Annotated[bool, Doc("read every edge in both directions")] = True
    device: Annotated[
        str, Doc("'auto' (a GPU where there is one), 'cpu', 'cuda', 'cuda:1' ...")
    ] = "auto"
    random_state: Annotated[
        int, Range(0, 2**31 - 1), Doc("seed of initial weights, masks and batches")
    ] = 0
    features: Annotated[
        Literal["auto", "dense", "sparse"],
        Doc("form of the features in training; 'auto': the one that multiplies faster"),
    ] = "auto"
    precision: Annotated[
        Literal["fp32", "tf32", "bf16"],
        Doc(
            "products on a GPU: full float32, TF32, or bfloat16 activations with float32 sums; on"
            " a CPU always fp32"
        ),
    ] = "tf32"
    diagnostics: Diagnostics = True
    on_collapse: OnCollapse = "warn"
    select: Select = "last"
    progress: Annotated[
        bool, Doc("show a progress bar (in a terminal or a notebook), and the time it takes")
    ] = False

    def preset_values(self) -> Mapping[str, Any]:
        """The values that replace None in the settings; none by default."""
        return {}

    @property
    def combines_nodes(self) -> bool:
        """Whether an embedding of nodes has features and averages beside the encoder's output."""
        return False

    def adapted_to(self: AnySettings, num_nodes: int, *, has_features: bool = True) -> AnySettings:
        """The settings for a graph like this, with values for some that are None.

        By default they are the same for every graph.

        Args:
            num_nodes: over all graphs.
            has_features: whether there are features, and nodes differ in them.
        """
        return self

    def check_together(self, owner: str) -> None:
        """Raise a `ConfigError` where settings contradict each other, or need too much memory."""
        if isinstance(self.encoder, str):
            refuse_too_large(self.hidden_dim, self.num_layers, owner=owner)
        if not self.diagnostics and self.on_collapse == "stop":
            raise no_effect("on_collapse", owner=owner, without="diagnostics=True")
        if not self.diagnostics and self.select != "last":
            raise no_effect("select", owner=owner, without="diagnostics=True")


@dataclass(kw_only=True, eq=False, repr=False)
class NodeSettings(Settings):
    """Settings of all methods that embed nodes."""

    encoder: Encoder = "gcn"
    batching: Annotated[
        Literal["auto", "full", "nodes", "clusters", "neighbors"],
        Doc(
            "what a step sees. 'full': the whole graph; 'nodes': a random induced subgraph;"
            " 'clusters': some parts of a METIS partition; 'neighbors': nodes with sampled"
            " neighbourhoods; 'auto': 'full' where it fits into memory, else 'clusters'"
        ),
    ] = "auto"
    nodes_per_step: Annotated[
        int, Range(1), Doc("nodes of a step, unless batching='full'; with 'neighbors' seed nodes")
    ] = 5000
    steps_per_epoch: Annotated[
        int, Range(1), Doc("batching='full', 'nodes': gradient steps that make an epoch")
    ] = 1
    num_neighbors: Annotated[
        int | None,
        Range(1),
        Doc("batching='neighbors': neighbours sampled for a node in each hop; None: all"),
    ] = 10
    parts_per_step: Annotated[
        int, Range(1), Doc("batching='clusters': parts that are joined for a step")
    ] = 10
    num_workers: Annotated[
        int, Range(0, 64), Doc("threads that cut the pieces of the next steps; any give the same")
    ] = 1
    concat_input: Annotated[
        bool, Doc("append the input features to the embedding, as the paper does")
    ] = False
    embedding: NodeEmbedding = "encoder"
    embedding_dim: EmbeddingDim = None
    feature_weight: FeatureWeight = 1.0
    encoder_weight: Annotated[
        float, Range(0), Doc("weight of the encoder's last layer in a 'combined' embedding")
    ] = 1.0
    structure: NodeStructure = "none"
    structure_dim: Annotated[int, Range(1), Doc("number of coordinates from the edges")] = 128

    def check_together(self, owner: str) -> None:
        """Raise a `ConfigError` where settings contradict each other."""
        super().check_together(owner)
        if self.batching in ("clusters", "neighbors") and self.steps_per_epoch != 1:
            raise ConfigError(
                f"steps_per_epoch of {owner} has no effect with batching='{self.batching}', where"
                " an epoch sees every node once. Leave it out, or set nodes_per_step."
            )
        if self.embedding == "combined" and self.concat_input:
            raise ConfigError(
                f"concat_input=True of {owner} has no meaning with embedding='combined', which"
                " contains the features. Use concat_input=False, or embedding='encoder'."
            )
        defaults = (("embedding_dim", None), ("feature_weight", 1.0), ("encoder_weight", 1.0))
        for name, default in defaults:
            if self.embedding == "encoder" and getattr(self, name) != default:
                raise no_effect(name, owner=owner, without="embedding='combined'")

    @property
    def combines_nodes(self) -> bool:
        """Whether an embedding of nodes has features and averages beside the encoder's output."""
        return self.embedding == "combined"


@dataclass(kw_only=True, eq=False, repr=False)
class GraphSettings(Settings):
    """Settings of all methods that embed whole graphs."""

    encoder: Encoder = "gin"
    batch_size: Annotated[int, Range(1), Doc("graphs in a mini-batch")] = 128
    readout: Readout = "sum"
    embedding: GraphEmbedding = "readout"
    embedding_dim: EmbeddingDim = None
    feature_weight: FeatureWeight = 1.0
    structure: GraphStructure = "none"

    def check_together(self, owner: str) -> None:
        """Raise a `ConfigError` where settings contradict each other."""
        super().check_together(owner)
        if self.embedding == "readout" and self.embedding_dim is not None:
            raise no_effect("embedding_dim", owner=owner, without="embedding='standard'")
        if self.embedding != "combined" and self.feature_weight != 1.0:
            raise no_effect("feature_weight", owner=owner, without="embedding='combined'")


AnySettings = TypeVar("AnySettings", bound=Settings)
WITHOUT_EFFECT = ("progress", "num_workers")
"""Settings on which no result depends."""
# How None is written in a file.
_NONE = "none"


def describe(cls: type[Settings]) -> list[tuple[str, str, object, str]]:
    """(name, allowed values, default, description) of every setting, for help pages.

    A default that the preset gives is shown as the value in the default preset.
    """
    complete = all(field.default is not dataclasses.MISSING for field in dataclasses.fields(cls))
    make: Callable[[], Settings] = cls
    preset = make().preset_values() if complete else {}
    rows = []
    for field in dataclasses.fields(cls):
        hint = field_hints(cls)[field.name]
        doc = next(m.text for m in hint.__metadata__ if isinstance(m, Doc))
        default = preset.get(field.name) if field.default is None else field.default
        rows.append((field.name, allowed_values(hint), default, doc))
    return rows


def resolve(settings: AnySettings, *, owner: str) -> AnySettings:
    """A checked copy of `settings` with the preset's values filled in.

    Raises:
        ConfigError: where a value is not allowed; names the setting, its range and the value.
    """
    preset = settings.preset_values()
    plain = check_values(settings, owner=owner, preset=preset)
    filled = {k: v for k, v in preset.items() if getattr(settings, k) is None}
    resolved = dataclasses.replace(settings, **{**plain, **filled})
    resolved.check_together(owner)
    return resolved


def from_mapping(cls: type[AnySettings], values: Mapping[str, Any], *, where: str) -> AnySettings:
    """Settings from a mapping, such as the content of a TOML file.

    Raises:
        ConfigError: where a key is unknown; names the closest known one.
    """
    known = [f.name for f in dataclasses.fields(cls)]
    for key in values:
        if key not in known:
            raise _unknown_setting(key, known, where)
    hints = field_hints(cls)
    texts = {key for key, value in values.items() if isinstance(value, str) and value == _NONE}
    nulls = {key: None for key in texts if _is_nullable(hints[key])}
    return cls(**{**values, **nulls})


def _unknown_setting(key: str, known: list[str], where: str) -> ConfigError:
    close = difflib.get_close_matches(key, known, n=1)
    listed = f"Known settings: {', '.join(sorted(known))}."
    hint = f"Did you mean '{close[0]}'?" if close else listed
    return ConfigError(f"Unknown setting {shown(key)} in {where}. {hint}")


def parse_value(cls: type[Settings], assignment: str) -> tuple[str, Any]:
    """The (name, value) of a command-line assignment such as `epochs=50`."""
    key, found, text = assignment.partition("=")
    key, text = key.strip(), text.strip()
    if not found:
        raise ConfigError(
            f"A setting is written key=value, for example epochs=50. Got {shown(assignment)}."
        )
    hints = field_hints(cls)
    if key not in hints:
        raise _unknown_setting(key, list(hints), "--set")
    types = union_members(hints[key])
    if _is_nullable(hints[key]) and text.lower() in (_NONE, "null"):
        return key, None
    if bool in types and text.lower() in ("true", "false"):
        return key, text.lower() == "true"
    for number in (int, float):
        if number in types:
            try:
                return key, number(text)
            except ValueError:
                continue
    return key, text


def _is_nullable(hint: Any) -> bool:
    """Whether 'none' means None: not so where it is one of the allowed texts."""
    types = union_members(hint)
    return type(None) in types and not any(_NONE in get_args(t) for t in types)


def to_mapping(settings: Settings) -> dict[str, Any]:
    """Every setting that is not None, as values that can be written to a file.

    A custom encoder is represented by its class name. `progress` and `num_workers` are left out,
    since they do not affect the result.
    """
    values = {
        f.name: getattr(settings, f.name)
        for f in dataclasses.fields(settings)
        if f.name not in WITHOUT_EFFECT
    }
    if isinstance(values["encoder"], nn.Module):
        values["encoder"] = f"custom:{type(values['encoder']).__qualname__}"
    # TOML has no null: None is written where leaving it out would mean another default.
    defaults = {f.name: f.default for f in dataclasses.fields(settings)}
    written = {k: _NONE if v is None else v for k, v in values.items()}
    return {k: v for k, v in written.items() if values[k] is not None or defaults[k] is not None}
