"""The classifiers `NodeLaGraphClassifier` and `GraphLaGraphClassifier`.

They follow scikit-learn's conventions, with -1 for rows without a label: pre-training sees all
graphs, fine-tuning the labelled rows.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, clone

from graphlatent.config import Level
from graphlatent.data.graph import GraphData
from graphlatent.embedding import Embeddings, unembedded_rows
from graphlatent.errors import ConfigError, InputError, bad_argument, not_fitted
from graphlatent.estimator import Estimator
from graphlatent.finetuning.calibration import ReliabilityCurve, reliability_curve
from graphlatent.finetuning.head import ClassifierHead
from graphlatent.finetuning.indexed_labels import by_position, in_row_order
from graphlatent.finetuning.labels import held_out, label_weights, missing_labels, read_labels
from graphlatent.finetuning.loss import probabilities
from graphlatent.finetuning.settings import ClassifierSettings, FineTuneSettings
from graphlatent.finetuning.storage import FineTuned, read_fine_tuned, write_fine_tuned
from graphlatent.finetuning.tuner import EpochRecord, FineTuner, tunable_copy, tune
from graphlatent.io.atomic import refuse_existing
from graphlatent.io.runfolder import RunFolder
from graphlatent.methods.lagraph.estimators import GraphLaGraph, NodeLaGraph
from graphlatent.methods.registry import load_estimator
from graphlatent.probes.metrics import accuracy, micro_f1
from graphlatent.probes.similar_classes import warn_of_similar_classes
from graphlatent.setting_types import check_values

Array = np.ndarray[Any, Any]
Self = TypeVar("Self", bound="FineTunedClassifier")


class FineTunedClassifier(ClassifierSettings, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Base of both classifiers.

    Attributes:
        classes_: the classes in the order of the columns of `predict_proba`; the numbers of the
            columns of a 0/1 matrix of labels.
        estimator_: the fine-tuned encoder as an estimator: its `transform` and `embed` give the
            fine-tuned embeddings.
        head_: the linear layer on the embeddings.
        history_: training and validation loss of each epoch.
        multilabel_: whether a row may have several labels.
        n_features_in_: width of the encoded features.
    """

    level: ClassVar[Level]
    default_estimator: ClassVar[type[NodeLaGraph] | type[GraphLaGraph]]

    classes_: Array
    estimator_: Estimator
    head_: ClassifierHead
    history_: list[EpochRecord]
    multilabel_: bool
    n_features_in_: int

    @classmethod
    def from_pretrained(cls: type[Self], run: str | Path | Estimator) -> Self:
        """A classifier that starts from a run folder, or from a fitted estimator.

        >>> GraphLaGraphClassifier.from_pretrained("run").set_params(lr=1e-4)   # doctest: +SKIP

        Raises:
            RunFolderError: where the folder holds no finished run.
            ConfigError: where it is of another level, or neither a folder nor an estimator.
        """
        if not isinstance(run, str | Path | Estimator):
            raise bad_argument(
                "run",
                owner=f"{cls.__name__}.from_pretrained",
                allowed=(
                    "a run folder or a fitted estimator, such as the estimator_ of a classifier"
                ),
                got=run,
            )
        made = cls(pretraining=run)
        if not isinstance(run, Estimator):
            made._load_pretrained()
        elif not hasattr(run, "model_"):
            raise not_fitted(type(run).__name__)
        return made

    def fit(self: Self, X: Any, y: Any) -> Self:
        """Pre-train on all of X where that was not done before, fine-tune on its labelled rows.

        Args:
            X: one graph or several, in any form that `graphlatent.read_graphs` takes.
            y: one class per node or graph [M], or a 0/1 matrix of several labels [M, K]; -1 where a
                label is missing. A Series or DataFrame is matched by its index of ids, which may
                lack some; with the index 0 to M - 1, in order, and of a list of M graphs, it is
                in the order of X.

        Returns:
            The fitted classifier itself.
        """
        owner = type(self).__name__
        settings = self._checked()
        pretrained, graph = self._pretrained_on(X)
        rows = unembedded_rows(graph, level=self.level)
        y = by_position(X, y, level=self.level)
        y = in_row_order(y, rows, of=self.level, owner=f"{owner}.fit")
        labels = read_labels(y, num_rows=len(rows.ids), of=self.level, owner=f"{owner}.fit")
        warn_of_similar_classes(labels.classes.tolist(), where="Labels")
        generator = torch.Generator().manual_seed(settings.random_state * 4 + 1)
        train, val = held_out(labels, settings.validation_ratio, generator=generator)
        weights = label_weights(labels, train, self.class_weight, owner=owner)
        tuned = tunable_copy(pretrained)
        encoded = tuned._encoded(graph, tuned.features_, tuned.settings_)
        tuner = FineTuner(tuned, encoded, labels, train, weights, settings)
        self.history_ = tune(tuner, val=val)
        if settings.calibrate and len(val):
            tuner.head.fit_temperature(tuner.logits(val), tuner.codes[torch.from_numpy(val)])
        tuned.model_.requires_grad_(True).eval()
        self.estimator_, self.head_ = tuned, tuner.head.requires_grad_(False).cpu()
        self.classes_, self.multilabel_ = labels.classes, labels.multilabel
        self.n_features_in_ = tuned.n_features_in_
        return self

    def predict(self, X: Any) -> Array:
        """The most probable class of every node or graph [M]; a 0/1 matrix [M, K] of labels."""
        probability = self.predict_proba(X)
        return self._decided(probability)

    def predict_proba(self, X: Any) -> Array:
        """Probabilities of classes [M, K], in the order of `classes_`, float64.

        Rows of classes sum to 1; each of several labels has a probability of its own.
        """
        return self._probabilities(self._embed(X))

    def predict_table(self, X: Any) -> Any:
        """Predictions and probabilities as a `pandas.DataFrame`, indexed by the user's ids.

        Columns are 'predicted' and 'p_CLASS' for every class; of several labels
        'predicted_LABEL' and 'p_LABEL'.
        """
        embeddings = self._embed(X)
        probability = self._probabilities(embeddings)
        frame = embeddings.to_pandas().iloc[:, :0]
        decided, names = self._decided(probability), [str(name) for name in self.classes_]
        if self.multilabel_:
            for k, name in enumerate(names):
                frame[f"predicted_{name}"] = decided[:, k]
        else:
            frame["predicted"] = decided
        for k, name in enumerate(names):
            frame[f"p_{name}"] = probability[:, k]
        return frame

    def score(self, X: Any, y: Any, sample_weight: None = None) -> float:
        """The accuracy on the rows with a label; of several labels per row the micro-F1.

        Args:
            X: one graph or several.
            y: as for `fit`; rows with -1 are left out, in a matrix rows with any -1.
            sample_weight: None; weights are not supported.
        """
        if sample_weight is not None:
            raise ConfigError("Leave out 'sample_weight': scores are not weighted.")
        embeddings = self._embed(X)
        predicted = self._decided(self._probabilities(embeddings))
        y = by_position(X, y, level=self.level)
        truth, known = self._known(y, embeddings, predicted.shape, owner="score")
        metric = micro_f1 if self.multilabel_ else accuracy
        return float(metric(truth[known], predicted[known]))

    def reliability(self, X: Any, y: Any, *, num_bins: int = 10) -> ReliabilityCurve:
        """How often predictions are right, by their probability, on rows that were not fitted.

        Of classes the probability of the predicted one; of several labels that of each label.

        Args:
            X: one graph or several.
            y: as for `score`.
            num_bins: bins of equal width from 0 to 1.
        """
        embeddings = self._embed(X)
        probability = self._probabilities(embeddings)
        predicted = self._decided(probability)
        y = by_position(X, y, level=self.level)
        truth, known = self._known(y, embeddings, predicted.shape, owner="reliability")
        if self.multilabel_:
            sure, right = probability[known].ravel(), truth[known].ravel() == 1
        else:
            sure, right = probability[known].max(1), truth[known] == predicted[known]
        return reliability_curve(sure, right, num_bins=num_bins)

    def save(self, folder: str | Path, *, overwrite: bool = False) -> Path:
        """Write the fitted classifier into a folder (TOML, JSON and safetensors; never pickle).

        The folder is a run folder too, of the fine-tuned encoder: `graphlatent embed` reads it.
        """
        self._check_fitted()
        run = RunFolder(folder)
        refuse_existing(run.path, overwrite=overwrite)
        self._write(run)
        return run.path

    def _write(self, run: RunFolder, *, graph: GraphData | None = None) -> None:
        """Write the folder; `graph` is the input, as it was read, of a run that names it."""
        about = FineTuned(
            classifier=type(self).__name__,
            classes=self.classes_,
            multilabel=self.multilabel_,
            settings=self._plain_settings(),
            history=tuple(self.history_),
        )
        head = self.head_.state_dict()
        fingerprints = None if graph is None else graph.fingerprints()
        write_fine_tuned(run, self.estimator_, head, about, fingerprints=fingerprints)

    @classmethod
    def load(cls: type[Self], folder: str | Path, *, device: str | None = None) -> Self:
        """The fitted classifier in a folder that `save` or `graphlatent finetune` wrote.

        Args:
            folder: the folder.
            device: device of the model; None means that of the settings.

        Raises:
            RunFolderError: where the folder holds no fine-tuned classifier of this class, or was
                changed.
        """
        estimator, head, about = read_fine_tuned(folder, wanted=cls.__name__, device=device)
        unfitted = type(estimator)(**estimator.get_params())
        made = cls(pretraining=unfitted, **about.settings)
        made._checked()
        made.classes_, made.multilabel_ = about.classes, about.multilabel
        made.history_, made.estimator_ = list(about.history), estimator
        made.n_features_in_ = estimator.n_features_in_
        made.head_ = head.requires_grad_(False)
        return made

    @property
    def best_epoch_(self) -> int | None:
        """The epoch whose weights were kept; None where there was no validation part."""
        losses = [each.val_loss for each in self.history_]
        if not losses or np.isnan(losses).any():
            return None
        return self.history_[int(np.argmin(losses))].epoch

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "estimator_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.classifier_tags.multi_label = True
        return tags

    def _check_fitted(self) -> None:
        if not hasattr(self, "estimator_"):
            raise not_fitted(type(self).__name__)

    def _checked(self) -> FineTuneSettings:
        """The checked settings of fine-tuning."""
        owner = type(self).__name__
        weight = self.class_weight
        if not (weight is None or isinstance(weight, dict) or weight == "balanced"):
            raise bad_argument(
                "class_weight",
                owner=owner,
                allowed="None, 'balanced' or a dict of a weight for each class",
                got=weight,
            )
        names = [field.name for field in dataclasses.fields(FineTuneSettings)]
        settings = FineTuneSettings(**{name: getattr(self, name) for name in names})
        return dataclasses.replace(settings, **check_values(settings, owner=owner))

    def _plain_settings(self) -> dict[str, Any]:
        return {**vars(self._checked()), "class_weight": self.class_weight}

    def _pretrained_on(self, X: Any) -> tuple[Estimator, GraphData]:
        """The pre-trained estimator, trained on X where it is not fitted yet, and X as read."""
        given = self.pretraining
        if isinstance(given, str | Path):
            given = self._load_pretrained()
        given = self.default_estimator() if given is None else given
        if not isinstance(given, Estimator) or given.level != self.level:
            raise bad_argument(
                "pretraining",
                owner=type(self).__name__,
                allowed=(
                    f"an estimator that embeds {self.level}s, such as"
                    f" {self.default_estimator.__name__}(), a run folder of one, or None"
                ),
                got=given,
            )
        if hasattr(given, "model_"):
            return given, given._read_later(X)
        estimator = clone(given)
        graph = estimator._read(X, estimator._resolved())
        return estimator.fit(graph), graph

    def _load_pretrained(self) -> Estimator:
        """The estimator in the run folder `pretraining`."""
        found = load_estimator(self.pretraining)
        if found.level != self.level:
            raise ConfigError(
                f"{self.pretraining} embeds {found.level}s, and {type(self).__name__} classifies"
                f" {self.level}s. Give a run of that level, or use the other classifier."
            )
        return found

    def _embed(self, X: Any) -> Embeddings:
        self._check_fitted()
        return self.estimator_.embed(X)

    def _known(
        self, y: Any, rows: Embeddings, shape: tuple[int, ...], *, owner: str
    ) -> tuple[Array, Array]:
        """Labels of embedded rows as an array, and which rows have one."""
        where = f"{type(self).__name__}.{owner}"
        truth = np.asarray(in_row_order(y, rows, of=self.level, owner=where))
        if truth.shape != shape:
            raise bad_argument("y", owner=where, allowed=f"of shape {shape}", got=truth.shape)
        missing = missing_labels(truth)
        known: Array = np.logical_not(missing.any(1) if self.multilabel_ else missing)
        if not known.any():
            raise InputError(f"'y' of {where} has no label: there is nothing to compare with.")
        return truth, known

    def _probabilities(self, embeddings: Embeddings) -> Array:
        with torch.no_grad():
            logits = self.head_.calibrated(torch.from_numpy(embeddings.values)).double()
        out: Array = probabilities(logits, multilabel=self.multilabel_).numpy()
        return out

    def _decided(self, probability: Array) -> Array:
        if self.multilabel_:
            return (probability > 0.5).astype(np.int64)
        decided: Array = self.classes_[probability.argmax(1)]
        return decided


@dataclass(kw_only=True, repr=False, eq=False)
class NodeLaGraphClassifier(FineTunedClassifier):
    """Classes of nodes from few labels: a pre-trained encoder and a linear head, fine-tuned.

    >>> y = np.where(known, classes, -1)                                        # doctest: +SKIP
    >>> NodeLaGraphClassifier().fit((edge_index, x), y).predict((edge_index, x))  # doctest: +SKIP

    Args:
        pretraining: a `NodeLaGraph` or another estimator of nodes, which is trained on all of X
            unless it is fitted already, or the folder of a run; None is `NodeLaGraph()`.
        class_weight: None, 'balanced', or weights by class.
        epochs: steps of full-graph training, at most; 0 keeps the encoder as it is.
        lr: learning rate of encoder and head.
        weight_decay: the optimizer's weight decay.
        batch_size: has no effect: all labelled nodes of a graph are one batch.
        linear_probe: fit the head alone first, exactly; otherwise it starts at 0.
        validation_ratio: share of the labelled nodes that stops training; 0 for none.
        patience: epochs without a lower validation loss after which training stops; None: never.
        calibrate: divide logits by a temperature fitted to the validation part.
        random_state: seed of the validation part.
    """

    level: ClassVar[Level] = "node"
    default_estimator: ClassVar[type[NodeLaGraph] | type[GraphLaGraph]] = NodeLaGraph


@dataclass(kw_only=True, repr=False, eq=False)
class GraphLaGraphClassifier(FineTunedClassifier):
    """Classes of whole graphs from few labels: a pre-trained encoder and a head, fine-tuned.

    >>> y = np.where(known, classes, -1)                                        # doctest: +SKIP
    >>> GraphLaGraphClassifier().fit(graphs, y).predict(graphs)                 # doctest: +SKIP

    Args:
        pretraining: a `GraphLaGraph` or another estimator of graphs, which is trained on all of X
            unless it is fitted already, or the folder of a run; None is `GraphLaGraph()`.
        class_weight: None, 'balanced', or weights by class.
        epochs: passes over the labelled graphs, at most; 0 keeps the encoder as it is.
        lr: learning rate of encoder and head.
        weight_decay: the optimizer's weight decay.
        batch_size: labelled graphs in a mini-batch.
        linear_probe: fit the head alone first, exactly; otherwise it starts at 0.
        validation_ratio: share of the labelled graphs that stops training; 0 for none.
        patience: epochs without a lower validation loss after which training stops; None: never.
        calibrate: divide logits by a temperature fitted to the validation part.
        random_state: seed of the validation part and of batches.
    """

    level: ClassVar[Level] = "graph"
    default_estimator: ClassVar[type[NodeLaGraph] | type[GraphLaGraph]] = GraphLaGraph
