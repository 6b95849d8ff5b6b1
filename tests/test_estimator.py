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
from torch import nn

from cases import as_sparse, random_graph
from graphlatent import GraphLaGraph, NodeLaGraph, load_estimator
from graphlatent.config import to_mapping
from graphlatent.data.graph import GraphData
from graphlatent.errors import (
    ConfigError,
    GraphLatentError,
    InputError,
    OutputError,
    RunFolderError,
)
from graphlatent.ops.devices import pick_device
from graphlatent.representations import propagated_features

SMALL = {"hidden_dim": 8, "epochs": 3, "device": "cpu"}
SIZES = [5, 4, 3, 6, 2, 7, 4, 3, 5, 6]


def node(**values) -> NodeLaGraph:
    return NodeLaGraph(**{**SMALL, **values})


def graph(**values) -> GraphLaGraph:
    return GraphLaGraph(**{**SMALL, **values})


class OwnEncoder(nn.Module):
    """A user's encoder: mean over neighbours, by plain PyTorch."""

    def __init__(self, in_dim: int = 4, out_dim: int = 6) -> None:
        super().__init__()
        self.linear = nn.Linear(in_dim, out_dim)

    def forward(self, x, edge_index, edge_weight):
        weight = torch.ones(edge_index.shape[1]) if edge_weight is None else edge_weight
        gathered = torch.zeros_like(x).index_add(
            0, edge_index[1], x[edge_index[0]] * weight[:, None]
        )
        return torch.tanh(self.linear(x + gathered))


def as_pyg(data: GraphData) -> list:
    from torch_geometric.data import Data

    out = []
    for start, stop in zip(data.ptr[:-1].tolist(), data.ptr[1:].tolist(), strict=True):
        inside = (data.edge_index[0] >= start) & (data.edge_index[0] < stop)
        out.append(Data(x=data.x[start:stop], edge_index=data.edge_index[:, inside] - start))
    return out


class TestConventions:
    @pytest.mark.parametrize("estimator", [NodeLaGraph(), GraphLaGraph()], ids=repr)
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
    def test_scikit_learns_own_checks(self, estimator, check):
        assert getattr(estimator_checks, check)(type(estimator).__name__, estimator) is None

    def test_fit_returns_self_and_learns_names_with_underscores(self):
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
            "settings_",
            "peak_memory_",
        }
        assert (
            estimator.n_features_in_ == 4
            and estimator.embedding_dim_ == 8
            and len(estimator.history_) == 3
        )

    @pytest.mark.parametrize("method", ["transform", "embed", "save", "get_feature_names_out"])
    def test_not_fitted(self, method):
        with pytest.raises(
            NotFittedError, match=r"This NodeLaGraph is not fitted yet. Call 'fit' with a graph"
        ) as caught:
            getattr(node(), method)(random_graph([3]))
        assert isinstance(caught.value, GraphLatentError)

    def test_clone_forgets_what_was_learnt(self):
        fitted = node(alpha=3.0).fit(random_graph([9]))
        copy = clone(fitted)
        assert copy.alpha == 3.0 and not hasattr(copy, "model_")

    def test_unknown_parameter_names_the_nearest(self):
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
                    "'objective' .* must be 'mse-embed', 'mse-output', .* or 'denoise'. Got 'mse'"
                    " instead"
                ),
            ),
            ({"encoder": "gat"}, "must be 'gcn', 'gin' or a torch.nn.Module. Got 'gat' instead"),
            ({"decoder": "gnn"}, "must be 'mlp': at node level"),
            ({"objective": "ce-embed", "preset": "released"}, "needs output_activation='none'"),
            ({"device": "gpu"}, "device='gpu' is not a torch device"),
        ],
    )
    def test_wrong_settings_are_said_at_fit(self, values, message):
        estimator = node(**values)  # the constructor only stores
        with pytest.raises(ConfigError, match=message):
            estimator.fit(random_graph([4]))

    def test_invariance_on_all_has_no_meaning_for_pooled_embeddings(self):
        with pytest.raises(
            ConfigError, match="invariance_on='all' of GraphLaGraph has no meaning for 'mse-embed'"
        ):
            graph(invariance_on="all").fit(random_graph(SIZES))

    def test_numpy_numbers_are_numbers(self):
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
        "objective", ["mse-embed", "mse-output", "ce-embed", "ce-output", "denoise"]
    )
    def test_every_objective_trains_at_both_levels(self, encoder, objective):
        data = random_graph(SIZES, one_hot=True)
        rows = node(encoder=encoder, objective=objective).fit_transform(data)
        pooled = graph(encoder=encoder, objective=objective).fit_transform(data)
        assert rows.shape == (45, 8) and pooled.shape == (10, 24)
        assert rows.dtype == pooled.dtype == np.float32
        assert np.isfinite(rows).all() and np.isfinite(pooled).all()

    def test_same_seed_same_result_other_seed_other_result(self):
        data = random_graph([20])
        a, b, c = (node(random_state=s).fit_transform(data) for s in (0, 0, 1))
        assert np.array_equal(a, b)
        assert not np.allclose(a, c)

    def test_a_node_in_no_batch_is_still_embedded(self):
        data = random_graph([50])
        rows = node(batching="nodes", nodes_per_step=5, steps_per_epoch=2, epochs=1).fit_transform(
            data
        )
        assert rows.shape == (50, 8) and np.abs(rows).sum(1).min() > 0

    def test_a_graphs_embedding_does_not_depend_on_the_others(self):
        data = random_graph(SIZES)
        fitted = graph().fit(data)
        alone = np.concatenate([fitted.transform(g) for g in as_pyg(data)[:4]])
        np.testing.assert_allclose(alone, fitted.transform(data)[:4], rtol=1e-5, atol=1e-5)

    def test_embedding_of_the_training_graph_equals_train_mode(self):
        data = random_graph([30])
        fitted = node(num_layers=3).fit(data)
        model = fitted.model_.train()
        from graphlatent.data.batches import full_batch

        batch = full_batch(data, prepare=model.prepare, device=torch.device("cpu"))
        with torch.no_grad():
            in_training = model.encode(batch.x, batch.structure)[-1]
        np.testing.assert_allclose(
            fitted.transform(data), in_training.numpy(), rtol=1e-4, atol=1e-5
        )

    def test_random_initial_encoder(self):
        data = random_graph([30])
        fitted = node(epochs=0).fit(data)
        assert len(fitted.history_) == 0
        assert np.isfinite(fitted.transform(data)).all()

    def test_a_linear_untrained_gcn_is_propagated_features_times_weights(self):
        data = random_graph([30])
        fitted = node(num_layers=1, epochs=0, activation="prelu").fit(data)
        with torch.no_grad():
            # PReLU of slope 1 is the identity
            fitted.model_.encoder.activations[0].weight.fill_(1.0)
        expected = (
            propagated_features(data, level="node", hops=1)
            @ fitted.model_.encoder.convs[0].weight.detach().numpy()
        )
        np.testing.assert_allclose(fitted.transform(data), expected, rtol=1e-4, atol=1e-5)

    def test_concat_input_appends_the_features(self):
        data = random_graph([12])
        plain, wide = node().fit(data), node(concat_input=True).fit(data)
        rows = wide.transform(data)
        assert rows.shape == (12, 12) and wide.embedding_dim_ == 12
        np.testing.assert_array_equal(rows[:, 8:], data.x.numpy())
        np.testing.assert_array_equal(rows[:, :8], plain.transform(data))

    def test_sparse_and_dense_features_give_the_same_embedding(self):
        data = random_graph([25], one_hot=True)
        np.testing.assert_allclose(
            node().fit_transform(data), node().fit_transform(as_sparse(data)), rtol=1e-3, atol=1e-5
        )

    def test_ids_are_kept(self):
        names = np.array([f"n{i}" for i in range(6)])
        data = dataclasses.replace(random_graph([6]), node_ids=names)
        embedded = node().fit(data).embed(data)
        frame, table = embedded.to_pandas(), embedded.to_arrow()
        assert list(frame.index) == list(names) == table["id"].to_pylist()
        assert (
            list(frame.columns)
            == [f"e{i}" for i in range(8)]
            == list(node().fit(data).get_feature_names_out())
        )
        np.testing.assert_array_equal(frame.to_numpy(), embedded.values)

    @pytest.mark.parametrize("suffix", [".parquet", ".npz", ".csv"])
    def test_files_read_back(self, suffix, tmp_path):
        import pandas as pd

        data = dataclasses.replace(
            random_graph([6]), node_ids=np.array(list("abcdef"), dtype=object)
        )
        embedded = node().fit(data).embed(data)
        path = embedded.save(tmp_path / f"e{suffix}")
        if suffix == ".npz":
            with np.load(path, allow_pickle=False) as file:
                ids, values = file["ids"], file["embeddings"]
        else:
            frame = pd.read_parquet(path) if suffix == ".parquet" else pd.read_csv(path)
            ids, values = frame["id"], frame.drop(columns="id").to_numpy()
        assert list(ids) == list("abcdef")
        np.testing.assert_allclose(values, embedded.values, rtol=1e-6)
        with pytest.raises(OutputError, match="exists already"):
            embedded.save(path)
        with pytest.raises(
            OutputError, match=r"Embeddings are written as .parquet, .npz, .csv. Got 'e.xlsx'"
        ):
            embedded.save(tmp_path / "e.xlsx")

    def test_fit_does_not_change_its_input(self):
        data = random_graph([12])
        before = data.x.clone(), data.edge_index.clone()
        node().fit(data)
        assert torch.equal(data.x, before[0]) and torch.equal(data.edge_index, before[1])

    def test_new_graphs_of_another_width_are_refused(self):
        fitted = node().fit(random_graph([6]))
        with pytest.raises(InputError, match="5"):
            fitted.transform(random_graph([6], num_features=5))

    def test_degrees_stand_in_for_missing_features(self):
        data = dataclasses.replace(random_graph(SIZES), x=None)
        fitted = graph(degree_cap=3).fit(data)
        assert fitted.n_features_in_ == 4
        star = (np.array([[0] * 9, list(range(1, 10))]), None)
        with pytest.warns(UserWarning, match="read in both directions"):
            assert fitted.transform(star).shape == (1, 24)

    @pytest.mark.parametrize("size", [1, 2])
    def test_tiny_graphs_work(self, size):
        x = np.ones((size, 3), dtype=np.float32)
        with pytest.warns(UserWarning, match="no edges"):
            rows = node().fit_transform((np.zeros((2, 0), dtype=int), x))
        assert rows.shape == (size, 8) and np.isfinite(rows).all()

    def test_constant_features_work(self):
        data = dataclasses.replace(random_graph([7]), x=torch.ones(7, 3))
        assert np.isfinite(node(epochs=20).fit_transform(data)).all()


class TestOwnEncoder:
    @pytest.mark.parametrize("make", [node, graph])
    def test_works_in_both_estimators(self, make, tmp_path):
        data, own = random_graph(SIZES), OwnEncoder()
        before = own.linear.weight.detach().clone()
        fitted = make(encoder=own).fit(data)
        assert torch.equal(own.linear.weight, before)  # fit trains a copy
        assert fitted.transform(data).shape == ((45, 6) if make is node else (10, 6))
        assert not torch.equal(fitted.model_.encoder.module.linear.weight, before)
        folder = fitted.save(tmp_path / "model")
        loaded = type(fitted).load(folder, encoder=OwnEncoder())
        np.testing.assert_array_equal(loaded.transform(data), fitted.transform(data))
        with pytest.raises(
            ConfigError,
            match=(
                r"was trained with your own encoder OwnEncoder. Load it with"
                r" encoder=OwnEncoder\(...\)"
            ),
        ):
            type(fitted).load(folder)

    def test_pygs_own_model_works(self):
        from torch_geometric.nn import GCN

        data = random_graph([20], weighted=True)
        assert node(encoder=GCN(4, 6, num_layers=2)).fit_transform(data).shape == (20, 6)

    def test_sparse_features_reach_it_dense(self):
        assert node(encoder=OwnEncoder()).fit_transform(
            as_sparse(random_graph([9], one_hot=True))
        ).shape == (9, 6)


class TestSaving:
    @pytest.mark.parametrize("make", [node, graph])
    def test_loaded_equals_saved(self, make, tmp_path):
        data = random_graph(SIZES)
        fitted = make(alpha=1.5, num_layers=3).fit(data)
        loaded = type(fitted).load(fitted.save(tmp_path / "model"))
        assert to_mapping(loaded.settings_) == to_mapping(fitted.settings_)
        assert loaded.alpha == 1.5 and loaded.num_layers == 3
        assert loaded.history_ == fitted.history_ and loaded.embedding_dim_ == fitted.embedding_dim_
        np.testing.assert_array_equal(loaded.transform(data), fitted.transform(data))

    def test_only_plain_formats(self, tmp_path):
        folder = node().fit(random_graph([6])).save(tmp_path / "model")
        names = sorted(p.name for p in folder.iterdir())
        assert names == [
            "config.toml",
            "features.json",
            "history.csv",
            "manifest.json",
            "model.safetensors",
            "versions.json",
        ]

    def test_an_existing_folder_is_refused(self, tmp_path):
        fitted = node().fit(random_graph([6]))
        fitted.save(tmp_path / "model")
        with pytest.raises(
            OutputError, match=r"exists already. Choose another path, or allow replacing it"
        ):
            fitted.save(tmp_path / "model")
        assert fitted.save(tmp_path / "model", overwrite=True).is_dir()

    def test_a_path_that_cannot_be_written(self, tmp_path):
        (tmp_path / "file").write_text("")
        with pytest.raises(OutputError, match="Cannot write"):
            node().fit(random_graph([6])).save(tmp_path / "file" / "model")

    def test_whatever_method_and_level_are_loaded(self, tmp_path):
        graphs = random_graph([6, 5])
        for estimator in (node(), GraphLaGraph(hidden_dim=4, epochs=1, device="cpu")):
            folder = estimator.fit(graphs).save(tmp_path / type(estimator).__name__)
            loaded = load_estimator(folder)
            assert type(loaded) is type(estimator)
            np.testing.assert_array_equal(loaded.transform(graphs), estimator.transform(graphs))

    def test_the_other_level_is_refused(self, tmp_path):
        folder = node().fit(random_graph([6])).save(tmp_path / "model")
        with pytest.raises(
            RunFolderError,
            match=r"node-level model of the method 'lagraph', which GraphLaGraph is not",
        ):
            GraphLaGraph.load(folder)


def test_devices():
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
