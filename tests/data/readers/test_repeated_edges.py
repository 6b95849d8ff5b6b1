"""One graph with repeated edges gives the same edges and weights from every format."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.data import Data

from graphlatent.data.readers.read import read_graphs
from graphlatent.errors import GraphLatentWarning, InputError
from graphlatent.ops.sparse import SparseMatrix

SOURCE = np.array([0, 0, 1, 1, 2, 2, 2, 1])
TARGET = np.array([1, 1, 0, 2, 1, 2, 2, 2])
WEIGHT = np.array([2.0, 5.0, 3.0, 4.0, 7.0, 1.0, 6.0, 0.5])
# Of the weights in a direction the largest; then the larger of both directions.
BY_EDGE = {(0, 1): 5.0, (1, 0): 3.0, (1, 2): 4.0, (2, 1): 7.0, (2, 2): 6.0}
BOTH_WAYS = {(0, 1): 5.0, (1, 0): 5.0, (1, 2): 7.0, (2, 1): 7.0, (2, 2): 6.0}
# A matrix has one value for each pair of nodes: the sum of what is stored for it.
SUMMED = {(0, 1): 7.0, (1, 0): 3.0, (1, 2): 4.5, (2, 1): 7.0, (2, 2): 7.0}
SUMMED_BOTH_WAYS = {(0, 1): 7.0, (1, 0): 7.0, (1, 2): 7.0, (2, 1): 7.0, (2, 2): 7.0}

TABLE = {"source": SOURCE, "target": TARGET, "weight": WEIGHT}


def found(graph):
    weights = [1.0] * graph.num_edges if graph.edge_weight is None else graph.edge_weight.tolist()
    return dict(zip(map(tuple, graph.edge_index.T.tolist()), weights, strict=True))


def edge_lists(folder, *, weighted=True):
    """The graph as a list of edges in every form that has a direction."""
    table = TABLE if weighted else {"source": SOURCE, "target": TARGET}
    frame, edges = pd.DataFrame(table), np.stack([SOURCE, TARGET])
    frame.to_csv(folder / "e.csv", index=False)
    frame.to_csv(folder / "e.tsv.gz", index=False, sep="\t")
    frame.to_parquet(folder / "e.parquet")
    nodes = pd.DataFrame({"id": [0, 1, 2]})
    graph = nx.MultiDiGraph()
    graph.add_nodes_from([0, 1, 2])
    for u, v, w in zip(SOURCE, TARGET, WEIGHT, strict=True):
        graph.add_edge(int(u), int(v), **({"weight": w} if weighted else {}))
    data = Data(edge_index=torch.from_numpy(edges), num_nodes=3)
    if weighted:
        data.edge_weight = torch.from_numpy(WEIGHT)
    (folder / "e.graphml").write_text(graphml("directed", weighted=weighted))
    return {
        "csv": folder / "e.csv",
        "tsv.gz": folder / "e.tsv.gz",
        "parquet": folder / "e.parquet",
        "pandas": frame,
        "arrow": pa.Table.from_pandas(frame),
        "edges and nodes": (frame, nodes),
        "arrays": (edges, None, WEIGHT) if weighted else (edges, None),
        "tensors": (torch.from_numpy(edges), None, torch.from_numpy(WEIGHT) if weighted else None),
        "networkx": graph,
        "pyg": data,
        "graphml": folder / "e.graphml",
    }


def graphml(edgedefault, *, weighted=True):
    edges = "".join(
        f"<edge source='{u}' target='{v}'>"
        + (f"<data key='w'>{w}</data>" if weighted else "")
        + "</edge>"
        for u, v, w in zip(SOURCE, TARGET, WEIGHT, strict=True)
    )
    return (
        "<graphml><key id='w' for='edge' attr.name='weight' attr.type='double'/>"
        f"<graph edgedefault='{edgedefault}'><node id='0'/><node id='1'/><node id='2'/>"
        f"{edges}</graph></graphml>"
    )


@pytest.mark.filterwarnings("ignore:Edges are read as undirected", "ignore:.* repeated edges were")
def test_lists_of_edges_keep_the_largest_weight(tmp_path):
    for name, form in edge_lists(tmp_path).items():
        assert found(read_graphs(form, symmetrize=False)) == BY_EDGE, name
        assert found(read_graphs(form)) == BOTH_WAYS, name


@pytest.mark.filterwarnings("ignore:Edges are read as undirected")
def test_without_weights_an_edge_counts_once(tmp_path):
    for name, form in edge_lists(tmp_path, weighted=False).items():
        graph = read_graphs(form, symmetrize=False)
        assert graph.edge_weight is None and set(found(graph)) == set(BY_EDGE), name
    tu = tmp_path / "TU"
    tu.mkdir()
    (tu / "TU_graph_indicator.txt").write_text("1\n1\n1\n")
    pairs = zip(SOURCE + 1, TARGET + 1, strict=True)
    (tu / "TU_A.txt").write_text("".join(f"{u}, {v}\n" for u, v in pairs))
    graph = read_graphs(tu)
    # This format drops self-loops.
    assert graph.edge_weight is None and set(found(graph)) == set(BY_EDGE) - {(2, 2)}


# Of the rows in a direction; then of the rows in both directions, which are one edge.
RULES = {
    "max": (BY_EDGE, BOTH_WAYS),
    "sum": (
        {(0, 1): 7.0, (1, 0): 3.0, (1, 2): 4.5, (2, 1): 7.0, (2, 2): 7.0},
        {(0, 1): 10.0, (1, 0): 10.0, (1, 2): 11.5, (2, 1): 11.5, (2, 2): 7.0},
    ),
    "mean": (
        {(0, 1): 3.5, (1, 0): 3.0, (1, 2): 2.25, (2, 1): 7.0, (2, 2): 3.5},
        {(0, 1): 10 / 3, (1, 0): 10 / 3, (1, 2): 11.5 / 3, (2, 1): 11.5 / 3, (2, 2): 3.5},
    ),
    "count": (
        {(0, 1): 2.0, (1, 0): 1.0, (1, 2): 2.0, (2, 1): 1.0, (2, 2): 2.0},
        {(0, 1): 3.0, (1, 0): 3.0, (1, 2): 3.0, (2, 1): 3.0, (2, 2): 2.0},
    ),
}


@pytest.mark.filterwarnings("ignore:Edges are read as undirected", "ignore:Edge weights are not")
def test_every_format_follows_the_rule_that_is_asked_for(tmp_path):
    (tmp_path / "u.graphml").write_text(graphml("undirected"))
    for rule, (by_edge, both_ways) in RULES.items():
        for name, form in edge_lists(tmp_path).items():
            kept = read_graphs(form, merge=rule, symmetrize=False)
            assert found(kept) == pytest.approx(by_edge), (name, rule)
            both = found(read_graphs(form, merge=rule))
            assert both == pytest.approx(both_ways), (name, rule)
        for symmetrize in (False, True):
            graph = read_graphs(tmp_path / "u.graphml", merge=rule, symmetrize=symmetrize)
            assert found(graph) == pytest.approx(both_ways), rule


def test_what_the_notes_say_about_repeated_edges():
    edges = pd.DataFrame(TABLE)
    with pytest.warns(GraphLatentWarning) as caught:
        read_graphs(edges)
    assert [str(each.message) for each in caught] == [
        "Edges are read as undirected; where both directions are listed, the largest weight is"
        " kept. Keep directions: symmetrize=False (on the command line --set symmetrize=false).",
        "3 repeated edges were merged: the largest weight is kept. To choose: merge='sum' (on the"
        " command line --merge sum), or mean, count, max.",
    ]
    with pytest.warns(GraphLatentWarning, match="both directions are listed, weights are added up"):
        graph = read_graphs(edges, merge="sum")
    assert "3 repeated edges were merged: weights are added up." in graph.notes
    with pytest.warns(GraphLatentWarning, match="Edge weights are not used: with merge='count'"):
        read_graphs(edges, merge="count", symmetrize=False)
    listed_twice = pd.DataFrame({"source": [0, 1], "target": [1, 0], "weight": [3, 3]})
    said = r"Every edge is listed in both directions .*\(1 undirected\): merge='sum' does not add"
    with pytest.warns(GraphLatentWarning, match=said):
        assert read_graphs(listed_twice, merge="sum").edge_weight.tolist() == [3, 3]


def test_rules_that_cannot_be_followed(tmp_path):
    edges = pd.DataFrame(TABLE)
    for rule in ("median", 3, ["sum"]):
        with pytest.raises(InputError, match=r"'merge' must be one of 'max', 'sum', 'mean', 'cou"):
            read_graphs(edges, merge=rule)
    with pytest.raises(InputError, match=r"weights in 'amount' are not used. Leave out one"):
        read_graphs(edges.rename(columns={"weight": "amount"}), merge="count", weight="amount")
    mixed = graphml("undirected").replace("<edge ", "<edge directed='true' ", 1)
    (tmp_path / "mixed.graphml").write_text(mixed)
    with pytest.raises(InputError, match=r"both directed and undirected edges, .* merge='sum'"):
        read_graphs(tmp_path / "mixed.graphml", merge="sum")


@pytest.mark.filterwarnings("ignore:.* repeated edges were")
def test_in_undirected_formats_the_order_of_the_ends_means_nothing(tmp_path):
    graph = nx.MultiGraph()
    graph.add_nodes_from([0, 1, 2])
    for u, v, w in zip(SOURCE, TARGET, WEIGHT, strict=True):
        graph.add_edge(int(u), int(v), weight=w)
    (tmp_path / "u.graphml").write_text(graphml("undirected"))
    for form in (graph, tmp_path / "u.graphml"):
        for symmetrize in (False, True):
            assert found(read_graphs(form, symmetrize=symmetrize)) == BOTH_WAYS


def matrices():
    """The same sparse matrix in every format that may store an entry in parts."""
    entries = (WEIGHT, (SOURCE, TARGET))
    coo = sp.coo_matrix(entries, shape=(3, 3))
    parts = torch.from_numpy(np.stack([SOURCE, TARGET]))
    by_row, by_column = np.argsort(SOURCE, kind="stable"), np.argsort(TARGET, kind="stable")
    starts = [np.searchsorted(np.sort(each), np.arange(4)) for each in (SOURCE, TARGET)]
    csr = sp.csr_matrix((WEIGHT[by_row], TARGET[by_row], starts[0]), shape=(3, 3))
    csc = sp.csc_matrix((WEIGHT[by_column], SOURCE[by_column], starts[1]), shape=(3, 3))
    assert csr.nnz == csc.nnz == len(WEIGHT)
    tensor, transposed = (
        torch.sparse_coo_tensor(each, torch.from_numpy(WEIGHT), (3, 3), check_invariants=True)
        for each in (parts, parts.flip(0))
    )
    return {
        "coo": coo,
        "coo_array": sp.coo_array(entries, shape=(3, 3)),
        "csr": coo.tocsr(),
        "csr in parts": csr,
        "csc": coo.tocsc(),
        "csc in parts": csc,
        "lil": coo.tolil(),
        "dok": coo.todok(),
        "bsr": coo.tobsr(),
        "torch": tensor,
        "torch csr": tensor.coalesce().to_sparse_csr(),
        "SparseMatrix": SparseMatrix.from_scipy(coo),
        "pyg": Data(adj_t=transposed, num_nodes=3),
    }


@pytest.mark.filterwarnings("ignore:Edges are read", "ignore:Sparse CSR tensor support")
def test_every_format_of_a_matrix_gives_one_graph():
    for name, matrix in matrices().items():
        assert found(read_graphs(matrix, symmetrize=False)) == SUMMED, name
        assert found(read_graphs(matrix)) == SUMMED_BOTH_WAYS, name


def test_parts_of_an_entry_may_cancel_and_matrices_are_not_changed():
    coo = sp.coo_matrix(([2.0, -2.0, 1.0, 1.0], ([0, 0, 1, 1], [1, 1, 0, 0])), shape=(2, 2))
    assert found(read_graphs(coo, symmetrize=False)) == {(1, 0): 2.0}
    csr = sp.csr_matrix((np.ones(2), [1, 1], [0, 2, 2]), shape=(2, 2))
    assert found(read_graphs(csr, symmetrize=False)) == {(0, 1): 2.0}
    assert (coo.nnz, csr.nnz, csr.data.tolist()) == (4, 2, [1.0, 1.0])


def test_entries_in_parts_of_a_file_are_summed(tmp_path):
    order = np.argsort(SOURCE, kind="stable")
    np.savez(
        tmp_path / "g.npz",
        adj_data=WEIGHT[order],
        adj_indices=TARGET[order],
        adj_indptr=np.searchsorted(SOURCE[order], np.arange(4)),
        adj_shape=np.array([3, 3]),
    )
    assert found(read_graphs(tmp_path / "g.npz", symmetrize=False)) == SUMMED
