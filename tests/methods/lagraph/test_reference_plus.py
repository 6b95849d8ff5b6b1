"""The reference of the objective "plus" itself: values by hand, tiny cases, refusals."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch
from plus_cases import (
    PAIR,
    PATH,
    eye,
    identity,
    tensor,
    terms_of,
    values,
)
from reference_plus import (
    COSINE_EPS,
    PlusBatch,
    TermWeights,
    cosine,
    decode,
    dense_matrix,
    encode,
    moving_average,
    plus_terms,
)

ROOT_HALF = math.sqrt(0.5)
# Four nodes without edges: H = X, and H' has the token (1, 0) in the rows 0, 2 and 3.
FOUR = PlusBatch(
    x=tensor([[3, 4], [1, 0], [0, 0], [0, 2]]),
    matrix=eye(4),
    masked=[0, 2, 3],
    replacement="token",
)
# D swaps columns. q(1, 0): the first map gives (1, -1), the PReLU (1, -1/2), the second (1, 0).
FOUR_WEIGHTS = identity() | {
    "token": tensor([1, 0]),
    "decoder.linears.0.weight": tensor([[0, 1], [1, 0]]),
    "predictor.0.weight": tensor([[1, 0], [-1, 0]]),
    "predictor.1.weight": tensor([0.5]),
    "predictor.2.weight": tensor([[1, 0], [0, 2]]),
    "predictor.2.bias": tensor([0, 1]),
}


def test_all_terms_by_hand():
    # D(h) = (4, 3), (0, 1), -, (2, 0) have the cosines 24/25, 0, -, 0 with x; node 2 is left out.
    reconstruction = ((1 / 25) ** 2 + 1 + 1) / 3
    # D(h') = (0, 1) has the cosines 4/5, -, 1 with x_0, x_2, x_3.
    masked_reconstruction = ((1 / 5) ** 2 + 0) / 2
    # T = X: column means 1 and 3/2, variances (4 + 0 + 1 + 1)/4 and (25 + 9 + 9 + 1)/16 = 11/4.
    s, r = math.sqrt(1.5) + 1e-6, math.sqrt(2.75) + 1e-6
    # cos((1, 0), t) = t_0 / |t|
    rows = [(2 / s, 2.5 / r), (-1 / s, -1.5 / r), (-1 / s, 0.5 / r)]
    latent = sum(1 - a / math.hypot(a, b) for a, b in rows) / 3
    # h - h' = (2, 4), (-1, 0), (-1, 2): squares 20, 1, 5
    invariance = 2 * math.sqrt(26 / 3)
    weights = TermWeights(0.5, 3.0, 7.0, 0.25)
    terms = plus_terms(FOUR_WEIGHTS, FOUR, level="node", alpha=2.0, term_weights=weights)
    expected = [reconstruction, masked_reconstruction, latent, invariance]
    assert values(terms) == pytest.approx(expected, rel=1e-12)
    total = 0.5 * reconstruction + 3 * masked_reconstruction + 7 * latent + 0.25 * invariance
    assert terms.total.item() == pytest.approx(total, rel=1e-12)


def test_graph_level_by_hand():
    # Graphs {0, 1} and {2, 3}: z - z' = (2, 4) and (-1, 0) + (-1, 2) = (-2, 2), squares 20 and 8.
    two = dataclasses.replace(FOUR, graph_id=[0, 0, 1, 1])
    node, graph = (terms_of(FOUR_WEIGHTS, two, level=level) for level in ("node", "graph"))
    assert graph.invariance.item() == pytest.approx(math.sqrt(28 / 3), rel=1e-12)
    assert values(graph)[:3] == values(node)[:3]
    # One graph: z - z' = (0, 6)
    one = terms_of(FOUR_WEIGHTS, FOUR, level="graph")
    assert one.invariance.item() == pytest.approx(math.sqrt(36 / 3), rel=1e-12)
    # A second layer 3 I adds 9 times the squares.
    deep = FOUR_WEIGHTS | {
        "encoder.convs.1.weight": 3 * eye(2),
        "encoder.convs.1.bias": tensor([0, 0]),
        "encoder.activations.1.weight": tensor(1),
    }
    assert terms_of(deep, two, level="graph").invariance.item() == pytest.approx(
        math.sqrt(10 * 28 / 3), rel=1e-12
    )
    assert terms_of(deep, two).invariance.item() == pytest.approx(math.sqrt(9 * 26 / 3), rel=1e-12)


def test_counted_rows_by_hand():
    # Without node 1: the reconstruction is the mean of nodes 0 and 3, and T has the means 1 and 2,
    # deviations (2, 2), (-1, -2), (-1, 0) and variances 6/3 and 8/3.
    some = terms_of(FOUR_WEIGHTS, dataclasses.replace(FOUR, counted=[0, 2, 3]))
    s, r = math.sqrt(2) + 1e-6, math.sqrt(8 / 3) + 1e-6
    rows = [(2 / s, 2 / r), (-1 / s, -2 / r), (-1 / s, 0.0)]
    latent = sum(1 - a / math.hypot(a, b) for a, b in rows) / 3
    assert values(some) == pytest.approx(
        [((1 / 25) ** 2 + 1) / 2, 1 / 50, latent, math.sqrt(26 / 3)], rel=1e-12
    )


def test_edges_and_columns_of_the_masked_view_by_hand():
    # The matrix is 1/2 everywhere: h = (1, 2) twice, with cosines 3/sqrt(10) and 2/sqrt(5) with x.
    pair = PlusBatch(
        x=tensor([[2, 2], [0, 2]]),
        matrix=dense_matrix("gcn", num_nodes=2, edges=PAIR),
        masked=[1],
    )
    reconstruction = ((1 - 3 / math.sqrt(10)) ** 2 + (1 - 2 / math.sqrt(5)) ** 2) / 2
    # h'_1 and the cosine of it with x_1 = (0, 2)
    cases = [
        ({}, (1, 1), ROOT_HALF),
        ({"masked_matrix": eye(2)}, (0, 0), 0),
        ({"kept_columns": tensor([1, 0])}, (1, 0), 0),
        ({"kept_columns": tensor([0, 1])}, (0, 1), 1),
        # k drops columns of replaced rows too: X' * k = (2, 0), (4, 0).
        ({"kept_columns": tensor([1, 0]), "replacement": tensor([[4, 6]])}, (3, 0), 0),
        ({"replacement": tensor([[4, 6]])}, (3, 4), 4 / 5),
        # The features of node 0
        ({"replacement": pair.x[[0]]}, (2, 2), ROOT_HALF),
    ]
    for changes, (a, b), cos in cases:
        terms = terms_of(identity(), dataclasses.replace(pair, **changes))
        found = [terms.reconstruction, terms.masked_reconstruction, terms.invariance]
        assert [value.item() for value in found] == pytest.approx(
            [reconstruction, (1 - cos) ** 2, math.hypot(1 - a, 2 - b)], rel=1e-12, abs=1e-15
        )


def test_gcn_layers_by_hand():
    # Sums over the path with its normalisation: degrees 2, 3, 2.
    matrix = dense_matrix("gcn", num_nodes=3, edges=PATH)
    weights = {
        "encoder.convs.0.weight": tensor([[6]]),
        "encoder.convs.0.bias": tensor([-4]),
        "encoder.activations.0.weight": tensor([0.25]),
    }
    root = math.sqrt(6)
    # x = (1, 0, 0): column 0 of the matrix is 1/2, 1/sqrt(6), 0; times 6 minus 4: -1, sqrt(6) - 4,
    # -4; all negative, so times 1/4.
    (out,) = encode(weights, "encoder", matrix, tensor([[1], [0], [0]]))
    torch.testing.assert_close(out, tensor([[-0.25], [(root - 4) / 4], [-1]]))


def test_gin_with_batch_norm_by_hand():
    # Only 0 -> 1, so A + I sums 1 and 1 + 3.
    matrix = dense_matrix("gin", num_nodes=2, edges=[(0, 1, 1.0)])
    weights = {
        f"encoder.convs.{i}.{part}": tensor([[1]]) for i in (0, 1) for part in ("weight", "weight2")
    }
    weights |= {
        f"encoder.convs.{i}.{part}": tensor([0]) for i in (0, 1) for part in ("bias", "bias2")
    }
    weights |= {"encoder.norms.0.weight": tensor([2]), "encoder.norms.0.bias": tensor([-1])}
    weights["encoder.convs.1.bias"] = tensor([2])
    weights["encoder.convs.1.bias2"] = tensor([-1.5])
    first, second = encode(weights, "encoder", matrix, tensor([[1], [3]]))
    # Rows 1, 4: mean 5/2, variance 9/4
    u = 2 * 1.5 / math.sqrt(2.25 + 1e-5)
    torch.testing.assert_close(first, tensor([[-1 - u], [-1 + u]]), rtol=1e-12, atol=0)
    # Sums -1 - u and -2, plus 2: 1 - u < 0 and 0; ReLU 0, 0; minus 1.5; ReLU again.
    torch.testing.assert_close(second, tensor([[0], [0]]), rtol=0, atol=0)
    weights["encoder.convs.1.bias2"] = tensor([1.5])
    weights["encoder.convs.1.bias"] = tensor([4])
    # Plus 4: 3 - u and 2; plus 1.5
    second = encode(weights, "encoder", matrix, tensor([[1], [3]]))[1]
    torch.testing.assert_close(second, tensor([[max(3 - u, 0) + 1.5], [3.5]]), rtol=1e-12, atol=0)


def test_decoder_with_a_hidden_layer_by_hand():
    weights = {
        "decoder.linears.0.weight": tensor([[1, 1]]),
        "decoder.linears.0.bias": tensor([0]),
        "decoder.norms.0.weight": tensor([3]),
        "decoder.norms.0.bias": tensor([1]),
        "decoder.linears.1.weight": tensor([[1], [-2]]),
        "decoder.linears.1.bias": tensor([0, 5]),
    }
    # Sums -1 and 2 are 0 and 2 after the ReLU: mean 1, variance 1.
    u = 3 / math.sqrt(1 + 1e-5)
    expected = tensor([[1 - u, 5 - 2 * (1 - u)], [1 + u, 5 - 2 * (1 + u)]])
    out = decode(weights, tensor([[1, -2], [2, 0]]))
    torch.testing.assert_close(out, expected, rtol=1e-12, atol=0)


def test_cosine_at_and_near_zero():
    b = tensor([3, 4])
    for a, expected in [([0, 0], 0.0), ([1e-9, 0], 0.06), ([3e-8, 4e-8], 1.0), ([0, 1e-8], 0.8)]:
        # (1e-9, 0): 3e-9 / (1e-8 * 5)
        assert cosine(tensor(a), b).item() == pytest.approx(expected, rel=1e-12)
        assert cosine(b, tensor(a)).item() == pytest.approx(expected, rel=1e-12)
    a = tensor([0, 0]).requires_grad_()
    (gradient,) = torch.autograd.grad(cosine(a, b), a)
    torch.testing.assert_close(gradient, tensor([0.6, 0.8]) / COSINE_EPS)
    (gradient,) = torch.autograd.grad(cosine(a, tensor([0, 0])), a)
    assert gradient.tolist() == [0, 0]


def test_an_output_of_zero_has_a_finite_gradient():
    # An isolated node, replaced by zeros: D(h') = 0 and 1 - cos = 1.
    weights = identity()
    bias = weights["decoder.linears.0.bias"].requires_grad_()
    terms = terms_of(weights, PlusBatch(x=tensor([[3, 4]]), matrix=eye(1), masked=[0]))
    assert terms.masked_reconstruction.item() == 1.0
    (gradient,) = torch.autograd.grad(terms.masked_reconstruction, bias)
    # d (1 - cos)^2 = -2 x / (eps |x|)
    torch.testing.assert_close(gradient, -2 * tensor([0.6, 0.8]) / COSINE_EPS)


def test_every_node_masked_by_the_token():
    # GCN without edges: all rows of H' equal q's input, so that every prediction is the same p.
    weights = identity() | {"token": tensor([0, 2])}
    x = tensor([[1, 0], [0, 1], [-1, -1]])
    terms = terms_of(weights, PlusBatch(x=x, matrix=eye(3), masked=[0, 1, 2], replacement="token"))
    # Means 0, variances 2/3 in both columns, so t is a multiple of x; p = (0, 2), whose cosines
    # with x are 0, 1, -1/sqrt(2).
    cosines = [0, 1, -ROOT_HALF]
    # h = x: cosines 1; h - h' = (1, -2), (0, -1), (-1, -3)
    expected = [
        0.0,
        sum((1 - c) ** 2 for c in cosines) / 3,
        sum(1 - c for c in cosines) / 3,
        math.sqrt((5 + 1 + 10) / 3),
    ]
    assert values(terms) == pytest.approx(expected, rel=1e-12, abs=1e-15)


@pytest.mark.parametrize("level", ["node", "graph"])
@pytest.mark.parametrize("norm", [False, True])
def test_one_node(norm, level):
    # The standardised target of one row is 0, so the latent term is 1.
    weights = identity() | {"token": tensor([0, 1])}
    if norm:
        # A layer whose batch norm turns one row into its bias (3, 4), then the identity.
        for name in ("encoder", "target"):
            weights |= {f"{name}.norms.0.weight": tensor([5, 5])}
            weights |= {f"{name}.norms.0.bias": tensor([3, 4])}
            for part in ("convs.{}.weight", "convs.{}.bias", "activations.{}.weight"):
                first, second = part.format(0), part.format(1)
                weights[f"{name}.{second}"] = weights[f"{name}.{first}"]
    batch = PlusBatch(x=tensor([[0, 2]]), matrix=eye(1), masked=[0], replacement="token")
    terms = terms_of(weights, batch, level=level)
    # Without: h = (0, 2), h' = (0, 1). With: h = h' = (3, 4), cosine 4/5.
    expected = [0.04, 0.04, 1.0, 0.0] if norm else [0.0, 0.0, 1.0, 1.0]
    assert values(terms) == pytest.approx(expected, rel=1e-12, abs=1e-15)


@pytest.mark.parametrize("kind", ["gcn", "gin"])
def test_features_of_zero(kind):
    # Zero rows do not count in the reconstructions, in the other terms they do.
    weights = identity(1) | {"token": tensor([2])}
    if kind == "gin":
        # ReLU(x) is x here, and the slope 1 keeps it.
        for name in ("encoder", "target"):
            weights[f"{name}.convs.0.weight2"] = eye(1)
            weights[f"{name}.convs.0.bias2"] = tensor([0])
    zero = PlusBatch(x=tensor([[0], [0]]), matrix=eye(2), masked=[0], replacement="token")
    # T is constant, so t = 0.
    assert values(terms_of(weights, zero)) == [0.0, 0.0, 1.0, 2.0]
    some = dataclasses.replace(zero, x=tensor([[0], [3]]))
    # T = 0, 3 gives t_0 < 0, and q(h'_0) = 2.
    assert values(terms_of(weights, some)) == pytest.approx([0.0, 0.0, 2.0, 2.0], rel=1e-12)


def test_one_step_and_the_moving_average_by_hand():
    # One feature, one node x = 2 replaced by 1, h = 2 w and h' = w: the invariance is |w|, with
    # gradient 1. A step of rate 0.5 takes w from 1 to 0.5, the target from 3 to
    # 0.9 * 3 + 0.1 * 0.5 = 2.75. Slopes and biases do not move online: slope 0.9 * 0.2 + 0.1 * 1,
    # bias 0.9 * 4 + 0.1 * 0.
    weights = identity(1) | {
        "target.convs.0.weight": tensor([[3]]),
        "target.convs.0.bias": tensor([4]),
        "target.activations.0.weight": tensor([0.2]),
        "token": tensor([1]),
    }
    online = weights["encoder.convs.0.weight"].requires_grad_()
    batch = PlusBatch(x=tensor([[2]]), matrix=eye(1), masked=[0], replacement="token")
    chosen = TermWeights(0.0, 0.0, 0.0, 1.0)
    total = plus_terms(weights, batch, level="node", alpha=1.0, term_weights=chosen).total
    assert total.item() == 1.0
    (gradient,) = torch.autograd.grad(total, online)
    assert gradient.item() == 1.0
    weights["encoder.convs.0.weight"] = online - 0.5 * gradient
    target = moving_average(weights, momentum=0.9)
    assert {name: value.item() for name, value in target.items()} == pytest.approx(
        {
            "target.convs.0.weight": 2.75,
            "target.convs.0.bias": 3.6,
            "target.activations.0.weight": 0.28,
        },
        rel=1e-14,
    )
    assert not any(value.requires_grad for value in target.values())
    # Momentum 1 keeps the target, 0 copies the encoder.
    for momentum, name in [(1.0, "target"), (0.0, "encoder")]:
        kept = moving_average(weights, momentum=momentum)
        for key, value in kept.items():
            torch.testing.assert_close(value, weights[key.replace("target", name)].detach())


@pytest.mark.parametrize(
    ("weights", "changes", "message"),
    [
        ({"decoder.layers.0.weight": tensor([1])}, {}, r"Got 'decoder\.layers\.0\.weight'\."),
        ({"token": torch.zeros(2)}, {}, r"must be float64\. Got torch\.float32 for 'token'\."),
        ({}, {"x": torch.zeros(4, 2)}, r"features must be float64\. Got torch\.float32\."),
        ({}, {"masked": [1, 1]}, "must be distinct"),
        ({}, {"counted": [0, 2, 2, 3]}, "must be distinct"),
        ({}, {"counted": [1, 2]}, r"must be counted\. Got \[0, 3\]"),
        ({}, {"replacement": torch.zeros(1, 2).double()}, r"each of 3 masked .* shape \(1, 2\)\."),
        ({"encoder.norms.0.weight": tensor([1, 1])}, {}, r"or none\. Got \[True\] for 'encoder'\."),
    ],
)
def test_bad_arguments_are_refused(weights, changes, message):
    with pytest.raises(ValueError, match=message):
        terms_of(FOUR_WEIGHTS | weights, dataclasses.replace(FOUR, **changes))


def test_parameters_without_layers_are_refused():
    weights = {k: v for k, v in FOUR_WEIGHTS.items() if not k.startswith("decoder")}
    with pytest.raises(ValueError, match=r"Got no 'decoder\.linears\.0\.weight'\."):
        terms_of(weights, FOUR)
