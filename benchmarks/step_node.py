"""Seconds and peak memory of a node-level training step: the general way against the fast way, in one run.

    python benchmarks/step_node.py --shapes cs,computers --device cpu --json out.json
    python benchmarks/step_node.py --shapes photo --data ROOT --device cuda          # the real set instead of its shape

The general way is a fair peer: plain, vectorised PyTorch as PyG's users write it (GCNConv over a torch CSR adjacency with cached
normalisation, dense x, both views in full, a dense N x F residual). Setting: GCN 2 x 512, batch norm after layer 1, PReLU, one linear
decoder layer, mask 5 %, float32 (tf32 products on a GPU, for both sides). Each way runs in a process of its own, one after the other,
so that its peak memory is its own; seconds are the median over steps.
"""

import argparse
import datetime
import json
import platform
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from graphlatent.config import NodeSettings, resolve
from graphlatent.data.batches import full_batch, with_constants
from graphlatent.data.graph import GraphData
from graphlatent.data.sparse import SparseMatrix, to_dense
from graphlatent.engine import choose_engine
from graphlatent.masking import with_places
from graphlatent.nn.model import build_model
from graphlatent.training.loop import seeded
from graphlatent.training.stepper import Stepper, make_optimizer

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
    both = torch.unique(torch.cat([ends, ends.flip(0)], dim=1)[0] * nodes + torch.cat([ends, ends.flip(0)], dim=1)[1])
    edge_index = torch.stack([both // nodes, both % nodes])
    if density < 0.1:
        place = torch.unique(torch.randint(nodes * features, (int(nodes * features * density),), generator=generator))
        x: Tensor | SparseMatrix = SparseMatrix.from_coo(place // features, place % features, torch.ones(place.numel()), (nodes, features))
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
        self.first, self.second = GCNConv(in_dim, hidden_dim, cached=True), GCNConv(hidden_dim, hidden_dim, cached=True)
        self.act1, self.act2, self.norm = nn.PReLU(), nn.PReLU(), nn.BatchNorm1d(hidden_dim)
        self.decoder = nn.Linear(hidden_dim, in_dim)

    def forward(self, x: Tensor, edges: Any) -> Tensor:
        """H, [N, hidden_dim]."""
        return self.act2(self.second(self.norm(self.act1(self.first(x, edges))), edges))


def general_step(graph: GraphData, device: torch.device, width: int) -> Any:
    """A function that runs one step the general way."""
    x = to_dense(graph.x).to(device)
    adjacency = SparseMatrix.from_coo(
        graph.edge_index[1], graph.edge_index[0], torch.ones(graph.num_edges), (graph.num_nodes, graph.num_nodes)
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


def fast_step(graph: GraphData, device: torch.device, width: int, precision: str = "tf32") -> Any:
    """A function that runs one step the fast way: what `NodeLaGraph.fit` runs."""
    settings = resolve(NodeSettings(hidden_dim=width, precision=precision), owner="benchmark")
    model = build_model(settings, in_dim=graph.x.shape[1], generator=seeded(0, 0)).to(device)
    engine = choose_engine(model, settings)
    batch = with_places(with_constants(full_batch(graph, prepare=model.prepare, device=device), dtype=engine.dtype), settings)
    stepper = Stepper(model, settings, optimizer=make_optimizer(model, settings), generator=seeded(0, 2, device))
    return lambda: stepper(batch, engine)


def time_steps(step: Any, device: torch.device, *, seconds: float) -> list[float]:
    """Seconds of each of many steps, after two to warm up."""
    times: list[float] = []
    began = time.perf_counter()
    while len(times) < 7 or time.perf_counter() - began < seconds:
        start = time.perf_counter()
        step()
        if device.type == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return times[2:]


def one_way(args: argparse.Namespace) -> dict[str, Any]:
    """Measure one way of one shape in this process."""
    from graphlatent import load_dataset

    device = torch.device(args.device)
    torch.backends.cuda.matmul.allow_tf32 = True
    graph = load_dataset(SHAPES[args.shapes][4], root=args.data).graph if args.data else synthetic(args.shapes)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    step = (general_step if args.way == "general" else fast_step)(graph, device, args.width)
    times = time_steps(step, device, seconds=args.seconds)
    peak = (
        torch.cuda.max_memory_allocated() if device.type == "cuda" else 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    )
    return {"seconds": statistics.median(times), "steps": len(times), "peak_bytes": peak}


def page(paths: list[Path]) -> str:
    """Records as one Markdown table."""
    lines = ["| shape | hardware | general | fast | ratio | peak memory, general / fast |", "|---|---|---|---|---|---|"]
    for record in (json.loads(path.read_text()) for path in paths):
        for shape, way in record["shapes"].items():
            seconds = [f"{1000 * way[w]['seconds']:.1f} ms" for w in ("general", "fast")]
            memory = " / ".join(f"{way[w]['peak_bytes'] / 2**30:.2f}" for w in ("general", "fast"))
            lines.append(f"| {shape} | {record['hardware']} | {seconds[0]} | {seconds[1]} | {way['ratio']:.2f} | {memory} GiB |")
    return "\n".join(lines)


def main() -> None:
    """Measure every shape, general and fast, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", default="photo,computers,cs")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--data", default=None, help="data root: use the real sets")
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--seconds", type=float, default=10.0, help="at least so long for each way")
    parser.add_argument("--json", type=Path, default=None)
    parser.add_argument("--way", choices=["general", "fast"], default=None, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.way:
        print(json.dumps(one_way(args)))
        return
    hardware = torch.cuda.get_device_name() if args.device == "cuda" else f"{platform.machine()}, {torch.get_num_threads()} threads"
    command_line = f"python benchmarks/step_node.py --shapes {args.shapes} --device {args.device} --seconds {args.seconds:g}"
    today = datetime.date.today().isoformat()
    result: dict[str, Any] = {"command": command_line, "hardware": hardware, "torch": torch.__version__, "date": today, "shapes": {}}
    print(f"{'shape':10} {'general s':>10} {'fast s':>10} {'ratio':>6} {'general GB':>11} {'fast GB':>8}   ({hardware})")
    for shape in args.shapes.split(","):
        ways = {}
        for way in ("general", "fast"):
            command = [sys.executable, __file__, "--shapes", shape, "--device", args.device, "--width", str(args.width), "--way", way]
            command += ["--seconds", str(args.seconds)] + (["--data", args.data] if args.data else [])
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            ways[way] = json.loads(done.stdout.splitlines()[-1])
        ratio = ways["general"]["seconds"] / ways["fast"]["seconds"]
        result["shapes"][shape] = {**ways, "ratio": ratio}
        memory = [ways[w]["peak_bytes"] / 2**30 for w in ("general", "fast")]
        seconds = [ways[w]["seconds"] for w in ("general", "fast")]
        print(f"{shape:10} {seconds[0]:10.4f} {seconds[1]:10.4f} {ratio:6.2f} {memory[0]:11.2f} {memory[1]:8.2f}", flush=True)
    if args.json:
        args.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
