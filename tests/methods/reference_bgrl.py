"""Reference implementation of Bootstrapped Graph Latents (BGRL), written from the paper only.

Thakoor, Tallec, Azar, Azabou, Dyer, Munos, Velickovic, Valko: Large-Scale Representation Learning
on Graphs via Bootstrapping, ICLR 2022, arXiv 2102.06514. One step (equation numbers and schedules
are cited from memory):

    views      two augmentations: a Bernoulli mask over the F feature columns, shared by all nodes,
               and one over the edges; kept features are not rescaled, self-loops are added after
               dropping edges
    encoders   online H1 = E_theta(view 1), H2 = E_theta(view 2);
               target T1 = E_phi(view 1), T2 = E_phi(view 2)
    predictor  Z = p_theta(H), node by node
    eq. 1      l(theta, phi) = -(2/N) sum_i cos(Z1_i, T2_i); the paper symmetrises it by also
               predicting T1 from Z2
    eq. 2      theta <- optimize(theta, eta, d l / d theta); targets are detached from the gradient
    eq. 3      phi <- tau phi + (1 - tau) theta

The loss here is 1/N sum_i (2 - cos(Z1_i, T2_i) - cos(Z2_i, T1_i)) = 2 - C, with C the mean of the
sum of both cosines. Eq. 1 summed over both directions is -2 C = 2 (loss - 2), twice our gradient;
averaged over them it is -C = loss - 2, our gradient. The paper does not say which. For AdamW the
factor matters only through its epsilon.

A graph is a list of (source, target, weight). All tensors are dense float64, and the cosine has no
epsilon (zeros give NaN).
"""

import math
from dataclasses import dataclass

import torch


@dataclass
class BGRLTerms:
    """The loss of one step and its parts.

    Attributes:
        loss: (sum_1 + sum_2) / count.
        sum_1: sum over counted i of 1 - cos(q(h1_i), t2_i).
        sum_2: sum over counted i of 1 - cos(q(h2_i), t1_i).
        count: number of counted nodes.
        online: the online encoder's embeddings of view 1 and view 2, [N, H] each.
        prediction: the predictor's outputs for them.
        target: the target encoder's embeddings of view 1 and view 2, detached.
    """

    loss: torch.Tensor
    sum_1: torch.Tensor
    sum_2: torch.Tensor
    count: int
    online: tuple
    prediction: tuple
    target: tuple


def propagation_matrix(edges, num_nodes):
    """A_hat = D^-1/2 (A + I) D^-1/2 with row = target and D = row sums of A + I.

    A self-loop in `edges` replaces the entry of I.
    """
    a = torch.zeros(num_nodes, num_nodes, dtype=torch.float64)
    for source, target, weight in edges:
        a[target, source] += float(weight)
    looped = {source for source, target, _ in edges if source == target}
    for node in set(range(num_nodes)) - looped:
        a[node, node] += 1.0
    scale = torch.diag(a.sum(dim=1) ** -0.5)
    return scale @ a @ scale


def prelu(x, slope):
    return torch.where(x > 0, x, slope * x)


def batch_norm(x, gamma, beta):
    """Batch norm over all rows of the view, with the biased variance and eps 1e-5."""
    mean = x.sum(dim=0) / x.shape[0]
    variance = ((x - mean) ** 2).sum(dim=0) / x.shape[0]
    return gamma * (x - mean) / torch.sqrt(variance + 1e-5) + beta


def encode(a_hat, x, layers):
    """Layers of convolution, batch norm (if `gamma` is given) and PReLU (if `slope` is given)."""
    for layer in layers:
        x = a_hat @ (x @ layer["weight"]) + layer["bias"]
        if "gamma" in layer:
            x = batch_norm(x, layer["gamma"], layer["beta"])
        if "slope" in layer:
            x = prelu(x, layer["slope"])
    return x


def predict(h, predictor):
    """The predictor's output for embeddings h.

    predictor: a list of {"weight": [in, out], "bias": [out], "slope": scalar}; the last layer has
        no slope.
    """
    assert "slope" not in predictor[-1], "the predictor's last layer is linear"
    for layer in predictor:
        h = h @ layer["weight"] + layer["bias"]
        if "slope" in layer:
            h = prelu(h, layer["slope"])
    return h


def augment(edges, num_nodes, x, keep_edges, keep_features):
    """The propagation matrix of a view's remaining edges, and its masked features."""
    assert x.dtype == torch.float64 and len(keep_edges) == len(edges)
    assert x.shape == (num_nodes, len(keep_features))
    remaining = [edge for edge, keep in zip(edges, keep_edges, strict=True) if bool(keep)]
    mask = torch.tensor([1.0 if bool(keep) else 0.0 for keep in keep_features], dtype=torch.float64)
    return propagation_matrix(remaining, num_nodes), x * mask


def bgrl_terms(
    edges,
    num_nodes,
    x,
    online_layers,
    target_layers,
    predictor,
    keep_edges_1,
    keep_features_1,
    keep_edges_2,
    keep_features_2,
    counts=None,
):
    """The loss of one step and its parts.

    counts: bool [N]; only these rows are averaged (default: all).
    """
    view_1 = augment(edges, num_nodes, x, keep_edges_1, keep_features_1)
    view_2 = augment(edges, num_nodes, x, keep_edges_2, keep_features_2)
    online_1, online_2 = encode(*view_1, online_layers), encode(*view_2, online_layers)
    target_1, target_2 = (encode(*view, target_layers).detach() for view in (view_1, view_2))
    prediction_1, prediction_2 = predict(online_1, predictor), predict(online_2, predictor)

    def cosine(a, b):
        return (a * b).sum() / torch.sqrt((a * a).sum() * (b * b).sum())

    rows = [node for node in range(num_nodes) if counts is None or bool(counts[node])]
    sum_1 = sum(1.0 - cosine(prediction_1[node], target_2[node]) for node in rows)
    sum_2 = sum(1.0 - cosine(prediction_2[node], target_1[node]) for node in rows)
    return BGRLTerms(
        (sum_1 + sum_2) / len(rows),
        sum_1,
        sum_2,
        len(rows),
        (online_1, online_2),
        (prediction_1, prediction_2),
        (target_1, target_2),
    )


def ema(target, online, momentum):
    """Eq. 3: momentum * target + (1 - momentum) * online.

    The arguments are tensors, or nested lists and dicts of tensors.
    """
    if isinstance(target, dict):
        return {name: ema(target[name], online[name], momentum) for name in target}
    if isinstance(target, (list, tuple)):
        return [ema(a, b, momentum) for a, b in zip(target, online, strict=True)]
    return (momentum * target + (1.0 - momentum) * online).detach()


def momentum_schedule(step, total, base):
    """tau at `step`: base at step 0, 1 at step `total` (the appendix: base 0.99, total 10,000)."""
    return 1.0 - (1.0 - base) * (math.cos(math.pi * step / total) + 1.0) / 2.0


def learning_rate(step, total, warmup, peak):
    """The learning rate at `step` (appendix, cited from memory).

        eta_i = peak * i / warmup                                                   for i < warmup
        eta_i = peak * (1 + cos(pi * (i - warmup) / (total - warmup))) / 2          for i >= warmup

    with warmup 1,000 and total 10,000. The paper does not say whether the first update is i = 0 or
    1. Here it is 0, with rate 0, or the peak if warmup = 0.
    """
    if step < warmup:
        return peak * step / warmup
    return peak * (1.0 + math.cos(math.pi * (step - warmup) / (total - warmup))) / 2.0


def check_by_hand():
    def tensor(values):
        return torch.tensor(values, dtype=torch.float64)

    def close(value, expected):
        value, expected = (
            torch.as_tensor(a, dtype=torch.float64).detach() for a in (value, expected)
        )
        assert torch.allclose(value, expected, rtol=0.0, atol=1e-12), (value, expected)

    # A 4-cycle; all edges dropped, so A_hat = I and the features go straight into the batch norm.
    # Each column has mean 0 and variance 1, so it is scaled by k; view 2 also loses column 1, which
    # the batch norm leaves at 0.
    cycle = [(i, j, 1.0) for i in range(4) for j in ((i + 1) % 4, (i - 1) % 4)]
    none, x = [False] * 8, tensor([[1, 1], [-1, 1], [1, -1], [-1, -1]])
    k, eye, zero, one = (
        1 / math.sqrt(1 + 1e-5),
        tensor([[1, 0], [0, 1]]),
        tensor([0, 0]),
        tensor([1, 1]),
    )
    layer = {
        "weight": eye,
        "bias": tensor([5, -7]),
        "gamma": one,
        "beta": zero,
        "slope": tensor(0.5),
    }
    linear, both, first = [{"weight": eye, "bias": zero}], [True, True], [True, False]
    terms = bgrl_terms(cycle, 4, x, [layer], [layer], linear, none, both, none, first)
    close(terms.online[0], [[k, k], [-k / 2, k], [k, -k / 2], [-k / 2, -k / 2]])
    close(terms.online[1], [[k, 0], [-k / 2, 0], [k, 0], [-k / 2, 0]])
    cosines = [1 / math.sqrt(2), 1 / math.sqrt(5), 2 / math.sqrt(5), 1 / math.sqrt(2)]
    close(terms.loss, 2 - 2 * sum(cosines) / 4)
    terms = bgrl_terms(
        cycle, 4, x, [layer], [layer], linear, none, both, none, first, counts=[False, True] * 2
    )
    close(terms.loss, 2 - 2 * (cosines[1] + cosines[3]) / 2)
    # The affine part comes after the scaling and before the PReLU; a hidden layer of the predictor
    # has its own slope.
    scaled = dict(layer, gamma=tensor([2, 3]), beta=tensor([1, 0]))
    hidden = [{"weight": -eye, "bias": one, "slope": 0.1}, {"weight": 2 * eye, "bias": one}]
    terms = bgrl_terms(cycle, 4, x, [scaled], [layer], hidden, none, both, none, first)
    close(terms.online[0][1], [(1 - 2 * k) / 2, 3 * k])
    close(terms.prediction[0][1], [2 * (1 - (1 - 2 * k) / 2) + 1, 2 * 0.1 * (1 - 3 * k) + 1])
    # Each view normalises its own edges and keeps its features' scale: all rows sum to 3 in view 1;
    # with only 0 -> 1 left in view 2, row 1 sums to 2 and the others to 1. A dropped self-loop
    # gives way to one of weight 1.
    terms = bgrl_terms(
        cycle, 4, x, linear, linear, linear, [True] * 8, both, [True] + [False] * 7, first
    )
    # The mean of rows 0, 1 and 3 of x.
    close(terms.online[0][0], [-1 / 3, 1 / 3])
    close(terms.online[1], [[1, 0], [1 / math.sqrt(2) - 1 / 2, 0], [1, 0], [-1, 0]])
    close(augment([(0, 0, 3.0), (1, 0, 1.0)], 4, x, [True, True], both)[0][0], [3 / 4, 1 / 2, 0, 0])
    close(
        augment([(0, 0, 3.0), (1, 0, 1.0)], 4, x, [False, True], both)[0][0],
        [1 / 2, 1 / math.sqrt(2), 0, 0],
    )
    # Which view is paired with which: h1 = (a, b), h2 = (a, 0), t1 = (a, a + b), t2 = (a, a) for
    # rows (a, b) of x.
    sheared = [{"weight": tensor([[1, 1], [0, 1]]), "bias": zero}]
    terms = bgrl_terms(cycle, 4, x, linear, sheared, linear, none, both, none, first)
    close(
        [terms.sum_1, terms.sum_2, terms.loss],
        [2, 2 - 2 / math.sqrt(5), 1 - 1 / (2 * math.sqrt(5))],
    )

    # Gradients against finite differences in the online weights; none in the target's.
    torch.manual_seed(0)
    x = torch.randn(4, 3, dtype=torch.float64)
    shapes = [(3, 2), (2,), (2,), (2,), (), (2, 3), (3,), (), (3, 2), (2,)]
    values = [torch.randn(shape, dtype=torch.float64).requires_grad_() for shape in shapes]
    names = ("weight", "bias", "gamma", "beta", "slope")
    target = {
        name: (value.detach() + 0.5).requires_grad_()
        for name, value in zip(names, values, strict=False)
    }

    def loss(w, b, gamma, beta, s, p, q, t, u, v):
        online = dict(zip(names, (w, b, gamma, beta, s), strict=True))
        heads = [{"weight": p, "bias": q, "slope": t}, {"weight": u, "bias": v}]
        keep = ([True, False] * 4, [True, True, False], [True] * 6 + [False] * 2, [True] * 3)
        return bgrl_terms(cycle, 4, x, [online], [target], heads, *keep).loss

    assert torch.autograd.gradcheck(loss, values)
    loss(*values).backward()
    assert all(value.grad is None for value in target.values())
    close(
        ema([{"weight": tensor([1, 2])}], [{"weight": tensor([5, 2])}], 0.75)[0]["weight"], [2, 2]
    )
    close([momentum_schedule(i, 100, 0.99) for i in (0, 50, 100)], [0.99, 0.995, 1.0])
    close([learning_rate(i, 100, 20, 8.0) for i in (0, 5, 20, 60, 100)], [0, 2, 8, 4, 0])
