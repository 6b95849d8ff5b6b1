"""`predict_latent`: denoised and completed features."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from graphlatent import GraphLaGraph, GraphLatentWarning, NodeLaGraph, read_graphs
from graphlatent.data.synthetic import latent_graph
from graphlatent.errors import ConfigError, GraphLatentError, InputError
from graphlatent.methods.lagraph.latent import (
    calibration,
    combined,
    held_out_prediction,
    with_length_of,
)

PAPER = {"preset": "paper", "hidden_dim": 32, "epochs": 60, "lr": 5e-3}
DENOISE = {**PAPER, "objective": "denoise", "mask_ratio": 0.2}


@pytest.fixture(scope="module")
def made():
    return latent_graph(num_nodes=300, feature_dim=12, sigma=1.0)


@pytest.fixture(scope="module")
def fitted(made):
    return NodeLaGraph(**DENOISE).fit(made.graph)


def error(predicted, made):
    return float(((torch.as_tensor(predicted) - made.latent) ** 2).mean())


def averaged(graph):
    source, target = graph.edge_index
    count = 1 + torch.bincount(target, minlength=graph.num_nodes)[:, None]
    return graph.x.index_add(0, target, graph.x[source]) / count


def test_combination_by_hand():
    x = torch.tensor([[2.0], [0.0]])
    blind, observed = torch.tensor([[0.0], [2.0]]), torch.ones(2, 1)
    # E (x - b)^2 = 4, of which a quarter is noise.
    found = combined(x, blind, observed, torch.tensor([1.0]))
    assert found.flatten().tolist() == [1.5, 0.5]
    assert torch.equal(combined(x, blind, observed, torch.tensor([9.0])), blind)
    assert torch.equal(combined(x, blind, observed, torch.tensor([0.0])), x)
    assert torch.equal(combined(x, x, observed, torch.tensor([1.0])), x)


def test_calibration_is_least_squares_on_what_is_compared():
    rng = np.random.default_rng(0)
    x, predicted = rng.normal(size=(2, 50, 3))
    predicted[:, 0] = 0.1 * x[:, 0] + 5 + 0.03 * predicted[:, 0]
    predicted[:, 1] = -x[:, 1]
    predicted[:, 2] = 7
    used = (rng.random((50, 3)) < 0.6).astype(float)
    parts = (torch.from_numpy(each) for each in (predicted, x, used))
    found = calibration(*parts)(torch.from_numpy(predicted)).numpy()
    seen = used[:, 0] > 0
    line, covariance = np.polyfit(predicted[seen, 0], x[seen, 0], 1, cov=True)
    shrunk = line[0] * (1 - covariance[0, 0] / line[0] ** 2)
    mean, centre = x[seen, 0].mean(), predicted[seen, 0].mean()
    np.testing.assert_allclose(found[:, 0], mean + shrunk * (predicted[:, 0] - centre))
    # A prediction that is wrong in sign, or constant, is replaced by the mean.
    for column in (1, 2):
        seen = used[:, column] > 0
        np.testing.assert_allclose(found[:, column], x[seen, column].mean())


def test_a_line_through_two_points_is_chance():
    x, predicted = torch.tensor([[1.0], [3.0], [9.0]]), torch.tensor([[0.0], [1.0], [2.0]])
    used = torch.tensor([[1.0], [1.0], [0.0]])
    assert calibration(predicted, x, used)(predicted).flatten().tolist() == [2.0, 2.0, 2.0]


def test_calibrated_noise_is_no_worse_than_the_mean():
    """Predictions without any information, of columns with few entries to compare."""
    generator = torch.Generator().manual_seed(0)
    x, predicted = torch.randn(2, 2000, 500, generator=generator)
    used = torch.zeros(2000, 500)
    used[:8] = 1
    rest = x[8:]
    found = calibration(predicted, x, used)(predicted)[8:]
    lost = float((found - rest).square().mean() / (x[:8].mean(0) - rest).square().mean())
    assert lost < 1.05


def test_entries_that_are_compared_are_hidden():
    """Where the network copies its input, hidden entries are predicted by what stands for gaps."""
    rng = np.random.default_rng(0)
    columns = torch.tensor([0, 1, 1, 2])
    gaps = torch.from_numpy(rng.random((200, 3)) < 0.3)[:, columns]
    gaps[:, 3] = False
    encoded = torch.from_numpy(rng.normal(size=(200, 5))).float()
    guess = torch.tensor([4.0, -1.0, 0.0, 7.0])
    encoded[:, :4] = torch.where(gaps, guess, encoded[:, :4])
    shown = []

    def copied(view, seen):
        assert torch.equal(view[:, 4], encoded[:, 4]) and not bool((seen & gaps).any())
        assert torch.equal(seen[:, 1], seen[:, 2])
        shown.append(seen)
        return view[:, :4]

    predicted, used = held_out_prediction(
        copied, encoded, gaps, columns, generator=torch.Generator().manual_seed(0)
    )
    # Every observed entry of a column with gaps, once; those of the last column are not needed.
    needed = ~gaps & (torch.arange(4) < 3)
    assert torch.equal(used, needed)
    hidden = torch.stack([~seen & ~gaps for seen in shown])
    assert torch.equal(hidden.sum(0), needed.long())
    torch.testing.assert_close(predicted, needed * guess)


def test_lengths_by_hand():
    direction = torch.tensor([[1.0, 1.0], [1.0, 0.0], [0.0, 0.0]])
    x, observed = torch.tensor([[3.0, 9.0], [-2.0, 1.0], [1.0, 1.0]]), torch.ones(3, 2)
    observed[0, 1] = 0
    found = with_length_of(direction, x, observed)
    assert found.tolist() == [[3.0, 3.0], [0.0, 0.0], [0.0, 0.0]]


def test_it_is_closer_to_the_latent_features_than_raw_and_averages(made, fitted):
    graph = made.graph
    limit = 0.9 * min(error(graph.x, made), error(averaged(graph), made))
    assert error(fitted.predict_latent(graph, sigma=1.0), made) < limit
    assert error(fitted.predict_latent(graph), made) < limit
    untrained = NodeLaGraph(**{**DENOISE, "epochs": 0}).fit(graph)
    assert error(untrained.predict_latent(graph, sigma=1.0), made) > limit


@pytest.mark.parametrize("settings", [PAPER, {"hidden_dim": 32, "epochs": 100, "lr": 3e-3}])
def test_other_objectives(made, settings):
    estimator = NodeLaGraph(**settings).fit(made.graph)
    limit = 0.9 * min(error(made.graph.x, made), error(averaged(made.graph), made))
    assert error(estimator.predict_latent(made.graph, sigma=1.0), made) < limit


def test_a_node_is_predicted_without_its_own_features(made, fitted):
    """With all variance called noise, the features of a node do not reach its own prediction."""
    before = fitted.predict_latent(made.graph, sigma=1e6)
    x = made.graph.x.clone()
    x[7] += 50
    after = fitted.predict_latent(made.graph.with_features(x), sigma=1e6)
    source, target = made.graph.edge_index
    neighbours = source[target == 7]
    own, around = np.abs(after - before)[7].max(), np.abs(after - before)[neighbours].max()
    # Not 0: the calibration sees all nodes.
    assert own < 0.3 * around


def test_missing_entries(made):
    generator = torch.Generator().manual_seed(0)
    latent = made.latent
    known = torch.rand(latent.shape, generator=generator) > 0.3
    mean = (latent * known).sum(0) / known.sum(0)
    x = torch.where(known, latent, mean)
    graph = made.graph.with_features(x)
    estimator = NodeLaGraph(**PAPER).fit(graph)
    found = torch.from_numpy(estimator.predict_latent(graph, sigma=0, missing=(~known).numpy()))
    torch.testing.assert_close(found[known], latent[known], rtol=1e-4, atol=1e-4)
    around = averaged(graph)
    gaps = {
        name: float((each - latent)[~known].square().mean())
        for name, each in {"found": found, "mean": x, "around": around}.items()
    }
    assert gaps["found"] < 0.8 * min(gaps["mean"], gaps["around"])


@pytest.mark.parametrize("settings", [PAPER, {"hidden_dim": 32, "epochs": 60}])
@pytest.mark.parametrize("share", [0.3, 0.9])
def test_unpredictable_entries_are_filled_by_the_mean(settings, share):
    """Independent features: what the network saw of them says nothing about what is missing."""
    generator = torch.Generator().manual_seed(1)
    made = latent_graph(num_nodes=200, feature_dim=10)
    truth = torch.randn(200, 10, generator=generator)
    missing = torch.rand(200, 10, generator=generator) < share
    mean = (truth * ~missing).sum(0) / (~missing).sum(0)
    graph = made.graph.with_features(torch.where(missing, mean, truth))
    estimator = NodeLaGraph(**settings, on_collapse="ignore").fit(graph)
    found = torch.from_numpy(estimator.predict_latent(graph, sigma=0, missing=missing.numpy()))
    gaps = {
        name: float((each - truth)[missing].square().mean())
        for name, each in {"found": found, "mean": mean.expand(200, 10)}.items()
    }
    assert gaps["found"] < 1.03 * gaps["mean"]


def test_nothing_is_known_of_a_column_without_observed_entries(made, fitted):
    missing = np.zeros((300, 12), dtype=bool)
    missing[:, 2] = True
    found = fitted.predict_latent(made.graph, sigma=0, missing=missing)
    np.testing.assert_allclose(found, made.graph.x, rtol=1e-4, atol=1e-4)
    found = fitted.predict_latent(made.graph, sigma=0, missing=np.ones((300, 12), dtype=bool))
    np.testing.assert_allclose(found, made.graph.x, rtol=1e-4, atol=1e-4)


def test_columns_of_a_table_come_back_in_their_units(tmp_path):
    rng = np.random.default_rng(0)
    kind = np.repeat([0, 1], 40)
    age = np.where(kind == 0, 20.0, 70.0) + rng.normal(size=80)
    nodes = pd.DataFrame({"id": np.arange(80), "age": age, "plan": np.array(["a", "b"])[kind]})
    nodes.loc[[3, 50], "age"] = np.nan
    ends = np.concatenate([rng.integers(0, 40, (200, 2)), rng.integers(40, 80, (200, 2))])
    ends = np.concatenate([ends, ends[:, ::-1]])
    edges = pd.DataFrame(ends, columns=["source", "target"])
    graph = read_graphs(edges, nodes=nodes, impute="mean")
    for settings in (PAPER, {"hidden_dim": 16, "epochs": 40}):
        with pytest.warns(GraphLatentWarning, match="filled with the mean: 'age'"):
            estimator = NodeLaGraph(**settings).fit(graph)
        found = estimator.predict_latent(graph, sigma=0)
        assert estimator.features_.names == ["age", "plan=a", "plan=b"]
        kept = ~np.isnan(nodes["age"].to_numpy())
        np.testing.assert_allclose(found[kept, 0], age[kept], rtol=1e-3)
        assert abs(found[3, 0] - 20) < 10 and abs(found[50, 0] - 70) < 10


def test_small_graphs():
    edges = np.array([[0, 1], [1, 0]])
    x = np.array([[1.0, 2.0], [3.0, 2.0]], dtype=np.float32)
    estimator = NodeLaGraph(**{**PAPER, "epochs": 1}).fit((edges, x))
    assert np.isfinite(estimator.predict_latent((edges, x), sigma=0.5)).all()
    np.testing.assert_allclose(estimator.predict_latent((edges, x), sigma=0), x, rtol=1e-5)


def test_any_number_is_a_noise(made, fitted):
    """NumPy's numbers too, and numbers whose square is not finite."""
    found = [fitted.predict_latent(made.graph, sigma=s) for s in (0.5, np.float32(0.5))]
    np.testing.assert_array_equal(*found)
    found = [fitted.predict_latent(made.graph, sigma=s) for s in (1e6, 10**30, 1e200)]
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def test_mistakes(made, fitted):
    for sigma in (-1, float("nan"), float("inf"), True, "1", 10**400):
        with pytest.raises(ConfigError, match=r"'sigma' parameter of predict_latent must be None"):
            fitted.predict_latent(made.graph, sigma=sigma)
    with pytest.raises(InputError, match=r"bool array of shape \(300, 12\).*Got int64 \(2,\)"):
        fitted.predict_latent(made.graph, missing=np.array([1, 2]))
    with pytest.raises(GraphLatentError, match="is not fitted yet"):
        NodeLaGraph().predict_latent(made.graph)
    assert not hasattr(GraphLaGraph(), "predict_latent")
    rng = np.random.default_rng(0)
    unrelated = made.graph.with_features(torch.from_numpy(rng.normal(size=(300, 12))).float())
    with pytest.raises(InputError, match=r"The noise cannot be estimated.*Give sigma"):
        fitted.predict_latent(unrelated)
    featureless = made.graph.without_features()
    with pytest.raises(InputError, match="fitted on graphs without features"):
        NodeLaGraph(epochs=1, hidden_dim=4).fit(featureless).predict_latent(featureless)
    for settings, message in (
        ({"row_normalize": True}, "needs row_normalize=False"),
        ({"objective": "ce-embed", "preset": "paper"}, "whose decoder predicts features"),
    ):
        x = torch.eye(12)[torch.arange(300) % 12]
        one_hot = made.graph.with_features(x)
        estimator = NodeLaGraph(**{**PAPER, "epochs": 1, **settings}).fit(one_hot)
        with pytest.raises(ConfigError, match=message):
            estimator.predict_latent(one_hot)
