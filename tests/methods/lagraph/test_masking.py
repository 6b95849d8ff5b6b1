"""Random masks: number, values and distribution of masked nodes."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import reference
from cases import as_sparse, double_batch, double_model, generator, make_settings, random_graph
from graphlatent.methods.lagraph.masking import draw_mask, num_masked
from graphlatent.ops.feature_views import PatchedRows
from graphlatent.ops.sparse import SparseMatrix, to_dense


def batch_of(sizes, **kwargs):
    graph = random_graph(sizes, **kwargs)
    return double_batch(graph, double_model(make_settings("node"), graph.x.shape[1]))


@settings(max_examples=60, deadline=None)
@given(
    size=st.integers(1, 400),
    ratio=st.floats(0.001, 1.0),
    rounding=st.sampled_from(["round", "floor"]),
)
def test_number_masked_equals_the_reference(size, ratio, rounding):
    ours = int(num_masked(torch.tensor([size]), ratio=ratio, rounding=rounding))
    assert ours == reference.num_masked(size, ratio, rounding)


@settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=5),
    ratio=st.floats(0.01, 1.0),
    seed=st.integers(0, 999),
)
def test_each_graph_masks_its_share_without_repeats(sizes, ratio, seed):
    batch = batch_of(sizes)
    mask = draw_mask(batch, make_settings("node", mask_ratio=ratio), generator=generator(seed))
    assert mask.rows.unique().numel() == mask.rows.numel()
    per_graph = torch.bincount(batch.graph_id[mask.rows], minlength=len(sizes))
    assert per_graph.tolist() == [reference.num_masked(n, ratio, "round") for n in sizes]


def test_floor_masks_nothing_in_small_graphs():
    mask = draw_mask(
        batch_of([3, 4]),
        make_settings("node", mask_ratio=0.05, preset="released"),
        generator=generator(0),
    )
    assert mask.rows.numel() == 0
    assert mask.values.shape == (0, 4)


def test_all_attributes_of_masked_nodes_are_replaced_and_no_others():
    batch = batch_of([10])
    mask = draw_mask(batch, make_settings("node", mask_ratio=0.3), generator=generator(0))
    x = mask.features(batch)
    kept = torch.ones(10, dtype=torch.bool)
    kept[mask.rows] = False
    assert torch.equal(x[kept], batch.x[kept])
    assert (x[mask.rows] != batch.x[mask.rows]).all()
    assert torch.equal(x[mask.rows], mask.values)


def test_noise_has_the_standard_deviation_of_the_setting():
    mask = draw_mask(
        batch_of([200], num_features=50, density=0.01),
        make_settings("node", mask_ratio=1.0, noise_std=0.5),
        generator=generator(0),
    )
    assert mask.values.mean().item() == pytest.approx(0.0, abs=0.02)
    assert mask.values.std().item() == pytest.approx(0.5, abs=0.02)


def test_masked_features_can_be_zeros():
    mask = draw_mask(
        batch_of([5]),
        make_settings("node", mask_ratio=0.5, mask_value="zeros"),
        generator=generator(0),
    )
    assert mask.values.abs().sum() == 0


class TestSwap:
    """Features of masked nodes are those of another node."""

    # The first column tells the rows apart.
    X = torch.arange(10.0, dtype=torch.float64)[:, None] * torch.ones(1, 4, dtype=torch.float64)

    def sources(self, batch, *, limit=None):
        """How often each row was taken in 400 masks."""
        gen, chosen = generator(0), make_settings("node", mask_ratio=0.5, mask_value="swap")
        values = [
            to_dense(draw_mask(batch, chosen, generator=gen, limit=limit).values)
            for _ in range(400)
        ]
        rows = torch.cat(values)
        # Whole rows are taken.
        assert torch.equal(rows, rows[:, :1].expand_as(rows))
        return torch.bincount(rows[:, 0].long(), minlength=10).tolist()

    def test_every_row_is_taken_equally_often(self):
        counts = self.sources(dataclasses.replace(batch_of([10]), x=self.X))
        # The expectation is 200; five standard deviations are 67.
        assert min(counts) > 130 and max(counts) < 270

    def test_sparse_rows_stay_sparse(self):
        graph = as_sparse(dataclasses.replace(random_graph([10]), x=self.X))
        batch = double_batch(graph, double_model(make_settings("node"), 4))
        chosen = make_settings("node", mask_ratio=0.5, mask_value="swap")
        mask = draw_mask(batch, chosen, generator=generator(0))
        assert isinstance(mask.values, SparseMatrix)
        assert mask.values.shape == (5, 4)

    def test_rows_that_do_not_count_are_not_taken(self):
        counts = torch.arange(10) % 3 > 0
        batch = dataclasses.replace(batch_of([10]), x=self.X, counts=counts)
        taken = self.sources(batch)
        assert [taken[i] > 0 for i in range(10)] == counts.tolist()

    def test_padding_is_not_taken(self):
        batch = dataclasses.replace(batch_of([10]), x=self.X)
        taken = self.sources(batch, limit=torch.tensor(7))
        assert [count > 0 for count in taken] == [i < 7 for i in range(10)]


@pytest.mark.parametrize("value", ["zeros", "token"])
def test_one_row_stands_for_all(value):
    token = torch.arange(4.0, dtype=torch.float64)
    chosen = make_settings("node", mask_ratio=0.5, mask_value=value)
    batch = batch_of([6])
    mask = draw_mask(batch, chosen, generator=generator(0), token=token)
    assert mask.values.shape == (1, 4)
    expected = token if value == "token" else torch.zeros(4, dtype=torch.float64)
    assert torch.equal(mask.features(batch)[mask.rows], expected.expand(3, 4))


def test_every_node_is_masked_equally_often():
    batch, gen = batch_of([10]), generator(0)
    chosen = make_settings("node", mask_ratio=0.2)
    counts = sum(
        torch.bincount(draw_mask(batch, chosen, generator=gen).rows, minlength=10)
        for _ in range(2000)
    )
    # The expectation is 400; five standard deviations are 90.
    assert counts.min() > 330 and counts.max() < 470


def test_the_seed_determines_the_mask():
    batch, chosen = batch_of([30]), make_settings("node", mask_ratio=0.3)
    a, b, c = (draw_mask(batch, chosen, generator=generator(s)) for s in (1, 1, 2))
    assert torch.equal(a.rows, b.rows) and torch.equal(a.values, b.values)
    assert not torch.equal(a.rows, c.rows)


def test_the_global_generator_is_not_used():
    before = torch.random.get_rng_state()
    draw_mask(batch_of([30]), make_settings("node"), generator=generator(0))
    assert torch.equal(before, torch.random.get_rng_state())


def test_sparse_features_stay_sparse():
    graph = as_sparse(random_graph([8], one_hot=True))
    model = double_model(make_settings("node"), 4)
    batch = double_batch(graph, model)
    mask = draw_mask(batch, make_settings("node", mask_ratio=0.4), generator=generator(0))
    x = mask.features(batch)
    assert isinstance(x, PatchedRows)
    dense = mask.features(dataclasses.replace(batch, x=to_dense(batch.x)))
    assert torch.equal(x.to_dense(), dense)
