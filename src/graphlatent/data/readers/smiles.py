"""Molecules out of SMILES: atoms with one-hot attributes, bonds with theirs.

The attributes are those of PyG's `from_smiles`, with values that drug-like molecules rarely have
put together, and one-hot. The columns are the same for every molecule, so that a trained model
takes any new one. Hydrogens are counted at their atoms and are no nodes. RDKit is optional (extra
'molecules') and imported here only. Legend: N atoms, E bonds, F columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from graphlatent.errors import MissingDependencyError

Array: TypeAlias = np.ndarray[Any, Any]

ELEMENTS = (
    *("H", "B", "C", "N", "O", "F", "Na", "Mg", "Si", "P"),
    *("S", "Cl", "K", "Ca", "Fe", "Zn", "As", "Se", "Br", "I"),
)
# Each attribute of an atom has a column for each of its values and one for all others.
ATOM_VALUES: dict[str, tuple[Any, ...]] = {
    "element": ELEMENTS,
    "degree": (0, 1, 2, 3, 4, 5),
    "charge": (-1, 0, 1),
    "hydrogens": (0, 1, 2, 3),
    "radical_electrons": (0,),
    "hybridization": ("S", "SP", "SP2", "SP3"),
    "chirality": ("CHI_UNSPECIFIED", "CHI_TETRAHEDRAL_CW", "CHI_TETRAHEDRAL_CCW"),
}
ATOM_FLAGS = ("aromatic", "in_ring")
BOND_VALUES: dict[str, tuple[str, ...]] = {
    "bond": ("SINGLE", "DOUBLE", "TRIPLE", "AROMATIC"),
    "stereo": ("STEREONONE", "STEREOZ", "STEREOE"),
}
BOND_FLAGS = ("conjugated",)
BOND_FEATURES = (*BOND_VALUES, *BOND_FLAGS)
"""The attributes of bonds, which the option 'edge_features' may name."""


@dataclass(frozen=True, eq=False)
class Molecules:
    """Molecules in one index space.

    Args:
        x: features of the atoms, float32 [N, F].
        bonds: the two atoms of each bond, int64 [2, E].
        bond_columns: columns of 0 and 1 by name, bool [E].
        ptr: first atom of each molecule and the end, int64 [molecules + 1].
        row: which of the given texts each molecule is, int64 [molecules].
        invalid: reason by number of the text, for those that are no molecule.
    """

    x: Array
    bonds: Array
    bond_columns: dict[str, Array]
    ptr: Array
    row: Array
    invalid: dict[int, str]


def atom_feature_names() -> list[str]:
    """The names of the features of an atom."""
    return [*_names(ATOM_VALUES), *ATOM_FLAGS]


def read_smiles(texts: Sequence[str | None]) -> Molecules:
    """The molecules of the texts that are valid SMILES, and what is wrong with the others.

    Raises:
        MissingDependencyError: where RDKit is not installed.
    """
    chem, logs = _rdkit()
    atoms, bonds, sizes, rows, ends, offset = [], [], [], [], [], 0
    invalid: dict[int, str] = {}
    # RDKit writes what is wrong to standard error.
    with logs.BlockLogs():
        for row, text in enumerate(texts):
            molecule = _molecule(chem, text)
            if isinstance(molecule, str):
                invalid[row] = molecule
                continue
            atoms += [_of_atom(atom) for atom in molecule.GetAtoms()]
            for bond in _bonds(molecule):
                ends.append((bond.GetBeginAtomIdx() + offset, bond.GetEndAtomIdx() + offset))
                bonds.append(_of_bond(bond))
            rows.append(row)
            sizes.append(molecule.GetNumAtoms())
            offset += sizes[-1]
    columns = _one_hot(bonds, BOND_VALUES, BOND_FLAGS)
    names = [*_names(BOND_VALUES), *BOND_FLAGS]
    return Molecules(
        x=_one_hot(atoms, ATOM_VALUES, ATOM_FLAGS).astype(np.float32),
        bonds=np.array(ends, dtype=np.int64).reshape(-1, 2).T,
        bond_columns=dict(zip(names, columns.T, strict=True)),
        ptr=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        row=np.array(rows, dtype=np.int64),
        invalid=invalid,
    )


def _rdkit() -> tuple[Any, Any]:
    try:
        from rdkit import Chem, rdBase
    except ImportError as error:
        raise MissingDependencyError(
            "SMILES are read with the package 'rdkit'. Install it with: pip install"
            " 'graphlatent[molecules]'"
        ) from error
    return Chem, rdBase


def _molecule(chem: Any, text: str | None) -> Any:
    """The molecule, or what is wrong with the text."""
    if text is None or not text.strip():
        return "empty"
    molecule = chem.MolFromSmiles(text)
    if molecule is not None:
        return molecule if molecule.GetNumAtoms() else "no atoms"
    parsed = chem.MolFromSmiles(text, sanitize=False)
    if parsed is None:
        return "cannot be parsed as SMILES"
    problems = chem.DetectChemistryProblems(parsed)
    return problems[0].Message() if problems else "RDKit cannot use it"


def _bonds(molecule: Any) -> list[Any]:
    """The bonds in their order. RDKit's own list walks to each of them from the first."""
    found = {bond.GetIdx(): bond for atom in molecule.GetAtoms() for bond in atom.GetBonds()}
    return [found[number] for number in range(len(found))]


def _of_atom(atom: Any) -> tuple[Any, ...]:
    """The attributes of an atom, in the order of ATOM_VALUES and ATOM_FLAGS."""
    return (
        atom.GetSymbol(),
        atom.GetTotalDegree(),
        atom.GetFormalCharge(),
        atom.GetTotalNumHs(),
        atom.GetNumRadicalElectrons(),
        str(atom.GetHybridization()),
        str(atom.GetChiralTag()),
        atom.GetIsAromatic(),
        atom.IsInRing(),
    )


def _of_bond(bond: Any) -> tuple[Any, ...]:
    """The attributes of a bond, in the order of BOND_VALUES and BOND_FLAGS."""
    return (str(bond.GetBondType()), str(bond.GetStereo()), bond.GetIsConjugated())


def _names(values: dict[str, tuple[Any, ...]]) -> list[str]:
    return [f"{name}={value}" for name in values for value in (*values[name], "other")]


def _one_hot(
    rows: list[tuple[Any, ...]], values: dict[str, tuple[Any, ...]], flags: tuple[str, ...]
) -> Array:
    """The attributes of each row as columns of 0 and 1, bool [rows, columns]."""
    offsets = np.cumsum([0, *(len(each) + 1 for each in values.values())])
    place = [{value: i for i, value in enumerate(each)} for each in values.values()]
    # Few combinations of attributes occur, so each is encoded once.
    number = {row: i for i, row in enumerate(dict.fromkeys(rows))}
    table = np.zeros((len(number), int(offsets[-1]) + len(flags)), dtype=bool)
    for row, i in number.items():
        for k, known in enumerate(place):
            table[i, offsets[k] + known.get(row[k], len(known))] = True
        table[i, int(offsets[-1]) :] = row[len(place) :]
    return table[np.fromiter((number[row] for row in rows), dtype=np.int64, count=len(rows))]
