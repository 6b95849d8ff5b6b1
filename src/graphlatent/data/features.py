"""The features of nodes: decided at fit time (`FeatureSpec`), then computed for every graph alike.

A matrix that was given is taken as it is, or standardised (measurements.py); named columns are
encoded one by one (columns.py); a graph without features gets its nodes' degrees, one-hot up to a
cap, as the paper does, or coordinates computed from its edges (coordinates.py), which may also
stand beside features. Beside degrees or coordinates there may be numbers about the neighbourhood
(local_structure.py). Legend: N nodes, F features given as a matrix, W width encoded, C columns.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import torch
from torch import Tensor

from graphlatent.data.column_fitting import fit_columns
from graphlatent.data.column_spec import ColumnSpec
from graphlatent.data.columns import encode_columns
from graphlatent.data.coordinates import NodeCoordinates
from graphlatent.data.edge_features import encode_edge_features
from graphlatent.data.far_values import FAR, warn_of_far_values
from graphlatent.data.feature_matrices import (
    beside,
    first_not_finite,
    one_hot_degrees,
    scaled,
    sum_of_squares,
    too_far,
)
from graphlatent.data.graph import GraphData
from graphlatent.data.local_structure import NAMES as LOCAL_NAMES
from graphlatent.data.local_structure import local_structure
from graphlatent.data.measurements import has_measurements, moments, standardized
from graphlatent.data.spec_values import column_specs, number_pairs
from graphlatent.errors import InputError, bad_argument, warn
from graphlatent.ops.sparse import row_normalized, to_dense

Array: TypeAlias = np.ndarray[Any, Any]
FeatureKind: TypeAlias = Literal["given", "columns", "degree", "structure"]

DENSE_DEGREES = 64
"""One-hot degrees wider than this are sparse."""
LOCAL_SCALE = 0.5
"""Standard deviation of the columns of local structure; the four have mean squared norm 1, which is
that of one-hot degrees and of coordinates."""


@dataclass(frozen=True)
class FeatureSpec:
    """How a graph's nodes become feature rows, fixed at fit time.

    Args:
        kind: 'given' (a matrix, taken as it is), 'columns' (encoded one by one), 'degree'
            (one-hot) or 'structure' (coordinates alone).
        num_features: F, the width of the matrix; for 'given' only.
        columns: the columns in their order; for 'columns' only.
        cap: degrees above this share one feature; for 'degree' only.
        structure_dim: number of coordinates; 0 for none.
        coordinates_in: 'features' (coordinates are the last columns of the features) or 'embedding'
            (they are no features, and stand beside the encoder's output in the embedding).
        local: mean and standard deviation of each column of `local_structure`, which stand beside
            one-hot degrees or coordinates; empty for none.
        standard: mean and standard deviation of each column of the matrix where it is standardised,
            with deviation 0 for constant columns; empty where it is taken as it is.
        ignored: kind of the features that are left out, the same for all nodes; empty for none.
        scale: all features are multiplied by this.
        edges: the features of edges (edge_features.py); empty for none.
        coordinates: of the fitted nodes; None where there are none, or a spec was read without
            them.
    """

    kind: FeatureKind
    num_features: int = 0
    columns: tuple[ColumnSpec, ...] = ()
    cap: int = 0
    structure_dim: int = 0
    local: tuple[tuple[float, float], ...] = ()
    standard: tuple[tuple[float, float], ...] = ()
    ignored: Literal["", "given", "columns"] = ""
    scale: float = 1.0
    coordinates_in: Literal["features", "embedding"] = "features"
    edges: tuple[ColumnSpec, ...] = ()
    coordinates: NodeCoordinates | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.kind not in get_args(FeatureKind):
            raise InputError(
                f"Feature spec: kind must be one of {get_args(FeatureKind)}. Got {self.kind!r}."
            )
        for name in ("num_features", "cap", "structure_dim"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise InputError(
                    f"Feature spec: {name} must be an integer of 0 or more. Got {value!r}."
                )
        if (self.kind == "given") != (self.num_features > 0):
            raise InputError(
                f"Feature spec: kind '{self.kind}' does not go with"
                f" num_features={self.num_features}."
            )
        if (self.kind == "columns") != bool(self.columns):
            raise InputError(
                f"Feature spec: kind '{self.kind}' does not go with {len(self.columns)} columns."
            )
        featureless = self.kind in ("degree", "structure")
        if self.kind != "degree" and self.cap:
            raise InputError(f"Feature spec: kind '{self.kind}' does not go with cap={self.cap}.")
        if self.local and (not featureless or len(self.local) != len(LOCAL_NAMES)):
            raise InputError(
                f"Feature spec: kind '{self.kind}' does not go with local={self.local}."
            )
        if not all(math.isfinite(mean) and 0 <= std < math.inf for mean, std in self.local):
            raise InputError(
                "Feature spec: local must hold finite means and standard deviations of 0 or more."
                f" Got {self.local}."
            )
        if self.standard and len(self.standard) != self.num_features:
            raise InputError(
                f"Feature spec: num_features={self.num_features} does not go with the moments of"
                f" {len(self.standard)} columns."
            )
        allowed = ("", "given", "columns") if featureless else ("",)
        if self.ignored not in allowed:
            raise InputError(
                f"Feature spec: kind '{self.kind}' does not go with ignored={self.ignored!r}."
            )
        if not isinstance(self.scale, float) or not 0 < self.scale < float("inf"):
            raise InputError(f"Feature spec: scale must be a positive float. Got {self.scale!r}.")
        if self.kind == "structure" and not self.structure_dim:
            raise InputError("Feature spec: kind 'structure' does not go with structure_dim=0.")
        if self.coordinates_in not in ("features", "embedding") or (
            self.coordinates_in == "embedding" and (featureless or not self.structure_dim)
        ):
            message = f"kind '{self.kind}' does not go with coordinates_in={self.coordinates_in!r}."
            raise InputError(f"Feature spec: {message}")
        if self.coordinates is not None and self.coordinates.dim != self.structure_dim:
            raise InputError(
                f"Feature spec: structure_dim={self.structure_dim} does not go with coordinates of"
                f" width {self.coordinates.dim}."
            )
        for names in ([c.name for c in self.columns], [c.name for c in self.edges]):
            if len(set(names)) != len(names):
                raise InputError(f"Feature spec: columns must have different names. Got {names}.")

    @property
    def width(self) -> int:
        """W: the number of features of a node."""
        if self.kind == "degree":
            return self.cap + 1 + len(self.local) + self._feature_coordinates
        columns = sum(c.width for c in self.columns)
        return self.num_features + columns + len(self.local) + self._feature_coordinates

    @property
    def edge_dim(self) -> int:
        """D: the number of features of an edge."""
        return sum(column.width for column in self.edges)

    @property
    def embedding_coordinates(self) -> int:
        """The number of coordinates that are no features and stand in the embedding."""
        return self.structure_dim - self._feature_coordinates

    @property
    def _feature_coordinates(self) -> int:
        return self.structure_dim if self.coordinates_in == "features" else 0

    @property
    def names(self) -> list[str]:
        """A name for each feature."""
        coordinates = [f"structure{i}" for i in range(self._feature_coordinates)]
        if self.kind == "given":
            return [f"x{i}" for i in range(self.num_features)] + coordinates
        local = list(LOCAL_NAMES) if self.local else []
        if self.kind == "degree":
            degrees = [f"degree={d}" for d in range(self.cap)]
            return [*degrees, f"degree>={self.cap}", *local, *coordinates]
        if self.kind == "structure":
            return local + coordinates
        return [name for column in self.columns for name in column.names] + coordinates

    def to_dict(self) -> dict[str, Any]:
        """The spec without coordinates, as plain values that JSON can hold, for `from_dict`."""
        values: dict[str, Any] = {
            "kind": self.kind,
            "num_features": self.num_features,
            "columns": [c.to_dict() for c in self.columns],
            "cap": self.cap,
        }
        if self.structure_dim:
            values["structure_dim"] = self.structure_dim
        if self.coordinates_in != "features":
            values["coordinates_in"] = self.coordinates_in
        if self.local:
            values["local"] = [list(pair) for pair in self.local]
        if self.standard:
            values["standard"] = [list(pair) for pair in self.standard]
        if self.ignored:
            values["ignored"] = self.ignored
        if self.edges:
            values["edges"] = [c.to_dict() for c in self.edges]
        return values if self.scale == 1.0 else {**values, "scale": self.scale}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> FeatureSpec:
        """The spec out of what `to_dict` wrote.

        Raises:
            InputError: where a key or a value is not what `to_dict` writes.
        """
        allowed = {f.name for f in fields(cls)} - {"coordinates"}
        if not isinstance(values, Mapping) or not {"kind"} <= set(values) <= allowed:
            raise InputError(
                f"Feature spec: it needs 'kind', and keys out of {sorted(allowed)}. Got {values!r}."
            )
        specs = {name: column_specs(name, values.get(name, ())) for name in ("columns", "edges")}
        pairs = {name: number_pairs(name, values.get(name, ())) for name in ("local", "standard")}
        return cls(**{**values, **specs, **pairs})


def fit_features(graph: GraphData, *, degree_cap: int, standardize: bool = True) -> FeatureSpec:
    """How this graph's features are to be encoded, in this graph and in those that come later.

    Args:
        graph: one graph or several; its matrix is used if it has one, else its columns, else its
            nodes' degrees.
        degree_cap: degrees above this share one feature.
        standardize: bring columns of numbers to mean 0 and standard deviation 1, but for those that
            hold only 0 and 1. Matrices, and tables that are wide and mostly 0, are taken as they
            are.

    Raises:
        InputError: where a column has infinite values, missing ones that are not to be filled, or
            values of a kind that cannot be used.
        ConfigError: where `degree_cap` is not an integer of 1 or more.
    """
    if not isinstance(degree_cap, int) or isinstance(degree_cap, bool) or degree_cap < 1:
        raise bad_argument(
            "degree_cap", owner="fit_features", allowed="an integer of 1 or more", got=degree_cap
        )
    if graph.x is not None:
        return FeatureSpec("given", num_features=int(graph.x.shape[1]))
    if graph.columns:
        columns = fit_columns(
            graph.columns,
            standardize=standardize,
            node_ids=graph.node_ids,
            options=graph.reading,
        )
        return FeatureSpec("columns", columns=columns)
    return FeatureSpec("degree", cap=min(degree_cap, int(graph.degree.max())))


def encode_features(
    spec: FeatureSpec, graph: GraphData, *, row_normalize: bool = False
) -> GraphData:
    """The graph with `x` [N, W] encoded according to `spec`.

    `x` is dense, or sparse where it is wide and mostly 0.

    Args:
        spec: as `fit_features` made it.
        graph: with features of the same kind.
        row_normalize: divide each row by the sum of its absolute values; coordinates, the last
            columns, are not part of it.

    Raises:
        InputError: where the graph's features are not of the kind, width or categories that the
            spec was made from, or the graph has none of the nodes that coordinates are known of.
    """
    _check_kind(spec, graph)
    encoded = encode_edge_features(spec.edges, _encoded(spec, graph, row_normalize))
    if encoded.x is not None and (where := first_not_finite(encoded.x)) is not None:
        raise too_far(graph, *where, feature=spec.names[where[1]])
    return encoded


def _encoded(spec: FeatureSpec, graph: GraphData, row_normalize: bool) -> GraphData:
    if spec.ignored:
        if not graph.has_equal_features():
            warn(
                "The features of this graph are not used: those of the fitted graphs were the same"
                " for every node, so that the model ignores features. Fit a model on graphs whose"
                " features differ."
            )
        graph = graph.without_features()
    encoded = _encode_given(spec, graph)
    if row_normalize and encoded.x is not None:
        encoded = replace(encoded, x=row_normalized(encoded.x))
    if spec.structure_dim:
        if spec.coordinates is None:
            raise InputError("This feature spec was read without the coordinates of its nodes.")
        if spec.coordinates_in == "embedding":
            encoded = replace(encoded, coordinates=spec.coordinates.rows_or_mean(graph))
            return _scaled_features(spec, encoded)
        rows = spec.coordinates.rows_of(graph)
        encoded = encoded.with_features(rows if encoded.x is None else beside(encoded.x, rows))
    return _scaled_features(spec, encoded)


def _scaled_features(spec: FeatureSpec, graph: GraphData) -> GraphData:
    if graph.x is None or spec.scale == 1.0:
        return graph
    return graph.with_features(scaled(graph.x, spec.scale))


def fit_local(spec: FeatureSpec, graph: GraphData) -> FeatureSpec:
    """A spec of degrees or coordinates with the local structure of the nodes beside them."""
    columns = local_structure(graph).to(torch.float64)
    spread = columns.std(0, unbiased=False)
    pairs = zip(columns.mean(0).tolist(), spread.tolist(), strict=True)
    return replace(spec, local=tuple((mean, std) for mean, std in pairs))


def fit_standard(spec: FeatureSpec, graph: GraphData, *, more_than: int = 0) -> FeatureSpec:
    """A spec that standardises measurements of more columns; unchanged for other features."""
    if graph.x is None or spec.num_features <= more_than or not has_measurements(graph.x):
        return spec
    return replace(spec, standard=moments(to_dense(graph.x)))


def fit_scale(spec: FeatureSpec, graph: GraphData, *, row_normalize: bool = False) -> FeatureSpec:
    """A spec whose scale gives the graph's rows a mean squared norm of 1; unchanged for zeros."""
    x = encode_features(replace(spec, scale=1.0), graph, row_normalize=row_normalize).x
    assert x is not None
    return with_scale(spec, sum_of_squares(x), num_nodes=graph.num_nodes)


def with_scale(spec: FeatureSpec, squares: float, *, num_nodes: int) -> FeatureSpec:
    """A spec that scales rows of N nodes, whose squares have this sum, as `fit_scale` does."""
    square = squares / max(num_nodes, 1)
    scale = square**-0.5 if square > 0 else 1.0
    return replace(spec, scale=min(max(scale, 1e-30), 1e30))


def _encode_given(spec: FeatureSpec, graph: GraphData) -> GraphData:
    """The graph with encoded features, without coordinates; x is None where there are no others."""
    width = spec.width - spec._feature_coordinates
    if spec.kind == "degree":
        x = one_hot_degrees(graph.degree, spec.cap, dense=width <= DENSE_DEGREES)
        return graph.with_features(beside(x, _local_columns(spec, graph)) if spec.local else x)
    if spec.kind == "structure":
        return graph.with_features(_local_columns(spec, graph)) if spec.local else graph
    if spec.kind == "columns":
        x = encode_columns(
            spec.columns, graph.columns or {}, node_ids=graph.node_ids, options=graph.reading
        )
        return graph.with_features(x)
    if graph.x is not None and graph.x.shape[1] != width:
        raise InputError(
            f"The features have {graph.x.shape[1]} columns, but the model was fitted on"
            f" {width}. Give the same features, in the same order."
        )
    if spec.standard and graph.x is not None:
        x = standardized(graph.x, spec.standard)
        for i in torch.nonzero((x.abs() > FAR).any(0)).flatten().tolist()[:1]:
            mean, std = spec.standard[i]
            # As they were given: the encoded ones are limited.
            given = to_dense(graph.x)[:, i].to(torch.float64).numpy()
            standard = (given - mean) / std
            warn_of_far_values(standard, name=f"x{i}", mean=mean, std=std, node_ids=graph.node_ids)
        return graph.with_features(x)
    return graph


def _local_columns(spec: FeatureSpec, graph: GraphData) -> Tensor:
    """The local structure, standardised by the fitted graphs, times LOCAL_SCALE, [N, 4]."""
    mean, std = torch.tensor(spec.local, dtype=torch.float32).T
    varies = std > 1e-6 * mean.abs()
    columns = (local_structure(graph) - mean) / torch.where(varies, std, 1.0)
    weighted: Tensor = columns * (LOCAL_SCALE * varies)
    return weighted


def _check_kind(spec: FeatureSpec, graph: GraphData) -> None:
    came: FeatureKind = "given" if graph.x is not None else "columns" if graph.columns else "degree"
    expected = "degree" if spec.kind == "structure" else spec.kind
    if came == (spec.ignored or expected):
        return
    words = {
        "given": "a feature matrix",
        "columns": "named feature columns",
        "degree": "no features",
    }
    fitted_words = words | {
        "degree": "no features (it uses node degrees)",
        "structure": "no features (it uses coordinates computed from the edges)",
    }
    if spec.ignored:
        fitted_words[spec.kind] = f"{words[spec.ignored]}, the same for every node"
    featureless = spec.kind in ("degree", "structure") and not spec.ignored
    way_out = "Leave the features out" if featureless else "Give the same features"
    raise InputError(
        f"The model was fitted on graphs with {fitted_words[spec.kind]}, but this graph has"
        f" {words[came]}. {way_out}, or fit a new model on graphs like this one."
    )
