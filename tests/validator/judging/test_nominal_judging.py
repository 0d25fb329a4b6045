"""Values far below the nominal rate are MARGINAL where nothing else judges them, and decide nothing."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from pytest_anubis.cli.shared.judged_json import judged_json
from pytest_anubis.core.baseline import Baseline, Criterion
from pytest_anubis.core.metric import Direction, Metric
from pytest_anubis.core.nominal_rate import NominalRate
from pytest_anubis.core.sample import Population, SampleProblem, population_of
from pytest_anubis.core.shown_loss import nominal_text
from pytest_anubis.core.verdict import Decision, Outcome, Reason, Reference
from pytest_anubis.report.text.explanation_text import attained_text
from pytest_anubis.validator import judge_node, judge_sample
from pytest_anubis.validator.deciding.fleet_judging import judge_fleet

RATE = Metric(
    name="rate", unit="GB/s", better="higher", nominal=NominalRate(value=64.0, of="PCIe 5.0 x16")
)
BELOW = (Outcome.MARGINAL, Reason.BELOW_NOMINAL, Reference.MODEL)


def cards(
    level: float, *, slow: int | None = None, runs: int = 1, better: Direction = "higher"
) -> Population:
    """Return eight cards of one node, in each of so many runs."""
    rng = np.random.default_rng(3)
    samples = [level * np.exp(rng.normal(0, 0.003, 12)) for _ in range(8 * runs)]
    if slow is not None:
        samples[slow] *= 0.7
    return population_of(
        samples,
        metric=replace(RATE, better=better),
        benchmark="b",
        nodes=["n"] * 8 * runs,
        devices=[f"cuda:{i % 8}" for i in range(8 * runs)],
        runs=[f"run {i // 8}" for i in range(8 * runs)],
    )


@pytest.mark.parametrize(
    ("value", "better", "low"),
    [
        (30.0, "higher", True),
        (38.0, "higher", True),
        (39.0, "higher", False),
        (70.0, "higher", False),
        (120.0, "lower", True),
        (100.0, "lower", False),
    ],
)
def test_a_value_below_six_tenths_is_marginal(value: float, better: Direction, low: bool) -> None:
    metric = replace(RATE, better=better)
    found = judge_sample([value] * 5, None, metric=metric)
    usual = (Outcome.INCONCLUSIVE, Reason.NO_BASELINE, Reference.NONE)
    assert (found.outcome, found.reason, found.reference) == (BELOW if low else usual)
    judged = judge_fleet([population_of([[value] * 5], metric=metric, benchmark="b")], {})
    assert judged.columns[0].verdict(0).outcome is found.outcome
    assert judged.nodes[0].decision is Decision.UNDECIDED


def test_a_time_takes_so_many_times_as_long() -> None:
    time = Metric(
        name="copy", unit="ms", better="lower", nominal=NominalRate(value=2.0, of="the link")
    )
    said = "takes 3.0 times as long as the link needs, 2 ms"
    assert judge_sample([6.0] * 5, None, metric=time).text == f"copy is 6 ms: it {said}"
    criterion = Criterion(benchmark="b", metric=time, centre=(6.0,), nodes=9)
    assert attained_text(judge_sample([6.0] * 5, criterion, metric=time)) == f"copy {said}"
    assert nominal_text(None, 6.0, "lower", "ms") == ""
    assert nominal_text(time.nominal, None, "lower", "ms") == ""


def test_the_share_is_in_the_file_of_verdicts() -> None:
    for level, share in ((30.0, 0.47), (55.0, 0.86)):
        found = judged_json(judge_fleet([cards(level)], {}), lambda *_: None)
        rows = json.loads("".join(found))["verdicts"]
        assert [round(row["nominal_share"], 2) for row in rows] == [share] * 8


def test_a_disturbed_value_says_nothing_about_the_link() -> None:
    found = judge_sample([20.0] * 5, None, metric=RATE, disturbance=["load 8"])
    assert found.reason is Reason.NO_BASELINE
    disturbed = replace(cards(20.0), problems={2: SampleProblem(kind="disturbed", text="load 8")})
    outcomes = [one.reason for one in judge_fleet([disturbed], {}).columns[0].verdicts()]
    assert [row for row, why in enumerate(outcomes) if why is not Reason.BELOW_NOMINAL] == [2]


@pytest.mark.parametrize("runs", [1, 6])
def test_neither_peers_nor_the_past_clear_what_all_have_alike(runs: int) -> None:
    judged = judge_fleet([cards(30.0, runs=runs)], {})
    verdicts = list(judged.columns[0].verdicts())
    assert {(one.outcome, one.reason, one.reference) for one in verdicts} == {BELOW}
    assert judged.nodes[0].decision is Decision.UNDECIDED
    healthy = judge_fleet([cards(55.0, runs=runs)], {})
    assert {one.outcome for one in healthy.columns[0].verdicts()} == {Outcome.PASS}


def test_a_card_below_its_peers_still_fails() -> None:
    judged = judge_fleet([cards(30.0, slow=5)], {})
    outcomes = {one.device: one.outcome for one in judged.columns[0].verdicts()}
    assert outcomes.pop("cuda:5") is Outcome.FAIL
    assert set(outcomes.values()) == {Outcome.MARGINAL}


def test_a_criterion_decides_and_the_share_is_only_known() -> None:
    criterion = Criterion(benchmark="b", metric=RATE, centre=(30.0,), nodes=9)
    baseline = Baseline(hardware_class="", criteria=(criterion,), created="-")
    found = judge_sample([30.0] * 5, criterion, baseline, metric=RATE)
    assert found.outcome is Outcome.PASS
    assert found.attained == pytest.approx(30 / 64)
    (judged,) = judge_fleet([cards(30.0)], {"": baseline}).columns
    assert {one.outcome for one in judged.verdicts(baseline)} == {Outcome.PASS}


def test_it_never_accepts_and_rejects_only_on_request() -> None:
    other = Criterion(benchmark="a", metric=replace(RATE, name="other"), centre=(1.0,), nodes=9)
    baseline = Baseline(hardware_class="", criteria=(other,), created="-")
    low = judge_sample([30.0] * 5, None, baseline, metric=RATE, benchmark="b")
    assert judge_node([low], [], baseline=baseline).decision is Decision.UNDECIDED
    fine = judge_sample([1.0] * 5, other, baseline)
    accepted = judge_node([fine, low], baseline=baseline)
    assert accepted.decision is Decision.ACCEPTED
    strict = judge_node([fine, low], baseline=baseline, fail_on="marginal")
    assert strict.decision is Decision.REJECTED
    every = judge_node([fine, low], baseline=baseline, require_all=True)
    assert every.decision is Decision.UNDECIDED
