"""Tests of every registered method."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from sklearn.base import clone
from torch import nn

from cases import as_sparse, random_graph
from graphlatent.data.synthetic import latent_graph
from graphlatent.errors import ConfigError, TrainingInterrupted
from graphlatent.io.runfolder import RunFolder
from graphlatent.methods.registry import estimator_class, load_estimator, method_names
from graphlatent.training.loop import Hooks

EVERY = [(name, level) for level in ("node", "graph") for name in method_names(level)]
GRAPHS = random_graph([6, 5, 7, 4], num_features=9, one_hot=True)


def small(name, level, **values):
    defaults = {"hidden_dim": 8, "epochs": 6, "device": "cpu", "patience": None}
    return estimator_class(name, level)(**{**defaults, **values})


@pytest.mark.parametrize(("name", "level"), EVERY)
class TestEveryMethod:
    def test_the_history_has_every_term_and_is_finite(self, name, level):
        fitted = small(name, level).fit(GRAPHS)
        history = fitted.history_
        assert tuple(history.terms) == fitted.method_.term_names
        table = np.array(list(history.columns().values()))
        # Epoch, loss, learning rate, norm of the gradient
        assert table.shape == (4 + len(history.terms), 6) and np.isfinite(table).all()

    def test_training_lowers_the_loss(self, name, level):
        graph = latent_graph(num_nodes=150, feature_dim=12, num_classes=3).graph
        graph = GRAPHS if level == "graph" else graph
        values = {"epochs": 60, "lr": 0.01, "hidden_dim": 16, "warmup_ratio": 0.0}
        loss = small(name, level, **values).fit(graph).history_.loss
        assert np.mean(loss[-5:]) < 0.97 * np.mean(loss[:5])

    def test_the_seed_determines_the_result(self, name, level):
        a, b, c = (small(name, level, random_state=s).fit_transform(GRAPHS) for s in (0, 0, 1))
        np.testing.assert_array_equal(a, b)
        assert not np.array_equal(a, c)

    def test_resumed_after_any_step_is_bit_identical(self, name, level, tmp_path):
        values = {"batch_size": 2} if level == "graph" else {"steps_per_epoch": 2}
        whole = small(name, level, **values).fit(GRAPHS)
        for stop_after in (1, 4, 7):
            asked, run = [], RunFolder(tmp_path / str(stop_after))

            def stop(asked=asked, stop_after=stop_after) -> bool:
                asked.append(1)
                return len(asked) == stop_after

            hooks = Hooks(save=run.save_snapshot, stop_requested=stop)
            with pytest.raises(TrainingInterrupted):
                small(name, level, **values).fit(GRAPHS, run=run, hooks=hooks)
            resumed = small(name, level, **values).fit(GRAPHS, run=run)
            assert resumed.history_ == whole.history_
            for key, value in whole.model_.state_dict().items():
                assert torch.equal(value, resumed.model_.state_dict()[key]), key

    def test_loaded_equals_saved(self, name, level, tmp_path):
        fitted = small(name, level).fit(GRAPHS)
        loaded = load_estimator(fitted.save(tmp_path / "model"))
        assert type(loaded) is type(fitted) and loaded.history_ == fitted.history_
        np.testing.assert_array_equal(loaded.transform(GRAPHS), fitted.transform(GRAPHS))

    def test_embeddings_do_not_depend_on_the_rest_of_the_batch(self, name, level):
        fitted = small(name, level).fit(GRAPHS)
        new = random_graph([5, 3], num_features=9, one_hot=True, seed=3)
        alone = dataclasses.replace(
            new,
            edge_index=new.edge_index[:, new.edge_index[0] < 5],
            num_nodes=5,
            ptr=torch.tensor([0, 5]),
            x=new.x[:5],
        )
        rows = 5 if level == "node" else 1
        both, one = fitted.transform(new)[:rows], fitted.transform(alone)
        np.testing.assert_allclose(both, one, rtol=1e-4, atol=1e-5)

    def test_sparse_and_dense_features_give_the_same_loss(self, name, level):
        dense, sparse = (
            small(name, level, features=form).fit(graph).history_.loss
            for form, graph in (("dense", GRAPHS), ("sparse", as_sparse(GRAPHS)))
        )
        np.testing.assert_allclose(dense, sparse, rtol=1e-4)

    def test_a_custom_encoder_is_trained(self, name, level):
        class Own(nn.Module):
            def __init__(self):
                super().__init__()
                torch.manual_seed(0)
                self.linear = nn.Linear(9, 7)

            def forward(self, x, edge_index, edge_weight=None):
                out = self.linear(x)
                return out.index_add(0, edge_index[1], out[edge_index[0]])

        fitted = small(name, level, encoder=Own(), epochs=3).fit(GRAPHS)
        assert np.isfinite(fitted.history_.loss).all()
        # The default of LaGraph has x, A^2 x and A^2 1 beside it; of graphs sums and means of x,
        # and sum, mean and maximum of the encoder's output.
        widths = {("lagraph", "node"): 9 + 9 + 1 + 7, ("lagraph", "graph"): 2 * 9 + 3 * 7}
        assert fitted.embedding_dim_ == widths.get((name, level), 7)
        plain = {"node": {"embedding": "encoder"}, "graph": {"embedding": "readout"}}[level]
        if level == "graph":
            plain["readout"] = "sum"
        assert small(name, level, encoder=Own(), epochs=3, **plain).fit(GRAPHS).embedding_dim_ == 7

    def test_scikit_learn_conventions(self, name, level):
        estimator = small(name, level)
        assert clone(estimator).get_params() == estimator.get_params()
        assert type(estimator).__name__ in repr(estimator)
        frame = estimator.set_output(transform="pandas").fit_transform(GRAPHS)
        assert list(frame.columns) == list(estimator.get_feature_names_out())

    def test_zero_epochs_keep_the_initial_encoder(self, name, level):
        fitted = small(name, level, epochs=0).fit(GRAPHS)
        assert len(fitted.history_) == 0
        assert np.isfinite(fitted.transform(GRAPHS)).all()


@pytest.mark.parametrize("name", method_names("node"))
def test_training_on_induced_subgraphs(name):
    estimator = small(name, "node", batching="nodes", nodes_per_step=9, steps_per_epoch=3)
    assert np.isfinite(estimator.fit(GRAPHS).history_.loss).all()


def test_an_unknown_method_is_an_error_that_lists_the_known_ones():
    with pytest.raises(ConfigError, match=r"no method 'lagrph' at node level.*'lagraph'"):
        estimator_class("lagrph", "node")
    with pytest.raises(ConfigError, match="'dgi' at graph level: it embeds nodes only"):
        estimator_class("dgi", "graph")
