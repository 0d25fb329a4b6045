"""The first steps of a training, bit for bit: what a device computes twice, and what its siblings compute."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from pytest_anubis.benchmarking.verification import fingerprint
from suites.training.step import TrainingStep

STEPS = 3
"""An error of the first step's gradient shows in the weights after it, and in the losses of the others."""

KEPT_BITS = 48
"""Bits of a fingerprint that are recorded: a double holds 53, and 48 miss one of 3e14 errors."""

_ODD = 0x9E3779B97F4A7C15
_WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"


class NotDeterministicError(RuntimeError):
    """Torch says that an operation may give other bits each time."""


@dataclass(frozen=True, slots=True)
class Trajectory:
    """What a training did.

    Attributes:
        losses: Of each step, before its update.
        weights: Fingerprint of all weights and running means after the last step.
    """

    losses: tuple[float, ...]
    weights: int

    @property
    def bits(self) -> int:
        """One number for losses and weights, of `KEPT_BITS` bits."""
        losses = torch.tensor(self.losses, dtype=torch.float64)
        return (fingerprint(losses) * _ODD + self.weights) % (1 << 64) >> (64 - KEPT_BITS)


def follow(step: TrainingStep) -> Trajectory:
    """Make the first steps, each with the operations that give the same bits every time.

    Args:
        step: Fresh: no step has been made.

    Raises:
        NotDeterministicError: Torch has no such operation for a part of the step.
    """
    losses = []
    with deterministic():
        for _ in range(STEPS):
            step.run()
            losses.append(step.losses()[1])
    return Trajectory(tuple(losses), fingerprint_of(step.model.state_dict().values()))


def follow_exactly(step: TrainingStep) -> tuple[float, ...]:
    """Return the losses of the first steps in double precision; `step` has not begun and stays as it is."""
    twin = step.in_double()
    losses = []
    for _ in range(STEPS):
        twin.run()
        losses.append(twin.losses()[1])
    return tuple(losses)


def loss_error(losses: tuple[float, ...], exact: tuple[float, ...]) -> float:
    """Return the largest error of a loss relative to the exact one; not a number where one is none."""
    errors = [abs(one - other) / abs(other) for one, other in zip(losses, exact, strict=True)]
    return math.nan if any(math.isnan(error) for error in errors) else max(errors)


def fingerprint_of(tensors: Iterable[torch.Tensor]) -> int:
    """Return 64 bits that change with every bit of several tensors."""
    total = 0
    for tensor in tensors:
        total = (total * _ODD + fingerprint(tensor.detach().contiguous())) % (1 << 64)
    return total


@contextmanager
def deterministic() -> Iterator[None]:
    """Use operations that give the same bits every time, and only these.

    What torch says of cuBLAS without a workspace of a fixed size is no objection: its results vary where
    several streams are in use, and here there is one.

    Raises:
        NotDeterministicError: Torch said that an operation in the block is none of these.
    """
    before = (
        torch.are_deterministic_algorithms_enabled(),
        (torch.is_deterministic_algorithms_warn_only_enabled()),
    )
    tuned = torch.backends.cudnn.benchmark
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        torch.use_deterministic_algorithms(True, warn_only=True)
        torch.backends.cudnn.benchmark = (
            False  # the quickest of several may be another one each time
        )
        try:
            # Of the fused kinds of attention this one can go its way back in a fixed order.
            with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]):
                yield
        finally:
            torch.use_deterministic_algorithms(before[0], warn_only=before[1])
            torch.backends.cudnn.benchmark = tuned
    texts = [str(one.message) for one in said]
    doubts = [text for text in texts if "determinis" in text and _WORKSPACE not in text]
    if doubts:
        raise NotDeterministicError(doubts[0].partition(". ")[0].partition("\n")[0])
