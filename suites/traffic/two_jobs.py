"""Two trainings that take turns at the same devices: one computes while the other's gradients are exchanged.

CrossoverScheduler (2021) passes a token between jobs; here the token is the order of the program: a job
computes, begins its exchange, and the other one computes. Each one's own steps keep their order, so that it
learns the same as alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
import torch.distributed as dist

from pytest_anubis.benchmarking.children import Message
from pytest_anubis.benchmarking.precision import single_precision
from pytest_anubis.benchmarking.ranks import timed
from pytest_anubis.benchmarking.verification import fingerprint
from suites.traffic.seat import Seat
from suites.workload.running import SEED

RATE = 0.1
"""Step towards the least error, where 0.5 of this scale would be the longest."""


class Job:
    """Least squares by gradient descent: each rank has its own examples, all the same weights.

    Args:
        number: Number of the job, which draws another problem than the others.
        seat: The rank.
        size: Rows and columns of weights and examples.
        batches: Passes over the examples in a step; two products each.
        dtype: Element type of the products.
    """

    def __init__(self, number: int, seat: Seat, size: int, batches: int, dtype: str) -> None:
        self._seat, self._batches = seat, batches
        self._kind = getattr(torch, dtype)
        random = torch.Generator(seat.device)

        def drawn(seed: int) -> torch.Tensor:
            random.manual_seed(SEED + seed)
            return torch.randn(size, size, generator=random, device=seat.device)

        self._examples = drawn(2 * (number * seat.world + seat.number)).to(self._kind)
        self._wanted = drawn(2 * (number * seat.world + seat.number) + 1).to(self._kind)
        self._rate = RATE / (size * seat.world * batches)
        self._gradient = torch.zeros(size, size, device=seat.device)
        self._work: dist.Work | None = None
        self.weights = torch.zeros(size, size, device=seat.device)

    def forget(self) -> None:
        """Make the gradient nothing, which stays nothing however often it is summed."""
        self._gradient.zero_()

    def compute(self) -> None:
        """Compute the gradient of this rank's examples, without waiting for anything."""
        self.forget()
        for _ in range(self._batches):
            error = self._examples @ self.weights.to(self._kind) - self._wanted
            self._gradient += self._examples.T @ error

    def begin(self) -> None:
        """Begin to sum the gradient over all ranks."""
        self._work = dist.all_reduce(self._gradient, async_op=True)

    def finish(self) -> None:
        """Wait for the sum, if one has begun, and learn from it."""
        if self._work is not None:
            self._work.wait()
            self._work = None
            self._seat.spoil(self._gradient)
            self.weights -= self._rate * self._gradient

    def loss(self) -> float:
        """Return the mean square error on this rank's examples."""
        error = self._examples.float() @ self.weights - self._wanted.float()
        return float(error.square().mean())


def alone(job: Job, steps: int) -> None:
    """Make so many steps of one job."""
    for _ in range(steps):
        job.compute()
        job.begin()
        job.finish()


def in_turns(jobs: Sequence[Job], steps: int) -> None:
    """Make so many steps of each job; while one computes, the exchanges of the others are under way."""
    for _ in range(steps):
        for job in jobs:
            job.finish()
            job.compute()
            job.begin()
    for job in jobs:
        job.finish()


class JobTraffic:
    """One rank's part of two trainings.

    Args:
        seat: The rank.
    """

    def __init__(self, seat: Seat) -> None:
        self._seat = seat
        self._jobs: list[Job] = []

    def prepare_jobs(self, request: Message) -> Message:
        """Make two jobs with matrices of a ``size`` and so many ``batches`` in a ``dtype``."""
        self._shape = request["size"], request["batches"], request["dtype"]
        self._jobs = self._fresh()
        return {}

    def time_jobs(self, request: Message) -> Message:
        """Answer the seconds of some ``forms`` of a step of both jobs, the mean of so many ``times``.

        They are ``apart``, one job after the other, ``in_turns``, ``computing`` without exchange, and
        ``exchange`` without computing.
        """
        steps, jobs = request["times"], self._jobs

        def apart() -> None:
            for job in jobs:
                alone(job, steps)

        def computing() -> None:
            for _ in range(steps):
                for job in jobs:
                    job.compute()

        def exchange() -> None:
            for job in jobs:
                job.forget()
            for _ in range(steps):
                for job in jobs:
                    job.begin()
                    job.finish()

        forms: dict[str, Callable[[], object]] = {
            "apart": apart,
            "in_turns": partial(in_turns, jobs, steps),
            "computing": computing,
            "exchange": exchange,
        }
        with single_precision():
            return {
                form: timed(forms[form], self._seat.device) / steps for form in request["forms"]
            }

    def check_jobs(self, request: Message) -> Message:
        """Make ``steps`` of fresh jobs in turns and alone; answer their weights' bits and losses."""
        together, apart = self._fresh(), self._fresh()
        first = [job.loss() for job in apart]
        with single_precision():
            in_turns(together, request["steps"])
            for job in apart:
                alone(job, request["steps"])
        return {
            "in_turns": [fingerprint(job.weights) for job in together],
            "alone": [fingerprint(job.weights) for job in apart],
            "first": first,
            "last": [job.loss() for job in together],
            "last_alone": [job.loss() for job in apart],
        }

    def rest(self, _request: Message) -> Message:
        """Give up both jobs."""
        self._jobs = []
        return {}

    def _fresh(self) -> list[Job]:
        """Make both jobs as they are before their first step."""
        return [Job(number, self._seat, *self._shape) for number in range(2)]
