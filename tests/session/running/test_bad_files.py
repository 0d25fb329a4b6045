"""Files that go wrong: bad baselines are one line and exit 4; JUnit and HTML hold every metric."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.places import RECORDED
from tests.session.conftest import Learn

Edit = Callable[[dict[str, Any]], object]
BAD: dict[str, tuple[Edit, str]] = {
    "wrong schema": (lambda d: d.update(schema=99), "schema"),
    "NaN": (lambda d: d["criteria"][0]["centre"].__setitem__(0, float("nan")), "NaN"),
    "negative": (lambda d: d["criteria"][0]["centre"].__setitem__(0, -1.0), "centre"),
    "unsorted": (lambda d: d["criteria"][0]["centre"].reverse(), "centre"),
    "no unit": (lambda d: d["criteria"][0].update(unit=""), "unit"),
    "unit is a number": (lambda d: d["criteria"][0].update(unit=5), "unit"),
    "another unit": (lambda d: d["criteria"][0].update(unit="TFLOP/s"), "edited"),
    "another class": (lambda d: d.update(hardware_class="other"), "other"),
    "no criteria list": (lambda d: d.update(criteria="none"), "criteria"),
    "twice the same": (lambda d: d["criteria"].append(d["criteria"][0]), "criteria"),
    "truncated": (lambda d: None, "not valid JSON"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_baseline_is_one_line_and_exit_4(with_baseline: pytest.Pytester, case: str) -> None:
    (path,) = (with_baseline.path / "baselines").glob("*.json")
    change, word = BAD[case]
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data)[: 200 if case == "truncated" else None])
    result = with_baseline.runpytest("--anubis")
    assert result.ret == 4
    lines = [line for line in result.stderr.lines if line.strip()]
    assert len(lines) == 1
    assert path.name in lines[0]
    assert word in lines[0]


@pytest.mark.usefixtures("in_workers")
@pytest.mark.parametrize("processes", [["--anubis-in-process"], ["-n0"], ["-n2"]])
def test_junit_holds_every_metric_and_the_right_counts(
    project: pytest.Pytester, learn: Learn, processes: list[str]
) -> None:
    import xml.etree.ElementTree as Tree

    learn()
    (project.path / "speed.json").write_text(json.dumps([50.0] * 20))
    path = project.path / "test_suite.py"
    path.write_text(path.read_text() + "\ndef test_plain():\n    pass\n")
    result = project.runpytest("--anubis", "--junitxml=j.xml", *processes)
    assert result.ret == 1
    suite = Tree.parse(project.path / "j.xml").getroot().find("testsuite")  # noqa: S314  # our own file
    assert suite is not None
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("2", "1", "0")
    found = {p.get("name"): p.get("value") for p in suite.iter("property")}
    assert found["anubis.speed"] == "50 GFLOP/s"
    assert found["anubis.speed.verdict"] == "FAIL"


@pytest.mark.usefixtures("in_workers")
@pytest.mark.parametrize("processes", [["--anubis-in-process"], ["-n2"]])
def test_html_report_has_verdict_and_inventory(
    with_baseline: pytest.Pytester, processes: list[str]
) -> None:
    arguments = ["--anubis", "--html=r.html", "--self-contained-html", *processes]
    assert with_baseline.runpytest(*arguments).ret == 0
    page = (with_baseline.path / "r.html").read_text()
    for word in ("ACCEPTED", "&lt;svg", "processor"):
        assert word in page, word


def test_the_store_that_cannot_be_written_is_one_line(with_baseline: pytest.Pytester) -> None:
    (with_baseline.path / "file").write_text("")
    result = with_baseline.runpytest("--anubis", "--anubis-store=file/inside")
    assert result.ret == 4
    result.stderr.fnmatch_lines(
        ["ERROR: --anubis-store: *: cannot start a journal (*); choose another store folder"]
    )


def recorded_as(pytester: pytest.Pytester, node: str, more: str = "") -> str:
    """Return the option that replays the recorded node under another name."""
    text = RECORDED.read_text(encoding="utf-8")
    name = json.loads(text)["inventory"]["node"]
    path = pytester.path / "node.json"
    path.write_text(text.replace(json.dumps(name), json.dumps(node) + more, 1), encoding="utf-8")
    return f"--anubis-inventory={path}"


def test_a_node_cannot_write_lines_of_the_terminal(project: pytest.Pytester) -> None:
    forged = "x\x1b[31m\nACCEPTED: node forged accepted\r\ud800"
    result = project.runpytest("--anubis", recorded_as(project, forged), "--anubis-gate=off")
    said = result.stdout.str()
    assert "\x1b" not in said
    assert "\r" not in said
    assert not [line for line in result.stdout.lines if line.startswith("ACCEPTED: node forged")]
    assert r"x\x1b[31m\nACCEPTED: node forged accepted" in said


def test_a_number_without_end_is_one_line_and_exit_4(project: pytest.Pytester) -> None:
    result = project.runpytest("--anubis", recorded_as(project, "n", f', "kernel": {"9" * 5000}'))
    assert result.ret == 4
    result.stderr.fnmatch_lines(["ERROR: --anubis-inventory: *not valid JSON (Exceeds the limit*"])


@pytest.mark.usefixtures("in_workers")
def test_options_of_disabled_plugins_are_not_needed(project: pytest.Pytester) -> None:
    off = [f"-pno:{name}" for name in ("capture", "setuponly", "setupplan", "debugging")]
    result = project.runpytest_subprocess("--anubis", *off, "--collect-only", "-q", timeout=60)
    assert result.ret == 20  # nothing was to be decided
    result.stdout.fnmatch_lines(["*test_speed*"])
