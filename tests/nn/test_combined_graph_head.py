"""The head of combined graph embeddings: by hand, independently, properties, tiny training sets."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cases import as_sparse, generator, random_graph
from graphlatent import GraphLaGraph
from graphlatent.data.assemble import assemble
from graphlatent.data.graph import RawGraph
from graphlatent.nn.combined_graph_head import FEATURE_SHARE, LIMIT, OWN_DIM, CombinedGraphHead
from graphlatent.nn.readout import pooled_features, pooled_magnitude
from graphlatent.ops.sparse import SparseMatrix


def fitted(own, readout, magnitude=None, **options):
    options = {"embedding_dim": None, **options}
    head = CombinedGraphHead(own.shape[1], readout.shape[1], **options)
    size = own.abs().amax(0) if magnitude is None else magnitude
    head.fit(own, readout, magnitude=size, generator=generator(0))
    return head


def limited(z):
    return LIMIT * np.tanh(z / LIMIT)


def random_blocks(num_graphs, *widths, seed=0):
    made = generator(seed)
    return [5 + 3 * torch.randn(num_graphs, width, generator=made) for width in widths]


def test_by_hand():
    own, readout = torch.tensor([[0.0], [2.0]]), torch.tensor([[10.0, 1.0], [30.0, 1.0]])
    rows = fitted(own, readout)(own, readout)
    # Standardised, both blocks are -1 and 1 in one column; 3 tanh(1/3) is 0.9645.
    one = 3 * np.tanh(1 / 3)
    expected = [[-one * 2**0.5, -one, 0], [one * 2**0.5, one, 0]]
    torch.testing.assert_close(rows, torch.tensor(expected, dtype=torch.float32))


def test_an_independent_form():
    own, readout = (block.double().numpy() for block in random_blocks(30, 4, 7))
    blocks = [limited((b - b.mean(0)) / b.std(0)) for b in (own, readout)]
    first, second = (((b - b.mean(0)) ** 2).sum() for b in blocks)
    expected = np.concatenate([blocks[0] * np.sqrt(2 * second / first), blocks[1]], axis=1)
    arrays = [torch.from_numpy(b).float() for b in (own, readout)]
    found = fitted(*arrays)(*arrays)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-4, atol=1e-5)


@settings(max_examples=25, deadline=None)
@given(
    num_graphs=st.integers(2, 12),
    widths=st.tuples(st.integers(1, 6), st.integers(1, 6)),
    weight=st.sampled_from([0.5, 1.0, 3.0]),
    seed=st.integers(0, 99),
)
def test_the_share_of_the_features(num_graphs, widths, weight, seed):
    own, readout = random_blocks(num_graphs, *widths, seed=seed)
    rows = fitted(own, readout, feature_weight=weight)(own, readout).double()
    features, encoder = (
        block.var(0, unbiased=False).sum() for block in rows.split([*widths], dim=1)
    )
    assert float(features / encoder) == pytest.approx(FEATURE_SHARE * weight**2, rel=1e-4)


@settings(max_examples=25, deadline=None)
@given(unit=st.sampled_from([1e-6, 1.0, 1e6]), shift=st.floats(-100, 100))
def test_units_of_features_do_not_matter(unit, shift):
    own, readout = random_blocks(20, 3, 5)
    rows = fitted(own, readout)(own, readout)
    changed = unit * (own + shift)
    again = fitted(changed, readout)(changed, readout)
    torch.testing.assert_close(again, rows, rtol=1e-2, atol=1e-3)


def test_a_graph_a_million_times_as_large_stays_near_the_others():
    own, readout = random_blocks(20, 3, 5)
    head = fitted(own, readout)
    rows = head(own * 1e6, readout * 1e6)
    assert bool(rows.isfinite().all())
    assert rows[:, 3:].abs().max() <= LIMIT


def test_one_block_that_does_not_vary():
    own, readout = random_blocks(20, 3, 5)
    rows = fitted(torch.ones(20, 3), readout)(torch.ones(20, 3), readout)
    assert rows[:, :3].abs().max() == 0 and rows[:, 3:].std() > 0.5
    rows = fitted(own, torch.ones(20, 5))(own, torch.ones(20, 5))
    assert rows[:, :3].std() > 0.5 and rows[:, 3:].abs().max() == 0


@pytest.mark.parametrize("num_graphs", [1, 3])
def test_nothing_that_varies(num_graphs):
    own = torch.tensor([[1.0, 2.0]]).expand(num_graphs, -1)
    readout = torch.tensor([[0.0, 300.0, -600.0]]).expand(num_graphs, -1)
    rows = fitted(own, readout)(own, readout)
    # As they are, but for their size and the limit.
    sizes = torch.tensor([[0.5, 1, 0, 0.5, -1]]).expand(num_graphs, -1)
    torch.testing.assert_close(rows, LIMIT * torch.tanh(sizes / LIMIT))


def test_features_of_zeros_alone():
    own, readout = torch.zeros(4, 2), torch.zeros(4, 3)
    assert fitted(own, readout)(own, readout).abs().max() == 0


def test_a_weight_of_0_leaves_features_out():
    own, readout = random_blocks(20, 3, 5)
    for each in (readout, torch.ones(20, 5)):
        rows = fitted(own, each, feature_weight=0.0)(own, each)
        assert rows[:, :3].abs().max() == 0


def test_rounding_errors_of_sums_that_cancel_are_no_signal():
    noise, readout = random_blocks(20, 3, 5)
    own = 1e-7 * (noise - 5)
    rows = fitted(own, readout, magnitude=torch.tensor([10.0, 10.0, 10.0]))(own, readout)
    assert rows[:, :3].abs().max() == 0
    # With one graph nothing is divided by them either.
    head = fitted(own[:1], readout[:1], magnitude=torch.tensor([10.0, 10.0, 10.0]))
    assert head(own[:1], readout[:1])[:, :3].abs().max() < 1e-6


def test_wide_features_are_reduced():
    own, readout = random_blocks(30, OWN_DIM + 8, 5)
    head = fitted(own, readout)
    rows = head(own, readout)
    assert rows.shape == (30, OWN_DIM + 5)
    # Distances between 30 graphs are kept: there are at most 30 directions.
    alone = head.weights[0] * torch.tanh((own - own.mean(0)) / own.std(0, unbiased=False) / 3) * 3
    torch.testing.assert_close(
        torch.cdist(rows[:, :OWN_DIM], rows[:, :OWN_DIM]),
        torch.cdist(alone, alone),
        rtol=1e-2,
        atol=1e-1,
    )


def test_principal_components_of_both_blocks():
    own, readout = random_blocks(40, 4, 6)
    all_columns = fitted(own, readout)(own, readout).double()
    rows = fitted(own, readout, embedding_dim=3)(own, readout)
    assert rows.shape == (40, 3)
    expected = torch.linalg.svdvals(all_columns)[:3]
    torch.testing.assert_close(torch.linalg.svdvals(rows.double()), expected, rtol=1e-3, atol=1e-3)
    assert fitted(own, readout, embedding_dim=99)(own, readout).shape == (40, 10)


def test_pooled_features_are_the_same_sparse_and_dense():
    x = torch.tensor([[1.0, 0.0], [2.0, -4.0], [0.0, 0.0], [7.0, 0.5]])
    graph_id = torch.tensor([0, 0, 0, 2])
    expected = torch.tensor([[3, -4, 1, -4 / 3], [0, 0, 0, 0], [7, 0.5, 7, 0.5]])
    dense = pooled_features(x, graph_id, num_graphs=3)
    sparse = pooled_features(SparseMatrix.from_scipy(x.numpy()), graph_id, num_graphs=3)
    torch.testing.assert_close(dense, expected)
    torch.testing.assert_close(sparse, expected)
    largest = torch.tensor([7, 4, 7, 4 / 3])
    for features in (x, SparseMatrix.from_scipy(x.numpy())):
        torch.testing.assert_close(pooled_magnitude(features, graph_id, num_graphs=3), largest)


def test_the_mean_of_a_constant_does_not_depend_on_the_number_of_nodes():
    sizes = torch.tensor([3, 1000, 30_000])
    graph_id = torch.arange(3).repeat_interleave(sizes)
    x = torch.full((len(graph_id), 1), 0.3)
    means = pooled_features(x, graph_id, num_graphs=3)[:, 1]
    assert len(means.unique()) == 1


def test_sums_of_sparse_features_have_the_same_bits_each_time():
    threads = torch.get_num_threads()
    rng = np.random.default_rng(0)
    x = SparseMatrix.from_scipy(sp.random(40_000, 50, density=0.2, random_state=rng))
    one = torch.zeros(40_000, dtype=torch.int64)
    try:
        torch.set_num_threads(2)
        first, *others = (pooled_features(x, one, num_graphs=1) for _ in range(5))
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(first, other) for other in others)


def test_no_graph():
    rows = pooled_features(torch.zeros(0, 3), torch.zeros(0, dtype=torch.int64), num_graphs=0)
    assert rows.shape == (0, 6)


class TestEstimator:
    def test_the_default_has_both_blocks(self):
        data = random_graph([5, 4, 3, 6, 2, 7])
        model = GraphLaGraph(hidden_dim=8, num_layers=2, epochs=2, device="cpu").fit(data)
        num_features = data.x.shape[1]
        assert model.settings_.embedding == "combined"
        assert model.transform(data).shape == (6, 2 * num_features + 3 * 16)

    def test_sparse_and_dense_features_agree(self):
        data = random_graph([5, 4, 3, 6, 2, 7])
        both = [
            GraphLaGraph(hidden_dim=8, epochs=2, device="cpu").fit(each).transform(each)
            for each in (data, as_sparse(data))
        ]
        np.testing.assert_allclose(*both, rtol=1e-3, atol=1e-4)

    @pytest.mark.parametrize("kind", ["standardised in each graph", "a constant beside others"])
    def test_renumbering_nodes_does_not_change_the_embedding(self, kind):
        rng = np.random.default_rng(0)
        graphs, renumbered = [], []
        for size in rng.integers(10, 60, 30):
            x = rng.normal(size=(size, 3))
            if kind == "standardised in each graph":
                x = (x - x.mean(0)) / x.std(0)
            else:
                x[:, 0] = 0.3
            order = rng.permutation(size)
            edges = rng.integers(0, size, (2, 2 * size))
            graphs.append(RawGraph(edges, size, x=x, directed=False))
            place = np.argsort(order)
            renumbered.append(RawGraph(place[edges], size, x=x[order], directed=False))
        model = GraphLaGraph(epochs=1, hidden_dim=8, device="cpu").fit(assemble(graphs))
        rows, again = (model.transform(assemble(each)) for each in (graphs, renumbered))
        np.testing.assert_allclose(again, rows, atol=1e-3 * np.abs(rows).max())

    def test_sums_of_words_are_as_good_as_alone(self):
        # The class changes the frequency of half of the words; the edges say nothing.
        rng = np.random.default_rng(0)
        y = np.arange(200) % 2
        graphs = []
        for label in y:
            chance = 0.04 * np.where((np.arange(100) < 50) == bool(label), 1.3, 0.8)
            x = (rng.random((12, 100)) < chance).astype(np.float32)
            graphs.append(RawGraph(rng.integers(0, 12, (2, 14)), 12, x=x, directed=False))
        data = assemble(graphs)
        rows = {
            kind: GraphLaGraph(epochs=1, hidden_dim=32, device="cpu", embedding=kind)
            .fit(data)
            .transform(data)
            for kind in ("standard", "combined")
        }
        scores = {kind: _accuracy(values, y) for kind, values in rows.items()}
        assert scores["combined"] > 0.85 and scores["standard"] < 0.75


def _accuracy(rows, y):
    from sklearn.linear_model import LogisticRegression

    half = len(y) // 2
    model = LogisticRegression(C=0.01, max_iter=1000).fit(rows[:half], y[:half])
    return float(model.score(rows[half:], y[half:]))
