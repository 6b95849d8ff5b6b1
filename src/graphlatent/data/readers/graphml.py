"""Graphs out of GraphML files: nodes, edges and attributes, read in one pass.

Not by `networkx.read_graphml`, which on a file of 44 MB (100,000 nodes, 500,000 edges) takes 9.1 s
and 880 MB where this reader takes 2.0 s and 250 MB. NetworkX also adds a node for every id that an
edge names by mistake, merges nodes of one id, leaves out the defaults of attributes, ignores graphs
inside nodes, and refuses directed and undirected edges in one graph; here these are errors that say
so, or are read.

Document types, and with them entities, are refused, since a few lines of them can expand to
gigabytes; GraphML needs neither. defusedxml would do that too, but its parser is written in Python
(2.2 s instead of 1.5 s for parsing that file).
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from graphlatent.data.graph import RawGraph
from graphlatent.data.memory_limit import readable, require_memory
from graphlatent.data.readers.options import TableOptions, stack_labels, unused_edge_columns
from graphlatent.data.readers.times import edges_until
from graphlatent.display import listed
from graphlatent.errors import InputError
from graphlatent.io.regular_files import refusing_damage, regular_file

Array: TypeAlias = np.ndarray[Any, Any]

_EDGE_DEFAULT = {"undirected": False, "directed": True}
_TRUTH = {"true": True, "1": True, "false": False, "0": False}
# Bytes read at a time: few before the root element, so that a document type is refused before its
# entities are read, many after it.
_BEFORE_ROOT, _CHUNK = 16, 2**16
# Memory for each byte of a file, measured on the file above.
_BYTES_PER_BYTE = 6


def read_graphml(path: Path, *, options: TableOptions | None = None) -> list[RawGraph]:
    """The graphs in a GraphML file: one in most, several where it has several <graph> elements.

    Node attributes become feature columns; of `options`, `features` and `label` choose among them
    and `weight` names the edge attribute with the weights ('weight' where there is one).
    `edgedefault` and an edge's own `directed` are respected.

    Raises:
        InputError: where the file is damaged, is no GraphML, has a document type, nested graphs or
            hyperedges.
    """
    options = options or TableOptions()
    reader = _Reader(path)
    parser = ET.XMLParser(target=reader)
    size = regular_file(path)
    require_memory(_BYTES_PER_BYTE * size, what=f"{path}, a file of {readable(size)},")
    with (
        refusing_damage(f"{path} cannot be read as GraphML", way_out="Write the file again."),
        path.open("rb") as file,
    ):
        while chunk := file.read(_CHUNK if reader.has_root else _BEFORE_ROOT):
            parser.feed(chunk)
        parser.close()
    if not reader.graphs:
        raise InputError(
            f"{path} holds no <graph> element, so no graph. Check that it is a GraphML file."
        )
    several = len(reader.graphs) > 1
    return [_to_raw(graph, reader.keys, path, options, several=several) for graph in reader.graphs]


@dataclass(frozen=True)
class _Key:
    """A declared attribute of GraphML.

    It has a name, a domain ('node', 'edge', 'graph' or 'all'), a type and a default value.
    """

    name: str
    domain: str
    type: str
    default: str | None = None


@dataclass(eq=False)
class _Graph:
    """One <graph> as it is being read; attribute values by key id, then by node or edge number."""

    id: str | None
    directed: bool
    node_ids: dict[str, int] = field(default_factory=dict)
    edges: list[tuple[str, str, bool]] = field(default_factory=list)
    node_values: dict[str, dict[int, str]] = field(default_factory=dict)
    edge_values: dict[str, dict[int, str]] = field(default_factory=dict)


class _Reader:
    """Receives the events of `xml.etree.ElementTree.XMLParser`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.has_root = False
        self.keys: dict[str, _Key] = {}
        self.graphs: list[_Graph] = []
        self._graph_ids: set[str | None] = set()
        # Tags from the root down to the current element.
        self._open: list[str] = []
        self._text: list[str] = []
        self._key_id = ""

    def doctype(self, name: str, pubid: str | None, system: str | None) -> None:
        raise InputError(
            f"{self.path} declares a document type (DOCTYPE {name}), which is refused for safety."
            " Take the declaration out."
        )

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        tag = tag.rpartition("}")[2]
        if not self.has_root and tag != "graphml":
            raise InputError(
                f"{self.path} is no GraphML file: its root element is <{tag}>, not <graphml>."
            )
        self.has_root = True
        if tag == "key":
            self._start_key(attributes)
        elif tag == "graph":
            self._start_graph(attributes)
        elif tag in ("node", "edge"):
            if not self._open or self._open[-1] != "graph":
                raise InputError(
                    f"{self.path} has a <{tag}> element outside <graph>. Move it into the graph it"
                    " belongs to."
                )
            if tag == "node":
                self._start_node(self._wanted(attributes, "id", "node"))
            else:
                self._start_edge(attributes)
        elif tag == "hyperedge":
            raise InputError(
                f"{self.path} has a hyperedge, which is not supported. Replace it by edges between"
                " two nodes each."
            )
        elif tag in ("data", "default"):
            self._text = []
            self._key_id = (
                self._wanted(attributes, "key", "data") if tag == "data" else self._key_id
            )
        self._open.append(tag)

    def data(self, text: str) -> None:
        if self._open and self._open[-1] in ("data", "default"):
            self._text.append(text)

    def end(self, tag: str) -> None:
        tag = self._open.pop()
        parent = self._open[-1] if self._open else ""
        if tag == "default" and parent == "key" and self._key_id in self.keys:
            key = self.keys[self._key_id]
            self.keys[self._key_id] = _Key(key.name, key.domain, key.type, "".join(self._text))
        elif tag == "data" and parent in ("node", "edge") and self.graphs:
            graph = self.graphs[-1]
            values, number = (
                (graph.node_values, len(graph.node_ids))
                if parent == "node"
                else (graph.edge_values, len(graph.edges))
            )
            of_key = values.setdefault(self._key_id, {})
            if number - 1 in of_key:
                raise InputError(
                    f"{self.path}: a {parent} has two values of key '{self._key_id}'. Drop one."
                )
            of_key[number - 1] = "".join(self._text)

    def close(self) -> None:
        """Nothing to hand back: the graphs are in `graphs`."""

    def _wanted(self, attributes: Mapping[str, str], name: str, tag: str) -> str:
        if name not in attributes:
            raise InputError(f"{self.path} has a <{tag}> element without the attribute '{name}'.")
        return attributes[name]

    def _one_of(
        self, attributes: Mapping[str, str], name: str, meaning: Mapping[str, bool]
    ) -> bool:
        """What an attribute with few values means; the first of them where it is not there."""
        value = attributes.get(name, next(iter(meaning)))
        if value not in meaning:
            allowed = ", ".join(map(repr, meaning))
            raise InputError(
                f"{self.path}: the attribute '{name}' must be one of {allowed}. Got {value!r}."
            )
        return meaning[value]

    def _start_key(self, attributes: Mapping[str, str]) -> None:
        self._key_id = self._wanted(attributes, "id", "key")
        if self._key_id in self.keys:
            raise InputError(
                f"{self.path} has two <key> elements with the id '{self._key_id}'. Give every key"
                " an id of its own."
            )
        name = attributes.get("attr.name", self._key_id if "attr.type" in attributes else None)
        # Keys without name and type hold drawings (yEd's), no attributes.
        if name is not None:
            self.keys[self._key_id] = _Key(
                name, attributes.get("for", "all"), attributes.get("attr.type", "string")
            )

    def _start_graph(self, attributes: Mapping[str, str]) -> None:
        if "graph" in self._open:
            raise InputError(
                f"{self.path} has a graph inside a node, which is not supported. Write each graph"
                " by itself."
            )
        if "id" in attributes and attributes["id"] in self._graph_ids:
            raise InputError(
                f"{self.path} has two graphs with the id {attributes['id']!r}. Give every graph an"
                " id of its own."
            )
        self._graph_ids.add(attributes.get("id"))
        self.graphs.append(
            _Graph(attributes.get("id"), self._one_of(attributes, "edgedefault", _EDGE_DEFAULT))
        )

    def _start_node(self, node_id: str) -> None:
        nodes = self.graphs[-1].node_ids
        if node_id in nodes:
            raise InputError(
                f"{self.path}: every node must be there once. There is a second node {node_id!r}."
            )
        nodes[node_id] = len(nodes)

    def _start_edge(self, attributes: Mapping[str, str]) -> None:
        graph = self.graphs[-1]
        is_directed = (
            self._one_of(attributes, "directed", _TRUTH)
            if "directed" in attributes
            else graph.directed
        )
        graph.edges.append(
            (
                self._wanted(attributes, "source", "edge"),
                self._wanted(attributes, "target", "edge"),
                is_directed,
            )
        )


def _to_raw(
    graph: _Graph, keys: Mapping[str, _Key], path: Path, options: TableOptions, *, several: bool
) -> RawGraph:
    name = path.name if not several else f"{path.name}, graph {graph.id!r}"
    for source, target, _ in graph.edges:
        for end in (source, target):
            if end not in graph.node_ids:
                raise InputError(
                    f"{path}: an edge names node {end!r}, which is not in the file. Add the node,"
                    " or drop the edge."
                )
    edges = (
        np.array(
            [(graph.node_ids[s], graph.node_ids[t]) for s, t, _ in graph.edges], dtype=np.int64
        )
        .reshape(-1, 2)
        .T
    )
    one_way = np.array([d for _, _, d in graph.edges], dtype=bool)
    edge_columns = _columns(graph.edge_values, keys, len(graph.edges), "edge", path)
    notes: dict[str, str] = {}
    if options.until is not None and graph.edges:
        found = edges_until(
            _chosen(edge_columns, str(options.time), path, "time"),
            options.until,
            name=path.name,
            column=f"edge attribute '{options.time}'",
            place=lambda row: f"edge {row} (from 0)",
        )
        edges, one_way, notes = edges[:, found.kept], one_way[found.kept], found.notes
        edge_columns = {column: values[found.kept] for column, values in edge_columns.items()}
    weight = _weight(edge_columns, path, options) if graph.edges else None
    attributes = {
        name: _chosen(edge_columns, name, path, "edge_features")
        for name in (options.edge_features or () if graph.edges else ())
    }
    # Undirected edges among directed ones are edges in both directions.
    if one_way.any() and not one_way.all():
        if options.merge in ("sum", "count"):
            raise InputError(
                f"{name} has both directed and undirected edges, to which merge='{options.merge}'"
                " does not apply: an undirected edge would count in both directions. Use"
                " merge='max' or 'mean', or give all edges one kind."
            )
        edges = np.concatenate([edges, edges[::-1, ~one_way]], axis=1)
        weight = None if weight is None else np.concatenate([weight, weight[~one_way]])
        attributes = {k: np.concatenate([v, v[~one_way]]) for k, v in attributes.items()}
    columns = _columns(graph.node_values, keys, len(graph.node_ids), "node", path)
    used = (options.weight or "weight", options.time, *attributes)
    others = [each for each in edge_columns if each not in used]
    weighted = options.weight is not None
    notes = notes | unused_edge_columns(others, where=name, kind="attributes", weighted=weighted)
    return RawGraph(
        edge_index=edges,
        num_nodes=len(graph.node_ids),
        columns={
            name: _chosen(columns, name, path, "features")
            for name in options.feature_names(columns)
        }
        or None,
        edge_weight=weight,
        edge_columns=attributes or None,
        node_ids=np.array(list(graph.node_ids), dtype=object),
        graph_id=graph.id if several else None,
        y=stack_labels([_chosen(columns, name, path, "label") for name in options.labels]),
        name=name,
        directed=bool(one_way.any()) if len(one_way) else graph.directed,
        notes=notes,
    )


def _chosen(columns: Mapping[str, Array], name: str, path: Path, option: str) -> Array:
    if name not in columns:
        raise InputError(
            f"{path}: there is no attribute '{name}' (option '{option}'). Attributes found:"
            f" {listed(columns)}."
        )
    return columns[name]


def _weight(columns: Mapping[str, Array], path: Path, options: TableOptions) -> Array | None:
    name = options.weight or "weight"
    if options.weight is None and name not in columns:
        return None
    weight = _chosen(columns, name, path, "weight")
    if weight.dtype.kind not in "iuf":
        raise InputError(
            f"{path}: the edge attribute '{name}' must hold numbers to be a weight. Its declared"
            " type is text or boolean."
        )
    return weight


def _columns(
    values: Mapping[str, Mapping[int, str]],
    keys: Mapping[str, _Key],
    count: int,
    domain: str,
    path: Path,
) -> dict[str, Array]:
    """The attributes of all nodes, or of all edges, that some have; in the order of their keys."""
    undeclared = sorted(set(values) - set(keys))
    named = [
        values[key][number]
        for key in undeclared
        for number in values[key]
        if values[key][number].strip()
    ]
    if named:
        raise InputError(
            f"{path}: a {domain} has data of key '{undeclared[0]}', which no <key> element"
            " declares."
        )
    columns: dict[str, Array] = {}
    for key_id, key in keys.items():
        if key.domain not in (domain, "all") or (
            key_id not in values and (key.default is None or key.domain == "all")
        ):
            continue
        if key.name in columns:
            raise InputError(
                f"{path}: two keys name the {domain} attribute '{key.name}'. Give them different"
                " names."
            )
        given = values.get(key_id, {})
        columns[key.name] = _typed(
            [given.get(number, key.default) for number in range(count)], key, path
        )
    return columns


def _typed(texts: Sequence[str | None], key: _Key, path: Path) -> Array:
    """The values as numbers, truth values or text; NaN or None where one is missing."""
    try:
        if key.type in ("int", "long", "integer"):
            complete = all(t is not None for t in texts)
            return np.array(
                [np.nan if t is None else int(t) for t in texts],
                dtype=np.int64 if complete else np.float64,
            )
        if key.type in ("float", "double"):
            return np.array([np.nan if t is None else float(t) for t in texts], dtype=np.float64)
        if key.type == "boolean":
            values = [None if t is None else _TRUTH[t.strip().lower()] for t in texts]
            return np.array(values, dtype=object if None in values else bool)
    except (ValueError, KeyError, OverflowError) as error:
        raise InputError(
            f"{path}: attribute '{key.name}' is declared as {key.type}, but holds other values:"
            f" {error}."
        ) from error
    return np.array(texts, dtype=object)
