"""Tables of molecules: atoms and bonds against PyG's from_smiles, ids, labels, invalid rows."""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import pytest
import torch

from graphlatent import GraphLaGraph, TableOptions, read_graphs
from graphlatent.data.readers.smiles import (
    ATOM_FLAGS,
    ATOM_VALUES,
    BOND_FLAGS,
    BOND_VALUES,
    atom_feature_names,
    read_smiles,
)
from graphlatent.errors import GraphLatentWarning, InputError, MissingDependencyError

pytest.importorskip("rdkit")
SMILES = [
    "CCO",
    "c1ccccc1C(=O)N",
    "C[C@H](N)C(=O)O",
    "F/C=C/F",
    "[Na+].[Cl-]",
    "C#N",
    "[CH3]",
    "OS(=O)(=O)c1ccc(Br)cc1",
    "[U]",
]


def table(smiles=SMILES, **columns) -> pd.DataFrame:
    return pd.DataFrame({"smiles": smiles, **columns})


def shown(row, values, flags) -> list:
    """The attributes that a row of 0 and 1 says; 'other' for those without a column."""
    found, place = [], 0
    for known in values.values():
        (one,) = np.flatnonzero(row[place : place + len(known) + 1])
        found.append([*known, "other"][one])
        place += len(known) + 1
    return [*found, *(bool(each) for each in row[place : place + len(flags)])]


def expected(row, maps, names, values) -> list:
    """The same of PyG's numbers of categories."""
    attributes = [maps[name][number] for name, number in zip(maps, row, strict=True)]
    by_name = dict(zip(names, attributes, strict=True))
    known = {**{name: set(each) for name, each in values.items()}}
    return [
        by_name[name] if name not in known or by_name[name] in known[name] else "other"
        for name in [*values, *(n for n in names if n not in values)]
    ]


@pytest.mark.parametrize("smiles", SMILES)
def test_atoms_and_bonds_are_those_of_pyg(smiles):
    reference = pytest.importorskip("torch_geometric.utils.smiles")
    symbols = pytest.importorskip("rdkit.Chem").GetPeriodicTable()
    data, ours = reference.from_smiles(smiles), read_smiles([smiles])
    names = ["element", "chirality", "degree", "charge", "hydrogens", "radical_electrons"]
    names += ["hybridization", *ATOM_FLAGS]
    elements = ["?"] + [symbols.GetElementSymbol(n) for n in range(1, 119)]
    maps = {**reference.x_map, "atomic_num": elements}
    for row, theirs in zip(ours.x, data.x.tolist(), strict=True):
        assert shown(row, ATOM_VALUES, ATOM_FLAGS) == expected(theirs, maps, names, ATOM_VALUES)
    matrix = np.stack(list(ours.bond_columns.values()), axis=1)
    bonds = {
        frozenset(pair): shown(row, BOND_VALUES, BOND_FLAGS)
        for pair, row in zip(ours.bonds.T.tolist(), matrix, strict=True)
    }
    found = {
        frozenset(pair): expected(
            row, reference.e_map, ["bond", "stereo", "conjugated"], BOND_VALUES
        )
        for pair, row in zip(data.edge_index.T.tolist(), data.edge_attr.tolist(), strict=True)
    }
    assert bonds == found


def test_ethanol_by_hand():
    graph = read_graphs(table(["CCO"]), smiles="smiles")
    names = atom_feature_names()
    ones = [{names[i] for i in np.flatnonzero(row)} for row in graph.x.numpy()]
    assert [sorted(row)[3] for row in ones] == ["element=C", "element=C", "element=O"]
    assert {"hydrogens=3", "degree=4", "charge=0", "hybridization=SP3"} <= ones[0]
    assert graph.edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    set_columns = [k for k, v in graph.edge_columns.columns.items() if v.all()]
    assert set_columns == ["bond=SINGLE", "stereo=STEREONONE"]


@pytest.mark.filterwarnings("ignore:.*every node is embedded from its own")
def test_every_molecule_has_the_same_columns():
    widths = {read_graphs(table([each]), smiles="smiles").x.shape[1] for each in SMILES}
    assert widths == {len(atom_feature_names())}


def test_a_new_element_or_bond_needs_no_new_model():
    known = read_graphs(table(["CCO", "CCC", "CO"]), smiles="smiles")
    model = GraphLaGraph(hidden_dim=4, epochs=1, device="cpu").fit(known)
    new = read_graphs(table(["[Xe]", "C#CBr", "c1ccsc1"]), smiles="smiles")
    assert torch.isfinite(torch.from_numpy(model.transform(new))).all()


def test_bonds_matter():
    graphs = read_graphs(table(["CC", "C=C", "C#C", "CO"]), smiles="smiles")
    bare = read_graphs(table(["CC", "C=C", "C#C", "CO"]), smiles="smiles", edge_features=[])
    assert graphs.edge_columns is not None and bare.edge_columns is None
    model = GraphLaGraph(hidden_dim=8, epochs=0, device="cpu").fit(graphs)
    changed = read_graphs([bare])
    changed_bonds = read_graphs(table(["CC"] * 4), smiles="smiles").edge_columns
    one_bond = type(graphs)(**{**vars(graphs), "edge_columns": changed_bonds})
    assert not np.allclose(model.transform(graphs)[1:3], model.transform(one_bond)[1:3])
    with pytest.raises(InputError, match="fitted on graphs with the edge features"):
        model.transform(changed)


def test_some_features_of_bonds_can_be_chosen():
    graph = read_graphs(table(), smiles="smiles", edge_features=["conjugated", "bond"])
    assert {name.partition("=")[0] for name in graph.edge_columns.columns} == {"conjugated", "bond"}
    with pytest.raises(InputError, match=r"are bond, stereo, conjugated\. Got 'length'"):
        read_graphs(table(), smiles="smiles", edge_features=["length"])


def test_ids_and_labels_of_rows():
    labels = np.arange(len(SMILES)) % 2
    numbered = read_graphs(table(y=labels), smiles="smiles", label="y")
    assert numbered.graph_ids.tolist() == [*range(len(SMILES))]
    assert numbered.y.tolist() == labels.tolist() and not numbered.notes[0].startswith("molecules")
    names = [f"m{i}" for i in range(len(SMILES))]
    assert read_graphs(table(id=names), smiles="smiles").graph_ids.tolist() == names
    other = TableOptions(id="name", smiles="smiles", label=("y", "z"))
    graph = read_graphs(table(name=names, y=labels, z=1 - labels), options=other)
    assert graph.graph_ids.tolist() == names and graph.y.shape == (len(SMILES), 2)
    with pytest.raises(InputError, match="no column 'name'"):
        read_graphs(table(), options=TableOptions(id="name", smiles="smiles"))
    with pytest.raises(InputError, match=r"identify one molecule\. 'm1' occurs again in row 3"):
        read_graphs(table(id=[*names[:3], "m1", *names[4:]]), smiles="smiles")


def test_columns_that_are_not_used_are_named():
    with pytest.warns(GraphLatentWarning, match=r"columns not used: 'weight', 'source'\."):
        read_graphs(table(weight=1.0, source="x"), smiles="smiles")


INVALID = ["CCO", "c1ccc", None, "CN(C)(C)(C)C", "CC", " ", "hello"]


def test_invalid_rows_are_refused_with_their_numbers(tmp_path):
    path = tmp_path / "m.csv"
    table(INVALID).to_csv(path, index=False)
    with pytest.raises(InputError) as caught:
        read_graphs(path, smiles="smiles")
    message = str(caught.value)
    assert message.startswith(
        "molecules (m.csv): 5 of 7 rows have no valid SMILES in column 'smiles': row 2 (line 3 with"
        " the header): 'c1ccc' (cannot be parsed as SMILES); row 3 (line 4 with the header): None"
        " (empty); row 4 (line 5 with the header): 'CN(C)(C)(C)C' (Explicit valence for atom # 1 N"
    )
    assert message.endswith(
        "; and 2 more. Correct them, or leave such rows out with invalid='skip' (on the"
        " command line --invalid skip)."
    )


def test_invalid_rows_are_skipped_with_a_note_and_the_others_keep_ids_and_labels():
    frame = table(INVALID, y=np.arange(7))
    with pytest.warns(GraphLatentWarning, match=r"5 of 7 rows .* are skipped: row 1 \(from 0\): "):
        graph = read_graphs(frame, smiles="smiles", label="y", invalid="skip")
    assert graph.graph_ids.tolist() == [0, 4] and graph.y.tolist() == [0, 4]
    assert graph.num_nodes == 5


def test_rdkit_says_nothing_on_standard_error(capfd):
    read_smiles(INVALID)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("frame", "options", "message"),
    [
        (table(["xyz", "?"]), {"invalid": "skip"}, "2 of 2 rows have no valid SMILES"),
        (table([1, 2]), {}, "must hold text, such as 'CCO'"),
        (table(), {"smiles": "SMILES"}, r"no column 'SMILES' \(option 'smiles'\)"),
        (table(), {"invalid": "drop"}, "'invalid' must be 'error' or 'skip'. Got 'drop'"),
        (table(), {"smiles": None, "invalid": "skip"}, "'invalid' has no effect without 'smiles'"),
        (table(), {"weight": "w"}, "'weight' has no meaning with 'smiles'"),
        (table(), {"merge": "sum"}, "'merge' has no meaning with 'smiles'"),
        (table(), {"bipartite": True}, "'bipartite' has no meaning with 'smiles'"),
        (table(), {"nodes": table()}, "A table of molecules has no node table"),
        ((np.array([[0], [1]]), np.eye(2)), {}, "names a column of a table of molecules"),
    ],
)
def test_what_cannot_be_read_is_an_error(frame, options, message):
    with pytest.raises(InputError, match=message):
        read_graphs(frame, **{"smiles": "smiles", **options})


@pytest.mark.filterwarnings("ignore:.*every node is embedded from its own")
def test_single_atoms_without_bonds():
    graph = read_graphs(table(["C", "O"]), smiles="smiles")
    assert graph.num_edges == 0
    model = GraphLaGraph(hidden_dim=4, epochs=1, device="cpu").fit(graph)
    assert model.transform(graph).shape[0] == 2


def test_without_rdkit_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "rdkit", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'graphlatent\[molecules\]'"):
        read_graphs(table(), smiles="smiles")
