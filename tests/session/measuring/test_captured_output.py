"""The output of tests is bounded, and no test takes stdout from another."""

from __future__ import annotations

import io
import os
import tempfile

import pytest

from pytest_anubis.codec.encodable_text import MAX_TEXT_LENGTH
from pytest_anubis.session.measuring.captured_output import CapturedOutput

LOUD = f"""
import os, sys

SIZE = {4 * MAX_TEXT_LENGTH}

def test_loud():
    print("begin" + "x" * SIZE + "end")
    os.write(2, b"y" * SIZE)
    assert 0

def test_fixture(capsys):
    print("z" * SIZE)
    assert len(capsys.readouterr().out) == SIZE + 1

def test_soft():
    print("small")
    assert 0
"""
RUDE = """
import io, sys
import pytest

@pytest.mark.parametrize("number", range(2))
def test_close(number):
    sys.stdout.close()
    sys.stderr.detach()

def test_wrap():
    sys.stdout = io.TextIOWrapper(sys.stdout.buffer, encoding="latin-1")

def test_innocent():
    print("still printed")
    sys.stderr.write("too")
    assert 0
"""


@pytest.mark.parametrize("capture", ["fd", "sys"])
def test_output_of_a_test_is_cut_in_its_middle(pytester: pytest.Pytester, capture: str) -> None:
    pytester.makepyfile(test_it=LOUD)
    record = pytester.inline_run("--anubis", f"--capture={capture}")
    reports = {
        r.nodeid: r for r in record.getreports("pytest_runtest_logreport") if r.when == "call"
    }
    assert [r.outcome for r in reports.values()] == ["failed", "passed", "failed"]
    loud = dict(reports["test_it.py::test_loud"].sections)
    out = loud["Captured stdout call"]
    assert out.startswith("beginx")
    assert out.endswith("xend\n")
    assert MAX_TEXT_LENGTH // 2 < len(out) <= MAX_TEXT_LENGTH
    assert out.count("left out") == 1
    left = int(out.partition("\n... ")[2].split()[0])
    assert (
        len(out.replace(f"\n... {left} bytes left out ...\n", "")) + left == 4 * MAX_TEXT_LENGTH + 9
    )
    if capture == "fd":
        assert len(loud["Captured stderr call"]) <= MAX_TEXT_LENGTH
    soft = dict(reports["test_it.py::test_soft"].sections)
    assert soft == {"Captured stdout call": "small\n"}


@pytest.mark.parametrize("capture", ["fd", "sys"])
def test_who_closes_stdout_closes_it_for_nobody(pytester: pytest.Pytester, capture: str) -> None:
    pytester.makeini("[pytest]\nfilterwarnings = default\n")  # Python warns of such a wrapper too
    pytester.makepyfile(test_it=RUDE)
    result = pytester.runpytest("--anubis", f"--capture={capture}")
    result.assert_outcomes(passed=3, failed=1)
    result.stdout.fnmatch_lines(["still printed", "too"])
    result.stdout.fnmatch_lines(
        ["*test_close?0? left behind: sys.stderr closed; sys.stdout closed"]
    )


def test_file_of_the_user_is_never_cut(pytester: pytest.Pytester) -> None:
    """With -s stdout is the user's own, maybe a file."""
    path = pytester.path / "log.txt"
    with path.open("w+") as file:
        for config_capture in ("no", "fd"):
            config = pytester.parseconfig(f"--capture={config_capture}")
            output = CapturedOutput(config)
            file.write("x" * 2 * MAX_TEXT_LENGTH)
            output._cut(file)
            assert path.stat().st_size % (2 * MAX_TEXT_LENGTH) == 0
    assert path.stat().st_size == 4 * MAX_TEXT_LENGTH


def test_file_without_a_name_is_cut_and_goes_on(pytester: pytest.Pytester) -> None:
    output = CapturedOutput(pytester.parseconfig())
    with tempfile.TemporaryFile("w+") as file:
        file.write("é" * 2 * MAX_TEXT_LENGTH)
        output._cut(file)
        os.write(file.fileno(), b"more")  # as a child does that still has it
        file.seek(0)
        text = file.read()
    assert len(text.encode()) <= MAX_TEXT_LENGTH + 10
    assert (text[0], text[-5:]) == ("é", "émore")
    closed = io.StringIO()
    closed.close()
    output._cut(closed)  # any object in place of stdout


@pytest.mark.usefixtures("quick_processes")
@pytest.mark.parametrize("soak", [(), ("--anubis-duration=100ms",)])
def test_a_run_goes_without_the_plugins_of_pytest_that_it_can_do_without(
    pytester: pytest.Pytester, soak: tuple[str, ...]
) -> None:
    pytester.makepyfile("def test_a():\n    print('a')")
    without = ("-p", "no:capture", "-p", "no:debugging")
    result = pytester.runpytest_subprocess("--anubis", *without, *soak)
    assert result.ret == 20
    result.stdout.fnmatch_lines(["a*", "* 1 passed*"])
