"""The classifiers: what is trained, what is kept, and what they refuse."""

from __future__ import annotations

import copy
import dataclasses

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score

from cases import random_graph
from classifier_cases import (
    SMALL,
    graph_classifier,
    graphs_and_classes,
    node_classifier,
    some_of,
)
from graphlatent import (
    GraphLaGraph,
    NodeDGI,
    NodeLaGraph,
)
from graphlatent.data.batches import GraphBatches
from graphlatent.errors import ConfigError, InputError, NonFiniteLossError
from graphlatent.finetuning.labels import held_out, label_weights, read_labels
from graphlatent.finetuning.loss import label_loss
from graphlatent.finetuning.settings import FineTuneSettings
from graphlatent.finetuning.tuner import FineTuner, training_mode, tunable_copy


def make_tuner(*, level="graph", preset="paper", **values):
    """A tuner on a pre-trained encoder that has a batch norm."""
    data, y = graphs_and_classes()
    if level == "node":
        estimator = NodeLaGraph(preset=preset, num_layers=3, **SMALL).fit(data)
        y = y[data.graph_of_node.numpy()]
    else:
        estimator = GraphLaGraph(preset=preset, num_layers=3, **SMALL).fit(data)
    labels = read_labels(y, num_rows=len(y), of=level, owner="test")
    encoded = estimator._encoded(data, estimator.features_, estimator.settings_)
    train = np.arange(0, len(y), 3)
    weights = label_weights(labels, train, None, owner="test")
    settings = FineTuneSettings(**{"epochs": 5, "lr": 1e-2, **values})
    return FineTuner(tunable_copy(estimator), encoded, labels, train, weights, settings)


def in_double(tuner):
    """The tuner with weights and features in float64."""
    tuner.estimator.model_.double()
    tuner.head.double()
    batch = tuner.everything
    structure = batch.structure.to(batch.graph_id.device, torch.float64)
    tuner.everything = dataclasses.replace(batch, x=batch.x.double(), structure=structure)
    if tuner.source is not None:
        tuner.source = GraphBatches(tuner.everything, tuner.graph.ptr, batch_size=100)
    return tuner


class TestGradients:
    @pytest.mark.parametrize("preset", ["paper", "plus"])
    @pytest.mark.parametrize("level", ["graph", "node"])
    def test_they_are_those_of_the_loss_in_prediction_by_finite_differences(self, level, preset):
        # Were batch norms in training mode, the loss would be another function.
        tuner = in_double(make_tuner(level=level, preset=preset))
        tuner.fit_probe(tuner.train[:0])
        training_mode(tuner.estimator.model_)
        rows = torch.from_numpy(tuner.train)
        logits = tuner.head(tuner._embedded(rows))
        label_loss(logits, tuner.codes[rows], tuner.weights).backward()
        for name, parameter in tuner.encoder.named_parameters():
            flat, step = parameter.detach().view(-1), 1e-6
            place = int(parameter.grad.abs().argmax())
            ends = []
            for sign in (1, -1):
                flat[place] += sign * step
                ends.append(tuner.loss(tuner.train))
                flat[place] -= sign * step
            slope = float(parameter.grad.view(-1)[place])
            assert (ends[0] - ends[1]) / (2 * step) == pytest.approx(slope, rel=1e-3, abs=1e-7), (
                name
            )

    @pytest.mark.parametrize("level", ["graph", "node"])
    def test_every_weight_of_the_encoder_moves_and_no_statistic(self, level):
        tuner = make_tuner(level=level)
        before = copy.deepcopy(tuner.estimator.model_.state_dict())
        tuner.fit_probe(tuner.train[:0])
        tuner.run_epoch()
        after = tuner.estimator.model_.state_dict()
        moved = {name for name in before if not torch.equal(before[name], after[name])}
        assert moved == {f"encoder.{name}" for name, _ in tuner.encoder.named_parameters()}

    def test_a_head_of_zeros_moves_first(self):
        tuner = make_tuner(batch_size=100)
        assert torch.equal(tuner.logits(tuner.train), torch.zeros(len(tuner.train), 2))
        before = copy.deepcopy(tuner.encoder.state_dict())
        assert tuner.run_epoch() == pytest.approx(np.log(2))
        assert all(torch.equal(before[k], v) for k, v in tuner.encoder.state_dict().items())
        assert float(tuner.head.linear.weight.detach().abs().min()) > 0

    def test_training_lowers_the_loss_below_the_linear_probe(self):
        tuner = make_tuner(lr=1e-2)
        tuner.fit_probe(tuner.train[:0])
        before = tuner.loss(tuner.train)
        for _ in range(10):
            tuner.run_epoch()
        assert tuner.loss(tuner.train) < 0.8 * before

    def test_a_loss_that_is_not_finite_says_what_to_do(self):
        tuner = make_tuner(lr=1e17)
        tuner.fit_probe(tuner.train[:0])
        # The first step leaves finite weights that are far too large.
        tuner.run_epoch()
        with pytest.raises(NonFiniteLossError, match=r"not a finite number. Try a smaller lr"):
            tuner.run_epoch()


class TestFitting:
    @pytest.mark.parametrize("make", [graph_classifier, node_classifier])
    def test_few_labels_are_enough_where_features_tell_the_class(self, make):
        data, y = graphs_and_classes(shift=2.0)
        y = y if make is graph_classifier else y[data.graph_of_node.numpy()]
        known = some_of(y)
        fitted = make().fit(data, known)
        assert fitted.score(data, np.where(known < 0, y, -1)) > 0.9
        assert fitted.classes_.tolist() == [0, 1] and fitted.predict(data).shape == y.shape
        np.testing.assert_allclose(fitted.predict_proba(data).sum(1), 1)

    def test_the_estimator_that_is_given_stays_as_it_is(self):
        data, y = graphs_and_classes()
        pretrained = GraphLaGraph(**SMALL).fit(data)
        before = copy.deepcopy(pretrained.model_.state_dict())
        fitted = graph_classifier(pretraining=pretrained, validation_ratio=0.0).fit(data, y)
        assert all(torch.equal(before[k], v) for k, v in pretrained.model_.state_dict().items())
        assert not np.allclose(fitted.estimator_.transform(data), pretrained.transform(data))

    def test_pre_training_sees_rows_without_labels_and_no_labels(self):
        data, y = graphs_and_classes()
        known = some_of(y)
        fitted = graph_classifier(epochs=0).fit(data, known)
        alone = GraphLaGraph(**SMALL).fit(data)
        np.testing.assert_array_equal(fitted.estimator_.transform(data), alone.transform(data))

    def test_equal_seeds_give_equal_bits_and_share_the_validation_part(self):
        data, y = graphs_and_classes()
        a, b = (graph_classifier().fit(data, y).predict_proba(data) for _ in range(2))
        np.testing.assert_array_equal(a, b)
        # Another initialisation of the encoder: the same epochs of the same batches.
        other = graph_classifier(pretraining=GraphLaGraph(**{**SMALL, "epochs": 0})).fit(data, y)
        assert not np.allclose(other.predict_proba(data), a)
        assert not np.allclose(graph_classifier(random_state=1).fit(data, y).predict_proba(data), a)

    def test_the_state_with_the_lowest_validation_loss_is_kept(self):
        data, y = graphs_and_classes(shift=0.0)
        fitted = graph_classifier(epochs=60, lr=1e-2, patience=4, calibrate=False).fit(data, y)
        losses = [each.val_loss for each in fitted.history_]
        best = int(np.argmin(losses))
        assert fitted.best_epoch_ == best and len(losses) == best + 5 < 60
        assert np.isnan(fitted.history_[0].loss) and fitted.history_[0].epoch == 0
        shorter = graph_classifier(epochs=best, lr=1e-2, patience=None, calibrate=False)
        np.testing.assert_array_equal(
            shorter.fit(data, y).predict_proba(data), fitted.predict_proba(data)
        )

    def test_without_validation_all_epochs_are_run(self):
        data, y = graphs_and_classes()
        fitted = graph_classifier(validation_ratio=0.0, epochs=3, linear_probe=False).fit(data, y)
        assert [each.epoch for each in fitted.history_] == [1, 2, 3]
        assert fitted.best_epoch_ is None and float(fitted.head_.temperature) == 1.0

    def test_the_temperature_is_that_of_the_validation_part(self):
        data, y = graphs_and_classes(shift=0.5)
        fitted = graph_classifier(random_state=2).fit(data, y)
        labels = read_labels(y, num_rows=len(y), of="graph", owner="test")
        train, val = held_out(labels, 0.2, generator=torch.Generator().manual_seed(2 * 4 + 1))
        found, head = float(fitted.head_.temperature), fitted.head_
        rows, codes = torch.from_numpy(fitted.estimator_.transform(data)), torch.from_numpy(y)
        temperatures = []
        for part in (val, train):
            head.fit_temperature(head(rows[part]), codes[part])
            temperatures.append(float(head.temperature))
        assert temperatures[0] == pytest.approx(found, rel=1e-4)
        assert temperatures[1] != pytest.approx(found, rel=1e-2)

    def test_one_label_of_each_class(self):
        data, y = graphs_and_classes(shift=3.0)
        known = np.full(len(y), -1)
        known[:2] = y[:2]
        assert graph_classifier().fit(data, known).score(data, y) > 0.8

    def test_balanced_weights_find_more_of_a_rare_class(self):
        data, y = graphs_and_classes(shift=0.3)
        rare = np.where(np.arange(len(y)) % 8 == 1, 1, 0)
        plain, balanced = (
            graph_classifier(epochs=0, validation_ratio=0.0, class_weight=w).fit(data, rare)
            for w in (None, "balanced")
        )
        assert balanced.predict(data).sum() > plain.predict(data).sum()

    @pytest.mark.parametrize("make", [graph_classifier, node_classifier])
    def test_several_labels_per_row(self, make):
        data, y = graphs_and_classes(shift=2.0)
        y = y if make is graph_classifier else y[data.graph_of_node.numpy()]
        matrix = np.stack([y, 1 - y, np.arange(len(y)) % 2], axis=1)
        known = matrix.copy()
        known[::3] = -1
        known[1, 0] = -1
        fitted = make(class_weight="balanced").fit(data, known)
        probability = fitted.predict_proba(data)
        assert fitted.multilabel_ and probability.shape == matrix.shape
        np.testing.assert_array_equal(fitted.predict(data), probability > 0.5)
        assert fitted.score(data, matrix) > 0.8
        frame = fitted.predict_table(data)
        assert list(frame) == [f"{what}_{k}" for what in ("predicted", "p") for k in range(3)]

    def test_names_of_classes_and_ids(self):
        data, y = graphs_and_classes(shift=2.0)
        data = dataclasses.replace(data, graph_ids=np.array([f"g{i}" for i in range(len(y))]))
        names = np.array(["yes", "no"], dtype=object)[y]
        names[5:9] = None
        fitted = graph_classifier().fit(data, names)
        frame = fitted.predict_table(data)
        assert list(frame) == ["predicted", "p_no", "p_yes"] and frame.index[3] == "g3"
        assert set(frame["predicted"]) == {"no", "yes"}
        assert fitted.score(data, names) == np.mean(
            fitted.predict(data)[names != None] == names[names != None]  # noqa: E711
        )

    def test_any_estimator_of_the_level(self):
        data, y = graphs_and_classes(shift=2.0)
        start = NodeDGI(hidden_dim=6, epochs=2, device="cpu")
        labels = y[data.graph_of_node.numpy()]
        assert node_classifier(pretraining=start).fit(data, labels).score(data, labels) > 0.8

    def test_cross_validation_and_clones(self):
        from test_estimator import as_pyg

        data, y = graphs_and_classes(shift=2.0)
        scores = cross_val_score(graph_classifier(), as_pyg(data), y, cv=2, error_score="raise")
        assert scores.min() > 0.8
        fitted = graph_classifier(lr=0.5).fit(data, y)
        copied = clone(fitted)
        assert copied.lr == 0.5 and not hasattr(copied, "estimator_")
        assert copied.get_params()["pretraining__hidden_dim"] == 6

    def test_reliability(self):
        data, y = graphs_and_classes()
        fitted = graph_classifier().fit(data, some_of(y))
        rest = np.where(some_of(y) < 0, y, -1)
        curve = fitted.reliability(data, rest, num_bins=5)
        assert curve.count.sum() == (rest >= 0).sum()
        right = (curve.frequency * curve.count).sum() / curve.count.sum()
        assert right == pytest.approx(fitted.score(data, rest))


class TestRefusals:
    @pytest.mark.parametrize(
        ("values", "message"),
        [
            ({"lr": 0.0}, r"'lr' parameter of GraphLaGraphClassifier .* Got 0.0 instead"),
            ({"epochs": -1}, "'epochs' .* Got -1 instead"),
            ({"validation_ratio": 0.95}, r"'validation_ratio' .* range \[0, 0.9\]. Got 0.95"),
            ({"class_weight": "equal"}, "'class_weight' .* None, 'balanced' or a dict .* 'equal'"),
            (
                {"pretraining": NodeLaGraph()},
                r"'pretraining' .* must be an estimator that embeds graphs, such as Graph",
            ),
            ({"pretraining": 3}, "'pretraining' .* Got 3 instead"),
        ],
    )
    def test_parameters(self, values, message):
        data, y = graphs_and_classes()
        classifier = graph_classifier().set_params(**values)
        with pytest.raises(ConfigError, match=message):
            classifier.fit(data, y)

    @pytest.mark.parametrize("method", ["predict", "predict_proba", "predict_table", "save"])
    def test_use_before_fit(self, method):
        with pytest.raises(NotFittedError, match="This GraphLaGraphClassifier is not fitted yet"):
            getattr(graph_classifier(), method)(random_graph([3]))

    def test_labels_of_another_length_and_none(self):
        data, y = graphs_and_classes()
        with pytest.raises(InputError, match=r"one entry per graph, 40, .* Got shape"):
            graph_classifier().fit(data, y[:-1])
        fitted = graph_classifier(epochs=0).fit(data, y)
        with pytest.raises(ConfigError, match=r"'y' .*Classifier.score must be of shape \(40,\)"):
            fitted.score(data, y[:-1])
        with pytest.raises(InputError, match="has no label: there is nothing to compare with"):
            fitted.score(data, np.full(40, -1))
        with pytest.raises(ConfigError, match="Leave out 'sample_weight'"):
            fitted.score(data, y, sample_weight=np.ones(40))
