"""Children answer, and neither a hang nor a death on either side leaves anything behind."""

from __future__ import annotations

import os
import re
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pytest_anubis.benchmarking import children
from pytest_anubis.benchmarking.children import Child, ChildError, Group, receive_all
from tests.benchmarking.echo_child import GRACE
from tests.places import ROOT

START = 60.0
ECHO = "tests.benchmarking.echo_child"


def gone(pid: int) -> bool:
    """Return whether the process has ended; an unreaped one has."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state == "Z"


def test_answers_in_order() -> None:
    with Child(ECHO) as child:
        for text in ("one", "two"):
            child.send({"do": "echo", "text": text})
        assert [child.receive(timeout=START)["text"] for _ in range(2)] == ["one", "two"]
        assert child.ask({"do": "echo", "text": "x" * 300_000}, timeout=START) == {
            "text": "x" * 300_000
        }
    assert gone(child.pid)


def test_a_warning_is_no_failure_of_a_child(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONWARNINGS", "error")
    with Child(ECHO) as child:
        assert child.ask({"do": "warn"}, timeout=START) == {}


def test_failure_is_told_and_survived() -> None:
    with Child(ECHO, name="rank 3") as child:
        with pytest.raises(ChildError, match="rank 3: ValueError: no such register"):
            child.ask({"do": "fail"}, timeout=START)
        assert child.ask({"do": "echo", "text": "well"}, timeout=START) == {"text": "well"}


def test_hang_is_an_error_and_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children, "GRACE", 0.2)
    with Child(ECHO) as child:
        child.ask({"do": "echo", "text": "ready"}, timeout=START)
        with pytest.raises(ChildError, match=r"echo_child did not answer within 0\.2 s"):
            child.ask({"do": "hang"}, timeout=0.2)
    assert gone(child.pid)


@pytest.mark.parametrize("then", ["leave", "hang"])
def test_what_a_child_started_ends_with_it(monkeypatch: pytest.MonkeyPatch, then: str) -> None:
    monkeypatch.setattr(children, "GRACE", 0.1)
    with Child(ECHO) as child:
        pid = child.ask({"do": "start"}, timeout=START)["pid"]
        if then == "hang":
            child.send({"do": "hang"})
    until = time.monotonic() + START
    while not gone(pid):
        assert time.monotonic() < until, f"{pid} outlived the child"
        time.sleep(0.02)


def test_late_answer_is_not_taken_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children, "GRACE", 0.1)
    with Child(ECHO, name="rank 0") as one, Child(ECHO, name="rank 1") as two:
        for child in (one, two):
            child.ask({"do": "echo", "text": "ready"}, timeout=START)
        with pytest.raises(ChildError, match="did not answer within"):
            one.ask({"do": "doze", "seconds": 1.0}, timeout=0.05)
        two.send({"do": "doze", "seconds": 1.0})
        with pytest.raises(ChildError, match="did not answer within"):
            receive_all([two], timeout=0.05)
        for child in (one, two):
            with pytest.raises(ChildError, match=r"^rank . still owes an answer since a time-out$"):
                child.ask({"do": "echo", "text": "next"}, timeout=START)
            with pytest.raises(ChildError, match="still owes an answer"):
                receive_all([child], timeout=START)


def test_death_is_told_with_its_last_words() -> None:
    with (
        Child(ECHO) as child,
        pytest.raises(ChildError, match=r"is gone; it printed: bus error at 0x0"),
    ):
        child.ask({"do": "die"}, timeout=START)


def test_many_last_words_are_one_line_and_a_note() -> None:
    words = "Traceback:\n  in here\nOSError: no room"
    line = "is gone; it printed: Traceback: ... OSError: no room"
    with Child(ECHO, name="rank 0") as one, Child(ECHO, name="rank 1") as two:
        for child in (one, two):
            child.send({"do": "die", "text": words})
        with pytest.raises(ChildError) as caught:
            receive_all([one, two], timeout=START, settle=START)
    assert re.fullmatch(rf"rank \d {line}; rank \d {line}", str(caught.value))
    assert caught.value.__notes__ == [words, words]


def test_dead_child_is_noticed_before_waiting_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(children, "GRACE", 0.2)
    with Child(ECHO, name="rank 0") as waiting, Child(ECHO, name="rank 1") as dying:
        for child, what in ((waiting, "hang"), (dying, "die")):
            child.ask({"do": "echo", "text": "ready"}, timeout=START)
            child.send({"do": what})
        with pytest.raises(ChildError, match=r"^rank 1 is gone; it printed: bus error at 0x0$"):
            receive_all([waiting, dying], timeout=START, settle=0.1)


def test_dead_child_is_named_before_waiting_ones() -> None:
    with Child(ECHO, name="rank 0") as complaining, Child(ECHO, name="rank 1") as dying:
        for child, what in ((complaining, "fail"), (dying, "die")):
            child.send({"do": what})
        with pytest.raises(ChildError, match=r"^rank 1 is gone; .*; rank 0: ValueError"):
            receive_all([complaining, dying], timeout=START, settle=START)


def test_all_that_are_late_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children, "GRACE", 0.2)
    with Child(ECHO, name="rank 0") as hanging, Child(ECHO, name="rank 1") as answering:
        for child, what in ((hanging, "hang"), (answering, "echo")):
            child.ask({"do": "echo", "text": "ready"}, timeout=START)
            child.send({"do": what, "text": ""})
        assert select.select([answering], [], [], START)[0]  # it has answered
        with pytest.raises(ChildError, match=r"^rank 0 did not answer within 0\.2 s$"):
            receive_all([hanging, answering], timeout=0.2)
    with Child(ECHO) as one, Child(ECHO) as two:
        for number, child in enumerate((one, two)):
            child.send({"do": "echo", "text": str(number)})
        found = receive_all([two, one], timeout=START)
        assert [answer["text"] for answer in found] == ["1", "0"]


@pytest.mark.parametrize("then", ["", "child.send({'do': 'hang'})\n"])
def test_child_ends_when_its_parent_is_killed(then: str) -> None:
    program = (
        "import os, signal\n"
        "from pytest_anubis.benchmarking.children import Child\n"
        f"child = Child({ECHO!r}, environment={{{GRACE!r}: '0.2'}})\n"
        f"child.ask({{'do': 'echo', 'text': ''}}, timeout=60)\n{then}"
        "print(child.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        timeout=START,
        check=False,
    )
    assert done.returncode < 0, done.stderr
    pid = int(done.stdout)
    deadline = time.monotonic() + START
    while not gone(pid):
        assert time.monotonic() < deadline, f"child {pid} outlived its parent"
        time.sleep(0.05)


def test_group_that_cannot_be_started_leaves_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[str] = []
    monkeypatch.setattr(Child, "__init__", lambda child, name: setattr(child, "name", name))
    monkeypatch.setattr(Child, "close", lambda child: closed.append(child.name))

    class Two(Group):
        def __init__(self) -> None:
            super().__init__(timeout=1.0)
            with self._starting():
                self._start(Child("first"))
                raise ChildError("the second is gone")

    with pytest.raises(ChildError, match="the second is gone"):
        Two()
    assert closed == ["first"]
