"""The features of nodes: decided at fit time (`FeatureSpec`), then computed for every graph alike.

Three kinds: a matrix that was given is taken as it is; named columns are encoded one by one
(columns.py); a graph without features gets its nodes' degrees, one-hot up to a cap, as the paper
does.
Legend: N nodes, F features of the given matrix, W width after encoding, C columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import torch
from torch import Tensor

from graphlatent.data.columns import ColumnSpec, encode_column, fit_column
from graphlatent.data.graph import GraphData
from graphlatent.errors import InputError, bad_argument
from graphlatent.ops.sparse import SparseMatrix

Array: TypeAlias = np.ndarray[Any, Any]
FeatureKind: TypeAlias = Literal["given", "columns", "degree"]

# Encoded columns are sparse where they are wider than this and fewer of their values are not 0 than
# the share below, above which a dense matrix is both smaller and faster.
DENSE_COLUMNS, DENSE_ABOVE = 256, 0.25
# One-hot degrees wider than this are sparse.
DENSE_DEGREES = 64


@dataclass(frozen=True)
class FeatureSpec:
    """How a graph's nodes become feature rows, fixed at fit time.

    Args:
        kind: 'given' (a matrix, taken as it is), 'columns' (encoded one by one) or 'degree'
            (one-hot).
        num_features: F, the width of the matrix; for 'given' only.
        columns: the columns in their order; for 'columns' only.
        cap: degrees above this share one feature; for 'degree' only.
    """

    kind: FeatureKind
    num_features: int = 0
    columns: tuple[ColumnSpec, ...] = ()
    cap: int = 0

    def __post_init__(self) -> None:
        if self.kind not in get_args(FeatureKind):
            raise InputError(
                f"Feature spec: kind must be one of {get_args(FeatureKind)}. Got {self.kind!r}."
            )
        for field in ("num_features", "cap"):
            value = getattr(self, field)
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise InputError(
                    f"Feature spec: {field} must be an integer of 0 or more. Got {value!r}."
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
        if self.kind != "degree" and self.cap:
            raise InputError(f"Feature spec: kind '{self.kind}' does not go with cap={self.cap}.")
        if len({c.name for c in self.columns}) != len(self.columns):
            raise InputError(
                "Feature spec: columns must have different names. Got"
                f" {[c.name for c in self.columns]}."
            )

    @property
    def width(self) -> int:
        """W: the number of features of a node."""
        if self.kind == "degree":
            return self.cap + 1
        return self.num_features if self.kind == "given" else sum(c.width for c in self.columns)

    @property
    def names(self) -> list[str]:
        """A name for each feature."""
        if self.kind == "given":
            return [f"x{i}" for i in range(self.num_features)]
        if self.kind == "degree":
            return [f"degree={d}" for d in range(self.cap)] + [f"degree>={self.cap}"]
        return [name for column in self.columns for name in column.names]

    def to_dict(self) -> dict[str, Any]:
        """The spec as plain values that JSON can hold; `from_dict` reads it back."""
        return {
            "kind": self.kind,
            "num_features": self.num_features,
            "columns": [c.to_dict() for c in self.columns],
            "cap": self.cap,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> FeatureSpec:
        """The spec out of what `to_dict` wrote.

        Raises:
            InputError: where a key or a value is not what `to_dict` writes.
        """
        allowed = {f.name for f in fields(cls)}
        if not isinstance(values, Mapping) or not {"kind"} <= set(values) <= allowed:
            raise InputError(
                f"Feature spec: it needs 'kind', and keys out of {sorted(allowed)}. Got {values!r}."
            )
        columns = values.get("columns", ())
        if not isinstance(columns, list | tuple):
            raise InputError(f"Feature spec: columns must be a list. Got {columns!r}.")
        return cls(**{**values, "columns": tuple(ColumnSpec.from_dict(c) for c in columns)})


def fit_features(graph: GraphData, *, degree_cap: int, standardize: bool = True) -> FeatureSpec:
    """How this graph's features are to be encoded, in this graph and in those that come later.

    Args:
        graph: one graph or several; its matrix is used if it has one, else its columns, else its
            nodes' degrees.
        degree_cap: degrees above this share one feature.
        standardize: bring numeric columns to mean 0 and standard deviation 1, but for columns that
            hold only 0 and 1. Matrices are taken as they are.

    Raises:
        InputError: where a column has missing or infinite values, or values that are neither
            numbers, truth values nor text.
        ConfigError: where `degree_cap` is not an integer of 1 or more.
    """
    if not isinstance(degree_cap, int) or isinstance(degree_cap, bool) or degree_cap < 1:
        raise bad_argument(
            "degree_cap", owner="fit_features", allowed="an integer of 1 or more", got=degree_cap
        )
    if graph.x is not None:
        return FeatureSpec("given", num_features=int(graph.x.shape[1]))
    if graph.columns:
        columns = graph.columns.items()
        return FeatureSpec(
            "columns",
            columns=tuple(
                fit_column(n, v, standardize=standardize, node_ids=graph.node_ids)
                for n, v in columns
            ),
        )
    return FeatureSpec("degree", cap=min(degree_cap, int(graph.degree.max())))


def encode_features(spec: FeatureSpec, graph: GraphData) -> GraphData:
    """The graph with `x` [N, W] encoded according to `spec`.

    `x` is dense, or sparse where it is wide and mostly 0.

    Raises:
        InputError: where the graph's features are not of the kind, width or categories that the
            spec was made from.
    """
    _check_kind(spec, graph)
    if spec.kind == "degree":
        row, col = torch.arange(graph.num_nodes), graph.degree.clamp(max=spec.cap)
        ones = torch.ones(graph.num_nodes, dtype=torch.float32)
        one_hot = SparseMatrix.from_coo(row, col, ones, (graph.num_nodes, spec.width))
        return graph.with_features(one_hot.to_dense() if spec.width <= DENSE_DEGREES else one_hot)
    if spec.kind == "columns":
        return graph.with_features(
            encode_columns(spec.columns, graph.columns or {}, node_ids=graph.node_ids)
        )
    if graph.x is not None and graph.x.shape[1] != spec.width:
        raise InputError(
            f"The features have {graph.x.shape[1]} columns, but the model was fitted on"
            f" {spec.width}. Give the same features, in the same order."
        )
    return graph


def _check_kind(spec: FeatureSpec, graph: GraphData) -> None:
    came: FeatureKind = "given" if graph.x is not None else "columns" if graph.columns else "degree"
    if came == spec.kind:
        return
    words = {
        "given": "a feature matrix",
        "columns": "named feature columns",
        "degree": "no features",
    }
    way_out = "Leave the features out" if spec.kind == "degree" else "Give the same features"
    fitted = words[spec.kind] + (" (it uses node degrees)" if spec.kind == "degree" else "")
    raise InputError(
        f"The model was fitted on graphs with {fitted}, but this graph has {words[came]}. "
        f"{way_out}, or fit a new model on graphs like this one."
    )


def encode_columns(
    specs: Sequence[ColumnSpec], columns: Mapping[str, Array], *, node_ids: Array | None = None
) -> Tensor | SparseMatrix:
    """The encoded columns as one matrix, float32 [N, W]; sparse where it is wide and mostly 0.

    Args:
        specs: how each column is encoded.
        columns: values by name, each [N]; exactly the columns of `specs`, in any order.
        node_ids: names of the nodes [N], for messages.

    Raises:
        InputError: where a column is missing or not known, or its values are not of the kind that
            its spec was made from.
    """
    known = [spec.name for spec in specs]
    missing, extra = (
        [name for name in known if name not in columns],
        sorted(set(columns) - set(known)),
    )
    if missing or extra:
        raise InputError(
            f"The feature columns differ from those the model was fitted on: missing {missing}, not"
            f" known {extra}. Give exactly the columns {known}; read_graphs keeps others out with"
            " label=[...]."
        )
    offset, rows, cols, values = 0, [], [], []
    for spec in specs:
        position, encoded = encode_column(spec, columns[spec.name], node_ids=node_ids)
        numbers = encoded.astype(np.float32)
        (nonzero,) = np.nonzero(numbers)
        rows.append(nonzero)
        cols.append(position[nonzero] + offset)
        values.append(numbers[nonzero])
        offset += spec.width
    row, col, value = (torch.from_numpy(np.concatenate(part)) for part in (rows, cols, values))
    shape = (len(columns[known[0]]), offset)
    if offset > DENSE_COLUMNS and len(value) <= DENSE_ABOVE * shape[0] * shape[1]:
        return SparseMatrix.from_coo(row, col, value, shape)
    return torch.zeros(shape, dtype=torch.float32).index_put_((row, col), value)
