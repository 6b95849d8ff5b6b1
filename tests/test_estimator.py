"""Estimators: scikit-learn conventions, settings, embeddings."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_checks

from cases import as_sparse, random_graph
from graphlatent import (
    GraphLaGraph,
    GraphLaGraphClassifier,
    NodeLaGraph,
    NodeLaGraphClassifier,
)
from graphlatent.data.graph import GraphData
from graphlatent.errors import (
    ConfigError,
    GraphLatentError,
    InputError,
)
from graphlatent.ops.devices import pick_device
from graphlatent.representations import propagated_features

SMALL = {"hidden_dim": 8, "epochs": 3, "device": "cpu"}
SIZES = [5, 4, 3, 6, 2, 7, 4, 3, 5, 6]
# Of a node: x and A^2 x, 4 columns each, A^2 1 and the encoder's output. Of a graph: sums, means
# and maxima of every layer.
NODE_WIDTH, GRAPH_WIDTH = 4 + 4 + 1 + 8, 2 * 4 + 3 * 3 * 8


def node(**values) -> NodeLaGraph:
    return NodeLaGraph(**{**SMALL, **values})


def graph(**values) -> GraphLaGraph:
    return GraphLaGraph(**{**SMALL, **values})


def as_pyg(data: GraphData) -> list:
    from torch_geometric.data import Data

    out = []
    for start, stop in zip(data.ptr[:-1].tolist(), data.ptr[1:].tolist(), strict=True):
        inside = (data.edge_index[0] >= start) & (data.edge_index[0] < stop)
        out.append(Data(x=data.x[start:stop], edge_index=data.edge_index[:, inside] - start))
    return out


class TestConventions:
    @pytest.mark.parametrize(
        "estimator",
        [NodeLaGraph(), GraphLaGraph(), NodeLaGraphClassifier(), GraphLaGraphClassifier()],
        ids=repr,
    )
    @pytest.mark.parametrize(
        "check",
        [
            "check_estimator_cloneable",
            "check_estimator_repr",
            "check_no_attributes_set_in_init",
            "check_do_not_raise_errors_in_init_or_set_params",
            "check_parameters_default_constructible",
            "check_get_params_invariance",
            "check_set_params",
            "check_mixin_order",
        ],
    )
    def test_checks_of_scikit_learn(self, estimator, check):
        assert getattr(estimator_checks, check)(type(estimator).__name__, estimator) is None

    def test_fit_returns_self_and_learnt_attributes_end_in_an_underscore(self):
        estimator = node()
        assert estimator.fit(random_graph([9])) is estimator
        learnt = {name for name in vars(estimator) if name.endswith("_")}
        assert learnt == {
            "model_",
            "method_",
            "features_",
            "history_",
            "embedding_dim_",
            "n_features_in_",
            "reading_",
            "weighted_",
            "num_threads_",
            "settings_",
            "peak_memory_",
        }
        assert estimator.n_features_in_ == 4
        assert estimator.embedding_dim_ == NODE_WIDTH
        assert len(estimator.history_) == 3

    @pytest.mark.parametrize("method", ["transform", "embed", "save", "get_feature_names_out"])
    def test_use_before_fit_is_an_error(self, method):
        with pytest.raises(
            NotFittedError, match=r"This NodeLaGraph is not fitted yet. Call 'fit' with a graph"
        ) as caught:
            getattr(node(), method)(random_graph([3]))
        assert isinstance(caught.value, GraphLatentError)

    def test_a_clone_is_not_fitted(self):
        fitted = node(alpha=3.0).fit(random_graph([9]))
        copy = clone(fitted)
        assert copy.alpha == 3.0 and not hasattr(copy, "model_")

    def test_an_unknown_parameter_is_an_error_that_suggests_the_closest(self):
        with pytest.raises(
            ConfigError,
            match=r"Unknown setting 'epocs' in NodeLaGraph.set_params. Did you mean 'epochs'\?",
        ):
            node().set_params(epocs=3)

    @pytest.mark.parametrize(
        ("values", "message"),
        [
            (
                {"mask_ratio": 0.0},
                (
                    r"The 'mask_ratio' parameter of NodeLaGraph must be a float in the range \(0,"
                    r" 1\]. Got 0.0 instead."
                ),
            ),
            ({"mask_ratio": 1.5}, r"'mask_ratio' .* Got 1.5 instead"),
            (
                {"alpha": -1.0},
                (
                    r"The 'alpha' parameter of NodeLaGraph must be a float in the range \[0, inf\)."
                    r" Got -1.0 instead."
                ),
            ),
            ({"alpha": float("nan")}, "'alpha' .* Got nan instead"),
            (
                {"epochs": -1},
                (
                    r"The 'epochs' parameter of NodeLaGraph must be an int in the range \[0, inf\)."
                    r" Got -1 instead."
                ),
            ),
            ({"epochs": 2.5}, "'epochs' .* Got 2.5 instead"),
            ({"epochs": True}, "'epochs' .* Got True instead"),
            (
                {"objective": "mse"},
                (
                    "'objective' .* must be 'cosine', 'mse-embed', .* or 'denoise'. Got 'mse'"
                    " instead"
                ),
            ),
            ({"encoder": "gat"}, "must be 'gcn', 'gin' or a torch.nn.Module. Got 'gat' instead"),
            ({"decoder": "gnn"}, "must be 'mlp': at node level"),
            ({"objective": "ce-embed", "preset": "released"}, "needs output_activation='none'"),
            ({"device": "gpu"}, "device='gpu' is not a torch device"),
        ],
    )
    def test_invalid_settings_are_reported_by_fit(self, values, message):
        # The constructor only stores.
        estimator = node(**values)
        with pytest.raises(ConfigError, match=message):
            estimator.fit(random_graph([4]))

    @pytest.mark.parametrize(("preset", "objective"), [("plus", "cosine"), ("paper", "mse-embed")])
    def test_invariance_on_all_is_rejected_for_pooled_embeddings(self, preset, objective):
        message = f"invariance_on='all' of GraphLaGraph has no meaning for '{objective}'"
        with pytest.raises(ConfigError, match=message):
            graph(invariance_on="all", preset=preset).fit(random_graph(SIZES))

    def test_settings_can_be_numpy_numbers(self):
        assert node(epochs=np.int64(2), alpha=np.float32(1.0)).fit(random_graph([5])).history_.loss

    def test_pipeline_and_grid_search_over_graphs(self):
        graphs = as_pyg(random_graph(SIZES * 2))
        labels = np.arange(20) % 2
        pipeline = make_pipeline(graph(), LogisticRegression(max_iter=500))
        search = GridSearchCV(
            pipeline, {"graphlagraph__hidden_dim": [4, 8]}, cv=2, error_score="raise"
        )
        search.fit(graphs, labels)
        assert search.best_params_["graphlagraph__hidden_dim"] in (4, 8)
        assert search.predict(graphs).shape == (20,)


class TestEmbeddings:
    @pytest.mark.parametrize("encoder", ["gcn", "gin"])
    @pytest.mark.parametrize(
        "objective", ["cosine", "mse-embed", "mse-output", "ce-embed", "ce-output", "denoise"]
    )
    def test_every_objective_trains_at_both_levels(self, encoder, objective):
        data = random_graph(SIZES, one_hot=True)
        # Alpha is 0 by default, with which an objective of the paper has no invariance term.
        values = {"encoder": encoder, "objective": objective, "alpha": 1.0}
        if objective.startswith("ce-"):
            # Rows must sum to 1.
            values["scale_features"] = False
        rows = node(**values).fit_transform(data)
        pooled = graph(**values).fit_transform(data)
        assert rows.shape == (45, NODE_WIDTH) and pooled.shape == (10, GRAPH_WIDTH)
        assert rows.dtype == pooled.dtype == np.float32
        assert np.isfinite(rows).all() and np.isfinite(pooled).all()

    def test_the_seed_determines_the_result(self):
        data = random_graph([20])
        a, b, c = (node(random_state=s).fit_transform(data) for s in (0, 0, 1))
        assert np.array_equal(a, b)
        assert not np.allclose(a, c)

    def test_a_node_in_no_batch_is_still_embedded(self):
        data = random_graph([50])
        batches = {"batching": "nodes", "nodes_per_step": 5, "steps_per_epoch": 2}
        rows = node(**batches, epochs=1).fit_transform(data)
        assert rows.shape == (50, NODE_WIDTH) and np.abs(rows).sum(1).min() > 0

    def test_a_graphs_embedding_does_not_depend_on_the_others(self):
        data = random_graph(SIZES)
        fitted = graph().fit(data)
        alone = np.concatenate([fitted.transform(g) for g in as_pyg(data)[:4]])
        np.testing.assert_allclose(alone, fitted.transform(data)[:4], rtol=1e-5, atol=1e-5)

    def test_embeddings_of_the_training_graph_equal_the_output_in_training_mode(self):
        data = random_graph([30])
        fitted = node(num_layers=3, embedding="encoder", scale_features=False).fit(data)
        model = fitted.model_.train()
        from graphlatent.data.batches import full_batch

        batch = full_batch(data, prepare=model.prepare, device=torch.device("cpu"))
        with torch.no_grad():
            in_training = model.encode(batch.x, batch.structure)[-1]
        rows = fitted.transform(data)
        np.testing.assert_allclose(rows, in_training.numpy(), rtol=1e-4, atol=1e-5)

    def test_zero_epochs_keep_the_initial_encoder(self):
        data = random_graph([30])
        fitted = node(epochs=0).fit(data)
        assert len(fitted.history_) == 0
        assert np.isfinite(fitted.transform(data)).all()

    def test_a_linear_untrained_gcn_is_propagated_features_times_weights(self):
        data = random_graph([30])
        values = {"embedding": "encoder", "scale_features": False, "activation": "prelu"}
        fitted = node(num_layers=1, epochs=0, **values).fit(data)
        with torch.no_grad():
            # PReLU with slope 1 is the identity.
            fitted.model_.encoder.activations[0].weight.fill_(1.0)
        weight = fitted.model_.encoder.convs[0].weight.detach().numpy()
        expected = propagated_features(data, level="node", hops=1) @ weight
        np.testing.assert_allclose(fitted.transform(data), expected, rtol=1e-4, atol=1e-5)

    def test_concat_input_appends_the_features(self):
        data = random_graph([12])
        values = {"embedding": "encoder", "scale_features": False}
        plain, wide = node(**values).fit(data), node(**values, concat_input=True).fit(data)
        rows = wide.transform(data)
        assert rows.shape == (12, 12) and wide.embedding_dim_ == 12
        np.testing.assert_array_equal(rows[:, 8:], data.x.numpy())
        np.testing.assert_array_equal(rows[:, :8], plain.transform(data))

    def test_sparse_and_dense_features_give_the_same_embedding(self):
        data = random_graph([25], one_hot=True)
        dense, sparse = node().fit_transform(data), node().fit_transform(as_sparse(data))
        np.testing.assert_allclose(dense, sparse, rtol=1e-3, atol=1e-5)

    def test_ids_are_kept(self):
        names = np.array([f"n{i}" for i in range(6)])
        data = dataclasses.replace(random_graph([6]), node_ids=names)
        fitted = node().fit(data)
        embedded = fitted.embed(data)
        frame, table = embedded.to_pandas(), embedded.to_arrow()
        assert list(frame.index) == list(names) == table["id"].to_pylist()
        columns = [f"e{i}" for i in range(NODE_WIDTH)]
        assert list(frame.columns) == list(fitted.get_feature_names_out()) == columns
        np.testing.assert_array_equal(frame.to_numpy(), embedded.values)

    def test_fit_does_not_change_its_input(self):
        data = random_graph([12])
        before = data.x.clone(), data.edge_index.clone()
        node().fit(data)
        assert torch.equal(data.x, before[0]) and torch.equal(data.edge_index, before[1])

    def test_features_of_another_width_are_rejected(self):
        fitted = node().fit(random_graph([6]))
        with pytest.raises(InputError, match="5"):
            fitted.transform(random_graph([6], num_features=5))

    def test_degrees_replace_missing_features(self):
        data = dataclasses.replace(random_graph(SIZES), x=None)
        fitted = graph(degree_cap=3).fit(data)
        # Degrees 0 to 3, and the local structure beside them.
        assert fitted.n_features_in_ == 4 + 4
        assert graph(degree_cap=3, preset="paper").fit(data).n_features_in_ == 4
        star = (np.array([[0] * 9, list(range(1, 10))]), None)
        with pytest.warns(UserWarning, match="Edges are read as undirected"):
            assert fitted.transform(star).shape == (1, 3 * 3 * 8)

    @pytest.mark.parametrize("size", [1, 2])
    def test_tiny_graphs_work(self, size):
        x = np.ones((size, 3), dtype=np.float32)
        with pytest.warns(UserWarning, match="no edges"):
            rows = node().fit_transform((np.zeros((2, 0), dtype=int), x))
        assert rows.shape == (size, 3 + 3 + 1 + 8) and np.isfinite(rows).all()

    def test_constant_features_work(self):
        data = dataclasses.replace(random_graph([7]), x=torch.ones(7, 3))
        assert np.isfinite(node(epochs=20).fit_transform(data)).all()


def test_choice_of_the_device():
    assert pick_device("cpu").type == "cpu"
    assert pick_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")
    if not torch.cuda.is_available():
        with pytest.raises(ConfigError, match="asks for a GPU, and torch finds none here"):
            pick_device("cuda")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
class TestGPU:
    @pytest.mark.parametrize("make", [node, graph])
    def test_gpu_equals_cpu_where_randomness_is_the_same(self, make):
        data = random_graph(SIZES)
        a, b = (make(epochs=0, device=d).fit_transform(data) for d in ("cpu", "cuda"))
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)

    @pytest.mark.parametrize("values", [{}, {"batching": "nodes", "nodes_per_step": 20}])
    def test_trains_on_dense_and_sparse_features(self, values):
        data = random_graph([40], one_hot=True)
        for source in (data, as_sparse(data)):
            fitted = node(device="cuda", epochs=20, **values).fit(source)
            assert fitted.history_.loss[-1] < fitted.history_.loss[0]
            assert np.isfinite(fitted.transform(source)).all()
