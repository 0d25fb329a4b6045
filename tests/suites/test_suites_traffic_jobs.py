"""Two trainings in turns learn what they learn alone, take what overlap leaves, and show a slow link."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from suites.traffic import test_two_jobs
from suites.traffic.group import JobTimes, TrafficGroup
from suites.traffic.seat import Seat
from suites.traffic.two_jobs import Job, alone, in_turns
from tests.suites.test_suites_on_a_card import Node, Taken
from tests.suites.traffic_groups import behind_link, faulty, of_ranks

pytestmark = pytest.mark.usefixtures("quick_processes")
RATE = 40e6
"""Bytes a second of a link that needs as long for a gradient as a CPU for a few products."""

SMALL: dict[str, Any] = {"size": 32, "batches": 1, "dtype": "float32"}


@pytest.fixture(scope="module")
def two() -> Iterator[TrafficGroup]:
    with of_ranks(2) as group:
        yield group


def test_jobs_learn_the_same_in_turns_as_alone(two: TrafficGroup) -> None:
    two.prepare_jobs(**SMALL)
    test_two_jobs.same_as_alone(two)
    (one, other) = two.check_jobs(2)
    assert one["alone"] == other["alone"]
    assert one["alone"][0] != one["alone"][1]  # two problems
    assert one["alone"] != two.check_jobs(3)[0]["alone"]  # each step counts


class Clock:
    """Stands for collectives and products: each takes its time, an exchange behind the others' exchanges."""

    def __init__(self, compute: float, exchange: float) -> None:
        self.compute, self.exchange = compute, exchange
        self.now = self.link = 0.0
        self.computed = self.exchanged = 0

    def all_reduce(self, _: torch.Tensor, *, async_op: bool) -> Any:
        """Begin an exchange, which is over when those before it and itself are."""
        assert async_op
        clock, self.exchanged = self, self.exchanged + 1
        self.link = over = max(self.link, self.now) + self.exchange

        class Work:
            def wait(self) -> None:
                """Let time pass until it is over."""
                clock.now = max(clock.now, over)

        return Work()


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Make two jobs on a clock of their own."""

    def make(compute: float, exchange: float) -> tuple[Clock, list[Job]]:
        clock = Clock(compute, exchange)
        monkeypatch.setattr(torch.distributed, "all_reduce", clock.all_reduce)
        real = Job.compute

        def timed(job: Job) -> None:
            real(job)
            clock.now += clock.compute
            clock.computed += 1

        seat = Seat(0, 1, torch.device("cpu"))
        jobs = [Job(number, seat, 4, 1, "float32") for number in range(2)]
        for job in jobs:
            monkeypatch.setattr(job, "compute", lambda job=job: timed(job))
        return clock, jobs

    return make


@pytest.mark.parametrize("exchange", [0.25, 0.5, 1.0, 2.0])
def test_round_of_both_takes_what_the_longest_chain_takes(made: Any, exchange: float) -> None:
    clock, jobs = made(1.0, exchange)
    in_turns(jobs, 100)
    turns = clock.now / 100
    assert turns == pytest.approx(max(2.0, 1 + exchange, 2 * exchange), rel=0.02)
    clock, jobs = made(1.0, exchange)
    for job in jobs:
        alone(job, 100)
    assert clock.now / 100 == pytest.approx(2 * (1 + exchange))


def test_twice_the_steps_are_twice_the_work(made: Any) -> None:
    counts = []
    for steps in (3, 6):
        clock, jobs = made(1.0, 1.0)
        in_turns(jobs, steps)
        counts.append((clock.computed, clock.exchanged))
    assert counts == [(6, 6), (12, 12)]
    assert JobTimes(apart=3.0, in_turns=2.0).gain == 1.5


@pytest.mark.alone
def test_a_slow_link_shows() -> None:
    # `benchmarks/suites/traffic.py` prints how close turns are to their longest chain.
    with behind_link(RATE) as (group, shape):
        group.prepare_jobs(size=512, batches=1, dtype="float32")
        quick = min(group.jobs_in_turns(2) for _ in range(3))
        shape(RATE / 8)
        assert group.jobs_in_turns(2) > 2 * quick
        shape(RATE)
        test_two_jobs.same_as_alone(group)


def test_benchmark_runs_and_a_flipped_bit_fails_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(test_two_jobs, "ON_A_HOST", SMALL)
    with faulty(tmp_path, monkeypatch) as (group, fault):
        taken, said = Taken(), dict[str, object]()
        test_two_jobs.test_two_jobs(taken, Node(), group, said.__setitem__)
        assert list(taken.asked) == ["turns_rate"]
        assert "exchange" in str(said["step"])
        fault.write_text("flip")
        with pytest.raises(AssertionError, match="rank 1: other weights than rank 0"):
            test_two_jobs.test_two_jobs(Taken(), Node(), group, said.__setitem__)
