"""Embeddings of molecules given as a list of graphs.

    python examples/molecules.py

Each molecule is a PyG `Data` (any form that `read_graphs` takes will do): one-hot atom types, bonds
in both directions. The molecules here are made up: rings and chains of carbon with a nitrogen and
an oxygen somewhere.
"""

import torch
from torch_geometric.data import Data

from graphlatent import GraphLaGraph

ATOMS = ["C", "N", "O"]
random = torch.Generator().manual_seed(0)


def molecule(num_atoms: int, *, ring: bool) -> Data:
    """A chain of atoms, closed to a ring or not."""
    start = torch.arange(num_atoms - 1)
    bonds = torch.stack([start, start + 1])
    if ring:
        bonds = torch.cat([bonds, torch.tensor([[num_atoms - 1], [0]])], dim=1)
    atoms = torch.zeros(num_atoms, dtype=torch.int64)
    atoms[torch.randperm(num_atoms, generator=random)[:2]] = torch.tensor([1, 2])
    x = torch.nn.functional.one_hot(atoms, len(ATOMS)).float()
    return Data(x=x, edge_index=torch.cat([bonds, bonds.flip(0)], dim=1))


molecules = [
    molecule(int(torch.randint(5, 15, (), generator=random)), ring=i % 2 == 0) for i in range(100)
]
# Cross-entropy, because the features are one-hot
model = GraphLaGraph(objective="ce-embed", epochs=20)
embeddings = model.fit_transform(molecules)
print("embeddings of", len(molecules), "molecules:", embeddings.shape)

new = [molecule(8, ring=True), molecule(8, ring=False)]
print("new molecules, not trained on:", model.transform(new).shape)
