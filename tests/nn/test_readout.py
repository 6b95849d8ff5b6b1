"""Readouts: sums, means and maxima of node rows per graph, and their signed roots."""

from __future__ import annotations

import math
import re
from typing import get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cases import generator, make_settings
from graphlatent.config import GraphSettings, Readout
from graphlatent.errors import ConfigError
from graphlatent.nn.readout import num_poolings, readout

NAMES = [name for literal in get_args(get_args(Readout)[0]) for name in get_args(literal)]


def reference(layers, graph_id, *, num_graphs, pooling):
    """Python numbers, one graph, layer, pooling and column after another."""
    full = "root-sum+mean+max" if pooling == "root" else pooling
    names = full.replace("root-", "").split("+")
    out = []
    for graph in range(num_graphs):
        row = []
        for layer in layers:
            mine = [r for r, g in zip(layer.tolist(), graph_id.tolist(), strict=True) if g == graph]
            columns = list(zip(*mine, strict=True)) if mine else [[0.0]] * layer.shape[1]
            for name in names:
                for column in columns:
                    total = math.fsum(column)
                    row.append(
                        {"sum": total, "mean": total / len(column), "max": max(column)}[name]
                    )
        out.append(row)
    if full.startswith("root-"):
        out = [[math.copysign(math.sqrt(abs(z)), z) for z in row] for row in out]
    return torch.tensor(out, dtype=torch.float64).reshape(num_graphs, -1)


def test_the_setting_names_every_combination_once():
    combinations = ["sum", "mean", "max", "sum+mean", "sum+max", "mean+max", "sum+mean+max"]
    assert [*combinations, *(f"root-{name}" for name in combinations), "root"] == NAMES
    assert GraphSettings.readout == "sum"


def test_by_hand():
    layers = [torch.tensor([[1.0], [3.0], [-4.0]]), torch.tensor([[2.0], [2.0], [9.0]])]
    graph_id = torch.tensor([0, 0, 1])
    found = readout(layers, graph_id, num_graphs=2, pooling="sum+mean+max")
    # Sum, mean and maximum of the first layer, then those of the second.
    assert found.tolist() == [[4, 2, 3, 4, 2, 2], [-4, -4, -4, 9, 9, 9]]
    found = readout(layers, graph_id, num_graphs=2, pooling="root-sum+max")
    expected = torch.tensor([[2, 3**0.5, 2, 2**0.5], [-2, -2, 3, 3]])
    torch.testing.assert_close(found, expected)


@settings(max_examples=60, deadline=None)
@given(
    pooling=st.sampled_from(NAMES),
    sizes=st.lists(st.integers(0, 4), min_size=1, max_size=5),
    widths=st.lists(st.integers(1, 3), min_size=1, max_size=3),
    seed=st.integers(0, 99),
)
def test_equals_the_reference(pooling, sizes, widths, seed):
    graph_id = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    gen = generator(seed)
    shape = graph_id.numel()
    layers = [torch.randn(shape, w, generator=gen, dtype=torch.float64) for w in widths]
    found = readout(layers, graph_id, num_graphs=len(sizes), pooling=pooling)
    expected = reference(layers, graph_id, num_graphs=len(sizes), pooling=pooling)
    torch.testing.assert_close(found, expected)
    assert found.shape[1] == num_poolings(pooling) * sum(widths)


@pytest.mark.parametrize("pooling", ["sum", "mean"])
def test_sum_and_mean_keep_their_bits(pooling):
    graph_id = torch.repeat_interleave(torch.arange(7), torch.arange(7))
    layers = [torch.randn(21, 5, generator=generator(i)) for i in range(3)]
    start = torch.zeros(7, 5)
    expected = torch.cat([start.index_add(0, graph_id, rows) for rows in layers], dim=1)
    if pooling == "mean":
        size = torch.zeros(7).index_add(0, graph_id, torch.ones(21))
        expected = expected / size.clamp(min=1)[:, None]
    assert torch.equal(readout(layers, graph_id, num_graphs=7, pooling=pooling), expected)


@pytest.mark.parametrize("pooling", NAMES)
def test_a_graph_without_nodes_has_zeros(pooling):
    found = readout([torch.ones(2, 3)], torch.tensor([0, 2]), num_graphs=3, pooling=pooling)
    assert found[1].tolist() == [0] * found.shape[1]
    assert (found[[0, 2]] == 1).all()


@pytest.mark.parametrize("pooling", NAMES)
def test_gradients(pooling):
    graph_id = torch.tensor([0, 0, 0, 1, 2, 2])
    rows = torch.randn(6, 2, generator=generator(3), dtype=torch.float64, requires_grad=True)

    def pooled(x):
        return readout([x, 2 * x], graph_id, num_graphs=3, pooling=pooling)

    assert torch.autograd.gradcheck(pooled, rows)


def test_the_gradient_of_a_root_is_0_at_0():
    rows = torch.zeros(4, 2, requires_grad=True)
    readout([rows], torch.tensor([0, 0, 1, 1]), num_graphs=2, pooling="root").sum().backward()
    assert rows.grad.tolist() == [[0, 0]] * 4


@pytest.mark.parametrize("pooling", NAMES)
def test_low_precision_is_pooled_in_float32(pooling):
    rows = torch.full((1000, 1), 1.01, dtype=torch.bfloat16)
    found = readout([rows], torch.zeros(1000, dtype=torch.int64), num_graphs=1, pooling=pooling)
    assert found.dtype == torch.float32
    # A sum in bfloat16 would stop growing at 256.
    exact = reference([rows.double()], torch.zeros(1000), num_graphs=1, pooling=pooling)
    torch.testing.assert_close(found.double(), exact, rtol=1e-5, atol=0)


def test_an_unknown_readout_is_refused():
    message = (
        "The 'readout' parameter of GraphLaGraph must be 'sum', 'mean', 'max', 'sum+mean',"
        " 'sum+max', 'mean+max', 'sum+mean+max', 'root-sum', 'root-mean', 'root-max',"
        " 'root-sum+mean', 'root-sum+max', 'root-mean+max', 'root-sum+mean+max' or 'root'."
        " Got 'max+sum' instead."
    )
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}$"):
        make_settings("graph", readout="max+sum")
