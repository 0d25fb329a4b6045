"""What several runs of one unit say together."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_anubis.core.metric import Metric
from pytest_anubis.core.run import RunEvidence
from pytest_anubis.core.sample import Population, population_of
from pytest_anubis.core.verdict import Triage, Trouble
from pytest_anubis.validator import learn_baseline
from pytest_anubis.validator.deciding.fleet_judging import judge_fleet

NODES = 30


def table(runs: int, slow: int) -> Population:
    """Return one value a node and run; the last `slow` runs of the last node are half as fast."""
    values = 100 * np.exp(np.random.default_rng(0).normal(0, 0.003, (NODES, runs)))
    values[-1, runs - slow :] *= 0.5
    return population_of(
        [[value] for node in values for value in node],
        metric=Metric(name="copy", unit="GB/s", better="higher"),
        benchmark="b",
        nodes=[f"n{n}" for n in range(NODES) for _ in range(runs)],
        devices=["node"] * NODES * runs,
        runs=[f"r{r}" for _ in range(NODES) for r in range(runs)],
    )


@pytest.mark.parametrize(
    ("slow", "trouble"), [(1, Trouble.SINGLE), (2, Trouble.SLOW), (3, Trouble.SLOW)]
)
def test_runs_that_fail_alike_confirm_each_other(slow: int, trouble: Trouble) -> None:
    learned = learn_baseline([table(3, 0)], hardware_class="", created="2026-01-01")
    judged = judge_fleet([table(3, slow)], {"": learned})
    (detail,) = [d for v, d in zip(judged.nodes, judged.details, strict=True) if v.node == "n29"]
    failed = [v for v in detail.verdicts if v.trouble is not Trouble.NONE]
    assert [v.trouble for v in failed] == [trouble] * slow
    assert all((v.triage is Triage.RETEST) == (trouble is Trouble.SINGLE) for v in failed)
    assert all(("retest" in v.text) == (trouble is Trouble.SINGLE) for v in failed)


def test_of_collected_runs_those_in_noise_are_to_be_measured_again() -> None:
    learned = learn_baseline([table(3, 0)], hardware_class="", created="2026-01-01")
    noisy = RunEvidence(noisy={"r1": "--anubis-quiet-limit=steal=30%"})
    judged = judge_fleet([table(3, 2)], {"": learned}, evidence={("", "n29"): noisy})
    (detail,) = [d for v, d in zip(judged.nodes, judged.details, strict=True) if v.node == "n29"]
    result = {v.run: v.triage for v in detail.verdicts if v.trouble is not Trouble.NONE}
    assert result == {"r1": Triage.RETEST, "r2": Triage.REJECT}
    (node,) = [v for v in judged.nodes if v.node == "n29"]
    assert node.triage is Triage.REJECT  # one of them was quiet
