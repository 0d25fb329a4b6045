"""Children answer, and neither a hang nor a death on either side leaves anything behind."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from suites import children
from suites.children import ROOT, Child, ChildError

START = 60.0
ECHO = "tests.suites.echo_child"


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


def test_death_is_told_with_its_last_words() -> None:
    with (
        Child(ECHO) as child,
        pytest.raises(ChildError, match=r"is gone; it printed: bus error at 0x0"),
    ):
        child.ask({"do": "die"}, timeout=START)


def test_child_ends_when_its_parent_is_killed() -> None:
    program = (
        "import os, signal\n"
        "from suites.children import Child\n"
        f"child = Child({ECHO!r})\n"
        "child.ask({'do': 'echo', 'text': ''}, timeout=60)\n"
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
