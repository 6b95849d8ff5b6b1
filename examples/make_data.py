"""The tables of the task pages in docs/tasks, drawn at random.

    python examples/make_data.py NAME [--rows N] [--out FOLDER]

NAME is one of: copurchase, payments, friends, customers, papers, devices. The tables are synthetic:
every node belongs to a hidden group, most edges join nodes of one group, and columns depend on the
group and on noise. Each function below states its process. Scores on such data show how a command
is used and read; they say nothing about your data.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

Array = np.ndarray


def draw_edges(rng: np.random.Generator, group: Array, num_edges: int, same: float) -> Array:
    """Pairs of different nodes [2, num_edges]: the first is uniform, the second with probability
    `same` from the group of the first, else uniform.
    """
    by_group = np.argsort(group, kind="stable")
    counts = np.bincount(group)
    starts = np.cumsum(counts) - counts
    pairs = np.empty((2, 0), dtype=np.int64)
    while pairs.shape[1] < num_edges:
        first = rng.integers(len(group), size=num_edges)
        inside = by_group[starts[group[first]] + rng.integers(counts[group[first]])]
        second = np.where(
            rng.random(num_edges) < same, inside, rng.integers(len(group), size=num_edges)
        )
        pairs = np.hstack([pairs, np.stack([first, second])[:, first != second]])
    return pairs[:, :num_edges]


def named(prefix: str, numbers: Array) -> Array:
    """Ids such as P0042."""
    return np.array([f"{prefix}{number:04d}" for number in numbers])


def copurchase(rng: np.random.Generator, rows: int) -> dict[str, pd.DataFrame]:
    """Products of six categories, and which were bought together. 70 % of the pairs are of one
    category. Price and weight depend weakly on the category; 40 % of the brands belong to one.
    """
    categories = np.array(["audio", "books", "garden", "kitchen", "sport", "toys"])
    group = rng.integers(len(categories), size=rows)
    pairs = draw_edges(rng, group, 4 * rows, same=0.7)
    ids = named("P", np.arange(rows))
    brand = np.where(rng.random(rows) < 0.4, group, rng.integers(10, size=rows))
    products = {
        "id": ids,
        "category": categories[group],
        "brand": np.char.add("brand-", brand.astype(str)),
        "price": rng.lognormal(2.5 + 0.2 * group, 0.6).round(2),
        "grams": rng.lognormal(5 + 0.3 * (group % 3), 0.7).round(),
    }
    together = {"source": ids[pairs[0]], "target": ids[pairs[1]]}
    return {"products.csv": pd.DataFrame(products), "together.csv": pd.DataFrame(together)}


def payments(rng: np.random.Generator, rows: int) -> dict[str, pd.DataFrame]:
    """Accounts of 20 circles (a shop, its suppliers, its customers) that pay mostly (90 %) within
    their circle, with lognormal amounts on random days. Three accounts are unusual: each also pays
    20 accounts of any circle, with amounts five times as large.
    """
    circle = rng.integers(20, size=rows)
    unusual = np.repeat(rng.choice(rows, size=3, replace=False), 20)
    usual = draw_edges(rng, circle, 5 * rows, same=0.9)
    payees = (unusual + rng.integers(1, rows, size=len(unusual))) % rows
    pairs = np.hstack([usual, np.stack([unusual, payees])])
    amount = rng.lognormal(4, 0.8, size=pairs.shape[1])
    amount[usual.shape[1] :] *= 5
    days = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(182, size=len(amount)), "D")
    ids = np.array([f"{'ABCD'[i]}-{n:04d}" for n, i in enumerate(rng.integers(4, size=rows))])
    table = pd.DataFrame(
        {
            "payer": ids[pairs[0]],
            "payee": ids[pairs[1]],
            "amount": amount.round(2),
            "when": days.strftime("%Y-%m-%d"),
        }
    )
    planted = pd.DataFrame({"account": np.unique(ids[unusual])})
    return {"payments.csv": table.sort_values("when", kind="stable"), "planted.csv": planted}


def friends(rng: np.random.Generator, rows: int) -> dict[str, pd.DataFrame]:
    """Members of four clubs who mostly (65 %) know members of their club. Nothing else is known."""
    club = rng.integers(4, size=rows)
    pairs = draw_edges(rng, club, 4 * rows, same=0.65)
    # Numbers with gaps, as after deleted users
    ids = np.sort(rng.choice(10 * rows, size=rows, replace=False))
    known = {"source": ids[pairs[0]], "target": ids[pairs[1]]}
    clubs = {"id": ids, "club": np.array(["chess", "choir", "climbing", "cooking"])[club]}
    return {"friends.csv": pd.DataFrame(known), "clubs.csv": pd.DataFrame(clubs)}


def customers(rng: np.random.Generator, rows: int) -> dict[str, pd.DataFrame]:
    """Customers who recommend a shop to each other. A third of the groups leave often (70 %), the
    others rarely (10 %). The last sixth of the customers arrives in the second week.
    """
    group = rng.integers(6, size=rows)
    pairs = draw_edges(rng, group, 4 * rows, same=0.9)
    left = rng.random(rows) < np.where(group < 2, 0.7, 0.1)
    table = pd.DataFrame(
        {
            "id": named("c", np.arange(rows)),
            "age": (40 + 4 * (group % 3) + rng.normal(0, 10, size=rows)).round(),
            "orders": rng.poisson(4 + group % 3),
            "plan": rng.choice(["free", "plus"], size=rows),
            "left": np.where(left, "yes", "no"),
        }
    )
    ids = table["id"].to_numpy()
    edges = pd.DataFrame({"source": ids[pairs[0]], "target": ids[pairs[1]]})
    old = rows - rows // 6
    early = (pairs < old).all(axis=0)
    return {
        "week1_customers.csv": table.iloc[:old],
        "week1_recommended.csv": edges[early],
        "week2_customers.csv": table.drop(columns="left"),
        "week2_recommended.csv": edges,
        "week3_left.csv": table.loc[old:, ["id", "left"]],
    }


def papers(rng: np.random.Generator, rows: int) -> dict[str, pd.DataFrame]:
    """Papers of five fields, the words they contain, and whom they cite (80 % of their own field).
    Each field has 20 of 100 words that are three times as frequent. Forty papers have a label.
    """
    fields = np.array(["biology", "economics", "history", "physics", "statistics"])
    field = rng.integers(len(fields), size=rows)
    pairs = draw_edges(rng, field, 3 * rows, same=0.8)
    ids = named("paper", np.arange(rows))
    typical = np.arange(100) // 20 == field[:, None]
    words = rng.random((rows, 100)) < np.where(typical, 0.09, 0.03)
    table = pd.DataFrame(words.astype(int), columns=[f"word{i:02d}" for i in range(100)])
    table.insert(0, "id", ids)
    truth = pd.DataFrame({"id": ids, "field": fields[field]})
    # Eight of each field, so that every field has labels
    known = truth.groupby("field").sample(8, random_state=0).sort_values("id")
    cites = pd.DataFrame({"source": ids[pairs[0]], "target": ids[pairs[1]]})
    return {"papers.csv": table, "cites.csv": cites, "labels.csv": known, "truth.csv": truth}


def devices(rng: np.random.Generator, rows: int) -> dict[str, pd.DataFrame]:
    """Devices in 50 networks with eight measurements, and five times as many connections, 80 % of
    them within a network. Written as Parquet, which is read faster than text.
    """
    network = rng.integers(50, size=rows)
    pairs = draw_edges(rng, network, 5 * rows, same=0.8)
    values = rng.normal(size=(50, 8))[network] + 2 * rng.normal(size=(rows, 8))
    table = pd.DataFrame(values.astype(np.float32), columns=[f"m{i}" for i in range(8)])
    table.insert(0, "id", np.arange(rows))
    table["network"] = network
    connected = pd.DataFrame({"source": pairs[0], "target": pairs[1]})
    return {"devices.parquet": table, "connected.parquet": connected}


TABLES = {
    "copurchase": (copurchase, 400),
    "payments": (payments, 300),
    "friends": (friends, 300),
    "customers": (customers, 480),
    "papers": (papers, 500),
    "devices": (devices, 100_000),
}


def main(arguments: list[str] | None = None) -> None:
    """Write the tables of one page."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("name", choices=sorted(TABLES), nargs="?", default="copurchase")
    options.add_argument("--rows", type=int, help="number of nodes [default: that of the page]")
    options.add_argument("--out", type=Path, default=Path(), help="folder [default: this one]")
    asked = options.parse_args(arguments)
    make, rows = TABLES[asked.name]
    asked.out.mkdir(parents=True, exist_ok=True)
    for name, table in make(np.random.default_rng(0), asked.rows or rows).items():
        if name.endswith(".parquet"):
            table.to_parquet(asked.out / name, index=False)
        else:
            table.to_csv(asked.out / name, index=False)
        print(f"wrote {name}: {len(table):,} rows")


if __name__ == "__main__":
    main()
