"""From a trained model to one that embeds: batch-norm statistics, head, and its embeddings."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from graphlatent.data.batches import Batch
from graphlatent.data.csr import CSRGraph
from graphlatent.io.scratch import Progress, Scratch, no_progress
from graphlatent.methods.base import Method
from graphlatent.nn.node_head import NodeHead
from graphlatent.nn.norm import has_statistics, measure_by_blocks, measure_statistics
from graphlatent.ops.row_blocks import MEMORY, BlockPlan
from graphlatent.training.finite import check_statistics, checked_fit, fit_head
from graphlatent.training.layerwise import Layerwise, check_layerwise, encode, parts_of
from graphlatent.training.layerwise_head import fit_head_by_rows

if TYPE_CHECKING:
    from graphlatent.training.loop import Training


def finish_model(
    method: Method[Any],
    model: nn.Module,
    data: Callable[[], Batch] | CSRGraph,
    *,
    progress: Progress = no_progress,
) -> None:
    """Measure batch-norm statistics, and fit the head, on all of the training set; in place.

    Args:
        method: of the model.
        model: trained.
        data: returns the training set as one batch; or a graph by rows, which is read in blocks.
        progress: is told of every block.

    Raises:
        NonFiniteLossError, InputError: as `check_statistics`.
    """
    if not has_statistics(model) and not hasattr(model, "head"):
        return
    if isinstance(data, CSRGraph):
        finish_model_by_rows(method, model, data, progress=progress)
        return
    batch = data()
    if has_statistics(model):
        measure_statistics(model, lambda: method.measure(model, batch))
        check_statistics(model, method.settings)
    fit_head(method, model, batch)


def finish_model_by_rows(
    method: Method[Any],
    model: nn.Module,
    graph: CSRGraph,
    *,
    memory: int = MEMORY,
    block_rows: int | None = None,
    folder: Path | None = None,
    progress: Progress = no_progress,
) -> None:
    """`finish_model` on a graph by rows, in blocks; in place.

    It is computed on the CPU. Temporary files hold a few numbers for each node and column.

    Args:
        method: of the model.
        model: trained.
        graph: the training set, with encoded features.
        memory: about how many bytes a block may take.
        block_rows: rows of a block instead; None for as many as fit.
        folder: where temporary files go, in a folder of their own; None for the system's.
        progress: is told of every block.

    Raises:
        ConfigError: where the model cannot embed a graph layer by layer.
        NonFiniteLossError, InputError: as `check_statistics`.
        OutputError: where there is no room for temporary files.
    """
    check_layerwise(method, model)
    if not has_statistics(model) and not hasattr(model, "head"):
        return
    device = next(model.parameters()).device
    local = model if device.type == "cpu" else copy.deepcopy(model).cpu()
    plan = BlockPlan(graph.indptr, memory, block_rows)
    with tempfile.TemporaryDirectory(prefix="graphlatent-", dir=folder) as temporary:
        scratch = Scratch(Path(temporary) / "arrays", graph.num_nodes, progress=progress)
        _finish(method, local.eval(), Layerwise.of(local, graph, plan, scratch))
    if local is not model:
        model.load_state_dict(local.state_dict())
    model.eval()


def _finish(method: Method[Any], model: nn.Module, run: Layerwise) -> None:
    measures = has_statistics(model)
    hidden = encode(run, model.encoder, measure=measures)  # type: ignore[arg-type]
    if measures:
        after = method.measured_after(model)
        if after is not None:
            norms, function = after
            parts = partial(parts_of, run, method.settings.hidden_dim, hidden, "decoder")
            measure_by_blocks(norms, parts, function)
        check_statistics(model, method.settings)
    head = getattr(model, "head", None)
    if isinstance(head, NodeHead):
        with checked_fit(model, method.settings):
            fit_head_by_rows(run, head, hidden, generator=method.head_generator())


def current_embedding(training: Training) -> Tensor:
    """The embeddings of the training set if training ended here, float32 [M, D] on the CPU."""
    import torch

    with torch.no_grad():
        model = copy.deepcopy(training.model)
        finish_model(training.method, model, training.everything)
        rows = training.method.embed(model.eval(), training.everything())
    return rows.detach().to("cpu", torch.float32)
