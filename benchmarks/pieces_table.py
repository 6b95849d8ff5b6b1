"""Tables of the records of pieces.py, pieces_pyg.py and pieces_processes.py."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from graphlatent.bench.loading import load_recipe
from graphlatent.bench.pages import BlockMaker
from graphlatent.bench.shapes import SHAPES

WAYS = ("nodes", "clusters", "neighbors")
PRESETS = ("paper", "plus")
WITHOUT = {"raw": "raw features", "propagated": "propagated", "untrained": "untrained"}


def piece_tables(results: Path) -> dict[str, BlockMaker]:
    """The makers of the blocks, by name, from records in a folder."""
    tables = {
        "pieces": ("pieces.json", pieces_table),
        "piecespyg": ("pieces_pyg.json", pyg_table),
        "piecesprocesses": ("pieces_processes.json", processes_table),
    }
    return {
        name: lambda _, file=file, table=table: table(json.loads((results / file).read_text()))
        for name, (file, table) in tables.items()
    }


def pieces_table(record: Mapping[str, Any]) -> str:
    """Score and memory by nodes of a step, beside the paper's."""
    scores, memory = (
        {tuple(run[k] for k in ("shape", "preset", "way", "size")): run for run in record[kind]}
        for kind in ("scores", "memory")
    )
    lines = [
        "| | nodes a step | nodes | clusters | neighbors | the paper, of the published set |",
        "|---" * 6 + "|",
    ]
    for shape in dict.fromkeys(run["shape"] for run in record["scores"]):
        for preset in PRESETS:
            name = f"{shape}, preset {preset}"
            found = {key: run for key, run in scores.items() if key[:2] == (shape, preset)}
            sizes = dict.fromkeys(size for *_, way, size in found if way in (*WAYS, "full"))
            for size in sizes:
                cells = []
                for way in WAYS if size else ("full",):
                    key = (shape, preset, way, size)
                    cells.append(f"{found[key]['score']:.1f}{_mebibytes(memory.get(key))}")
                cells += [""] * (len(WAYS) - len(cells))
                published = _published(shape, size) if preset == "paper" else ""
                nodes = f"{size:,}" if size else "all"
                lines.append(f"| {name} | {nodes} | {' | '.join(cells)} | {published} |")
            said = ", ".join(
                f"{words} {found[shape, preset, way, None]['score']:.1f}"
                for way, words in WITHOUT.items()
                if (shape, preset, way, None) in found
            )
            lines.append(f"| {name} | no training | {said} | | | |")
    largest: dict[str, int] = {}
    for run in record["memory"]:
        largest[run["shape"]] = max(largest.get(run["shape"], 0), run.get("metis_bytes", 0))
    metis = ", ".join(f"{shape} {size / 2**20:,.0f} MiB" for shape, size in largest.items())
    about = (
        f"Score in %, then the peak of memory in training. METIS, once for a graph: {metis}."
        f" `{record['command']}`, {record['hardware']}, torch {record['torch']}, {record['date']}."
    )
    return "\n".join([*lines, "", about])


def _mebibytes(run: Mapping[str, Any] | None) -> str:
    return "" if run is None else f", {run['peak_bytes'] / 2**20:,.0f} MiB"


def _published(shape: str, size: int | None) -> str:
    published = load_recipe(f"table3/{SHAPES[shape].of}-{size or 'all'}").published
    return "" if published is None else f"{published.mean}, {published.memory_mb:,} MB"


def pyg_table(record: Mapping[str, Any]) -> str:
    """The record as a table."""
    by = {(run["what"], run["library"], run["workers"]): run for run in record["runs"]}
    lines = [
        "| one thread | graphlatent | PyG's NeighborLoader | ratio of times |",
        "|---" * 4 + "|",
    ]
    for what, workers in dict.fromkeys((run["what"], run["workers"]) for run in record["runs"]):
        ours, theirs = by[what, "graphlatent", workers], by[what, "PyG", workers]
        name = "batches alone" if what == "sampling" else "training"
        name += ", a worker" if workers else ", no worker"
        ratio = _seconds(theirs) / _seconds(ours)
        lines.append(
            f"| {name} | {_pyg_cell(ours, record)} | {_pyg_cell(theirs, record)} | {ratio:.2f} |"
        )
    about = (
        "Milliseconds of a step (the median; without a worker of the CPU's time, which other"
        " programs on the machine change little), seconds of an epoch of that, peak memory."
        f" {_graph(record)}, {record['seeds']:,} seeds of a step, {record['neighbors']} neighbours"
        " in each of 2 hops."
        f" `{record['command']}`, {record['hardware']}, torch {record['torch']}, PyG"
        f" {record['pyg']} with {record['sampler']}, {record['date']}."
    )
    return "\n".join([*lines, "", about])


def _seconds(run: Mapping[str, Any]) -> float:
    return float(run["seconds_per_step" if run["workers"] else "cpu_seconds_per_step"])


def _pyg_cell(run: Mapping[str, Any], record: Mapping[str, Any]) -> str:
    seconds = _seconds(run)
    epoch = seconds * -(-record["nodes"] // record["seeds"])
    return f"{1000 * seconds:,.0f} ms, {epoch:,.1f} s, {run['peak_bytes'] / 2**20:,.0f} MiB"


def processes_table(record: Mapping[str, Any]) -> str:
    """The record as a table: throughput."""
    by = {(tuple(run["way"]), run["preset"], run["batching"]): run for run in record["runs"]}
    cases = list(dict.fromkeys(key[1:] for key in by))
    ways = list(dict.fromkeys(key[0] for key in by))
    heads = [f"{batching}, preset {preset}" for preset, batching in cases]
    lines = [f"| | {' | '.join(heads)} |", "|---" * (len(cases) + 1) + "|"]
    for way in ways:
        found = [by[(way, *case)] for case in cases]
        cells = [
            f"{run['nodes_per_second']:,.0f} ({run['nodes_per_cpu_second']:,.0f})" for run in found
        ]
        lines.append(f"| {_words(way)} | {' | '.join(cells)} |")
    about = (
        "Nodes per second, and per second of the CPU in the first process. "
        f"{_graph(record)}, about {record['nodes_per_step']:,} nodes of a piece,"
        f" {record['neighbors']} neighbours in each hop."
        f" `{record['command']}`, {record['hardware']}, torch {record['torch']}, {record['date']}."
    )
    return "\n".join([*lines, "", about])


def _words(way: tuple[int, int, int]) -> str:
    processes, threads, workers = way
    said = "1 process" if processes == 1 else f"{processes} processes"
    said += ", 1 thread" if threads == 1 else f", {threads} threads"
    said += " each" if processes > 1 else ""
    return said + (", pieces cut ahead in another" if workers else ", pieces not cut ahead")


def _graph(record: Mapping[str, Any]) -> str:
    return (
        f"{record['nodes']:,} nodes, {record['edges']:,} stored edges, {record['features']}"
        f" features, width {record['hidden']}"
    )
