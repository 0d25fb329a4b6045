"""A process that is forked is what a started one would be, as far as the tests look."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.forked import Forked, can_be_forked

SHOWS = """
import os, signal, sys
def test_x():
    deaf = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    print("SHOWN", os.getcwd(), os.environ["WORD"], sys.stdin.read() == "", deaf, flush=True)
    print("AND HERE", file=sys.stderr)
    if os.environ["WORD"] == "kill":
        os.kill(os.getpid(), 9)
    assert os.environ["WORD"] == "pass"
"""


@pytest.mark.parametrize(("word", "code"), [("pass", 0), ("fail", 1), ("kill", -signal.SIGKILL)])
def test_it_has_its_place_and_its_variables_and_tells_its_end(
    tmp_path: Path, word: str, code: int
) -> None:
    (tmp_path / "test_it.py").write_text(SHOWS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    with Forked(
        [sys.executable, "-m", "pytest", "-s", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        env={**os.environ, "WORD": word},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.pid != os.getpid()
        out, error = process.communicate(timeout=60)
    assert process.returncode == process.poll() == code
    assert f"SHOWN {tmp_path} {word} True False" in out
    assert error == "AND HERE\n"


def test_what_counts_at_the_start_of_a_process_makes_it_start() -> None:
    command = [sys.executable, "-m", "pytest"]
    assert can_be_forked(command)
    assert not can_be_forked(command, {**os.environ, "LD_PRELOAD": "x"})
    assert not can_be_forked([sys.executable, "-c", "pass"])
    assert not can_be_forked([sys.executable, "-m", "suites.compute.cold"])


ENDS = """
import atexit, threading, time
def late():
    time.sleep(0.05)
    print("THREAD")
def test_x():
    atexit.register(print, "AT EXIT")
    threading.Thread(target=late).start()
"""


def test_its_end_waits_for_threads_and_runs_what_was_left_for_it(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(ENDS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-s", "-p", "no:cacheprovider"]
    with Forked(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert out.endswith("THREAD\nAT EXIT\n")


def test_a_worker_is_a_child_of_its_run_and_has_what_children_inherit(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORD", "here")
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    pytester.makepyfile(
        f"""
        import os, resource, sys
        def test_x():
            assert "tests.forking" in sys.modules  # it was forked
            assert os.getppid() == {os.getpid()}
            assert os.getcwd() == {str(pytester.path)!r}
            assert os.environ["WORD"] == "here"
            assert os.sched_getaffinity(0) == {os.sched_getaffinity(0)}
            assert resource.getrlimit(resource.RLIMIT_CORE) == {(soft, hard)}
        def test_dies():
            os.kill(os.getpid(), 9)
        """
    )
    result = pytester.runpytest_inprocess("-n1", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*worker 'gw0' crashed while running*test_dies*"])
