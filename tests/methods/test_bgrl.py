"""BGRL against an independent rewrite of the paper's formulas."""

from __future__ import annotations

import dataclasses

import pytest
import reference_bgrl
import torch

from cases import as_sparse, generator, random_graph
from graphlatent.config import resolve
from graphlatent.data.batches import full_batch
from graphlatent.errors import InputError
from graphlatent.methods.base import combine
from graphlatent.methods.bgrl import BGRL, BGRLSettings, NodeBGRL
from graphlatent.ops.feature_views import MaskedColumns
from graphlatent.training.stepper import learning_rate


def test_the_reference_gives_values_computed_by_hand():
    reference_bgrl.check_by_hand()


def make(**values):
    settings = resolve(
        BGRLSettings(**{"hidden_dim": 5, "out_dim": 3, "predictor_dim": 4, **values}), owner="x"
    )
    return BGRL(settings, level="node")


def layers_of(encoder):
    return [
        {
            "weight": conv.weight,
            "bias": conv.bias,
            "slope": activation.weight.squeeze(),
            "gamma": norm.weight,
            "beta": norm.bias,
        }
        for conv, activation, norm in zip(
            encoder.convs, encoder.activations, encoder.norms, strict=True
        )
    ]


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("some_count", [False, True])
@pytest.mark.parametrize("num_nodes", [3, 9])
def test_loss_and_gradient_equal_the_reference(num_nodes, some_count, sparse):
    method, gen = make(), generator(num_nodes)
    graph = random_graph([num_nodes], weighted=True, one_hot=sparse, seed=num_nodes)
    pairs, weights = graph.edge_index.T.tolist(), graph.edge_weight.tolist()
    edges = [(s, t, w) for (s, t), w in zip(pairs, weights, strict=True)]
    x = graph.x.double()
    graph = as_sparse(graph) if sparse else graph
    model = method.build(4, generator=generator(0)).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=gen).double()
    batch = full_batch(
        graph,
        prepare=lambda e: method.prepare(model, e),
        device=torch.device("cpu"),
        dtype=torch.float64,
    )
    counts = torch.arange(num_nodes) % 3 != 1 if some_count else None
    batch = dataclasses.replace(batch, counts=counts)
    views, kept = [], []
    for _ in range(2):
        keep_edges = torch.rand(len(edges), generator=gen) < 0.7
        keep_features = torch.tensor([True, True, bool(torch.rand((), generator=gen) < 0.5), True])
        place = torch.zeros(num_nodes, num_nodes, dtype=torch.bool)
        place[graph.edge_index[1], graph.edge_index[0]] = keep_edges
        matrix = batch.structure
        values = matrix.values_of(place[matrix.row, matrix.col])
        columns = MaskedColumns(batch.x, keep_features.double())
        views.append((columns, matrix.with_values(values)))
        kept += [keep_edges.tolist(), keep_features.tolist()]
    loss = combine(method.terms(model, batch, *views))
    first, activation, last = model.predictor
    predictor = [
        {"weight": first.weight.T, "bias": first.bias, "slope": activation.weight.squeeze()},
        {"weight": last.weight.T, "bias": last.bias},
    ]
    online, target = layers_of(model.encoder), layers_of(model.target)
    theirs = reference_bgrl.bgrl_terms(
        edges, num_nodes, x, online, target, predictor, *kept, counts=counts
    )
    torch.testing.assert_close(loss.total, theirs.loss, rtol=1e-7, atol=1e-9)
    torch.testing.assert_close(
        loss.values["view_1"], theirs.sum_1 / theirs.count, rtol=1e-7, atol=1e-9
    )
    trained = [p for p in model.parameters() if p.requires_grad]
    for mine, other in zip(
        torch.autograd.grad(loss.total, trained),
        torch.autograd.grad(theirs.loss, trained),
        strict=True,
    ):
        torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-7)


def test_the_target_is_the_moving_average_of_the_reference():
    method = make(epochs=4, steps_per_epoch=2, momentum=0.9)
    model = method.build(4, generator=generator(0)).double()
    expected = [p.clone() for p in model.target.parameters()]
    for step in range(8):
        with torch.no_grad():
            for parameter in model.encoder.parameters():
                parameter += 0.1
        momentum = reference_bgrl.momentum_schedule(step, 8, 0.9)
        online = list(model.encoder.parameters())
        expected = [
            reference_bgrl.ema(t, o, momentum) for t, o in zip(expected, online, strict=True)
        ]
        method.after_step(model)
        for mine, other in zip(model.target.parameters(), expected, strict=True):
            torch.testing.assert_close(mine, other, rtol=1e-6, atol=1e-7)


def test_the_learning_rate_equals_the_reference():
    settings = make(epochs=50, warmup_ratio=0.1, lr=0.3).settings
    for epoch in range(50):
        expected = reference_bgrl.learning_rate(epoch, 50, 5, 0.3)
        assert learning_rate(settings, epoch) == pytest.approx(float(expected))


def test_only_the_online_encoder_and_the_predictor_have_gradients():
    model = make().build(4, generator=generator(0))
    assert all(not p.requires_grad for p in model.target.parameters())
    assert all(p.requires_grad for p in [*model.encoder.parameters()])


def test_negative_weights_are_refused_where_they_are_divided_by():
    graph = random_graph([5], weighted=True)
    graph = dataclasses.replace(graph, edge_weight=-graph.edge_weight)
    with pytest.raises(InputError, match="encoder='gcn' needs edge weights of 0 or more"):
        NodeBGRL(epochs=1, device="cpu").fit(graph)
    NodeBGRL(encoder="gin", epochs=1, device="cpu").fit(graph)


def test_the_target_of_a_users_module_starts_as_a_copy():
    class Own(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(4, 3)

        def forward(self, x, edge_index, edge_weight=None):
            return self.linear(x)

    model = make(encoder=Own()).build(4, generator=generator(0))
    assert torch.equal(model.target.module.linear.weight, model.encoder.module.linear.weight)
    built_in = make().build(4, generator=generator(0))
    assert not torch.equal(built_in.target.convs[0].weight, built_in.encoder.convs[0].weight)
