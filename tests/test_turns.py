"""A test that is alone waits for those that run, not for later ones, and nothing runs beside it."""

from __future__ import annotations

import fcntl
import threading
import time
from pathlib import Path

import pytest

from tests.turns import Turns

SOON = 0.2  # seconds for a thread to do what it must not do
LONG = 20.0


class Worker:
    """One that takes a turn in a thread, and ends it when it is told to."""

    def __init__(self, turns: Turns, *, alone: bool = False, alone_next: bool = False) -> None:
        self.running, self.end = threading.Event(), threading.Event()
        self._how = {"alone": alone, "alone_next": alone_next}
        self._turns = turns
        self._thread = threading.Thread(target=self._take, daemon=True)
        self._thread.start()

    def _take(self) -> None:
        with self._turns.take(**self._how):
            self.running.set()
            self.end.wait(LONG)

    def finish(self) -> None:
        self.end.set()
        self._thread.join(LONG)
        assert not self._thread.is_alive()


def wait_for_shut(gate: Path) -> None:
    """Wait until somebody keeps the gate shut."""
    with gate.open() as mine:
        for _ in range(int(LONG / 0.01)):
            try:
                fcntl.flock(mine, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return
            fcntl.flock(mine, fcntl.LOCK_UN)
            time.sleep(0.01)
    raise AssertionError("the gate stays open")


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    turn, gate = tmp_path / "turn", tmp_path / "gate"
    turn.touch()
    gate.touch()
    return turn, gate


def test_usual_tests_run_beside_each_other(files: tuple[Path, Path]) -> None:
    first, second = Worker(Turns(*files)), Worker(Turns(*files))
    assert first.running.wait(LONG)
    assert second.running.wait(LONG)
    first.finish()
    second.finish()


def test_whoever_comes_after_an_alone_test_waits_for_it(files: tuple[Path, Path]) -> None:
    before = Worker(Turns(*files))
    assert before.running.wait(LONG)
    alone = Worker(Turns(*files), alone=True)
    assert not alone.running.wait(SOON)
    wait_for_shut(files[1])
    after = Worker(Turns(*files))
    assert not after.running.wait(SOON)
    before.finish()
    assert alone.running.wait(LONG)
    assert not after.running.wait(SOON)
    alone.finish()
    assert after.running.wait(LONG)
    after.finish()


def test_a_turn_is_kept_from_one_alone_test_to_the_next(files: tuple[Path, Path]) -> None:
    mine = Turns(*files)
    Worker(mine, alone=True, alone_next=True).finish()
    other = Worker(Turns(*files))
    assert not other.running.wait(SOON)
    Worker(mine, alone=True).finish()
    assert other.running.wait(LONG)
    other.finish()


def test_a_usual_test_gives_back_what_was_kept_for_another(files: tuple[Path, Path]) -> None:
    mine = Turns(*files)
    Worker(mine, alone=True, alone_next=True).finish()  # the next one was taken by another worker
    usual, other = Worker(mine), Worker(Turns(*files))
    assert usual.running.wait(LONG)
    assert other.running.wait(LONG)
    usual.finish()
    other.finish()


CONFTEST = """
import pytest
from tests.turns import Turns
from pathlib import Path

TURNS = Turns(Path(__file__), Path(__file__).with_name("gate"))

def alone(item):
    return item is not None and item.get_closest_marker("alone") is not None

@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    with TURNS.take(alone=alone(item), alone_next=alone(nextitem)):
        return (yield)

def pytest_sessionfinish():
    TURNS.end()
"""
TESTS = """
import time, pytest

@pytest.mark.parametrize("number", range(10))
def test_usual(number):
    time.sleep(0.05)

@pytest.mark.alone
@pytest.mark.parametrize("number", range(10))
def test_alone(number):
    assert number != 2
"""


def test_a_run_that_ends_at_the_failure_of_an_alone_test_ends(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(TESTS)
    (pytester.path / "gate").touch()
    pytester.makeini("[pytest]\nmarkers = alone")
    result = pytester.runpytest_subprocess(
        "-n2", "--dist=worksteal", "-x", "-p", "no:cacheprovider", timeout=60
    )
    assert result.ret != 0
    assert "test_alone[2]" in result.stdout.str()
