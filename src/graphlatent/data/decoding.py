"""Encoded features in the units of the features that were given, and which were missing.

Legend: N nodes, W features.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from graphlatent.data.column_values import column_values, without_signs
from graphlatent.data.features import FeatureSpec
from graphlatent.data.graph import GraphData
from graphlatent.errors import InputError


def check_decodable(spec: FeatureSpec) -> None:
    """Raise an `InputError` where a graph has no features of its own."""
    if spec.kind not in ("given", "columns"):
        raise InputError(
            "The model was fitted on graphs without features, so that there are none to predict."
            " Give the nodes features, and fit again."
        )


def decoded_names(spec: FeatureSpec) -> list[str]:
    """The names of the features that `decoded_features` returns."""
    return spec.names[: _width(spec)]


def decoded_features(spec: FeatureSpec, x: Tensor) -> Tensor:
    """Encoded features with their scaling and standardisation undone, float32 [N, W].

    Categories remain one feature each. Coordinates are left out.

    Args:
        spec: of a matrix or of columns.
        x: encoded features, dense.
    """
    rows = x[:, : _width(spec)].to(torch.float64) / spec.scale
    if spec.standard:
        mean, std = torch.tensor(spec.standard, dtype=torch.float64, device=x.device).T
        rows = rows * std + mean
    if spec.columns:
        scale, mean = torch.ones(rows.shape[1]), torch.zeros(rows.shape[1])
        start = 0
        for column in spec.columns:
            if column.is_number:
                scale[start], mean[start] = column.scale, column.mean
            start += column.width
        rows = rows * scale.to(rows) + mean.to(rows)
    return rows.to(torch.float32)


def feature_columns(spec: FeatureSpec) -> Tensor:
    """The column of each feature, int64 [W]; those of a matrix are columns of their own."""
    widths = [column.width for column in spec.columns] or [1] * _width(spec)
    return torch.repeat_interleave(torch.tensor(widths, dtype=torch.int64))


def missing_entries(spec: FeatureSpec, graph: GraphData) -> Tensor:
    """Which features of a graph are missing and were filled by the encoding, bool [N, W].

    A matrix has none; a missing category means that all its features are.
    """
    missing = torch.zeros(graph.num_nodes, _width(spec), dtype=torch.bool)
    start = 0
    for column in spec.columns:
        found = column_values(column.name, (graph.columns or {})[column.name])
        if column.is_number and column.impute:
            found = without_signs(found)
        width = column.width - column.indicator
        gaps = torch.from_numpy(np.asarray(found.missing, dtype=bool))
        missing[:, start : start + width] = gaps[:, None]
        start += column.width
    return missing


def _width(spec: FeatureSpec) -> int:
    coordinates = spec.structure_dim if spec.coordinates_in == "features" else 0
    return spec.width - coordinates
