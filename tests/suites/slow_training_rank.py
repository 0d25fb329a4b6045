"""A training of small networks whose third rank makes its own steps four times, the others once."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

import torch

from pytest_anubis.benchmarking.children import Handler, handlers_of
from pytest_anubis.benchmarking.ranks import serve
from suites.training.step import TrainingStep
from suites.workload.catalogue import BY_NAME
from suites.workload.data_parallel_rank import TrainingRank
from tests.suites.faulty_training_rank import small_ones

SLOW = 2
"""Number of the rank."""


def make(
    number: int, world: int, device: torch.device, _own: Sequence[str]
) -> Mapping[str, Handler]:
    """Return the handlers of a rank; the slow one makes every step without exchange four times."""
    BY_NAME.update(small_ones())
    plain = TrainingStep.run_for_nothing

    def again(step: TrainingStep) -> None:
        for _ in range(4):
            plain(step)

    if number == SLOW:
        TrainingStep.run_for_nothing = again  # type: ignore[assignment,method-assign]
    return handlers_of(TrainingRank(number, world, device))


if __name__ == "__main__":
    serve(sys.argv[1:], make)
