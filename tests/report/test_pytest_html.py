"""The hooks of pytest-html: columns in every row, plots once, facts without a row on top."""

from __future__ import annotations

import html
import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_anubis.core.baseline import Baseline
from pytest_anubis.core.blocker import Blocker
from pytest_anubis.core.events import (
    Event,
    Judged,
    Measured,
    NodeDecided,
    RunStarted,
    TestsPlanned,
    TestStarted,
    WorkerDied,
)
from pytest_anubis.core.history import Defect
from pytest_anubis.core.measurement import PlannedTest
from pytest_anubis.core.run_state import RunState
from pytest_anubis.core.verdict import Decision, MetricVerdict, NodeVerdict, Outcome, Reason
from pytest_anubis.report.pytest_html import HtmlReport
from tests.report import sample_run as dossier

SUITE = """
import json, pathlib, pytest

@pytest.mark.parametrize("value", [100.0, 50.0, None])
@pytest.mark.anubis(component="cpu.compute", goal="g", question="q", action="check the <cooler>")
def test_speed(anubis_metric, value):
    if value is None:
        pytest.skip("no tool")
    anubis_metric.record("speed", [value + i for i in range(9)], unit="GFLOP/s", better="higher")

def test_plain():
    assert 1 == 2, "<script>alert(1)</script>"

@pytest.fixture
def broken():
    raise RuntimeError("set-up")

def test_setup(broken):
    pass

def test_dies():
    import os
    if os.environ.get("DIE"):
        os._exit(3)
"""


def hooks_of(
    *happened: Event,
    baseline: Baseline | None = None,
    usage: tuple[str, ...] = (),
    closed: tuple[Defect, ...] = (),
) -> HtmlReport:
    state = RunState()
    for event in (RunStarted(run="r", node="n1"), *happened):
        state.apply(event)
    return HtmlReport(
        state,
        node="n1",
        hardware_class="class",
        inventory={"kernel": dossier.EVIL},
        baseline=baseline,
        baseline_note="no baseline: learn one",
        usage_errors=lambda: list(usage),
        closed_defects=lambda: closed,
    )


def report_of(when: Any = "call", test: str = "t::x", longrepr: Any = None, **more: Any) -> Any:
    return SimpleNamespace(nodeid=test, when=when, longrepr=longrepr, **more)


def skipped(reason: str, when: str = "call", test: str = "t::x") -> Any:
    return report_of(when, test, ("t.py", 3, f"Skipped: {reason}"), outcome="skipped")


def row_of(hooks: HtmlReport, report: Any) -> list[str]:
    cells = ["<td>Skipped</td>", "<td>t::x</td>", "<td></td>", "<td></td>"]
    hooks.pytest_html_results_table_row(report, cells)
    assert len(cells) == 6
    return cells


def top_of(hooks: HtmlReport) -> str:
    prefix: list[str] = []
    hooks.pytest_html_results_summary(prefix)
    return "".join(prefix)


def measured(name: str = "triad_rate", series: int = 0, **changes: Any) -> list[Event]:
    """Return the events of t::x measuring something; `changes` are of its verdict."""
    telemetry = tuple((f"GPU 3 sensor {i}", dossier.sample("gemm_rate", i)) for i in range(series))
    found = dossier.measurement(name, 3, dossier.sample(name, 5, 0.8, 400), telemetry=telemetry)
    found = replace(found, test="t::x")
    verdict = replace(dossier.judged(found, dossier.baseline(5), "n1"), test="t::x", **changes)
    return [Measured(measurement=found), Judged(verdict=verdict)]


def verdict_of(events: list[Event]) -> MetricVerdict:
    (found,) = [event.verdict for event in events if isinstance(event, Judged)]
    return found


def decided(decision: Decision = Decision.UNDECIDED, **more: Any) -> NodeDecided:
    facts = {"node": "n1", "headline": f"headline {dossier.EVIL}"}
    return NodeDecided(verdict=NodeVerdict(decision=decision, **facts | more))


@pytest.mark.parametrize("when", ["setup", "call", "teardown", "collect", "???", None])
@pytest.mark.parametrize("test", ["t::x", "t::never measured"])
@pytest.mark.parametrize(
    "happened", [[], measured(), measured()[:1], measured()[1:], measured(similarity=None)[1:]]
)
def test_every_row_has_as_many_cells_as_the_header(
    happened: list[Event], test: str, when: Any
) -> None:
    hooks = hooks_of(*happened)
    header = ["<th>"] * 4
    hooks.pytest_html_results_table_header(header)
    row = row_of(hooks, report_of(when, test))
    assert len(header) == len(row)
    judged = when == "call" and test == "t::x" and any(isinstance(e, Judged) for e in happened)
    assert ("FAIL" in row[2]) is judged


def test_a_row_shows_worst_verdict_and_similarity() -> None:
    good, bad = measured("launch_time", outcome=Outcome.PASS, similarity=1.0), measured()
    row = row_of(hooks_of(*good, *bad), report_of())
    assert "FAIL" in row[2]
    lowest = verdict_of(bad).similarity
    assert lowest is not None
    assert lowest < 1.0
    assert f"{lowest:.4f}" in row[3]


def test_a_repeated_test_shows_its_last_attempt() -> None:
    last = measured("launch_time", outcome=Outcome.PASS, similarity=1.0)
    hooks = hooks_of(TestStarted(test="t::x"), *measured(), TestStarted(test="t::x"), *last)
    report = report_of()
    row = row_of(hooks, report)
    assert "PASS" in row[2]
    assert "FAIL" not in row[2]
    hooks.pytest_runtest_logreport(report)
    (shown,) = report.extras
    assert "launch_time" in shown["content"]
    assert "triad_rate" not in shown["content"]


@pytest.mark.parametrize("when", ["setup", "teardown"])
def test_plots_are_attached_to_the_call_only(when: str) -> None:
    report = report_of(when)
    hooks_of(*measured()).pytest_runtest_logreport(report)
    assert not hasattr(report, "extras")


def test_extras_of_others_are_kept() -> None:
    report = report_of(extras=[{"name": "theirs"}])
    hooks_of(*measured(), baseline=dossier.baseline(5)).pytest_runtest_logreport(report)
    assert report.extras[0] == {"name": "theirs"}
    content = report.extras[1]["content"]
    assert content.count("<svg") == 2
    assert ">expected</text>" in content


def test_five_hundred_rows_with_telemetry_stay_small() -> None:
    report = report_of()
    hooks = hooks_of(*measured(series=20), baseline=dossier.baseline(5))
    hooks.pytest_runtest_logreport(report)
    stored = html.escape(json.dumps(report.extras[0]))  # as pytest-html keeps it
    assert 500 * len(stored) < 4_800_000


def test_facts_without_a_row_are_on_top_and_escaped() -> None:
    hooks = hooks_of(
        WorkerDied(worker="gw0", lane="cuda:0", text=f"signal 9 {dossier.EVIL}"),
        decided(blocking=(Blocker(cause="blocks"),), listed=("is listed",), noted=("was seen",)),
        TestsPlanned(tests=(PlannedTest(test="t::lost"),)),
        usage=("unit is missing",),
    )
    hooks.pytest_runtest_logreport(report_of(when="???"))
    text = top_of(hooks)
    assert text.count("<script") == 1  # ours
    assert "createElement('main')" in text  # all content is inside a landmark
    for words in (
        *("UNDECIDED", "headline &lt;script&gt;", "blocks", "is listed", "was seen"),
        "lane cuda:0, while no test was running: signal 9 &lt;script&gt;",
        *("t::x: the process died", "unit is missing", "t::lost", "no baseline: learn one"),
    ):
        assert words in text


def test_blockers_are_not_repeated_in_other_lists() -> None:
    died = WorkerDied(worker="gw0", lane="node", test="t.py::test_a[x]", text="hung: no end")
    blocking = (
        Blocker(subject="t.py::test_a[x]", cause="hung: no end"),
        *(
            Blocker(word="NOT_TESTED", subject=f"t.py::test_b cuda:{n}", cause="never reported")
            for n in (0, 1, 10)
        ),
    )
    planned = tuple(PlannedTest(test=f"t.py::test_b[cuda:{n}]") for n in (0, 1, 10, 100))
    hooks = hooks_of(died, decided(blocking=blocking), TestsPlanned(tests=planned))
    crash = report_of("???", "t.py::test_a[x]", "hung: no end\nmore")
    hooks.pytest_runtest_logreport(crash)
    text = top_of(hooks)
    assert text.count("hung: no end") == 1
    assert "<b>crashed</b>" not in text
    assert "<b>in the way of acceptance</b> (4)" in text
    assert "NOT_TESTED t.py::test_b cuda:0, cuda:1, cuda:10: never reported" in text
    assert "t.py::test_b[cuda:100]: planned" in text  # no blocker names it
    assert "t.py::test_b[cuda:1]: planned" not in text


def test_a_row_refers_to_the_top_for_a_missing_baseline() -> None:
    bare = measured(
        outcome=Outcome.INCONCLUSIVE, reason=Reason.NO_BASELINE, text="no baseline: learn one"
    )
    hooks, report = hooks_of(*bare), skipped("INCONCLUSIVE: no baseline: learn one")
    row = row_of(hooks, report)
    assert "learn one" not in row[1]
    assert "> no baseline for this hardware class: see above<" in row[1]
    hooks.pytest_runtest_logreport(report)
    assert "next step:" not in report.extras[0]["content"]  # nothing speaks against the part


def test_a_part_on_top_says_what_became_of_defects_like_it() -> None:
    events = measured()
    closed = Defect(
        number=1, node="n2", found=1.0, closed=2.0, state="confirmed", note=dossier.EVIL,
        benchmarks=(verdict_of(events).benchmark,),
    )  # fmt: skip
    text = top_of(hooks_of(*events, baseline=dossier.baseline(5), closed=(closed,)))
    assert "1 of 1 like it was confirmed; last note: " in text
    assert dossier.EVIL not in text


def test_the_page_ends_with_the_inventory() -> None:
    hooks = hooks_of(*measured(), baseline=dossier.baseline(5))
    page = SimpleNamespace(title="", data={"renderCollapsed": ["passed"]})
    hooks.pytest_html_report_title(page)
    assert page.title == "n1"
    text = top_of(hooks)
    places = [
        text.index(words)
        for words in ("card FAIL", "hardware class class", "id='anubis-inventory'")
    ]
    assert places == sorted(places)
    assert page.title == "n1: not judged"
    assert page.data["renderCollapsed"] == ["passed", "skipped", "xfailed"]


def test_settings_of_the_user_stay() -> None:
    hooks = hooks_of()
    page = SimpleNamespace(title="", data={"renderCollapsed": ["failed"]})
    hooks.pytest_html_report_title(page)
    page.title = "mine"
    top_of(hooks)
    assert (page.title, page.data["renderCollapsed"]) == ("mine", ["failed"])


def test_a_skip_is_one_line_with_its_reason() -> None:
    hooks, report = hooks_of(), skipped("no <tool>", when="setup")
    assert "no &lt;tool&gt;" in row_of(hooks, report)[1]
    logs = ["('t', 3, 'Skipped: no <tool>')", "what it printed"]
    hooks.pytest_html_results_table_html(report, logs)
    assert logs == ["what it printed"]


def test_a_long_reason_of_a_skip_is_folded() -> None:
    who = "other processes used 0.9 of 2 cores: <make> (pid 1148) 0.8"
    disturbed = measured(
        outcome=Outcome.INCONCLUSIVE,
        reason=Reason.DISTURBED,
        text=f"rate is 80 GB/s, expected 100; but the machine was disturbed ({who}): measure again",
    )
    hooks = hooks_of(*disturbed)
    row = row_of(hooks, skipped(f"INCONCLUSIVE: {verdict_of(disturbed).text}"))
    line, folded = row[1].split("</summary>")
    assert line.endswith("<summary>the machine was disturbed: measure again")
    assert html.escape(who) in folded
    row = row_of(hooks, skipped("a tool is not there and " * 9, test="t::y"))
    assert "…</summary>a tool is not there" in row[1]


def test_a_row_shows_the_verdict_of_the_end_of_the_run() -> None:
    early = measured(
        outcome=Outcome.NOT_TESTED, reason=Reason.NO_CRITERION, similarity=None, text="no criterion"
    )
    later = replace(
        verdict_of(early),
        test="",
        outcome=Outcome.INCONCLUSIVE,
        reason=Reason.DISTURBED,
        text="76 % slower <than> before",
    )
    plan = PlannedTest(test="t::x", benchmark=later.benchmark, device=later.device)
    hooks = hooks_of(TestsPlanned(tests=(plan,)), *early, Judged(verdict=later), decided())
    row = row_of(hooks, report_of())
    assert "NOT_TESTED" in row[2]
    page = SimpleNamespace(title="n1", data={"tests": {"t::x": [{"resultsTableRow": row}]}})
    hooks.pytest_html_report_title(page)
    top_of(hooks)
    assert "INCONCLUSIVE" in row[2]
    assert "76 % slower &lt;than&gt; before" in row[2]
    assert len(row) == 6


def rows_of(path: Path) -> dict[str, list[dict[str, Any]]]:
    """Return pytest-html's own data: node id -> rows."""
    found = re.search(r'data-jsonblob="([^"]*)"', path.read_text(encoding="utf-8"))
    assert found
    tests: dict[str, list[dict[str, Any]]] = json.loads(html.unescape(found[1]))["tests"]
    return tests


@pytest.mark.parametrize("workers", ["-n0", "-n1"])
def test_a_real_report(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, workers: str
) -> None:
    monkeypatch.setenv("PYTEST_ANUBIS_PROFILE", "smoke")
    if workers != "-n0":
        monkeypatch.setenv("DIE", "1")
    pytester.makeini("[pytest]\n")
    pytester.makepyfile(test_suite=SUITE)
    pytester.runpytest_subprocess(
        "--anubis", "--html=report.html", "--self-contained-html", workers, "-p", "no:cacheprovider"
    )
    page = pytester.path / "report.html"
    tests = rows_of(page)
    assert "<script>alert" not in page.read_text(encoding="utf-8")
    cells = {len(row["resultsTableRow"]) for rows in tests.values() for row in rows}
    assert cells == {6}
    keys = [row["anubis_verdict"] for rows in tests.values() for row in rows]  # of sorting
    assert len({key[:8] for key in keys}) > 1
    measured_rows = [rows for test, rows in tests.items() if "speed" in test and "None" not in test]
    assert len(measured_rows) == 2
    for rows in measured_rows:
        assert sum(len(row["extras"]) for row in rows) == 1
        assert rows[0]["extras"][0]["content"].count("<svg") == 2
    text = page.read_text(encoding="utf-8")
    assert re.search("<h1 id=.title.>[^<]+: (UNDECIDED|REJECTED)</h1>", text)
    assert "no baseline for hardware class" in text
    died = [line for line in re.findall("<li>(.*?)</li>", text) if "test_dies" in line]
    assert any("died" in line for line in died) == (workers != "-n0")


@pytest.mark.parametrize("how", [[], ["--anubis-in-process"]])
def test_a_run_that_only_lists_its_tests_has_a_page(
    pytester: pytest.Pytester, how: list[str]
) -> None:
    pytester.makepyfile(SUITE)
    options = ["--anubis", "--collect-only", "--html=page.html", "--self-contained-html"]
    result = pytester.runpytest_subprocess(*options, *how)
    assert result.ret == 20
    assert "Traceback" not in result.stderr.str()
    page = (pytester.path / "page.html").read_text(encoding="utf-8")
    assert "nothing was run" in page
