"""Trainings by two processes with a shard each; run by torchrun as: shared_shards.py FOLDER.

FOLDER has the stores 'columns', 'few', 'wide' and 'none', each with two shards. The first process
writes FOLDER/found.json, and runs that tests go on with in one process.
"""

from __future__ import annotations

import copy
import json
import shutil
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from shared_trainings import everywhere, interrupted, refused
from torch import nn

from graphlatent import NodeLaGraph, read_graphs
from graphlatent.config import resolve
from graphlatent.data.csr import CSRGraph
from graphlatent.data.readers.stores import opened
from graphlatent.data.store.store import GraphStore
from graphlatent.embedding_files import embed_by_rows
from graphlatent.io.differences import encoding_differences
from graphlatent.methods.base import Method
from graphlatent.nn.propagation import as_gcn_matrix
from graphlatent.nn.similarity import feature_similarity
from graphlatent.ops.collective import alone, gathered_json, rank
from graphlatent.ops.processes import joined
from graphlatent.training.fitted import finish_model
from graphlatent.training.inputs import prepared
from graphlatent.training.setup import set_up
from processes_data import SMALL, bits

PIECES = {"nodes_per_step": 20, **SMALL}
CLUSTERS = {"batching": "clusters", "parts_per_step": 2, **PIECES}
WAYS = {
    "clusters": CLUSTERS,
    "nodes": {"batching": "nodes", "steps_per_epoch": 2, **PIECES},
    "neighbors": {"batching": "neighbors", **PIECES},
}


def without_lost_edges(whole: CSRGraph, store: GraphStore) -> CSRGraph:
    """The graph of a store without the edges between its shards."""
    place = {name: i for i, name in enumerate(store.ids())}
    shard = torch.empty(store.num_nodes, dtype=torch.int64)
    for number in range(2):
        part = GraphStore.open(store.path / "shards" / str(number))
        shard[[place[name] for name in part.ids()]] = number
    row = torch.repeat_interleave(torch.arange(store.num_nodes), torch.diff(whole.indptr))
    kept = shard[row] == shard[whole.indices.long()]
    counts = torch.bincount(row[kept], minlength=store.num_nodes)
    indptr = torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)])
    weight = None if whole.weight is None else whole.weight[kept]
    return replace(whole, indptr=indptr, indices=whole.indices[kept], weight=weight)


def difference(one: torch.Tensor, other: torch.Tensor) -> float:
    return float((one - other).abs().max() / other.abs().max().clamp(min=1e-30))


def finished(store: GraphStore, settings: dict[str, Any]) -> dict[str, Any]:
    """An untrained model finished by both processes, by one with both shards, and with one shard.

    Returns the relative differences of batch-norm statistics and of embeddings from those by one
    process, of the model of both and of the model of one shard.
    """
    known = resolve(NodeLaGraph(**settings), owner="x")
    method: Method[Any] = NodeLaGraph.method(known, level="node")
    encoded, spec = prepared(opened(store.path / "shards"), known)
    training, _ = set_up(encoded, method, device=torch.device("cpu"))
    weight = getattr(training.method.step_settings, "variance_weight", None)
    scale = getattr(training.method, "scale", None)
    of_one = copy.deepcopy(training.model)
    of_shard = copy.deepcopy(training.model)
    finish_model(method, training.model, encoded)
    models = {"both": training.model}
    with alone():
        whole, spec_of_whole = prepared(store, known)
        assert not encoding_differences(spec_of_whole.to_dict(), spec.to_dict())
        united = without_lost_edges(whole, store)
        finish_model(method, of_one, united)
        finish_model(method, of_shard, encoded)
        models["shard"] = of_shard
        values = torch.from_numpy(embed_by_rows(method, of_one.eval(), united))
        found: dict[str, Any] = {}
        for name, model in models.items():
            rows = torch.from_numpy(embed_by_rows(method, model.eval(), united))
            # Whatever the basis, inner products are those of the same embedding.
            inner = difference(rows @ rows.T, values @ values.T)
            found[name] = {"norms": norms(model, of_one), "embedding": inner}
    state = {
        "bits": gathered_json(bits_of(training.model)),
        "terms": gathered_json([weight, scale]),
    }
    return found | state


def similarity(store: GraphStore) -> float:
    """The largest difference of what both processes find, and one with both shards."""
    known = resolve(NodeLaGraph(**CLUSTERS), owner="x")

    def found(graph: CSRGraph, *, shared: bool) -> torch.Tensor:
        nodes = torch.arange(graph.num_nodes)
        matrix = as_gcn_matrix(graph.induced(nodes), kind=None, dtype=torch.float32)
        generator = torch.Generator().manual_seed(0)
        values = feature_similarity(graph.x.take(nodes), matrix, generator=generator, shared=shared)
        return torch.tensor([values.neighbours, values.siblings, values.deviations, values.degree])

    both = found(prepared(opened(store.path / "shards"), known)[0], shared=True)
    with alone():
        return difference(
            both, found(without_lost_edges(prepared(store, known)[0], store), shared=False)
        )


def bits_of(model: nn.Module) -> str:
    return bits(type("Fitted", (), {"model_": model}))


def norms(model: nn.Module, other: nn.Module) -> float:
    """The largest difference of batch-norm statistics."""
    mine, others = model.state_dict(), other.state_dict()
    names = [n for n in mine if n.endswith((".mean", ".var"))]
    return max(difference(mine[name], others[name]) for name in names)


def main(folder: Path) -> None:
    found: dict[str, Any] = {}
    shards = {name: folder / name / "store" / "shards" for name in ("columns", "few", "none")}
    stores = {p.name: GraphStore.open(p / "store") for p in folder.iterdir() if p.is_dir()}
    for name, settings in WAYS.items():
        model = NodeLaGraph(**settings)
        found[name] = everywhere(model.fit(shards["columns"], run=folder / f"run_{name}"))
    by_default = NodeLaGraph(**PIECES).fit(shards["columns"])
    found["auto"] = gathered_json(by_default.settings_.batching)
    found["paper"] = everywhere(NodeLaGraph(preset="paper", **CLUSTERS).fit(shards["few"]))
    degrees = NodeLaGraph(structure="none", **CLUSTERS)
    found["degrees"] = everywhere(degrees.fit(shards["none"]))

    again = NodeLaGraph(**CLUSTERS)
    data, run = shards["columns"], folder / "stopped"
    found["interrupted"] = interrupted(again, data, run, epoch=1)
    if rank() == 0:
        for name in ("for_one", "for_whole"):
            shutil.copytree(run, folder / name)
    found["resumed"] = everywhere(again.fit(data, run=run))
    # On the whole store, by two processes.
    found["on whole"] = everywhere(again.fit(stores["columns"].path, run=folder / "for_whole"))

    for name in ("columns", "few", "wide"):
        found[f"finished {name}"] = finished(stores[name], CLUSTERS)
    gin = {**CLUSTERS, "encoder": "gin", "embedding": "encoder"}
    found["finished gin"] = finished(stores["few"], gin)

    found["similarity"] = max(similarity(stores[name]) for name in ("columns", "few", "wide"))
    full = NodeLaGraph(batching="full", **SMALL)
    found["refused full"] = refused(lambda: full.fit(shards["columns"]))
    found["refused read"] = refused(lambda: read_graphs(shards["columns"]))
    embed = partial(again.embed, shards["columns"])
    found["refused embed"] = refused(embed)
    if rank() == 0:
        (folder / "found.json").write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    with joined(timeout=60):
        main(Path(sys.argv[1]))
