"""How the features of a graph are encoded for a method, by its settings.

An estimator and the baselines it is compared with both start here, so that all see the same
features.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import scipy.sparse as sp
import torch
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from graphlatent.config import GraphSettings, Settings
from graphlatent.data.communities import edge_prediction
from graphlatent.data.coordinates import NodeCoordinates, has_different_ids
from graphlatent.data.edge_features import fit_edge_features
from graphlatent.data.features import (
    FeatureSpec,
    encode_features,
    fit_features,
    fit_local,
    fit_scale,
    fit_standard,
)
from graphlatent.data.graph import GraphData
from graphlatent.data.measurements import FEW
from graphlatent.data.structure import structure_coordinates
from graphlatent.errors import ConfigError, InputError, RunFolderError
from graphlatent.io.differences import encoding_differences
from graphlatent.io.runfolder import RunFolder
from graphlatent.ops.sparse import SparseMatrix
from graphlatent.training.loop import seeded

# Share of the nodes that must be connected for coordinates beside features: a set of graphs that
# came as one is to be embedded like other graphs of its kind.
_CONNECTED = 0.5


def fit_encoding(
    graph: GraphData, settings: Settings, *, run: RunFolder | None = None
) -> FeatureSpec:
    """The encoding of the features, fitted on a graph, with coordinates where they are set.

    Args:
        graph: what the encoding may see.
        settings: `degree_cap`, `standardize`, `row_normalize`, `scale_features`, `random_state`,
            `structure` and, at node level, `structure_dim`.
        run: a run that is resumed. Its stored encoding and coordinates are used: computed again, on
            another machine or with another number of threads, they would not have the same bits. So
            is its decision for or against coordinates, which depends on measurements.

    Raises:
        ConfigError: where structure='always' and there are several graphs.
        InputError: where a column cannot be encoded, or structure='always' and an edge weight is
            negative.
        RunFolderError: where the run's coordinates are damaged.
    """
    spec = _fit(graph.without_edge_features(), settings, run)
    edges = fit_edge_features(graph, standardize=settings.standardize)
    return as_stored(replace(spec, edges=edges), run)


def _fit(graph: GraphData, settings: Settings, run: RunFolder | None) -> FeatureSpec:
    if ignores_features(graph, settings):
        kind: Literal["given", "columns"] = "columns" if graph.columns else "given"
        spec = replace(_fit_unscaled(graph.without_features(), settings, run), ignored=kind)
    else:
        spec = _fit_unscaled(graph, settings, run)
    if settings.scale_features:
        spec = fit_scale(spec, graph, row_normalize=settings.row_normalize)
    if spec.structure_dim or not embeds_coordinates(graph, settings, run=run):
        return spec
    coordinates = _coordinates(graph, settings, run)
    return replace(
        spec,
        structure_dim=coordinates.dim,
        coordinates_in="embedding",
        coordinates=coordinates,
    )


def as_stored(spec: FeatureSpec, run: RunFolder | None) -> FeatureSpec:
    """The encoding that a run has stored, where this one differs by rounding errors only."""
    if run is None or run.replace or not run.can_resume():
        return spec
    stored = run.read_json("features.json")
    # Other differences are reported with those of the input and of the settings.
    if encoding_differences(stored, spec.to_dict()):
        return spec
    return replace(FeatureSpec.from_dict(stored), coordinates=spec.coordinates)


def _fit_unscaled(graph: GraphData, settings: Settings, run: RunFolder | None) -> FeatureSpec:
    spec = fit_features(graph, degree_cap=settings.degree_cap, standardize=settings.standardize)
    if (limit := standardized_above(settings)) is not None:
        spec = fit_standard(spec, graph, more_than=limit)
    if not uses_coordinates(graph, settings, run=run):
        local = spec.kind == "degree" and getattr(settings, "structure", "none") == "auto"
        return fit_local(spec, graph) if local else spec
    stored = _coordinates(graph, settings, run)
    dim = stored.dim
    if spec.kind == "degree":
        coordinates = replace(stored, scale=1.0)
        alone = FeatureSpec("structure", structure_dim=dim, coordinates=coordinates)
        # Coordinates say where a node is, but not whether it has one neighbour or a hundred.
        return (
            fit_local(alone, graph) if getattr(settings, "structure", "none") == "auto" else alone
        )
    features = encode_features(spec, graph, row_normalize=settings.row_normalize).x
    coordinates = replace(stored, scale=_matching_scale(features, stored.values))
    return replace(spec, structure_dim=dim, coordinates=coordinates)


STANDARDIZED_ABOVE = (None, 0, FEW)
"""All that `standardized_above` returns."""


def standardized_above(settings: Settings) -> int | None:
    """Matrices of measurements with more columns than this are standardised; None for none."""
    if not (settings.scale_features and settings.standardize) or settings.row_normalize:
        return None
    # A combined embedding scales few columns itself.
    return FEW if settings.combines_nodes else 0


def _coordinates(graph: GraphData, settings: Settings, run: RunFolder | None) -> NodeCoordinates:
    """The coordinates of a graph, those that the run has stored where they are of this graph."""
    dim = min(getattr(settings, "structure_dim", 0), graph.num_nodes)
    stored = None if run is None or run.replace else stored_coordinates(run)
    if stored is None or stored.dim != dim or not stored.belongs_to(graph):
        # Stored ones of another graph are reported with all other differences of the run.
        generator = seeded(settings.random_state, 3)
        values = structure_coordinates(graph, dim=dim, generator=generator)
        stored = NodeCoordinates.of(graph, values)
    return stored


def embeds_coordinates(
    graph: GraphData, settings: Settings, *, run: RunFolder | None = None
) -> bool:
    """Whether coordinates computed from the edges stand in the embedding beside given features.

    Under structure='auto' they do in the combined embedding of a single graph, most of which is
    connected, if its edges are predictable from each other (communities.py). A `run` that is
    resumed has stored whether they are.
    """
    auto = getattr(settings, "structure", "none") == "auto"
    if not (auto and settings.combines_nodes and _has_usable_edges(graph)):
        return False
    if not has_different_ids(graph) or _largest_component(graph) < _CONNECTED * graph.num_nodes:
        return False
    stored = _stored_decision(run)
    return edge_prediction(graph).succeeds if stored is None else stored == "embedding"


def _largest_component(graph: GraphData) -> int:
    """The number of nodes of the largest connected component."""
    edges, shape = graph.edge_index, (graph.num_nodes, graph.num_nodes)
    if graph.edge_weight is not None:
        edges = edges[:, graph.edge_weight != 0]
    ones = np.ones(edges.shape[1], dtype=np.int8)
    adjacency = sp.coo_matrix((ones, tuple(edges.numpy())), shape=shape)
    _, component = connected_components(adjacency.tocsr(), directed=False)
    return int(np.bincount(component).max())


def _has_usable_edges(graph: GraphData) -> bool:
    """Whether there is one graph, an edge of positive weight between two nodes, and no negative."""
    weight, (source, target) = graph.edge_weight, graph.edge_index
    between = source != target
    if weight is not None:
        if bool((weight < 0).any()):
            return False
        between = between & (weight > 0)
    return graph.num_graphs == 1 and bool(between.any())


def ignores_features(graph: GraphData, settings: Settings) -> bool:
    """Whether the features are left out, since they are the same for every node.

    Under structure='auto' such a graph is treated as one without features: a column of ones, or of
    zeros, is what people write where they have none. Without edges nothing would replace them.
    """
    auto = getattr(settings, "structure", "none") == "auto"
    return auto and int(graph.degree.max()) > 0 and graph.has_equal_features()


def uses_coordinates(graph: GraphData, settings: Settings, *, run: RunFolder | None = None) -> bool:
    """Whether the features of this graph are, or contain, coordinates computed from its edges.

    Under 'auto' they are used where a single graph has no features, or the same for every node, and
    its edges are usable: at least one of positive weight between two nodes, no negative weight, and
    not known to be unpredictable, as those of a random graph are.
    Methods that embed whole graphs do not use them. A `run` that is resumed has stored whether its
    edges are predictable.

    Raises:
        ConfigError: where structure='always' and there are several graphs.
    """
    structure: str = getattr(settings, "structure", "none")
    if structure == "always" and graph.num_graphs > 1:
        raise ConfigError(
            "structure='always' needs one graph, since coordinates of different graphs cannot be"
            f" compared. Got {graph.num_graphs} graphs. Set structure='none', or fit on one graph."
        )
    if structure != "auto" or isinstance(settings, GraphSettings):
        return structure == "always"
    featureless = graph.x is None and not graph.columns
    possible = (
        hasattr(settings, "structure_dim")
        and _has_usable_edges(graph)
        and (featureless or graph.has_equal_features())
    )
    stored = _stored_decision(run) if possible else None
    return possible and (
        not edge_prediction(graph).fails if stored is None else stored == "features"
    )


def _stored_decision(run: RunFolder | None) -> Literal["features", "embedding", "none"] | None:
    """Where a run that is resumed has its coordinates; None where no run is resumed.

    Raises:
        RunFolderError: where its features.json is damaged.
    """
    if run is None or run.replace or not run.can_resume():
        return None
    try:
        spec = FeatureSpec.from_dict(run.read_json("features.json"))
    except (InputError, TypeError) as error:
        raise RunFolderError(f"{run.path / 'features.json'} is damaged: {error}") from error
    return spec.coordinates_in if spec.structure_dim else "none"


def stored_coordinates(run: RunFolder) -> NodeCoordinates | None:
    """The coordinates in a run folder; None where it has none.

    Raises:
        RunFolderError: where they are damaged.
    """
    tensors = run.read_coordinates()
    try:
        return None if tensors is None else NodeCoordinates.from_tensors(tensors)
    except InputError as error:
        raise RunFolderError(f"The coordinates in {run.path} are damaged: {error}") from error


def stored_encoding(run: RunFolder) -> FeatureSpec:
    """The encoding of the features in a run folder, with its coordinates.

    Raises:
        RunFolderError: where coordinates are missing or damaged.
    """
    spec = FeatureSpec.from_dict(run.read_json("features.json"))
    if not spec.structure_dim:
        return spec
    coordinates = stored_coordinates(run)
    if coordinates is None:
        raise RunFolderError(
            f"{run.path} lacks the coordinates of its nodes. Copy the whole folder, or train again."
        )
    try:
        return replace(spec, coordinates=coordinates)
    except InputError as error:
        raise RunFolderError(f"The coordinates in {run.path} are damaged: {error}") from error


def _matching_scale(x: Tensor | SparseMatrix | None, rows: Tensor) -> float:
    """The factor that gives `rows` the mean squared row norm of the features `x`.

    1 where one of both is 0.
    """
    assert x is not None
    values = x.value if isinstance(x, SparseMatrix) else x
    wanted, own = (float(part.to(torch.float64).square().sum()) for part in (values, rows))
    return (wanted / own) ** 0.5 if wanted > 0 and own > 0 else 1.0
