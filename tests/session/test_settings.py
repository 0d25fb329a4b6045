"""Settings and marks: what wins, and one clear line for what is wrong."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pytest_anubis import settings
from pytest_anubis.durations import seconds
from pytest_anubis.options import OPTIONS
from pytest_anubis.settings import resolve

BENCHMARK = (
    "def test_x(anubis_metric):\n    anubis_metric.record('x', 1, unit='s', better='lower')\n"
)


def profile_of(pytester: pytest.Pytester, *arguments: str, environ: dict[str, str]) -> str:
    return resolve(pytester.parseconfig(*arguments), environ).profile


def test_precedence_of_settings(pytester: pytest.Pytester) -> None:
    assert profile_of(pytester, environ={}) == "smoke"
    pytester.makeini("[pytest]\nanubis_profile = standard\n")
    assert profile_of(pytester, environ={}) == "standard"
    environ = {"PYTEST_ANUBIS_PROFILE": "soak"}
    assert profile_of(pytester, environ=environ) == "soak"
    assert profile_of(pytester, "--anubis-profile=smoke", environ=environ) == "smoke"


def test_native_toml_works(pytester: pytest.Pytester) -> None:
    pytester.makepyprojecttoml(
        '[tool.pytest]\nanubis_profile = "soak"\nanubis_require_all = true\n'
        'anubis_goals_required = ["suites"]\n'
    )
    settings = resolve(pytester.parseconfig(), {})
    assert settings.profile == "soak"
    assert settings.require_all
    assert settings.goals_required == (pytester.path / "suites",)


def test_lists_of_a_repeated_option_are_joined(pytester: pytest.Pytester) -> None:
    """The last one replaced the others, though each advice names one more process."""
    options = ("--anubis-allow-process=a,b", "--anubis-allow-process=c", "--anubis-require=x")
    settings = resolve(pytester.parseconfig(*options, "--anubis-require=y"), {})
    assert settings.allowed_processes == ("a", "b", "c")
    assert settings.require == ("x", "y")


@pytest.mark.parametrize(
    ("arguments", "ini", "words"),
    [
        (["--anubis", "--anubis-timeout=fast"], "", "500ms, 20s"),
        (["--anubis", "--anubis-timeout=0"], "", "more than 0"),
        (["--anubis", "--anubis-run-id=a/b"], "", "letters, digits"),
        (["--anubis", "--anubis-scratch=nowhere"], "", "no such folder"),
        (["--anubis", "--anubis-scratch=/dev"], "", "holds devices"),
        (["--anubis"], "anubis_profile = quick", "smoke, standard, soak"),
        (["--anubis", "--anubis-inventory=none.json"], "", "none.json: cannot be read"),
        (["--anubis", "--anubis-baseline=none.json"], "", "none.json: no such file"),
        (["--anubis", "-n2"], "", "--anubis-in-process and -n (or --tx) exclude each other"),
        (["--anubis", "--anubis-baseline=nowhere"], "", "nowhere: no such file or folder"),
    ],
)
def test_wrong_settings_are_one_line(
    pytester: pytest.Pytester, arguments: list[str], ini: str, words: str
) -> None:
    pytester.makeini(f"[pytest]\n{ini}\n")
    pytester.makepyfile(BENCHMARK)
    result = pytester.runpytest(*arguments)
    assert result.ret == 4
    text = result.stderr.str()
    assert words in text
    assert "Traceback" not in text


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("--anubis-basline=b.json", "did you mean --anubis-baseline?"),
        ("--anubi", "did you mean --anubis?"),
        ("--anubis-xyzzy", "pytest --help lists the valid ones"),
    ],
)
def test_misspelt_option_gets_a_suggestion(pytester: pytest.Pytester, word: str, hint: str) -> None:
    pytester.makepyfile(BENCHMARK)
    result = pytester.runpytest(word)
    assert result.ret == 4
    result.stderr.fnmatch_lines([f"*unrecognized arguments: {word} ({hint})"])
    assert "Traceback" not in result.stderr.str()


def test_conftest_option_may_begin_like_ours(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        "def pytest_addoption(parser):\n    parser.addoption('--anubis-rack', default='')\n"
    )
    pytester.makepyfile(
        "def test_rack(pytestconfig): assert pytestconfig.option.anubis_rack == 'r1'"
    )
    assert pytester.runpytest("--anubis-rack=r1").ret == 0


@pytest.mark.parametrize(
    ("text", "expected"), [("500ms", 0.5), ("20s", 20), ("2m", 120), ("1.5h", 5400), (3, 3)]
)
def test_durations(text: str, expected: float) -> None:
    assert seconds(text) == expected


@pytest.mark.parametrize("text", ["", "fast", "-1s", "5 parsec", True])
def test_wrong_durations(text: str) -> None:
    with pytest.raises(ValueError, match="500ms"):
        seconds(text)


@pytest.mark.parametrize(
    ("mark", "words"),
    [
        ("component='cpu', speed=1", "no key 'speed'*valid keys: component"),
        ("'cpu'", "keywords only"),
        ("component='CPU core'", "must look like"),
        ("component='c', cards=3", "cards must be 0, 1 or 2, found 3"),
        ("component='c', cards=True", "cards must be 0, 1 or 2, found True"),
        ("component='c', version=0", "version must be a whole number from 1 on, found 0"),
        ("component='c', version='2'", "version must be a whole number from 1 on, found '2'"),
        ("component='c', timing='cpu'", "timing 'cpu' is none of device, host"),
        ("scope='rack'", "device, pair, node"),
        ("cost='soon'", "500ms"),
        ("metrics='speed'", "list of names"),
        ("goal=3", "goal must be text"),
    ],
)
def test_wrong_marks_name_test_key_and_fix(
    pytester: pytest.Pytester, mark: str, words: str
) -> None:
    pytester.makepyfile(f"import pytest\n\n@pytest.mark.anubis({mark})\n{BENCHMARK}")
    result = pytester.runpytest()
    assert result.ret == 4
    result.stderr.fnmatch_lines([f"*test_x: mark anubis*{words}*"])


def test_required_goals_are_checked(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nanubis_goals_required = ours\n")
    ours = pytester.mkdir("ours")
    (ours / "test_ours.py").write_text(BENCHMARK)
    pytester.makepyfile(test_theirs=BENCHMARK)
    assert pytester.runpytest("test_theirs.py").ret == 0
    result = pytester.runpytest()
    assert result.ret == 4
    result.stderr.fnmatch_lines(["*test_ours.py::test_x: mark anubis lacks component, goal*"])


def test_quiet_limits_and_allowed_processes(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makeini("[pytest]\nanubis_quiet_limit = others=20%, steal=0.05\n")
    monkeypatch.setenv("PYTEST_ANUBIS_ALLOW_PROCESS", "dcgm-exporter, kube*")
    found = resolve(pytester.parseconfig())
    assert found.quiet_limits == {"others": pytest.approx(0.2), "steal": 0.05}
    assert found.allowed_processes == ("dcgm-exporter", "kube*")


@pytest.mark.parametrize("wrong", ["others", "cpu=much", "cpu=120%", "io=-1", "load=0.1", "io=nan"])
def test_a_limit_that_is_none_is_refused(pytester: pytest.Pytester, wrong: str) -> None:
    result = pytester.runpytest("--anubis", f"--anubis-quiet-limit={wrong}")
    assert result.ret == 4
    result.stderr.fnmatch_lines([f"ERROR: --anubis-quiet-limit '{wrong}': write NAME=SHARE *"])


def test_every_option_is_in_the_help(pytester: pytest.Pytester) -> None:
    text = pytester.runpytest("--help").stdout.str()
    for option in OPTIONS:
        assert option.flag in text
        if option.ini:
            assert f"{option.dest} (" in text


def test_the_mark_is_documented(pytester: pytest.Pytester) -> None:
    pytester.runpytest("--markers").stdout.fnmatch_lines(["@pytest.mark.anubis(*component*"])


@pytest.mark.usefixtures("in_workers")
def test_pytest_works_without_the_plugin(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_x():\n    pass\n")
    assert pytester.runpytest("-p", "no:anubis").ret == 0


def test_scratch_folder_that_cannot_be_written_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert settings._folder(tmp_path) == tmp_path
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(pytest.UsageError, match="cannot be written"):
        settings._folder(tmp_path)
