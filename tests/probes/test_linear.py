"""The linear probe: its classifier against a value by hand and scikit-learn, and its protocol against cheating."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler, normalize

import graphlatent.probes.linear as linear
import graphlatent.probes.logistic as logistic
from graphlatent.data.sparse import SparseMatrix
from graphlatent.data.splits import Split, random_splits
from graphlatent.errors import ConfigError, GraphLatentWarning, InputError
from graphlatent.probes.linear import ProbeChoice, ProbeResult, linear_probe
from graphlatent.probes.logistic import DenseDesign, Scaler, fit_logistic, logistic_path


def blobs(num_rows=120, num_columns=6, num_classes=3, *, noise=1.5, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(num_classes, size=num_rows)
    rows = 2 + rng.normal(size=(num_classes, num_columns))[labels] + noise * rng.normal(size=(num_rows, num_columns))
    return rows * rng.uniform(0.1, 3, size=num_columns), labels


def prepared(rows, train, how):
    """What `Scaler` promises, in plain NumPy."""
    if how == "row":
        rows = normalize(rows)
    if how == "standard":
        rows = StandardScaler().fit(rows[train]).transform(rows)
    rows = rows - rows[train].mean(0)
    return rows / np.sqrt((rows[train] ** 2).sum(1).mean())


def reference(x, target, strength):
    """scikit-learn at the same objective: its C multiplies the sum of the losses."""
    return LogisticRegression(C=1 / (len(x) * strength), tol=1e-9, max_iter=20_000).fit(x, target)


def mean_loss(x, target, weights, strength):
    logits = x @ weights[:, :-1].T + weights[:, -1]
    log_share = logits - np.log(np.exp(logits - logits.max(1, keepdims=True)).sum(1, keepdims=True)) - logits.max(1, keepdims=True)
    return -log_share[np.arange(len(x)), target].mean() + strength / 2 * (weights[:, :-1] ** 2).sum()


# --- the classifier ---


def test_two_points_by_hand():
    # x = -1 and +1 of two classes: with weights (-w, w) the derivative is 2 (strength w - 1 / (1 + e^2w)), so w = 1 here.
    design = DenseDesign(torch.tensor([[-1.0, 1.0], [1.0, 1.0]], dtype=torch.float64))
    weights = fit_logistic(design, torch.tensor([0, 1]), num_classes=2, strength=1 / (1 + math.e**2))
    torch.testing.assert_close(weights, torch.tensor([[-1.0, 0.0], [1.0, 0.0]], dtype=torch.float64), atol=1e-4, rtol=0)


@pytest.mark.parametrize("how", ["none", "row", "standard"])
@pytest.mark.parametrize("kind", ["dense", "sparse", "wide"])
@pytest.mark.parametrize("strength", [1e-4, 1e-2])
def test_classifier_is_scikit_learns(how, kind, strength):
    rows, labels = blobs(num_columns=70 if kind == "wide" else 6)
    if kind == "sparse":
        rows = rows * (np.random.default_rng(1).random(rows.shape) < 0.5)
    train = np.arange(0, 120, 2)
    table = SparseMatrix.from_scipy(sp.csr_matrix(rows), dtype=torch.float64) if kind == "sparse" else torch.from_numpy(rows)
    scaler = Scaler.fit(table, train, how)
    (weights,) = logistic_path(scaler.prepare(table, train), torch.from_numpy(labels[train]), num_classes=3, strengths=[strength])
    everywhere = scaler.prepare(table, np.arange(120)).logits(weights).T
    x = prepared(rows, train, how)
    theirs = reference(x[train], labels[train], strength)
    np.testing.assert_allclose(torch.softmax(everywhere, 1).numpy(), theirs.predict_proba(x), atol=2e-3)
    best = mean_loss(x[train], labels[train], np.column_stack([theirs.coef_, theirs.intercept_]), strength)
    assert mean_loss(x[train], labels[train], weights.numpy(), strength) <= best + 1e-8


def test_path_has_the_order_it_was_asked_in_and_warm_starts_change_nothing():
    rows, labels = blobs()
    table, train = torch.from_numpy(rows), np.arange(60)
    design, target = Scaler.fit(table, train, "none").prepare(table, train), torch.from_numpy(labels[:60])
    strengths = [1e-4, 1e-1, 1e-2]
    for strength, weights in zip(strengths, logistic_path(design, target, num_classes=3, strengths=strengths), strict=True):
        alone = fit_logistic(design, target, num_classes=3, strength=strength)
        shares = [torch.softmax(design.logits(w), 0) for w in (weights, alone)]
        torch.testing.assert_close(*shares, atol=2e-3, rtol=0)


@pytest.mark.parametrize("how", ["none", "row", "standard"])
def test_training_rows_are_centred_with_unit_mean_square_and_sparse_is_dense(how):
    rows = np.random.default_rng(0).poisson(0.4, size=(40, 7)).astype(float)
    rows[:, 3] = 0  # a constant column
    rows[5] = 0  # a row without length
    train, others = np.arange(30), np.arange(30, 40)
    dense = torch.from_numpy(rows)
    sparse = SparseMatrix.from_scipy(sp.csr_matrix(rows), dtype=torch.float64)
    of_dense, of_sparse = (Scaler.fit(table, train, how) for table in (dense, sparse))
    x = of_dense.prepare(dense, train).rows
    torch.testing.assert_close(x[:, :-1].mean(0), torch.zeros(7, dtype=torch.float64), atol=1e-12, rtol=0)
    assert float((x[:, :-1] ** 2).sum(1).mean()) == pytest.approx(1.0)
    np.testing.assert_allclose(x[:, [0, 1, 2, 4, 5, 6]], prepared(rows, train, how)[train][:, [0, 1, 2, 4, 5, 6]], atol=1e-12)
    generator = torch.Generator().manual_seed(0)
    weights = torch.randn(2, 8, dtype=torch.float64, generator=generator)
    for index in (train, others):
        a, b = of_dense.prepare(dense, index), of_sparse.prepare(sparse, index)
        residual = torch.randn(2, len(index), dtype=torch.float64, generator=generator)
        torch.testing.assert_close(a.logits(weights), b.logits(weights))
        torch.testing.assert_close(a.pull(residual), b.pull(residual))
        torch.testing.assert_close(a.power(), b.power())


def test_not_converging_is_said(monkeypatch):
    monkeypatch.setattr(logistic, "_MAX_STEPS", 1)
    rows, labels = blobs()
    with pytest.warns(GraphLatentWarning, match="The linear probe did not converge in 1 steps at strength 1e-06"):
        linear_probe(rows, labels, splits=random_splits(120, num_splits=1), strengths=[1e-6], preprocessing=["none"])


# --- the whole probe ---


def test_whole_probe_against_scikit_learn():
    rows, labels = blobs(num_rows=300, num_classes=4)
    strengths, ways = (1e-4, 1e-2, 1e-1), ("none", "row", "standard")
    splits = random_splits(300, num_splits=3, train_ratio=0.3, val_ratio=0.3)
    result = linear_probe(rows, labels, splits=splits, strengths=strengths, preprocessing=ways)
    for split, accuracy, choice in zip(splits, result.accuracies, result.choices, strict=True):
        scores = {}
        for how in ways:
            x = prepared(rows, split.train, how)
            for strength in sorted(strengths, reverse=True):
                model = reference(x[split.train], labels[split.train], strength)
                scores[how, strength] = model.score(x[split.val], labels[split.val]), model.score(x[split.test], labels[split.test])
        how, strength = max(scores, key=lambda setting: scores[setting][0])
        assert choice == ProbeChoice(how, strength, pytest.approx(scores[how, strength][0]))
        assert accuracy == pytest.approx(scores[how, strength][1])


def test_mean_and_spread_by_hand():
    result = ProbeResult((0.5, 0.7), (ProbeChoice("none", 1.0, 0.5),) * 2)
    assert result.mean == pytest.approx(0.6)
    assert result.std == pytest.approx(0.1)
    assert "validation accuracy" in result.selection


def test_perfect_and_hopeless():
    labels = np.arange(200) % 4
    splits = random_splits(200, num_splits=3)
    assert linear_probe(np.eye(4)[labels], labels, splits=splits).accuracies == (1.0,) * 3
    noise = np.random.default_rng(0).normal(size=(200, 5))
    assert linear_probe(noise, labels, splits=splits).mean < 0.4


@pytest.mark.parametrize("change", ["sparse", "tensor", "float32", "names", "label tensor", "scaled"])
def test_forms_of_the_same_input(change):
    rows, labels = blobs()
    splits = random_splits(120, num_splits=2, train_ratio=0.4, val_ratio=0.3)
    expected = linear_probe(rows, labels, splits=splits)
    changed = {
        "sparse": (sp.coo_matrix(rows), labels),
        "tensor": (torch.from_numpy(rows).requires_grad_(), labels),
        "float32": (rows.astype(np.float32), labels),
        "names": (rows, np.array(["ant", "bee", "cat"])[labels]),
        "label tensor": (rows.tolist(), torch.from_numpy(labels)),
        "scaled": (rows * 1e5, labels),
    }[change]
    assert linear_probe(*changed, splits=splits) == expected


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 1000))
def test_order_of_rows_and_columns_does_not_matter(seed):
    rows, labels = blobs(num_rows=60, num_columns=4, seed=seed)
    (split,) = random_splits(60, num_splits=1, train_ratio=0.4, val_ratio=0.3, seed=seed)
    rng = np.random.default_rng(seed)
    order = rng.permutation(60)
    place = np.argsort(order)
    moved = Split(*(np.sort(place[part]) for part in (split.train, split.val, split.test)))
    arguments = {"strengths": (1e-2,), "preprocessing": ("standard",)}
    a = linear_probe(rows, labels, splits=[split], **arguments)
    b = linear_probe(rows[order][:, rng.permutation(4)], labels[order], splits=[moved], **arguments)
    assert a.mean == pytest.approx(b.mean, abs=0.06)  # a point on the border may fall either way


# --- no cheating ---


def test_permuting_test_labels_changes_no_choice():
    rows, labels = blobs(num_rows=200, noise=3.0)
    splits = random_splits(200, num_splits=3)
    honest = linear_probe(rows, labels, splits=splits)
    shuffled = labels.copy()
    shuffled[splits[0].test] = np.random.default_rng(1).permutation(labels[splits[0].test])
    assert linear_probe(rows, shuffled, splits=splits[:1]).choices == honest.choices[:1]
    unseen = labels.copy()
    unseen[splits[0].test] = 99  # a class that training does not know: every answer is wrong, no choice changes
    blind = linear_probe(rows, unseen, splits=splits[:1])
    assert blind.choices == honest.choices[:1]
    assert blind.accuracies == (0.0,)


def test_test_rows_take_no_part_in_fit_and_choice():
    rows, labels = blobs(num_rows=200, noise=3.0)
    (split,) = random_splits(200, num_splits=1)
    changed = rows.copy()
    changed[split.test] = 1e3 * changed[split.test] + 7
    assert linear_probe(rows, labels, splits=[split]).choices == linear_probe(changed, labels, splits=[split]).choices


def test_validation_rows_choose_but_do_not_train(monkeypatch):
    rows, labels = blobs(num_rows=200, noise=3.0)
    (split,) = random_splits(200, num_splits=1)
    seen = []
    original = linear.logistic_path
    monkeypatch.setattr(linear, "logistic_path", lambda *args, **kwargs: seen.append(original(*args, **kwargs)) or seen[-1])
    first = linear_probe(rows, labels, splits=[split])
    changed_rows, changed_labels = rows.copy(), labels.copy()
    changed_rows[split.val] += 5
    changed_labels[split.val] = (labels[split.val] + 1) % 3
    second = linear_probe(changed_rows, changed_labels, splits=[split])
    for before, after in zip(seen[:3], seen[3:], strict=True):
        assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
    assert first.choices != second.choices


def test_equals_go_to_the_first_preprocessing_and_the_larger_strength():
    labels = np.arange(100) % 2
    result = linear_probe(np.eye(2)[labels], labels, splits=random_splits(100, num_splits=1), strengths=(1e-3, 1e-1, 1e-2))
    assert result.choices == (ProbeChoice("none", 1e-1, 1.0),)


# --- small and bad input ---


def test_a_class_missing_from_training_is_never_predicted():
    labels = np.array([0, 1] * 10 + [2] * 4)
    rows = np.eye(3)[labels]
    split = Split(np.arange(10), np.arange(10, 20), np.arange(20, 24))
    assert linear_probe(rows, labels, splits=[split]).accuracies == (0.0,)


@pytest.mark.parametrize("rows", [np.ones((30, 3)), np.zeros((30, 50)), sp.csr_matrix((30, 4))])
def test_constant_rows_predict_one_class(rows):
    labels = np.array([1] * 20 + [0] * 10)
    splits = random_splits(30, num_splits=2, train_ratio=0.4, val_ratio=0.2, stratify=labels)
    assert linear_probe(rows, labels, splits=splits).accuracies == pytest.approx((2 / 3,) * 2)


def test_a_single_class():
    assert linear_probe(np.arange(20.0)[:, None], np.zeros(20), splits=random_splits(20, num_splits=1)).accuracies == (1.0,)


@pytest.mark.parametrize(
    ("changes", "kind", "message"),
    [
        (
            {"strengths": (0.0,)},
            ConfigError,
            "The 'strengths' parameter of linear_probe must be one or more floats in the range (0.0, inf). Got (0.0,) instead.",
        ),
        (
            {"preprocessing": ("whiten",)},
            ConfigError,
            "The 'preprocessing' parameter of linear_probe must be one or more of ('none', 'row', 'standard'). Got ('whiten',) instead.",
        ),
        (
            {"labels": np.zeros(9)},
            InputError,
            "Labels must be one class per row of the representation, shape (10,). Got shape (9,).",
        ),
        ({"splits": ()}, InputError, "There are no splits to probe on. Make some with random_splits or fold_splits."),
        (
            {"splits": [Split(np.arange(3), np.arange(2, 5), np.arange(5, 10))]},
            InputError,
            "Split 0: its parts share rows. A row may be in one of train, val and test, once.",
        ),
        (
            {"splits": [Split(np.arange(3), np.arange(3, 5), np.arange(5, 11))]},
            InputError,
            "Split 0: 'test' must hold one or more row numbers from 0 to 9.",
        ),
        (
            {"representation": np.full((10, 2), np.nan)},
            InputError,
            "The representation holds NaN or infinite values. Look at the training history before probing it.",
        ),
        (
            {"representation": np.zeros(10)},
            InputError,
            "The representation must be a 2-D array, one row per node or graph. Got shape (10,).",
        ),
        ({"representation": [["a"]] * 10}, InputError, "The representation must hold numbers. Got values of type <U1."),
    ],
)
def test_bad_input(changes, kind, message):
    arguments = {"representation": np.eye(10), "labels": np.arange(10) % 2, "splits": random_splits(10, num_splits=1), **changes}
    with pytest.raises(kind) as caught:
        linear_probe(arguments.pop("representation"), arguments.pop("labels"), **arguments)
    assert str(caught.value) == message


def test_refit_uses_validation_rows_for_the_last_fit_only():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(90, 4))
    x -= x[:60].mean(0)
    labels = np.digitize(x[:, 0] + 0.8 * rng.normal(size=90), [-0.5, 0.5])
    split = Split(np.arange(30), np.arange(30, 60), np.arange(60, 90))
    plain, again = (linear_probe(x, labels, splits=[split], preprocessing=("none",), refit=r) for r in (False, True))
    assert plain.choices == again.choices  # the choice is made before
    scale = np.sqrt((x[:60] ** 2).sum(1).mean())
    model = LogisticRegression(C=1 / (60 * again.choices[0].strength), tol=1e-10, max_iter=5000).fit(x[:60] / scale, labels[:60])
    assert again.accuracies[0] == pytest.approx(model.score(x[60:] / scale, labels[60:]))
    assert again.selection.endswith("Then fitted once more on its training and validation rows together.")
