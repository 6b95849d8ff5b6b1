"""What is measured on: folds and splits, and that the training graph of an inductive set holds
nothing of validation and test.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch

from graphlatent.bench import data as module
from graphlatent.bench.data import DatasetBundle, is_available, load_bundle
from graphlatent.data.datasets import dataset_info, load_dataset
from graphlatent.data.graph import GraphData
from graphlatent.data.splits import Split, random_splits
from graphlatent.errors import InputError, ProtocolError
from graphlatent.ops.sparse import to_dense
from graphlatent.probes.protocol import Protocol, ReleasedProtocol, SplitPrediction
from graphlatent.probes.results import Choice
from graphlatent.probes.svm import outer_fold_splits
from standins import PPI_SIZES, tiny, write_flickr, write_mutag, write_photo

CELLS = ("table2/Photo", "table1/MUTAG", "table2/Flickr", "table2/PPI", "table2/PPI-small")


@pytest.fixture(scope="module")
def root(standin_data) -> Path:
    return standin_data


def numbers(splits) -> list[list[list[int]]]:
    return [[part.tolist() for part in (s.train, s.val, s.test)] for s in splits]


def pairs(graph: GraphData, names: np.ndarray) -> set[tuple[int, int]]:
    """The edges by the names of their ends."""
    return {(int(names[s]), int(names[t])) for s, t in graph.edge_index.T.tolist()}


class TestFolds:
    def test_are_drawn_per_seed(self, root):
        made = load_bundle(tiny("table1/MUTAG"), root)
        assert made.splits is None and made.train_graph is made.graph and made.metric == "accuracy"
        first, again, other = (numbers(made.protocol(seed).splits) for seed in (0, 0, 1))
        assert first == again != other
        assert first == numbers(outer_fold_splits(made.labels, seed=0))

    def test_ten_of_them_without_validation_rows(self, root):
        splits = load_bundle(tiny("table1/MUTAG"), root).protocol(3).splits
        assert len(splits) == 10 and all(len(s.val) == 0 for s in splits)
        assert sorted(np.concatenate([s.test for s in splits])) == list(range(24))

    def test_labels_are_of_graphs(self, root):
        made = load_bundle(tiny("table1/MUTAG"), root)
        assert (
            made.labels.tolist() == [0, 1] * 12
            and made.graph.num_graphs == 24
            and made.graph.x.shape[1] == 2
        )

    def test_degrees_stand_in_for_features_up_to_the_recipes_cap(self, root, tmp_path):
        write_mutag(tmp_path)
        (tmp_path / "MUTAG" / "raw" / "MUTAG_node_labels.txt").unlink()
        recipe = tiny("table1/MUTAG")
        made = load_bundle(
            dataclasses.replace(recipe, paper={**recipe.paper, "degree_cap": 3}), tmp_path
        )
        assert (
            torch.equal(to_dense(made.graph.x).argmax(1), made.graph.degree.clamp(max=3))
            and made.graph.x.shape[1] == 4
        )


class TestSplits:
    def test_are_the_same_for_every_seed(self, root):
        made = load_bundle(tiny("table2/Photo"), root)
        assert len(made.splits) == 20 and made.train_graph is made.graph
        expected = numbers(random_splits(60))
        assert all(numbers(made.protocol(seed).splits) == expected for seed in (0, 1, 7))
        assert {tuple(map(len, parts)) for parts in expected} == {(6, 6, 48)}

    def test_counts_are_set_to_one_where_the_recipe_says_so(self, root):
        plain, binary = (
            load_bundle(tiny("table2/Photo", binarize=binarize), root).graph.x
            for binarize in (False, True)
        )
        assert plain.unique().numel() > 2 and torch.equal(binary, (plain > 0).float())

    def test_an_inductive_set_may_be_split_at_random_too(self, root):
        made = load_bundle(tiny("table2/Flickr", protocol="splits"), root)
        assert len(made.splits) == 20 and made.train_graph is made.graph


class TestInductive:
    def test_training_sees_no_validation_or_test_node_and_none_of_their_edges(
        self, root, monkeypatch
    ):
        """Every node gets its number for a name, which goes along into the subgraph."""

        def named(*args, **options):
            data = load_dataset(*args, **options)
            return dataclasses.replace(
                data,
                graph=dataclasses.replace(data.graph, node_ids=np.arange(data.graph.num_nodes)),
            )

        monkeypatch.setattr(module, "load_dataset", named)
        made = load_bundle(tiny("table2/Flickr"), root)
        assert made.train_graph.node_ids.tolist() == [i for i in range(48) if i % 4 < 2]
        everything, seen = (
            pairs(made.graph, made.graph.node_ids),
            pairs(made.train_graph, made.train_graph.node_ids),
        )
        assert seen == {(s, t) for s, t in everything if s % 4 < 2 and t % 4 < 2}
        assert 0 < len(seen) < len(everything) == made.graph.num_edges
        assert torch.equal(
            made.train_graph.x, made.graph.x[made.train_graph.node_ids]
        ) and np.array_equal(made.train_graph.y, made.labels[made.train_graph.node_ids])

    def test_everything_is_embedded_and_the_probe_has_the_published_parts(self, root, tmp_path):
        written, made = write_flickr(tmp_path), load_bundle(tiny("table2/Flickr"), root)
        assert made.graph.num_nodes == 48 and torch.equal(made.graph.edge_index, written.edge_index)
        assert torch.equal(made.graph.x, written.x) and np.array_equal(made.labels, written.y)
        (split,) = made.splits
        nodes = range(48)
        assert numbers([split]) == [
            [
                [i for i in nodes if i % 4 < 2],
                [i for i in nodes if i % 4 == 2],
                [i for i in nodes if i % 4 == 3],
            ]
        ]
        assert (
            all(numbers(made.protocol(seed).splits) == numbers([split]) for seed in (0, 5))
            and made.metric == "micro-F1"
        )

    def test_ppi_trains_on_the_training_graphs_alone(self, root):
        made = load_bundle(tiny("table2/PPI"), root)
        sizes = [n for part in PPI_SIZES.values() for n in part]
        assert (
            torch.diff(made.graph.ptr).tolist() == sizes
            and torch.diff(made.train_graph.ptr).tolist() == PPI_SIZES["train"]
        )
        assert torch.equal(made.train_graph.x, made.graph.x[:21])
        assert pairs(made.train_graph, np.arange(21)) == {
            (s, t) for s, t in pairs(made.graph, np.arange(50)) if s < 21
        }
        assert numbers(made.splits) == [[list(range(21)), list(range(21, 31)), list(range(31, 50))]]

    def test_ppi_small_trains_on_the_nodes_of_its_training_part(self, bundles, standin_data):
        made = bundles["table2/PPI-small"]
        with np.load(standin_data / "PPI-small" / "raw" / "ppi_small.npz") as written:
            split, edges = written["split"], written["edges"]
            assert np.array_equal(made.labels, written["y"]) and made.metric == "micro-F1"
            assert np.array_equal(made.graph.x.numpy(), written["x"])
        assert numbers(made.splits) == [[np.flatnonzero(split == k).tolist() for k in range(3)]]
        # No edge crosses a split, so that nothing but whole parts is left out
        train = np.flatnonzero(split == 0)
        own = {(int(s), int(t)) for s, t in edges.T if s != t and split[s] == 0}
        assert pairs(made.train_graph, train) == own | {(t, s) for s, t in own}
        assert torch.equal(made.train_graph.x, made.graph.x[train])

    def test_the_metric_of_a_table_of_labels(self, root):
        made = load_bundle(tiny("table2/PPI"), root)
        assert made.labels.shape == (50, 7) and made.metric == "micro-F1"
        truth = made.labels[31:]
        # Half of the ones are missed
        given = np.where(np.arange(truth.size).reshape(truth.shape) % 2, truth, 0)
        result = made.protocol(0).final([SplitPrediction(Choice("", {}, 0.0), given)], selection="")
        found, missed = given.sum(), truth.sum() - given.sum()
        assert result.metric == "micro-F1" and result.scores == (
            pytest.approx(2 * found / (2 * found + missed)),
        )
        assert result.others == {"accuracy": (pytest.approx(np.mean(given == truth)),)}


class TestShapes:
    @pytest.fixture
    def small(self, monkeypatch):
        info = dataclasses.replace(
            dataset_info("Flickr"), num_nodes=200, num_edges=600, num_features=5, num_classes=3
        )
        monkeypatch.setattr(module, "dataset_info", {"Flickr": info}.__getitem__)

    def test_have_the_sets_size_and_need_no_files(self, small, tmp_path):
        recipe = tiny("table3/Flickr-shape-100")
        assert is_available(recipe, tmp_path / "nowhere")
        made = load_bundle(recipe, tmp_path / "nowhere")
        assert made.graph.x.shape == (200, 5) and sorted(set(made.labels.tolist())) == [0, 1, 2]
        assert made.graph.num_edges == pytest.approx(2 * 600, rel=0.1)
        ((train, val, test),) = numbers(made.splits)
        assert (len(train), len(val), len(test)) == (100, 50, 50) and sorted(
            train + val + test
        ) == list(range(200))
        assert made.metric == "micro-F1" and np.array_equal(made.labels, made.graph.y)

    def test_training_sees_the_training_half_alone(self, small):
        made = load_bundle(tiny("table3/Flickr-shape-100"), None)
        train = made.splits[0].train
        assert torch.equal(made.train_graph.x, made.graph.x[train])
        inside = set(train.tolist())
        assert pairs(made.train_graph, train) == {
            (s, t) for s, t in pairs(made.graph, np.arange(200)) if s in inside and t in inside
        }

    def test_are_the_same_every_time(self, small):
        first, second = (load_bundle(tiny("table3/Flickr-shape-100"), None) for _ in range(2))
        assert first.graph.fingerprint() == second.graph.fingerprint() and numbers(
            first.splits
        ) == numbers(second.splits)


class TestProtocol:
    MADE = DatasetBundle(
        None, None, np.arange(6) % 2, (Split(*np.arange(6).reshape(3, 2)),), "accuracy"
    )

    def test_is_a_new_one_for_every_question(self):
        answer = [SplitPrediction(Choice("", {}, 0.0), np.array([0, 1]))]
        first = self.MADE.protocol(0)
        assert first.final(answer, selection="").scores == (1.0,)
        with pytest.raises(ProtocolError, match="opened already"):
            first.final(answer, selection="")
        assert not self.MADE.protocol(0).opened

    def test_the_released_one_only_where_it_is_asked_for(self):
        assert type(self.MADE.protocol(0)) is Protocol
        assert type(self.MADE.protocol(0, released=True)) is ReleasedProtocol


class TestAvailable:
    @pytest.mark.parametrize("name", CELLS)
    def test_where_the_files_are(self, root, tmp_path, name):
        assert is_available(tiny(name), root) and not is_available(tiny(name), tmp_path)

    def test_a_part_of_the_files_is_not_enough(self, tmp_path):
        write_flickr(tmp_path)
        (tmp_path / "Flickr" / "raw" / "role.json").unlink()
        assert not is_available(tiny("table2/Flickr"), tmp_path)

    def test_damaged_files_are_named(self, tmp_path):
        write_photo(tmp_path)
        (tmp_path / "Photo" / "raw" / "amazon_electronics_photo.npz").write_bytes(b"PK damaged")
        with pytest.raises(InputError, match=r"amazon_electronics_photo.npz cannot be read"):
            load_bundle(tiny("table2/Photo"), tmp_path)
