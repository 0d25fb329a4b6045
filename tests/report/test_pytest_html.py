"""The hooks of pytest-html: columns in every row, plots once, everything that has no row on top."""

from __future__ import annotations

import html
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_anubis.codec import to_plain
from pytest_anubis.core.baseline import Baseline
from pytest_anubis.core.verdict import Decision, NodeVerdict
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


@dataclass
class Source:
    """What a run knows when its report is written."""

    context: Any
    node_verdict: NodeVerdict | None = None
    crashes: list[str] = field(default_factory=list)
    usage_errors: list[str] = field(default_factory=list)
    silent: list[str] = field(default_factory=list)
    chosen: list[dict[str, Any]] = field(default_factory=list)

    def choices(self) -> list[dict[str, Any]]:
        return self.chosen

    def silent_tests(self) -> list[str]:
        return self.silent


def source(baseline: Baseline | None = None, **more: Any) -> Source:
    context = SimpleNamespace(
        node="n1",
        hardware_class="class",
        inventory={"kernel": dossier.EVIL},
        baseline=baseline,
        baseline_note="no baseline: learn one",
    )
    return Source(context=context, **more)


def report_of(data: Any = None, when: str = "call") -> Any:
    report = SimpleNamespace(nodeid="t::x", when=when, longrepr=None)
    if data is not None:
        report.anubis = data
    return report


def measured(name: str = "triad_rate", series: int = 0) -> dict[str, Any]:
    telemetry = tuple((f"GPU 3 sensor {i}", dossier.sample("gemm_rate", i)) for i in range(series))
    found = dossier.measurement(name, 3, dossier.sample(name, 5, 0.8, 400), telemetry=telemetry)
    verdict = dossier.judged(found, dossier.baseline(5), "n1")
    return {"measurements": to_plain([found]), "verdicts": to_plain([verdict])}


@pytest.mark.parametrize(
    "data",
    [None, {}, 3, {"verdicts": [{"outcome": "???"}]}, {"verdicts": [], "measurements": []}],
)
def test_rows_have_as_many_cells_as_the_header_whatever_a_report_holds(data: Any) -> None:
    hooks = HtmlReport(source())
    header, row = ["<th>"] * 4, ["<td>"] * 4
    hooks.pytest_html_results_table_header(header)
    hooks.pytest_html_results_table_row(report_of(data), row)
    assert len(header) == len(row) == 6


def test_the_worst_verdict_and_the_lowest_similarity_stand_in_the_row() -> None:
    hooks = HtmlReport(source())
    both = [measured("triad_rate"), measured("launch_time")]
    both[1]["verdicts"][0] |= {"outcome": "PASS", "similarity": 1.0}
    data = {key: both[1][key] + both[0][key] for key in ("measurements", "verdicts")}
    row = ["<td>"] * 4
    hooks.pytest_html_results_table_row(report_of(data), row)
    assert "FAIL" in row[2]
    assert f"{both[0]['verdicts'][0]['similarity']:.4f}" in row[3]


@pytest.mark.parametrize("when", ["setup", "teardown"])
def test_plots_are_attached_to_the_call_only(when: str) -> None:
    hooks, report = HtmlReport(source()), report_of(measured(), when)
    hooks.pytest_runtest_logreport(report)
    assert not hasattr(report, "extras")


def test_extras_of_others_are_kept() -> None:
    hooks, report = HtmlReport(source(dossier.baseline(5))), report_of(measured())
    report.extras = [{"name": "theirs"}]
    hooks.pytest_runtest_logreport(report)
    assert report.extras[0] == {"name": "theirs"}
    content = report.extras[1]["content"]
    assert content.count("<svg") == 2
    assert ">expected</text>" in content


def test_five_hundred_rows_with_telemetry_stay_below_five_megabytes() -> None:
    hooks, report = HtmlReport(source(dossier.baseline(5))), report_of(measured(series=20))
    hooks.pytest_runtest_logreport(report)
    stored = html.escape(json.dumps(report.extras[0]))  # as pytest-html keeps it
    assert 500 * len(stored) < 4_800_000


def test_what_has_no_row_stands_on_top_and_is_escaped() -> None:
    hooks = HtmlReport(
        source(
            node_verdict=NodeVerdict(
                node="n1",
                decision=Decision.UNDECIDED,
                headline=f"headline {dossier.EVIL}",
                blocking=("blocks",),
                listed=("is listed",),
            ),
            crashes=["worker gw0 died"],
            usage_errors=["unit is missing"],
            silent=["t::lost: planned, but never reported"],
        )
    )
    hooks.pytest_runtest_logreport(report_of(when="???"))
    prefix: list[str] = []
    hooks.pytest_html_results_summary(prefix)
    text = "".join(prefix)
    assert "<script" not in text
    for words in (
        *("UNDECIDED", "headline &lt;script&gt;", "blocks", "is listed", "worker gw0 died"),
        *("t::x: the process died", "unit is missing", "t::lost", "no baseline: learn one"),
    ):
        assert words in text


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
    measured_rows = [rows for test, rows in tests.items() if "speed" in test and "None" not in test]
    assert len(measured_rows) == 2
    for rows in measured_rows:
        assert sum(len(row["extras"]) for row in rows) == 1
        assert rows[0]["extras"][0]["content"].count("<svg") == 2
    text = page.read_text(encoding="utf-8")
    assert "no baseline for hardware class" in text
    told = any(
        "test_dies" in line and "died" in line for line in re.findall("<li>(.*?)</li>", text)
    )
    assert told == (workers != "-n0")
