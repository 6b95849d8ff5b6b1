from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from graphlatent.data.assemble import assemble
from graphlatent.data.readers.tu import find_tu, read_tu
from graphlatent.errors import InputError

FILES = {
    "A": "1, 2\n2, 1\n4, 5\n5, 4\n5, 5\n",
    "graph_indicator": "1\n1\n1\n2\n2\n",
    "graph_labels": "-1\n1\n",
    "node_labels": "3\n5\n3\n4\n5\n",
    "node_attributes": "0.5, 1\n1.5, 2\n2.5, 3\n3.5, 4\n4.5, 5\n",
}


def make(folder, name="TOY", **changes):
    """The files of a data set of two graphs: a path of 2 with an isolated node, a pair with a
    self-loop.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for kind, text in {**FILES, **changes}.items():
        if text is not None:
            (folder / f"{name}_{kind}.txt").write_text(text)
    return folder


def test_by_hand(tmp_path):
    first, second = read_tu(make(tmp_path / "TOY"))
    assert (first.num_nodes, second.num_nodes) == (3, 2)
    assert first.edge_index.tolist() == [[0, 1], [1, 0]]
    assert second.edge_index.tolist() == [[0, 1], [1, 0]]  # the self-loop is gone
    assert first.x.tolist() == [[1, 0, 0], [0, 0, 1], [1, 0, 0]]
    assert second.x.tolist() == [[0, 1, 0], [0, 0, 1]]
    assert (first.y.tolist(), second.y.tolist()) == ([-1], [1])
    graph = assemble([first, second])
    assert graph.ptr.tolist() == [0, 3, 5]
    assert graph.y.tolist() == [-1, 1]


def test_attributes_where_asked_or_alone(tmp_path):
    first, _ = read_tu(make(tmp_path / "both"), use_attributes=True)
    assert first.x.tolist() == [[0.5, 1, 1, 0, 0], [1.5, 2, 0, 0, 1], [2.5, 3, 1, 0, 0]]
    first, _ = read_tu(make(tmp_path / "alone", node_labels=None))
    assert first.x.tolist() == [[0.5, 1], [1.5, 2], [2.5, 3]]


def test_no_features_no_labels(tmp_path):
    first, second = read_tu(
        make(tmp_path / "TOY", node_labels=None, node_attributes=None, graph_labels=None)
    )
    assert (first.x, first.y, second.x) == (None, None, None)
    assert second.num_nodes == 2


def test_several_label_columns(tmp_path):
    first, _ = read_tu(make(tmp_path / "TOY", node_labels="0, 7\n1, 7\n0, 8\n0, 7\n0, 7\n"))
    assert first.x.tolist() == [[1, 0, 1, 0], [0, 1, 1, 0], [1, 0, 0, 1]]


def test_labels_far_apart_are_not_spread_over_their_range(tmp_path):
    first, _ = read_tu(make(tmp_path / "TOY", node_labels="0\n1000000\n5\n0\n0\n"))
    assert first.x.tolist() == [[1, 0, 0], [0, 0, 1], [0, 1, 0]]


def test_wide_labels_are_sparse(tmp_path):
    first, second = read_tu(make(tmp_path / "TOY", node_labels="0\n256\n5\n0\n1\n"))
    assert sp.issparse(first.x)
    assert first.x.shape == (3, 257)
    assert np.flatnonzero(second.x.toarray()).tolist() == [0, 258]


def test_nodes_of_a_graph_need_not_stand_together(tmp_path):
    changes = {
        "graph_indicator": "2\n1\n2\n1\n1\n",
        "A": "1, 3\n2, 5\n",
        "node_labels": "0\n1\n2\n3\n4\n",
    }
    first, second = read_tu(make(tmp_path / "TOY", **changes))
    assert first.edge_index.tolist() == [[0], [2]]
    assert first.x.argmax(1).tolist() == [1, 3, 4]
    assert second.edge_index.tolist() == [[0], [1]]
    assert second.x.argmax(1).tolist() == [0, 2]


@pytest.mark.parametrize("blank", ["", "\n\n"])
def test_no_edges(tmp_path, blank):
    first, _ = read_tu(make(tmp_path / "TOY", A=blank))
    assert first.edge_index.shape == (2, 0)


def test_places_where_the_files_may_be(tmp_path):
    assert find_tu(make(tmp_path / "a", "X")) == (tmp_path / "a", "X")
    make(tmp_path / "NAME" / "raw", "NAME")
    assert find_tu(tmp_path / "NAME") == (tmp_path / "NAME" / "raw", "NAME")
    assert find_tu(tmp_path / "NAME" / "raw") == (tmp_path / "NAME" / "raw", "NAME")
    make(make(tmp_path / "two" / "two", "two"), "other")
    assert find_tu(tmp_path / "two" / "two")[1] == "two"
    assert find_tu(tmp_path) is None
    assert find_tu(tmp_path / "none") is None
    with pytest.raises(InputError, match="holds no data set in the TU layout"):
        read_tu(tmp_path)
    make(make(tmp_path / "mixed", "x"), "y")
    with pytest.raises(
        InputError, match=r"mixed holds several data sets: x, y. Put each in a folder of its own"
    ):
        find_tu(tmp_path / "mixed")


def test_a_graph_without_nodes_is_named(tmp_path):
    graphs = read_tu(
        make(tmp_path / "TOY", graph_indicator="1\n1\n1\n3\n3\n", graph_labels="1\n2\n3\n")
    )
    with pytest.raises(InputError, match=r"TOY, graph 1 \(from 0\) has no nodes"):
        assemble(graphs)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"graph_indicator": None},
            "There is no file .*TOY_graph_indicator.txt. A TU data set needs NAME_A.txt and",
        ),
        ({"graph_indicator": ""}, "TOY_graph_indicator.txt cannot be read as lines of numbers"),
        (
            {"graph_indicator": "0\n1\n1\n2\n2\n"},
            "TOY_graph_indicator.txt must have one graph number, from 1, in each line",
        ),
        (
            {"graph_indicator": "1\n1\n1\n"},
            (
                r"TOY_A.txt names node 5, but the graph indicator has the nodes 1 to 3. Is a file"
                r" cut short\?"
            ),
        ),
        ({"A": "0, 1\n"}, "TOY_A.txt names node 0"),
        ({"A": "1, 4\n"}, "TOY_A.txt, line 1: nodes 1 and 4 are in different graphs"),
        ({"A": "1, 2\n1\n"}, "TOY_A.txt cannot be read as lines of numbers. The reader says: "),
        (
            {"A": "1, 2\n1,\n"},
            "TOY_A.txt must hold numbers only. Value 2 of some line is empty or no number",
        ),
        ({"A": "1, x\n"}, "TOY_A.txt must hold numbers only"),
        (
            {"A": "1\n2\n"},
            (
                "TOY_A.txt must have two node numbers in each line, such as '1, 2'. Got 1 of type"
                " int64"
            ),
        ),
        ({"A": "1.5, 2\n"}, "TOY_A.txt must have two node numbers in each line"),
        (
            {"node_labels": "1\n2\n"},
            "TOY_node_labels.txt must have one line for each of the 5 nodes. Got 2 lines",
        ),
        ({"node_labels": "1.5\n2\n3\n4\n5\n"}, "TOY_node_labels.txt must hold integers"),
        (
            {"node_labels": None, "node_attributes": "1\n"},
            "TOY_node_attributes.txt must have one line for each of the 5 nodes",
        ),
        (
            {"graph_labels": "1\n"},
            "TOY_graph_labels.txt must have one line for each of the 2 graphs. Got 1 lines",
        ),
    ],
)
def test_damaged_files(tmp_path, changes, message):
    with pytest.raises(InputError, match=message):
        read_tu(make(tmp_path / "TOY", **changes))
