"""Labels in a Series or DataFrame: matched by id, by position or refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from torch_geometric.data import Data

from classifier_cases import graph_classifier, graphs_and_classes, node_classifier, some_of
from graphlatent import Embeddings
from graphlatent.errors import InputError
from graphlatent.finetuning.indexed_labels import in_row_order

IDS = [f"n{i}" for i in range(24)]
NAMES = np.array(["no", "yes"])[np.arange(24) // 12]


def ordered(y, ids, **more):
    ids = np.array(ids, dtype=object if isinstance(ids[0], str) else np.int64)
    rows = Embeddings(np.empty((len(ids), 0), np.float32), ids, **more)
    return in_row_order(y, rows, of="node", owner="C.fit")


def people():
    """A node table and edges; two groups, whose feature tells them apart."""
    rng = np.random.default_rng(0)
    nodes = pd.DataFrame({"id": IDS, "age": rng.normal(size=24) + 4 * (np.arange(24) // 12)})
    pairs = [(i, j) for i in range(24) for j in range(i) if i // 12 == j // 12 and (i + j) % 3]
    edges = pd.DataFrame([(IDS[i], IDS[j]) for i, j in pairs], columns=["source", "target"])
    return edges, nodes


@pytest.fixture(scope="module")
def fitted():
    graph = people()
    return graph, node_classifier(epochs=3).fit(graph, by_id())


def listed(data):
    """The graphs of a `GraphData` as PyG has them."""
    found = []
    for graph in range(data.num_graphs):
        nodes = torch.nonzero(data.graph_of_node == graph)[:, 0]
        inside = torch.isin(data.edge_index[0], nodes)
        found.append(Data(x=data.x[nodes], edge_index=data.edge_index[:, inside] - nodes[0]))
    return found


def by_id():
    return pd.Series(NAMES, index=IDS).sample(frac=1, random_state=1)


def weights(classifier):
    return classifier.head_.linear.weight.detach().numpy()


@pytest.mark.filterwarnings("ignore:Edges are read as undirected")
class TestClassifier:
    def test_a_shuffled_series_trains_as_labels_in_order(self, fitted):
        graph, classifier = fitted
        order = classifier.predict_table(graph).index
        same = node_classifier(epochs=3).fit(graph, pd.Series(NAMES, index=IDS)[order].to_numpy())
        np.testing.assert_array_equal(weights(classifier), weights(same))

    def test_ids_that_are_not_there_have_no_label(self, fitted):
        graph, classifier = fitted
        order = classifier.predict_table(graph).index
        known = pd.Series(NAMES, index=IDS).where(np.arange(24) % 3 != 0)
        found = node_classifier(epochs=3).fit(graph, known.dropna().sample(frac=1, random_state=2))
        same = node_classifier(epochs=3).fit(graph, known.astype(object)[order].to_numpy())
        np.testing.assert_array_equal(weights(found), weights(same))

    def test_scores_and_reliability_match_by_id_too(self, fitted):
        graph, classifier = fitted
        predicted = classifier.predict_table(graph)["predicted"]
        right = predicted.sample(frac=1, random_state=3)
        assert right.nunique() == 2
        assert classifier.score(graph, right) == classifier.score(graph, right[:5]) == 1
        assert (classifier.reliability(graph, right).frequency == 1).all()
        with pytest.raises(InputError, match=r"^'y' of NodeLaGraphClassifier.score is a pandas"):
            classifier.score(graph, right.set_axis(range(1, 25)))

    def test_another_index_is_refused(self, fitted):
        with pytest.raises(InputError) as caught:
            node_classifier().fit(fitted[0], pd.Series(NAMES).sample(frac=1, random_state=1))
        assert "is matched to nodes by its index, but 24 of its 24 entries, the first " in str(
            caught.value
        )

    def test_graphs_are_matched_by_their_numbers(self):
        data, y = graphs_and_classes()
        known = some_of(y)
        shuffled = pd.Series(known)[known != -1].sample(frac=1, random_state=0)
        found = graph_classifier(epochs=1).fit(data, shuffled)
        np.testing.assert_array_equal(
            weights(found), weights(graph_classifier(epochs=1).fit(data, known))
        )

    def test_a_list_of_graphs_is_cut_and_shuffled_with_its_labels(self):
        data, y = graphs_and_classes()
        data, y = listed(data), pd.Series(y)
        order = np.random.default_rng(0).permutation(len(data))
        cut = [data[i] for i in order[:-4]], y.iloc[order[:-4]]
        found = graph_classifier(epochs=1).fit(*cut)
        same = graph_classifier(epochs=1).fit(cut[0], cut[1].to_numpy())
        np.testing.assert_array_equal(weights(found), weights(same))
        assert found.score(*cut) == same.score(cut[0], cut[1].to_numpy())


class TestOrder:
    def test_the_default_index_is_by_position(self):
        y = pd.Series([3, 4, 5])
        assert ordered(y, ["b", "c", "a"]) is y and ordered(y, [2, 1, 0]) is y

    def test_integer_ids_in_another_order(self):
        y = pd.Series([3, 4, 5], index=[10, 20, 30])
        assert ordered(y, [30, 10, 20]).tolist() == [5, 3, 4]
        assert ordered(y, [30, 10, 20]).dtype == np.int64

    def test_large_integers_stay_exact_where_some_are_missing(self):
        found = ordered(pd.Series([2**60 + 1], index=["a"]), ["b", "a"]).tolist()
        assert np.isnan(found[0]) and found[1] == 2**60 + 1

    def test_a_matrix_and_nodes_of_several_graphs(self):
        index = pd.MultiIndex.from_tuples([("g", 1), ("f", 0), ("f", 1)])
        y = pd.DataFrame({"a": [1, 0, 0], "b": [1, 1, 0]}, index=index)
        found = ordered(y, [0, 1, 1], graphs=np.array(["f", "f", "g"], dtype=object))
        assert found.to_numpy().tolist() == [[0, 1], [0, 0], [1, 1]]

    def test_labels_of_more_than_the_rows(self):
        assert ordered(pd.Series([1, 2, 3], index=list("abc")), ["c", "a"]).tolist() == [3, 1]

    @pytest.mark.parametrize(
        ("index", "message"),
        [
            (["a", "x"], "but 1 of its 2 entries, the first 'x', are no ids of nodes, which are"),
            (["a", "a"], "in which 'a' occurs more than once. Keep one label for each."),
            ([1, 2], "but 2 of its 2 entries, the first 1, are no ids of nodes, which are such as"),
            (pd.RangeIndex(2), "or give y.to_numpy() with one label per node, in the graph's"),
            (pd.MultiIndex.from_tuples([(0, 1), (0, 2)]), "have the levels 'id'. Got 2 levels."),
        ],
    )
    def test_what_is_refused(self, index, message):
        with pytest.raises(InputError) as caught:
            ordered(pd.Series([1, 2], index=index), list("abc"))
        assert message in str(caught.value)

    def test_no_label_at_all_is_refused(self):
        with pytest.raises(InputError, match="but 0 of its 0 entries are no ids"):
            ordered(pd.Series([], index=pd.Index([], dtype=object), dtype=int), list("abc"))
