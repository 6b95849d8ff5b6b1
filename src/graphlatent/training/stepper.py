"""How steps are run: one by one, or, on a GPU and where every step has the same shapes, as one
captured CUDA graph.

A step of a small graph is some two hundred kernels of a few microseconds each, and starting them
takes longer than running them. A captured step is started as a whole. The first steps run one by
one, which also compiles the kernels; then one is captured and replayed. Masks come from the same
generator in the same order, so a captured run draws what an uncaptured one would.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from graphlatent.config import Settings
from graphlatent.data.batches import Batch, BatchSource
from graphlatent.methods.lagraph.engine import Engine
from graphlatent.methods.lagraph.model import LaGraphModel
from graphlatent.ops.kernels import usable
from graphlatent.training.step import training_step

_WARM_UP = 2  # steps that run one by one before one is captured


class Stepper:
    """Runs training steps of one model.

    Args:
        model: what is trained.
        settings: of the objective.
        optimizer: made by `make_optimizer`.
        generator: draws the masks.
        capture: replay captured steps where that is possible.
    """

    def __init__(
        self,
        model: LaGraphModel,
        settings: Settings,
        *,
        optimizer: torch.optim.Optimizer,
        generator: torch.Generator,
        capture: bool = True,
    ) -> None:
        self.model, self.settings, self.optimizer, self.generator, self.capture = (
            model,
            settings,
            optimizer,
            generator,
            capture,
        )
        self.parameter = next(model.parameters())
        self.captured: dict[tuple[int, Engine], _Captured] = {}
        self.stream: torch.cuda.Stream | None = None
        self.forget()

    def forget(self) -> None:
        """Drop what was captured, and its memory: it will not be replayed any more."""
        if self.captured:
            torch.cuda.synchronize(self.parameter.device)
        self.captured = {}
        self.seen: Counter[tuple[int, Engine]] = Counter()
        self.pool: Any = None  # captured steps run one after the other, so they share their memory
        if self.parameter.is_cuda:
            torch.cuda.empty_cache()

    def __call__(self, batches: BatchSource, index: Tensor, engine: Engine) -> Tensor:
        """The step `index` of a plan: (loss, reconstruction, invariance, ratio), [4], as
        `training_step` returns it.
        """
        kind = (
            batches.kind(index)
            if self.capture and engine.share and engine.how != "output" and usable(self.parameter)
            else None
        )
        if kind is None:
            return self._step(batches.take(index), engine)
        index, key = index.to(self.parameter.device, non_blocking=True), (kind, engine)
        if key not in self.captured:
            if self.seen[key] < _WARM_UP:
                self.seen[key] += 1
                return self._beside(batches, index, kind, engine)
            self.captured[key] = self._captured_step(batches, index, kind, engine)
        return self.captured[key](index)

    def _step(self, batch: Batch, engine: Engine) -> Tensor:
        return training_step(
            self.model,
            batch,
            self.settings,
            engine=engine,
            optimizer=self.optimizer,
            generator=self.generator,
        )

    def _beside(self, batches: BatchSource, index: Tensor, kind: int, engine: Engine) -> Tensor:
        """A step on a stream of its own, as capturing asks for before it begins."""
        if self.stream is None:  # one for all: each comes with work space of its own
            self.stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            terms = self._step(batches.cut(index, kind), engine)
        torch.cuda.current_stream().wait_stream(self.stream)
        return terms

    def _captured_step(
        self, batches: BatchSource, index: Tensor, kind: int, engine: Engine
    ) -> _Captured:
        self.optimizer.zero_grad(set_to_none=True)
        torch.cuda.empty_cache()  # a captured step has memory of its own
        graph, place = torch.cuda.CUDAGraph(), index.clone()
        graph.register_generator_state(self.generator)
        with torch.cuda.graph(
            graph, pool=self.pool, stream=self.stream, capture_error_mode="thread_local"
        ):
            terms = self._step(batches.cut(place, kind), engine)
        self.pool = graph.pool()
        return _Captured(graph, place, terms)


@dataclass(frozen=True, eq=False)
class _Captured:
    """A captured step, where it reads which graphs to take, and where it leaves its terms."""

    graph: torch.cuda.CUDAGraph
    place: Tensor
    terms: Tensor

    def __call__(self, index: Tensor) -> Tensor:
        self.place.copy_(index)
        self.graph.replay()
        return self.terms.clone()


def make_optimizer(model: LaGraphModel, settings: Settings) -> torch.optim.Adam:
    """Adam, all parameters in one kernel; on a GPU its step count and learning rate live there, so
    that a step can be captured.
    """
    parameters = list(model.parameters())
    on_gpu = usable(parameters[0])
    lr: float | Tensor = (
        torch.tensor(settings.lr, dtype=torch.float32, device=parameters[0].device)
        if on_gpu
        else settings.lr
    )
    plain = all(
        p.dtype in (torch.float32, torch.float64) and p.device.type in ("cpu", "cuda")
        for p in parameters
    )
    return torch.optim.Adam(
        parameters, lr=lr, weight_decay=settings.weight_decay, fused=plain, capturable=on_gpu
    )


def set_learning_rate(optimizer: torch.optim.Optimizer, lr: float) -> None:
    """Change the learning rate in place."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(lr)
        else:
            group["lr"] = lr


@contextmanager
def matmul_precision(precision: str, device: torch.device) -> Iterator[None]:
    """Let float32 products on a GPU use TF32 where the setting allows it, while this lasts."""
    if device.type != "cuda":
        yield
        return
    backend: Any = torch.backends.cuda.matmul
    # Torch refuses to have its older and its newer switch mixed
    newer = hasattr(backend, "fp32_precision")
    name, values = ("fp32_precision", ("ieee", "tf32")) if newer else ("allow_tf32", (False, True))
    before = getattr(backend, name)
    setattr(backend, name, values[precision != "fp32"])
    try:
        yield
    finally:
        setattr(backend, name, before)
