"""Fill the generated blocks of every page: tables of the paper from results/, speed and other
measurements from benchmarks/results/.

    python benchmarks/pages.py [--check]

A block stands between `<!-- name -->` and `<!-- end -->`. A new kind of block is a function here
and an entry in MAKERS. A test holds all pages equal to the records.
"""

from __future__ import annotations

import importlib
import json
import statistics
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from pieces_table import piece_tables
from scale_table import estimates, scale_tables

from graphlatent.bench.pages import BlockMaker, fill_pages, table_maker
from graphlatent.errors import ConfigError
from graphlatent.io.atomic import write_text

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
TITLES = {
    "photo": "Photo shape",
    "computers": "Computers shape",
    "cs": "CS shape",
    "physics": "Physics shape",
    "flickr": "Flickr shape",
    "reddit": "Reddit shape",
    "NCI1": "NCI1 shape, an epoch",
    "COLLAB": "COLLAB shape, an epoch",
}


def records() -> list[dict[str, Any]]:
    """The speed records, nodes before graphs, CPU before GPU."""
    return [
        json.loads(path.read_text())
        for pattern in ("step_node-*.json", "step_graph-*.json")
        for path in sorted(RESULTS.glob(pattern))
    ]


def machine(record: dict[str, Any]) -> str:
    """The hardware in short."""
    return "2 CPU cores" if record["hardware"].endswith("2 threads") else str(record["hardware"])


def full_table() -> str:
    """Every measurement in full."""
    head = "hardware, torch, date | general | fast | ratio | floor | fast / floor | memory,"
    lines = [f"| | {head} general / fast | bf16: time, memory |", "|---" * 9 + "|"]
    for record in records():
        where = f"{record['hardware']}, {record['torch']}, {record['date']}"
        for name, found in record["shapes"].items():
            times = [milliseconds(found[way]["seconds"]) for way in ("general", "fast")]
            memory = " / ".join(gibibytes(found[way]["peak_bytes"]) for way in ("general", "fast"))
            low = (
                f"{milliseconds(found['bf16']['seconds'])},"
                f" {gibibytes(found['bf16']['peak_bytes'])}"
                if "bf16" in found
                else ""
            )
            least = f"{milliseconds(found['floor']['seconds'])} | {found['times_floor']:.2f}"
            lines.append(
                f"| {name} | {where} | {times[0]} | {times[1]} | {found['ratio']:.2f} | {least} |"
                f" {memory} GiB | {low} |"
            )
    return "\n".join(lines)


def profile_table() -> str:
    """Where the fast path spends its time, where that was measured."""
    lines = ["| | hardware | where the time of the fast path goes |", "|---|---|---|"]
    for record in records():
        for name, found in record["shapes"].items():
            if "profile" in found:
                shares = ", ".join(
                    f"{kind} {share:.0%}"
                    for kind, share in found["profile"]["kernels"]
                    if share >= 0.02
                )
                lines.append(f"| {name} | {record['hardware']} | {shares} |")
    return "\n".join(lines)


def short_table() -> str:
    """README's table: a line for each shape, a column for each machine."""
    cells: dict[str, dict[str, str]] = {}
    machines: list[str] = []
    for record in records():
        where = machine(record)
        machines += [where] if where not in machines else []
        for name, found in record["shapes"].items():
            general, fast = (milliseconds(found[way]["seconds"]) for way in ("general", "fast"))
            cells.setdefault(name, {})[where] = f"{general} → {fast}, **{found['ratio']:.1f}x**"
    lines = [f"| | {' | '.join(machines)} |", "|---" * (len(machines) + 1) + "|"]
    lines += [
        f"| {TITLES[n]} | {' | '.join(cells[n].get(m, '') for m in machines)} |"
        for n in TITLES
        if n in cells
    ]
    return "\n".join(lines)


def forms_table() -> str:
    """Dense against sparse features, by density."""
    found = [json.loads(path.read_text()) for path in sorted(RESULTS.glob("forms-*.json"))]
    lines = [
        "| density | " + " | ".join(f"{r['hardware']}: dense / sparse, auto" for r in found) + " |",
        "|---" * (len(found) + 1) + "|",
    ]
    for rows in zip(*(r["rows"] for r in found), strict=True):
        cells = [
            f"{milliseconds(r['dense'])} / {milliseconds(r['sparse'])}, {r['chosen']}" for r in rows
        ]
        lines.append(f"| {rows[0]['density']:.1%} | {' | '.join(cells)} |")
    return "\n".join(lines)


def precision_table() -> str:
    """Accuracy by precision."""
    record = json.loads((RESULTS / "precision.json").read_text())
    scores: dict[tuple[str, str], list[float]] = {}
    for run in record["runs"]:
        scores.setdefault((run["set"], run["precision"]), []).extend(run["accuracies"])
    sets, kinds = (list(dict.fromkeys(key[i] for key in scores)) for i in (0, 1))
    lines = [
        f"| {record['hardware']}, {record['date']} | {' | '.join(kinds)} |",
        "|---" * (len(kinds) + 1) + "|",
    ]
    for name in sets:
        cells = [
            f"{statistics.mean(scores[name, k]):.2f} ± {statistics.stdev(scores[name, k]):.2f}"
            for k in kinds
        ]
        lines.append(
            f"| {name} ({len(scores[name, kinds[0]])} scores each) | {' | '.join(cells)} |"
        )
    return "\n".join(lines)


def memory_line() -> str:
    """README's sentence on memory."""
    said = []
    for record in records():
        if "physics" in record["shapes"]:
            ways = [
                gibibytes(record["shapes"]["physics"][way]["peak_bytes"])
                for way in ("general", "fast")
            ]
            said.append(f"from {ways[0]} to {ways[1]} GiB on {machine(record)}")
    return f"Peak memory of a step on the Physics shape falls {', '.join(said)}."


def probes_table() -> str:
    """The nested cross-validation of the linear SVM, beside scikit-learn's grid search."""
    record = json.loads((RESULTS / "probes.json").read_text())
    lines = [
        f"| {record['hardware']}, {record['date']} | rows x columns | ours | scikit-learn | ratio |"
        " accuracy, ours / theirs |"
    ]
    lines.append("|---" * 6 + "|")
    for run in record["runs"]:
        times = f"{run['seconds']:.2f} s | {run['sklearn_seconds']:.2f} s | {run['ratio']:.1f}"
        scores = f"{100 * run['accuracy']:.1f} / {100 * run['sklearn_accuracy']:.1f}"
        lines.append(f"| {run['set']} | {run['rows']} x {run['columns']} | {times} | {scores} |")
    return "\n".join(lines)


def collapse_table() -> str:
    """How many directions an embedding has, and how far it is from the untrained encoder's, as
    training goes on.
    """
    lines = [
        "| | learning rate | alpha | epochs | effective rank | likeness to the untrained |",
        "|---" * 6 + "|",
    ]
    for record in json.loads((RESULTS / "collapse.json").read_text()):
        runs: dict[tuple[str, float, float, bool], list[dict[str, Any]]] = {}
        for run in record["runs"]:
            runs.setdefault((run["cell"], run["lr"], run["alpha"], run["of the paper"]), []).append(
                run
            )
        for (cell, rate, alpha, own), found in runs.items():
            setting = (
                f"{cell.split('/')[1]}{', as in the paper' if own else ''} | {rate:g} | {alpha:g}"
            )
            shown = ("epoch", "d"), ("effective_rank", ".1f"), ("likeness", ".2f")
            cells = [", ".join(f"{run[key]:{form}}" for run in found) for key, form in shown]
            lines.append(f"| {setting} | {' | '.join(cells)} |")
    return "\n".join(lines)


def milliseconds(seconds: float) -> str:
    """Three digits: 1.51 ms, 638 ms, 8.18 s."""
    return f"{seconds:.3g} s" if seconds >= 1 else f"{1000 * seconds:.3g} ms"


def gibibytes(count: float) -> str:
    """Two decimals."""
    return f"{count / 2**30:.2f}"


def defaults_tables() -> str:
    """The defaults beside their neighbours, test accuracy with the spread over splits."""
    lines = (RESULTS / "defaults.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    tables = []
    for level in ("node", "graph"):
        chosen = [r for r in records if r["level"] == level]
        sets = list(dict.fromkeys(r["set"] for r in chosen))
        cells = {(row_name(r), r["set"]): f"{r['test']:.1f} ± {r['std']:.1f}" for r in chosen}
        names = list(dict.fromkeys(name for name, _ in cells))
        table = ["| | " + " | ".join(sets) + " |", "|---|" + "---|" * len(sets)]
        table += [
            "| " + " | ".join([name, *(cells.get((name, s), "-") for s in sets)]) + " |"
            for name in names
        ]
        tables.append("\n".join(table))
    return "\n\n".join(tables)


def row_name(record: dict[str, Any]) -> str:
    """The row of a record of the defaults; of a variant the settings that it changes."""
    if record["row"] != "variant":
        return str(record["row"])
    return ", ".join(f"`{name}={value}`" for name, value in (record.get("change") or {}).items())


def search_tables(name: str) -> str:
    """Records of the search for the defaults, validation / test accuracy (search.toml)."""
    toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    tables = toml.loads((ROOT / "benchmarks" / "search.toml").read_text())["tables"]
    names = [table["name"] for table in tables]
    if name not in names:
        raise ConfigError(f"'<!-- search {name} -->' must name one of: {', '.join(names)}.")
    table = tables[names.index(name)]
    lines = (RESULTS / "search.jsonl").read_text().splitlines()
    found = {search_key(record): record for record in map(json.loads, lines)}
    head = ["| | " + " | ".join(table["sets"]) + " |", "|---|" + "---|" * len(table["sets"])]
    for row in table["rows"]:
        cells = []
        for dataset in table["sets"]:
            common = dict(table.get("common", {}).get(dataset, {}))
            epoch = common.pop("epoch", table["epoch"])
            wanted = {"round": table["round"], "form": table["form"], "epoch": epoch, **row}
            wanted |= {"set": dataset, **row.get("instead", {}).get(dataset, {})}
            record = found.get(search_key({**wanted, "config": {**common, **wanted["config"]}}))
            cells.append("-" if record is None else f"{record['val']:.1f} / {record['test']:.1f}")
        head.append(f"| {row['label']} | {' | '.join(cells)} |")
    return "\n".join(head)


def search_key(record: Mapping[str, Any]) -> tuple[object, ...]:
    """What tells records of the search apart."""
    names = ("round", "set", "form", "epoch")
    return (*(record[name] for name in names), frozenset(record["config"].items()))


def unknown_tables() -> str:
    """The default on graphs that it was not chosen on: synthetic sets, then changed parts."""
    records = [json.loads(line) for line in (RESULTS / "unknown.jsonl").read_text().splitlines()]
    names = ("raw", "propagated", "random", "trained")
    heads = ("", "raw", "propagated", "untrained", "default", "default minus best of the others")
    tables = []
    for script in ("unknown_graphs", "changed_graphs", "unknown_graph_sets"):
        chosen = [r for r in records if script in r["command"]]
        table = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
        for record in chosen:
            scores = record["scores"]
            gain = scores["trained"] - max(scores[name] for name in names[:-1])
            cells = [f"{scores[name]:.1f}" for name in names]
            table.append(f"| {record['set']} | {' | '.join(cells)} | {gain:+.1f} |")
        first = chosen[0]
        about = f"{first['splits']} splits, {first['hardware']}, {first['date']}"
        commands = ", ".join(dict.fromkeys(f"`{r['command']}`" for r in chosen))
        tables.append("\n".join(table) + f"\n\n{commands}: {about}.")
    return "\n\n".join(tables)


def weights_table(file: str) -> str:
    """Neighbouring weights of the blocks of an embedding, validation / test accuracy."""
    records = [json.loads(line) for line in (RESULTS / file).read_text().splitlines()]
    sets, changes = (list(dict.fromkeys(r[key] for r in records)) for key in ("set", "change"))
    changes.sort(key=lambda change: change != "the default")

    def cell(name: str, change: str) -> str:
        found = [r for r in records if (r["set"], r["change"]) == (name, change)]
        return " / ".join(
            f"{statistics.fmean(r[key] for r in found):.1f}" for key in ("val", "test")
        )

    lines = ["| | " + " | ".join(changes) + " |", "|---" * (len(changes) + 1) + "|"]
    lines += [f"| {s} | {' | '.join(cell(s, c) for c in changes)} |" for s in sets]
    return "\n".join(lines)


def calibration_table() -> str:
    """The calibration error of fine-tuned classifiers, without and with a temperature."""
    record = json.loads((RESULTS / "calibration.json").read_text())
    lines = ["| labels of 10 % | accuracy | error without temperature | with it | temperatures |"]
    lines.append("|---" * 5 + "|")
    for name, found in record["sets"].items():
        errors = [f"{100 * found[way]['calibration_error']:.1f}" for way in ("without", "with")]
        low, high = (end(found["temperatures"]) for end in (min, max))
        accuracy = f"{100 * found['accuracy']:.1f} %"
        lines.append(f"| {name} | {accuracy} | {' | '.join(errors)} | {low:.2f} to {high:.2f} |")
    about = (
        f"Expected calibration error in points, ten bins, {record['seeds']} seeds together,"
        ' `GraphLaGraph(size="small")`;'
        f" `{record['command']}`, {record['hardware']}, {record['date']}."
    )
    return "\n".join([*lines, "", about])


def without_arguments(make: Callable[[], str]) -> BlockMaker:
    """A block that takes no arguments."""
    return lambda arguments: make()


def label_free_table() -> str:
    """The accuracy of every rule that chooses an epoch, and of a choice by validation labels."""
    found = [json.loads(line) for line in (RESULTS / "label_free.jsonl").read_text().splitlines()]
    rules = ("untrained", "last", "effective_rank", "objective", "before_collapse")
    lines = [f"| set | settings | epochs | seeds | validation | {' | '.join(rules)} | collapse |"]
    lines.append("|---" * (len(rules) + 6) + "|")
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for record in sorted(found, key=lambda r: (r["set"], r["settings"], r["seed"])):
        of = (record["set"], record["settings"], record["epochs"])
        groups.setdefault(of, []).append(record)
    losses: dict[str, list[float]] = {rule: [] for rule in rules}
    for (name, settings, epochs), records_of in groups.items():
        best = statistics.mean(100 * r["accuracy"]["validation"] for r in records_of)
        cells = []
        for rule in rules:
            score = statistics.mean(100 * r["accuracy"][rule] for r in records_of)
            losses[rule].append(score - best)
            at = "/".join(str(r["epoch"][rule]) for r in records_of)
            cells.append(f"{score:.1f} ({at})")
        collapsed = "/".join(str(r["collapse"] or "-") for r in records_of)
        lines.append(
            f"| {name} | {settings} | {epochs} | {len(records_of)} | {best:.1f} |"
            f" {' | '.join(cells)} | {collapsed} |"
        )
    means = (f"{statistics.mean(v):+.1f}, {min(v):+.1f}" for v in losses.values())
    lines.append(f"| minus validation: mean, worst | | | | | {' | '.join(means)} | |")
    return "\n".join(lines)


MAKERS: Mapping[str, BlockMaker] = {
    "table": table_maker(ROOT / "results"),
    "speed": without_arguments(short_table),
    "steps": without_arguments(full_table),
    "profiles": without_arguments(profile_table),
    "forms": without_arguments(forms_table),
    "precisions": without_arguments(precision_table),
    "memory": without_arguments(memory_line),
    "probes": without_arguments(probes_table),
    "collapse": without_arguments(collapse_table),
    "labelfree": without_arguments(label_free_table),
    "defaults": without_arguments(defaults_tables),
    "unknown": without_arguments(unknown_tables),
    "calibration": without_arguments(calibration_table),
    "weights": without_arguments(partial(weights_table, "weights.jsonl")),
    "graphweights": without_arguments(partial(weights_table, "graph_weights.jsonl")),
    "search": lambda arguments: search_tables(*arguments),
    "scale": without_arguments(lambda: scale_tables(RESULTS / "scale.jsonl")),
    "estimates": without_arguments(lambda: estimates(RESULTS / "scale.jsonl")),
    **piece_tables(RESULTS),
}
PAGES = (
    ROOT / "README.md",
    ROOT / "benchmarks" / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
)


def outdated_pages() -> dict[Path, str]:
    """The pages that differ from the records, as they should be."""
    texts = fill_pages(PAGES, MAKERS)
    return {page: new for page, (old, new) in texts.items() if old != new}


if __name__ == "__main__":
    outdated = outdated_pages()
    for page, text in outdated.items():
        if "--check" not in sys.argv:
            write_text(page, text)
        print(page.relative_to(ROOT))
    if outdated and "--check" in sys.argv:
        sys.exit(1)
