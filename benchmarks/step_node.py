"""Seconds and peak memory of a node-level training step: the general path against the fast path, in
one run.

    python benchmarks/step_node.py --shapes cs,computers --device cpu --json out.json
    python benchmarks/step_node.py --shapes photo --data ROOT --device cuda          # the real set
    instead of its shape

The general path is a fair peer: plain, vectorised PyTorch as PyG's users write it (GCNConv over a
    torch CSR adjacency with cached
normalisation, dense x, both views in full, a dense N x F residual). Setting: GCN 2 x 512, batch
norm after layer 1, PReLU, one linear decoder layer, mask 5 %, float32 (tf32 products on a GPU, for
both sides; the fast path with bf16 beside it). Each way runs in a process of its own, one after the
other, so that its peak memory is its own; seconds are the median over steps.
"""

from typing import Any

import harness
import torch
from torch import Tensor, nn

from graphlatent import load_dataset
from graphlatent.config import resolve
from graphlatent.data.graph import GraphData
from graphlatent.methods.lagraph.method import LaGraph
from graphlatent.methods.lagraph.settings import NodeLaGraphSettings
from graphlatent.ops.sparse import SparseMatrix, to_dense
from graphlatent.training.setup import choose_form, set_up

PRECISION = {"fast": "tf32", "bf16": "bf16", "profile": "tf32"}
# name: nodes, undirected edges, features, share of filled entries, data set
SHAPES: dict[str, tuple[int, int, int, float, str]] = {
    "photo": (7650, 119_081, 745, 0.35, "Photo"),
    "computers": (13_752, 245_861, 767, 0.35, "Computers"),
    "cs": (18_333, 81_894, 6805, 0.009, "CS"),
    "physics": (34_493, 247_962, 8415, 0.004, "Physics"),
    "flickr": (89_250, 449_878, 500, 1.0, "Flickr"),
    "reddit": (232_965, 11_606_919, 602, 1.0, "Reddit"),
}


def synthetic(name: str) -> GraphData:
    """A random graph of a published shape; features sparse where the real ones are."""
    nodes, edges, features, density, _ = SHAPES[name]
    generator = torch.Generator().manual_seed(0)
    ends = torch.randint(nodes, (2, edges), generator=generator)
    both = torch.unique(
        torch.cat([ends, ends.flip(0)], dim=1)[0] * nodes
        + torch.cat([ends, ends.flip(0)], dim=1)[1]
    )
    edge_index = torch.stack([both // nodes, both % nodes])
    if density < 0.1:
        place = torch.unique(
            torch.randint(nodes * features, (int(nodes * features * density),), generator=generator)
        )
        x: Tensor | SparseMatrix = SparseMatrix.from_coo(
            place // features, place % features, torch.ones(place.numel()), (nodes, features)
        )
    elif density < 1:
        x = (torch.rand(nodes, features, generator=generator) < density).float()
    else:
        x = torch.randn(nodes, features, generator=generator)
    return GraphData(edge_index, nodes, torch.tensor([0, nodes]), x=x)


class Peer(nn.Module):
    """The model as PyG's users write it."""

    def __init__(self, in_dim: int, hidden_dim: int) -> None:
        from torch_geometric.nn import GCNConv

        super().__init__()
        self.first, self.second = (
            GCNConv(in_dim, hidden_dim, cached=True),
            GCNConv(hidden_dim, hidden_dim, cached=True),
        )
        self.act1, self.act2, self.norm = nn.PReLU(), nn.PReLU(), nn.BatchNorm1d(hidden_dim)
        self.decoder = nn.Linear(hidden_dim, in_dim)

    def forward(self, x: Tensor, edges: Any) -> Tensor:
        """H, [N, hidden_dim]."""
        return self.act2(self.second(self.norm(self.act1(self.first(x, edges))), edges))


def general_step(graph: GraphData, device: torch.device, width: int) -> Any:
    """A function that runs one step the general path."""
    x = to_dense(graph.x).to(device)
    adjacency = SparseMatrix.from_coo(
        graph.edge_index[1],
        graph.edge_index[0],
        torch.ones(graph.num_edges),
        (graph.num_nodes, graph.num_nodes),
    ).csr.to(device)  # the faster of PyG's two ways to propagate
    model = Peer(x.shape[1], width).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    count = round(0.05 * graph.num_nodes)

    def step() -> None:
        rows = torch.randperm(graph.num_nodes, device=device)[:count]
        masked = x.clone()
        masked[rows] = 0.5 * torch.randn(count, x.shape[1], device=device)
        plain, other = model(x, adjacency), model(masked, adjacency)
        reconstruction = (model.decoder(plain) - x).square().sum() / graph.num_nodes
        invariance = ((plain[rows] - other[rows]).square().sum() / count).sqrt()
        optimizer.zero_grad()
        (reconstruction + 2.0 * invariance).backward()
        optimizer.step()

    return step


def fast_step(
    graph: GraphData, device: torch.device, width: int, precision: str, **changes: Any
) -> Any:
    """A function that runs one step the fast path: what `NodeLaGraph(preset="paper").fit` runs.

    `changes` are settings; the measured loss is the paper's but for them.
    """
    settings = resolve(
        NodeLaGraphSettings(
            **{"preset": "paper", "hidden_dim": width, "precision": precision, **changes}
        ),
        owner="benchmark",
    )
    training, _ = set_up(graph, LaGraph(settings, level="node"), device=device)
    training.model.train()
    index = training.batches.plan(torch.Generator())[0]
    return lambda: training.stepper(training.batches, index)


def one_way(
    name: str, way: str, device: torch.device, *, data: str | None, seconds: float, width: int
) -> dict[str, Any]:
    """Measure one way of one shape in this process."""
    torch.set_float32_matmul_precision("high")
    graph = load_dataset(SHAPES[name][4], root=data).graph if data else synthetic(name)
    if way == "floor":
        return floor(graph, device, width)
    build = (
        (lambda: general_step(graph, device, width))
        if way == "general"
        else (lambda: fast_step(graph, device, width, PRECISION[way]))
    )
    if way == "profile":
        return harness.profile(build())
    if way == "general":
        return harness.measure(build, device, seconds=seconds)
    return harness.measure(build, device, seconds=seconds)


def floor(graph: GraphData, device: torch.device, width: int) -> dict[str, Any]:
    """What a step of the fast path cannot avoid, counted, over what this machine does, measured.

    Operations are those of dense products, forward and backward. Bytes count every [N, width] and
    [N, F] array once for each pass that must read or write it, with activation and norm fused and
    every row of a sparse product's factor read once (46 and, for dense features, 7 passes), what is
    stored of A and of sparse X, and the weights with Adam's moments. A sparse product that fetches
    a row from memory more than once, as it does where the cache is too small, is above this floor.
    """
    assert graph.x is not None
    form = choose_form(
        graph.x,
        "auto",
        hidden_dim=width,
        stored_edges=graph.num_edges + graph.num_nodes,
        device=device,
    )
    nodes, features, masked = graph.num_nodes, graph.x.shape[1], round(0.05 * graph.num_nodes)
    edges = graph.num_edges + nodes
    stored = graph.x.nnz if isinstance(graph.x, SparseMatrix) else int(torch.count_nonzero(graph.x))
    products = 3 * nodes * width**2 + 3 * masked * width**2 + 2 * masked * features * width
    if form == "dense":
        products += 5 * nodes * features * width
        arrays, entries = 46 * nodes * width + 7 * nodes * features, 2 * edges
    else:
        products += 2 * nodes * width**2 + 2 * features * width**2
        arrays, entries = 46 * nodes * width, 4 * edges + 4 * stored
    moved = 4.0 * (arrays + 28 * features * width) + 8.0 * entries
    found = harness.floor(
        device, rows=nodes, width=width, operations=2.0 * products, moved_bytes=moved
    )
    return {**found, "features": form}


def main() -> None:
    """Measure every shape, general and fast, and print a table."""
    options = harness.parser(__doc__)
    options.add_argument("--shapes", default="photo,computers,cs")
    options.add_argument("--width", type=int, default=512)
    args = options.parse_args()
    if args.way:
        about = {"data": args.data, "seconds": args.seconds, "width": args.width}
        harness.answer(
            args.way, lambda way: one_way(args.shapes, way, torch.device(args.device), **about)
        )
        return
    ways = (
        ["general", "fast", "floor"]
        + (["bf16"] if args.device == "cuda" else [])
        + (["profile"] if args.profile else [])
    )
    names = {
        name: ["--shapes", name, "--width", str(args.width)] for name in args.shapes.split(",")
    }
    harness.compare(__file__, f"--shapes {args.shapes}", names, ways, args)


if __name__ == "__main__":
    main()
