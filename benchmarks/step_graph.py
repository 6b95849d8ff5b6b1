"""Seconds of a graph-level epoch: the usual PyG loop against the fast path, in one run.

    python benchmarks/step_graph.py --sets NCI1,COLLAB --device cpu --json out.json
    python benchmarks/step_graph.py --sets NCI1 --data ROOT                              # the real
    set instead of its shape

The usual loop is what users of PyG write: a DataLoader over a list of graphs, GINConv, batch norm,
    global_add_pool of every layer, both
views in full, masks drawn vectorised over the batch. Setting: GIN 3 x 32, mini-batches of 128
graphs, decoder of one linear layer, mask 5 %, float32 (tf32 products on a GPU, for both sides). The
fast path is what `GraphLaGraph.fit` runs.
"""

from __future__ import annotations

from typing import Any

import harness
import torch
from torch import Tensor, nn

from graphlatent import load_dataset
from graphlatent.config import resolve
from graphlatent.data.features import encode_features, fit_features
from graphlatent.data.graph import GraphData
from graphlatent.methods.lagraph.method import LaGraph
from graphlatent.methods.lagraph.settings import GraphLaGraphSettings
from graphlatent.ops.sparse import SparseMatrix, to_dense
from graphlatent.training.loop import Hooks
from graphlatent.training.setup import set_up

# name: graphs, mean nodes, mean undirected edges, features (one-hot)
SHAPES: dict[str, tuple[int, float, float, int]] = {
    "NCI1": (4110, 29.87, 32.30, 37),
    "COLLAB": (5000, 74.49, 2457.78, 129),
    "PROTEINS": (1113, 39.06, 72.82, 3),
}
WIDTH, LAYERS, BATCH, RATIO, ALPHA = 32, 3, 128, 0.05, 10.0


def synthetic(name: str) -> GraphData:
    """Random graphs of a published shape: sizes lognormal about the mean, edges in proportion to
    the pairs there are, one-hot features.
    """
    graphs, nodes, edges, features = SHAPES[name]
    gen = torch.Generator().manual_seed(0)
    size = torch.exp(0.5 * torch.randn(graphs, generator=gen))
    size = (size * nodes / size.mean()).round().clamp(min=4).long()
    ptr = torch.cat([torch.zeros(1, dtype=torch.int64), torch.cumsum(size, 0)])
    pairs = (size * (size - 1) // 2).double()
    wanted = (size.double() if edges < 2 * nodes else pairs) * edges * graphs
    count = (wanted / (size.double() if edges < 2 * nodes else pairs).sum()).round().long()
    graph = torch.repeat_interleave(torch.arange(graphs), count)
    ends = (torch.rand(2, graph.numel(), generator=gen) * size[graph]).long() + ptr[graph]
    ends = torch.cat([ends, ends.flip(0)], dim=1)
    total = int(ptr[-1])
    code = torch.unique(ends[0] * total + ends[1])
    column = torch.randint(features, (total,), generator=gen)
    x = SparseMatrix(torch.arange(total + 1), column, torch.ones(total), (total, features))
    return GraphData(torch.stack([code // total, code % total]), total, ptr, x=x)


class Peer(nn.Module):
    """The model as PyG's users write it."""

    def __init__(self, in_dim: int) -> None:
        from torch_geometric.nn import GINConv

        super().__init__()
        widths = [in_dim] + [WIDTH] * LAYERS
        mlps = [
            nn.Sequential(nn.Linear(a, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))
            for a in widths[:-1]
        ]
        self.convs = nn.ModuleList(GINConv(mlp) for mlp in mlps)
        self.norms = nn.ModuleList(nn.BatchNorm1d(WIDTH) for _ in range(LAYERS - 1))
        self.decoder = nn.Linear(WIDTH, in_dim)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> tuple[Tensor, Tensor]:
        """(rows of the last layer, pooled layers side by side)."""
        from torch_geometric.nn import global_add_pool

        pooled = []
        for i, conv in enumerate(self.convs):
            x = torch.relu(conv(x, edge_index))
            x = self.norms[i](x) if i < len(self.norms) else x
            pooled.append(global_add_pool(x, batch))
        return x, torch.cat(pooled, dim=1)


def general_epoch(graph: GraphData, device: torch.device) -> Any:
    """A function that runs one epoch as PyG's users write it."""
    from torch_geometric.data import Data
    from torch_geometric.loader import DataLoader

    x = to_dense(graph.x)
    edge_ptr = torch.searchsorted(graph.edge_index[0], graph.ptr)
    data = [
        Data(
            x=x[graph.ptr[i] : graph.ptr[i + 1]].clone(),
            edge_index=graph.edge_index[:, edge_ptr[i] : edge_ptr[i + 1]] - graph.ptr[i],
        )
        for i in range(graph.num_graphs)
    ]
    loader = DataLoader(data, batch_size=BATCH, shuffle=True)
    model = Peer(x.shape[1]).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)

    def epoch() -> None:
        for batch in loader:
            batch = batch.to(device)
            size = torch.diff(batch.ptr)
            order = torch.argsort(
                torch.rand(batch.num_nodes, device=device, dtype=torch.float64) + batch.batch
            )
            rank = torch.arange(batch.num_nodes, device=device) - batch.ptr[batch.batch]
            rows = order[rank < torch.round(RATIO * size).clamp(min=1)[batch.batch]]
            masked = batch.x.clone()
            masked[rows] = 0.5 * torch.randn(rows.numel(), masked.shape[1], device=device)
            hidden, pooled = model(batch.x, batch.edge_index, batch.batch)
            _, other = model(masked, batch.edge_index, batch.batch)
            error = (model.decoder(hidden) - batch.x).square().sum(1) / size[batch.batch]
            invariance = ((pooled - other).square().sum() / rows.numel()).sqrt()
            optimizer.zero_grad()
            (error.sum() / batch.num_graphs + ALPHA * invariance).backward()
            optimizer.step()

    return epoch


def fast_epoch(
    graph: GraphData, device: torch.device, precision: str, *, preset: str = "paper"
) -> Any:
    """A function that runs one epoch the fast path: what `GraphLaGraph(preset=...).fit` runs."""
    settings = GraphLaGraphSettings(
        preset=preset,
        hidden_dim=WIDTH,
        num_layers=LAYERS,
        decoder_layers=1,
        batch_size=BATCH,
        mask_ratio=RATIO,
        alpha=ALPHA if preset == "paper" else 0.0,
        precision=precision,
    )
    training, _ = set_up(
        graph, LaGraph(resolve(settings, owner="benchmark"), level="graph"), device=device
    )
    training.model.train()
    return lambda: training.run_epoch(Hooks())


def floor(graph: GraphData, device: torch.device) -> dict[str, Any]:
    """What an epoch of the fast path cannot avoid, counted, over what this machine does, measured
    (see step_node.py).

    Both views go through every layer; a layer is two dense products (the first layer's first one is
    shared), a sparse one, and 12 passes over its [N, width] arrays forwards and 16 backwards for
    each view.
    """
    assert graph.x is not None
    nodes, features, edges = graph.num_nodes, graph.x.shape[1], graph.num_edges + graph.num_nodes
    products = 5 * nodes * features * WIDTH + 3 * 2 * nodes * WIDTH**2 * (2 * LAYERS - 1)
    moved = (
        4.0 * (28 * 2 * LAYERS * nodes * WIDTH + 9 * nodes * features)
        + 8.0 * 2 * (LAYERS - 1) * edges
    )
    # Of one mini-batch, a GPU would measure launches
    rows = 1 << 20 if device.type == "cuda" else 1 << 16
    return harness.floor(
        device, rows=rows, width=WIDTH, operations=2.0 * products, moved_bytes=moved
    )


def one_way(
    name: str, way: str, device: torch.device, *, data: str | None, seconds: float
) -> dict[str, Any]:
    """Measure one way of one set in this process."""
    torch.set_float32_matmul_precision("high")
    graph = real(name, data) if data else synthetic(name)
    if way == "floor":
        return floor(graph, device)
    if way == "general":
        return harness.measure(lambda: general_epoch(graph, device), device, seconds=seconds)
    if way == "profile":
        return harness.profile(fast_epoch(graph, device, "tf32"))
    return harness.measure(lambda: fast_epoch(graph, device, "tf32"), device, seconds=seconds)


def real(name: str, root: str) -> GraphData:
    """The real set, its features encoded as `fit` does."""
    graph = load_dataset(name, root=root).graph
    return encode_features(fit_features(graph), graph)


def main() -> None:
    """Measure every set, the usual loop and the fast path, and print a table."""
    options = harness.parser(__doc__)
    options.add_argument("--sets", default="NCI1,COLLAB")
    args = options.parse_args()
    if args.way:
        device = torch.device(args.device)
        harness.answer(
            args.way,
            lambda way: one_way(args.sets, way, device, data=args.data, seconds=args.seconds),
        )
        return
    names = {name: ["--sets", name] for name in args.sets.split(",")}
    ways = ["general", "fast", "floor"] + (["profile"] if args.profile else [])
    harness.compare(__file__, f"--sets {args.sets}", names, ways, args)


if __name__ == "__main__":
    main()
