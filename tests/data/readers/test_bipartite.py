"""Edges between two kinds of nodes whose ids collide."""

from __future__ import annotations

import warnings

import networkx as nx
import numpy as np
import pandas as pd
import pytest

from graphlatent import NodeLaGraph, read_graphs
from graphlatent.data.readers.bipartite import sides_of
from graphlatent.data.readers.options import TableOptions
from graphlatent.errors import GraphLatentWarning, InputError

OPTIONS = TableOptions(source="user", target="item")
EDGES = pd.DataFrame({"user": [1, 1, 2, 3], "item": [1, 2, 3, 1]})
IDS = ["item:1", "item:2", "item:3", "user:1", "user:2", "user:3"]
PAIRS = {("user:1", "item:1"), ("user:1", "item:2"), ("user:2", "item:3"), ("user:3", "item:1")}


def read(edges, nodes=None, options=OPTIONS, **more):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Edges are read as undirected")
        return read_graphs(edges, nodes=nodes, options=options, bipartite=True, **more)


def named_pairs(graph):
    return {tuple(graph.node_ids[edge]) for edge in graph.edge_index.T.tolist()}


def test_equal_ids_of_two_columns_are_different_nodes(tmp_path):
    EDGES.to_csv(tmp_path / "e.csv", index=False)
    EDGES.to_parquet(tmp_path / "e.parquet")
    for form in (EDGES, tmp_path / "e.csv", tmp_path / "e.parquet", EDGES.astype(float)):
        graph = read(form, symmetrize=False)
        assert graph.node_ids.tolist() == IDS
        assert named_pairs(graph) == PAIRS
    text = EDGES.astype(str).map(lambda each: f"0{each}")
    assert read(text).node_ids.tolist()[0] == "item:01"
    assert (
        read(EDGES.set_axis(["source", "target"], axis=1), options=None).node_ids[3] == "target:1"
    )


def test_node_tables_name_the_kind_of_a_node():
    prefixed = pd.DataFrame({"id": IDS[::-1], "age": range(6)})
    graph = read(EDGES, prefixed, symmetrize=False)
    assert graph.node_ids.tolist() == IDS[::-1] and named_pairs(graph) == PAIRS
    sides = pd.DataFrame(
        {"id": [1, 2, 3] * 2, "side": ["item"] * 3 + ["user"] * 3, "age": range(6)}
    )
    graph = read(EDGES, sides, symmetrize=False)
    assert graph.node_ids.tolist() == IDS and named_pairs(graph) == PAIRS
    assert list(graph.columns) == ["age"]
    with pytest.raises(InputError, match="has 'item:3' in column 'item', but nodes has no node of"):
        read(EDGES, sides.drop(index=2))
    with pytest.raises(InputError, match=r"'user' or 'item'. Got 'seller' in row 1"):
        read(EDGES, sides.assign(side=["item", "seller", *["user"] * 4]))
    with pytest.raises(
        InputError, match=r"'user:1' or 'item:1'. Got 1 in row 0 .* or add a column 'side' that"
    ):
        read(EDGES, sides.drop(columns="side"))


def test_several_graphs():
    graph = read(pd.concat([EDGES.assign(graph="a"), EDGES.iloc[:1].assign(graph="b")]))
    assert graph.num_graphs == 2 and graph.node_ids.tolist() == [*IDS, "item:1", "user:1"]


@pytest.mark.filterwarnings("ignore:Edges are read as undirected", "ignore:The training set")
def test_embeddings_have_these_ids_and_tell_the_kinds_apart():
    embeddings = (
        NodeLaGraph(epochs=2, hidden_dim=4, device="cpu").fit(read(EDGES)).embed(read(EDGES))
    )
    table = embeddings.to_pandas()
    assert table.index.tolist() == IDS
    assert not np.allclose(table.loc["user:1"], table.loc["item:1"])


def test_other_formats_have_no_two_columns(tmp_path):
    nx.write_graphml_xml(nx.path_graph(3), tmp_path / "g.graphml")
    edges = (np.array([[0, 1], [1, 0]]), None)
    for source in (nx.path_graph(3), edges, tmp_path / "g.graphml", read_graphs(edges)):
        with pytest.raises(InputError, match=r"'bipartite' tells the ids in the two columns"):
            read_graphs(source, bipartite=True)
    with pytest.raises(InputError, match=r"'bipartite' must be a bool. Got 'yes'"):
        TableOptions(bipartite="yes")


# Suspicion


def suspected(source, target):
    edges = pd.DataFrame({"source": source, "target": target})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        read_graphs(edges)
    found = [str(each.message) for each in caught if "bipartite=True" in str(each.message)]
    return len(found) > 0


def ratings(num_users, num_items, num_edges, *, seed=0):
    """Users and items, some more active or popular than others."""
    rng = np.random.default_rng(seed)
    active, popular = rng.pareto(1.5, num_users) + 0.1, rng.pareto(1.5, num_items) + 0.1
    users = rng.choice(num_users, num_edges, p=active / active.sum())
    return users, rng.choice(num_items, num_edges, p=popular / popular.sum())


@pytest.mark.parametrize(
    "size", [(900, 1700, 50_000), (5000, 5000, 20_000), (20_000, 3000, 90_000)]
)
def test_users_and_items_of_one_range_of_ids_are_suspected(size):
    for seed in range(3):
        users, items = ratings(*size, seed=seed)
        assert suspected(users, items) and suspected(items + 1, users + 1)
        assert not suspected(users, items + 30_000)
        assert not suspected([f"u{each}" for each in users], [f"u{each}" for each in items])


def test_edges_of_one_kind_of_nodes_are_not_suspected():
    rng = np.random.default_rng(0)
    graph = nx.gnm_random_graph(300, 1500, seed=1)
    once = rng.permutation(300)[np.array(graph.edges).T]
    social = np.concatenate([once, once[::-1, ::3]], axis=1)
    tiny = np.array([(0, 1), (1, 2), (2, 0)]).T
    for edges in (once, np.concatenate([once, once[::-1]], 1), np.sort(once, 0), social):
        assert not suspected(*edges) and not suspected(*edges[::-1])
    for edges in (tiny, np.concatenate([tiny, tiny[::-1]], 1), np.sort(tiny, 0)):
        assert not suspected(*edges)
    # By id, in whatever order the node table names them.
    nodes = pd.DataFrame({"id": rng.permutation(4)})
    path = pd.DataFrame({"source": [0, 1, 2], "target": [1, 2, 3]})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        read_graphs(path, nodes=nodes)
    assert "bipartite" not in str(caught[0].message) and len(caught) == 1


def test_the_warning_says_what_to_do():
    with pytest.warns(GraphLatentWarning) as caught:
        read_graphs(EDGES, options=OPTIONS)
    assert str(caught[0].message) == (
        "edges: columns 'user' and 'item' share 3 ids, but edges go both ways no more often than by"
        " chance. If they name different things, such as users and items, read them with"
        " bipartite=True (on the command line --bipartite): now equal ids are one node."
    )


def test_the_kind_of_a_node_is_read_from_its_id():
    for names in (("user", "item"), ("a", "a:b"), ("a:b", "a")):
        ids = np.array([f"{name}:{i}" for name in names for i in ("7", "x:y")], dtype=object)
        assert sides_of(ids, TableOptions(*names)).tolist() == [0, 0, 1, 1]
