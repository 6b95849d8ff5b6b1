"""How the nodes of a graph are cut into training steps, and what `batching="auto"` chooses."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

import torch

from graphlatent.config import GraphSettings, NodeSettings, Settings, resolve
from graphlatent.data.batches import Prepare
from graphlatent.data.csr import CSRGraph
from graphlatent.data.graph import GraphData
from graphlatent.data.memory_limit import memory_limit, readable
from graphlatent.data.pieces import ClusterPieces, NeighborPieces, NodePieces, PieceSource
from graphlatent.data.pieces.clusters import num_parts
from graphlatent.data.pieces.degrees import BLOCK_EDGES
from graphlatent.data.pieces.partition import has_metis, partition
from graphlatent.data.store.store import AnyGraph, GraphStore
from graphlatent.errors import warn
from graphlatent.io.runfolder import RunFolder
from graphlatent.nn.propagation import refuse_negative
from graphlatent.ops.collective import first_only
from graphlatent.ops.devices import pick_device
from graphlatent.ops.sparse import SparseMatrix

PIECES = ("nodes", "clusters", "neighbors")
"""Ways of `batching` whose steps see a part of the graph."""

AnySettings = TypeVar("AnySettings", bound=Settings)


@dataclass(frozen=True)
class GraphSize:
    """What the memory of a step on a whole graph depends on.

    Args:
        num_nodes: N.
        num_edges: stored edges; an undirected one counts twice.
        feature_values: numbers that the features have: N F where they are dense.
        sparse: features are sparse.
    """

    num_nodes: int
    num_edges: int
    feature_values: int
    sparse: bool = False

    @classmethod
    def of(cls, graph: AnyGraph | CSRGraph) -> GraphSize:
        """The size of a graph; its features may not be encoded yet."""
        if isinstance(graph, GraphStore):
            return cls(graph.num_nodes, graph.num_edges, graph.num_feature_values)
        if isinstance(graph, CSRGraph):
            return cls(graph.num_nodes, graph.num_edges, graph.num_nodes * graph.x.shape[1])
        if isinstance(graph.x, SparseMatrix):
            return cls(graph.num_nodes, graph.num_edges, graph.x.nnz, True)
        width = len(graph.columns or ()) if graph.x is None else graph.x.shape[1]
        return cls(graph.num_nodes, graph.num_edges, graph.num_nodes * max(width, 1))


def full_batch_bytes(size: GraphSize, *, hidden_dim: int, num_layers: int) -> int:
    """About the memory of training on the whole graph at once, in bytes.

    Features and their averages over neighbours, edges with the propagation matrix and what it is
    made of, and for each layer of both views what the gradient needs, with the terms of the loss.
    Measured: docs/scale.md.
    """
    features = (24 if size.sparse else 8) * size.feature_values
    edges = 80 * (size.num_edges + size.num_nodes)
    rows = 4 * size.num_nodes * hidden_dim * (6 * num_layers + 8)
    return features + edges + rows


def chosen_batching(
    settings: AnySettings, size: GraphSize, *, device: torch.device, owner: str
) -> AnySettings:
    """The settings with a choice in the place of `batching="auto"`; others as they are.

    'full' where a step on the whole graph fits into the memory that may be used: half of what is
    available, or --max-memory; on a GPU, what is free. Else 'clusters', or 'neighbors' where METIS
    is not installed. Of several processes, the first chooses.

    Args:
        settings: with or without the values of a preset.
        size: of the graph.
        device: where training will be.
        owner: whose settings they are, for messages.

    Warns:
        GraphLatentWarning: says what was chosen, and why, where it is not 'full'.
    """
    if not isinstance(settings, NodeSettings) or settings.batching != "auto":
        return settings
    # Processes may have different memory.
    return replace(settings, batching=first_only(lambda: _chosen(settings, size, device, owner)))


def _chosen(settings: NodeSettings, size: GraphSize, device: torch.device, owner: str) -> str:
    """The `batching` that "auto" is; warns where it is not 'full'."""
    full = replace(settings, batching="full")
    known: Any = resolve(full.adapted_to(size.num_nodes), owner=owner)
    needed = full_batch_bytes(size, hidden_dim=known.hidden_dim, num_layers=known.num_layers)
    on_gpu = device.type == "cuda"
    limit = torch.cuda.mem_get_info(device)[0] if on_gpu else memory_limit()
    if needed <= limit:
        return "full"
    way, why = _way_of_pieces()
    step = min(settings.nodes_per_step, size.num_nodes)
    warn(
        f"Training on the whole graph at once would take about {readable(needed)} of memory, and"
        f" {readable(limit)} may be used: batching='{way}' was chosen{why}, with about {step:,}"
        " nodes a step. Set batching to choose otherwise."
    )
    return way


def _way_of_pieces() -> tuple[Literal["clusters", "neighbors"], str]:
    """The `batching` that "auto" takes where steps see pieces, and why it is not the better one."""
    if has_metis():
        return "clusters", ""
    return "neighbors", ", as pymetis is not installed"


def make_pieces(
    graph: CSRGraph,
    settings: NodeSettings,
    *,
    prepare: Prepare,
    device: torch.device,
    cache: Path | None = None,
) -> PieceSource:
    """The source of training steps on pieces of a graph.

    Args:
        graph: by rows.
        settings: with a `batching` of PIECES.
        prepare: makes the structure that the encoder propagates with.
        device: where batches go.
        cache: a folder in which a partition of the graph is kept.
    """
    nodes = settings.nodes_per_step
    if settings.batching == "nodes":
        return NodePieces(
            graph,
            nodes_per_step=nodes,
            steps_per_epoch=settings.steps_per_epoch,
            prepare=prepare,
            device=device,
        )
    if settings.batching == "clusters":
        count = num_parts(
            graph.num_nodes, nodes_per_step=nodes, parts_per_step=settings.parts_per_step
        )
        return ClusterPieces(
            graph,
            partition(graph, count, cache=cache),
            parts_per_step=settings.parts_per_step,
            prepare=prepare,
            device=device,
        )
    return NeighborPieces(
        graph,
        nodes_per_step=nodes,
        num_neighbors=settings.num_neighbors,
        num_layers=settings.num_layers,
        prepare=prepare,
        device=device,
    )


def check_weights(graph: CSRGraph, *, kind: str | None) -> None:
    """Raise an `InputError` where the encoder does not support the weights of a graph.

    That is said before the first step rather than in one that happens to have such an edge.
    """
    if graph.weight is None or kind != "gcn":
        return
    for block in torch.split(graph.weight, BLOCK_EDGES):
        refuse_negative(block)


def adapted_settings(
    settings: AnySettings,
    graph: AnyGraph | CSRGraph,
    *,
    run: RunFolder | None,
    owner: str,
) -> AnySettings:
    """The settings for a graph: `batching` chosen, and the defaults of graphs like it.

    Args:
        settings: checked, without the values of a preset.
        graph: with or without encoded features.
        run: a run that is resumed, which has stored what `batching` was; another memory would lead
            to another choice.
        owner: whose settings they are, for messages.
    """
    whole = graph.num_nodes
    if getattr(settings, "batching", "") == "auto":
        # Only the first of several processes is known to have the run.
        way = first_only(lambda: stored_batching(run))
        if way is None and isinstance(graph, GraphStore) and graph.share is not None:
            # No process has the whole graph.
            way = first_only(_way_of_pieces)[0]
        if way is not None:
            settings = cast(AnySettings, replace(cast(Any, settings), batching=way))
        device = pick_device(settings.device)
        settings = chosen_batching(settings, GraphSize.of(graph), device=device, owner=owner)
    if isinstance(graph, GraphStore) and graph.share is not None:
        whole = graph.share.num_nodes
    has_features = True
    if isinstance(settings, GraphSettings) and isinstance(graph, GraphData):
        given = graph.x is not None or bool(graph.columns)
        has_features = given and not graph.has_equal_features()
    return settings.adapted_to(whole, has_features=has_features)


def stored_batching(run: RunFolder | None) -> str | None:
    """The `batching` of a run that is resumed; None where there is none, or it is not known."""
    if run is None or run.replace or not run.can_resume():
        return None
    value = run.read_config().settings.get("batching")
    return value if isinstance(value, str) and value in ("full", *PIECES) else None
