"""The first command, played many times: what is left to do, what is kept, what the tables say."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.sessions import first_run
from benchmarks.sessions.first_run import Player, State, plan, played, share_of
from benchmarks.sessions.first_run_report import LEARN, Loss, Metric, Run, report

GEMM = Metric("suites/gemm", "rate", "compute.matrix", shows=0.06)
DISK = Metric("suites/disk", "rate", "storage.disk")
SLOW = Loss("compute.matrix", 0.1)


def run(time_: int, host: str, loss: Loss | None = None, **more: Any) -> Run:
    given: dict[str, Any] = {"exit": 0, "seconds": 40.0, "ended": 1e9, "metrics": (GEMM, DISK)}
    return Run(time=time_, host=host, loss=loss, **given | more)


class Toy(Player):
    """Plays nothing and notes what it would."""

    def __init__(self, state: State) -> None:
        super().__init__(Path(), "", state)
        self.state = state
        self.done: list[tuple[int, str, Loss | None]] = []

    def play(self, time_: int, host: str, loss: Loss | None) -> None:
        self.done.append((time_, host, loss))
        self.state.add(run(time_, host, loss, decision="ACCEPTED", ended=time.time()))


def test_runs_are_kept_and_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "state"
    toy = Toy(State(path))
    runs = list(plan(2, ["alone", "busy"], [SLOW]))
    assert runs[:4] == [
        (1, LEARN, None),
        (1, "alone", None),
        (1, "busy", None),
        (1, "alone", SLOW),
    ]
    assert not played(toy, toy.state, iter(runs), 250.0), "the second learning may take longer"
    assert toy.done == runs[:4]
    with path.open("a", encoding="utf-8") as file:
        file.write('{"time": 2, "ho')  # cut off in the middle
    again = Toy(State(path))
    assert again.state.runs == toy.state.runs
    assert played(again, again.state, iter(runs), float("inf"))
    assert again.done == runs[4:]
    assert played(again, again.state, iter(runs), 0.0), "nothing is left"
    assert not played(Toy(State(None)), State(None), iter(runs), 0.0)


def test_later_takes_a_baseline_that_is_old_enough_and_no_loss_without_one() -> None:
    state = State(None)
    toy = Toy(state)
    hour = 3600.0
    state.runs = [
        run(1, LEARN, ended=time.time() - 2 * hour),
        run(2, LEARN, ended=time.time() - 2 * hour, metrics=()),
        run(3, LEARN, ended=time.time() - hour / 2),
    ]
    assert "an hour old" in toy.hindrance(1, "later", None)
    assert not toy.hindrance(4, "later", None)
    assert toy._old(4) == 1
    assert toy.hindrance(2, "alone", SLOW) == "nothing was learned"
    assert not toy.hindrance(3, "alone", SLOW)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("no JSON", "no runs of this script"),
        (json.dumps({"first_run": 1, "machine": "elsewhere"}), "of machine elsewhere"),
        (json.dumps({"first_run": 0, "machine": "elsewhere"}), "of another version"),
    ],
)
def test_file_of_something_else_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str, why: str
) -> None:
    (tmp_path / "state").write_text(f"{line}\n", encoding="utf-8")
    with pytest.raises(SystemExit):
        first_run.main(["--state", str(tmp_path / "state")])
    assert why in capsys.readouterr().err


def test_shares_are_percent_or_parts() -> None:
    assert [share_of("10%"), share_of(".4")] == [0.1, 0.4]
    with pytest.raises(ValueError, match="between 0 and 1"):
        share_of("110%")


def test_losses_are_told_by_whether_the_baseline_says_that_it_finds_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    failed = replace(GEMM, outcome="FAIL", clear=30, unclear=10)
    spells = Loss("compute.matrix", 0.15, spells=True)  # .05 of all of it: that is not stated
    disk = Loss("storage.disk", 0.1)
    rejected: dict[str, Any] = {
        "decision": "REJECTED",
        "blamed": ("compute.matrix",),
        "metrics": (failed, DISK),
    }
    report(
        [
            run(1, LEARN, seconds=200.0),
            run(2, LEARN, seconds=300.0, exit=20, metrics=(replace(GEMM, shows=0.3), DISK)),
            run(1, "alone", decision="ACCEPTED"),
            run(2, "alone", seconds=60.0, **rejected),
            run(1, "alone", SLOW, **rejected),
            run(2, "alone", SLOW, decision="ACCEPTED"),
            run(1, "alone", disk, **rejected),
            run(1, "neighbour", spells, decision="UNDECIDED"),
        ]
    )
    said = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert said[0] == "learned 2 times: 1 with exit 0, 1 with exit 20; 250 s, at most 300 s"
    assert said[2:5] == ["10% 25% 0% 50%", "25% 25% 0% 50%", "50% 50% 50% 50%"]
    assert "alone 2 1 1 0 50 60 75% suites/gemm rate 1" in said
    assert "10% alone all 1/2 0/1 compute.matrix 1" in said
    assert "10% alone compute.matrix 1/2 - -" in said
    assert "10% alone storage.disk - 0/1 compute.matrix 1" in said
    assert "15% in spells neighbour compute.matrix - 0/1 -" in said
