"""Mistakes in a test's own code: no verdict on the hardware, no defect, and what was meant."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cli.command_line import anubis
from tests.run_journals import events_of
from tests.session.conftest import Learn

# A test's parameters and body -> text of the message.
MISTAKES = {
    "fixture": ("anubis_metric, anubis_devise", "pass", "fixture 'anubis_devise' not found"),
    "name": ("anubis_metric", "lenght = 3; length", "NameError: name 'length' is not defined"),
    "call": ("anubis_metric", "helper()", "TypeError: helper() missing 1 required"),
    "fixture called": ("anubis_metric", "anubis_metric('x', 1)", "object is not callable"),
    "import": ("anubis_metric", "from json import lods", "ImportError: cannot import name 'lods'"),
    "attribute": ("anubis_metric", "anubis_metric.recrod('x')", "has no attribute 'recrod'"),
    "syntax": ("anubis_metric", "import beside_it", "SyntaxError: "),
}
MEANT = {"fixture": "anubis_device", "name": "lenght", "attribute": "record"}


def write_test(project: pytest.Pytester, parameters: str, body: str) -> None:
    """Write a test next to the healthy one."""
    project.makepyfile(beside_it="def broken(:\n    pass\n")
    with (project.path / "test_suite.py").open("a") as out:
        out.write(
            "\ndef helper(one):\n    return one\n\n"
            "@pytest.mark.anubis(component='cpu.compute')\n"
            f"def test_odd({parameters}):\n    {body}\n"
        )


def last_verdict(project: pytest.Pytester) -> dict[str, Any]:
    """Return the last run's decision."""
    return events_of(project, "node_verdict")[-1]


@pytest.mark.parametrize("case", MISTAKES)
def test_code_mistake_suggests_a_fix(
    project: pytest.Pytester, learn: Learn, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")  # else pytest cuts its summary
    learn()
    parameters, body, words = MISTAKES[case]
    write_test(project, parameters, body)
    history = f"sqlite:///{project.path}/fleet.sqlite"
    result = project.runpytest("--anubis", "-rfE", f"--anubis-history={history}")
    assert result.ret == 20
    hint = f"*did you mean {MEANT[case]}?*" if case in MEANT else "*"
    (blocking,) = [str(b) for b in last_verdict(project)["blocking"] if "test_odd" in str(b)]
    file = "beside_it.py:1" if case == "syntax" else "test_suite.py:1"
    assert "the benchmark is written wrongly: " in blocking
    assert words in blocking
    assert file in blocking
    assert case not in MEANT or f"did you mean {MEANT[case]}?" in blocking
    result.stdout.fnmatch_lines([f"*test_odd* - *{words}{hint}"])
    status = anubis("fleet", "status", "--history", history)
    assert "quarantine" not in status.stdout


@pytest.mark.usefixtures("in_workers")
def test_a_missing_fixture_is_told_by_workers_too(with_baseline: pytest.Pytester) -> None:
    write_test(with_baseline, *MISTAKES["fixture"][:2])
    result = with_baseline.runpytest("--anubis", "-n1", "--anubis-profile=smoke")
    assert result.ret == 20
    assert any(
        "did you mean anubis_device?" in str(b) for b in last_verdict(with_baseline)["blocking"]
    )


@pytest.mark.parametrize(
    "body",
    [
        "json.loads(b'1', parse_float=lambda: 1); json.loads('1.5', parse_float=lambda: 1)",
        "exec('try:\\n raise RuntimeError(1)\\nexcept RuntimeError:\\n length')",
        "raise TypeError('the card returned nonsense')",
        "assert length == 3 if False else False",
        "{}['length']",
        "vars().get('length')()",
    ],
)
def test_every_other_error_still_counts(with_baseline: pytest.Pytester, body: str) -> None:
    write_test(with_baseline, "anubis_metric", body)
    assert with_baseline.runpytest("--anubis").ret == 1


def test_a_defect_of_the_package_rejects_no_node(
    with_baseline: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_test(
        with_baseline, "anubis_metric", "anubis_metric.record('x', [1.0], unit='W', better='lower')"
    )
    monkeypatch.setattr("pytest_anubis.session.measuring.recorder.evidence_of", 1)
    assert with_baseline.runpytest("--anubis").ret == 20
    assert any("recorder.py" in str(one) for one in last_verdict(with_baseline)["blocking"])


def test_misspelt_metric_rejects_nothing(with_baseline: pytest.Pytester) -> None:
    path = with_baseline.path / "test_suite.py"
    path.write_text(
        path.read_text().replace('scope="device"', 'scope="device", metrics=["speed", "heat_rate"]')
        + '\n    anubis_metric.record("heat_rat", [1.0], unit="W", better="lower")\n'
    )
    result = with_baseline.runpytest("--anubis", "-rs")
    assert result.ret == 20
    result.stdout.fnmatch_lines(
        ["SKIPPED*the benchmark is written wrongly: heat_rate*did you mean heat_rate?"]
    )
