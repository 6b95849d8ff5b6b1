"""The base classes of the estimators of all methods: fit, transform, embed, save, load.

They follow scikit-learn's conventions: the constructor only stores its arguments, `fit` checks
them, trains and returns self, and learnt attributes end in `_`. The estimator class of a method
inherits the method's settings and `NodeEstimator` or `GraphEstimator`, and names the method.
"""

from __future__ import annotations

import copy
import dataclasses
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch
from sklearn.base import BaseEstimator, TransformerMixin
from torch import Tensor, nn

from graphlatent.config import Level, Settings, from_mapping, resolve, to_mapping
from graphlatent.data.batches import Batch, full_batch
from graphlatent.data.features import FeatureSpec, encode_features
from graphlatent.data.graph import GraphData, single_node
from graphlatent.data.readers.later import later_options, read_with
from graphlatent.data.readers.options import TableOptions, options_of_run
from graphlatent.data.readers.second_argument import graph_with_features, refuse_features_as_y
from graphlatent.embedding import (
    Embeddings,
    check_finite_rows,
    embedded_rows,
    graph_embeddings,
    node_embeddings,
)
from graphlatent.errors import RunFolderError, not_fitted, warn
from graphlatent.io.atomic import refuse_existing
from graphlatent.io.config_file import RunConfig
from graphlatent.io.history import History
from graphlatent.io.runfolder import RunFolder
from graphlatent.io.versions import versions
from graphlatent.methods.base import Method
from graphlatent.ops.devices import pick_device
from graphlatent.setting_docs import ShownInNotebook
from graphlatent.training.encoding import fit_encoding, stored_encoding
from graphlatent.training.fitted import finish_model
from graphlatent.training.loop import Hooks, Training, check_hooks, checked_epochs, seeded
from graphlatent.training.progress import training_bar
from graphlatent.training.resume import begin, begin_or_resume, load_weights
from graphlatent.training.setup import set_up, suited_threads

Self = TypeVar("Self", bound="Estimator")
Array = np.ndarray[Any, np.dtype[np.float32]]


class Estimator(Settings, ShownInNotebook, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Base of all estimators.

    Attributes:
        model_: the trained model.
        method_: the method with its settings.
        features_: encoding of the features, fixed at fit time.
        history_: loss and terms per epoch, and diagnostics of the embedding.
        embedding_dim_: width of the embeddings.
        peak_memory_: peak of GPU memory in training, in bytes; None on a CPU.
        n_features_in_: width of the encoded features.
        reading_: the options that the fitted graphs were read with, for tables that come later.
        num_threads_: CPU threads that the training used; not of a loaded model.
        settings_: the settings of the last `fit`, which later changes of parameters do not affect.
    """

    level: ClassVar[Level]
    method: ClassVar[type[Method[Any]]]
    settings_class: ClassVar[type[Settings]]

    model_: nn.Module
    method_: Method[Any]
    features_: FeatureSpec
    history_: History
    embedding_dim_: int
    peak_memory_: int | None
    n_features_in_: int
    reading_: TableOptions
    num_threads_: int
    settings_: Settings

    def fit(
        self: Self,
        X: Any,
        y: Any = None,
        *,
        run: RunFolder | str | Path | None = None,
        hooks: Hooks | None = None,
    ) -> Self:
        """Learn the encoder from graphs, without labels.

        Args:
            X: one graph or several, in any form that `graphlatent.read_graphs` takes.
            y: `fit(adjacency, x)` is `fit((adjacency, x))`, also of an edge and a node table;
                labels are ignored, what may be either is refused.
            run: a run folder, or its path, for checkpoints and the trained model. An unfinished
                run of the same settings and input in it is resumed, the model of a complete one
                is used as it is.
            hooks: callbacks for progress, saving and stopping; `graphlatent train` uses them.

        Returns:
            The fitted estimator itself.
        """
        X = graph_with_features(X, y, owner=f"{type(self).__name__}.fit")
        run = run if run is None or isinstance(run, RunFolder) else RunFolder(run)
        check_hooks(hooks, owner=f"{type(self).__name__}.fit")
        graph, settings = self._read_to_fit(X)
        self.reading_ = graph.reading
        with suited_threads(graph, settings), nullcontext() if run is None else run.writing():
            encoded, spec = self._prepare(graph, settings, run=run)
            training, everything = self._set_up(encoded, settings)
            complete = run is not None and begin_or_resume(
                run, training, config=self._config(training.settings), features=spec, graph=graph
            )
            with training_bar(settings) if hooks is None else nullcontext(hooks) as active:
                training.run(active)
            self._set_fitted(training.model, training, everything, spec, complete=complete)
            if run is not None and not complete:
                # A run is complete only once its model embeds what it was trained on.
                rows = self._embed(everything()).cpu().numpy()
                check_finite_rows(self._with_ids(rows, graph), model=self.model_)
                run.finish(self.model_.state_dict(), self.history_)
        return self

    def snapshots(self: Self, X: Any, *, epochs: Sequence[int]) -> Iterator[tuple[int, Self]]:
        """Train once and yield a fitted estimator at each of several epochs.

        Each equals the result of `fit` with that number of epochs, except that a learning-rate
        schedule is that of the whole run (so is BGRL's momentum).

        Args:
            X: one graph or several, as for `fit`.
            epochs: ascending, at most the estimator's `epochs`; 0 is the randomly initialised
                encoder.

        Yields:
            (epoch, fitted estimator).
        """
        graph, settings = self._read_to_fit(X)
        checked = checked_epochs(epochs, settings.epochs, owner=f"{type(self).__name__}.snapshots")
        with suited_threads(graph, settings):
            encoded, spec = self._prepare(graph, settings)
            training, everything = self._set_up(encoded, settings)
        for epoch in checked:
            fitted = type(self)(**self.get_params())
            # Not around `yield`, which would leave the caller with another number of threads.
            with suited_threads(graph, settings):
                training.run(until=epoch)
                fitted._set_fitted(copy.deepcopy(training.model), training, everything, spec)
            fitted.reading_ = graph.reading
            yield epoch, fitted

    def fit_transform(self, X: Any, y: Any = None) -> Array:
        """Fit on graphs and return their embeddings, float32 [M, D]."""
        refuse_features_as_y(X, y, owner=f"{type(self).__name__}.fit_transform")
        graph = self._read(X, self._resolved())
        return self.fit(graph).transform(graph)

    def transform(self, X: Any) -> Array:
        """The embeddings of graphs with the same features as the fitted ones, float32 [M, D]."""
        return self.embed(X).values

    def embed(self, X: Any) -> Embeddings:
        """The embeddings of graphs with their ids.

        They have methods `to_pandas()`, `to_arrow()` and `save("file.parquet")`.

        Raises:
            InputError: where the graphs do not have the features of the fitted ones, or an
                embedding is not finite.
        """
        graph = self._read_later(X)
        with suited_threads(graph, self.settings_, whole=True):
            graph = self._encoded(graph, self.features_, self.settings_)
            rows = self._embed(self._batch(graph)).cpu().numpy()
        return check_finite_rows(self._with_ids(rows, graph), model=self.model_)

    def save(self, folder: str | Path, *, overwrite: bool = False) -> Path:
        """Write the fitted estimator into a folder (TOML, JSON and safetensors; never pickle)."""
        self._check_fitted()
        run = RunFolder(folder)
        refuse_existing(run.path, overwrite=overwrite)
        with self._saving(run):
            pass
        return run.path

    @contextmanager
    def _saving(self, run: RunFolder) -> Iterator[None]:
        """Write a complete run; what belongs to it besides the model is written within."""
        device = next(self.model_.parameters()).device
        about = versions(self.settings_, device=device, fingerprints={})
        # Those of the training; a loaded model does not know them.
        about["threads"] = getattr(self, "num_threads_", about["threads"])
        run.reading = self.reading_.to_dict()
        with run.writing():
            begin(run, config=self._config(self.settings_), features=self.features_, about=about)
            yield
            run.finish(self.model_.state_dict(), self.history_)

    @classmethod
    def load(
        cls: type[Self],
        folder: str | Path,
        *,
        encoder: nn.Module | None = None,
        device: str | None = None,
    ) -> Self:
        """The fitted estimator in a folder that `save` or a finished run wrote.

        Args:
            folder: the folder.
            encoder: an instance of the custom encoder's class, where the run was trained with one;
                its weights are replaced.
            device: device of the model; None means that of the settings.
        """
        run = RunFolder(folder)
        weights = run.read_model()
        config = run.read_config()
        if (config.method, config.level) != (cls.method.name, cls.level):
            raise RunFolderError(
                f"{run.path} holds a {config.level}-level model of the method '{config.method}',"
                f" which {cls.__name__} is not. Load it with graphlatent.load_estimator."
            )
        values = config.settings_with(encoder, where=str(run.path))
        estimator = from_mapping(cls, values, where=str(run.path / "config.toml"))
        settings = estimator._resolved()
        spec = stored_encoding(run)
        method = cls.method(settings, level=cls.level)
        model = method.build_with_head(
            spec.width,
            generator=seeded(0, 0),
            coordinate_dim=spec.embedding_coordinates,
            edge_dim=spec.edge_dim,
        )
        load_weights(model, weights, run=run)
        target = pick_device(device or settings.device)
        estimator.model_ = model.to(device=target, dtype=torch.float32).eval()
        estimator.method_, estimator.settings_ = method, settings
        estimator.reading_ = options_of_run(run)
        estimator.features_, estimator.n_features_in_ = spec, spec.width
        estimator.embedding_dim_, estimator.peak_memory_ = estimator._width(), None
        try:
            estimator.history_ = run.read_history()
        except RunFolderError as error:
            # Embedding does not need the history.
            warn(str(error))
            estimator.history_ = History.of(method.term_names)
        return estimator

    def set_params(self: Self, **params: Any) -> Self:
        """Change settings by name; an error for an unknown name suggests the closest known one."""
        from_mapping(type(self), params, where=f"{type(self).__name__}.set_params")
        super().set_params(**params)
        return self

    def get_feature_names_out(self, input_features: object = None) -> np.ndarray[Any, Any]:
        """The column names of the embeddings."""
        self._check_fitted()
        return np.array([f"e{i}" for i in range(self.embedding_dim_)], dtype=object)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        return tags

    # Defined by the node-level and graph-level subclasses.

    @abstractmethod
    def _with_ids(self, values: Array, graph: GraphData) -> Embeddings:
        """The embeddings with the ids of the embedded nodes or graphs."""

    def _embed(self, batch: Batch) -> Tensor:
        """The embeddings of a batch, [M, D]."""
        return embedded_rows(self.method_, self.model_, batch)

    def _resolved(self, graph: GraphData | None = None) -> Settings:
        """The checked settings of this estimator, adapted to the size of a graph to be fitted."""
        settings = self.settings_class(**self.get_params())
        if graph is not None:
            settings = settings.adapted_to(graph.num_nodes)
        return resolve(settings, owner=type(self).__name__)

    def _read_to_fit(self, X: Any) -> tuple[GraphData, Settings]:
        """The graphs to fit, and the settings that are adapted to them."""
        # Wrong settings are reported before a large file is read.
        graph = self._read(X, self._resolved())
        return graph, self._resolved(graph)

    def _config(self, settings: Settings) -> RunConfig:
        return RunConfig(to_mapping(settings), self.level, self.method.name)

    def _set_up(self, graph: GraphData, settings: Settings) -> tuple[Training, Callable[[], Batch]]:
        if isinstance(settings.encoder, nn.Module):
            # A copy, so that fit does not change its arguments.
            settings = dataclasses.replace(settings, encoder=copy.deepcopy(settings.encoder))
        method = self.method(settings, level=self.level)
        assert graph.x is not None
        method.check_features(graph.x)
        return set_up(graph, method, device=pick_device(settings.device))

    def _set_fitted(
        self,
        model: nn.Module,
        training: Training,
        everything: Callable[[], Batch],
        spec: FeatureSpec,
        *,
        complete: bool = False,
    ) -> None:
        """Set the learnt attributes; batch-norm statistics and the head see all training data.

        The weights of a complete run contain them.
        """
        if not complete:
            finish_model(training.method, model, everything)
        self.model_, self.features_, self.n_features_in_ = model.eval(), spec, spec.width
        # A new method object, since the one used in training refers to the training data.
        self.method_ = self.method(training.settings, level=self.level)
        self.num_threads_ = torch.get_num_threads()
        self.settings_, self.history_ = training.settings, copy.deepcopy(training.history)
        self.embedding_dim_, self.peak_memory_ = self._width(), training.memory.peak

    def _width(self) -> int:
        """The width of the embeddings, found by embedding a graph of one node."""
        spec = self.features_
        dims = {"coordinate_dim": spec.embedding_coordinates, "edge_dim": spec.edge_dim}
        return int(self._embed(self._batch(single_node(width=spec.width, **dims))).shape[1])

    def _batch(self, graph: GraphData) -> Batch:
        """Graphs with encoded features as one batch, on the model's device."""
        prepare = partial(self.method_.prepare, self.model_)
        return full_batch(graph, prepare=prepare, device=next(self.model_.parameters()).device)

    def _read_batch(self, X: Any) -> Batch:
        """Graphs in any form as one batch, with features encoded as at fit time."""
        graph = self._read_later(X)
        return self._batch(self._encoded(graph, self.features_, self.settings_))

    def _check_fitted(self) -> None:
        if not hasattr(self, "model_"):
            raise not_fitted(type(self).__name__)

    def _read_later(self, X: Any) -> GraphData:
        """Graphs for the fitted model, read as the fitted ones were."""
        self._check_fitted()
        options = later_options(X, self.reading_, self.features_.columns)
        return self._read(X, self.settings_, options)

    def _read(self, X: Any, settings: Settings, options: TableOptions | None = None) -> GraphData:
        owner = type(self).__name__
        return read_with(X, symmetrize=settings.symmetrize, options=options, owner=owner)

    def _prepare(
        self, graph: GraphData, settings: Settings, *, run: RunFolder | None = None
    ) -> tuple[GraphData, FeatureSpec]:
        spec = fit_encoding(graph, settings, run=run)
        return self._encoded(graph, spec, settings), spec

    @staticmethod
    def _encoded(graph: GraphData, spec: FeatureSpec, settings: Settings) -> GraphData:
        """The graph with encoded features, the input of the encoder."""
        return encode_features(spec, graph, row_normalize=settings.row_normalize)


class NodeEstimator(Estimator):
    """Base of estimators that embed nodes."""

    level: ClassVar[Level] = "node"

    def _with_ids(self, values: Array, graph: GraphData) -> Embeddings:
        return node_embeddings(values, graph)


class GraphEstimator(Estimator):
    """Base of estimators that embed whole graphs."""

    level: ClassVar[Level] = "graph"

    def _with_ids(self, values: Array, graph: GraphData) -> Embeddings:
        return graph_embeddings(values, graph)
