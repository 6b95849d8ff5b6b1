"""Embeddings of a graph in two CSV files, keyed by your own ids.

    python examples/own_csv.py

Writes a small payments graph first, so that it runs anywhere; put your own paths in `read_graphs`
instead.
"""

import csv
import random
import tempfile
from pathlib import Path

from graphlatent import NodeLaGraph, read_graphs

random.seed(0)
folder = Path(tempfile.mkdtemp())
accounts = [
    (f"acc-{i:03d}", random.choice(["retail", "business"]), round(random.lognormvariate(6, 1), 2))
    for i in range(200)
]
payments = [
    (random.choice(accounts)[0], random.choice(accounts)[0], random.randint(1, 20))
    for _ in range(900)
]
with (folder / "accounts.csv").open("w", newline="") as file:
    csv.writer(file).writerows([("id", "kind", "balance"), *accounts])
with (folder / "payments.csv").open("w", newline="") as file:
    csv.writer(file).writerows([("source", "target", "weight"), *payments])

graph = read_graphs(folder / "payments.csv", nodes=folder / "accounts.csv")
model = NodeLaGraph(hidden_dim=32, epochs=50).fit(graph)
embeddings = model.embed(graph)
embeddings.save(folder / "embeddings.parquet")
print(embeddings.to_pandas().iloc[:3, :4])
print("saved", folder / "embeddings.parquet")
