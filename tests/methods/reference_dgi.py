"""Reference implementation of Deep Graph Infomax, written from the paper only.

Velickovic, Fedus, Hamilton, Lio, Bengio, Hjelm: Deep Graph Infomax, ICLR 2019, arXiv 1809.10341,
transductive setting. (Equation numbers are cited from memory.)

    encoder        H = sigma(D^-1/2 (A + I) D^-1/2 X Theta), sigma = PReLU  (sec. 4.2, eq. 3)
    corruption     X~ = X with its rows shuffled, A~ = A, hence M = N negatives  (sec. 4.2)
    readout        s = sigmoid(1/N sum_i h_i), over the embeddings of the true graph  (sec. 4.2)
    discriminator  D(h, s) = sigmoid(h^T W s)                        (sec. 4.2)
    objective      1/(N+M) ( sum_i log D(h_i, s) + sum_j log(1 - D(h~_j, s)) ),
                   maximised  (sec. 3, eq. 1)

The loss here is minus the objective. Two generalisations that the paper does not have: a bias in
each convolution (the paper writes none; pass zeros to recover it) and a stack of layers (the paper
uses one on the citation graphs).

A graph is a list of directed entries (source, target, weight); an undirected graph lists both
directions. Every node gets one self-loop of weight 1, unless the list already holds a self-loop of
that node, which is then kept. Everything is dense float64; the logarithms are the naive formulas,
and autograd gives the reference gradients.
"""

import math
from dataclasses import dataclass

import torch


@dataclass
class DGITerms:
    """The loss of one step and its parts.

    Attributes:
        loss: -(positive_sum + negative_sum) / (positive_count + negative_count).
        positive_sum: sum over counted i of log D(h_i, s), at most 0.
        positive_count: number of positives.
        negative_sum: sum over counted j of log(1 - D(h~_j, s)), at most 0.
        negative_count: number of negatives.
        summary: s, [H].
        positive: embeddings of the true graph, [N, H].
        negative: embeddings of the corrupted graph, [N, H].
    """

    loss: torch.Tensor
    positive_sum: torch.Tensor
    positive_count: int
    negative_sum: torch.Tensor
    negative_count: int
    summary: torch.Tensor
    positive: torch.Tensor
    negative: torch.Tensor


def propagation_matrix(edges, num_nodes):
    """A_hat = D^-1/2 (A + I) D^-1/2 with row = target, column = source; D = row sums of A + I."""
    a = torch.zeros(num_nodes, num_nodes, dtype=torch.float64)
    has_loop = [False] * num_nodes
    for source, target, weight in edges:
        # Weights of repeated entries are added.
        a[target, source] += float(weight)
        if source == target:
            has_loop[source] = True
    for node in range(num_nodes):
        if not has_loop[node]:
            a[node, node] += 1.0
    degree = [float(a[node].sum()) for node in range(num_nodes)]
    a_hat = torch.zeros_like(a)
    for target in range(num_nodes):
        for source in range(num_nodes):
            a_hat[target, source] = a[target, source] / math.sqrt(degree[target] * degree[source])
    return a_hat


def prelu(x, slope):
    return torch.where(x > 0, x, slope * x)


def encode(a_hat, x, layers):
    """Each layer: A_hat X W + b, then PReLU (the identity where a layer carries no slope)."""
    for layer in layers:
        assert "gamma" not in layer and "beta" not in layer, "DGI's encoder has no batch norm"
        x = a_hat @ (x @ layer["weight"]) + layer["bias"]
        if "slope" in layer:
            x = prelu(x, layer["slope"])
    return x


def dgi_terms(edges, num_nodes, x, layers, bilinear, permutation, counts=None):
    """The loss of one step and its parts.

    permutation: N node numbers; row j of the corrupted features is x[permutation[j]].
    counts: bool [N]; only these rows are in the summary and in both sums (default: all).
        Row j of the negatives counts if node j of the graph does.
    """
    assert x.dtype == torch.float64 and x.shape[0] == num_nodes
    permutation = [int(node) for node in permutation]
    assert sorted(permutation) == list(range(num_nodes))
    rows = [node for node in range(num_nodes) if counts is None or bool(counts[node])]

    a_hat = propagation_matrix(edges, num_nodes)
    positive = encode(a_hat, x, layers)
    negative = encode(a_hat, x[permutation], layers)

    total = torch.zeros(positive.shape[1], dtype=torch.float64)
    for node in rows:
        total = total + positive[node]
    summary = torch.sigmoid(total / len(rows))

    positive_sum = torch.zeros((), dtype=torch.float64)
    negative_sum = torch.zeros((), dtype=torch.float64)
    for node in rows:
        positive_sum = positive_sum + torch.log(torch.sigmoid(positive[node] @ bilinear @ summary))
        negative_sum = negative_sum + torch.log(
            1.0 - torch.sigmoid(negative[node] @ bilinear @ summary)
        )
    loss = -(positive_sum + negative_sum) / (len(rows) + len(rows))
    return DGITerms(
        loss, positive_sum, len(rows), negative_sum, len(rows), summary, positive, negative
    )


def _close(value, expected):
    expected = torch.as_tensor(expected, dtype=torch.float64)
    assert torch.allclose(value.detach(), expected, rtol=0.0, atol=1e-12), (value, expected)


def check_by_hand():
    def tensor(values):
        return torch.tensor(values, dtype=torch.float64)

    def sigmoid(z):
        return 1.0 / (1.0 + math.exp(-z))

    # Propagation. A star around node 0: row sums 4, 2, 2, 2.
    star = [(0, 1, 1.0), (1, 0, 1.0), (0, 2, 1.0), (2, 0, 1.0), (0, 3, 1.0), (3, 0, 1.0)]
    r = 1 / math.sqrt(8)
    _close(
        propagation_matrix(star, 4),
        [[1 / 4, r, r, r], [r, 1 / 2, 0, 0], [r, 0, 1 / 2, 0], [r, 0, 0, 1 / 2]],
    )
    # Its own self-loop of weight 3 replaces the one of weight 1 at node 1, whose row sum is then 4.
    a_hat = propagation_matrix([*star, (1, 1, 3.0)], 4)
    _close(a_hat[1], [1 / 4, 3 / 4, 0, 0])
    # One directed entry 2 -> 3 of weight 8: only row 3 (the target) gains; its row sum is 9, that
    # of row 2 is 1.
    a_hat = propagation_matrix([(2, 3, 8.0)], 4)
    _close(a_hat, [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 8 / 3, 1 / 9]])

    # A cycle 0-1-2-3-0: all row sums are 3, so each node takes the mean of itself and its two
    # neighbours.
    cycle = [(i, j, 1.0) for i in range(4) for j in ((i + 1) % 4, (i - 1) % 4)]
    x = tensor([[3.0], [0.0], [0.0], [0.0]])
    layer = {"weight": tensor([[1.0]]), "bias": tensor([0.0]), "slope": tensor(0.5)}
    # The shuffled features are 0, 0, 3, 0.
    terms = dgi_terms(cycle, 4, x, [layer], tensor([[2.0]]), [1, 2, 0, 3])
    _close(terms.positive, [[1.0], [1.0], [0.0], [1.0]])
    _close(terms.negative, [[0.0], [1.0], [1.0], [1.0]])
    s = sigmoid(3 / 4)
    _close(terms.summary, [s])
    d = sigmoid(2 * s)
    _close(terms.positive_sum, 3 * math.log(d) + math.log(0.5))
    _close(terms.negative_sum, 3 * math.log(1 - d) + math.log(0.5))
    _close(terms.loss, -(3 * math.log(d) + 3 * math.log(1 - d) + 2 * math.log(0.5)) / 8)
    assert (terms.positive_count, terms.negative_count) == (4, 4)

    # Only nodes 0 and 2 count: mean of 1 and 0; positives 1, 0; negatives 0, 1.
    terms = dgi_terms(
        cycle, 4, x, [layer], tensor([[2.0]]), [1, 2, 0, 3], counts=tensor([1, 0, 1, 0]).bool()
    )
    s = sigmoid(1 / 2)
    d = sigmoid(2 * s)
    _close(terms.summary, [s])
    _close(terms.loss, -(math.log(d) + math.log(0.5) + math.log(0.5) + math.log(1 - d)) / 4)
    assert (terms.positive_count, terms.negative_count) == (2, 2)

    # Bias and PReLU: 1 - 2 = -1 -> -0.5 and 0 - 2 = -2 -> -1; a second layer averages -0.5, -0.5,
    # -1, -0.5 again.
    shifted = {"weight": tensor([[1.0]]), "bias": tensor([-2.0]), "slope": tensor(0.5)}
    plain = {"weight": tensor([[1.0]]), "bias": tensor([0.0])}
    terms = dgi_terms(cycle, 4, x, [shifted, plain], tensor([[2.0]]), [0, 1, 2, 3])
    _close(terms.positive, [[-0.5], [-2 / 3], [-2 / 3], [-2 / 3]])
    _close(terms.negative, terms.positive)

    # No edges: A_hat = I and h = x. An asymmetric W shows its orientation: h^T W s = h[0] * s[1].
    x = tensor([[1.0, 4.0], [2.0, -4.0], [-1.0, 8.0], [-2.0, -4.0]])
    eye = {
        "weight": torch.eye(2, dtype=torch.float64),
        "bias": tensor([0.0, 0.0]),
        "slope": tensor(1.0),
    }
    terms = dgi_terms([], 4, x, [eye], tensor([[0.0, 1.0], [0.0, 0.0]]), [3, 2, 1, 0])
    _close(terms.summary, [0.5, sigmoid(1.0)])
    scores = [h * sigmoid(1.0) for h in (1.0, 2.0, -1.0, -2.0)]
    _close(terms.positive_sum, sum(math.log(sigmoid(z)) for z in scores))
    _close(terms.negative_sum, sum(math.log(1 - sigmoid(z)) for z in reversed(scores)))

    # Gradients against finite differences, through every parameter.
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(4, 3, dtype=torch.float64, generator=generator)
    shapes = [(3, 2), (2,), (), (2, 2), (2,), (), (2, 2)]
    values = [
        torch.randn(shape, dtype=torch.float64, generator=generator).requires_grad_()
        for shape in shapes
    ]

    def loss(w1, b1, s1, w2, b2, s2, bilinear):
        layers = [{"weight": w1, "bias": b1, "slope": s1}, {"weight": w2, "bias": b2, "slope": s2}]
        return dgi_terms(star, 4, x, layers, bilinear, [2, 3, 1, 0]).loss

    assert torch.autograd.gradcheck(loss, values)
