"""A dead worker is reported and prevents acceptance, even if every test then passed."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

DIES_ONCE = """
import os, pathlib

if "PYTEST_XDIST_WORKER" in os.environ and not pathlib.Path("died").exists():
    pathlib.Path("died").touch()
    os._exit(9)
"""


@pytest.mark.usefixtures("in_workers")
def test_worker_dying_before_tests_blocks(
    project: pytest.Pytester, learn: Callable[..., Any]
) -> None:
    learn()
    accepted = project.runpytest("--anubis", "-n0")
    assert accepted.ret == 0
    project.makeconftest(DIES_ONCE)
    result = project.runpytest("--anubis", "-n0", "--anubis-run-id=died")
    assert result.ret == 20
    result.assert_outcomes(passed=1)
    lines = (project.path / ".anubis/runs/died/journal.jsonl").read_text().splitlines()
    (verdict,) = [e for e in map(json.loads, lines) if e["event"] == "node_verdict"]
    assert [one for one in verdict["blocking"] if "no test was running" in str(one)]
