"""Set-up of a training run from graphs and a method: model, form of the features, batches."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from graphlatent.config import GraphSettings, NodeSettings, Settings
from graphlatent.data.batches import (
    Batch,
    BatchSource,
    FullBatches,
    GraphBatches,
    WholeSource,
    full_batch,
)
from graphlatent.data.csr import CSRGraph, FeatureRows
from graphlatent.data.graph import GraphData
from graphlatent.data.pieces.degrees import find_degrees
from graphlatent.data.pieces.sample import sampled_rows
from graphlatent.data.pieces.whole import whole_batch
from graphlatent.data.sharing import agree_on_steps
from graphlatent.data.store.store import AnyGraph
from graphlatent.errors import warn
from graphlatent.methods.base import Method
from graphlatent.ops.collective import first_only
from graphlatent.ops.kernels import usable
from graphlatent.ops.sparse import SparseMatrix, to_dense
from graphlatent.ops.threads import threads_for
from graphlatent.training.batching import (
    PIECES,
    GraphSize,
    check_weights,
    chosen_batching,
    make_pieces,
)
from graphlatent.training.loop import Training, seeded
from graphlatent.training.peak_memory import PeakMemory
from graphlatent.training.several import check_norms

DENSE_ADVANTAGE = {"cpu": 10.0, "cuda": 40.0}
"""Speed of dense relative to sparse products, in multiplications per second, by device type.

Measured in benchmarks/README.md.
"""
LOST = 2.0**-24
"""A number that is less than this part of another one is lost when float32 adds them."""
# Larger features are not converted to dense on a CPU.
_DENSE_BYTES = 1 << 30


def set_up(
    graph: GraphData | CSRGraph,
    method: Method[Any],
    *,
    device: torch.device,
    cache: Path | None = None,
) -> tuple[Training, Callable[[], Batch]]:
    """A training run before its first step, and a function that returns all graphs as one batch.

    Args:
        graph: with encoded features; a graph by rows may be memory-mapped.
        method: with resolved settings.
        device: where to train.
        cache: a folder in which what takes long to compute from the graph is kept, such as its
            clusters; None keeps nothing.

    Raises:
        InputError: where a graph by rows is to be trained on as a whole, and does not fit into
            memory.
    """
    owner = type(method).__name__
    settings = chosen_batching(method.settings, GraphSize.of(graph), device=device, owner=owner)
    memory = PeakMemory(device)
    model = _model(graph, method, device=device)
    prepare = partial(method.prepare, model)
    whole: Callable[[], Batch]
    source: BatchSource
    if isinstance(graph, CSRGraph):
        graph = _rows_in_form(graph, method, model, device=device)
        whole = partial(whole_batch, graph, prepare=prepare, device=device)
    else:
        graph = _in_form(graph, method, model, device=device)
        whole = partial(full_batch, graph, prepare=prepare, device=device)
    pieces = isinstance(settings, NodeSettings) and settings.batching in PIECES
    if pieces:
        # Nothing is precomputed for the whole graph: a step uses a small part of it.
        rows = CSRGraph.of(graph) if isinstance(graph, GraphData) else graph
        check_weights(rows, kind=getattr(model.encoder, "kind", None))
        source = make_pieces(rows, settings, prepare=prepare, device=device, cache=cache)
    elif isinstance(settings, NodeSettings):
        source = FullBatches(whole(), steps_per_epoch=settings.steps_per_epoch)
    else:
        assert isinstance(graph, GraphData)
        source = GraphBatches(whole(), graph.ptr, batch_size=settings.batch_size)
    agree_on_steps(source)
    source = method.begin(model, source)
    training = Training(method, model, source, device=device, memory=memory)
    if pieces:
        training.everything = whole
        return training, whole
    return training, lambda: cast(WholeSource, source).everything


def _model(graph: GraphData | CSRGraph, method: Method[Any], *, device: torch.device) -> nn.Module:
    """The method's model for the features of a graph, on the device."""
    settings = method.settings
    assert graph.x is not None
    coordinates = 0 if graph.coordinates is None else graph.coordinates.shape[1]
    model = method.build_with_head(
        graph.x.shape[1],
        generator=seeded(settings.random_state, 0),
        coordinate_dim=coordinates,
        edge_dim=0 if graph.edge_attr is None else graph.edge_attr.shape[1],
    )
    check_norms(model)
    model = model.to(device=device, dtype=torch.float32)
    if settings.precision == "bf16" and not usable(next(model.parameters())):
        warn("precision='bf16' needs a GPU and Triton: computing in float32 here.")
    if getattr(model.encoder, "kind", None) == "gin":
        _warn_of_lost_sums(graph)
    return model


def _in_form(
    graph: GraphData, method: Method[Any], model: nn.Module, *, device: torch.device
) -> GraphData:
    """The graph with dense or sparse features, whichever multiplies faster."""
    if not method.chooses_feature_form(model):
        return graph
    assert graph.x is not None
    settings = method.settings
    form = choose_form(
        graph.x,
        settings.features,
        hidden_dim=settings.hidden_dim,
        stored_edges=graph.num_edges + graph.num_nodes,
        device=device,
        mini_batches=isinstance(settings, GraphSettings),
    )
    return dataclasses.replace(graph, x=as_form(graph.x, form))


def _rows_in_form(
    graph: CSRGraph, method: Method[Any], model: nn.Module, *, device: torch.device
) -> CSRGraph:
    """The graph with its features dense or sparse in a step, by a sample of them."""
    if not method.chooses_feature_form(model):
        return graph
    settings, x = method.settings, sampled_rows(graph)
    share = x.shape[0] / max(graph.num_nodes, 1)
    # Processes with different shards must compute the same sums.
    form = first_only(
        lambda: choose_form(
            x,
            settings.features,
            hidden_dim=settings.hidden_dim,
            stored_edges=round((graph.num_edges + graph.num_nodes) * share),
            device=device,
        )
    )
    return dataclasses.replace(graph, x=RowsInForm(graph.x, form))


@dataclasses.dataclass(frozen=True, eq=False)
class RowsInForm:
    """Rows of features, converted to dense or sparse as they are taken.

    Args:
        rows: as they are.
        form: 'dense' or 'sparse'.
    """

    rows: FeatureRows
    form: str

    @property
    def shape(self) -> tuple[int, int]:
        """(N, F)."""
        return self.rows.shape

    def take(self, index: Tensor) -> Tensor | SparseMatrix:
        """The rows `index`."""
        return as_form(self.rows.take(index), self.form)


def suited_threads(
    graph: AnyGraph | CSRGraph, settings: Settings, *, whole: bool = False
) -> AbstractContextManager[None]:
    """A context with the number of threads for training on a graph, or for embedding it.

    Args:
        graph: with or without encoded features.
        settings: resolved.
        whole: all nodes are computed at once, as in embedding; otherwise those of a step.
    """
    share = 1.0
    if isinstance(settings, GraphSettings) and isinstance(graph, GraphData):
        share = settings.batch_size / max(graph.num_graphs, 1)
    elif isinstance(settings, NodeSettings) and settings.batching in PIECES:
        nodes = settings.nodes_per_step
        if settings.batching == "neighbors" and settings.num_neighbors is not None:
            # A step has the sampled neighbourhoods of its nodes.
            nodes *= (1 + settings.num_neighbors) ** settings.num_layers
        share = nodes / max(graph.num_nodes, 1)
    work = _multiplications(graph, settings.hidden_dim)
    return threads_for(work if whole else work * min(1.0, share))


def _multiplications(graph: AnyGraph | CSRGraph, hidden_dim: int) -> float:
    """About how many multiplications an encoder layer takes."""
    if isinstance(graph, GraphData) and graph.x is None:
        stored = graph.num_nodes * len(graph.columns or ())
    else:
        stored = GraphSize.of(graph).feature_values
    return float(hidden_dim) * (graph.num_nodes * hidden_dim + graph.num_edges + stored)


def _warn_of_lost_sums(graph: GraphData | CSRGraph) -> None:
    """Warn where sums over neighbours differ by more between nodes than float32 can tell."""
    # A node's own features have weight 1.
    if isinstance(graph, CSRGraph):
        if graph.weight is None:
            return
        degrees = find_degrees(graph)
        sums = degrees.total + (0 if degrees.loop is None else (degrees.loop >= 0))
    else:
        if graph.edge_weight is None:
            return
        weight = graph.edge_weight.to(torch.float64).abs()
        sums = torch.ones(graph.num_nodes, dtype=torch.float64)
        sums.index_add_(0, graph.edge_index[1], weight)
    largest = float(sums.max())
    lost = int((sums < LOST * largest).sum())
    if lost:
        warn(
            f"The edge weights of a node sum to as much as {largest:.3g}, and those of"
            f" {lost:,} nodes to less than {LOST:.0e} of that. encoder='gin' sums over neighbours:"
            " in float32 these nodes become the same. Take logarithms of the weights, or use"
            " encoder='gcn', which divides by their sums."
        )


def choose_form(
    x: Tensor | SparseMatrix,
    wanted: str,
    *,
    hidden_dim: int,
    stored_edges: int,
    device: torch.device,
    mini_batches: bool = False,
) -> str:
    """'dense' or 'sparse', the form of the features with which a step is estimated to be faster.

    The estimate counts multiplications per row and hidden unit, forward and backward. Dense: 5 F
    (2 in the first layer, 3 for the residual). Sparse: 4 per stored feature and 2 per stored edge,
    each taking DENSE_ADVANTAGE times as long, and 2 H dense ones for the Gram matrices.
    Mini-batches of graphs are extracted in every step, which is slow for sparse features: they are
    dense wherever memory allows.
    """
    if wanted != "auto":
        return wanted
    rows, width = x.shape
    # On a GPU a quarter of the free memory: up to four such float32 matrices are needed, x and
    # A @ x of all graphs, each with and without padding.
    limit = torch.cuda.mem_get_info(device)[0] // 16 if device.type == "cuda" else _DENSE_BYTES
    if 4 * rows * width > limit:
        return "sparse" if isinstance(x, SparseMatrix) else "dense"
    stored = x.nnz if isinstance(x, SparseMatrix) else int(torch.count_nonzero(x))
    advantage = DENSE_ADVANTAGE.get(device.type, 10.0)
    sparse = advantage * (4 * stored + 2 * stored_edges) + 2 * hidden_dim * rows
    return "dense" if mini_batches or 5 * width * rows <= sparse else "sparse"


def as_form(x: Tensor | SparseMatrix, form: str) -> Tensor | SparseMatrix:
    """The features `x` converted to `form`, 'dense' or 'sparse'."""
    if form == "dense":
        return to_dense(x)
    if isinstance(x, SparseMatrix):
        return x
    row, col = torch.nonzero(x, as_tuple=True)
    return SparseMatrix.from_coo(row, col, x[row, col], (x.shape[0], x.shape[1]))
