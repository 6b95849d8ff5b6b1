"""Graphs out of a table of molecules: one row each, with a column of SMILES."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from graphlatent.data.cut import cut_graphs
from graphlatent.data.graph import RawGraph
from graphlatent.data.ids import IdColumn, id_array, of_one_type, read_ids, shown
from graphlatent.data.readers.array_files import row_numbers
from graphlatent.data.readers.arrow import LoadedTable, load_table, to_array
from graphlatent.data.readers.messages import quoted, shortened
from graphlatent.data.readers.options import TableOptions, stack_labels
from graphlatent.data.readers.smiles import BOND_FEATURES, Molecules, read_smiles
from graphlatent.errors import InputError

Array: TypeAlias = np.ndarray[Any, Any]
# Invalid rows that a message lists.
_LISTED = 3


def read_molecules(source: Any, *, options: TableOptions) -> list[RawGraph]:
    """One graph for each row with a valid SMILES: atoms are nodes, bonds are edges.

    The id of a graph is that of its row in the column `options.id`, or the row's number from 0.
    The features of bonds are those that `options.edge_features` names, by default all.

    Args:
        source: path (.csv, .tsv, .parquet), pandas DataFrame or pyarrow Table.
        options: of which `smiles`, `invalid`, `label`, `id`, `drop` and `edge_features` are used.

    Raises:
        InputError: where a column is missing, an id occurs twice, or rows are no molecules and
            `options.invalid` is not 'skip'.
        MissingDependencyError: where RDKit is not installed.
    """
    assert options.smiles is not None
    _refuse_columns_of_edges(options)
    table = load_table(
        source, role="molecules", text_columns=(options.id, options.smiles), options=options
    )
    texts = _texts(table, options.smiles)
    ids = molecule_ids(table, options)
    labels = [to_array(table, name, option="label") for name in options.labels]
    molecules = read_smiles(texts)
    notes = _unused_columns(table, options)
    if molecules.invalid:
        notes |= {"invalid rows": _checked_invalid(molecules, table, texts, options)}
    row = molecules.row
    joined = RawGraph(
        edge_index=molecules.bonds,
        num_nodes=len(molecules.x),
        x=molecules.x,
        edge_columns=_bond_columns(molecules, options) or None,
        y=stack_labels([values[row] for values in labels]),
        name=table.name,
        directed=False,
        notes=notes,
    )
    graph_ids = id_array(of_one_type([ids])[0])[row].tolist()
    return cut_graphs(joined, ptr=molecules.ptr, graph_ids=graph_ids)


def molecule_ids(table: LoadedTable, options: TableOptions) -> IdColumn:
    """The ids of the rows of a table of molecules: a column, or their numbers from 0.

    Raises:
        InputError: where another column than the default is not there, or an id occurs twice.
    """
    has_none = options.id not in table.columns and options.id == TableOptions.id
    if has_none or options.id == options.smiles:
        return row_numbers(table.num_rows, where=table.name)
    column = read_ids(table, options.id, option="id")
    (values,) = of_one_type([column])
    if len(values.unique()) < len(values):
        array = id_array(values)
        _, first = np.unique(array, return_index=True)
        again = int(np.setdiff1d(np.arange(len(array)), first)[0])
        raise InputError(
            f"{column.where}: an id must identify one molecule. {shown(values[again])} occurs again"
            f" in {table.place(again)}. Rename it, or name another column with the option 'id'."
        )
    return column


def _refuse_columns_of_edges(options: TableOptions) -> None:
    names = ("weight", "features", "merge", "time", "until", "text", "hash", "impute")
    wrong = [name for name in names if getattr(options, name) not in (None, ())]
    wrong += ["bipartite"] if options.bipartite else []
    if wrong:
        raise InputError(
            f"The option '{wrong[0]}' has no meaning with 'smiles': the features of atoms and bonds"
            " are computed from the molecules. Leave it out."
        )
    unknown = [name for name in options.edge_features or () if name not in BOND_FEATURES]
    if unknown:
        raise InputError(
            f"The features of bonds (option 'edge_features') are {', '.join(BOND_FEATURES)}. Got"
            f" {unknown[0]!r}."
        )


def _texts(table: LoadedTable, column: str) -> list[str | None]:
    values = to_array(table, column, option="smiles")
    if values.dtype.kind not in "OU":
        raise InputError(
            f"{table.name}: column '{column}' (option 'smiles') must hold text, such as 'CCO'. Got"
            f" values of type {values.dtype}."
        )
    texts: list[str | None] = values.tolist()
    return texts


def _bond_columns(molecules: Molecules, options: TableOptions) -> dict[str, Array]:
    wanted = BOND_FEATURES if options.edge_features is None else options.edge_features
    columns = molecules.bond_columns
    return {name: columns[name] for name in columns if name.partition("=")[0] in wanted}


def _unused_columns(table: LoadedTable, options: TableOptions) -> dict[str, str]:
    used = (options.smiles, options.id, *options.labels, *options.drop)
    others = [name for name in table.columns if name not in used]
    return {"columns": f"{table.name}: columns not used: {quoted(others)}."} if others else {}


def _checked_invalid(
    molecules: Molecules, table: LoadedTable, texts: list[str | None], options: TableOptions
) -> str:
    """A note on the rows that are skipped. Raises where they may not be, or none is left."""
    listed = [
        f"{table.place(row)}: {shortened(texts[row])} ({reason})"
        for row, reason in list(molecules.invalid.items())[:_LISTED]
    ]
    count, more = len(molecules.invalid), len(molecules.invalid) - _LISTED
    text = "; ".join(listed) + (f"; and {more:,} more" if more > 0 else "")
    what = f"{count:,} of {len(texts):,} rows have no valid SMILES in column '{options.smiles}'"
    if not len(molecules.row):
        raise InputError(f"{table.name}: {what}: {text}. Name the right column.")
    if options.invalid != "skip":
        raise InputError(
            f"{table.name}: {what}: {text}. Correct them, or leave such rows out with"
            " invalid='skip' (on the command line --invalid skip)."
        )
    return f"{table.name}: {what} and are skipped: {text}."
