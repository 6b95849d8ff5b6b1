"""The reference of the objective "plus" on random networks: PyTorch's functions and gradients."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from plus_cases import (
    PATH,
    TERMS,
    eye,
    random_batch,
    random_weights,
    tensor,
    terms_of,
    values,
)
from reference_plus import (
    PlusBatch,
    TermWeights,
    decode,
    dense_matrix,
    encode,
    masked_features,
    moving_average,
    plus_terms,
    standardised_target,
)
from torch import Tensor
from torch.nn import functional

import reference


def torch_terms(
    weights: dict[str, Tensor], batch: PlusBatch, level: str, alpha: float
) -> list[Tensor]:
    """The four terms by PyTorch's own functions, on whole matrices."""

    def norm(h: Tensor, name: str) -> Tensor:
        w, b = weights[f"{name}.weight"], weights[f"{name}.bias"]
        return functional.batch_norm(h, None, None, w, b, training=True)

    def run(name: str, matrix: Tensor, x: Tensor) -> list[Tensor]:
        out = []
        for i in (0, 1):
            conv = f"{name}.convs.{i}"
            x = matrix @ x @ weights[f"{conv}.weight"] + weights[f"{conv}.bias"]
            if f"{conv}.weight2" in weights:
                x = x.relu() @ weights[f"{conv}.weight2"] + weights[f"{conv}.bias2"]
                x = x.relu()
            else:
                x = functional.prelu(x, weights[f"{name}.activations.{i}.weight"])
            x = norm(x, f"{name}.norms.0") if i == 0 else x
            out.append(x)
        return out

    def linear(h: Tensor, name: str) -> Tensor:
        return functional.linear(h, weights[f"{name}.weight"], weights[f"{name}.bias"])

    def decoded(h: Tensor) -> Tensor:
        h = norm(linear(h, "decoder.linears.0").relu(), "decoder.norms.0")
        return linear(h, "decoder.linears.1")

    rows, counted = torch.tensor(batch.masked), torch.tensor(batch.counted)
    changed = batch.x.clone()
    changed[rows] = weights["token"]
    plain = run("encoder", batch.matrix, batch.x)
    masked = run("encoder", batch.masked_matrix, changed * batch.kept_columns)
    target = run("target", batch.matrix, batch.x)[-1]
    mean, deviation = target[counted].mean(0), target[counted].std(0, correction=0)
    target = ((target - mean) / (deviation + 1e-6)).detach()
    used = batch.x.abs().sum(1) > 0
    errors, masked_errors = (
        (1 - functional.cosine_similarity(decoded(view[-1]), batch.x, dim=1)) ** 2
        for view in (plain, masked)
    )
    prediction = functional.prelu(linear(masked[-1], "predictor.0"), weights["predictor.1.weight"])
    prediction = linear(prediction, "predictor.2")
    cosines = functional.cosine_similarity(prediction, target, dim=1)
    differences = (plain[-1] - masked[-1])[rows]
    if level == "graph":
        pool = functional.one_hot(torch.tensor(batch.graph_id)).double().T
        differences = pool @ (torch.cat(plain, dim=1) - torch.cat(masked, dim=1))
    return [
        errors[counted][used[counted]].mean(),
        masked_errors[rows][used[rows]].mean(),
        (1 - cosines[rows]).mean(),
        alpha * (differences.norm() ** 2 / len(rows)).sqrt(),
    ]


@pytest.mark.parametrize("kind", ["gcn", "gin"])
def test_encoder_and_decoder_equal_the_reference_of_the_paper(kind):
    weights, x = random_weights(kind), random_batch(kind).x
    layers: list[dict[str, Tensor]] = [{}, {}]
    linears: list[dict[str, Tensor]] = [{}, {}]
    first = {"weight": "weight1", "bias": "bias1"} if kind == "gin" else {}
    norm = {"weight": "gamma", "bias": "beta"}
    for name, value in weights.items():
        if not name.startswith(("encoder", "decoder")):
            continue
        owner, part, i, last = name.split(".")
        into = (layers if owner == "encoder" else linears)[int(i)]
        if part == "linears":
            into[last] = value.T if last == "weight" else value
        else:
            names = {"convs": first, "norms": norm, "activations": {"weight": "slope"}}[part]
            into[names.get(last, last)] = value
    graph = reference.RefGraph(6, PATH, x, [], x[:0])
    theirs = [h for (h,) in reference.encode(kind, layers, [graph], False)]
    matrix = dense_matrix(kind, num_nodes=6, edges=PATH)
    ours = encode(weights, "encoder", matrix, x)
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-14)
    (output,) = reference.decode(linears, theirs[-1:], [graph])
    torch.testing.assert_close(decode(weights, ours[-1]), output, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("level", ["node", "graph"])
@pytest.mark.parametrize("kind", ["gcn", "gin"])
def test_values_and_gradients_equal_those_of_torch_functions(kind, level, seed):
    weights = {
        name: value.requires_grad_() for name, value in random_weights(kind, seed=seed).items()
    }
    batch = random_batch(kind)
    terms = terms_of(weights, batch, level=level, alpha=1.5)
    theirs = torch_terms(weights, batch, level, 1.5)
    for name, other in zip(TERMS, theirs, strict=True):
        ours = getattr(terms, name)
        torch.testing.assert_close(ours, other, rtol=1e-11, atol=1e-13)
        gradients = (
            torch.autograd.grad(
                term, list(weights.values()), retain_graph=True, materialize_grads=True
            )
            for term in (ours, other)
        )
        torch.testing.assert_close(*gradients, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("term", [*TERMS, "total"])
@pytest.mark.parametrize("level", ["node", "graph"])
@pytest.mark.parametrize("kind", ["gcn", "gin"])
def test_gradient_by_finite_differences(kind, level, term):
    weights, batch = random_weights(kind, seed=3), random_batch(kind)
    # The target is left out: it has no gradient by definition.
    free = [name for name in weights if not name.startswith("target")]
    chosen = TermWeights(0.5, 2.0, 3.0, 0.25)

    def value(*flat: Tensor) -> Tensor:
        moved = weights | dict(zip(free, flat, strict=True))
        found = plus_terms(moved, batch, level=level, alpha=1.5, term_weights=chosen)
        return getattr(found, term)

    inputs = [weights[name].clone().requires_grad_() for name in free]
    assert torch.autograd.gradcheck(value, inputs)


def test_the_target_matters_and_has_no_gradient():
    weights, batch = random_weights("gcn"), random_batch("gcn")
    target = weights["target.convs.1.weight"].requires_grad_()
    online = weights["encoder.convs.1.weight"].requires_grad_()
    terms = terms_of(weights, batch)
    wanted = torch.autograd.grad(terms.total, [target, online], allow_unused=True)
    assert wanted[0] is None
    assert bool(wanted[1].any())
    moved = terms_of(
        weights | {"target.convs.1.weight": target + tensor([[0.5, 0], [0, 0]])}, batch
    )
    assert abs(moved.latent.item() - terms.latent.item()) > 1e-3
    assert values(moved)[:2] + values(moved)[3:] == values(terms)[:2] + values(terms)[3:]


def test_the_target_sees_the_plain_view():
    weights = random_weights("gcn")
    rows = [
        standardised_target(weights, batch)
        for batch in (
            random_batch("gcn"),
            random_batch("gcn", masked=[0], masked_matrix=None, kept_columns=None),
        )
    ]
    torch.testing.assert_close(*rows, rtol=0, atol=0)
    # Counted rows have mean 0; node 2 is not counted.
    torch.testing.assert_close(rows[0][[0, 1, 3, 4, 5]].mean(0), tensor([0, 0]))


@pytest.mark.parametrize("removed", TERMS)
def test_a_weight_of_zero_removes_a_term(removed):
    weights, batch = random_weights("gin"), random_batch("gin")
    parameters = [
        value.requires_grad_() for name, value in weights.items() if name.startswith("encoder")
    ]
    full = {"reconstruction": 0.5, "masked_reconstruction": 2.0, "latent": 3.0, "invariance": 0.25}
    chosen = TermWeights(**{**full, removed: 0.0})
    terms = plus_terms(weights, batch, level="graph", alpha=1.5, term_weights=chosen)
    others = sum(full[name] * getattr(terms, name) for name in TERMS if name != removed)
    assert terms.total.item() == pytest.approx(others.item(), rel=1e-14)
    # The term is still reported, and none of them is 0 here.
    assert getattr(terms, removed).item() > 1e-3
    gradients = (
        torch.autograd.grad(value, parameters, retain_graph=True, materialize_grads=True)
        for value in (terms.total, others)
    )
    torch.testing.assert_close(*gradients, rtol=1e-12, atol=1e-14)


def test_without_a_predictor_the_latent_term_needs_a_weight_of_zero():
    weights = {
        name: value
        for name, value in random_weights("gcn").items()
        if not name.startswith(("predictor", "target"))
    }
    batch = random_batch("gcn")
    terms = plus_terms(
        weights, batch, level="node", alpha=1.0, term_weights=TermWeights(latent=0.0)
    )
    complete = terms_of(random_weights("gcn"), batch)
    assert values(terms) == [*values(complete)[:2], 0.0, values(complete)[3]]
    with pytest.raises(ValueError, match=r"needs the parameters 'predictor\.\*'.*the weight 1\.0"):
        terms_of(weights, batch)


@pytest.mark.parametrize("level", ["node", "graph"])
def test_nothing_masked(level):
    # Edges and columns are dropped, yet every mean over J is 0.
    weights = {name: value.requires_grad_() for name, value in random_weights("gcn").items()}
    terms = terms_of(weights, random_batch("gcn", masked=[]), level=level)
    assert values(terms)[1:] == [0.0, 0.0, 0.0]
    assert terms.total.item() == terms.reconstruction.item() > 0
    for name in TERMS[1:]:
        gradients = torch.autograd.grad(
            getattr(terms, name),
            list(weights.values()),
            retain_graph=True,
            materialize_grads=True,
        )
        assert not any(bool(gradient.any()) for gradient in gradients)


@pytest.mark.parametrize("level", ["node", "graph"])
@pytest.mark.parametrize("masked", [[1], [0, 1, 2, 3, 4, 5]])
def test_an_unchanged_view(masked, level):
    # Nodes replaced by their own features: the masked view is the plain one.
    batch = random_batch("gcn", masked=masked, masked_matrix=None, kept_columns=None, counted=None)
    batch = dataclasses.replace(batch, replacement=batch.x[masked])
    weights = {name: value.requires_grad_() for name, value in random_weights("gcn").items()}
    terms = terms_of(weights, batch, level=level, alpha=1e6)
    assert terms.invariance.item() == 0.0
    gradients = torch.autograd.grad(
        terms.invariance, list(weights.values()), retain_graph=True, materialize_grads=True
    )
    assert not any(bool(gradient.any()) for gradient in gradients)
    if len(masked) == 6:
        assert terms.masked_reconstruction.item() == pytest.approx(
            terms.reconstruction.item(), rel=1e-14
        )


def test_an_isolated_node_sees_only_its_replacement():
    weights = random_weights("gcn")
    # No batch norm, which mixes rows.
    weights = {name: value for name, value in weights.items() if "coder.norms" not in name}
    batch = random_batch("gcn", masked=[5])
    alone = PlusBatch(
        x=batch.x[[5]],
        matrix=eye(1),
        masked=[0],
        replacement="token",
        kept_columns=tensor([1, 0, 1]),
    )
    together, single = (
        encode(weights, "encoder", b.matrix, masked_features(weights, b))[-1]
        for b in (batch, alone)
    )
    torch.testing.assert_close(together[5], single[0])


def test_the_token_has_a_gradient_in_kept_columns_only():
    weights = random_weights("gcn")
    token = weights["token"].requires_grad_()
    (gradient,) = torch.autograd.grad(terms_of(weights, random_batch("gcn")).total, token)
    assert [bool(value) for value in gradient] == [True, False, True]


def test_the_moving_average_covers_every_parameter_and_no_statistic():
    for kind, count in [("gcn", 8), ("gin", 10)]:
        weights = random_weights(kind) | {
            "encoder.norms.0.running_mean": tensor([1, 1]),
            "encoder.norms.0.num_batches_tracked": torch.tensor(3),
        }
        target = moving_average(weights, momentum=0.5)
        assert set(target) == {name for name in weights if name.startswith("target")}
        assert len(target) == count
        for name, value in target.items():
            online = weights[name.replace("target", "encoder")]
            torch.testing.assert_close(value, (weights[name] + online) / 2)
    del weights["target.norms.0.bias"]
    with pytest.raises(ValueError, match=r"Only one of them has \['norms\.0\.bias'\]\."):
        moving_average(weights, momentum=0.5)
