"""Settings of the cosine objective and of the presets."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from cases import random_graph
from graphlatent import GraphLaGraph, NodeLaGraph
from graphlatent.bench.loading import load_recipe
from graphlatent.config import resolve
from graphlatent.data.assemble import assemble
from graphlatent.data.graph import RawGraph
from graphlatent.data.readers.options import TableOptions
from graphlatent.errors import ConfigError
from graphlatent.methods.lagraph import settings as lagraph_settings
from graphlatent.methods.lagraph.settings import (
    GRAPH_PRESETS,
    GRAPH_SIZES,
    NODE_PRESETS,
    NODE_SIZES,
)


@pytest.mark.parametrize(
    ("cls", "values", "message"),
    [
        (
            NodeLaGraph,
            {"reconstruction_weight": 0.0, "masked_weight": 0.0, "latent_weight": 0.0},
            "NodeLaGraph has nothing to learn: reconstruction_weight, masked_weight,"
            " latent_weight, alpha are all 0. Give one of them a positive value, or use"
            " epochs=0 for the random initial encoder.",
        ),
        (
            NodeLaGraph,
            {"preset": "paper", "edge_drop": 0.1},
            "edge_drop and feature_drop of NodeLaGraph need objective='cosine': in the paper"
            " the views differ in the features of masked nodes only.",
        ),
        (
            GraphLaGraph,
            {"objective": "mse-embed", "feature_drop": 0.1},
            "edge_drop and feature_drop of GraphLaGraph need objective='cosine': in the paper"
            " the views differ in the features of masked nodes only.",
        ),
        *(
            (
                GraphLaGraph,
                wrong,
                "objective='cosine' of GraphLaGraph needs decoder='mlp',"
                " output_activation='none' and last_norm=False. Leave them out, or use an"
                " objective of the paper.",
            )
            for wrong in (
                {"decoder": "gnn"},
                {"output_activation": "relu"},
                {"last_norm": True},
                {"preset": "released", "objective": "cosine"},
            )
        ),
        (
            GraphLaGraph,
            {"encoder": "gcn", "edge_drop": 0.1},
            "edge_drop of GraphLaGraph needs encoder='gin' or a module of your own. Got 'gcn'.",
        ),
        (
            NodeLaGraph,
            {"momentum": 1.5},
            "The 'momentum' parameter of NodeLaGraph must be a float in the range [0, 1] or"
            " None. Got 1.5 instead.",
        ),
    ],
)
def test_mistakes(cls, values, message):
    with pytest.raises(ConfigError) as caught:
        cls(device="cpu", **values).fit(random_graph([4]))
    assert str(caught.value) == message


def test_alpha_alone_is_something_to_learn():
    zero = {"reconstruction_weight": 0.0, "masked_weight": 0.0, "latent_weight": 0.0}
    fitted = NodeLaGraph(alpha=1.0, epochs=1, hidden_dim=4, device="cpu", **zero)
    assert list(fitted.fit(random_graph([5])).history_.terms) == ["invariance"]


def test_a_weight_of_0_is_no_column_of_the_history():
    graph = random_graph([5])
    fitted = NodeLaGraph(epochs=1, hidden_dim=4, device="cpu").fit(graph)
    names = ["reconstruction", "masked_reconstruction", "latent"]
    assert list(fitted.history_.terms) == names
    fitted.set_params(variance_weight=1.0).fit(graph)
    assert list(fitted.history_.terms) == [*names, "variance"]


# The defaults before there was a preset 'plus'.
PAPER = {
    "objective": "mse-embed",
    "mask_ratio": 0.05,
    "mask_value": "noise",
    "loss_reduction": "sum",
    "last_norm": False,
    "output_activation": "none",
    "mask_rounding": "round",
    "variance_weight": 0.0,
    "scale_features": False,
    "structure": "none",
}
NODE = {"hidden_dim": 512, "num_layers": 2, "decoder_layers": 1, "alpha": 2.0}
NODE |= {"embedding": "encoder", "epochs": 200, "lr": 1e-3}
GRAPH = {"hidden_dim": 128, "num_layers": 3, "decoder_layers": 2, "alpha": 10.0}
GRAPH |= {"readout": "sum", "embedding": "readout", "epochs": 10, "lr": 1e-4}
RELEASED = {"loss_reduction": "mean", "last_norm": True, "output_activation": "relu"}
RELEASED |= {"mask_rounding": "floor"}


@pytest.mark.parametrize("level", ["node", "graph"])
def test_the_preset_of_the_paper_has_the_old_defaults(level):
    of_level = NODE if level == "node" else GRAPH
    cls = NodeLaGraph if level == "node" else GraphLaGraph
    for preset, more in {"paper": {}, "released": RELEASED}.items():
        expected = {**PAPER, **of_level, **more}
        resolved = cls(preset=preset)._resolved()
        assert {name: getattr(resolved, name) for name in expected} == expected
        presets = NODE_PRESETS if level == "node" else GRAPH_PRESETS
        # No preset gives a setting that another leaves open.
        assert set(presets[preset]) == set(presets["plus"]) == set(expected)


def test_the_default_is_plus():
    assert NodeLaGraph().preset == GraphLaGraph().preset == "plus"
    node, graph = NodeLaGraph()._resolved(), GraphLaGraph()._resolved()
    assert (node.objective, node.mask_value, node.variance_weight) == ("cosine", "token", 1.0)
    assert (node.hidden_dim, node.num_layers, node.epochs, node.lr) == (512, 2, 100, 1e-3)
    assert (node.mask_ratio, node.alpha, node.embedding) == (0.75, 0.0, "combined")
    assert (graph.hidden_dim, graph.num_layers, graph.epochs, graph.lr) == (256, 3, 20, 5e-4)
    assert (graph.mask_ratio, graph.readout, graph.embedding) == (0.5, "root", "combined")
    assert node.structure == graph.structure == "auto" and node.momentum is None


@pytest.mark.parametrize(
    ("cls", "size", "hidden_dim", "epochs"),
    [
        (NodeLaGraph, "small", 128, 100),
        (NodeLaGraph, "base", 512, 100),
        (NodeLaGraph, "large", 1024, 300),
        (GraphLaGraph, "small", 64, 20),
        (GraphLaGraph, "base", 256, 20),
        (GraphLaGraph, "large", 512, 40),
    ],
)
def test_sizes(cls, size, hidden_dim, epochs):
    found = cls(size=size)._resolved()
    assert (found.hidden_dim, found.epochs) == (hidden_dim, epochs)
    # Settings that are given come before those of the size.
    assert cls(size=size, hidden_dim=7)._resolved().hidden_dim == 7
    with pytest.raises(ConfigError, match="size"):
        cls(size="huge")._resolved()


def test_sizes_are_those_of_the_ablation_tables():
    """The lines 'small' and 'large' measure what the sizes set."""
    for table, sizes in (("plus/CS", NODE_SIZES), ("plus-graphs/NCI1", GRAPH_SIZES)):
        for size in ("small", "large"):
            assert load_recipe(f"{table}-{size}").changes == sizes[size]


def test_a_size_of_the_paper_is_refused():
    with pytest.raises(ConfigError) as caught:
        NodeLaGraph(preset="paper", size="small")._resolved()
    assert "size" in str(caught.value) and "preset='plus'" in str(caught.value)


def test_the_default_is_smaller_for_large_graphs():
    def sizes(num_nodes, cls=NodeLaGraph, **values):
        settings = cls(**values).settings_class(**cls(**values).get_params())
        adapted = resolve(settings.adapted_to(num_nodes), owner="test")
        return adapted.hidden_dim, adapted.epochs

    assert sizes(50_000) == (512, 100)
    assert sizes(50_001) == (128, 59)
    assert sizes(100_000) == (128, 30)
    assert sizes(10_000_000) == (128, 10)
    # What is set, other sizes, presets and levels stay as they are.
    assert sizes(100_000, hidden_dim=300) == (300, 30)
    assert sizes(100_000, epochs=0) == (128, 0)
    assert sizes(100_000, size="small") == (128, 30)
    assert sizes(100_000, size="large") == (1024, 300)
    # Steps on parts of the graph take no longer in a larger one.
    assert sizes(100_000, batching="nodes") == (512, 100)
    assert sizes(100_000, preset="paper") == (512, 200)
    assert sizes(100_000, cls=GraphLaGraph) == (256, 20)


def test_small_graphs_have_a_narrower_encoder_and_no_variance_term():
    def adapted(num_nodes, cls=NodeLaGraph, **values):
        settings = cls(**values).settings_class(**cls(**values).get_params())
        found = resolve(settings.adapted_to(num_nodes), owner="test")
        return found.hidden_dim, found.variance_weight, found.epochs

    assert adapted(5_000) == (256, 0, 100)
    assert adapted(5_001) == (512, 1, 100)
    # What is set, and the width of other sizes, stay as they are.
    assert adapted(5_000, hidden_dim=300, variance_weight=0.5) == (300, 0.5, 100)
    assert adapted(5_000, size="small") == (128, 0, 100)
    assert adapted(5_000, size="large") == (1024, 0, 300)
    assert adapted(5_000, preset="paper") == (512, 0, 200)
    assert adapted(5_000, cls=GraphLaGraph) == (256, 1, 20)


def test_fit_adapts_to_the_graph(monkeypatch, tmp_path):
    monkeypatch.setattr(lagraph_settings, "SMALL_GRAPH", 10)
    monkeypatch.setattr(lagraph_settings, "LARGE_GRAPH", 20)
    monkeypatch.setattr(lagraph_settings, "_NODE_EPOCHS", 60)
    monkeypatch.setattr(lagraph_settings, "_LEAST_EPOCHS", 1)
    graph = random_graph([30])
    fitted = NodeLaGraph(device="cpu").fit(graph)
    assert (fitted.settings_.hidden_dim, fitted.settings_.epochs) == (128, 2)
    assert len(fitted.history_.loss) == 2
    assert fitted.hidden_dim is None
    monkeypatch.undo()
    # A saved model has its own size, whatever the rule is then.
    loaded = NodeLaGraph.load(fitted.save(tmp_path / "model"))
    np.testing.assert_array_equal(loaded.transform(graph), fitted.transform(graph))


class TestGraphsWithoutFeatures:
    """The default embedding of graphs has pooled features only where there are any."""

    @pytest.mark.parametrize(
        ("x", "embedding"),
        [
            (torch.randn(34, 2, generator=torch.Generator().manual_seed(0)), "combined"),
            (None, "standard"),
            (torch.ones(34, 1), "standard"),
        ],
        ids=["given", "none", "all equal"],
    )
    def test_what_is_chosen(self, x, embedding):
        data = dataclasses.replace(random_graph([5, 4, 3, 6, 2, 7, 4, 3]), x=x)
        fitted = GraphLaGraph(hidden_dim=4, epochs=1, device="cpu").fit(data)
        assert fitted.settings_.embedding == embedding

    @pytest.mark.parametrize(
        "values", [{"embedding": "combined"}, {"feature_weight": 0.5}, {"embedding": "readout"}]
    )
    def test_what_was_asked_for_stays(self, values):
        data = dataclasses.replace(random_graph([5, 4, 3, 6]), x=None)
        fitted = GraphLaGraph(hidden_dim=4, epochs=1, device="cpu", **values).fit(data)
        assert fitted.settings_.embedding == values.get("embedding", "combined")

    def test_the_weight_of_features_needs_them(self):
        with pytest.raises(ConfigError, match="feature_weight"):
            GraphLaGraph(embedding="standard", feature_weight=2.0)._resolved()

    def test_a_constant_column_with_an_imputed_number_is_no_feature(self):
        # Filled with the mean it is constant, and alone it would give an embedding of zeros.
        made = RawGraph([[0, 1, 2], [1, 2, 0]], 3, columns={"v": np.full(3, 5.0)}, directed=False)
        other = RawGraph(
            [[0, 1], [1, 2]], 3, columns={"v": np.array([5, np.nan, 5])}, directed=False
        )
        graphs = dataclasses.replace(assemble([made, other]), reading=TableOptions(impute="mean"))
        model = GraphLaGraph(hidden_dim=4, epochs=1, device="cpu").fit(graphs)
        assert model.settings_.embedding == "standard"
        assert np.abs(model.transform(graphs)).max() > 0
