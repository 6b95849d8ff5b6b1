"""How objects are shown: one line as text, a small table in a notebook, readable help."""

from __future__ import annotations

import dataclasses
import inspect
import pydoc

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from sklearn.base import clone
from torch import nn

from graphlatent import (
    Embeddings,
    GraphLaGraph,
    NodeBGRL,
    NodeDGI,
    NodeLaGraph,
    RunFolder,
    read_graphs,
)
from graphlatent.config import describe
from graphlatent.display import counted, html_table, listed
from graphlatent.errors import InputError
from graphlatent.io.history import History

PATH = np.array([[0, 1, 1, 2], [1, 0, 2, 1]])
ESTIMATORS = (NodeLaGraph, GraphLaGraph, NodeDGI, NodeBGRL)


def test_counted():
    assert [counted(n, "edge") for n in (0, 1, 1200)] == ["0 edges", "1 edge", "1,200 edges"]
    assert counted(2, "class", "classes") == "2 classes"


def test_long_lists_of_names_are_shortened():
    assert listed("ab") == "'a', 'b'" and listed([]) == "none"
    assert listed("abcdefgh") == "'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'"
    assert listed(map(str, range(1200))).endswith("'6', '7' and 1,192 more")
    nodes = pd.DataFrame({"id": [1, 2], **{f"f{i}": [0.5, 1.0] for i in range(100)}})
    edges = pd.DataFrame({"source": [1, 2], "target": [2, 1]})
    with pytest.raises(InputError, match=r"'f6' and 93 more. Did you mean 'f10'\?"):
        read_graphs((edges, nodes), label="f10x")


def test_graphs():
    assert repr(read_graphs((PATH, np.eye(3)))) == (
        "GraphData(3 nodes, 2 undirected edges, 3 features)"
    )
    with_loop = np.array([[0, 1, 1], [1, 0, 1]])
    sparse = sp.csr_matrix(np.ones((2, 1)))
    found = read_graphs([(with_loop, sparse), (with_loop, sparse)], symmetrize=False)
    loops = int((found.edge_index[0] == found.edge_index[1]).sum())
    assert repr(found) == (
        f"GraphData(2 graphs, 4 nodes, {2 + loops} undirected edges, 1 sparse feature)"
    )
    one_way = read_graphs((PATH[:, :1], None), symmetrize=False)
    assert repr(one_way) == "GraphData(2 nodes, 1 directed edge, no features)"
    edges = pd.DataFrame({"source": [1, 2], "target": [2, 1], "weight": [0.5, 0.5]})
    nodes = pd.DataFrame({"id": [1, 2], "age": [3.0, 4.0], "left": [0, 1]})
    found = read_graphs((edges, nodes), label="left")
    assert repr(found) == (
        "GraphData(2 nodes, 1 undirected edge, 1 feature column, weights, labels)"
    )
    assert "<td>edges</td><td>1 undirected edge</td>" in found._repr_html_()
    bonds = dataclasses.replace(found, edge_attr=torch.ones(found.num_edges, 2))
    assert "weights, edge features, labels)" in repr(bonds)
    assert "<td>edge features</td><td>yes</td>" in bonds._repr_html_()


def test_notes_of_a_graph_are_in_its_table():
    with pytest.warns(UserWarning, match="read as undirected"):
        graph = read_graphs((PATH[:, :1], np.eye(2)))
    assert "<td>note</td>" in graph._repr_html_()


def test_embeddings():
    found = Embeddings(np.ones((7, 9), dtype=np.float32), np.array([f"<{i}>" for i in range(7)]))
    assert repr(found) == "Embeddings(7 nodes, 9 columns)"
    table = found._repr_html_()
    assert "&lt;4&gt;" in table and "&lt;5&gt;" not in table and "<4>" not in table
    assert "<th>e4</th><th>...</th>" in table
    one = Embeddings(np.ones((1, 1), dtype=np.float32), np.array([5]), id_name="graph")
    assert repr(one) == "Embeddings(1 graph, 1 column)" and "..." not in one._repr_html_()


def test_histories_and_run_folders(tmp_path):
    history = History.of(["latent"])
    assert repr(history) == "History(0 epochs)"
    assert "<td>" not in history._repr_html_()
    history.append(2.0, {"latent": 1.0}, 0.1)
    history.append(1.5, {"latent": 0.5}, 0.1)
    assert repr(history) == "History(2 epochs, loss 2 to 1.5)"
    assert "<td>latent</td><td>1</td><td>0.5</td>" in history._repr_html_()
    assert repr(RunFolder(tmp_path)) == f"RunFolder({str(tmp_path)!r})"


def test_estimators():
    model = NodeLaGraph(epochs=1, hidden_dim=4)
    assert repr(model) == "NodeLaGraph(epochs=1, hidden_dim=4)"
    assert "<td>fitted</td><td>no</td>" in model._repr_html_()
    model.fit((PATH, np.eye(3)))
    assert repr(model) == "NodeLaGraph(epochs=1, hidden_dim=4)"
    table = model._repr_mimebundle_()["text/html"]
    assert table == model._repr_html_()
    assert "<td>fitted</td><td>1 epoch, loss " in table and "<td>epochs</td><td>1</td>" in table
    assert f"<td>{model.embedding_dim_} columns</td>" in table and "lr" not in table


def test_an_own_encoder_is_shown():
    assert "<td>encoder</td><td>Identity()</td>" in NodeDGI(encoder=nn.Identity())._repr_html_()


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_help_is_made_of_the_settings(cls):
    text = pydoc.render_doc(cls, renderer=pydoc.plaintext)
    signature = text[text.index(f"{cls.__name__}(*") :].splitlines()[0]
    assert "Annotated" not in signature and "epochs=" in signature
    document = inspect.getdoc(cls)
    head, _, listed = document.partition("Parameters\n----------\n")
    assert len(head.strip().splitlines()[0]) < 100 and "Attributes\n" in listed
    for name, allowed, _, meaning in describe(cls.settings_class):
        assert f"\n{name} : {allowed}, default=" in f"\n{listed}"
        assert " ".join(meaning.split()) in " ".join(listed.split())
    assert "\nmodel_\n    the trained model." in listed


def test_help_tells_defaults_of_the_preset():
    listed = inspect.getdoc(NodeLaGraph)
    assert "epochs : an int in the range [0, inf), default=100 (of the preset)" in listed
    assert "random_state : an int" in listed and "lr : a float" in listed


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_the_signature_has_the_settings_and_their_defaults(cls):
    shown = inspect.signature(cls).parameters
    fields = dataclasses.fields(cls.settings_class)
    assert {name: p.default for name, p in shown.items()} == {f.name: f.default for f in fields}
    with pytest.raises(TypeError, match="unexpected keyword argument 'epoch'"):
        cls(epoch=3)
    assert clone(cls(epochs=3)).get_params()["epochs"] == 3


def test_a_table_is_escaped():
    table = html_table("a & b", [["<x>", 1]], head=["k", "v"])
    assert table == (
        "<table><caption>a &amp; b</caption><tr><th>k</th><th>v</th></tr>"
        "<tr><td>&lt;x&gt;</td><td>1</td></tr></table>"
    )
