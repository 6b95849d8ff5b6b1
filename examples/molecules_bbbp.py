"""From a CSV of SMILES to an AUC: does a molecule pass the blood-brain barrier (BBBP)?

    pip install 'graphlatent[molecules]'
    python examples/molecules_bbbp.py [BBBP.csv]

The file is MoleculeNet's BBBP: 2,050 molecules with a column of SMILES and one of labels. Eleven
rows have impossible valences and are skipped. Molecules are split by their Bemis-Murcko scaffolds,
the largest groups first into training, so that test molecules have ring systems that no training
molecule has. Embeddings are learnt from the training molecules without labels; a logistic
regression then learns the labels, with the strength that is best on the validation molecules. The
same is done with simple counts and with Morgan fingerprints.
"""

import os
import sys
import warnings
from collections import defaultdict
from pathlib import Path

import numpy as np
import pandas as pd
from rdkit import Chem, RDLogger
from rdkit.Chem import rdFingerprintGenerator
from rdkit.Chem.Scaffolds.MurckoScaffold import MurckoScaffoldSmiles
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from graphlatent import GraphLaGraph, read_graphs

STRENGTHS = 10.0 ** np.arange(-6, 2)


def find_csv() -> Path:
    """The file named on the command line, or the one below GRAPHLATENT_DATA."""
    root = Path(os.environ.get("GRAPHLATENT_DATA", Path.home() / ".cache" / "graphlatent"))
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else root / "BBBP" / "raw" / "BBBP.csv"
    if not path.exists():
        sys.exit(f"There is no file {path}. Get BBBP.csv from moleculenet.org and name it.")
    return path


def scaffold_split(smiles: pd.Series) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows for training (80 %), validation (10 %) and test (10 %), no scaffold in two of them.

    In the order of DeepChem's ScaffoldSplitter.
    """
    groups = defaultdict(list)
    for row, text in smiles.items():
        groups[MurckoScaffoldSmiles(text, includeChirality=False)].append(row)
    parts = ([], [], [])
    for group in sorted(groups.values(), key=lambda rows: (len(rows), rows[0]), reverse=True):
        if len(parts[0]) + len(group) <= 0.8 * len(smiles):
            parts[0].extend(group)
        elif len(parts[0]) + len(parts[1]) + len(group) <= 0.9 * len(smiles):
            parts[1].extend(group)
        else:
            parts[2].extend(group)
    return tuple(np.array(part) for part in parts)


def auc(x: list[np.ndarray], y: list[np.ndarray]) -> float:
    """The test AUC of a logistic regression; training, validation and test one after another."""
    best = (0.0, 0.0)
    for strength in STRENGTHS:
        model = LogisticRegression(C=strength, max_iter=2000, class_weight="balanced")
        fitted = make_pipeline(StandardScaler(), model).fit(x[0], y[0])
        scores = [
            roc_auc_score(b, fitted.predict_proba(a)[:, 1]) for a, b in zip(x, y, strict=True)
        ]
        best = max(best, (scores[1], scores[2]))
    return best[1]


warnings.simplefilter("ignore")
RDLogger.DisableLog("rdApp.*")
frame = pd.read_csv(find_csv())
valid = read_graphs(frame, smiles="smiles", label="BBBP", invalid="skip").graph_ids
print(f"{len(valid):,} molecules; {len(frame) - len(valid)} rows are skipped")
parts = [frame.loc[rows] for rows in scaffold_split(frame.loc[valid, "smiles"])]
print("training, validation, test:", *(len(part) for part in parts))
graphs = [read_graphs(part, smiles="smiles", label="BBBP") for part in parts]
labels = [graph.y for graph in graphs]

model = GraphLaGraph(size="small", random_state=0).fit(graphs[0])
morgan = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)
untrained = GraphLaGraph(size="small", epochs=0, random_state=0).fit(graphs[0])
rows = {
    "counts of atoms by kind": [
        np.add.reduceat(graph.x.numpy(), graph.ptr[:-1].numpy()) for graph in graphs
    ],
    "Morgan fingerprints": [
        np.stack([morgan.GetFingerprintAsNumPy(Chem.MolFromSmiles(s)) for s in part["smiles"]])
        for part in parts
    ],
    "untrained encoder": [untrained.transform(graph) for graph in graphs],
    "GraphLaGraph": [model.transform(graph) for graph in graphs],
}
pairs = zip(rows["Morgan fingerprints"], rows["GraphLaGraph"], strict=True)
rows["fingerprints and GraphLaGraph"] = [np.concatenate(pair, axis=1) for pair in pairs]
for name, x in rows.items():
    print(f"{name}: test AUC {auc(x, labels):.3f}")
