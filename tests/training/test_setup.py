"""The set-up of a run: dense or sparse features, batches, precision."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

from cases import as_sparse, make_method, random_graph
from graphlatent import GraphLaGraph, NodeLaGraph
from graphlatent.data.batches import FullBatches, GraphBatches
from graphlatent.data.pieces import NodePieces
from graphlatent.errors import ConfigError, GraphLatentWarning
from graphlatent.ops.sparse import SparseMatrix
from graphlatent.training import setup
from graphlatent.training.setup import as_form, choose_form, set_up
from graphlatent.training.stepper import matmul_precision

CPU = torch.device("cpu")


def features(rows: int, width: int, per_row: int) -> SparseMatrix:
    columns = [torch.randperm(width)[:per_row].sort().values for _ in range(rows)]
    crow, value = torch.arange(rows + 1) * per_row, torch.ones(rows * per_row)
    return SparseMatrix(crow, torch.cat(columns), value, (rows, width))


@pytest.mark.parametrize(
    ("width", "per_row", "edges_per_row", "expected"),
    [
        (6805, 61, 10, "sparse"),
        (767, 268, 36, "dense"),
        (8415, 34, 15, "sparse"),
        (129, 1, 96, "dense"),
        (2000, 40, 21, "sparse"),
    ],
)
def test_the_choice_on_the_shapes_of_the_benchmark(width, per_row, edges_per_row, expected):
    x = features(20, width, per_row)
    rule = {"hidden_dim": 512, "stored_edges": 20 * edges_per_row, "device": CPU}
    for given in (x, x.to_dense()):
        assert choose_form(given, "auto", **rule) == expected


def test_the_choice_respects_the_setting_and_the_memory_limit(monkeypatch):
    x = features(20, 50, 40)
    rule = {"hidden_dim": 8, "stored_edges": 100, "device": CPU}
    assert choose_form(x, "auto", **rule) == "dense"
    assert choose_form(x, "sparse", **rule) == "sparse"
    monkeypatch.setattr(setup, "_DENSE_BYTES", 20 * 50)
    assert choose_form(x, "auto", **rule) == "sparse"
    # Dense features already take that memory.
    assert choose_form(x.to_dense(), "auto", **rule) == "dense"
    thin = features(20, 5000, 1)
    monkeypatch.setattr(setup, "_DENSE_BYTES", 1 << 30)
    assert choose_form(thin, "auto", **rule) == "sparse"
    assert choose_form(thin, "auto", **rule, mini_batches=True) == "dense"


def test_conversion_keeps_the_features():
    x = torch.relu(torch.randn(9, 7))
    sparse = as_form(x, "sparse")
    assert isinstance(sparse, SparseMatrix)
    torch.testing.assert_close(as_form(sparse, "dense"), x)
    assert as_form(sparse, "sparse") is sparse


@pytest.mark.parametrize("cls", [NodeLaGraph, GraphLaGraph])
def test_training_does_not_depend_on_the_form(cls):
    graph = random_graph([6, 5, 7, 4], num_features=9, one_hot=True)
    curves = [
        cls(hidden_dim=8, epochs=10, device="cpu", features=form).fit(graph).history_.loss
        for form in ("dense", "sparse", "auto")
    ]
    np.testing.assert_allclose(curves[0], curves[1], rtol=1e-4)
    np.testing.assert_allclose(curves[0], curves[2], rtol=1e-4)


def test_batches_and_features_of_both_levels():
    graph = as_sparse(random_graph([6, 5], one_hot=True))
    training, everything = set_up(graph, make_method("node", features="sparse"), device=CPU)
    assert isinstance(training.batches, FullBatches)
    assert isinstance(everything().x, SparseMatrix)
    training, everything = set_up(graph, make_method("graph"), device=CPU)
    assert isinstance(training.batches, GraphBatches)
    assert isinstance(everything().x, torch.Tensor)


class TestPrecision:
    def test_all_precisions_are_float32_on_a_cpu(self):
        graph, values = random_graph([12]), {"hidden_dim": 8, "epochs": 5, "device": "cpu"}
        with pytest.warns(GraphLatentWarning, match="needs a GPU"):
            low = NodeLaGraph(precision="bf16", **values).fit(graph)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            others = [NodeLaGraph(precision=p, **values).fit(graph) for p in ("fp32", "tf32")]
        assert low.history_.loss == others[0].history_.loss == others[1].history_.loss

    def test_bf16_is_rejected_with_the_general_engine(self):
        with pytest.raises(ConfigError, match="built-in encoder"):
            NodeLaGraph(precision="bf16", engine="general").fit(random_graph([5]))

    def test_the_global_setting_of_torch_is_not_changed(self):
        before = torch.get_float32_matmul_precision()
        NodeLaGraph(hidden_dim=4, epochs=1, device="cpu").fit(random_graph([5]))
        assert torch.get_float32_matmul_precision() == before

    @pytest.mark.skipif(
        not hasattr(torch.backends.cuda.matmul, "fp32_precision"),
        reason="this version of torch lacks the setting",
    )
    def test_the_new_setting_of_torch_is_supported(self):
        before = torch.backends.cuda.matmul.fp32_precision
        # From here on torch rejects its old setting.
        torch.backends.cuda.matmul.fp32_precision = "tf32"
        try:
            NodeLaGraph(hidden_dim=4, epochs=1, device="cpu").fit(random_graph([5]))
            with matmul_precision("fp32", torch.device("cuda")):
                assert torch.backends.cuda.matmul.fp32_precision == "ieee"
            assert torch.backends.cuda.matmul.fp32_precision == "tf32"
        finally:
            torch.backends.cuda.matmul.fp32_precision = before


def test_nothing_is_precomputed_for_the_whole_graph_with_batches_of_nodes():
    graph = random_graph([30])
    method = make_method("node", batching="nodes", nodes_per_step=5)
    training, everything = set_up(graph, method, device=CPU)
    assert isinstance(training.batches, NodePieces)
    kept = training.batches.graph
    assert training.method.cache.ax is None
    # Neither features nor edges are copied.
    assert kept.x.x.data_ptr() == graph.x.data_ptr()
    assert kept.indices.data_ptr() == graph.edge_index[1].data_ptr()
    assert everything().num_nodes == 30
