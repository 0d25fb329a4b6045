"""A dead worker is reported and prevents acceptance, even if every test then passed."""

from __future__ import annotations

import json

import pytest

DIES_ONCE = """
import os, pathlib

if "PYTEST_XDIST_WORKER" in os.environ and not pathlib.Path("died").exists():
    pathlib.Path("died").touch()
    os._exit(9)
"""


@pytest.mark.usefixtures("in_workers")
def test_worker_dying_before_tests_blocks(with_baseline: pytest.Pytester) -> None:
    accepted = with_baseline.runpytest("--anubis", "-n0")
    assert accepted.ret == 0
    with_baseline.makeconftest(DIES_ONCE)
    result = with_baseline.runpytest("--anubis", "-n0", "--anubis-run-id=died")
    assert result.ret == 20
    result.assert_outcomes(passed=1)
    lines = (with_baseline.path / ".anubis/runs/died/journal.jsonl").read_text().splitlines()
    (verdict,) = [e for e in map(json.loads, lines) if e["event"] == "node_verdict"]
    assert [one for one in verdict["blocking"] if "no test was running" in str(one)]
