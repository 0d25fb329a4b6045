"""A test that is alone waits for those that run, not for later ones, and nothing runs beside it."""

from __future__ import annotations

import threading
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
