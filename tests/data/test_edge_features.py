"""Features of edges: how attributes are joined, merged, encoded and cut; what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from graphlatent import TableOptions, read_graphs
from graphlatent.data.edge_features import encode_edge_features, fit_edge_features
from graphlatent.data.features import FeatureSpec, encode_features
from graphlatent.data.graph import GraphData
from graphlatent.data.induced import induced_subgraph
from graphlatent.errors import InputError
from graphlatent.probes.edge_splits import hold_out_edges

pytestmark = pytest.mark.filterwarnings("ignore::graphlatent.errors.GraphLatentWarning")
NAMES = ["kind", "amount"]


def payments(**changes) -> pd.DataFrame:
    columns = {
        "source": ["a", "b", "c", "a"],
        "target": ["b", "c", "a", "d"],
        "kind": ["card", "cash", "card", "wire"],
        "amount": [1.0, 2.0, 3.0, 6.0],
    }
    return pd.DataFrame({**columns, **changes})


def encoded(edges: pd.DataFrame, names=NAMES, *, specs=None, **options) -> GraphData:
    graph = read_graphs(edges, edge_features=names, **options)
    return encode_edge_features(specs or fit_edge_features(graph), graph)


def rows(graph: GraphData) -> dict[tuple[str, str], list[float]]:
    """Features by the ids of source and target."""
    ends = graph.node_ids[graph.edge_index.numpy()].T.tolist()
    return {(u, v): graph.edge_attr[i].tolist() for i, (u, v) in enumerate(ends)}


def test_categories_are_one_hot_and_numbers_standardised():
    found = rows(encoded(payments(), symmetrize=False))
    amounts = (np.array([1, 2, 3, 6]) - 3) / np.std([1, 2, 3, 6])
    expected = {
        ("a", "b"): [1, 0, 0, amounts[0]],
        ("b", "c"): [0, 1, 0, amounts[1]],
        ("c", "a"): [1, 0, 0, amounts[2]],
        ("a", "d"): [0, 0, 1, amounts[3]],
    }
    assert set(found) == set(expected)
    for pair, row in expected.items():
        assert found[pair] == pytest.approx(row)


def test_both_directions_have_the_features_of_the_edge():
    found = rows(encoded(payments()))
    assert len(found) == 8
    assert all(found[u, v] == found[v, u] for u, v in found)
    for pair, row in rows(encoded(payments(), symmetrize=False)).items():
        assert found[pair] == pytest.approx(row)


def test_it_does_not_matter_how_an_undirected_edge_is_listed():
    once = payments()
    turned = once.rename(columns={"source": "target", "target": "source"})
    for listed in (turned, pd.concat([once, turned]), pd.concat([once, once])):
        graph = encoded(listed)
        for pair, row in rows(encoded(once)).items():
            assert rows(graph)[pair] == pytest.approx(row, abs=1e-6)


def test_features_of_merged_edges_are_averaged():
    twice = pd.concat([payments(), payments(kind="wire", amount=[5.0, 2.0, 3.0, 6.0])])
    graph = encoded(twice, symmetrize=False)
    raw = {name: twice[name].to_numpy() for name in NAMES}
    mean, std = raw["amount"].mean(), raw["amount"].std()
    assert rows(graph)["a", "b"] == pytest.approx([0.5, 0, 0.5, ((1 + 5) / 2 - mean) / std])
    assert rows(graph)["a", "d"] == pytest.approx([0, 0, 1, (6 - mean) / std])
    assert "Features of merged edges are averaged." in graph.notes


def test_edges_after_a_time_are_left_out_with_their_features():
    days = ["2024-01-01", "2024-03-01", "2024-02-01", "2024-02-02"]
    graph = read_graphs(
        payments(day=days), edge_features=NAMES, time="day", until="2024-02", symmetrize=False
    )
    specs = fit_edge_features(graph, standardize=False)
    found = rows(encode_edge_features(specs, graph))
    assert {pair: row[-1] for pair, row in found.items()} == {
        ("a", "b"): 1.0,
        ("c", "a"): 3.0,
        ("a", "d"): 6.0,
    }
    assert specs[0].categories == ("card", "wire")


def test_the_weight_of_merged_edges_goes_with_the_mean_of_their_features():
    twice = pd.concat([payments(), payments(kind="wire")])
    graph = read_graphs(twice, edge_features=["kind"], weight="amount", merge="sum")
    found = rows(encode_edge_features(fit_edge_features(graph), graph))
    ends = graph.node_ids[graph.edge_index.numpy()].T.tolist()
    weight = dict(zip(map(tuple, ends), graph.edge_weight.tolist(), strict=True))
    assert (found["c", "a"], weight["c", "a"]) == ([0.5, 0, 0.5], 6.0)


def test_a_self_loop_has_one_row():
    graph = read_graphs(payments(target=["a", "c", "a", "d"]), edge_features=NAMES)
    assert len(graph.edge_columns.edge) == graph.num_edges == 7


def test_statistics_and_categories_are_those_of_the_fitted_graph():
    fitted = fit_edge_features(read_graphs(payments(), edge_features=NAMES))
    new = payments().iloc[:2].assign(amount=[1.0, 100.0])
    found = rows(encoded(new, specs=fitted, symmetrize=False))
    assert found["a", "b"] == pytest.approx(rows(encoded(payments()))["a", "b"])
    assert found["b", "c"][3] == pytest.approx((100 - 3) / np.std([1, 2, 3, 6]))


def test_without_standardisation_numbers_stay():
    graph = read_graphs(payments(), edge_features=["amount"])
    specs = fit_edge_features(graph, standardize=False)
    assert sorted(set(encode_edge_features(specs, graph).edge_attr[:, 0].tolist())) == [1, 2, 3, 6]


def test_graphs_of_a_graph_column_keep_their_features():
    edges = payments(graph=[1, 1, 1, 2])
    nodes = pd.DataFrame({"id": ["a", "b", "c", "a", "d"], "graph": [1, 1, 1, 2, 2]})
    graph = read_graphs(edges, nodes=nodes.assign(x=1.0), edge_features=["amount"])
    ends = graph.edge_index[:, graph.edge_columns.edge]
    found = sorted(zip(*ends.tolist(), graph.edge_columns.columns["amount"], strict=True))
    pairs = {(0, 1): 1.0, (1, 2): 2.0, (2, 0): 3.0, (3, 4): 6.0}
    both = [(u, v, amount) for (u, v), amount in pairs.items()]
    assert found == sorted(both + [(v, u, amount) for u, v, amount in both])


def test_subgraphs_keep_the_features_of_their_edges():
    graph = encoded(payments())
    whole = rows(graph)
    kept = torch.tensor([True, True, True, False])
    small = induced_subgraph(graph, kept)
    assert rows(small) == {pair: row for pair, row in whole.items() if "d" not in pair}
    raw = induced_subgraph(read_graphs(payments(), edge_features=NAMES), kept)
    specs = fit_edge_features(read_graphs(payments(), edge_features=NAMES))
    assert rows(encode_edge_features(specs, raw)) == rows(small)


def test_edges_that_are_held_out_take_their_features_with_them():
    ring = np.arange(30)
    edges = pd.DataFrame({"source": ring, "target": (ring + 1) % 30, "amount": ring / 7})
    graph = read_graphs(edges, edge_features=["amount"])
    rest = hold_out_edges(graph, test_ratio=0.2, seed=0).graph
    assert 0 < rest.num_edges < graph.num_edges
    ends = rest.edge_index[:, rest.edge_columns.edge].numpy()
    smaller = np.where((ends[0] + 1) % 30 == ends[1], ends[0], ends[1])
    np.testing.assert_allclose(rest.edge_columns.columns["amount"], smaller / 7)


def test_graphs_that_are_taken_apart_and_joined_again_are_the_same():
    graph = read_graphs(pd.concat([payments(), payments(kind="wire")]), edge_features=NAMES)
    again = read_graphs([graph])
    specs = fit_edge_features(graph)
    first, second = (encode_edge_features(specs, each) for each in (graph, again))
    for pair, row in rows(first).items():
        assert rows(second)[pair] == pytest.approx(row, abs=1e-6)


def test_fingerprints_tell_edge_features_apart():
    plain, graph = read_graphs(payments()), read_graphs(payments(), edge_features=NAMES)
    other = read_graphs(payments(amount=[1.0, 2.0, 3.0, 7.0]), edge_features=NAMES)
    assert len({each.fingerprint() for each in (plain, graph, other)}) == 3
    assert not any("feature '" in name for name in plain.fingerprints())
    differing = {k for k, v in graph.fingerprints().items() if other.fingerprints()[k] != v}
    assert differing == {"edge feature 'amount'"}


def test_a_feature_spec_with_edge_features_survives_being_written():
    graph = read_graphs(payments(), edge_features=NAMES)
    spec = FeatureSpec("degree", cap=3, edges=fit_edge_features(graph))
    assert FeatureSpec.from_dict(spec.to_dict()) == spec
    assert spec.edge_dim == 4
    assert "edges" not in FeatureSpec("degree", cap=3).to_dict()
    with pytest.raises(InputError, match="edges must be a list"):
        FeatureSpec.from_dict({**spec.to_dict(), "edges": 3})


def test_a_graph_must_have_the_features_that_were_fitted():
    graph = read_graphs(payments(), edge_features=NAMES)
    spec = FeatureSpec("degree", cap=3, edges=fit_edge_features(graph))
    messages = {
        "fitted on graphs with the edge features ['kind', 'amount'], but this graph has none. Name"
        " them when it is read: read_graphs(..., edge_features=['kind', 'amount']).": (spec, None),
        "['kind', 'amount'], but this graph has ['kind']. Give the same": (spec, ["kind"]),
        "without edge features, but this graph has kind, amount. Read it": (
            replace(spec, edges=()),
            NAMES,
        ),
    }
    for message, (fitted, names) in messages.items():
        with pytest.raises(InputError) as caught:
            encode_features(fitted, read_graphs(payments(), edge_features=names))
        assert message in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": ["card", None, "cash", "cash"]}, "has 1 missing value, the first in row 1"),
        ({"amount": [1.0, 2.0, np.nan, 4.0]}, "has 1 missing value, the first in row 2"),
        ({"amount": [1.0, 2.0, np.inf, 4.0]}, "holds inf on the edge from a to c, too large"),
    ],
)
def test_values_that_cannot_be_features_are_refused_by_place(changes, message):
    with pytest.raises(InputError) as caught:
        encoded(payments(**changes))
    assert message in str(caught.value)


def test_a_new_category_and_a_number_too_far_are_refused_by_edge():
    small = payments(amount=[0.1, 0.2, 0.1, 0.3])
    fitted = fit_edge_features(read_graphs(small, edge_features=NAMES))
    for changes, message in (
        ({"kind": "cheque"}, "holds 'cheque' on the edge from a to b, a value it never held"),
        ({"amount": 3e38}, "'amount' is too far from the fitted values on the edge from a to b"),
    ):
        with pytest.raises(InputError) as caught:
            encoded(payments(**changes), specs=fitted)
        assert message in str(caught.value)


def test_a_column_that_is_not_there_is_an_error():
    with pytest.raises(InputError, match=r"no column 'colour' \(option 'edge_features'\)"):
        read_graphs(payments(), edge_features=["colour"])
    with pytest.raises(InputError, match=r"'edge_features' must be a list of column names"):
        TableOptions(edge_features="kind")


def test_forms_without_named_edges_refuse_them():
    array = np.array([[0, 1], [1, 0]])
    with pytest.raises(InputError, match=r"The option 'edge_features' names attributes"):
        read_graphs((array, np.eye(2)), edge_features=["kind"])
