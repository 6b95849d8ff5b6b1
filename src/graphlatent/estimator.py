"""`NodeLaGraph` and `GraphLaGraph`: fit, transform, embed, save, load, as scikit-learn's users know
it.

The constructor only stores; `fit` checks, works and returns self; what was learnt ends in `_`.
scikit-learn itself is not needed: the few methods its `clone`, `Pipeline` and `GridSearchCV` ask
for are here.
"""

from __future__ import annotations

import copy
import dataclasses
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch
from torch import nn

from graphlatent.config import GraphSettings, NodeSettings, Settings, from_mapping, resolve
from graphlatent.data.batches import Batch, full_batch
from graphlatent.data.features import FeatureSpec, encode_features, fit_features
from graphlatent.data.graph import GraphData
from graphlatent.data.readers.read import read_graphs, refuse_features_as_y
from graphlatent.embedding import Embeddings, embed_graphs, embed_nodes
from graphlatent.errors import (
    ConfigError,
    GraphLatentWarning,
    RunFolderError,
    bad_argument,
    not_fitted,
)
from graphlatent.io.atomic import refuse_existing
from graphlatent.io.history import History
from graphlatent.io.runfolder import RunFolder, versions
from graphlatent.methods.lagraph.model import LaGraphModel, build_model
from graphlatent.methods.lagraph.objective import check_features
from graphlatent.nn.norm import has_statistics, measure_statistics
from graphlatent.training.loop import Hooks, Training, seeded
from graphlatent.training.progress import training_bar
from graphlatent.training.setup import set_up

Self = TypeVar("Self", bound="LaGraphEstimator")
Array = np.ndarray[Any, np.dtype[np.float32]]


class LaGraphEstimator(Settings):
    """What both estimators share.

    Learnt: `model_`, `features_`, `history_`, `embedding_dim_`, `n_features_in_`, `settings_`, the
        settings it was fitted with (changing a
    parameter after `fit` has no effect before the next `fit`), and `peak_memory_`, the bytes that
    training held on a GPU at most.
    """

    level: ClassVar[str]
    model_: LaGraphModel
    features_: FeatureSpec
    history_: History
    embedding_dim_: int
    peak_memory_: int | None
    n_features_in_: int
    settings_: Settings

    # -- fitting

    def fit(
        self: Self,
        X: Any,
        y: object = None,
        *,
        run: RunFolder | str | Path | None = None,
        hooks: Hooks | None = None,
    ) -> Self:
        """Learn the encoder from graphs, without labels.

        Args:
            X: one graph or several, in any form that `graphlatent.read_graphs` takes.
            y: ignored; there so that the estimator fits into a scikit-learn pipeline. Features go
                into `X`, as in `fit((adjacency, x))`.
            run: a run folder, or its path, to keep a resumable state and the trained model in. One
                that holds an unfinished run of the same settings and input is taken up where it
                stopped.
            hooks: callbacks for progress, saving and stopping; `graphlatent train` uses them.

        Returns:
            The fitted estimator itself.
        """
        refuse_features_as_y(X, y, owner=f"{type(self).__name__}.fit")
        settings = self._resolved()
        run = RunFolder(run) if isinstance(run, (str, Path)) else run
        device = pick_device(settings.device)
        graph, spec = self._prepare(X, settings)
        training, everything = set_up(graph, settings, device=device)
        if run is not None:
            self._begin_or_resume(run, training, settings, spec, graph, device)
        with training_bar(settings) if hooks is None else nullcontext(hooks) as active:
            training.run(active)
        self._learnt(training.model, training, everything, spec)
        if run is not None:
            run.finish(self.model_.state_dict(), self.history_)
        return self

    def snapshots(self: Self, X: Any, *, epochs: Sequence[int]) -> Iterator[tuple[int, Self]]:
        """Fit once, and yield (epoch, a fitted estimator as it was then) on the way: `fit` with so
        many epochs, but for `schedule`.

        Args:
            X: one graph or several, as for `fit`.
            epochs: ascending, none beyond the estimator's own `epochs`; 0 is the random initial
                encoder.
        """
        settings = self._resolved()
        wanted: list[Any] = list(epochs)
        counts = len(wanted) > 0 and all(
            isinstance(epoch, Integral) and not isinstance(epoch, bool) for epoch in wanted
        )
        if (
            not counts
            or wanted != sorted(set(wanted))
            or wanted[0] < 0
            or wanted[-1] > settings.epochs
        ):
            allowed = f"ascending ints from 0 to the estimator's epochs, {settings.epochs}"
            raise bad_argument(
                "epochs", owner=f"{type(self).__name__}.snapshots", allowed=allowed, got=epochs
            )
        graph, spec = self._prepare(X, settings)
        training, everything = set_up(graph, settings, device=pick_device(settings.device))
        for epoch in map(int, wanted):
            training.run(until=epoch)
            then = type(self)(**self.get_params())
            then._learnt(copy.deepcopy(training.model), training, everything, spec)
            yield epoch, then

    def _learnt(
        self,
        model: LaGraphModel,
        training: Training,
        everything: Callable[[], Batch],
        spec: FeatureSpec,
    ) -> None:
        """Take over what training gave, with batch norm's statistics measured once more over all of
        the training data.
        """
        if has_statistics(model):
            batch = everything()
            measure_statistics(model, lambda: model.reconstruct(batch.x, batch.structure))
        self.model_, self.features_, self.n_features_in_ = model.eval(), spec, spec.width
        self.settings_, self.history_ = training.settings, copy.deepcopy(training.history)
        self.embedding_dim_, self.peak_memory_ = (
            self._width(training.settings),
            training.memory.peak,
        )

    def fit_transform(self, X: Any, y: object = None) -> Array:
        """`fit` and the embeddings of the same graphs, float32 [M, D]."""
        refuse_features_as_y(X, y, owner=f"{type(self).__name__}.fit_transform")
        graph = self._read(X, self._resolved())
        return self.fit(graph, y).transform(graph)

    def transform(self, X: Any) -> Array:
        """Embeddings of graphs, the fitted ones or new ones of the same kind, float32 [M, D]."""
        return self.embed(X).values

    def embed(self, X: Any) -> Embeddings:
        """Embeddings with their ids: `.to_pandas()`, `.to_arrow()`, `.save("file.parquet")`."""
        self._check_fitted()
        graph = encode_features(self.features_, self._read(X, self.settings_))
        values = self._embed(self._batch(graph), self.settings_).cpu().numpy()
        return self._named(values, graph)

    def reconstruct(self, X: Any) -> Array:
        """The predicted latent features of every node, D(E(A, X)), float32 [N, F]; logits after a
        'ce-' objective.
        """
        self._check_fitted()
        batch = self._batch(encode_features(self.features_, self._read(X, self.settings_)))
        with torch.no_grad():
            return self.model_.reconstruct(batch.x, batch.structure, decode=True).cpu().numpy()

    # -- saving

    def save(self, folder: str | Path, *, overwrite: bool = False) -> Path:
        """Write the fitted estimator into a folder (TOML, JSON and safetensors; never pickle)."""
        self._check_fitted()
        path = Path(folder)
        refuse_existing(path, overwrite=overwrite)
        run = RunFolder(path)
        device = next(self.model_.parameters()).device
        about = versions(self.settings_, device=device, fingerprint="")
        run.begin(self.level, self.settings_, features=self.features_.to_dict(), about=about)
        run.finish(self.model_.state_dict(), self.history_)
        return path

    @classmethod
    def load(
        cls: type[Self],
        folder: str | Path,
        *,
        encoder: nn.Module | None = None,
        device: str | None = None,
    ) -> Self:
        """The fitted estimator that `save`, or a finished run, left in a folder.

        Args:
            folder: the folder.
            encoder: an instance of your own encoder class, where the run was trained with one; its
                weights are filled in.
            device: where to put the model; None is what the settings say.
        """
        run = RunFolder(folder)
        weights = run.read_model()
        level, values = run.read_settings()
        if level != cls.level:
            right = {"node": "NodeLaGraph", "graph": "GraphLaGraph"}[level]
            raise RunFolderError(
                f"{run.path} holds a {level}-level model. Load it with {right}.load."
            )
        estimator = cls._from_values(values, encoder, run.path)
        settings = estimator._resolved()
        spec = FeatureSpec.from_dict(run.read_json("features.json"))
        model = build_model(settings, in_dim=spec.width, generator=seeded(0, 0))
        try:
            model.load_state_dict(weights)
        except RuntimeError as error:
            detail = " ".join(str(error).split()[:40])
            raise RunFolderError(
                f"The weights in {run.path} do not fit its config.toml: {detail}"
            ) from error
        estimator.model_ = model.to(
            device=pick_device(device or settings.device), dtype=torch.float32
        ).eval()
        estimator.features_, estimator.n_features_in_ = spec, spec.width
        estimator.settings_ = settings
        try:
            estimator.history_ = run.read_history()
        except RunFolderError as error:  # embedding does not need it
            warnings.warn(str(error), GraphLatentWarning, stacklevel=2)
            estimator.history_ = History()
        estimator.embedding_dim_, estimator.peak_memory_ = estimator._width(settings), None
        return estimator

    @classmethod
    def _from_values(
        cls: type[Self], values: Mapping[str, Any], encoder: nn.Module | None, path: Path
    ) -> Self:
        custom = str(values.get("encoder", "")).startswith("custom:")
        if custom and encoder is None:
            name = str(values["encoder"]).partition(":")[2]
            raise ConfigError(
                f"{path} was trained with your own encoder {name}. Load it with"
                f" encoder={name}(...)."
            )
        if encoder is not None and not custom:
            raise ConfigError(
                f"{path} was trained with encoder='{values.get('encoder')}'; leave out the"
                " 'encoder' argument."
            )
        given = {**values, "encoder": encoder} if custom else values
        return from_mapping(cls, given, where=str(path / "config.toml"))

    # -- scikit-learn's conventions

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Every setting by name."""
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}

    def set_params(self: Self, **params: Any) -> Self:
        """Change settings by name; unknown names are errors."""
        from_mapping(type(self), params, where=f"{type(self).__name__}.set_params")
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def get_feature_names_out(self, input_features: object = None) -> np.ndarray[Any, Any]:
        """Names of the embedding's columns."""
        self._check_fitted()
        return np.array([f"e{i}" for i in range(self.embedding_dim_)], dtype=object)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags, TransformerTags

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=False),
            transformer_tags=TransformerTags(),
            input_tags=InputTags(two_d_array=False),
        )

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:  # the argument scikit-learn's own repr takes
        defaults = {f.name: f.default for f in dataclasses.fields(self)}
        changed = [
            f"{k}={v!r}"
            for k, v in self.get_params().items()
            if v is not defaults[k] and v != defaults[k]
        ]
        text = f"{type(self).__name__}({', '.join(changed)})"
        return text if len(text) <= N_CHAR_MAX else text[: N_CHAR_MAX - 3] + "..."

    # -- inside

    @abstractmethod
    def _resolved(self) -> Settings:
        """The checked settings of this estimator."""

    @abstractmethod
    def _embed(self, batch: Batch, settings: Settings) -> torch.Tensor:
        """The embeddings of a batch, [M, D]."""

    @abstractmethod
    def _named(self, values: Array, graph: GraphData) -> Embeddings:
        """The embeddings with the names of the embedded things."""

    def _width(self, settings: Settings) -> int:
        """The embedding's width, seen on a graph of one node."""
        edges, ptr = torch.zeros(2, 0, dtype=torch.int64), torch.tensor([0, 1])
        single = self._batch(
            GraphData(edges, 1, ptr, x=torch.zeros(1, self.features_.width, dtype=torch.float32))
        )
        return int(self._embed(single, settings).shape[1])

    def _batch(self, graph: GraphData) -> Batch:
        """Graphs with encoded features as one batch, on the model's device."""
        return full_batch(
            graph, prepare=self.model_.prepare, device=next(self.model_.parameters()).device
        )

    def _check_fitted(self) -> None:
        if not hasattr(self, "model_"):
            raise not_fitted(type(self).__name__)

    def _read(self, X: Any, settings: Settings) -> GraphData:
        graph = read_graphs(X, symmetrize=settings.symmetrize)
        if not settings.symmetrize and graph.symmetrized:
            raise ConfigError(
                f"symmetrize=False of {type(self).__name__} came too late: this graph was already"
                " read in both directions. Read it with read_graphs(..., symmetrize=False)."
            )
        return graph

    def _prepare(self, X: Any, settings: Settings) -> tuple[GraphData, FeatureSpec]:
        graph = self._read(X, settings)
        spec = fit_features(graph, degree_cap=settings.degree_cap, standardize=settings.standardize)
        encoded = encode_features(spec, graph)
        if encoded.x is not None:
            check_features(encoded.x, settings)
        return encoded, spec

    def _begin_or_resume(
        self,
        run: RunFolder,
        training: Training,
        settings: Settings,
        spec: FeatureSpec,
        graph: GraphData,
        device: torch.device,
    ) -> None:
        fingerprint = graph.fingerprint()
        if run.started and not run.replace:
            run.check_same(self.level, settings, fingerprint=fingerprint)
            snapshot = run.load_snapshot()
            try:
                if snapshot is not None:
                    training.restore(snapshot)
            except (RuntimeError, KeyError, ValueError) as error:
                raise RunFolderError(
                    f"The checkpoint in {run.path} does not fit its settings. Start again with"
                    " --overwrite."
                ) from error
            return
        run.begin(
            self.level,
            settings,
            features=spec.to_dict(),
            about=versions(settings, device=device, fingerprint=fingerprint),
        )


@dataclass(kw_only=True, repr=False, eq=False)
class NodeLaGraph(NodeSettings, LaGraphEstimator):
    """Embeddings of nodes by latent graph prediction (`LaGraph
    <https://arxiv.org/abs/2202.08333>`_, Algorithm 1).

    >>> embeddings = NodeLaGraph(epochs=100).fit_transform((edge_index, x))     # doctest: +SKIP

    Arguments are the settings of `graphlatent.config.NodeSettings`; `graphlatent settings --level
    node` lists them.
    """

    level: ClassVar[str] = "node"

    def _resolved(self) -> NodeSettings:
        return resolve(NodeSettings(**self.get_params()), owner=type(self).__name__)

    def _embed(self, batch: Batch, settings: Settings) -> torch.Tensor:
        assert isinstance(settings, NodeSettings)
        return embed_nodes(self.model_, batch, concat_input=settings.concat_input)

    def _named(self, values: Array, graph: GraphData) -> Embeddings:
        ids = np.arange(graph.num_nodes) if graph.node_ids is None else graph.node_ids
        return Embeddings(
            values,
            ids,
            graphs=(
                _graph_names(graph)[graph.graph_of_node.numpy()] if graph.num_graphs > 1 else None
            ),
        )


@dataclass(kw_only=True, repr=False, eq=False)
class GraphLaGraph(GraphSettings, LaGraphEstimator):
    """Embeddings of whole graphs by latent graph prediction (`LaGraph
    <https://arxiv.org/abs/2202.08333>`_, Algorithm 2).

    >>> embeddings = GraphLaGraph().fit_transform(list_of_graphs)               # doctest: +SKIP

    Arguments are the settings of `graphlatent.config.GraphSettings`; `graphlatent settings --level
    graph` lists them.
    """

    level: ClassVar[str] = "graph"

    def _resolved(self) -> GraphSettings:
        return resolve(GraphSettings(**self.get_params()), owner=type(self).__name__)

    def _embed(self, batch: Batch, settings: Settings) -> torch.Tensor:
        return embed_graphs(self.model_, batch)

    def _named(self, values: Array, graph: GraphData) -> Embeddings:
        return Embeddings(values, _graph_names(graph), id_name="graph")


def _graph_names(graph: GraphData) -> np.ndarray[Any, Any]:
    return np.arange(graph.num_graphs) if graph.graph_ids is None else graph.graph_ids


def pick_device(device: str) -> torch.device:
    """The torch device of a setting: 'auto' is a GPU where there is one."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        picked = torch.device(device)
    except RuntimeError as error:
        raise ConfigError(
            f"device='{device}' is not a torch device. Use 'auto', 'cpu', 'cuda' or 'cuda:N'."
        ) from error
    if picked.type not in ("cpu", "cuda"):
        raise ConfigError(
            f"device='{device}' is not supported. Use 'auto', 'cpu', 'cuda' or 'cuda:N'."
        )
    if picked.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError(
            f"device='{device}' asks for a GPU, and torch finds none here. Use device='cpu' or"
            " 'auto'."
        )
    return picked
