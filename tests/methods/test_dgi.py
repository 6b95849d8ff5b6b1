"""DGI against an independent rewrite of the paper's formulas."""

from __future__ import annotations

import dataclasses

import pytest
import reference_dgi
import torch

from cases import as_sparse, generator, random_graph
from graphlatent.config import resolve
from graphlatent.data.batches import full_batch
from graphlatent.methods.base import combine
from graphlatent.methods.dgi import DGI, DGISettings


def test_the_reference_gives_values_computed_by_hand():
    reference_dgi.check_by_hand()


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("some_count", [False, True])
@pytest.mark.parametrize("num_nodes", [1, 2, 9])
def test_loss_and_gradient_equal_the_reference(num_nodes, some_count, sparse):
    settings = resolve(DGISettings(hidden_dim=5), owner="NodeDGI")
    method = DGI(settings, level="node")
    graph = random_graph([num_nodes], weighted=True, one_hot=sparse, seed=num_nodes)
    edges = [
        (s, t, w)
        for (s, t), w in zip(graph.edge_index.T.tolist(), graph.edge_weight.tolist(), strict=True)
    ]
    x = graph.x.double()
    graph = as_sparse(graph) if sparse else graph
    model = method.build(4, generator=generator(0)).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=generator(1)).double()
    batch = full_batch(
        graph, prepare=model.encoder.prepare, device=torch.device("cpu"), dtype=torch.float64
    )
    counts = torch.arange(num_nodes) % 3 != 1 if some_count else None
    order = torch.randperm(num_nodes, generator=generator(2))
    loss = combine(method.terms(model, dataclasses.replace(batch, counts=counts), order))
    conv, slope = model.encoder.convs[0], model.encoder.activations[0].weight.squeeze()
    layer = {"weight": conv.weight, "bias": conv.bias, "slope": slope}
    theirs = reference_dgi.dgi_terms(
        edges, num_nodes, x, [layer], model.weight, order.tolist(), counts
    )
    torch.testing.assert_close(loss.total, theirs.loss, rtol=1e-9, atol=1e-12)
    mean = -theirs.positive_sum / theirs.positive_count
    torch.testing.assert_close(loss.values["positive"], mean, rtol=1e-9, atol=1e-12)
    parameters = list(model.parameters())
    for mine, other in zip(
        torch.autograd.grad(loss.total, parameters),
        torch.autograd.grad(theirs.loss, parameters),
        strict=True,
    ):
        torch.testing.assert_close(mine, other, rtol=1e-7, atol=1e-10)


def test_each_graph_of_a_batch_has_its_own_summary():
    settings = resolve(DGISettings(hidden_dim=3), owner="NodeDGI")
    method = DGI(settings, level="node")
    graph = random_graph([4, 5])
    model = method.build(4, generator=generator(0)).double()
    cpu = torch.device("cpu")
    batch = full_batch(graph, prepare=model.encoder.prepare, device=cpu, dtype=torch.float64)
    # With permutations within each graph, the sums are those of the separate graphs.
    order = torch.tensor([1, 0, 3, 2, 8, 7, 6, 5, 4])
    together = method.terms(model, batch, order)["negative"].sum
    apart = torch.zeros((), dtype=torch.float64)
    for start, stop in ((0, 4), (4, 9)):
        inside = (graph.edge_index[0] >= start) & (graph.edge_index[0] < stop)
        piece = dataclasses.replace(
            graph,
            edge_index=graph.edge_index[:, inside] - start,
            num_nodes=stop - start,
            ptr=torch.tensor([0, stop - start]),
            x=graph.x[start:stop],
        )
        part = full_batch(piece, prepare=model.encoder.prepare, device=cpu, dtype=torch.float64)
        apart = apart + method.terms(model, part, order[start:stop] - start)["negative"].sum
    torch.testing.assert_close(together, apart)
