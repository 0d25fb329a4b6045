"""The value of an option must not move pytest's root folder, and with it baselines and names of tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_anubis.root_folder import moved_root

BENCHMARK = """
import pytest
@pytest.mark.anubis(component="host.cpu", scope="node")
def test_x(anubis_metric):
    anubis_metric.record("x", [1.0] * 5, unit="s", better="lower")
"""


@pytest.fixture
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that has only ``/`` or the tests' own temporary folder above it in common with the project."""
    return tmp_path_factory.mktemp("elsewhere")


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makepyfile(**{"suites/test_x": BENCHMARK})
    return pytester


@pytest.mark.parametrize("flag", ["--anubis-store", "--anubis-history", "--anubis-scratch"])
def test_a_value_apart_from_its_option_that_moves_the_root_is_refused(
    project: pytest.Pytester, elsewhere: Path, flag: str
) -> None:
    result = project.runpytest("--anubis", "suites", flag, str(elsewhere))
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (line,) = [line for line in result.errlines if "ERROR" in line]
    assert f"the value of {flag}, for a folder of tests" in line
    assert f"write {flag}={elsewhere}" in line


def test_a_file_apart_from_its_option_is_refused_as_well(
    project: pytest.Pytester, elsewhere: Path
) -> None:
    (elsewhere / "waivers.toml").touch()
    result = project.runpytest(
        "--anubis-waivers", str(elsewhere / "waivers.toml"), "--anubis", "suites"
    )
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "write --anubis-waivers=" in result.stderr.str()


def test_another_project_whose_ini_file_is_found_first_is_refused(
    project: pytest.Pytester, elsewhere: Path
) -> None:
    (elsewhere / "pytest.ini").write_text("[pytest]\n")
    (elsewhere / "runs").mkdir()
    result = project.runpytest("--anubis-store", str(elsewhere / "runs"), "--anubis", "suites")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert f"its root folder would be {elsewhere}" in result.stderr.str()


@pytest.mark.parametrize(
    ("ini", "words"),
    [
        ("", ["--anubis-store={elsewhere}"]),
        ("", ["--anubis-store", "runs"]),  # below the project: nothing moves
        ("", ["--rootdir=.", "--anubis-store", "{elsewhere}"]),
        ("pytest.ini", ["--anubis-store", "{elsewhere}"]),
        ("setup.py", ["--anubis-store", "runs"]),
    ],
)
def test_where_nothing_moves_nothing_is_refused(
    project: pytest.Pytester, elsewhere: Path, ini: str, words: list[str]
) -> None:
    project.mkdir("runs")
    if ini:
        (project.path / ini).write_text("[pytest]\n" if ini == "pytest.ini" else "")
    named = [word.format(elsewhere=elsewhere) for word in words]
    result = project.runpytest("--anubis", "suites", *named)
    assert "takes" not in result.stderr.str()
    assert result.ret == 20  # no baseline


def test_other_runs_are_left_alone(project: pytest.Pytester, elsewhere: Path) -> None:
    result = project.runpytest("suites", "--anubis-store", str(elsewhere))
    assert result.ret == 0


def test_an_outer_configuration_that_would_be_the_root_is_refused(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = project.path / "inner"
    (project.path / "suites").rename(project.mkdir("inner") / "suites")
    project.mkdir("runs")
    (project.path / "pyproject.toml").touch()
    (inner / "pytest.ini").write_text("[pytest]\n")
    monkeypatch.chdir(inner)
    result = project.runpytest("--anubis", "suites", "--anubis-store", "../runs")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "write --anubis-store=../runs" in result.stderr.str()


def test_the_whole_file_system_is_never_the_right_root(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/")
    result = project.runpytest(
        "--anubis", str(project.path / "suites"), "--anubis-store", "/proc/self"
    )
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "its root folder would be /:" in result.stderr.str()


def test_names_of_packages_are_no_places(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    suites = project.path / "suites"
    (suites / "runs").mkdir()
    monkeypatch.chdir("/")
    config = project.parseconfig(
        "--anubis", "--pyargs", "json", str(suites), "--anubis-store", str(suites / "runs")
    )
    assert moved_root(config) == ""


def test_a_place_may_be_given_as_a_path(project: pytest.Pytester, elsewhere: Path) -> None:
    config = project.parseconfig("--anubis", "suites", "--anubis-store", elsewhere)
    assert "write --anubis-store=" in moved_root(config)
