"""A dead worker is reported and prevents acceptance, even if every test then passed."""

from __future__ import annotations

import pytest

from tests.run_journals import events_of

DIES_ONCE = """
import os, pathlib

if "PYTEST_XDIST_WORKER" in os.environ and not pathlib.Path("died").exists():
    pathlib.Path("died").touch()
    os._exit(9)
"""


@pytest.mark.usefixtures("in_workers")
@pytest.mark.parametrize("workers", ["-n0", "-n2"])
def test_worker_dying_before_tests_blocks(with_baseline: pytest.Pytester, workers: str) -> None:
    assert with_baseline.runpytest("--anubis", workers, "--anubis-store=before").ret == 0
    with_baseline.makeconftest(DIES_ONCE)
    result = with_baseline.runpytest("--anubis", workers)
    assert result.ret == 20
    result.assert_outcomes(passed=1)
    (verdict,) = events_of(with_baseline, "node_verdict")
    assert [one for one in verdict["blocking"] if "no test was running" in str(one)]
