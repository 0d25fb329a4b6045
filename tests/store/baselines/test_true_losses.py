"""The loss that a criterion states, after its thresholds were edited."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_anubis.core.baseline import Baseline, Criterion
from pytest_anubis.core.metric import Direction, Metric
from pytest_anubis.store.baselines.baseline_files import (
    load_baseline,
    save_baseline,
    with_true_losses,
)


def baseline(better: Direction, stated: float | None, medians: tuple[float, ...]) -> Baseline:
    metric = Metric(name="rate", unit="GB/s", better=better)
    one = Criterion(
        benchmark="copy",
        metric=metric,
        centre=(100.0,),
        learned=0.97,
        detectable=stated,
        medians=medians,
    )
    return Baseline(hardware_class="C", criteria=(one,), created="2026-01-31T12:00:00Z")


def edited(made: Baseline, folder: Path, alpha: float) -> Criterion:
    path = save_baseline(made, folder)
    data = json.loads(path.read_text())
    data["criteria"][0]["alpha"] = alpha
    path.write_text(json.dumps(data))
    return load_baseline(path, sealed=False).criteria[0]


@pytest.mark.parametrize(
    ("better", "stated", "alpha", "medians", "finds"),
    [
        ("higher", 0.067, 0.90, (), 0.1),
        ("higher", 0.067, 0.90, (98.0, 100.0, 102.0), 1 - 0.9 / 1.02),
        ("lower", 0.067, 0.80, (), 0.25),
        ("lower", 0.067, 0.80, (98.0, 100.0, 102.0), 1.25 * 100 / 98 - 1),
        ("higher", 0.067, 0.95, (98.0, 100.0, 102.0), 0.067),  # as it was learned
        ("higher", 0.2, 0.90, (), 0.2),  # noisier than its threshold: larger is true
        ("higher", None, 0.90, (), None),
    ],
)
def test_weakened_criterion_states_the_larger_loss(
    tmp_path: Path,
    better: Direction,
    stated: float | None,
    alpha: float,
    medians: tuple[float, ...],
    finds: float | None,
) -> None:
    found = edited(baseline(better, stated, medians), tmp_path, alpha)
    assert found.alpha == alpha
    assert found.detectable == (None if finds is None else pytest.approx(finds, rel=1e-6))


@pytest.mark.parametrize(("centre", "learned"), [((100.0,), 0.0), ((), 0.9)])
def test_a_criterion_that_makes_no_sense_is_no_crash(
    centre: tuple[float, ...], learned: float
) -> None:
    made = baseline("lower", 0.067, ())
    one = replace(made.criteria[0], centre=centre, learned=learned)
    (found,) = with_true_losses(replace(made, criteria=(one,))).criteria
    assert found.centre == centre
