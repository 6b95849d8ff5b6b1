"""Sums of messages along edges with attributes: values, gradients, blocks."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from cases import generator
from graphlatent.ops import messages
from graphlatent.ops.messages import MessageEdges, message_sum


def random_case(num_nodes=7, num_edges=15, dim=3, width=4, *, weighted=True, seed=0):
    draw = generator(seed)
    edge_index = torch.randint(num_nodes, (2, num_edges), generator=draw)
    attr = torch.randn(num_edges, dim, generator=draw, dtype=torch.float64)
    factor = torch.rand(num_edges, generator=draw, dtype=torch.float64) if weighted else None
    edges = MessageEdges(edge_index, attr, factor, num_nodes)
    x, weight, bias = (
        torch.randn(shape, generator=draw, dtype=torch.float64).requires_grad_()
        for shape in ((num_nodes, width), (dim, width), (width,))
    )
    return x, edges, weight, bias


def reference(x, edges, weight, bias):
    """The same sums by the operations of torch, edge by edge."""
    rows = torch.relu(x[edges.source] + edges.attr @ weight + bias)
    if edges.weight is not None:
        rows = rows * edges.weight[:, None]
    return torch.zeros_like(x).index_add(0, edges.target, rows)


def test_a_value_by_hand():
    # One edge from node 0 to node 1: ReLU(1 + 2 * 3 - 4, -5 + 2 * 1) = (3, 0), times 0.5.
    edges = MessageEdges(torch.tensor([[0], [1]]), torch.tensor([[2.0]]), torch.tensor([0.5]), 2)
    x = torch.tensor([[1.0, -5.0], [9.0, 9.0]])
    found = message_sum(x, edges, torch.tensor([[3.0, 1.0]]), torch.tensor([-4.0, 0.0]))
    torch.testing.assert_close(found, torch.tensor([[0.0, 0.0], [1.5, 0.0]]))


@pytest.mark.parametrize("values", [1, 20, 1 << 22])
@pytest.mark.parametrize("weighted", [True, False])
def test_sums_and_gradients_equal_the_reference(monkeypatch, values, weighted):
    monkeypatch.setattr(messages, "BLOCK_VALUES", values)
    case = random_case(weighted=weighted)
    inputs = [case[0], case[2], case[3]]
    found, expected = message_sum(*case), reference(*case)
    torch.testing.assert_close(found, expected)
    grads = [torch.autograd.grad((out * out).sum(), inputs) for out in (found, expected)]
    for ours, theirs in zip(*grads, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_gradients_are_those_of_finite_differences():
    x, edges, weight, bias = random_case()
    assert torch.autograd.gradcheck(
        lambda *inputs: message_sum(inputs[0], edges, *inputs[1:]), (x, weight, bias)
    )


def test_blocks_have_few_messages_and_cover_every_node_once(monkeypatch):
    monkeypatch.setattr(messages, "BLOCK_VALUES", 8)
    target = torch.tensor([0, 0, 1, 3, 3, 3, 3, 3, 5])
    grouped = MessageEdges(target.flip(0)[None].repeat(2, 1), torch.ones(9, 1), None, 7).incoming
    blocks = list(grouped.blocks(2))
    assert [node for block, _, _ in blocks for node in range(block.start, block.stop)] == [
        *range(7)
    ]
    # Of node 3 alone, more messages than a block has otherwise.
    assert [len(edges) for _, _, edges in blocks] == [3, 5, 1]
    assert sorted(torch.cat([edges for _, _, edges in blocks]).tolist()) == [*range(9)]


@pytest.mark.parametrize(("num_nodes", "num_edges"), [(1, 0), (3, 0), (1, 2)])
def test_tiny_graphs(num_nodes, num_edges):
    case = random_case(num_nodes, num_edges)
    torch.testing.assert_close(message_sum(*case), reference(*case))
    message_sum(*case).sum().backward()
    assert all(part.grad is not None for part in (case[0], case[2], case[3]))


def test_memory_does_not_grow_with_the_number_of_edges():
    class Saved(nn.Module):
        sizes: list[int] = []

    def pack(tensor):
        Saved.sizes.append(tensor.shape[0])
        return tensor

    case = random_case(num_edges=500)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        message_sum(*case)
    assert Saved.sizes and max(Saved.sizes) == case[0].shape[0]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_gives_the_values_of_a_cpu_and_the_same_bits_again():
    x, edges, weight, bias = random_case(200, 3000, dim=5, width=32)
    parts = [p.detach().float().cuda().requires_grad_() for p in (x, weight, bias)]
    index = torch.stack([edges.source, edges.target]).cuda()
    moved = MessageEdges(index, edges.attr.float().cuda(), edges.weight.float().cuda(), 200)
    found = [message_sum(parts[0], moved, *parts[1:]) for _ in range(2)]
    expected = message_sum(x, edges, weight, bias)
    torch.testing.assert_close(found[0].cpu(), expected.float(), rtol=1e-4, atol=1e-4)
    theirs = torch.autograd.grad(expected.square().sum(), (x, weight, bias))
    ours = [torch.autograd.grad(each.square().sum(), parts) for each in found]
    for a, b, c in zip(*ours, theirs, strict=True):
        assert torch.equal(a, b)
        torch.testing.assert_close(a.cpu(), c.float(), rtol=1e-3, atol=1e-2)
