"""Simulated steps with known losses: which kind of operation is named, and with which share."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pytest

from pytest_anubis.core.loss_shares import StepShares
from pytest_anubis.validator.surveying.step_shares import COMPONENTS, TimedPart, step_shares
from tests.validator.known import known

STEP = {
    "time_matrix": 8.0,
    "time_convolution": 5.0,
    "time_pointwise": 4.0,
    "time_normalisation": 3.0,
    "time_embedding": 3.0,
    "time_copy": 3.0,
    "time_between": 4.0,
}
"""Milliseconds of a healthy step by kind."""
SEEDS = 20
ROUNDS = 24


def rounds(
    generator: np.random.Generator,
    factors: Mapping[str, float] | None = None,
    *,
    all_by: float = 1.0,
    besides: float = 1.0,
) -> dict[str, np.ndarray]:
    """Return the values of one run: noise of the run, of the round, of each value."""
    run = all_by * np.exp(0.005 * generator.standard_normal())
    together = np.exp(0.02 * np.abs(generator.standard_normal(ROUNDS)))
    found = {}
    for name, usual in STEP.items():
        own = np.exp(0.005 * generator.standard_normal())
        noise = np.exp(0.04 * generator.standard_normal(ROUNDS))
        found[name] = usual * (factors or {}).get(name, 1.0) * run * own * together * noise
    whole = sum(found.values()) * besides * np.exp(0.01 * generator.standard_normal(ROUNDS))
    return {"step_time": whole, **found}


def explained(
    seed: int, factors: Mapping[str, float] | None = None, **more: float
) -> StepShares | None:
    """Return the shares of a run with some losses, against eight healthy runs."""
    generator = np.random.default_rng(seed)
    healthy = [rounds(generator) for _ in range(8)]
    suspect = rounds(generator, factors, **more)
    timed = []
    for name, values in suspect.items():
        medians = [np.median(run[name]) for run in healthy]
        spread = float(np.log(medians).std(ddof=1))
        expected = float(np.median(medians))
        timed.append(TimedPart(name=name, values=values.tolist(), expected=expected, spread=spread))
    return step_shares(timed[0], timed[1:])


@pytest.mark.parametrize("kind", STEP)
def test_the_one_slow_kind_is_named_first(kind: str) -> None:
    right = 0
    for seed in range(SEEDS):
        found = explained(seed, {kind: 1.5})
        named = found.named if found else ()
        right += bool(named) and named[0].metric == kind and 0.7 <= named[0].share <= 1.3
        if named and named[0].metric == kind:
            assert named[0].component == COMPONENTS[kind]
            assert named[0].low <= named[0].share <= named[0].high
    assert right >= SEEDS - 2


def test_a_loss_of_all_kinds_is_one_factor() -> None:
    for seed in range(SEEDS):
        found = known(explained(seed, all_by=1.3))
        assert found.named[0] == found.common
        assert 0.7 <= found.common.share <= 1.3
        assert abs(found.rest) < 0.3


def test_a_small_loss_of_all_kinds_is_named() -> None:
    found = [explained(seed, all_by=1.04) for seed in range(SEEDS)]
    assert sum(bool(one and one.common.low > 0) for one in found) >= 0.8 * SEEDS


def test_a_time_without_a_number_is_no_part() -> None:
    whole = TimedPart(name="step_time", values=[26.0, 26.1, 25.9], expected=20.0)
    slow = TimedPart(name="time_copy", values=[13.0, 13.1, 12.9], expected=10.0)
    for other in (
        TimedPart(name="time_matrix", values=[13.0, 13.1, math.inf], expected=10.0),
        TimedPart(name="time_matrix", values=[13.0, 13.1, 12.9], expected=10.0, spread=math.nan),
    ):
        found = known(step_shares(whole, [slow, other]))
        assert [one.metric for one in found.parts] == ["time_copy"]


def test_a_slow_kind_on_a_machine_slow_as_a_whole() -> None:
    right = 0
    for seed in range(SEEDS):
        found = known(explained(seed, {"time_matrix": 1.5}, all_by=1.2))
        right += {one.metric for one in found.named} == {"", "time_matrix"}
    assert right >= SEEDS - 2


def test_nothing_is_named_where_nothing_is_slow() -> None:
    found = [explained(seed) for seed in range(SEEDS)]
    assert any(found)
    assert sum(bool(one.named) for one in found if one is not None) <= 1


def test_a_loss_outside_of_all_parts_is_unexplained() -> None:
    silent = 0
    for seed in range(SEEDS):
        found = known(explained(seed, besides=1.25))
        silent += not found.named and found.rest == 1
    assert silent >= SEEDS - 1
