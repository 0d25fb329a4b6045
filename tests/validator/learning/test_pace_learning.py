"""A metric that follows the host's pace gets a tighter form; one that does not gets nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pytest_anubis.core.baseline import HOST_PACE, Baseline
from pytest_anubis.store.baselines.baseline_files import BaselineError
from pytest_anubis.store.baselines.baseline_form import (
    baseline_from_plain,
    baseline_to_plain,
    digest_of,
)
from pytest_anubis.validator import learn_baseline
from pytest_anubis.validator.learning.criterion_learning import learn_criterion
from pytest_anubis.validator.learning.pace_learning import TIGHTER, learn_paced
from tests.validator.learning.paced_runs import baseline, population


@pytest.fixture(scope="module")
def learned() -> Baseline:
    return baseline(np.random.default_rng(1))


def test_what_follows_the_pace_is_tighter_at_the_reference_pace(learned: Baseline) -> None:
    forms = [c.paced for c in learned.criteria if c.paced is not None]
    assert len(forms) == 6
    for criterion in learned.criteria:
        if criterion.paced is None:
            continue
        (slope,) = criterion.paced.slopes
        assert slope.kind == "compute"
        assert 0.7 < slope.slope < 1.2
        assert slope.reference == pytest.approx(1e-3, rel=0.1)
        assert criterion.paced.gain < TIGHTER
        assert criterion.paced.learned is not None
        assert criterion.learned is not None
        assert criterion.paced.learned > criterion.learned  # what is raw stays as wide as it is
        assert criterion.detectable == criterion.paced.detectable


def test_the_pace_itself_has_a_criterion(learned: Baseline) -> None:
    (pace,) = [c for c in learned.criteria if c.benchmark == HOST_PACE]
    assert (pace.metric.name, pace.component, pace.paced) == ("compute_pace", "host.cpu", None)
    assert pace.typical == pytest.approx(1.0, rel=0.1)
    assert pace.learned is not None


def test_many_metrics_do_not_widen_the_limit_of_the_pace() -> None:
    one = population(np.random.default_rng(4), "m", 8)
    limits = []
    for copies in (4, 24):
        same = [replace(one, benchmark=f"suite.py::test_m{place}") for place in range(copies)]
        found = learn_baseline(same, hardware_class="c", created="2026-01-01T00:00:00Z")
        (pace,) = [c for c in found.criteria if c.benchmark == HOST_PACE]
        limits.append(pace.learned)
    assert limits[0] == pytest.approx(limits[1])
    assert limits[0] is not None


def test_what_does_not_follow_gets_nothing() -> None:
    learned = baseline(np.random.default_rng(2), follows=False)
    assert all(criterion.paced is None for criterion in learned.criteria)
    assert all(criterion.benchmark != HOST_PACE for criterion in learned.criteria)


@pytest.mark.parametrize("runs", [3, 5])
def test_a_few_runs_show_no_pace_by_chance(runs: int) -> None:
    rng = np.random.default_rng(3)
    for _ in range(20):
        raw = learn_criterion(population(rng, "m", runs, follows=False), one_machine=True)
        assert learn_paced(raw, alpha=0.95, method="median", one_machine=True) is None


def test_a_fleet_learns_it_too() -> None:
    rng = np.random.default_rng(4)
    one = population(rng, "m", 130)
    nodes = replace(one, nodes=tuple(f"n{i}" for i in range(130)), runs=("r",) * 130)
    raw = learn_criterion(nodes)
    found = learn_paced(raw, alpha=0.95, method="median", one_machine=False)
    assert found is not None
    assert found.slopes[0].kind == "compute"
    assert found.criterion.nodes > 120


def test_a_baseline_keeps_the_paced_form_and_an_older_one_its_digest(learned: Baseline) -> None:
    again = baseline_from_plain(baseline_to_plain(learned))
    assert digest_of(again) == digest_of(learned)
    assert sum(c.paced is not None for c in again.criteria) == 6
    plain = baseline_to_plain(
        replace(learned, criteria=tuple(replace(c, paced=None) for c in learned.criteria))
    )
    assert all("paced" not in criterion for criterion in plain["criteria"])
    broken = baseline_to_plain(learned)
    form = next(c["paced"] for c in broken["criteria"] if "paced" in c)
    form["slopes"][0]["least"] = 1.5
    with pytest.raises(BaselineError, match=r"paced\.slopes\[0\]"):
        baseline_from_plain(broken)
