"""`read_graphs`: a graph in any of the accepted forms, read into `GraphData`.

A tuple is one graph in parts, a list is several graphs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from graphlatent.data.assemble import assemble
from graphlatent.data.cut import take_apart
from graphlatent.data.datasets import find_dataset, load_dataset, no_such_input
from graphlatent.data.graph import GraphData, RawGraph
from graphlatent.data.memory_limit import limited_memory
from graphlatent.data.readers.arrays import is_adjacency, read_adjacency, read_arrays
from graphlatent.data.readers.arrow import is_table
from graphlatent.data.readers.files import read_path
from graphlatent.data.readers.networkx import is_networkx, read_networkx
from graphlatent.data.readers.options import TableOptions
from graphlatent.data.readers.pyg import is_pyg, read_data
from graphlatent.data.readers.tables import read_tables
from graphlatent.errors import InputError
from graphlatent.io.regular_files import exists, regular_file

_ARRAYS = (np.ndarray, Tensor)
ACCEPTED = (
    "a path or data set name, a PyG Data, Batch or Dataset, a NetworkX graph, a SciPy sparse"
    " adjacency or (adjacency, features), (edge_index, x) or (edge_index, x, edge_weight), an edge"
    " table or (edges, nodes) as pandas DataFrames or pyarrow Tables, or a list of such graphs"
)


@dataclass(frozen=True, eq=False)
class _Request:
    """What the user gave besides the graph."""

    nodes: Any
    options: TableOptions

    def refuse(self, kind: str) -> None:
        """Raise where something was given that means nothing for graphs of this kind."""
        if self.nodes is not None:
            raise InputError(
                f"'nodes' is the node table that goes with an edge table; {kind} brings its own"
                " nodes. Leave 'nodes' out."
            )
        if self.options.named_columns:
            named = ", ".join(map(repr, self.options.named_columns))
            raise InputError(
                f"The options {named} name attributes or columns of NetworkX graphs, GraphML files"
                f" and tables; {kind} has none. Leave them out."
            )


def read_graphs(
    source: Any,
    *,
    nodes: Any = None,
    symmetrize: bool = True,
    label: str | Sequence[str] | None = None,
    node_attributes: Sequence[str] | None = None,
    weight: str | None = None,
    options: TableOptions | None = None,
    max_memory: int | str | None = None,
) -> GraphData:
    """The graph or graphs in `source`, checked and regular.

    Args:
        source: a path (edge table .csv, .tsv, .csv.gz, .parquet; .graphml; gnn-benchmark .npz;
            folder of .graphml files; TU folder) or data set name; a PyG Data, Batch or Dataset; a
            NetworkX graph; a SciPy sparse adjacency [N, N] or (adjacency, features); (edge_index
            [2, E], x [N, F] or None) with or without edge_weight [E] as a third part; an edge table
            or (edges, nodes) as pandas DataFrames, pyarrow Tables or paths; a list of several of
            these; a `GraphData`, which is handed back as it is. Columns of PyG's `edge_attr` wider
            than one are not used.
        nodes: the node table that goes with an edge table.
        symmetrize: read every edge in both directions. Data sets by name always are.
        label: column of the node table, or NetworkX or GraphML node attribute, that holds labels,
            or several. Labels are never features; they are kept as `y`, for probes.
        node_attributes: columns of the node table, or NetworkX or GraphML node attributes, to use
            as features; None for all but ids and labels.
        weight: column of the edge table, or NetworkX or GraphML edge attribute, with the weights;
            None for 'weight'.
        options: the same and the names of further columns, for tables whose columns are not called
            'source', 'target', 'id' and 'graph'.
        max_memory: how much memory the contents of a file may take, in bytes or as text such as
            '4GB'; None for half of what is available.

    Raises:
        InputError: where the source is of another kind, cannot be used, or would take more memory
            than it may; the message says why and what to do.
        ConfigError: where `max_memory` is no amount of memory.
    """
    if isinstance(source, GraphData):
        return source
    request = _Request(nodes, _merged(options, label, node_attributes, weight))
    with limited_memory(max_memory):
        if _is_dataset_name(source):
            request.refuse("a data set")
            return load_dataset(source).graph
        if _is_several(source):
            request = _without_nodes(request)
            graphs = [
                raw
                for i in range(len(source))
                for raw in _read_one(source[i], request, name=f"graph {i}", inside=True)
            ]
        else:
            graphs = _read_one(source, request, name="graph")
        return assemble(graphs, symmetrize=symmetrize)


def refuse_features_as_y(source: Any, y: object, *, owner: str) -> None:
    """Raise where the features of a graph came as `y`, as in `fit(adjacency, x)`.

    Graphs that bring their features may be followed by a table of labels, as scikit-learn allows;
    an adjacency or an edge table has no features yet, so a matrix beside it can only be those.

    Raises:
        InputError: where `source` is an adjacency, an array or a table, and `y` a matrix.
    """
    has_no_features = is_adjacency(source) or is_table(source) or isinstance(source, _ARRAYS)
    if isinstance(y, list) and y and isinstance(y[0], list | tuple):
        y = np.asarray(y, dtype=object)
    if has_no_features and len(getattr(y, "shape", ())) == 2:
        raise InputError(
            f"{owner} ignores y, and y is a matrix of shape {tuple(getattr(y, 'shape', ()))} beside"
            f" a graph without features. If it holds the features, put both into one tuple:"
            f" {owner}((graph, x))."
        )


def _merged(
    options: TableOptions | None,
    label: str | Sequence[str] | None,
    node_attributes: Sequence[str] | None,
    weight: str | None,
) -> TableOptions:
    """The options, with those given as arguments of their own in their place."""
    if isinstance(node_attributes, str):
        raise InputError(
            f"node_attributes must be a list of names. Got the text {node_attributes!r}; write"
            f" [{node_attributes!r}]."
        )
    given = {"label": label, "features": node_attributes, "weight": weight}
    chosen: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
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
    return isinstance(source, list) or is_pyg(source, "Dataset")


def _without_nodes(request: _Request) -> _Request:
    if request.nodes is not None:
        raise InputError(
            "'nodes' goes with one edge table, but a list of graphs came. Put pairs (edges, nodes)"
            " into the list."
        )
    return request


def _read_one(source: Any, request: _Request, *, name: str, inside: bool = False) -> list[RawGraph]:
    """The graphs in anything but a list; `inside` says that it is an item of one."""
    if isinstance(source, str | Path):
        return _read_place(source, request)
    if is_table(source):
        return read_tables(source, request.nodes, options=request.options)
    if is_networkx(source):
        if request.nodes is not None:
            request.refuse("a NetworkX graph")
        return [read_networkx(source, options=request.options, name=name)]
    if isinstance(source, tuple):
        return _read_tuple(source, request, name=name)
    if is_pyg(source, "HeteroData"):
        raise InputError(
            f"{name} is a PyG HeteroData, with nodes or edges of several kinds. Turn it into one"
            " kind with to_homogeneous()."
        )
    if is_pyg(source, "Data"):
        request.refuse("a PyG Data")
        return read_data(source, name=name)
    if is_adjacency(source):
        request.refuse("an adjacency")
        return [read_adjacency(source, name=name)]
    if isinstance(source, GraphData):
        return take_apart(source, name=name)
    raise InputError(_unknown(source, name if inside else "The input"))


def _read_place(source: str | Path, request: _Request) -> list[RawGraph]:
    # Path("") is the folder of the process.
    if source != "" and exists(source):
        return read_path(source, nodes=request.nodes, options=request.options)
    if _is_dataset_name(source):
        request.refuse("a data set")
        return take_apart(load_dataset(str(source)).graph, name=str(source))
    if str(source) == "-":
        regular_file(Path(source))
    raise no_such_input(str(source))


def _read_tuple(source: tuple[Any, ...], request: _Request, *, name: str) -> list[RawGraph]:
    tables = [is_table(part) or isinstance(part, str | Path) for part in source]
    if len(source) == 2 and (all(tables) or (tables[0] and source[1] is None)):
        if request.nodes is not None:
            raise InputError(
                "The node table came twice: in the tuple (edges, nodes) and as 'nodes'. Give it"
                " once."
            )
        return read_tables(source[0], source[1], options=request.options)
    request.refuse("a tuple of arrays")
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
        hint = (
            " A dense array alone is not enough: pass (edge_index, x), or for an adjacency"
            " scipy.sparse.csr_matrix(array)."
        )
    elif isinstance(source, list):
        hint = " A list is several graphs: for one graph pass the tuple (edge_index, x)."
    elif hasattr(source, "__iter__") or hasattr(source, "__getitem__"):
        hint = " To give several graphs, pass list(...) of it."
    return (
        f"{name} is of type {type(source).__name__}, which is no graph that can be read.{hint}"
        f" Accepted are {ACCEPTED}."
    )
