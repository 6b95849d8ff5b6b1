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
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch
from sklearn.base import BaseEstimator, TransformerMixin
from torch import Tensor, nn

from graphlatent.config import Level, Settings, from_mapping, resolve, to_mapping
from graphlatent.data.batches import Batch, full_batch
from graphlatent.data.csr import CSRGraph
from graphlatent.data.features import FeatureSpec, encode_features
from graphlatent.data.graph import GraphData, single_node
from graphlatent.data.lost_weights import warn_of_lost_weights
from graphlatent.data.readers.later import later_options, read_with
from graphlatent.data.readers.options import TableOptions
from graphlatent.data.readers.second_argument import graph_with_features, refuse_features_as_y
from graphlatent.data.readers.stores import check_directions, open_store
from graphlatent.data.store.store import AnyGraph, GraphStore
from graphlatent.embedding import (
    Embeddings,
    check_finite_rows,
    embedded_rows,
    graph_embeddings,
    node_embeddings,
    shared_rows,
)
from graphlatent.errors import not_fitted
from graphlatent.estimator_files import load_fitted, saving
from graphlatent.estimator_stores import (
    complete_run,
    embed_store,
    embed_store_to_file,
    layerwise_store,
)
from graphlatent.io.atomic import refuse_existing
from graphlatent.io.config_file import RunConfig
from graphlatent.io.history import History
from graphlatent.io.runfolder import RunFolder
from graphlatent.io.scratch import Progress, no_progress
from graphlatent.methods.base import Method
from graphlatent.ops.collective import first_only, rank
from graphlatent.ops.devices import pick_device
from graphlatent.setting_docs import ShownInNotebook
from graphlatent.training.batching import PIECES, adapted_settings
from graphlatent.training.fitted import finish_model
from graphlatent.training.inputs import blocks_of_features, prepared
from graphlatent.training.loop import Hooks, Training, check_hooks, checked_epochs
from graphlatent.training.progress import training_bar
from graphlatent.training.resume import begin_or_resume
from graphlatent.training.setup import set_up, suited_threads
from graphlatent.training.several import begin_alike, check_shareable, finish_alike

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
        weighted_: whether the fitted graphs have edge weights; None where it is not known.
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
    weighted_: bool | None = None
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
        graph, settings = self._read_to_fit(X, run=run)
        check_shareable(self.method, settings, graph)
        self.reading_, self.weighted_ = graph.reading, graph.weighted
        # Of several processes, only the first writes.
        writing = nullcontext() if run is None or rank() > 0 else run.writing()
        with suited_threads(graph, settings), writing:
            encoded, spec = prepared(graph, settings, run=run)
            cache = graph.cache if isinstance(graph, GraphStore) else None
            training, everything = self._set_up(encoded, settings, cache=cache)
            about = (self._config(training.settings), spec, graph)
            complete = begin_alike(
                training, lambda: run is not None and begin_or_resume(run, training, *about)
            )
            with training_bar(settings) if hooks is None else nullcontext(hooks) as active:
                training.run(active)
                data, tell = (
                    encoded if isinstance(encoded, CSRGraph) else everything,
                    active.on_stage,
                )
                self._set_fitted(training.model, training, data, spec, complete=complete, tell=tell)
                if run is not None and not complete:
                    first_only(partial(complete_run, self, run, graph, everything, tell))
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
        graph = self._read(X, self._resolved())
        settings = self._resolved(graph)
        checked = checked_epochs(epochs, settings.epochs, owner=f"{type(self).__name__}.snapshots")
        with suited_threads(graph, settings):
            encoded, spec = prepared(graph, settings)
            training, everything = self._set_up(encoded, settings)
        for epoch in checked:
            fitted = type(self)(**self.get_params())
            # Not around `yield`, which would leave the caller with another number of threads.
            with suited_threads(graph, settings):
                training.run(until=epoch)
                fitted._set_fitted(copy.deepcopy(training.model), training, everything, spec)
            fitted.reading_, fitted.weighted_ = graph.reading, graph.weighted
            yield epoch, fitted

    def fit_transform(self, X: Any, y: Any = None) -> Array:
        """Fit on graphs and return their embeddings, float32 [M, D]."""
        refuse_features_as_y(X, y, owner=f"{type(self).__name__}.fit_transform")
        graph = open_store(X) or self._read(X, self._resolved())
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
        store = layerwise_store(self, X)
        if store is not None:
            return embed_store(self, store)
        graph = self._read_later(X)
        with suited_threads(graph, self.settings_, whole=True):
            graph = self._encoded(graph, self.features_, self.settings_)
            rows = shared_rows(self.method_, self.model_, self._batch(graph), graph.ptr)
        return check_finite_rows(self._with_ids(rows, graph), model=self.model_)

    def embed_to(
        self,
        X: Any,
        path: str | Path,
        *,
        overwrite: bool = False,
        progress: Progress = no_progress,
    ) -> Path:
        """Write the embeddings of graphs to a file, those of a store in bounded memory.

        Args:
            X: as for `embed`. The nodes of a store are embedded in blocks of rows, and a killed
                call goes on where it was.
            path: of a `.parquet` or `.npy` file for a store, otherwise as of `Embeddings.save`.
            overwrite: whether a file that is there may be replaced.
            progress: for a store, called with what is computed, how many nodes that is done for,
                and of how many.
        """
        store = layerwise_store(self, X)
        if store is None:
            return self.embed(X).save(path, overwrite=overwrite)
        return embed_store_to_file(self, store, path, overwrite=overwrite, progress=progress)

    def save(self, folder: str | Path, *, overwrite: bool = False) -> Path:
        """Write the fitted estimator into a folder (TOML, JSON and safetensors; never pickle)."""
        self._check_fitted()
        run = RunFolder(folder)
        refuse_existing(run.path, overwrite=overwrite)
        with saving(self, run):
            pass
        return run.path

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
        return load_fitted(cls, folder, encoder=encoder, device=device)

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

    def _resolved(self, graph: AnyGraph | None = None, *, run: RunFolder | None = None) -> Settings:
        """The checked settings of this estimator, adapted to a graph to be fitted."""
        settings, owner = self.settings_class(**self.get_params()), type(self).__name__
        if graph is not None:
            settings = adapted_settings(settings, graph, run=run, owner=owner)
        return resolve(settings, owner=owner)

    def _read_to_fit(self, X: Any, *, run: RunFolder | None = None) -> tuple[AnyGraph, Settings]:
        """The graphs to fit (a store only if steps see pieces), and settings adapted to them."""
        # Wrong settings are reported before a large file is read.
        checked = self._resolved()
        store = open_store(X) if self.level == "node" else None
        if store is not None:
            settings = self._resolved(store, run=run)
            if getattr(settings, "batching", "full") in PIECES:
                check_directions(store, symmetrize=settings.symmetrize)
                return store, settings
        graph = self._read(X, checked)
        return graph, self._resolved(graph, run=run)

    def _config(self, settings: Settings) -> RunConfig:
        return RunConfig(to_mapping(settings), self.level, self.method.name)

    def _set_up(
        self, graph: GraphData | CSRGraph, settings: Settings, *, cache: Path | None = None
    ) -> tuple[Training, Callable[[], Batch]]:
        if isinstance(settings.encoder, nn.Module):
            # A copy, so that fit does not change its arguments.
            settings = dataclasses.replace(settings, encoder=copy.deepcopy(settings.encoder))
        method = self.method(settings, level=self.level)
        for x in blocks_of_features(graph):
            method.check_features(x)
        return set_up(graph, method, device=pick_device(settings.device), cache=cache)

    def _set_fitted(
        self,
        model: nn.Module,
        training: Training,
        data: Callable[[], Batch] | CSRGraph,
        spec: FeatureSpec,
        *,
        complete: bool = False,
        tell: Progress = no_progress,
    ) -> None:
        """Set the learnt attributes; batch-norm statistics and the head see all training data."""
        # The weights of a complete run contain them.
        if not complete:
            shares = isinstance(data, CSRGraph) and data.share is not None
            finish = partial(finish_model, training.method, model, data, progress=tell)
            finish_alike(model, finish, shares=shares)
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
        graph = self._read(X, self.settings_, options)
        return warn_of_lost_weights(graph, fitted=self.weighted_)

    def _read(self, X: Any, settings: Settings, options: TableOptions | None = None) -> GraphData:
        owner = type(self).__name__
        return read_with(X, symmetrize=settings.symmetrize, options=options, owner=owner)

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
