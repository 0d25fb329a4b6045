"""A training that is fed from a file system: which part of a step waits, and what binds."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch

from pytest_anubis.benchmarking.placement import synchronize
from suites.storage.samples import Samples
from suites.training.step import TrainingStep
from suites.workload.catalogue import BY_NAME, Sizes
from suites.workload.running import fitting_batch, training_step


@dataclass(frozen=True, slots=True)
class Fed:
    """One way through all samples.

    Attributes:
        loaded: Seconds with loading.
        synthetic: Seconds of as many steps on a batch that is on the device already.
    """

    loaded: float
    synthetic: float

    @property
    def stretch(self) -> float:
        """How many times as long the training takes with loading: 1 hides it completely."""
        return self.loaded / self.synthetic

    @property
    def stall_share(self) -> float:
        """Share of the time in which the training waits for its samples; 0 if loading is hidden."""
        return max(0.0, 1 - self.synthetic / self.loaded)


class FedTraining:
    """CosmoFlow's training step, on batches that are loaded.

    Args:
        samples: Staged; of as many channels as the network takes.
        batch: Samples of a step, halved until an accelerator has room for them.
        device: Where it is trained.
        width: Channels after the network's first convolution, which says how much is computed.

    Attributes:
        step: The training step.

    Raises:
        NoRoomError: The device has no room for the network.
    """

    def __init__(self, samples: Samples, batch: int, device: torch.device, *, width: int) -> None:
        row = BY_NAME["cosmoflow"]
        workload = replace(row, shape={**row.shape, "width": width})
        sizes = fitting_batch(workload, Sizes(batch=batch, length=samples.shape[-1]), device)
        dtype = "float32" if device.type == "cpu" else "bfloat16"
        self._samples, self._batch, self._device = samples, sizes.batch, device
        self.step: TrainingStep = training_step(workload, sizes, device, dtype)

    def run(self) -> Fed:
        """Train on all samples as they are loaded, and as often on one batch without loading."""
        steps = self._samples.count // self._batch
        return Fed(self._seconds(self._batches()), self._seconds(iter([None] * steps)))

    def ceilings(self, seconds: float) -> dict[str, float]:
        """Return the samples a second that each part could do if the others took no time.

        Args:
            seconds: How long each one is measured.
        """
        steps = self._samples.count // self._batch
        whole = steps * self._batch
        return {
            "reading": self._samples.rate("reading", seconds),
            "decompressing": self._samples.rate("decompressing", seconds),
            "copying": whole / self._feeding(next(self._batches()), steps),
            "computing": whole / self._seconds(iter([None] * steps)),
        }

    def _batches(self) -> Iterator[torch.Tensor]:
        some: list[np.ndarray] = []
        for sample in self._samples.loaded():
            some.append(sample)
            if len(some) == self._batch:
                yield torch.from_numpy(np.stack(some))
                some = []

    def _seconds(self, batches: Iterator[torch.Tensor | None]) -> float:
        synchronize(self._device)
        begin = time.perf_counter()
        for batch in batches:
            if batch is not None:
                self.step.feed(batch)
            self.step.run()
        synchronize(self._device)
        return time.perf_counter() - begin

    def _feeding(self, batch: torch.Tensor, times: int) -> float:
        synchronize(self._device)
        begin = time.perf_counter()
        for _ in range(times):
            self.step.feed(batch)
        synchronize(self._device)
        return time.perf_counter() - begin


def binding(ceilings: dict[str, float]) -> str:
    """Return which part limits a training, with what each one could do alone: an extended roofline.

    Args:
        ceilings: Samples a second by part.
    """
    least = min(ceilings, key=ceilings.__getitem__)
    parts = ", ".join(f"{part} {rate:.3g}" for part, rate in ceilings.items())
    return f"{least} binds; samples/s alone: {parts}"
