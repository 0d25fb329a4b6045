"""The chance that a segment ends is learned from how often a class's healthy units change."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pytest_anubis.core.baseline import Criterion
from pytest_anubis.core.measurement import Measurement
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.sample import FloatArray, Population, population_of
from pytest_anubis.store.baselines.baseline_form import baseline_from_plain, baseline_to_plain
from pytest_anubis.validator import learn_baseline
from pytest_anubis.validator.changes.change_rate import change_rates
from pytest_anubis.validator.changes.cycle_steps import cycles_near, find_steps, step_onset
from pytest_anubis.validator.changes.segments import HAZARD, changes_of, hazard_of
from tests.validator.known import known

RATE = Metric(name="rate", unit="GB/s", better="higher")


def fleet(changing: int, length: int = 60, name: str = "b") -> Population:
    """Return forty units of which so many change for good in the middle of their run."""
    rng = np.random.default_rng(changing)
    samples = 100 * np.exp(rng.normal(0, 0.01, (40, length)))
    samples[:changing, length // 2 :] *= 0.85
    return population_of(list(samples), metric=RATE, benchmark=name)


def measured(device: str, values: FloatArray, **more: Any) -> Measurement:
    return Measurement(
        test="t",
        benchmark="b",
        component="",
        metric=RATE,
        device=device,
        values=tuple(values),
        **more,
    )


def test_a_class_that_never_changes_expects_fewer_changes_than_one_that_does() -> None:
    (quiet,) = change_rates([(fleet(0), range(40), 0.05)])
    (lively,) = change_rates([(fleet(8), range(40), 0.05)])
    assert known(quiet) < HAZARD / 5
    assert lively == pytest.approx(8 / 2400, rel=0.3)


def test_a_metric_differs_from_its_class_only_as_far_as_its_own_runs_say() -> None:
    quiet, lively = change_rates([(fleet(0), range(40), 0.05), (fleet(8), range(40), 0.05)])
    few, _ = change_rates([(fleet(0), range(1), 0.05), (fleet(8), range(40), 0.05)])
    assert known(quiet) < known(few) < known(lively)


def test_short_samples_tell_nothing() -> None:
    assert change_rates([(fleet(0, length=20), range(40), 0.05)]) == [None]


def test_a_baseline_knows_the_rate_and_an_older_one_is_as_it_was() -> None:
    baseline = learn_baseline([fleet(0)], hardware_class="c", created="2026-01-01T00:00:00Z")
    plain = baseline_to_plain(baseline)
    (criterion,) = baseline_from_plain(plain).criteria
    assert hazard_of(criterion) == pytest.approx(baseline.criteria[0].change_rate)
    old = replace(baseline, criteria=tuple(replace(c, change_rate=None) for c in baseline.criteria))
    (written,) = baseline_to_plain(old)["criteria"]
    assert "change_rate" not in written  # so its digest stays
    assert hazard_of(old.criteria[0]) == hazard_of(None) == HAZARD


def test_where_changes_are_rare_more_is_needed_to_believe_one() -> None:
    values = 100 * np.exp(np.random.default_rng(26).normal(0, 0.02, 60))
    values[51:] *= 0.93  # nine values: one more than a segment needs
    run = measured("d", values)
    usual = Criterion(benchmark="b", metric=RATE, centre=(100.0,))
    assert changes_of(run, usual).change is not None
    assert changes_of(run, replace(usual, change_rate=1e-5)).change is None


def test_a_part_that_broke_late_in_a_soak_is_told_with_its_cycle() -> None:
    rng = np.random.default_rng(3)
    cycles = []
    for number in range(60):
        level = 92.0 if number >= 50 else 100.0
        cycles.append([measured("cuda:3", level * np.exp(rng.normal(0, 0.003, 5)))])
    (step,) = find_steps(cycles)
    assert step.onset == 51
    assert step.text.startswith("b rate cuda:3: 7.9 % slower since cycle 51 of 60 (median")
    assert find_steps(cycles[:50]) == []


@pytest.mark.parametrize("counter", [False, True])
@pytest.mark.parametrize(("fallen", "moved"), [(50, True), (30, False), (99, False)])
def test_a_step_over_cycles_is_joined_to_a_sensor(fallen: int, moved: bool, counter: bool) -> None:
    rng = np.random.default_rng(3)
    cycles = []
    for number in range(60):
        values = (92.0 if number >= 50 else 100.0) * np.exp(rng.normal(0, 0.003, 5))
        clock = (1410.0 if number >= fallen else 1980.0) * np.exp(rng.normal(0, 0.003, 9))
        telemetry: Any = (("GPU 3 SM clock (MHz)", tuple(clock)),)
        if counter:  # which is not recorded where it does not change
            telemetry = (("GPU 3 replays (/s)", (0.0, 41.0, 0.0)),) if number >= fallen else ()
            telemetry += (("GPU 1 power (W)", (90.0,)),)
        busy = ("busy",) if number == 7 else ()
        cycles.append([measured("cuda:3", values, disturbance=busy, telemetry=telemetry)])
    (step,) = find_steps(cycles)
    near, places = cycles_near(step, cycles)
    assert step.onset == 50  # among the 59 that count
    assert places[step.onset - 1 - near.start] == 50
    onset = known(step_onset(step, near, [cycles[place] for place in places]))
    assert (onset.number, onset.count) == (50, 59)
    assert (onset.sensor is not None) is moved
