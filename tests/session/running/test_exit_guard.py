"""Whatever ends the process: a status of 0 is an accepting verdict in a closed journal, or it is no 0."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_anubis.core.events import BlockerFound, RunFinished, RunStarted
from pytest_anubis.core.verdict import Decision
from pytest_anubis.session.running import exit_guard
from pytest_anubis.session.running.exit_guard import _once
from pytest_anubis.store.journal.journal_file import Journal
from pytest_anubis.store.journal.journal_reading import read_journal
from tests.forked import Forked
from tests.run_journals import record_of
from tests.session.conftest import HEALTHY, Learn, set_speed

ENDS = """
import ctypes, os
def test_ends():
    how = os.environ.get("HOW", "")
    if how == "os._exit":
        os._exit(0)
    if how == "exit of C":
        ctypes.CDLL(None).exit(0)
    if how == "execv":
        os.execv("/bin/true", ["true"])
    if how == "a timeout's thread":
        os._exit(1)
"""


def started(project: pytest.Pytester, *more: str, **environment: str) -> Forked:
    """Let pytest's command run in the folder of the project."""
    return Forked(
        [sys.executable, "-m", "pytest", "--anubis", "-p", "no:cacheprovider", *more],
        cwd=project.path,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.parametrize(
    ("how", "decides"),
    [
        ("os._exit", "accepted"),
        ("exit of C", "accepted"),
        ("execv", "accepted"),
        ("a timeout's thread", "rejected"),
    ],
)
def test_process_ending_itself_decides_nothing(
    with_baseline: pytest.Pytester, how: str, decides: str
) -> None:
    set_speed(with_baseline, [0.5 * value for value in HEALTHY])
    (with_baseline.path / "test_z_ends.py").write_text(ENDS)
    process = started(with_baseline, HOW=how)
    said, _ = process.communicate()
    assert process.returncode == 20, said
    assert f"nothing is {decides} (exit status 20)" in said


def test_a_caller_that_closed_the_output_gets_the_status(
    project: pytest.Pytester, learn: Learn
) -> None:
    learn()
    set_speed(project, [0.5 * value for value in HEALTHY])
    pytest_command = [sys.executable, "-m", "pytest", "--anubis", "-p", "no:cacheprovider"]
    ended = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", *pytest_command],
        cwd=project.path,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (1, "")


@pytest.mark.parametrize(
    "late",
    [
        "def pytest_sessionfinish(session):\n    session.exitstatus = 0",
        "import os\ndef pytest_unconfigure():\n    os._exit(0)",
        "import os, atexit\natexit.register(os._exit, 0)",
    ],
)
def test_no_plugin_makes_a_rejection_a_0(with_baseline: pytest.Pytester, late: str) -> None:
    set_speed(with_baseline, [0.5 * value for value in HEALTHY])
    with_baseline.makeconftest(late)
    process = started(with_baseline)
    said, _ = process.communicate()
    assert process.returncode in (1, 20), said


@pytest.mark.parametrize("status", [6, 7, -3])
def test_status_changed_by_a_plugin_is_never_0(with_baseline: pytest.Pytester, status: int) -> None:
    with_baseline.makeconftest(
        "import pytest\n@pytest.hookimpl(trylast=True)\n"  # 6 is pytest's own, of --max-warnings
        f"def pytest_sessionfinish(session):\n    session.exitstatus = {status}\n"
    )
    assert int(with_baseline.runpytest("--anubis", "--anubis-in-process").ret) == status


def test_acceptance_is_0_also_for_pytest_main(with_baseline: pytest.Pytester) -> None:
    process = started(with_baseline)
    said, _ = process.communicate()
    assert process.returncode == 0, said
    assert "nothing was judged" not in said
    program = "import pytest, sys\nprint('mine', int(pytest.main(['--anubis', '-q'])))"
    result = with_baseline.run(sys.executable, "-c", program)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*mine 0"])


# The main thread has ended, another one has not: so a process looks whose thread a driver keeps.
HANGS = """
import ctypes, os, threading, time
from pytest_anubis.session.running import exit_guard
exit_guard._LOOK = exit_guard._STUCK = 0.1
channel = exit_guard._forked()
said = os.environ["SAID"].encode()
os.write(channel, said)
libc = ctypes.CDLL(None)
threading.Thread(target=libc.sleep, args=(600,), daemon=True).start()
time.sleep(0.5)  # no end before its time
libc.pthread_exit(None)
"""


@pytest.mark.parametrize(("said", "code"), [("1\n", 1), ("0\n", 0), ("", 20)])
def test_thread_hanging_in_a_driver_is_left(said: str, code: int) -> None:
    command = [sys.executable, "-c", HANGS]
    environment = {**os.environ, "SAID": said}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        try:
            _, error = process.communicate(timeout=200)
        finally:
            process.kill()
    assert process.returncode == code
    assert "hangs in the kernel" in error


@pytest.mark.parametrize(
    ("number", "code", "sent"),
    [
        (1131998112, -1941886656, []),  # as Python returned once after a stop by Ctrl-Z
        (int(signal.SIGINT), -1941886656, []),
        (int(signal.SIGTERM), 0, [signal.SIGTERM]),
        (int(signal.SIGTERM), 0x80, []),  # from the kernel, as of a terminal
    ],
)
def test_only_what_a_process_has_sent_is_passed_on(
    number: int, code: int, sent: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    info = SimpleNamespace(si_signo=number, si_code=code)
    found: list[int] = []
    monkeypatch.setattr(signal, "sigtimedwait", lambda *_: info)
    monkeypatch.setattr(os, "kill", lambda _, given: found.append(given))
    monkeypatch.setattr(os, "waitpid", lambda *_: (1, 0))
    monkeypatch.setattr(exit_guard, "_end", lambda *_: sys.exit(0))
    with pytest.raises(SystemExit):
        exit_guard._watch(1, 0)
    assert found == sent


@pytest.mark.parametrize(
    "option",
    ["--fixtures", "--fixtures-per-test", "--collect-only", "--markers", "--setup-plan"],
)
def test_what_runs_no_test_accepts_nothing(with_baseline: pytest.Pytester, option: str) -> None:
    assert with_baseline.runpytest("--anubis", "--anubis-store=listed", option).ret == 20
    assert (with_baseline.path / "listed").exists() == (
        option == "--setup-plan"
    )  # a list is no run


@pytest.mark.parametrize("part", ["run", "judge", "terminal", "gate", "exit", "devices"])
def test_a_run_does_without_none_of_its_parts(with_baseline: pytest.Pytester, part: str) -> None:
    result = with_baseline.runpytest("--anubis", "-p", f"no:anubis-{part}")
    assert result.ret == 4
    result.stderr.fnmatch_lines([f"*-p no:anubis-{part}: no run with --anubis goes without*"])


SLEEPS = """
import pathlib, time
def test_sleeps():
    pathlib.Path("asleep").touch()
    time.sleep(60)
"""


def asleep(project: pytest.Pytester, *more: str) -> Forked:
    """Start a run, and return once its test sleeps."""
    (project.path / "test_sleeps.py").write_text(SLEEPS)
    process = started(project, "test_sleeps.py", *more)
    while not (project.path / "asleep").exists():
        assert process.poll() is None
        time.sleep(0.02)
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_signals_to_the_started_process_reach_the_run(
    with_baseline: pytest.Pytester, number: signal.Signals
) -> None:
    process = asleep(with_baseline)
    process.send_signal(number)
    said, _ = process.communicate(timeout=60)  # ends with the last one who holds the pipe
    killed = number == signal.SIGKILL
    assert process.returncode == (-number if killed else 2), said
    record = record_of(with_baseline)
    assert record.broken_off
    decided = record.node_verdict
    assert decided is None if killed else decided and decided.decision is Decision.UNDECIDED


def test_launcher_ignoring_sigchld_gets_a_status(with_baseline: pytest.Pytester) -> None:
    command = f"trap '' CHLD; exec {sys.executable} -m pytest --anubis -q"
    result = with_baseline.run("sh", "-c", command, timeout=60)
    assert result.ret == 0


def test_a_run_that_cannot_be_watched_is_refused(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full() -> int:
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", full)
    monkeypatch.setattr(exit_guard, "_is_command", lambda: True)
    result = project.runpytest("--anubis")
    assert result.ret == 4
    assert "no process can be made" in result.stderr.str()


def test_one_ctrl_c_that_comes_twice_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    interrupt = _once()
    with pytest.raises(KeyboardInterrupt):
        interrupt(signal.SIGINT, None)
    now[0] = 0.1
    interrupt(signal.SIGINT, None)
    now[0] = 2.0
    with pytest.raises(KeyboardInterrupt):
        interrupt(signal.SIGINT, None)


# The record is durable, or the run says so.


@pytest.mark.parametrize("call", ["write", "fdatasync"])
def test_what_the_disk_does_not_keep_cannot_accept(
    with_baseline: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    real, full = getattr(os, call), OSError(errno.ENOSPC, "No space left on device")
    journals: list[int] = []

    def broken(descriptor: int, *data: bytes) -> int:
        if "journal.jsonl" in str(Path(f"/proc/self/fd/{descriptor}").readlink()):
            journals.append(descriptor)
            if len(journals) > 3:
                raise full
        done: int = real(descriptor, *data)
        return done

    monkeypatch.setattr(os, call, broken)
    result = with_baseline.runpytest("--anubis")
    assert result.ret == 20
    result.stdout.fnmatch_lines(["UNDECIDED: *", "*not completely: *"])
    assert "ACCEPTED" not in result.stdout.str()


def test_a_disk_that_fails_after_the_last_word_takes_an_acceptance_back(
    with_baseline: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, write = os.fdatasync, Journal.write

    def last(self: Journal, event: object) -> None:
        if isinstance(event, RunFinished):
            monkeypatch.setattr(os, "fdatasync", broken)
        write(self, event)  # type: ignore[arg-type]

    def broken(descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(Journal, "write", last)
    result = with_baseline.runpytest("--anubis")
    monkeypatch.setattr(os, "fdatasync", real)
    assert result.ret == 20
    result = with_baseline.run(sys.executable, "-m", "pytest_anubis.cli.main", "report")
    result.stdout.fnmatch_lines(["UNDECIDED: *", "*the disk may not have kept*"])


def test_half_a_line_that_a_full_disk_took_is_no_damage_later(tmp_path: Path) -> None:
    real = os.write
    with Journal.create(tmp_path, "r") as journal:
        journal.write(RunStarted(run="r", node="n"))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "write", lambda to, data: real(to, data[:20]))
            journal.write(BlockerFound(text="half"))
        journal.write(BlockerFound(text="whole"))
        assert journal.missing == 0
    record = read_journal(journal.path)
    assert [one.cause for one in record.blockers] == ["half", "whole"]
    assert record.warnings == ("journal.jsonl: the run never finished",)


def test_a_run_that_is_written_is_not_gone_on_with(with_baseline: pytest.Pytester) -> None:
    process = asleep(with_baseline, "--anubis-run-id=r")
    try:
        result = with_baseline.runpytest("--anubis", "--anubis-resume=r")
    finally:
        process.kill()
        process.communicate()
    assert result.ret == 4
    assert "still being written by process" in result.stderr.str() + result.stdout.str()


# Going on against another baseline.


def test_a_resumed_run_is_judged_by_the_baseline_of_today(
    project: pytest.Pytester, learn: Learn
) -> None:
    learn(centre=50.0)  # at 100 this node is twice as fast
    edge = project.path / "test_z_cut.py"
    edge.write_text("import os, pathlib\ndef test_cut():\n    os.kill(os.getpid(), 9)\n")
    process = started(project, "--anubis-run-id=r")
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    edge.write_text("def test_cut():\n    pass\n")
    for path in (project.path / "baselines").iterdir():
        path.unlink()
    learn(centre=200.0)  # at 100 it is half as fast
    result = project.runpytest("--anubis", "--anubis-resume=r")
    assert result.ret == 1, result.stdout.str()
    result.stdout.fnmatch_lines(
        [
            "anubis: differs from the earlier part: baseline sha256:* then, sha256:* now; *judged anew"
        ]
    )
    record = record_of(project)
    assert record.node_verdict is not None
    assert {v.baseline for v in record.verdicts if v.metric} == {record.node_verdict.baseline}
    assert record.baseline == record.node_verdict.baseline


@pytest.mark.parametrize(
    "hook",
    [
        "def pytest_runtest_logfinish():\n    raise KeyboardInterrupt",
        "import pytest\ndef pytest_runtest_logfinish():\n    pytest.exit('enough', returncode=0)",
        "import pytest\ndef pytest_runtest_logfinish():\n    pytest.exit('enough', returncode=7)",
        "def pytest_runtest_logfinish():\n    raise RuntimeError('a plugin of ours')",
    ],
)
def test_a_run_that_was_broken_off_after_its_last_test_decides_nothing(
    with_baseline: pytest.Pytester, hook: str
) -> None:
    with_baseline.makeconftest(hook)
    result = with_baseline.runpytest_inprocess(
        "--anubis", "--junitxml=out.xml", no_reraise_ctrlc=True
    )
    assert result.ret not in (0, 1, 20)
    record = record_of(with_baseline)
    assert record.broken_off
    assert record.node_verdict is not None
    assert record.node_verdict.decision is Decision.UNDECIDED
    assert "nothing is decided" in record.node_verdict.headline
    assert "ACCEPTED" not in (with_baseline.path / "out.xml").read_text()
    assert "ACCEPTED" not in result.stdout.str()


@pytest.mark.parametrize(
    "harm", ["shutil.rmtree('.anubis')", "[os.truncate(path, 99) for path in journals]"]
)
def test_destroyed_journal_accepts_nothing(with_baseline: pytest.Pytester, harm: str) -> None:
    head = "import glob, os, shutil\njournals = glob.glob('.anubis/runs/*/journal.jsonl')"
    with_baseline.makepyfile(
        test_harm=f"def test_harm():\n    {head.replace(chr(10), '; ')}; {harm}\n"
    )
    result = with_baseline.runpytest("--anubis")
    assert result.ret == 20, result.stdout.str()
    result.stdout.fnmatch_lines(["UNDECIDED: *", "*somebody * during the run*"])
    assert "ACCEPTED: node" not in result.stdout.str()
