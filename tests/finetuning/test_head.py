"""The head: its loss, the linear probe, the temperature."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from cases import generator
from graphlatent.errors import ConfigError, InputError
from graphlatent.finetuning.calibration import reliability_curve
from graphlatent.finetuning.head import ClassifierHead, smoothed_targets
from graphlatent.finetuning.loss import label_loss, probabilities


def case(num_classes=3, num_rows=60, width=5, seed=0):
    gen = generator(seed)
    codes = torch.arange(num_rows) % num_classes
    centres = torch.randn(num_classes, width, generator=gen)
    rows = 3 + centres[codes] + torch.randn(num_rows, width, generator=gen)
    return rows, codes


def fitted_head(rows, num_classes):
    head = ClassifierHead(rows.shape[1], num_classes)
    head.fit_scale(rows, same=False, generator=generator(0))
    return head


class TestLoss:
    def test_classes_by_hand(self):
        logits = torch.tensor([[0.0, 0.0], [0.0, math.log(3.0)], [7.0, 9.0]])
        loss = label_loss(logits, torch.tensor([0, 1, -1]), torch.tensor([1.0, 2.0]))
        # Probabilities 1/2 and 3/4, weights 1 and 2; the last row has no label.
        assert float(loss) == pytest.approx((math.log(2) + 2 * math.log(4 / 3)) / 3)

    def test_several_labels_by_hand(self):
        logits = torch.tensor([[0.0, math.log(3.0)], [5.0, 0.0]])
        codes = torch.tensor([[1, 0], [-1, 1]])
        weights = torch.tensor([[1.0, 1.0], [1.0, 4.0]])
        # -log 1/2, -log 1/4 and four times -log 1/2; an entry is missing.
        expected = (math.log(2) + math.log(4) + 4 * math.log(2)) / 6
        assert float(label_loss(logits, codes, weights)) == pytest.approx(expected)

    def test_nothing_labelled_is_0_with_a_gradient_of_0(self):
        logits = torch.ones(2, 3, requires_grad=True)
        label_loss(logits, torch.tensor([-1, -1]), torch.ones(3)).backward()
        assert float(logits.grad.abs().sum()) == 0.0

    def test_probabilities(self):
        logits = torch.tensor([[0.0, math.log(3.0)]])
        np.testing.assert_allclose(probabilities(logits, multilabel=False), [[0.25, 0.75]])
        np.testing.assert_allclose(probabilities(logits, multilabel=True), [[0.5, 0.75]])


class TestScale:
    def test_each_column_by_its_own_deviation_or_all_by_one_number(self):
        rows = torch.tensor([[1.0, 5.0], [3.0, 5.0], [1.0, -9.0], [3.0, -9.0]])
        head = ClassifierHead(2, 2)
        head.fit_scale(rows, same=False, generator=generator(0))
        assert head.standard(rows).tolist() == [[-1, 1], [1, 1], [-1, -1], [1, -1]]
        # Deviations 1 and 7, of which the mean square is 25.
        head.fit_scale(rows, same=True, generator=generator(0))
        expected = torch.tensor([[-1.0, 7], [1, 7], [-1, -7], [1, -7]]) / 5
        torch.testing.assert_close(head.standard(rows), expected)

    @pytest.mark.parametrize("same", [True, False])
    def test_constant_columns(self, same):
        head = ClassifierHead(2, 2)
        head.fit_scale(torch.tensor([[1.0, 5.0], [3.0, 5.0]]), same=same, generator=generator(0))
        assert head.standard(torch.tensor([[3.0, 5.0]]))[0, 1] == 0
        head.fit_scale(torch.full((3, 2), 4.0), same=same, generator=generator(0))
        assert head.standard(torch.tensor([[4.0, 5.0]])).tolist() == [[4.0, 5.0]]


class TestProbe:
    @pytest.mark.parametrize("weighted", [False, True])
    @pytest.mark.parametrize("num_classes", [2, 3])
    def test_against_scikit_learn(self, num_classes, weighted):
        rows, codes = case(num_classes)
        head = fitted_head(rows, num_classes)
        weights = torch.linspace(1, 3, num_classes) if weighted else torch.ones(num_classes)
        l2 = 1e-2
        (found,) = head.fit_probe(rows, codes, weights, torch.tensor([l2]))
        head.set_linear(found)
        ours = probabilities(head(rows).double(), multilabel=False).detach().numpy()
        # Standardised rows of width 5 have mean squared norm 5, and C is 1 / (n l2).
        standard = (rows - rows.mean(0)) / rows.std(0, unbiased=False) / math.sqrt(5)
        each = weights[codes].double()
        theirs = LogisticRegression(C=1 / (len(rows) * l2), tol=1e-10, max_iter=5000)
        theirs.fit(standard.numpy(), codes.numpy(), (each / each.mean()).numpy())
        if num_classes == 2:
            # A softmax of two classes has half the penalty of one logit on the same difference.
            theirs.set_params(C=2 / (len(rows) * l2))
            theirs.fit(standard.numpy(), codes.numpy(), (each / each.mean()).numpy())
        np.testing.assert_allclose(ours, theirs.predict_proba(standard.numpy()), atol=2e-4)

    def test_several_labels_with_missing_ones_are_one_model_each(self):
        rows, codes = case(2)
        matrix = torch.stack([codes, 1 - codes, torch.ones_like(codes)], dim=1)
        matrix[::4, 0] = -1
        head = fitted_head(rows, 3)
        (found,) = head.fit_probe(rows, matrix, torch.ones(2, 3), torch.tensor([1e-2]))
        known = matrix[:, 0] >= 0
        alone = head.fit_probe(rows, matrix[:, 1:2], torch.ones(2, 1), torch.tensor([1e-2]))[0]
        torch.testing.assert_close(found[1], alone[0])
        # What is always 1 has the log-odds of 61 to 1.
        assert found[2].tolist()[:-1] == [0.0] * 5
        assert float(found[2, -1]) == pytest.approx(math.log(61))
        standard = head.standard(rows).double()
        values = (standard / standard.square().sum(1).mean().sqrt())[known].numpy()
        theirs = LogisticRegression(C=1 / (len(values) * 1e-2), tol=1e-10, max_iter=5000)
        theirs.fit(values, matrix[known, 0].numpy())
        head.set_linear(found)
        ours = torch.sigmoid(head(rows)[known, 0].double()).detach().numpy()
        np.testing.assert_allclose(ours, theirs.predict_proba(values)[:, 1], atol=1e-4)

    def test_a_class_without_a_row_is_improbable(self):
        rows, codes = case(2)
        head = fitted_head(rows, 3)
        head.set_linear(head.fit_probe(rows, codes, torch.ones(3), torch.tensor([1e-2]))[0])
        predicted = probabilities(head(rows).detach(), multilabel=False)
        assert float(predicted[:, 2].max()) < 0.05
        assert float((predicted.argmax(1) == codes).float().mean()) > 0.8


class TestTemperature:
    def test_it_divides_logits_that_are_too_large_by_what_they_were_multiplied_with(self):
        gen = generator(0)
        logits = torch.randn(4000, 3, generator=gen)
        codes = torch.multinomial(torch.softmax(logits, 1), 1, generator=gen).flatten()
        head = ClassifierHead(2, 3)
        head.fit_temperature(4 * logits, codes)
        assert float(head.temperature) == pytest.approx(4, rel=0.1)
        head.fit_temperature(4 * logits, torch.where(torch.arange(4000) < 2000, codes, -1))
        assert float(head.temperature) == pytest.approx(4, rel=0.15)

    @pytest.mark.parametrize("right", [3, 0])
    def test_a_few_rows_give_neither_certainty_nor_its_opposite(self, right):
        logits = torch.tensor([[3.0, 0.0], [0.0, 3.0], [3.0, 0.0]])
        codes = torch.tensor([0, 1, 0])
        codes = codes if right else 1 - codes
        head = ClassifierHead(2, 2)
        head.fit_temperature(logits, codes)
        # With three rows the targets are 4 / 5 and 1 / 5; on a fine grid.
        grid = np.linspace(-4, 4, 80_001)
        margin = (3 if right else -3) / np.exp(grid)
        loss = 3 * (0.8 * np.logaddexp(0, -margin) + 0.2 * np.logaddexp(0, margin)) + grid**2 / 2
        best = math.exp(grid[loss.argmin()])
        assert float(head.temperature) == pytest.approx(best, rel=1e-3)
        assert 1 < best < 8

    def test_smoothed_targets_by_hand(self):
        targets, known = smoothed_targets(torch.tensor([2, -1, 0]), 3)
        assert known.tolist() == [True, False, True]
        np.testing.assert_allclose(targets[0], [1 / 5, 1 / 5, 3 / 5])
        targets, _ = smoothed_targets(torch.tensor([[1, 0], [0, -1]]), 2)
        np.testing.assert_allclose(targets[:, 0], [3 / 4, 1 / 4])
        np.testing.assert_allclose(targets[0, 1], 1 / 3)

    def test_several_labels(self):
        gen = generator(0)
        logits = torch.randn(3000, 2, generator=gen)
        codes = (torch.rand(3000, 2, generator=gen) < torch.sigmoid(logits)).long()
        codes[::3, 0] = -1
        head = ClassifierHead(2, 2)
        head.fit_temperature(logits / 3, codes)
        assert float(head.temperature) == pytest.approx(1 / 3, rel=0.1)


class TestReliability:
    def test_by_hand(self):
        curve = reliability_curve([0.1, 0.2, 0.9, 0.8, 1.0], [0, 1, 1, 1, 0], num_bins=2)
        np.testing.assert_allclose(curve.confidence, [0.15, 0.9])
        np.testing.assert_allclose(curve.frequency, [0.5, 2 / 3])
        assert curve.count.tolist() == [2, 3]
        assert curve.calibration_error == pytest.approx((2 * 0.35 + 3 * (0.9 - 2 / 3)) / 5)

    def test_a_boundary_is_in_the_lower_bin_and_0_in_the_first(self):
        curve = reliability_curve([0.0, 0.5, 1.0], [0, 1, 1], num_bins=2)
        assert curve.count.tolist() == [2, 1]

    def test_frequencies_that_are_the_probabilities_have_no_error(self):
        gen = np.random.default_rng(0)
        p = gen.random(50_000)
        assert reliability_curve(p, gen.random(50_000) < p).calibration_error < 0.01
        assert reliability_curve(np.sqrt(p), gen.random(50_000) < p).calibration_error > 0.1

    @pytest.mark.parametrize(
        ("arguments", "error", "message"),
        [
            (([0.5], [1], 0), ConfigError, "'num_bins' .* an int of at least 1. Got 0"),
            (([0.5], [1, 0], 3), InputError, r"Got shapes \(1,\) and \(2,\)"),
            (([], [], 3), InputError, "at least one"),
            (([1.5], [1], 3), InputError, "needs probabilities between 0 and 1"),
            (([0.5], [2], 3), InputError, "outcomes that are 0 or 1"),
        ],
    )
    def test_failures(self, arguments, error, message):
        probability, correct, bins = arguments
        with pytest.raises(error, match=message):
            reliability_curve(probability, correct, num_bins=bins)
