"""The records of scale.py as tables for docs/scale.md."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from graphlatent.data.pieces.partition import metis_bytes

Record = dict[str, Any]


def scale_tables(path: Path) -> str:
    """Ingest by size; then training and embedding; then where and with what it was measured."""
    records = [json.loads(line) for line in path.read_text().splitlines()]
    parts = []
    for what, table in (("ingest", _ingest), ("train", _train)):
        chosen = [r for r in records if (r["what"] == "ingest") == (what == "ingest")]
        commands = dict.fromkeys(f"`{r['command']}`" for r in chosen)
        parts += [table(chosen), "; ".join(commands) + "."]
    first = records[0]
    versions = ", ".join(f"{name} {version}" for name, version in first["versions"].items())
    dates = ", ".join(sorted({r["date"] for r in records}))
    return "\n\n".join([*parts, f"{first['hardware']}; {versions}; {dates}."])


def _ingest(records: Sequence[Record]) -> str:
    lines = [
        "| ingest | seconds | of all cores | memory, GiB | input, GiB | temporary files at most,"
        " GiB | store, GiB |",
        "|---" * 7 + "|",
    ]
    for r in sorted(records, key=lambda r: (r["features"], r["edges"])):
        sizes = [r[f"{name}_bytes"] for name in ("peak", "input", "temporary", "store")]
        cells = " | ".join(f"{size / 2**30:.2f}" for size in sizes)
        lines.append(f"| {_graph(r)} | {r['seconds']:.0f} | {r['cpu_seconds']:.0f} | {cells} |")
    return "\n".join(lines)


def _train(records: Sequence[Record]) -> str:
    lines = [
        f"| {_graph(records[0])} | seconds | of all cores | memory, GiB | without pages of files,"
        " GiB |",
        "|---" * 5 + "|",
    ]
    for r in records:
        memory = f"{r['peak_bytes'] / 2**30:.2f} | {r['anonymous_bytes'] / 2**30:.2f}"
        lines.append(f"| {_case(r)} | {r['seconds']:.0f} | {r['cpu_seconds']:.0f} | {memory} |")
    return "\n".join(lines)


def _graph(record: Record) -> str:
    text = f"{record['edges'] / 1e6:g} M edges, {record['nodes'] / 1e6:g} M nodes"
    return text + (f", {record['features']} features" if record["features"] else "")


def _case(record: Record) -> str:
    if record["what"] == "train":
        options = record["command"].split("--epochs 1")[1].strip()
        return "train, one epoch, " + (f"`{options}`" if options else "defaults: clusters")
    return f"embed, width {record['embedding_dim']}, preset {record['preset']}"


@dataclass(frozen=True)
class Large:
    """A graph that was not measured: nodes, edges as they come, float32 features."""

    name: str
    nodes: float
    edges: float
    features: int


LARGE = (
    Large("1 B edges", 100e6, 1e9, 64),
    Large("ogbn-papers100M", 111e6, 1.6e9, 128),
)
MACHINES = 8


def estimates(path: Path) -> str:
    """What graphs of billions of edges would take: the measured figures, scaled up in proportion.

    Times are ranges where edges and nodes differ: scaled by stored edges, and by nodes.
    """
    records = [json.loads(line) for line in path.read_text().splitlines()]
    ingest = max((r for r in records if r["what"] == "ingest"), key=lambda r: r["edges"])
    train = next(r for r in records if r.get("way") == "clusters")
    embed = next(r for r in records if r["what"] == "embed" and r["preset"] == "plus")
    columns = [_estimate(graph, ingest, train, embed) for graph in LARGE]
    lines = [f"| estimate | {' | '.join(graph.name for graph in LARGE)} |", "|---|---|---|"]
    lines += [f"| {row} | {' | '.join(c[row] for c in columns)} |" for row in columns[0]]
    return "\n".join(lines)


def _estimate(graph: Large, ingest: Record, train: Record, embed: Record) -> dict[str, str]:
    more = graph.edges / ingest["edges"]
    stored, rows = 2 * graph.edges, 4 * graph.nodes
    scales = (stored / (2 * train["edges"]), graph.nodes / train["nodes"])
    features = rows * graph.features
    return {
        "nodes, edges, features": f"{graph.nodes / 1e6:g} M, {graph.edges / 1e9:g} B,"
        f" {graph.features}",
        "store without features": _gigabytes(ingest["store_bytes"] * more),
        "features": _gigabytes(features),
        "embeddings": _gigabytes(rows * embed["embedding_dim"]),
        "temporary files of ingest": _gigabytes(ingest["temporary_bytes"] * more),
        "ingest, one machine": _hours([ingest["seconds"] * more]),
        "memory of METIS": _gigabytes(metis_bytes(int(graph.nodes), int(stored))),
        "train: an epoch of clusters, fit of the head, embeddings": _hours(
            [train["seconds"] * scale for scale in scales]
        ),
        "of these, embeddings": _hours([embed["seconds"] * scale for scale in scales]),
        f"the rest on {MACHINES} machines, if it divides evenly": _hours(
            [(train["seconds"] - embed["seconds"]) * scale / MACHINES for scale in scales]
        ),
        "features read in an epoch, by pages of 4 KiB": _gigabytes(4096 * graph.nodes),
    }


def _gigabytes(size: float) -> str:
    return f"{size / 1e9:,.0f} GB"


def _hours(seconds: Sequence[float]) -> str:
    found = sorted({f"{each / 3600:.1f}" for each in seconds}, key=float)
    return " to ".join(found) + " h"
