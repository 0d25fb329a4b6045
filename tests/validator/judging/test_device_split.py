"""A slower half of a node's devices shows where three nodes make a limit too wide to tell."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pytest_anubis.core.baseline import Baseline
from pytest_anubis.core.metric import Direction, Metric
from pytest_anubis.core.sample import FloatArray, Population, population_of
from pytest_anubis.core.verdict import Decision, MetricVerdict, Outcome
from pytest_anubis.validator import learn_baseline
from pytest_anubis.validator.deciding.fleet_judging import JudgedFleet, judge_fleet
from pytest_anubis.validator.judging.device_split import slower_part


def fleet(slow: tuple[int, ...], better: Direction = "higher", seed: int = 0) -> Population:
    """Three nodes of eight devices, some of the second one slower by 8 %."""
    rng = np.random.default_rng(seed)
    values = 100 * np.exp(rng.normal(0, 0.002, (3, 8, 1)) + rng.normal(0, 0.001, (3, 8, 5)))
    values[1, list(slow)] *= 0.92 if better == "higher" else 1 / 0.92
    return population_of(
        [values[n, d] for n in range(3) for d in range(8)],
        metric=Metric(name="copy", unit="GB/s" if better == "higher" else "us", better=better),
        benchmark="b",
        nodes=[f"n{n}" for n in range(3) for _ in range(8)],
        devices=[f"cuda:{d}" for _ in range(3) for d in range(8)],
    )


def learned(*, wide: float = 0.8) -> Baseline:
    baseline = learn_baseline([fleet(())], hardware_class="c", created="2026-01-01")
    criteria = tuple(replace(c, learned=wide) for c in baseline.criteria)
    return replace(baseline, criteria=criteria)


def marginal(judged: JudgedFleet) -> dict[str, MetricVerdict]:
    """Return the MARGINAL verdicts of the second node, by device."""
    (detail,) = [d for v, d in zip(judged.nodes, judged.details, strict=True) if v.node == "n1"]
    return {v.device: v for v in detail.verdicts if v.outcome is Outcome.MARGINAL}


def test_a_slower_half_within_a_wide_limit_is_to_be_looked_at() -> None:
    judged = judge_fleet([fleet((0, 1, 2, 3))], {"": learned()})
    found = marginal(judged)
    assert sorted(found) == ["cuda:0", "cuda:1", "cuda:2", "cuda:3"]
    said = "4 of the 8 devices of this node are 7.9 % slower than the others"
    assert said in found["cuda:0"].text
    assert found["cuda:0"].worth_a_look
    assert [v.decision for v in judged.nodes] == [Decision.ACCEPTED] * 3
    assert "to be looked at" in judged.nodes[1].headline


def test_a_device_that_measured_nothing_does_not_hide_the_others() -> None:
    tested = fleet((0, 1, 2))
    values = tested.values.copy()
    dead = next(d for d in range(24) if (tested.nodes[d], tested.devices[d]) == ("n1", "cuda:7"))
    values[tested.offsets[dead] : tested.offsets[dead + 1]] = 0
    found = marginal(judge_fleet([replace(tested, values=values)], {"": learned()}))
    assert found.keys() == {"cuda:0", "cuda:1", "cuda:2"}
    assert any("3 of the 7 devices" in v.text for v in found.values())


def test_healthy_devices_are_left_alone() -> None:
    judged = judge_fleet([fleet(())], {"": learned()})
    assert all("to be looked at" not in verdict.headline for verdict in judged.nodes)


@pytest.mark.parametrize("better", ["higher", "lower"])
def test_only_a_gap_that_is_no_accident_divides(better: Direction) -> None:
    rng = np.random.default_rng(3)

    def part(values: FloatArray) -> list[int] | None:
        found = slower_part(values if better == "higher" else 1 / values, better, 0.95)
        return None if found is None else np.flatnonzero(found).tolist()

    even = 100 * np.exp(rng.normal(0, 0.002, 8))
    half, one = even.copy(), even.copy()
    half[[1, 4, 6]] *= 0.9
    one[5] *= 0.9
    assert part(even) is None
    assert part(half) == [1, 4, 6]
    assert part(one) == [5]
    assert part(half[:5]) is None  # too few devices to tell a gap from noise
    assert part(np.linspace(80, 100, 8)) is None  # spread, no gap
    noisy = 100 * np.exp(rng.normal(0, 0.1, (2000, 8)))
    assert sum(part(values) is not None for values in noisy) <= 8
