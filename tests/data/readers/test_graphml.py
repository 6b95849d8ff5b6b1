from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphlatent.data.assemble import assemble
from graphlatent.data.readers.graphml import read_graphml
from graphlatent.data.readers.options import TableOptions
from graphlatent.errors import GraphLatentWarning, InputError

HEAD = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<graphml'
    ' xmlns="http://graphml.graphdrawing.org/xmlns">\n'
)
KEYS = """
<key id="d0" for="node" attr.name="color" attr.type="string"><default>yellow</default></key>
<key id="d1" for="node" attr.name="age" attr.type="int"/>
<key id="d2" for="node" attr.name="alive" attr.type="boolean"/>
<key id="d3" for="edge" attr.name="weight" attr.type="double"/>
<key id="d4" for="edge" attr.name="cost" attr.type="int"/>
"""
BODY = """
<graph id="G" edgedefault="undirected">
  <node id="n0"><data key="d0">green</data><data key="d1">3</data><data key="d2">true</data></node>
  <edge source="n0" target="n2"><data key="d3">0.5</data><data key="d4">7</data></edge>
  <node id="n1"><data key="d1">4</data><data key="d2">false</data></node>
  <node id="n2"><data key="d1">5</data><data key="d2">1</data></node>
  <edge source="n1" target="n0"><data key="d3">2</data><data key="d4">8</data></edge>
</graph>
"""


def write(path, inside, head=HEAD):
    path.write_text(f"{head}{inside}</graphml>", encoding="utf-8")
    return path


def test_by_hand(tmp_path):
    (raw,) = read_graphml(write(tmp_path / "g.graphml", KEYS + BODY))
    assert raw.node_ids.tolist() == ["n0", "n1", "n2"]
    assert raw.edge_index.tolist() == [[0, 1], [2, 0]]
    assert raw.edge_weight.tolist() == [0.5, 2.0]
    assert raw.directed is False
    assert {name: values.tolist() for name, values in raw.columns.items()} == {
        "color": ["green", "yellow", "yellow"],
        "age": [3, 4, 5],
        "alive": [True, False, True],
    }
    assert (raw.name, raw.graph_id) == ("g.graphml", None)
    with pytest.warns(GraphLatentWarning, match=r"^g.graphml: edge attributes not used: cost\."):
        graph = assemble([raw], symmetrize=False)
    assert graph.edge_index.tolist() == [[0, 0, 1, 2], [1, 2, 0, 0]]


def test_options_choose_among_attributes(tmp_path):
    path = write(tmp_path / "g.graphml", KEYS + BODY)
    (raw,) = read_graphml(
        path, options=TableOptions(features=("age",), label="color", weight="cost")
    )
    assert list(raw.columns) == ["age"]
    assert raw.y.tolist() == ["green", "yellow", "yellow"]
    assert raw.edge_weight.tolist() == [7, 8]
    (raw,) = read_graphml(path, options=TableOptions(label="color"))
    assert list(raw.columns) == ["age", "alive"]


def test_directions_of_graph_and_edge(tmp_path):
    nodes = '<node id="a"/><node id="b"/><node id="c"/>'
    edges = '<edge source="a" target="b"/><edge source="b" target="c" directed="{}"/>'
    (raw,) = read_graphml(
        write(
            tmp_path / "d.graphml",
            f'<graph edgedefault="directed">{nodes}{edges.format("true")}</graph>',
        )
    )
    assert raw.directed is True
    assert raw.edge_index.tolist() == [[0, 1], [1, 2]]
    (raw,) = read_graphml(
        write(
            tmp_path / "m.graphml",
            f'<graph edgedefault="directed">{nodes}{edges.format("false")}</graph>',
        )
    )
    assert raw.directed is True
    assert raw.edge_index.tolist() == [[0, 1, 2], [1, 2, 1]]
    (raw,) = read_graphml(
        write(tmp_path / "u.graphml", f'<graph edgedefault="undirected">{nodes}</graph>')
    )
    assert raw.directed is False
    assert raw.edge_index.shape == (2, 0)


def test_several_graphs_in_a_file(tmp_path):
    path = write(
        tmp_path / "g.graphml",
        '<graph id="A"><node id="x"/></graph><graph id="B"><node id="x"/><node id="y"/></graph>',
    )
    one, two = read_graphml(path)
    assert (one.graph_id, two.graph_id) == ("A", "B")
    assert (one.num_nodes, two.num_nodes) == (1, 2)
    assert two.name == "g.graphml, graph 'B'"


def test_missing_values(tmp_path):
    keys = (
        '<key id="a" for="node" attr.name="i" attr.type="int"/><key id="b" for="node" attr.name="t"'
        ' attr.type="boolean"/><key id="c" for="node" attr.name="s" attr.type="string"/><key id="e"'
        ' for="node" attr.name="unused" attr.type="string"/>'
    )
    nodes = (
        '<node id="x"><data key="a">1</data><data key="b">true</data><data'
        ' key="c">s</data></node><node id="y"/>'
    )
    (raw,) = read_graphml(write(tmp_path / "g.graphml", f"{keys}<graph>{nodes}</graph>"))
    assert raw.columns["i"][0] == 1
    assert np.isnan(raw.columns["i"][1])
    assert raw.columns["t"].tolist() == [True, None]
    assert raw.columns["s"].tolist() == ["s", None]
    assert "unused" not in raw.columns


def test_drawings_are_passed_over(tmp_path):
    keys = '<key id="d6" for="node" yfiles.type="nodegraphics"/>'
    node = (
        '<node id="x"><data key="d6"> <y:ShapeNode xmlns:y="u"><y:Fill color="red"/></y:ShapeNode>'
        " </data></node>"
    )
    (raw,) = read_graphml(write(tmp_path / "g.graphml", f"{keys}<graph>{node}</graph>"))
    assert raw.num_nodes == 1
    assert raw.columns is None


@settings(max_examples=15, deadline=None)
@given(
    st.integers(1, 6),
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(-5, 5))),
    st.booleans(),
)
def test_what_networkx_writes(tmp_path_factory, num_nodes, edges, directed):
    graph = nx.DiGraph() if directed else nx.Graph()
    for i in range(num_nodes):
        graph.add_node(f"n{i}", size=i / 2, tag="<&>" if i % 2 else "ä", flag=i > 2)
    for u, v, w in edges:
        graph.add_edge(f"n{u % num_nodes}", f"n{v % num_nodes}", weight=w)
    path = tmp_path_factory.mktemp("nx") / "g.graphml"
    nx.write_graphml_xml(graph, path)
    (raw,) = read_graphml(path)
    assert raw.node_ids.tolist() == list(graph.nodes)
    assert raw.directed is directed
    found = {
        (raw.node_ids[a], raw.node_ids[b]): w
        for (a, b), w in zip(raw.edge_index.T, raw.edge_weight if edges else [], strict=True)
    }
    assert found == {(u, v): w for u, v, w in graph.edges(data="weight")}
    assert raw.columns["size"].tolist() == [i / 2 for i in range(num_nodes)]
    assert raw.columns["tag"].tolist() == ["<&>" if i % 2 else "ä" for i in range(num_nodes)]
    assert raw.columns["flag"].tolist() == [i > 2 for i in range(num_nodes)]


def laughs():
    entities = "".join(f'<!ENTITY l{i} "{f"&l{i - 1};" * 10}">' for i in range(1, 12))
    return (
        f'<?xml version="1.0"?><!DOCTYPE lolz [<!ENTITY l0 "lol">{entities}]><graphml><graph><node'
        ' id="&l9;"/></graph></graphml>'
    )


@pytest.mark.parametrize(
    "text",
    [
        laughs(),
        '<!DOCTYPE graphml SYSTEM "http://example.org/graphml.dtd"><graphml/>',
        (
            '<?xml version="1.0"?>\n<!-- hello -->\n<!DOCTYPE graphml [<!ENTITY a SYSTEM'
            ' "file:///etc/passwd">]><graphml>&a;</graphml>'
        ),
    ],
)
def test_document_types_are_refused(tmp_path, text):
    path = tmp_path / "g.graphml"
    path.write_text(text)
    with pytest.raises(
        InputError,
        match=(
            r"g.graphml declares a document type \(DOCTYPE .*\), which is refused for safety. Take"
        ),
    ):
        read_graphml(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "cannot be read as GraphML. The reader says: no element found"),
        ("just text", "cannot be read as GraphML. The reader says: syntax error"),
        (HEAD + "<graph><node id='a'>", "cannot be read as GraphML. The reader says: "),
        ("<svg></svg>", "is no GraphML file: its root element is <svg>, not <graphml>"),
        (HEAD + "</graphml>", "holds no <graph> element, so no graph"),
        (HEAD + "<graph>&unknown;</graph></graphml>", "undefined entity"),
        (
            HEAD + "<graph><node/></graph></graphml>",
            "has a <node> element without the attribute 'id'",
        ),
        (
            HEAD + "<graph><node id='a'/><edge source='a'/></graph></graphml>",
            "has a <edge> element without the attribute 'target'",
        ),
        (
            HEAD + "<graph><node id='a'/><node id='a'/></graph></graphml>",
            "every node must be there once. There is a second node 'a'",
        ),
        (
            HEAD + "<graph><node id='a'/><edge source='a' target='b'/></graph></graphml>",
            "an edge names node 'b', which is not in the file",
        ),
        (
            HEAD + "<graph><node id='a'><graph/></node></graph></graphml>",
            "has a graph inside a node, which is not supported",
        ),
        (HEAD + "<graph><hyperedge/></graph></graphml>", "has a hyperedge, which is not supported"),
        (
            HEAD + "<graph><node id='a'><data key='k'>1</data></node></graph></graphml>",
            "has data of key 'k', which no <key> element",
        ),
        (
            HEAD + KEYS + "<graph><node id='a'><data key='d1'>x</data></node></graph></graphml>",
            "attribute 'age' is declared as int",
        ),
        (
            HEAD + KEYS + "<graph><node id='a'><data key='d2'>x</data></node></graph></graphml>",
            "attribute 'alive' is declared as boolean",
        ),
        (
            HEAD + KEYS.replace("age", "color") + BODY + "</graphml>",
            "two keys name the node attribute 'color'",
        ),
        (
            HEAD + KEYS.replace('"double"', '"string"') + BODY + "</graphml>",
            "edge attribute 'weight' must hold numbers to be a weight",
        ),
    ],
)
def test_damaged_files(tmp_path, text, message):
    path = tmp_path / "g.graphml"
    path.write_text(text)
    with pytest.raises(InputError, match=message) as caught:
        read_graphml(path)
    assert str(path) in str(caught.value)


def test_attributes_that_are_not_there(tmp_path):
    path = write(tmp_path / "g.graphml", KEYS + BODY)
    with pytest.raises(
        InputError,
        match=(
            r"there is no attribute 'f' \(option 'features'\). Attributes found: 'color', 'age',"
            r" 'alive'"
        ),
    ):
        read_graphml(path, options=TableOptions(features=("f",)))
    with pytest.raises(
        InputError,
        match=r"there is no attribute 'w' \(option 'weight'\). Attributes found: 'weight', 'cost'",
    ):
        read_graphml(path, options=TableOptions(weight="w"))


def test_an_unreadable_encoding(tmp_path):
    (tmp_path / "g.graphml").write_bytes(b'<?xml version="1.0" encoding="no-such"?><graphml/>')
    with pytest.raises(InputError, match="cannot be read as GraphML"):
        read_graphml(tmp_path / "g.graphml")
