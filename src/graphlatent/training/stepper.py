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
from torch import Tensor, nn

from graphlatent.config import Settings
from graphlatent.data.batches import Batch, BatchSource
from graphlatent.methods.base import Method, combine
from graphlatent.ops.kernels import usable

_WARM_UP = 2  # steps that run one by one before one is captured


class Stepper:
    """Runs training steps of one model.

    Args:
        method: computes the terms of the loss.
        model: what is trained.
        optimizer: made by `make_optimizer`.
        generator: the method's source of randomness.
        capture: replay captured steps where that is possible.
    """

    def __init__(
        self,
        method: Method[Any],
        model: nn.Module,
        *,
        optimizer: torch.optim.Optimizer,
        generator: torch.Generator,
        capture: bool = True,
    ) -> None:
        self.method, self.model, self.optimizer = method, model, optimizer
        self.generator, self.capture = generator, capture
        self.parameter = next(model.parameters())
        self.captured: dict[int, _Captured] = {}
        self.stream: torch.cuda.Stream | None = None
        self.forget()

    def forget(self) -> None:
        """Drop what was captured, and its memory: it will not be replayed any more."""
        if self.captured:
            torch.cuda.synchronize(self.parameter.device)
        self.captured = {}
        self.warm_ups: Counter[int] = Counter()
        # Captured steps run one after the other, so they share their memory.
        self.pool: Any = None
        if self.parameter.is_cuda:
            torch.cuda.empty_cache()

    def __call__(self, batches: BatchSource, index: Tensor) -> Tensor:
        """Take the step `index` of a plan.

        Returns:
            The loss and each term before weighting, detached, [1 + terms].
        """
        capture = self.capture and usable(self.parameter) and self.method.can_capture(self.model)
        key = batches.shape_key(index) if capture else None
        if key is None:
            return self._step(batches.take(index))
        index = index.to(self.parameter.device, non_blocking=True)
        if key not in self.captured:
            if self.warm_ups[key] < _WARM_UP:
                self.warm_ups[key] += 1
                return self._warm_up(batches, index, key)
            self.captured[key] = self._captured_step(batches, index, key)
        return self.captured[key](index)

    def _step(self, batch: Batch) -> Tensor:
        """Compute the loss, step against its gradient, and let the method act after it."""
        loss = combine(self.method.step(self.model, batch, generator=self.generator))
        loss.total.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        # Now, so that nothing of this step occupies memory that the next one needs.
        self.optimizer.zero_grad(set_to_none=True)
        self.method.after_step(self.model)
        return torch.stack([loss.total, *loss.values.values()]).detach()

    def _warm_up(self, batches: BatchSource, index: Tensor, key: int) -> Tensor:
        """A step on a stream of its own, as capturing asks for before it begins."""
        if self.stream is None:
            # One for all steps: each stream comes with work space of its own.
            self.stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            values = self._step(batches.cut(index, key))
        torch.cuda.current_stream().wait_stream(self.stream)
        return values

    def _captured_step(self, batches: BatchSource, index: Tensor, key: int) -> _Captured:
        self.optimizer.zero_grad(set_to_none=True)
        # A captured step has memory of its own.
        torch.cuda.empty_cache()
        graph, place = torch.cuda.CUDAGraph(), index.clone()
        graph.register_generator_state(self.generator)
        with torch.cuda.graph(
            graph, pool=self.pool, stream=self.stream, capture_error_mode="thread_local"
        ):
            values = self._step(batches.cut(place, key))
        self.pool = graph.pool()
        return _Captured(graph, place, values)


@dataclass(frozen=True, eq=False)
class _Captured:
    """A captured step: the place of its input indices and of its loss and terms."""

    graph: torch.cuda.CUDAGraph
    place: Tensor
    values: Tensor

    def __call__(self, index: Tensor) -> Tensor:
        self.place.copy_(index)
        self.graph.replay()
        return self.values.clone()


def make_optimizer(model: nn.Module, settings: Settings) -> torch.optim.Optimizer:
    """Adam or AdamW over the parameters that have gradients, all in one kernel.

    On a GPU its step count and learning rate live there, so that a step can be captured.
    """
    parameters = [p for p in model.parameters() if p.requires_grad]
    on_gpu = usable(parameters[0])
    lr: float | Tensor = settings.lr
    if on_gpu:
        lr = torch.tensor(settings.lr, dtype=torch.float32, device=parameters[0].device)
    plain = all(
        p.dtype in (torch.float32, torch.float64) and p.device.type in ("cpu", "cuda")
        for p in parameters
    )
    kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[settings.optimizer]
    decay = settings.weight_decay
    optimizer: torch.optim.Optimizer = kind(
        parameters, lr=lr, weight_decay=decay, fused=plain, capturable=on_gpu
    )
    return optimizer


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
