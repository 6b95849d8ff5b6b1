"""A step shared by several processes against one process with the same rows; run by torchrun.

Usage: torchrun ... shared_steps.py OUT.json; the first process writes, for each case, the relative
difference of loss and gradient, and that of the mean of the processes' own gradients as a contrast.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from cases import as_sparse, double_model, generator, make_method, make_settings, random_graph
from graphlatent.config import resolve
from graphlatent.data.batches import Batch, full_batch
from graphlatent.data.graph import GraphData
from graphlatent.methods.base import Terms, combine
from graphlatent.methods.bgrl import BGRL, BGRLSettings
from graphlatent.methods.dgi import DGI, DGISettings
from graphlatent.methods.lagraph.fast import choose_engine, compute_terms
from graphlatent.methods.lagraph.masking import MaskedView, draw_mask, num_masked
from graphlatent.methods.lagraph.padded import PaddedBatches
from graphlatent.methods.lagraph.precomputed import EMPTY_CACHE, precompute
from graphlatent.methods.lagraph.views import Dropped
from graphlatent.nn.edge_dropout import DroppableMatrix
from graphlatent.ops.collective import alone, average_gradients, data_parallel
from graphlatent.ops.feature_views import MaskedColumns
from graphlatent.ops.sparse import SparseMatrix, to_dense

# The graphs of three processes, of very different sizes.
SIZES = {
    "node": ([9], [23], [5]),
    "graph": ([4, 9, 3], [7], [11, 6, 5, 2, 8]),
    "empty": ([4, 9, 3], [], [11, 6, 5, 2, 8]),  # a process without a graph
}
NONE, SOME, ALL = "none", "some", "all"


def joined(graphs: list[GraphData]) -> GraphData:
    """Graphs side by side."""
    start = torch.tensor([0, *(g.num_nodes for g in graphs)]).cumsum(0)
    edges = [g.edge_index + s for g, s in zip(graphs, start, strict=False)]
    ptr = [g.ptr[:-1] + s for g, s in zip(graphs, start, strict=False)]
    x = torch.cat([to_dense(g.x) for g in graphs])
    parts = {"edge_index": torch.cat(edges, 1), "num_nodes": int(start[-1])}
    whole = GraphData(**parts, ptr=torch.cat([*ptr, start[-1:]]), x=x)
    return as_sparse(whole) if isinstance(graphs[0].x, SparseMatrix) else whole


def counted(batch: Batch, which: str, seed: int) -> Batch:
    """The batch with some of its rows counted, with none, or without a word about it."""
    if which == ALL:
        return batch
    some = torch.rand(batch.num_nodes, generator=generator(seed)) < 0.6
    return dataclasses.replace(batch, counts=some & (which == SOME))


def united(whole: Batch, parts: list[Batch]) -> Batch:
    """The batch of all graphs, in which the rows count that count in its parts."""
    if all(part.counts is None for part in parts):
        return whole
    every = [
        torch.ones(p.num_nodes, dtype=torch.bool) if p.counts is None else p.counts for p in parts
    ]
    return dataclasses.replace(whole, counts=torch.cat(every))


def offsets(parts: list[Batch]) -> list[int]:
    return [sum(p.num_nodes for p in parts[:i]) for i in range(len(parts))]


@dataclasses.dataclass
class Case:
    """A model, and the terms of process r, or of all rows in one process for None.

    `empty` are the processes without a row, which alone have no loss.
    """

    model: nn.Module
    terms: Callable[[int | None], Terms]
    empty: tuple[int, ...] = ()


def batches(
    model: nn.Module, prepare: Callable, graphs: list[GraphData], counts: list[str]
) -> tuple[list[Batch], Batch]:
    def as_batch(graph: GraphData) -> Batch:
        device = torch.device("cpu")
        return full_batch(graph, prepare=prepare, device=device, dtype=torch.float64)

    parts = [
        counted(as_batch(g), c, i) for i, (g, c) in enumerate(zip(graphs, counts, strict=True))
    ]
    return parts, united(as_batch(joined(graphs)), parts)


def drawn_graphs(level: str, size: int, *, one_hot: bool = False, sparse: bool = False) -> list:
    sizes = SIZES[level][:size]
    graphs = [random_graph(s, seed=i, one_hot=one_hot) for i, s in enumerate(sizes)]
    return [as_sparse(g) for g in graphs] if sparse else graphs


def lagraph(
    level: str,
    size: int,
    counts: list[str],
    *,
    sizes: str = "",
    sparse: bool = False,
    cached: bool = False,
    **values: Any,
) -> Case:
    """LaGraph with masks that are drawn for each process."""
    chosen = make_settings(level, **values)
    ce = str(chosen.objective).startswith("ce-")
    graphs = drawn_graphs(sizes or level, size, one_hot=ce, sparse=sparse)
    model = double_model(chosen, 4)
    method = make_method(level, **values)
    parts, whole = batches(model, lambda e: method.prepare(model, e), graphs, counts)
    masks = [
        draw_mask(part, chosen, generator=generator(10 + i), token=model.token)
        for i, part in enumerate(parts)
    ]
    engine = choose_engine(model, chosen)
    rows = torch.cat([m.rows + s for m, s in zip(masks, offsets(parts), strict=True)])
    alike = chosen.mask_value in ("zeros", "token")
    values_ = masks[0].values if alike else torch.cat([to_dense(m.values) for m in masks])
    union_mask = MaskedView(rows, values_)
    drops = [_dropped(part, chosen, i) for i, part in enumerate(parts)]
    union_drop = _united_drop(whole, drops)

    def terms(rank: int | None) -> Terms:
        batch, mask = (whole, union_mask) if rank is None else (parts[rank], masks[rank])
        drop = union_drop if rank is None else drops[rank]
        cache = precompute(batch) if cached else EMPTY_CACHE
        left = None if drop is None else drop[1]
        return compute_terms(model, batch, mask, chosen, engine, cache, left)

    empty = tuple(i for i, part in enumerate(parts) if part.num_nodes == 0)
    return Case(model, terms, empty)


def _dropped(part: Batch, chosen, seed: int) -> tuple[Tensor, Dropped] | None:
    if not chosen.edge_drop:
        return None
    keep = torch.rand(part.structure.nnz, generator=generator(seed)) >= chosen.edge_drop
    values = part.structure.values_of(keep)
    return keep, Dropped(part.structure.with_values(values))


def _united_drop(whole: Batch, drops: list) -> tuple[Tensor, Dropped] | None:
    if drops[0] is None:
        return None
    keep = torch.cat([each[0] for each in drops])
    return keep, Dropped(whole.structure.with_values(whole.structure.values_of(keep)))


def padded(size: int, **values) -> Case:
    """Mini-batches with padding rows in each process, without in one."""
    chosen = make_settings("graph", **values)
    graphs, model = drawn_graphs("graph", size), double_model(chosen, 4)
    parts, whole = batches(model, model.prepare, graphs, [ALL] * size)
    own, masks = [], []
    for i, (graph, part) in enumerate(zip(graphs, parts, strict=True)):
        number = num_masked(
            torch.diff(graph.ptr), ratio=chosen.mask_ratio, rounding=str(chosen.mask_rounding)
        )
        source = PaddedBatches(
            *(part, precompute(part), graph.ptr),
            batch_size=8,
            num_masked=number,
            mask_ratio=chosen.mask_ratio,
        )
        batch = source.take(source.plan(generator(0))[0])
        order = source.plan(generator(0))[0]
        own.append((batch, GraphDataOrder(graph, order[order < graph.num_graphs])))
        masks.append(
            draw_mask(
                batch,
                chosen,
                generator=generator(10 + i),
                slots=batch.cache.mask_slots,
                limit=batch.cache.limit,
                token=model.token,
            )
        )
    graphs = [each.reordered() for _, each in own]
    parts, whole = batches(model, model.prepare, graphs, [ALL] * size)
    valid = [m.rows < int(b.cache.padding.rows) for m, (b, _) in zip(masks, own, strict=True)]
    starts = offsets(parts)
    rows = [m.rows[v] + s for m, v, s in zip(masks, valid, starts, strict=True)]
    alike = chosen.mask_value in ("zeros", "token")
    noise = [m.values if alike else m.values[v] for m, v in zip(masks, valid, strict=True)]
    union = MaskedView(torch.cat(rows), noise[0] if alike else torch.cat(noise))
    engine = choose_engine(model, chosen)

    def terms(rank: int | None) -> Terms:
        if rank is None:
            return compute_terms(model, whole, union, chosen, engine, EMPTY_CACHE)
        batch = own[rank][0]
        return compute_terms(model, batch, masks[rank], chosen, engine, batch.cache)

    return Case(model, terms)


@dataclasses.dataclass
class GraphDataOrder:
    """Graphs, and the order in which a mini-batch has them."""

    graphs: GraphData
    order: Tensor

    def reordered(self) -> GraphData:
        ptr, found = self.graphs.ptr, []
        for i in self.order.tolist():
            start, stop = int(ptr[i]), int(ptr[i + 1])
            source = self.graphs.edge_index[0]
            inside = (source >= start) & (source < stop)
            edges = self.graphs.edge_index[:, inside] - start
            found.append(
                GraphData(
                    edge_index=edges,
                    num_nodes=stop - start,
                    ptr=torch.tensor([0, stop - start]),
                    x=self.graphs.x[start:stop],
                )
            )
        return joined(found)


def bgrl(size: int, counts: list[str]) -> Case:
    """BGRL with edges that are dropped in each process."""
    small = {"hidden_dim": 5, "out_dim": 4, "predictor_dim": 6, "row_normalize": False}
    method = BGRL(resolve(BGRLSettings(**small), owner="NodeBGRL"), level="node")
    model = method.build(4, generator=generator(0)).double()
    _shake(model)
    graphs = drawn_graphs("node", size)
    parts, whole = batches(model, lambda e: method.prepare(model, e), graphs, counts)
    columns = [torch.tensor(c, dtype=torch.float64) for c in ([1, 0, 1, 1], [1, 1, 0, 1])]
    kept = [
        [torch.rand(p.structure.nnz, generator=generator(v + i)) > 0.4 for i, p in enumerate(parts)]
        for v in (20, 30)
    ]

    def view(rank: int | None, number: int):
        batch = whole if rank is None else parts[rank]
        keep = torch.cat(kept[number]) if rank is None else kept[number][rank]
        assert isinstance(batch.structure, DroppableMatrix)
        structure = batch.structure.with_values(batch.structure.values_of(keep))
        return MaskedColumns(batch.x, columns[number]), structure

    def terms(rank: int | None) -> Terms:
        batch = whole if rank is None else parts[rank]
        return method.terms(model, batch, view(rank, 0), view(rank, 1))

    return Case(model, terms)


def dgi(size: int, counts: list[str]) -> Case:
    """DGI with rows that are permuted within each process."""
    method = DGI(resolve(DGISettings(hidden_dim=5, num_layers=2), owner="NodeDGI"), level="node")
    model = method.build(4, generator=generator(0)).double()
    _shake(model)
    parts, whole = batches(
        model, lambda e: method.prepare(model, e), drawn_graphs("node", size), counts
    )
    orders = [torch.randperm(p.num_nodes, generator=generator(i)) for i, p in enumerate(parts)]
    union = torch.cat([o + s for o, s in zip(orders, offsets(parts), strict=True)])

    def terms(rank: int | None) -> Terms:
        batch, order = (whole, union) if rank is None else (parts[rank], orders[rank])
        return method.terms(model, batch, order)

    return Case(model, terms)


def _shake(model: nn.Module) -> None:
    gen = generator(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=gen, dtype=torch.float64)


def cases(size: int) -> dict[str, Callable[[], Case]]:
    """Every case by name; `size` is the number of processes."""
    every, mixed = [ALL] * size, [ALL, SOME, NONE][:size]
    few = [NONE, SOME, ALL][:size]
    found: dict[str, Callable[[], Case]] = {}
    objectives = ("mse-embed", "mse-output", "ce-embed", "ce-output", "denoise")
    for level in ("node", "graph"):
        # Batch norm in the decoder, and in the last layer.
        for objective in objectives:
            for engine in ("auto", "general"):
                name = f"{level} {objective} {engine}"
                values = {"objective": objective, "engine": engine}
                found[name] = _later(lagraph, level, size, mixed, decoder_layers=2, **values)
        for engine in ("auto", "general"):
            for counts, word in ((every, "all counted"), (mixed, "mixed"), (few, "few")):
                for value in ("token", "noise"):
                    name = f"{level} plus {engine} {word} {value}"
                    values = {"preset": "plus", "variance_weight": 0.5, "mask_value": value}
                    found[name] = _later(lagraph, level, size, counts, engine=engine, **values)
            released = {"preset": "released", "engine": engine, "mask_ratio": 0.2}
            found[f"{level} released {engine}"] = _later(lagraph, level, size, every, **released)
            found[f"{level} released few {engine}"] = _later(lagraph, level, size, few, **released)
        plus = {"preset": "plus", "variance_weight": 0.5, "momentum": 0.9, "alpha": 0.3}
        found[f"{level} plus momentum"] = _later(lagraph, level, size, every, **plus)
        found[f"{level} plus sparse"] = _later(lagraph, level, size, mixed, sparse=True, **plus)
        found[f"{level} paper sparse"] = _later(lagraph, level, size, mixed, sparse=True)
        cached = {"cached": True, "num_layers": 3, "decoder_layers": 2}
        found[f"{level} paper cached"] = _later(lagraph, level, size, every, **cached)
        found[f"{level} plus cached"] = _later(lagraph, level, size, every, **plus, **cached)
    for preset in ("paper", "plus", "released"):
        for engine in ("auto", "general"):
            values = {"preset": preset, "engine": engine, "sizes": "empty"}
            found[f"graph {preset} empty {engine}"] = _later(
                lagraph, "graph", size, every, **values
            )
    empty = {"sizes": "empty", "objective": "mse-output", "decoder_layers": 2}
    found["graph mse-output empty sparse"] = _later(
        lagraph, "graph", size, every, sparse=True, **empty
    )
    drop = {"preset": "plus", "edge_drop": 0.4}
    found["node plus edge_drop"] = _later(lagraph, "node", size, mixed, **drop)
    found["node paper gin"] = _later(lagraph, "node", size, every, encoder="gin", num_layers=3)
    found["graph padded paper"] = _later(padded, size, decoder_layers=2)
    found["graph padded plus"] = _later(padded, size, preset="plus", momentum=0.9)
    for word, counts in (("all counted", every), ("mixed", mixed), ("few", few)):
        found[f"bgrl {word}"] = _later(bgrl, size, counts)
        found[f"dgi {word}"] = _later(dgi, size, counts)
    return found


def _later(function: Callable, *args, **values) -> Callable[[], Case]:
    return lambda: function(*args, **values)


def gradient(model: nn.Module) -> Tensor:
    """The gradient of all weights as one vector; NaN where a weight has none."""
    nothing = float("nan")
    parts = [
        p.new_full((p.numel(),), nothing) if p.grad is None else p.grad.reshape(-1)
        for p in model.parameters()
    ]
    model.zero_grad(set_to_none=True)
    return torch.cat(parts)


def difference(a: Tensor, b: Tensor) -> float:
    """The largest difference relative to the largest number; weights without a gradient agree."""
    both = torch.isnan(a) == torch.isnan(b)
    if not bool(both.all()):
        return float("inf")
    a, b = a.nan_to_num(), b.nan_to_num()
    return float((a - b).abs().max() / b.abs().max().clamp(min=1e-300))


def compared(case: Case, rank: int) -> dict[str, float]:
    with alone():
        total = combine(case.terms(None)).total
        total.backward()
        loss = total.item()
        expected = gradient(case.model)
    own = combine(case.terms(rank)).total
    own.backward()
    average_gradients(case.model.parameters())
    found = gradient(case.model)
    apart = torch.zeros_like(found)
    if rank not in case.empty:
        with alone():
            combine(case.terms(rank)).total.backward()
            apart = gradient(case.model)
    dist.all_reduce(apart)
    return {
        "loss": abs(own.item() - loss) / abs(loss),
        "gradient": difference(found, expected),
        "contrast": difference(apart / dist.get_world_size(), expected),
    }


def main() -> None:
    dist.init_process_group("gloo")
    results = {}
    with data_parallel():
        for name, make in cases(dist.get_world_size()).items():
            results[name] = compared(make(), dist.get_rank())
    if dist.get_rank() == 0:
        Path(sys.argv[1]).write_text(json.dumps(results, indent=1))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
