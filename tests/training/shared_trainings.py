"""Trainings by several processes; run by torchrun as: shared_trainings.py FOLDER.

The first process writes FOLDER/found.json, and runs that tests go on with in one process.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

from graphlatent import GraphLaGraph, NodeBGRL, NodeDGI, NodeLaGraph
from graphlatent.errors import GraphLatentError, TrainingInterrupted
from graphlatent.io.runfolder import RunFolder
from graphlatent.methods.dgi import DGI
from graphlatent.ops.collective import alone, gathered_json, gathered_rows, rank, world_size
from graphlatent.ops.processes import joined
from graphlatent.training.loop import Hooks
from processes_data import OF_GRAPHS, SMALL, bits, graphs, nodes


def everywhere(model: Any) -> dict[str, Any]:
    """What all processes have after training: fingerprints of weights and of histories."""
    return {"bits": gathered_json(bits(model)), "history": gathered_json(model.history_.to_csv())}


def refused(call: Any) -> list[str]:
    """The messages of all processes about what they refuse."""
    try:
        call()
    except GraphLatentError as error:
        return gathered_json(str(error))
    raise AssertionError("nothing was refused")


class TorchNorm(nn.Module):
    """An encoder with torch's batch norm."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(5, 4), nn.BatchNorm1d(4)

    def forward(self, x, edge_index, edge_weight=None):
        return self.norm(self.linear(x))


class Alone(DGI):
    """A method that processes cannot share."""

    name: ClassVar[str] = "alone"
    parallel: ClassVar[bool] = False


class NodeAlone(NodeDGI):
    """Its estimator."""

    method: ClassVar[type] = Alone


def stopped_at(epoch: int, *, only: int) -> Hooks:
    """Hooks that ask for a stop in one process, and save snapshots."""
    calls = iter(range(10**6))
    steps = 2 * epoch

    def stop() -> bool:
        return rank() == only and next(calls) >= steps

    return Hooks(stop_requested=stop)


def interrupted(model: Any, data: Any, run: Path, *, epoch: int) -> list[str]:
    """Train until one process asks for a stop, and save; the messages of all."""
    folder = RunFolder(run)
    hooks = stopped_at(epoch, only=1)
    hooks = Hooks(stop_requested=hooks.stop_requested, save=folder.save_snapshot)
    try:
        model.fit(data, run=folder, hooks=hooks)
    except TrainingInterrupted as stop:
        return gathered_json(str(stop))
    raise AssertionError("nothing was interrupted")


def main(folder: Path) -> None:
    found: dict[str, Any] = {"size": world_size()}
    small, of_graphs = SMALL, OF_GRAPHS
    model = GraphLaGraph(**of_graphs).fit(graphs(), run=folder / "graphs")
    found["graphs"] = everywhere(model)
    rows = model.embed(graphs()).values
    with alone():
        by_one = model.embed(graphs()).values
    found["embedding"] = gathered_json(float(np.abs(rows - by_one).max() / np.abs(by_one).max()))
    found["equal rows"] = len({bytes(r.numpy()) for r in gathered_rows(torch.from_numpy(rows))})
    # Again, from the complete run.
    found["complete"] = everywhere(GraphLaGraph(**of_graphs).fit(graphs(), run=folder / "graphs"))

    stop = interrupted(GraphLaGraph(**of_graphs), graphs(), folder / "stopped", epoch=2)
    found["interrupted"] = stop
    resumed = GraphLaGraph(**of_graphs).fit(graphs(), run=folder / "stopped")
    found["resumed"] = everywhere(resumed)
    interrupted(GraphLaGraph(**of_graphs), graphs(), folder / "for_one", epoch=2)
    # A run that one process began.
    found["of one"] = everywhere(GraphLaGraph(**of_graphs).fit(graphs(), run=folder / "of_one"))

    pieces = {"batching": "nodes", "nodes_per_step": 40, "steps_per_epoch": 2, **small}
    for cls in (NodeLaGraph, NodeBGRL, NodeDGI):
        values = {k: v for k, v in pieces.items() if cls is not NodeBGRL or k != "hidden_dim"}
        fitted = cls(**values).fit(nodes())
        found[cls.__name__] = everywhere(fitted)
    run = folder / "pieces"
    found["pieces"] = everywhere(NodeLaGraph(**pieces).fit(nodes(), run=run))
    found["node rows"] = len(
        {bytes(r.numpy()) for r in gathered_rows(torch.from_numpy(fitted.embed(nodes()).values))}
    )

    found["refused full"] = refused(lambda: NodeLaGraph(**small).fit(nodes()))
    own = {"encoder": TorchNorm(), "structure": "none", "embedding": "encoder"}
    found["refused norm"] = refused(lambda: NodeLaGraph(**{**pieces, **own}).fit(nodes()))
    found["refused input"] = refused(lambda: NodeLaGraph(**pieces).fit(nodes(seed=rank())))
    found["refused method"] = refused(lambda: NodeAlone(**pieces).fit(nodes()))
    if rank() == 0:
        (folder / "found.json").write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    with joined(timeout=60):
        main(Path(sys.argv[1]))
