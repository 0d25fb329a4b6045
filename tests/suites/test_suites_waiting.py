"""A rank that all others wait for is named, equal ones and uneven stages are not."""

from __future__ import annotations

import json
import random
import statistics
from itertools import pairwise
from pathlib import Path

import pytest

from suites.workload.data_parallel import TrainingGroup
from suites.workload.waiting import waited_for, waiting_share, waiting_stretch, won_back

STAGES = Path(__file__).parent / "data" / "uneven_stages.json"


def rounds_of(
    ranks: int, *, count: int = 20, spread: float = 0.02, **slow: float
) -> list[list[float]]:
    """Return times of equal ranks but for some, such as ``r2=1.3``, from a seed."""
    draw = random.Random(f"{ranks} {count} {slow}")
    factors = [slow.get(f"r{rank}", 1.0) for rank in range(ranks)]
    return [[factor * draw.lognormvariate(0, spread) for factor in factors] for _ in range(count)]


def names(rounds: list[list[float]]) -> list[int]:
    return [one.rank for one in waited_for(rounds)]


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_slow_rank_is_named_with_its_size(ranks: int) -> None:
    [found] = waited_for(rounds_of(ranks, r1=1.3))
    assert (found.rank, found.slowest, found.rounds) == (1, 20, 20)
    assert found.excess == pytest.approx(0.3, abs=0.03)


def test_two_slow_ranks_do_not_hide_each_other() -> None:
    assert names(rounds_of(8, r1=1.3, r6=1.3)) == [1, 6]


def test_equal_ranks_and_a_rank_slow_now_and_then_are_not_named() -> None:
    assert all(names(rounds_of(4, count=20 + more)) == [] for more in range(200))
    now_and_then = [
        row if number % 4 else [row[0] * 1.5, *row[1:]] for number, row in enumerate(rounds_of(4))
    ]
    assert names(now_and_then) == []


def test_few_rounds_are_no_proof() -> None:
    for ranks, few, enough in ((2, 7, 8), (4, 3, 5), (8, 3, 4)):
        assert names(rounds_of(ranks, count=few, r1=1.3)) == []
        assert names(rounds_of(ranks, count=enough, r1=1.3)) == [1]


def test_stages_of_a_real_job_compared_with_their_like_name_no_rank() -> None:
    rows = json.loads(STAGES.read_text())["seconds"]
    for stage in range(4):
        assert names([row[2 * stage : 2 * stage + 2] for row in rows]) == []
    assert 7 in names(rows)  # the last stage does more work: ranks of different work are no peers


def test_waiting_share_is_what_the_mean_rank_waits() -> None:
    assert waiting_share([1.0, 1.0]) == 0
    assert waiting_share([1.0, 2.0]) == 0.25
    assert waiting_share([3.0, 6.0]) == 0.25
    assert waiting_stretch([1.0, 3.0]) == 1.5


def test_groups_win_back_what_the_others_lose_to_one() -> None:
    rounds = [[1.0, 1.0, 1.0, 2.0]] * 5
    assert won_back(rounds, 1) == 0
    assert won_back(rounds, 2) == pytest.approx(0.5)  # one group of two runs at twice the pace
    assert won_back(rounds, 4) == pytest.approx(0.75)
    uneven = rounds_of(4, spread=0.2)
    assert 0 < won_back(uneven, 2) < won_back(uneven, 4)
    with pytest.raises(ValueError, match="3 ranks are not 2 groups"):
        won_back([[1.0] * 3], 2)


@pytest.mark.alone
@pytest.mark.usefixtures("quick_processes")
def test_rank_that_is_slowed_is_named_by_its_own_times() -> None:
    with TrainingGroup(0, 2, on_cpu=4, module="tests.suites.slow_training_rank") as ranks:
        ranks.join()
        ranks.prepare("llama-small", "float32", ranks.fitting("llama-small"))
        rounds = [ranks.step(2).each for _ in range(12)]
    assert names([list(row) for row in rounds]) == [2]
    assert statistics.median(map(waiting_share, rounds)) > 0.2
    gains = [won_back(rounds, groups) for groups in (1, 2, 4)]
    assert all(a < b for a, b in pairwise(gains))
