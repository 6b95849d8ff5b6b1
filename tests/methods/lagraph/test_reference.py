"""The reference implementation against values computed by hand."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor

from reference import RefGraph, RefLoss, decode, encode, gcn_matrix, gin_matrix, loss, num_masked

LOG3 = math.log(3.0)


def tensor(values: object) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def eye(scale: float, size: int = 2) -> dict[str, Tensor]:
    """A linear layer h -> scale * h; also such a GCN layer on graphs without edges."""
    weight = scale * torch.eye(size, dtype=torch.float64)
    return {"weight": weight, "bias": torch.zeros(size, dtype=torch.float64), "slope": tensor(1.0)}


def graph(x: object, edges: object = (), masked: object = (), noise: object = None) -> RefGraph:
    features = tensor(x)
    rows = (
        torch.zeros(0, features.shape[1], dtype=torch.float64) if noise is None else tensor(noise)
    )
    return RefGraph(len(features), list(edges), features, list(masked), rows)


PATH = [(0, 1, 1.0), (1, 0, 1.0), (1, 2, 1.0), (2, 1, 1.0)]
BLANK = [[0.0], [0.0], [0.0]]
GIN_ONE = {
    "weight1": tensor([[1.0]]),
    "bias1": tensor([0.0]),
    "weight2": tensor([[1.0]]),
    "bias2": tensor([0.0]),
}


@pytest.mark.parametrize(
    ("nodes", "edges", "expected"),
    [
        (1, [], [[1.0]]),
        (2, [(0, 1, 1.0), (1, 0, 1.0)], [[0.5, 0.5], [0.5, 0.5]]),
        (3, PATH, [[1 / 2, 6**-0.5, 0], [6**-0.5, 1 / 3, 6**-0.5], [0, 6**-0.5, 1 / 2]]),
        # The incoming degrees are 1 and 4.
        (2, [(0, 1, 3.0)], [[1.0, 0.0], [1.5, 0.25]]),
        # The self-loop keeps its weight.
        (2, [(0, 0, 3.0), (0, 1, 1.0), (1, 0, 1.0)], [[0.75, 8**-0.5], [8**-0.5, 0.5]]),
    ],
)
def test_gcn_matrix(nodes, edges, expected):
    from torch_geometric.nn.conv.gcn_conv import gcn_norm

    matrix = gcn_matrix(graph(BLANK[:nodes], edges))
    torch.testing.assert_close(matrix, tensor(expected))
    index = torch.tensor([edge[:2] for edge in edges], dtype=torch.long).reshape(-1, 2).t()
    index, weight = gcn_norm(
        index, tensor([edge[2] for edge in edges]), num_nodes=nodes, dtype=torch.float64
    )
    pyg = torch.zeros(nodes, nodes, dtype=torch.float64).index_put(
        (index[1], index[0]), weight, accumulate=True
    )
    torch.testing.assert_close(matrix, pyg)


def test_gin_matrix_and_bad_edges():
    torch.testing.assert_close(
        gin_matrix(graph(BLANK, PATH)), tensor([[1.0, 1, 0], [1, 1, 1], [0, 1, 1]])
    )
    torch.testing.assert_close(
        gin_matrix(graph(BLANK[:2], [(0, 1, 2.0), (0, 0, 3.0)])), tensor([[4.0, 0], [2, 1]])
    )
    with pytest.raises(ValueError, match=r"Got \(0, 1\) twice"):
        gin_matrix(graph(BLANK, [(0, 1, 1.0), (0, 1, 2.0)]))
    with pytest.raises(ValueError, match="non-negative"):
        gcn_matrix(graph(BLANK, [(0, 1, -1.0)]))


def test_gcn_layers():
    pair = graph([[1.0], [3.0]], [(0, 1, 1.0), (1, 0, 1.0)])
    # The mean 2, times 2, minus 5, is -1.
    layer = {"weight": tensor([[2.0]]), "bias": tensor([-5.0])}
    first, second = encode(
        "gcn",
        [layer | {"slope": tensor(0.25)}, {"weight": tensor([[-4.0]]), "bias": tensor([1.0])}],
        [pair],
        False,
    )
    torch.testing.assert_close(first[0], tensor([[-0.25], [-0.25]]))
    torch.testing.assert_close(second[0], tensor([[2.0], [2.0]]))
    torch.testing.assert_close(encode("gcn", [layer], [pair], False)[0][0], tensor([[0.0], [0.0]]))


def test_gin_layer():
    layer = {
        "weight1": tensor([[1.0, -1]]),
        "bias1": tensor([0.0, 6.5]),
        "weight2": tensor([[1.0], [2]]),
        "bias2": tensor([-8.0]),
    }
    # Sums 3, 7, 6; hidden (3, 3.5), (7, 0), (6, 0.5); out 2, -1, -1
    path = graph([[1.0], [2.0], [4.0]], PATH)
    torch.testing.assert_close(
        encode("gin", [layer], [path], False)[0][0], tensor([[2.0], [0.0], [0.0]])
    )
    torch.testing.assert_close(
        encode("gin", [layer | {"slope": tensor(0.5)}], [path], False)[0][0],
        tensor([[2.0], [-0.5], [-0.5]]),
    )


def test_batch_norm_per_view_over_all_graphs():
    layer = eye(1.0, 1) | {"gamma": tensor([2.0]), "beta": tensor([10.0])}
    graphs = [graph([[1.0]], masked=[0], noise=[[7.0]]), graph([[3.0]])]
    plain, masked = (
        encode("gcn", [layer], graphs, False)[0],
        encode("gcn", [layer], graphs, True)[0],
    )
    # Rows (1, 3): mean 2, variance 1; rows (7, 3): mean 5, variance 4
    near, far = 2 / math.sqrt(1.00001), 4 / math.sqrt(4.00001)
    torch.testing.assert_close(
        torch.cat(plain), tensor([[10 - near], [10 + near]]), rtol=1e-12, atol=0
    )
    torch.testing.assert_close(
        torch.cat(masked), tensor([[10 + far], [10 - far]]), rtol=1e-12, atol=0
    )
    # One row: variance 0
    torch.testing.assert_close(encode("gcn", [layer], graphs[:1], False)[0][0], tensor([[10.0]]))


def test_decode():
    one, two = graph([[0.0]]), graph([[0.0], [0.0]], [(0, 1, 1.0), (1, 0, 1.0)])
    first = {
        "weight": tensor([[1.0]]),
        "bias": tensor([0.0]),
        "gamma": tensor([1.0]),
        "beta": tensor([0.0]),
    }
    layers = [first, {"weight": tensor([[2.0]]), "bias": tensor([1.0])}]
    # Rows (-4, 2.5) are (0, 2.5) after ReLU, with mean 1.25.
    unit = 1 / math.sqrt(1.25**2 + 1e-5)
    hidden = [tensor([[-4.0]]), tensor([[2.5]])]
    expected = tensor([[1 - 2.5 * unit], [1 + 2.5 * unit]])
    torch.testing.assert_close(torch.cat(decode(layers, hidden, [one, one])), expected)
    torch.testing.assert_close(
        torch.cat(decode(layers, hidden, [one, one], relu_output=True)), expected.clamp(min=0)
    )
    pair = [tensor([[1.0], [3.0]])]
    torch.testing.assert_close(
        decode([layers[1] | {"kind": "gcn"}], pair, [two])[0], tensor([[5.0], [5.0]])
    )
    gin = GIN_ONE | {
        "bias1": tensor([-1.0]),
        "weight2": tensor([[2.0]]),
        "bias2": tensor([0.5]),
        "kind": "gin",
    }
    torch.testing.assert_close(decode([gin], pair, [two])[0], tensor([[6.5], [6.5]]))


# Two graphs without edges, H = X and D(H) = 2 X, so D(H) - X = X. Differences of the masked nodes:
# (1, 3) | (2, 3), (0, -2).
PAIR = [
    graph([[1.0, 3.0]], masked=[0], noise=[[0.0, 0.0]]),
    graph([[1.0, 0.0], [3.0, 4.0], [0.0, 2.0]], masked=[1, 0], noise=[[1.0, 1.0], [1.0, 2.0]]),
]


def pair_loss(level: str, objective: str, layers: int = 1, **options: object) -> RefLoss:
    encoder = [eye(1.0), eye(3.0)][:layers]
    return loss(
        PAIR,
        level=level,
        objective=objective,
        encoder_kind="gcn",
        encoder_layers=encoder,
        decoder_layers=[eye(2.0)],
        **options,
    )


@pytest.mark.parametrize(
    ("level", "objective", "options", "reconstruction", "square"),
    [
        ("node", "mse-embed", {}, 10, 27 / 3),
        ("node", "mse-embed", {"layers": 2}, 250, 9 * 27 / 3),
        ("node", "mse-embed", {"invariance_on": "all"}, 10, 27 / 4),
        ("node", "mse-embed", {"reduction": "mean"}, 5, 27 / 6),
        ("node", "mse-embed", {"reduction": "mean", "invariance_on": "all"}, 5, 27 / 8),
        ("node", "mse-output", {}, 10, 4 * 27 / 3),
        ("graph", "mse-output", {"invariance_on": "all"}, 10, 4 * 27 / 4),
        ("graph", "mse-output", {"reduction": "mean"}, 5, 4 * 27 / 6),
        ("graph", "mse-embed", {}, 10, (10 + 5) / 3),
        ("graph", "mse-embed", {"readout": "mean"}, 10, (10 + 5 / 9) / 3),
        ("graph", "mse-embed", {"layers": 2}, 250, (1 + 9) * 15 / 3),
        ("graph", "mse-embed", {"layers": 2, "reduction": "mean"}, 125, (1 + 9) * 15 / (2 * 4)),
        ("node", "denoise", {}, (10 + (5 + 17) / 2) / 2, 0),
        ("graph", "denoise", {"reduction": "mean"}, (10 + 5 + 17) / 6, 0),
    ],
)
def test_loss_by_hand(level, objective, options, reconstruction, square):
    result = pair_loss(level, objective, alpha=2.0, **options)
    assert float(result.reconstruction) == pytest.approx(reconstruction, rel=1e-12)
    assert float(result.invariance) == pytest.approx(math.sqrt(square), rel=1e-12)
    assert float(result.total) == pytest.approx(reconstruction + 2 * math.sqrt(square), rel=1e-12)


def test_loss_on_a_path():
    # H = 3, 7, 6 and H' = 5, 9, 6
    path = graph([[1.0], [2.0], [4.0]], PATH, masked=[0], noise=[[3.0]])
    shared = {
        "encoder_kind": "gin",
        "encoder_layers": [GIN_ONE],
        "decoder_layers": [eye(1.0, 1)],
        "alpha": 0.5,
        "objective": "mse-embed",
    }
    node = loss([path], level="node", **shared)
    assert [float(node.total), float(node.reconstruction), float(node.invariance)] == pytest.approx(
        [12, (4 + 25 + 4) / 3, 2]
    )
    assert float(
        loss([path], level="node", invariance_on="all", **shared).invariance
    ) == pytest.approx(math.sqrt(8 / 3))
    # z = 16, z' = 20, one masked node
    assert float(loss([path], level="graph", **shared).invariance) == pytest.approx(4)
    with pytest.raises(ValueError, match="compare graphs"):
        loss([path], level="graph", invariance_on="all", **shared)


@pytest.mark.parametrize("level", ["node", "graph"])
def test_masked_view_is_decoded_with_its_own_statistics(level):
    two = graph([[1.0], [3.0]], masked=[0], noise=[[7.0]])
    decoder = [eye(1.0, 1) | {"gamma": tensor([1.0]), "beta": tensor([0.0])}, eye(1.0, 1)]
    networks = {"encoder_kind": "gcn", "encoder_layers": [eye(1.0, 1)], "decoder_layers": decoder}
    result = loss([two], level=level, objective="mse-output", alpha=1.0, **networks)
    # Plain rows (1, 3) become -unit, unit; masked rows (7, 3) have mean 5, variance 4
    unit = 1 / math.sqrt(1.00001)
    assert result.invariance.item() == pytest.approx(unit + 2 / math.sqrt(4.00001), rel=1e-12)
    assert result.reconstruction.item() == pytest.approx(
        ((1 + unit) ** 2 + (3 - unit) ** 2) / 2, rel=1e-12
    )


@pytest.mark.parametrize("level", ["node", "graph"])
def test_cross_entropy_and_kl_by_hand(level):
    graphs = [
        graph([[1.0, 0.0]], masked=[0], noise=[[0.0, 0.0]]),
        graph([[0.5, 0.5], [0.0, 1.0]], masked=[1], noise=[[1.0, 0.0]]),
    ]
    shared = {
        "level": level,
        "encoder_kind": "gcn",
        "encoder_layers": [eye(1.0)],
        "decoder_layers": [eye(LOG3)],
        "alpha": 1.0,
    }
    # p = (3/4, 1/4), (1/2, 1/2), (1/4, 3/4)
    sure, even = math.log(4 / 3), math.log(2)
    # p' = (1/2, 1/2), (3/4, 1/4)
    kl = [0.75 * math.log(3 / 2) + 0.25 * math.log(1 / 2), 0.75 * LOG3 + 0.25 * math.log(1 / 3)]
    result = loss(graphs, objective="ce-output", **shared)
    assert float(result.reconstruction) == pytest.approx((sure + (even + sure) / 2) / 2, rel=1e-12)
    assert float(result.invariance) == pytest.approx(sum(kl) / 2, rel=1e-12)
    mean = loss(graphs, objective="ce-output", reduction="mean", invariance_on="all", **shared)
    assert float(mean.reconstruction) == pytest.approx((2 * sure + even) / 3, rel=1e-12)
    assert float(mean.invariance) == pytest.approx(sum(kl) / 3, rel=1e-12)
    embed = loss(graphs, objective="ce-embed", **shared)
    assert float(embed.reconstruction) == float(result.reconstruction)
    assert float(embed.invariance) == pytest.approx(math.sqrt((1 + 2) / 2), rel=1e-12)
    huge = loss(graphs, objective="ce-output", **(shared | {"decoder_layers": [eye(5000.0)]}))
    assert huge.reconstruction.item() == pytest.approx(even / 4, rel=1e-12)
    assert huge.invariance.item() == pytest.approx((even + 5000) / 2, rel=1e-12)
    with pytest.raises(ValueError, match="sum to 1"):
        loss([graph([[1.0, 1.0]])], objective="ce-embed", **shared)


@pytest.mark.parametrize("level", ["node", "graph"])
@pytest.mark.parametrize("objective", ["mse-embed", "mse-output", "ce-output", "denoise"])
@pytest.mark.parametrize("masked", [[], [0]])
def test_zero_root_has_zero_gradient(level, objective, masked):
    unchanged = graph(
        [[0.25, 0.75], [1.0, 0.0]], masked=masked, noise=[[0.25, 0.75]] if masked else None
    )
    encoder, decoder = eye(1.0), eye(2.0)
    encoder["weight"].requires_grad_()
    networks = {"encoder_kind": "gcn", "encoder_layers": [encoder], "decoder_layers": [decoder]}
    result = loss([unchanged], level=level, objective=objective, alpha=1e6, **networks)
    assert result.invariance.item() == 0.0
    total, alone = (
        torch.autograd.grad(term, encoder["weight"], retain_graph=True)[0]
        for term in (result.total, result.reconstruction)
    )
    torch.testing.assert_close(total, alone, rtol=0, atol=1e-9)
    assert (objective == "denoise" and not masked) == (not bool(alone.any()))


@pytest.mark.parametrize("level", ["node", "graph"])
@pytest.mark.parametrize("kind", ["gcn", "gin"])
@pytest.mark.parametrize(
    "objective", ["mse-embed", "mse-output", "ce-embed", "ce-output", "denoise"]
)
def test_gradient_by_finite_differences(level, kind, objective):
    generator = torch.Generator().manual_seed(0)
    path = graph([[0.2, 0.8], [1.0, 0.0], [0.0, 1.0]], PATH, masked=[2], noise=[[0.7, -0.4]])
    edge = graph([[1.0, 0.0], [0.5, 0.5]], [(0, 1, 2.0)], masked=[0], noise=[[-0.3, 0.1]])
    weights = [
        torch.randn(2, 2, dtype=torch.float64, generator=generator, requires_grad=True)
        for _ in range(3)
    ]
    biases = [
        torch.randn(2, dtype=torch.float64, generator=generator, requires_grad=True)
        for _ in range(3)
    ]

    def total(*flat: Tensor) -> Tensor:
        (w, v, u), (b, c, d) = flat[:3], flat[3:]
        layer = {
            "weight": w,
            "bias": b,
            "weight1": w,
            "bias1": b,
            "weight2": v,
            "bias2": c,
            "slope": tensor(0.25),
            "gamma": d,
            "beta": c,
        }
        networks = {
            "encoder_kind": kind,
            "encoder_layers": [layer, layer],
            "decoder_layers": [layer, {"weight": u, "bias": d}],
        }
        return loss([path, edge], level=level, objective=objective, alpha=1.5, **networks).total

    assert torch.autograd.gradcheck(total, (*weights, *biases))


@pytest.mark.parametrize("masked", [[0], [1], [0, 1]])
@pytest.mark.parametrize("width", [1, 2, 3])
def test_theorem_1_needs_the_root_of_the_feature_count(width, masked):
    """A counterexample to the printed bound.

    f = identity, F = 0, masks of zeros, X uniform on {-sigma, sigma}^(2 x d). The expectation is
    the mean over all sign patterns.
    """
    sigma, nodes = 0.5, 2
    signs = itertools.product([-sigma, sigma], repeat=nodes * width)
    zeros = torch.zeros(len(masked), width).tolist()
    graphs = [graph([row[:width], row[width:]], masked=masked, noise=zeros) for row in signs]
    identity = {"encoder_layers": [eye(1.0, width)], "decoder_layers": [eye(1.0, width)]}
    result = loss(
        graphs,
        level="node",
        objective="mse-output",
        encoder_kind="gcn",
        alpha=2 * sigma * nodes,
        **identity,
    )
    # E ||f(X) - F||^2 + E ||X - F||^2, each sigma^2 per element
    left = 2 * nodes * width * sigma**2
    assert float(result.reconstruction) == 0.0
    printed = float(result.total)
    assert printed == pytest.approx(2 * nodes * math.sqrt(width) * sigma**2, rel=1e-12)
    assert (printed < left - 1e-9) == (width > 1)
    assert math.sqrt(width) * printed == pytest.approx(left, rel=1e-12)


@pytest.mark.parametrize(
    ("nodes", "ratio", "rounded", "floored"),
    [
        (1, 0.05, 1, 0),
        (10, 0.05, 1, 0),
        (30, 0.05, 2, 1),
        (50, 0.05, 2, 2),
        (7, 0.3, 2, 2),
        (4, 1.0, 4, 4),
    ],
)
def test_num_masked(nodes, ratio, rounded, floored):
    assert num_masked(nodes, ratio, "round") == rounded
    assert num_masked(nodes, ratio, "floor") == floored
