"""Whatever ends a run after its verdict, while reports are written: nothing says any more that it accepts."""

from __future__ import annotations

import sqlite3

import pytest

from pytest_anubis.core.events import NodeDecided, RunFinished, RunStarted
from pytest_anubis.core.run_state import RunState
from pytest_anubis.core.verdict import Decision, NodeVerdict
from pytest_anubis.store.journal.journal_reading import read_journal
from tests.cli.command_line import anubis
from tests.run_journals import journal_of, record_of
from tests.session.conftest import HEALTHY, set_speed
from tests.session.running.test_exit_guard import started

HOOK = """
import pytest
@pytest.hookimpl({order})
def {hook}:
    {how}
"""
EXIT = "pytest.exit('enough')"
INTERRUPT = "raise KeyboardInterrupt"
FAULT = "raise RuntimeError('a plugin of ours')"


@pytest.mark.parametrize(
    ("order", "hook", "how", "codes"),
    [
        ("tryfirst=True", "pytest_sessionfinish()", EXIT, (2,)),
        ("trylast=True", "pytest_sessionfinish()", FAULT, (3,)),
        ("trylast=True", "pytest_sessionfinish()", "pytest.exit('enough', returncode=0)", (20,)),
        ("trylast=True", "pytest_sessionfinish(session)", "session.exitstatus |= 1", (20,)),
        ("tryfirst=True", "pytest_terminal_summary()", INTERRUPT, (-2, 130)),
        ("", "pytest_unconfigure()", INTERRUPT, (-2, 130)),
        ("", "pytest_unconfigure()", FAULT, (3,)),
        ("", "pytest_unconfigure()", EXIT, (2,)),
        ("", "pytest_unconfigure()", "raise SystemExit(0)", (20,)),
    ],
)
def test_late_end_takes_the_acceptance_back(
    with_baseline: pytest.Pytester, order: str, hook: str, how: str, codes: tuple[int, ...]
) -> None:
    with_baseline.makeconftest(HOOK.format(order=order, hook=hook, how=how))
    process = started(with_baseline, "--anubis-in-process")
    said, _ = process.communicate(timeout=60)
    assert process.returncode in codes, said
    assert "anubis: UNDECIDED: node " in said
    path = journal_of(with_baseline)
    record = read_journal(path)
    assert "while reports were written" in record.broken_off
    assert record.node_verdict is not None
    assert record.node_verdict.decision is Decision.UNDECIDED
    numbers = anubis("report", str(path.parent), "--prometheus", "-").stdout
    assert 'decision="ACCEPTED"} 0' in numbers
    report = anubis("report", str(path.parent)).stdout
    assert "ACCEPTED:" not in report
    assert "--anubis-resume" in report
    judged = anubis("judge", ".anubis/runs", "--baseline", "baselines")
    assert judged.returncode == 20
    assert "0 REJECTED, 1 UNDECIDED, 0 ACCEPTED" in judged.stdout
    assert anubis("health").returncode == 20
    with sqlite3.connect(with_baseline.path / ".anubis/history.sqlite") as history:
        assert history.execute("SELECT decision FROM runs").fetchall() == [("UNDECIDED",)]


def test_what_ends_a_rejected_run_leaves_it_rejected(with_baseline: pytest.Pytester) -> None:
    set_speed(with_baseline, [0.5 * value for value in HEALTHY])
    with_baseline.makeconftest(HOOK.format(order="", hook="pytest_unconfigure()", how=FAULT))
    process = started(with_baseline, "--anubis-in-process")
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 1, said
    verdict = record_of(with_baseline).node_verdict
    assert verdict is not None
    assert verdict.decision is Decision.REJECTED


def test_taken_back_run_can_be_resumed(with_baseline: pytest.Pytester) -> None:
    conftest = with_baseline.makeconftest(
        HOOK.format(order="", hook="pytest_unconfigure()", how=EXIT)
    )
    process = started(with_baseline, "--anubis-in-process", "--anubis-run-id=r")
    process.communicate(timeout=60)
    assert process.returncode == 2
    conftest.write_text("")
    result = with_baseline.runpytest("--anubis", "--anubis-in-process", "--anubis-resume=r")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["ACCEPTED: *"])


def test_second_end_needs_a_cause() -> None:
    state = RunState()
    accepted = NodeVerdict(node="n", decision=Decision.ACCEPTED, headline="accepted")
    state.apply(RunStarted(run="r", node="n", started="2026-01-01T00:00:00+00:00"))
    state.apply(NodeDecided(verdict=accepted))
    for broken_off, decision in (("", "ACCEPTED"), ("", "ACCEPTED"), ("why", "UNDECIDED")):
        end = RunFinished(exit_status=0, ended="2026-01-01T00:00:01+00:00", broken_off=broken_off)
        state.apply(end)
        assert state.node_verdict is not None
        assert state.node_verdict.decision.name == decision
