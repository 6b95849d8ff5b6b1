"""From encoded graphs and settings to a run that can begin: model, features in their faster form,
batches.
"""

from __future__ import annotations

import copy
import dataclasses
import warnings
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from graphlatent.config import GraphSettings, NodeSettings, Settings
from graphlatent.data.batches import (
    Batch,
    BatchSource,
    FullBatches,
    GraphBatches,
    NodeBatches,
    full_batch,
    with_constants,
)
from graphlatent.data.graph import GraphData
from graphlatent.errors import GraphLatentWarning
from graphlatent.methods.lagraph.engine import Engine, choose_engine
from graphlatent.methods.lagraph.masking import num_masked, with_places
from graphlatent.methods.lagraph.model import build_model
from graphlatent.methods.lagraph.padded import PaddedBatches
from graphlatent.ops.kernels import usable
from graphlatent.ops.sparse import SparseMatrix, to_dense
from graphlatent.training.loop import Training, seeded
from graphlatent.training.peak_memory import PeakMemory

DENSE_ADVANTAGE = {"cpu": 10.0, "cuda": 40.0}
"""How many multiplications a dense product makes in the time of one of a sparse product, by kind of
device (benchmarks/README.md).
"""
_DENSE_BYTES = 1 << 30  # features larger than this are not made dense on a CPU


def set_up(
    graph: GraphData, settings: Settings, *, device: torch.device
) -> tuple[Training, Callable[[], Batch]]:
    """A run that has not begun, and what gives all graphs as one batch.

    Args:
        graph: with encoded features.
        settings: resolved.
        device: where to train.
    """
    assert graph.x is not None
    memory = PeakMemory(device)
    # Trained on a copy: fit never changes what it was given
    if isinstance(settings.encoder, nn.Module):
        settings = dataclasses.replace(settings, encoder=copy.deepcopy(settings.encoder))
    model = build_model(
        settings, in_dim=graph.x.shape[1], generator=seeded(settings.random_state, 0)
    ).to(device=device, dtype=torch.float32)
    engine = choose_engine(model, settings)
    if settings.precision == "bf16" and engine.dtype is None:
        warnings.warn(
            "precision='bf16' needs a GPU and Triton: computing in float32 here.",
            GraphLatentWarning,
            stacklevel=4,
        )
    if engine.share:
        stored = graph.num_edges + graph.num_nodes
        mini = isinstance(settings, GraphSettings)
        form = choose_form(
            graph.x,
            settings.features,
            hidden_dim=settings.hidden_dim,
            stored_edges=stored,
            device=device,
            mini_batches=mini,
        )
        graph = dataclasses.replace(graph, x=as_form(graph.x, form))
    whole = partial(full_batch, graph, prepare=model.prepare, device=device)
    # All of it is not made ready: a step needs little of it
    if isinstance(settings, NodeSettings) and settings.batching == "nodes":
        steps = {
            "nodes_per_step": settings.nodes_per_step,
            "steps_per_epoch": settings.steps_per_epoch,
        }
        batches = NodeBatches(
            graph, **steps, prepare=model.prepare, device=device, dtype=torch.float32
        )
        return Training(model, batches, settings, device=device, memory=memory), whole
    everything = whole()
    if settings.engine == "auto":
        everything = with_constants(everything, dtype=engine.dtype)
    return (
        Training(
            model,
            _batches(everything, graph, settings, engine),
            settings,
            device=device,
            memory=memory,
        ),
        lambda: everything,
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
    """Whether a step is faster with dense or with sparse features: 'dense' or 'sparse'.

    Multiplications of a row and a hidden unit, forward and backward: dense 5 F (first layer 2,
        residual 3); sparse 4 for each stored
    feature and 2 for each stored edge, which take DENSE_ADVANTAGE times as long, and 2 H dense ones
    for the Gram matrices. Mini-batches of graphs are cut out in every step, which sparse features
    make expensive: they are dense wherever that fits.
    """
    if wanted != "auto":
        return wanted
    rows, width = x.shape
    # On a GPU a quarter of what is free: there may be four of them, x and A @ X of all graphs, and
    # both once more with padding.
    limit = torch.cuda.mem_get_info(device)[0] // 16 if device.type == "cuda" else _DENSE_BYTES
    if 4 * rows * width > limit:
        return "sparse" if isinstance(x, SparseMatrix) else "dense"
    stored = x.nnz if isinstance(x, SparseMatrix) else int(torch.count_nonzero(x))
    advantage = DENSE_ADVANTAGE.get(device.type, 10.0)
    sparse = advantage * (4 * stored + 2 * stored_edges) + 2 * hidden_dim * rows
    return "dense" if mini_batches or 5 * width * rows <= sparse else "sparse"


def as_form(x: Tensor | SparseMatrix, form: str) -> Tensor | SparseMatrix:
    """The same features, 'dense' or 'sparse'."""
    if form == "dense":
        return to_dense(x)
    if isinstance(x, SparseMatrix):
        return x
    row, col = torch.nonzero(x, as_tuple=True)
    return SparseMatrix.from_coo(row, col, x[row, col], (x.shape[0], x.shape[1]))


def _batches(
    everything: Batch, graph: GraphData, settings: Settings, engine: Engine
) -> BatchSource:
    """The training set cut into steps."""
    if isinstance(settings, GraphSettings):
        even = (
            engine.share
            and engine.how != "output"
            and settings.objective == "mse-embed"
            and isinstance(everything.x, Tensor)
        )
        if even and usable(everything.graph_id):
            wanted = num_masked(
                torch.diff(graph.ptr),
                ratio=settings.mask_ratio,
                rounding=str(settings.mask_rounding),
            )
            size, ratio = settings.batch_size, settings.mask_ratio
            return PaddedBatches(
                everything, graph.ptr, batch_size=size, wanted=wanted, mask_ratio=ratio
            )
        return GraphBatches(everything, graph.ptr, batch_size=settings.batch_size)
    assert isinstance(settings, NodeSettings)
    return FullBatches(with_places(everything, settings), steps_per_epoch=settings.steps_per_epoch)
