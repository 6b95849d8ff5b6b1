from __future__ import annotations

import dataclasses

import pytest
import torch

from cases import as_sparse, double_batch, double_model, generator, make_settings, random_graph
from graphlatent.data.batches import EdgeList, FullBatches, GraphBatches, full_batch
from graphlatent.data.csr import CSRGraph
from graphlatent.data.pieces import NodePieces
from graphlatent.ops.sparse import SparseMatrix, to_dense

CPU = torch.device("cpu")


def dense_structure(structure):
    if isinstance(structure, SparseMatrix):
        return structure.to_dense()
    out = torch.zeros(structure.num_nodes, structure.num_nodes)
    weight = (
        torch.ones(structure.edge_index.shape[1])
        if structure.edge_weight is None
        else structure.edge_weight
    )
    out[structure.edge_index[1], structure.edge_index[0]] = weight
    return out


def plain(edges):
    return edges


@pytest.mark.parametrize("prepared", [True, False])
@pytest.mark.parametrize("sparse", [True, False])
def test_graph_batches_cut_out_whole_graphs(prepared, sparse):
    graph = random_graph([3, 1, 5, 4], weighted=True, one_hot=True)
    graph = as_sparse(graph) if sparse else graph
    prepare = double_model(make_settings("graph", encoder="gcn"), 4).prepare if prepared else plain
    whole = full_batch(graph, prepare=prepare, device=CPU)
    cut = GraphBatches(whole, graph.ptr, batch_size=2).take(torch.tensor([2, 0]))
    nodes = torch.tensor([4, 5, 6, 7, 8, 0, 1, 2])
    assert cut.node_id.tolist() == nodes.tolist()
    assert cut.graph_id.tolist() == [0] * 5 + [1] * 3
    assert cut.num_graphs == 2
    assert torch.equal(to_dense(cut.x), to_dense(whole.x)[nodes])
    assert torch.equal(
        dense_structure(cut.structure), dense_structure(whole.structure)[nodes][:, nodes]
    )


def test_an_epoch_holds_every_graph_once_in_a_new_order():
    graph = random_graph([2] * 11)
    source = GraphBatches(full_batch(graph, prepare=plain, device=CPU), graph.ptr, batch_size=4)
    gen = generator(0)
    first, second = (torch.cat(list(source.plan(gen))) for _ in range(2))
    assert sorted(first.tolist()) == sorted(second.tolist()) == list(range(11))
    assert first.tolist() != second.tolist()
    assert [len(p) for p in source.plan(gen)] == [4, 4, 3]


@pytest.mark.parametrize("sparse", [True, False])
def test_node_batches_induce_the_subgraph(sparse):
    graph = random_graph([6, 5], weighted=True, one_hot=True, density=0.6)
    graph = as_sparse(graph) if sparse else graph
    source = NodePieces(
        CSRGraph.of(graph),
        nodes_per_step=6,
        steps_per_epoch=3,
        prepare=plain,
        device=CPU,
        dtype=torch.float32,
    )
    plan = source.plan(generator(0))
    assert len(plan) == 3
    assert all(len(p) == 6 and p.unique().numel() == 6 for p in plan)
    whole = dense_structure(EdgeList(graph.edge_index, graph.edge_weight, graph.num_nodes))
    for nodes in plan:
        batch = source.take(nodes)
        assert torch.equal(dense_structure(batch.structure), whole[nodes][:, nodes])
        assert torch.equal(to_dense(batch.x), to_dense(graph.x)[nodes])
        assert batch.graph_id.tolist() == (nodes >= 6).long().tolist()


def test_node_batches_normalise_the_subgraph_anew():
    graph = random_graph([12], density=0.5)
    model = double_model(make_settings("node"), 4)
    source = NodePieces(
        CSRGraph.of(graph),
        nodes_per_step=5,
        steps_per_epoch=1,
        prepare=model.prepare,
        device=CPU,
        dtype=torch.float32,
    )
    rows = torch.tensor([0, 2, 3, 7, 9])
    cut = source.take(rows).structure
    whole = double_batch(graph, model).structure.to_dense()
    assert not torch.allclose(cut.to_dense().double(), whole[rows][:, rows])


def test_more_nodes_than_there_are_is_all_of_them():
    graph = random_graph([4])
    source = NodePieces(
        CSRGraph.of(graph),
        nodes_per_step=99,
        steps_per_epoch=1,
        prepare=plain,
        device=CPU,
        dtype=torch.float32,
    )
    assert source.plan(generator(0))[0].tolist() == [0, 1, 2, 3]


def test_a_subset_that_misses_a_graph_counts_only_graphs_present():
    graph = random_graph([3, 3, 3])
    source = NodePieces(
        CSRGraph.of(graph),
        nodes_per_step=2,
        steps_per_epoch=1,
        prepare=plain,
        device=CPU,
        dtype=torch.float32,
    )
    batch = source.take(torch.tensor([1, 7]))
    assert batch.num_graphs == 2
    assert batch.graph_id.tolist() == [0, 1]
    assert batch.graph_size.tolist() == [1, 1]


def test_full_batches_repeat_the_same_batch():
    batch = full_batch(random_graph([4]), prepare=plain, device=CPU)
    source = FullBatches(batch, steps_per_epoch=3)
    plan = source.plan(generator(0))
    assert len(plan) == 3
    assert source.take(plan[1]) is batch


def test_features_must_be_encoded_first():
    with pytest.raises(ValueError, match="encode the features"):
        full_batch(dataclasses.replace(random_graph([3]), x=None), prepare=plain, device=CPU)


def test_steps_of_variable_shape_have_no_shape_key():
    graph = random_graph([3, 4])
    batches = GraphBatches(
        full_batch(graph, prepare=lambda edges: edges, device=torch.device("cpu")),
        graph.ptr,
        batch_size=1,
    )
    assert batches.shape_key(torch.tensor([0])) is None
    with pytest.raises(TypeError, match="variable shape"):
        batches.cut(torch.tensor([0]), 0)
