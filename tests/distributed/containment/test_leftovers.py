"""What a test leaves behind is named once, put right, and never what a longer-lived fixture is for."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_anubis.core.events import BlockerFound, Event, LeftBehind
from pytest_anubis.distributed.containment.leftovers import Leftovers
from pytest_anubis.distributed.containment.process_state import (
    ProcessState,
    children,
    command_of,
    is_helper,
)
from pytest_anubis.distributed.containment.processes import STACK_SIGNAL
from tests.quiet import OPTIONS
from tests.run_journals import record_of

MESSY = """
import multiprocessing, os, resource, signal, subprocess, sys
import pytest

STACK = signal.SIGRTMIN + 7

def state():
    mask = os.umask(0); os.umask(mask)
    return [
        os.getcwd(), mask, os.sched_getaffinity(0), signal.getitimer(signal.ITIMER_REAL),
        signal.pthread_sigmask(signal.SIG_BLOCK, ()), resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        os.environ.get("OMP_NUM_THREADS"), signal.getsignal(signal.SIGTERM), signal.getsignal(STACK),
        [os.fstat(number).st_ino for number in range(3)], signal.getsignal(signal.SIGINT),
    ]

BEFORE = []

def test_before():
    BEFORE[:] = state()

def test_messy():
    os.chdir("/")
    os.umask(0)
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    signal.setitimer(signal.ITIMER_REAL, 60)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
    os.environ["OMP_NUM_THREADS"] = "1"
    for number in (signal.SIGTERM, signal.SIGINT, STACK):
        signal.signal(number, signal.SIG_IGN)
    os.close(0)

def test_process():
    BEFORE.append(subprocess.Popen(["sleep", "600"]))  # or Python itself would complain

def test_orphan():
    subprocess.run(["sh", "-c", "sleep 601 & sleep 0.3"], stdout=subprocess.DEVNULL)

def test_after():
    assert state() == BEFORE[:-1]
    assert BEFORE[-1].poll() == -signal.SIGKILL

@pytest.fixture(scope="module")
def server(tmp_path_factory):
    here = os.getcwd()
    os.chdir(tmp_path_factory.mktemp("server"))
    with subprocess.Popen(["sleep", "602"]) as process:
        yield process
        os.chdir(here)
        process.kill()

def test_server(server): pass

def test_server_lives(server):
    assert server.poll() is None
    assert "server" in os.getcwd()

def test_forkserver():
    context = multiprocessing.get_context("forkserver")
    process = context.Process(target=print)
    process.start()
    process.join()
"""


@pytest.mark.parametrize("where", ["worker", "process"])
def test_leftovers_are_named_and_put_right(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    monkeypatch.setenv("PYTEST_ADDOPTS", OPTIONS)
    pytester.makeini("[pytest]\n")
    pytester.makepyfile(test_it=MESSY)
    chosen = []
    if where == "process":  # which does not adopt what is left alone: it is the user's own
        chosen = ["--anubis-in-process", "--deselect=test_it.py::test_orphan"]
    result = pytester.runpytest_subprocess("--anubis", "-Werror", *chosen, timeout=60)
    record = record_of(pytester)
    assert {r.outcome for r in record.results} == {"passed"}, result.outlines
    found = {e.test.partition("::")[2]: e for e in record.events if isinstance(e, LeftBehind)}
    assert set(found) == {"test_messy", "test_process", *(() if chosen else ("test_orphan",))}
    assert all(event.repaired for event in found.values())
    assert not record.blockers
    names = [phrase.rpartition(" (was")[0] or phrase for phrase in found["test_messy"].what]
    cpus = ["CPU affinity"] if len(os.sched_getaffinity(0)) > 1 else []
    expected = [
        "working folder /",
        "umask 0",
        *cpus,
        "blocked signals",
        "timer of SIGALRM True",
        "handler of SIGINT SIG_IGN",
        "handler of SIGTERM SIG_IGN",
        "handler of stack signal SIG_IGN",
        "limit RLIMIT_NOFILE 64",
        "variable OMP_NUM_THREADS 1",
        "descriptor 0 closed",
    ]
    assert len(names) == len(expected)
    assert all(name.startswith(start) for name, start in zip(names, expected, strict=True)), names
    for test, seconds in (("test_process", 600), ("test_orphan", 601)):
        if test in found:
            (phrase,) = found[test].what
            assert phrase.startswith("a process that runs on: ")
            assert phrase.endswith(f" sleep {seconds}")
    result.stdout.fnmatch_lines(["*test_process left behind: a process that runs on: * sleep 600"])


def test_what_cannot_be_put_right_blocks(pytester: pytest.Pytester) -> None:
    events: list[Event] = []
    config = pytester.parseconfig()
    item = pytester.getitem("def test_func(): pass")
    leftovers = Leftovers(config, events.append)
    hook = leftovers.pytest_runtest_protocol(item)
    next(hook)
    state = leftovers._state
    assert state is not None
    state.restore = lambda name, value: False  # type: ignore[method-assign]  # as without the right to
    os.environ["OMP_NUM_THREADS"] = "77"
    try:
        with pytest.raises(StopIteration):
            next(hook)
    finally:
        del os.environ["OMP_NUM_THREADS"]
        leftovers.pytest_unconfigure()
    phrase = "variable OMP_NUM_THREADS 77 (was none)"
    assert events == [
        LeftBehind(test=item.nodeid, what=(phrase,), repaired=False),
        BlockerFound(text=f"{item.nodeid} left behind: {phrase}; not put right: {phrase}"),
    ]


@pytest.mark.timeout(0)  # whose timer would be one that this process had before
def test_everything_that_is_read_can_be_put_back() -> None:
    rearmed: list[int] = []
    state = ProcessState(lambda: rearmed.append(1))
    before = state.read()
    for name, value in before.items():
        assert state.restore(name, value), name
    assert state.read() == before
    assert rearmed == [1]
    signal.signal(STACK_SIGNAL, signal.SIG_IGN)
    assert state.restore("handler of stack signal", signal.SIG_DFL)
    assert not state.restore("working folder", "/nowhere")
    state.close()


def test_only_running_children_are_listed() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        assert process.pid in children()
        assert not is_helper(process.pid)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert process.pid not in children()
    code = "import sys; sys.argv.append('multiprocessing.forkserver'); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE) as helper:
        while not Path(f"/proc/{helper.pid}/cmdline").read_bytes():
            pass
        assert is_helper(helper.pid)
        helper.kill()


def test_empty_command_line_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    read = Path.read_bytes
    early = [b"", b""]
    monkeypatch.setattr(Path, "read_bytes", lambda path: early.pop() if early else read(path))
    assert command_of(os.getpid())
    assert not early
