"""Execution of training steps, on a GPU as a captured CUDA graph where shapes allow it.

A step on a small graph launches about two hundred kernels of a few microseconds each, and launching
them takes longer than running them. A captured step is one launch. The first steps run without
capturing, which also compiles the kernels; then a step is captured and replayed. Random numbers
come from the same generator in the same order with and without capturing.
"""

from __future__ import annotations

import math
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
from graphlatent.nn.norm import statistics_of
from graphlatent.ops.collective import average_gradients, current
from graphlatent.ops.kernels import usable

# Number of steps that run before one is captured.
_WARM_UP_STEPS = 2


class Stepper:
    """Runs training steps of one model.

    Args:
        method: computes the terms of the loss.
        model: the trained model.
        optimizer: made by `make_optimizer`.
        generator: the method's source of randomness.
        capture: capture and replay steps where possible.
        gradient_norm: also compute the norm of the gradient of all weights.
    """

    def __init__(
        self,
        method: Method[Any],
        model: nn.Module,
        *,
        optimizer: torch.optim.Optimizer,
        generator: torch.Generator,
        capture: bool = True,
        gradient_norm: bool = False,
    ) -> None:
        self.gradient_norm = gradient_norm
        self.method, self.model, self.optimizer = method, model, optimizer
        self.generator, self.capture = generator, capture
        self.parameter = next(model.parameters())
        # Whether this process, or in the last step any process, wants training to stop.
        self.stop = False
        self.captured: dict[int, _CapturedStep] = {}
        self.stream: torch.cuda.Stream | None = None
        self.reset()

    def reset(self) -> None:
        """Discard the captured steps and free their memory."""
        if self.captured:
            torch.cuda.synchronize(self.parameter.device)
        self.captured = {}
        self.warm_ups: Counter[int] = Counter()
        # Captured steps run one after another, so they can share memory.
        self.pool: Any = None
        if self.parameter.is_cuda:
            torch.cuda.empty_cache()

    def __call__(self, batches: BatchSource, index: Tensor) -> Tensor:
        """Run one step of a plan, on the nodes or graphs `index`.

        Returns:
            The loss, each term before weighting and, where asked for, the norm of the gradient,
            detached, [1 + terms] or [2 + terms].
        """
        capture = self.capture and usable(self.parameter) and self.method.can_capture(self.model)
        # Messages to other processes are no part of a captured step.
        capture = capture and current() is None
        key = batches.shape_key(index) if capture else None
        if key is None:
            return self._step(batches.take(index))
        index = index.to(self.parameter.device, non_blocking=True)
        if key not in self.captured:
            if self.warm_ups[key] < _WARM_UP_STEPS:
                self.warm_ups[key] += 1
                return self._warm_up(batches, index, key)
            self.captured[key] = self._capture_step(batches, index, key)
        return self.captured[key](index)

    def _step(self, batch: Batch) -> Tensor:
        """Compute the loss and its gradient, update the weights, and call `Method.after_step`."""
        with statistics_of(self.model, batch.counts):
            loss = combine(self.method.step(self.model, batch, generator=self.generator))
        loss.total.backward()  # type: ignore[no-untyped-call]
        self.stop = average_gradients(self.model.parameters(), self.stop)
        # Before the optimizer, which may change gradients; nothing waits for the number.
        norm = [_gradient_norm(self.model).to(loss.total)] if self.gradient_norm else []
        self.optimizer.step()
        # Now rather than later, to free memory for the next step.
        self.optimizer.zero_grad(set_to_none=True)
        self.method.after_step(self.model)
        return torch.stack([loss.total, *loss.values.values(), *norm]).detach()

    def _warm_up(self, batches: BatchSource, index: Tensor, key: int) -> Tensor:
        """A step on a side stream, as CUDA requires before capturing."""
        if self.stream is None:
            # One for all steps: each stream has its own workspace.
            self.stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            values = self._step(batches.cut(index, key))
        torch.cuda.current_stream().wait_stream(self.stream)
        return values

    def _capture_step(self, batches: BatchSource, index: Tensor, key: int) -> _CapturedStep:
        self.optimizer.zero_grad(set_to_none=True)
        # A captured step allocates from a separate memory pool.
        torch.cuda.empty_cache()
        graph, index = torch.cuda.CUDAGraph(), index.clone()
        graph.register_generator_state(self.generator)
        with torch.cuda.graph(
            graph, pool=self.pool, stream=self.stream, capture_error_mode="thread_local"
        ):
            values = self._step(batches.cut(index, key))
        self.pool = graph.pool()
        return _CapturedStep(graph, index, values)


@dataclass(frozen=True, eq=False)
class _CapturedStep:
    """A captured step and its fixed input and output: the indices, and the loss and terms."""

    graph: torch.cuda.CUDAGraph
    index: Tensor
    values: Tensor

    def __call__(self, index: Tensor) -> Tensor:
        self.index.copy_(index)
        self.graph.replay()
        return self.values.clone()


def _gradient_norm(model: nn.Module) -> Tensor:
    """The L2 norm of the gradient of all weights together, a float64 scalar.

    In float64, since squares of float32 overflow where the gradient itself is finite.
    """
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    norms = [torch.linalg.vector_norm(g, dtype=torch.float64) for g in gradients]
    norm: Tensor = torch.linalg.vector_norm(torch.stack(norms))
    return norm


def make_optimizer(model: nn.Module, settings: Settings) -> torch.optim.Optimizer:
    """Adam or AdamW over the parameters that require gradients, fused where possible.

    On a GPU the step count and learning rate are tensors on it, so that a step can be captured.
    """
    parameters = [p for p in model.parameters() if p.requires_grad]
    on_gpu = usable(parameters[0])
    lr: float | Tensor = settings.lr
    if on_gpu:
        lr = torch.tensor(settings.lr, dtype=torch.float32, device=parameters[0].device)
    dtypes, devices = (torch.float32, torch.float64), ("cpu", "cuda")
    fused = all(p.dtype in dtypes and p.device.type in devices for p in parameters)
    optimizers = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
    decay = settings.weight_decay
    optimizer: torch.optim.Optimizer = optimizers[settings.optimizer](
        parameters, lr=lr, weight_decay=decay, fused=fused, capturable=on_gpu
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
    """Within this context, float32 products on a GPU use TF32 where `precision` allows it."""
    if device.type != "cuda":
        yield
        return
    backend: Any = torch.backends.cuda.matmul
    # torch raises an error where its old and its new setting are mixed.
    newer = hasattr(backend, "fp32_precision")
    name = "fp32_precision" if newer else "allow_tf32"
    full, reduced = ("ieee", "tf32") if newer else (False, True)
    before = getattr(backend, name)
    setattr(backend, name, full if precision == "fp32" else reduced)
    try:
        yield
    finally:
        setattr(backend, name, before)


def learning_rate(settings: Settings, epoch: int) -> float:
    """The learning rate of an epoch, counted from 0.

    During warm-up it increases linearly from 0; with the cosine schedule it then decreases to 0
    after the last epoch.
    """
    warmup = round(settings.warmup_ratio * settings.epochs)
    if epoch < warmup:
        return settings.lr * epoch / warmup
    if settings.schedule == "none":
        return settings.lr
    share = (epoch - warmup) / max(settings.epochs - warmup, 1)
    return settings.lr * 0.5 * (1 + math.cos(math.pi * share))
