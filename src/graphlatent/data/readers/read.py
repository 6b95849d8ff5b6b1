"""`read_graphs`: a graph in any of the accepted forms, read into `GraphData`.

A tuple is one graph in parts, a list is several graphs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from torch import Tensor

from graphlatent.data.assemble import assemble
from graphlatent.data.column_spec import Impute, Unknown
from graphlatent.data.cut import take_apart
from graphlatent.data.datasets import find_dataset, load_dataset, no_such_input
from graphlatent.data.graph import GraphData, RawGraph
from graphlatent.data.memory_limit import limited_memory
from graphlatent.data.merging import Merge
from graphlatent.data.readers.arrays import is_adjacency, read_adjacency, read_arrays
from graphlatent.data.readers.arrow import is_polars, is_table, table_suffix
from graphlatent.data.readers.files import read_path
from graphlatent.data.readers.molecules import read_molecules
from graphlatent.data.readers.networkx import is_networkx, read_networkx
from graphlatent.data.readers.options import TableOptions
from graphlatent.data.readers.pyg import is_pyg, read_data
from graphlatent.data.readers.python_objects import (
    adjacency_as_tables,
    has_ids,
    is_neighbours,
    is_pairs,
    pairs_as_arrays,
    pairs_as_table,
)
from graphlatent.data.readers.stores import is_store_path, read_store
from graphlatent.data.readers.tables import read_tables
from graphlatent.data.readers.text_content import STANDARD_INPUT
from graphlatent.data.store.store import GraphStore
from graphlatent.errors import InputError
from graphlatent.io.regular_files import exists

ACCEPTED = (
    "a path or data set name, a PyG Data, Batch or Dataset, a NetworkX graph, an adjacency matrix"
    " or (adjacency, features), (edge_index, x) or (edge_index, x, edge_weight), an edge table or"
    " (edges, nodes) as pandas or polars DataFrames or pyarrow Tables, a list of edges (u, v) or"
    " (u, v, weight), a dict with the neighbours of each node, or a list of such graphs"
)


@dataclass(frozen=True, eq=False)
class _Request:
    """What the user gave besides the graph."""

    nodes: Any
    options: TableOptions

    def refuse(self, kind: str, *, allowed: str | None = None) -> None:
        """Raise where something was given that means nothing for graphs of this kind.

        `allowed` is an option that does.
        """
        self.refuse_sides(kind)
        if self.nodes is not None:
            raise InputError(
                f"The option 'nodes' is the node table that goes with an edge table; {kind} brings"
                " its own nodes. Leave it out."
            )
        self.options.refuse_names(kind, allowed=allowed)

    def refuse_all(self, kind: str) -> None:
        """Raise where anything was given that would change a graph that is ready."""
        self.refuse(kind)
        if self.options.merge is not None:
            raise InputError(
                f"The option 'merge' says how repeated edges are read; {kind} has none. Leave it"
                " out."
            )

    def refuse_sides(self, kind: str) -> None:
        """Raise where 'bipartite' was asked for and edges are not in a table."""
        if self.options.bipartite:
            raise InputError(
                "The option 'bipartite' tells the ids in the two columns of an edge table apart; in"
                f" {kind}, nodes are different already. Leave it out."
            )


def read_graphs(
    data: Any,
    /,
    *,
    nodes: Any = None,
    source: str | None = None,
    target: str | None = None,
    id: str | None = None,
    symmetrize: bool = True,
    label: str | Sequence[str] | None = None,
    node_attributes: Sequence[str] | None = None,
    weight: str | None = None,
    drop: Sequence[str] | None = None,
    text: Sequence[str] | None = None,
    hash: Sequence[str] | None = None,
    impute: Impute | None = None,
    unknown: Unknown | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
    no_header: bool | None = None,
    edge_features: Sequence[str] | None = None,
    smiles: str | None = None,
    invalid: Literal["error", "skip"] | None = None,
    merge: Merge | None = None,
    bipartite: bool | None = None,
    time: str | None = None,
    until: object = None,
    options: TableOptions | None = None,
    max_memory: int | str | None = None,
) -> GraphData:
    """The graph or graphs in `data`, checked and regular.

    Args:
        data: a path (edge table .csv, .tsv, .txt, .csv.gz, .zip, .parquet, or '-' for standard
            input; .gml; .graphml; gnn-benchmark .npz; folder of .graphml files; TU folder; store of
            `graphlatent ingest`) or data set name; a PyG Data, Batch or Dataset; a NetworkX graph;
            a SciPy sparse or a dense adjacency [N, N], or (adjacency, features); (edge_index
            [2, E], x [N, F] or None) with or without edge_weight [E] as a third part; an edge table
            or (edges, nodes) as pandas or polars DataFrames, pyarrow Tables or paths; a list of
            edges (u, v) or (u, v, weight); a dict with the neighbours of each node; a list of
            several of these; a `GraphData`, which is handed back as it is.
        nodes: the node table that goes with an edge table.
        source: column of the edge table with the id that an edge starts from; None for 'source'.
        target: column of the edge table with the id that an edge goes to; None for 'target'.
        id: column of the node table with the ids; None for 'id'. Refused, as the two before, for
            anything but tables and lists of edges.
        symmetrize: read every edge in both directions. Data sets by name always are.
        label: column of the node table, or NetworkX or GraphML node attribute, that holds labels,
            or several. Labels are never features; they are kept as `y`, for probes.
        node_attributes: columns of the node table, or NetworkX or GraphML node attributes, to use
            as features; None for all but ids and labels.
        weight: column of the edge table, or NetworkX or GraphML edge attribute, with the weights;
            None for 'weight'.
        drop: columns or attributes that are not features, whether or not they are there.
        text: feature columns that are text whatever they hold, such as postal codes.
        hash: feature columns of text whose words are hashed into a fixed number of features.
        impute: fill missing numbers with what a model learns when it is fitted: 'mean', 'median',
            or 'indicator' (the mean, and a feature that says where); None refuses them.
        unknown: when a fitted model embeds these graphs, 'ignore' categories and columns that it
            does not know, with a warning, or 'error'; None refuses categories and leaves out
            columns.
        delimiter: between the cells of text files, such as ';' or 'tab'; None finds it.
        encoding: of text files, such as 'latin-1'; None for UTF-8, or what a byte order mark says.
        no_header: the first line of text files is a row; columns are called '0', '1', ...
        edge_features: columns of the edge table, or NetworkX, GraphML or PyG edge attributes (such
            as 'edge_attr'), to use as features of edges: numbers, or categories. They need
            encoder='gin'.
        smiles: column with the SMILES of molecules, in a table with one a row; each becomes a
            graph, whose label is in the column `label`.
        invalid: whether rows without a valid SMILES are an 'error' or left out, 'skip'; None for
            'error'.
        merge: the weight of edges that are there more than once: 'max', 'sum', 'mean' or 'count'
            (how often); None for 'max', with a warning where that drops weights.
        bipartite: the two columns of an edge table name nodes of two kinds, such as users and
            items. Ids then start with the name of their column, such as 'user:7'.
        time: column of the edge table, or NetworkX or GraphML edge attribute, with times.
        until: read the edges up to this time, inclusive: a date, as an object or as text
            ('2024-06-30' means to the end of that day), or a number.
        options: the same in one object, and the column that says which graph a row is of.
        max_memory: how much memory the contents of a file may take, in bytes or as text such as
            '4GB'; None for half of what is available.

    Raises:
        InputError: where the data is of another kind, cannot be used, or would take more memory
            than it may; the message says why and what to do.
        ConfigError: where `max_memory` is no amount of memory.
    """
    request = _Request(
        nodes,
        _merged(
            options,
            node_attributes,
            source=source,
            target=target,
            id=id,
            label=label,
            weight=weight,
            edge_features=edge_features,
            smiles=smiles,
            invalid=invalid,
            merge=merge,
            bipartite=bipartite,
            time=time,
            until=until,
            drop=drop,
            text=text,
            hash=hash,
            impute=impute,
            unknown=unknown,
            delimiter=delimiter,
            encoding=encoding,
            no_header=no_header,
        ),
    )
    if isinstance(data, GraphData):
        request.refuse_all("a graph that is read already")
        return data
    with limited_memory(max_memory):
        if isinstance(data, GraphStore) or is_store_path(data):
            return read_store(data, request.nodes, options=request.options, symmetrize=symmetrize)
        if _is_dataset_name(data):
            request.refuse_all("a data set")
            return load_dataset(data).graph
        if _is_several(data):
            request = _without_nodes(request)
            graphs = [
                raw
                for i in range(len(data))
                for raw in _read_one(data[i], request, name=f"graph {i}", inside=True)
            ]
        else:
            graphs = _read_one(data, request, name="graph")
        graph = assemble(graphs, symmetrize=symmetrize, merge=request.options.merge)
        return replace(graph, reading=_reading_of(data, request.options))


def _reading_of(source: Any, options: TableOptions) -> TableOptions:
    """The options of a list of graphs: those of its first `GraphData`, where there is one."""
    parts = source if isinstance(source, list | tuple) else ()
    return next((part.reading for part in parts if isinstance(part, GraphData)), options)


def _merged(
    options: TableOptions | None, node_attributes: Sequence[str] | None, **given: Any
) -> TableOptions:
    """The options, with those given as arguments of their own in their place."""
    if isinstance(node_attributes, str):
        raise InputError(
            f"node_attributes must be a list of names. Got the text {node_attributes!r}; write"
            f" [{node_attributes!r}]."
        )
    given["features"] = node_attributes
    chosen = {name: value for name, value in given.items() if value is not None}
    return replace(options or TableOptions(), **chosen)


def _is_dataset_name(source: object) -> bool:
    """A known name; a file or folder of that name goes before it."""
    return isinstance(source, str) and find_dataset(source) is not None and not exists(source)


def _is_graph_object(value: object) -> bool:
    return isinstance(value, GraphData) or is_pyg(value, "Data", "HeteroData") or is_networkx(value)


def _is_several(source: Any) -> bool:
    """Whether the value holds several graphs.

    It does if it is a list, a PyG Dataset, or a tuple in which each part is a graph.
    """
    if isinstance(source, tuple):
        return len(source) > 0 and all(_is_graph_object(part) for part in source)
    return (isinstance(source, list) and not is_pairs(source)) or is_pyg(source, "Dataset")


def _without_nodes(request: _Request) -> _Request:
    if request.nodes is not None:
        raise InputError(
            "The option 'nodes' goes with one edge table, but a list of graphs came. Put pairs"
            " (edges, nodes) into the list."
        )
    return request


def _read_one(source: Any, request: _Request, *, name: str, inside: bool = False) -> list[RawGraph]:
    """The graphs in anything but a list; `inside` says that it is an item of one."""
    if isinstance(source, str | Path):
        return _read_place(source, request)
    if request.options.smiles is not None:
        return _read_molecules(source, request)
    if is_table(source):
        return read_tables(source, request.nodes, options=request.options)
    if is_pairs(source):
        table = pairs_as_table(source, request.options, name=name)
        return read_tables(table, request.nodes, options=request.options)
    if is_neighbours(source):
        edges, nodes = adjacency_as_tables(source, request.options, name=name)
        nodes = nodes if request.nodes is None else request.nodes
        return read_tables(edges, nodes, options=request.options)
    if is_networkx(source):
        if request.nodes is not None:
            request.refuse("a NetworkX graph")
        request.refuse_sides("a NetworkX graph")
        request.options.refuse_of_tables("a NetworkX graph")
        return [read_networkx(source, options=request.options, name=name)]
    if isinstance(source, tuple):
        return _read_tuple(source, request, name=name)
    if is_pyg(source, "HeteroData"):
        raise InputError(
            f"{name} is a PyG HeteroData, with nodes or edges of several kinds. Turn it into one"
            " kind with to_homogeneous()."
        )
    if is_pyg(source, "Data"):
        request.refuse("a PyG Data", allowed="edge_features")
        return read_data(source, name=name, edge_features=request.options.edge_features or ())
    if is_adjacency(source):
        request.refuse("an adjacency")
        return [read_adjacency(source, name=name)]
    if isinstance(source, GraphData):
        return take_apart(source, name=name)
    raise InputError(_unknown(source, name if inside else "The input"))


def _read_molecules(source: Any, request: _Request) -> list[RawGraph]:
    is_file = isinstance(source, str | Path) and table_suffix(Path(source)) is not None
    if not is_file and not is_table(source):
        raise InputError(
            "The option 'smiles' names a column of a table of molecules (.csv, .tsv, .parquet, a"
            " DataFrame or a pyarrow Table), and this input is none. Leave it out."
        )
    if request.nodes is not None:
        raise InputError("A table of molecules has no node table. Leave the option 'nodes' out.")
    return read_molecules(source, options=request.options)


def _read_place(source: str | Path, request: _Request) -> list[RawGraph]:
    if str(source) == STANDARD_INPUT and request.options.smiles is None:
        return read_tables(source, request.nodes, options=request.options)
    # Path("") is the folder of the process.
    if request.options.smiles is not None and not _is_dataset_name(source):
        return _read_molecules(source, request)
    if source != "" and exists(source):
        if is_store_path(source):
            graph = read_store(source, request.nodes, options=request.options, symmetrize=False)
            return take_apart(graph, name=str(source))
        return read_path(source, nodes=request.nodes, options=request.options)
    if _is_dataset_name(source):
        request.refuse("a data set")
        return take_apart(load_dataset(str(source)).graph, name=str(source))
    raise no_such_input(str(source))


def _read_tuple(source: tuple[Any, ...], request: _Request, *, name: str) -> list[RawGraph]:
    tables = [is_table(part) or isinstance(part, str | Path) for part in source]
    if len(source) == 2 and (all(tables) or (tables[0] and source[1] is None)):
        if request.nodes is not None:
            raise InputError(
                "The node table came twice: in the tuple (edges, nodes) and as the option"
                " 'nodes'. Give it once."
            )
        return read_tables(source[0], source[1], options=request.options)
    if len(source) == 2 and tables[1] and has_ids(source[0]):
        return _read_one(source[0], replace(request, nodes=source[1]), name=name)
    request.refuse("a tuple of arrays")
    if len(source) == 2 and is_pairs(source[0]) and isinstance(source[0][0], tuple):
        edges, weight = pairs_as_arrays(source[0], name=name)
        return [read_arrays(edges, source[1], weight, name=name)]
    if len(source) in (2, 3) and not any(tables):
        if len(source) == 2 and is_adjacency(source[0]):
            return [read_adjacency(source[0], source[1], name=name)]
        if not is_adjacency(source[0]) and isinstance(
            source[0], np.ndarray | Tensor | list | tuple
        ):
            return [read_arrays(*source, name=name)]
    parts = ", ".join(type(part).__name__ for part in source)
    raise InputError(
        f"{name}: a tuple is one graph in parts, but ({parts}) is no such graph. Accepted are"
        f" {ACCEPTED}."
    )


def _unknown(source: Any, name: str) -> str:
    hint = ""
    if isinstance(source, np.ndarray | Tensor):
        shape = tuple(source.shape)
        hint = (
            f" An array of shape {shape} alone is not enough: pass (edge_index, x), where"
            " edge_index has shape (2, number of edges) and x may be None; or a square adjacency."
        )
        if shape == (2, 2):
            hint += " Two nodes or two edges? As an adjacency, pass scipy.sparse.csr_matrix(array)."
        elif len(shape) == 2 and shape[1] == 2:
            hint += " This one looks like pairs: pass (array.T, None)."
    elif is_polars(source, "LazyFrame"):
        hint = " Call its collect() first."
    elif isinstance(source, list):
        hint = " A list is several graphs: for one graph pass the tuple (edge_index, x)."
    elif hasattr(source, "__iter__") or hasattr(source, "__getitem__"):
        hint = " To give several graphs, or edges, pass list(...) of it."
    return (
        f"{name} is of type {type(source).__name__}, which is no graph that can be read.{hint}"
        f" Accepted are {ACCEPTED}."
    )
