"""Waivers in a run: live, in its reports and wherever it is judged again, the decision is the same."""

from __future__ import annotations

import html
import json
import re
import time
from dataclasses import replace

import pytest

from pytest_anubis.cli.main import main
from pytest_anubis.codec.moments import day_of
from pytest_anubis.core.verdict import Outcome, Reason
from pytest_anubis.report.pages.rendering import block
from pytest_anubis.store.baselines.baseline_files import load_baseline, save_baseline
from pytest_anubis.store.collected_runs import read_runs
from pytest_anubis.store.journal.journal_reading import read_journal
from tests.session.conftest import Learn

SUITE = """
import os, pytest

@pytest.mark.anubis(component="cpu.compute", goal="g", question="q", action="check the cooler")
def test_speed(anubis_metric, anubis_device):
    slow = 50.0 + 0.1 * (os.environ.get("FAULT") == "none") * 500
    anubis_metric.record("speed", [slow] * 20, unit="GFLOP/s", better="higher")
    anubis_metric.record("other", [100.0] * 20, unit="GFLOP/s", better="higher")
    assert os.environ.get("FAULT") != "check", "three elements are wrong"
"""
WAIVER = """
[[waiver]]
owner = "j.doe"
reason = "cooler is ordered"
expires = {expires}
test = "test_suite.py::*"
"""


@pytest.fixture
def slow(pytester: pytest.Pytester, learn: Learn) -> pytest.Pytester:
    """A project whose only failure is a slow metric next to a good one."""
    pytester.makepyfile(test_suite=SUITE)
    learn({"speed": ("GFLOP/s", "higher"), "other": ("GFLOP/s", "higher")})
    return pytester


def run(project: pytest.Pytester, *options: str, expires: str = "2999-01-01") -> pytest.RunResult:
    (project.path / "waivers.toml").write_text(WAIVER.format(expires=expires))
    return project.runpytest("--anubis", "--anubis-run-id=r", *options)


def again(
    project: pytest.Pytester, capsys: pytest.CaptureFixture[str], *options: str
) -> tuple[str, int]:
    """Return the decision of `anubis judge`, and its exit code."""
    capsys.readouterr()
    place = f"--baseline={project.path / 'baselines'}"
    code = main(["judge", str(project.path / ".anubis/runs/r"), place, "--json=-", *options])
    (node,) = json.loads(capsys.readouterr().out)["nodes"]
    return str(node["decision"]), code


def test_waived_failure_is_shown_everywhere(
    slow: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--junit-xml=out.xml", "--html=out.html", "--self-contained-html")
    result = run(slow, "--anubis-waivers=waivers.toml", *options)
    result.assert_outcomes(skipped=1)
    assert result.ret == 0
    who = "j.doe until 2999-01-01: cooler is ordered"
    result.stdout.fnmatch_lines(
        ["anubis: 1 waiver", f"ACCEPTED: *1 waived: test_suite.py::test_speed speed cpu ({who})*"]
    )
    assert 'failures="0"' in (slow.path / "out.xml").read_text()
    page = html.unescape((slow.path / "out.html").read_text()).replace('\\"', '"')
    assert block("badge", "NOT_TESTED") in page
    assert block("badge", "FAIL") not in page

    journal = slow.path / ".anubis/runs/r/journal.jsonl"
    record = read_journal(journal)
    reached = {v.metric: v.outcome for v in record.verdicts}
    assert reached == {
        "speed": Outcome.FAIL,
        "other": Outcome.PASS,
    }  # the journal has what was found
    (speed, _) = record.effective_verdicts
    assert (speed.outcome, speed.reason) == (Outcome.NOT_TESTED, Reason.WAIVED)

    (slow.path / "waivers.toml").unlink()  # what is read again knows them from the journal
    assert again(slow, capsys) == ("ACCEPTED", 0)
    report = ["report", str(journal), f"--baseline={slow.path / 'baselines'}"]
    for option, words in (
        ("--json=-", '"expires": "2999-01-01"'),
        ("--prometheus=-", 'reason="waived"'),
        ("--prometheus=-", 'owner="j.doe",expires="2999-01-01"} 1.0'),
    ):
        main([*report, option])
        assert words in capsys.readouterr().out
    main([*report, f"--html={slow.path / 'page.html'}"])
    assert f"waived by {who}" in (slow.path / "page.html").read_text()

    (population,) = [p for p in read_runs([journal], learning=True).populations if p.problems]
    assert (population.metric.name, population.problems[0].kind) == ("speed", "waived")


def test_judge_takes_todays_waivers(
    slow: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(slow).ret == 1
    file = f"--waivers={slow.path / 'waivers.toml'}"
    assert again(slow, capsys) == ("REJECTED", 1)
    assert again(slow, capsys, file) == ("ACCEPTED", 0)
    (slow.path / "waivers.toml").write_text(WAIVER.format(expires="2020-01-01"))
    assert again(slow, capsys, file) == ("REJECTED", 1)
    (slow.path / "waivers.toml").write_text("[[waiver]]")
    place = f"--baseline={slow.path / 'baselines'}"
    assert main(["judge", str(slow.path / ".anubis/runs/r"), place, file]) == 2
    assert "waivers.toml: waiver 1: no owner" in capsys.readouterr().err


def test_a_clock_behind_the_baseline_dates_no_waivers(
    slow: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    """Either clock may be wrong: a waiver would hold by this one for ever, or not by the other any more."""
    assert run(slow).ret == 1
    (path,) = (slow.path / "baselines").glob("*.json")
    save_baseline(replace(load_baseline(path), created="2998-01-01T00:00:00+00:00"), path.parent)
    file = f"--waivers={slow.path / 'waivers.toml'}"
    place = f"--baseline={slow.path / 'baselines'}"
    assert main(["judge", str(slow.path / ".anubis/runs/r"), place, file]) == 2
    assert "unknown which waivers have expired" in capsys.readouterr().err


def test_ended_waiver_rejects_again(
    slow: pytest.Pytester, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = slow.path / ".anubis"
    today = time.time()
    waivers, day = slow.path / "waivers.toml", day_of(today)

    def codes(*more: str) -> set[int]:
        own = main(["health", "--store", str(store), "--node=n1", *more])
        asked = [["fleet", "verdict", str(store)]]
        for place in ([str(store)], ["--history", str(store)]):
            asked += [["fleet", "status", *place], ["fleet", "drain-list", *place]]
        return {own, *(main(one) for one in asked if not more)}

    assert run(slow, "--anubis-node=n1").ret == 1
    assert codes() == {1}
    assert slow.runpytest("--anubis", "--anubis-node=n1", f"--anubis-waivers={waivers}").ret == 0
    assert codes() == {0}
    waivers.write_text(WAIVER.format(expires=day))
    assert slow.runpytest("--anubis", "--anubis-node=n1", f"--anubis-waivers={waivers}").ret == 0
    assert codes() == codes(f"--waivers={waivers}") == {0}
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: today + 86400)
        assert codes() == {1}
        capsys.readouterr()
        main(["health", "--store", str(store), "--node=n1"])
        assert "j.doe until" in capsys.readouterr().out
        waivers.write_text(WAIVER.format(expires="2999-01-01"))
        assert codes(f"--waivers={waivers}") == {0}
    waivers.write_text(WAIVER.format(expires=day).replace("test_suite", "test_other"))
    assert codes(f"--waivers={waivers}") == {1}
    monkeypatch.setenv("FAULT", "none")
    assert slow.runpytest("--anubis", "--anubis-node=n1").ret == 0
    monkeypatch.setattr(time, "time", lambda: today + 86400)
    assert codes() == {0}


@pytest.mark.parametrize(("fault", "code"), [("none", 20), ("speed", 1)])
def test_an_expired_waiver_accepts_nothing(
    slow: pytest.Pytester,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    fault: str,
    code: int,
) -> None:
    monkeypatch.setenv("FAULT", fault)
    result = run(slow, "--anubis-waivers=waivers.toml", expires="2020-01-01")
    assert result.ret == code
    assert re.search(r"waiver .*expired on 2020-01-01", result.stdout.str())
    assert "anubis: 1 waiver, 1 of them expired" in result.stdout.str()
    assert again(slow, capsys)[1] == code


@pytest.mark.parametrize(("metric", "code"), [("", 1), ('metric = "check"', 0)])
def test_a_failure_of_the_test_itself_must_be_named(
    slow: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, metric: str, code: int
) -> None:
    monkeypatch.setenv("FAULT", "none")
    (slow.path / "test_plain.py").write_text("def test_sum():\n    assert 3 == 0\n")
    waiver = WAIVER.replace("test_suite", "test_plain").format(expires="2999-01-01")
    (slow.path / "waivers.toml").write_text(waiver + metric)
    result = slow.runpytest("--anubis", "--anubis-waivers=waivers.toml", "-v")
    assert result.ret == code
    if code:
        result.stdout.fnmatch_lines(
            ['*waiver for test test_plain.py::[*]*must name metric = "check"*']
        )


def test_a_bad_file_ends_the_run_before_it_begins(slow: pytest.Pytester) -> None:
    (slow.path / "waivers.toml").write_text("[[waiver]]\nowner = 'j.doe'\n")
    result = slow.runpytest("--anubis", "--anubis-waivers=waivers.toml")
    assert result.ret == 4
    result.stderr.fnmatch_lines(
        ['ERROR: --anubis-waivers: *waivers.toml: waiver 1: no reason; write reason = "..."']
    )
    assert not (slow.path / ".anubis").exists()
