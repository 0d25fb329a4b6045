"""One node's runs meet the holes of the pools' calendars: never two at once, no needless pause."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from pytest_anubis.selector.planning.placing.node_fitting import FittedJob, SecondPrices, fit
from pytest_anubis.selector.planning.placing.pool_calendar import PoolCalendar
from pytest_anubis.selector.planning.placing.schedule_records import Job

NEEDS = {"pair": {"partner": 1}, "power": {"rig": 1}}


def job(*runs: tuple[str, float]) -> Job:
    return Job(node="n", rank=1.0, runs=runs, needs=NEEDS)


def calendar(busy: list[tuple[str, float, float]], seconds: float = 1000.0) -> PoolCalendar:
    made = PoolCalendar({"partner": 1, "rig": 1}, seconds, {"partner": 10.0, "rig": 10.0})
    for pool, start, end in busy:
        made.take(pool, 0, start, end)
    return made


def starts(found: FittedJob | None) -> dict[str, float]:
    assert found is not None
    return {name: start for name, _, start, _ in found.runs}


def test_a_hole_between_busy_times_is_filled_later() -> None:
    known = calendar([("partner", 0, 100), ("partner", 150, 1000)])
    found = fit(job(("pair", 50.0), ("a", 30.0), ("b", 70.0)), 0.0, known, SecondPrices())
    assert starts(found)["pair"] == 100
    assert found is not None
    assert found.waited == 0
    assert fit(job(("pair", 51.0)), 0.0, known, SecondPrices()) is None


def test_a_taken_unit_leaves_the_rests_of_its_hole() -> None:
    known = calendar([("partner", 100, 200)])
    assert [(hole.begin, hole.end) for hole in known.holes["partner"]] == [(0, 100), (200, 1000)]
    with pytest.raises(ValueError, match="partner 0 is not free from 150 s to 160 s"):
        known.take("partner", 0, 150, 160)
    known.take("partner", 0, 5, 100)  # what is left is too short for any run
    assert [(hole.begin, hole.end) for hole in known.holes["partner"]] == [(200, 1000)]


@pytest.mark.parametrize("seed", range(20))
def test_no_order_pauses_for_less(seed: int) -> None:
    chance = np.random.default_rng(seed)
    lengths = chance.integers(10, 60, 4).astype(float).tolist()
    runs = list(zip(("pair", "power", "a", "b"), lengths, strict=True))
    busy = {pool: float(chance.integers(20, 120)) for pool in ("partner", "rig")}
    known = calendar([(pool, 0, until) for pool, until in busy.items()])
    # Lanes are so expensive that the shortest pause is best.
    found = fit(job(*runs), 0.0, known, SecondPrices(lane=1e6))
    least = np.inf
    for order in itertools.permutations(runs):
        time = 0.0
        for name, length in order:
            time = max([time, *(busy[pool] for pool in NEEDS.get(name, ()))]) + length
        least = min(least, time - sum(lengths))
    assert found is not None
    assert found.waited == pytest.approx(least)
    spans = sorted((start, start + length) for _, length, start, _ in found.runs)
    assert all(end <= begin + 1e-6 for (_, end), (begin, _) in itertools.pairwise(spans))
    assert all(starts(found)[name] >= busy[pool] for name in NEEDS for pool in NEEDS[name])
