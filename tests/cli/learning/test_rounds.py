"""How many rounds are run, of which tests, for how long."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_anubis.cli.learning import rounds
from pytest_anubis.cli.learning.rounds import (
    END_SECONDS,
    MIN_ROUNDS_ON_CARDS,
    MIN_TIMED_ROUNDS,
    Rounds,
)
from pytest_anubis.cli.shared.command_error import CommandError
from pytest_anubis.cli.shared.progress import LiveLine
from pytest_anubis.report.text.run_progress import RunProgress
from pytest_anubis.session.measuring.attempts import NO_CLEAR_MOMENT

SECONDS = {"suite.py::test_a": 4.0, "suite.py::test_b": 14.0}
START = 2.0
SHARES, DECLARED = (0.0, 0.2, 0.5, 1.0), 36.0  # of a round that takes 20 s


class Machine:
    """A stand-in for rounds that take time: they move its clock, and it keeps which tests they ran."""

    def __init__(self) -> None:
        self.now = 0.0
        self.asked: list[list[str]] = []
        self.disturbance: tuple[str, ...] = ()
        self.disturbed = tuple(SECONDS)
        self.skipped: tuple[str, ...] = ()
        self.failing: tuple[str, ...] = ()
        self.cards = False
        self.shown: list[str] = []  # by the live line

    def run_round(
        self,
        tests: Sequence[str],
        *,
        run_id: str,
        without: Sequence[str],
        tell: Callable[[RunProgress], None],
        **_: Any,
    ) -> Any:
        assert tests == ["suite.py"]
        ran = [test for test in SECONDS if test not in without]
        self.asked.append(ran if without else list(tests))
        for share in SHARES if len(self.asked) == 1 else ():
            self.now += (START + sum(SECONDS[test] for test in ran)) / len(SHARES)
            tell(
                RunProgress(doing="test_a", planned=2, cost=DECLARED, share=share, cards=self.cards)
            )
        if len(self.asked) > 1:
            self.now += START + sum(SECONDS[test] for test in ran)
        return SimpleNamespace(
            run=run_id,
            results=[
                SimpleNamespace(
                    test=test,
                    seconds=SECONDS[test],
                    outcome="failed" if test in self.failing else "passed",
                    environment="",
                    text="AssertionError: a wrong sum",
                )
                for test in ran
            ],
            measurements=[
                SimpleNamespace(
                    test=test,
                    benchmark=test,
                    component=test,
                    metric=SimpleNamespace(name="rate", better="higher"),
                    disturbance=self.disturbance if test in self.disturbed else (),
                )
                for test in ran
                if test not in self.skipped
            ],
        )


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine()
    monkeypatch.setattr(rounds, "run_round", machine.run_round)
    monkeypatch.setattr(LiveLine, "show", lambda _, text: machine.shown.append(text))
    monkeypatch.setattr("pytest_anubis.cli.learning.rounds.time.monotonic", lambda: machine.now)
    return machine


def of_suite(tmp_path: Path, **more: Any) -> Rounds:
    return Rounds(tests=["suite.py"], store=tmp_path, profile="smoke", **more)


Undersampled = Callable[[Sequence[Path], int], set[tuple[str, str]]]


def undersampled(*keys: tuple[str, str], until: int = 99) -> Undersampled:
    """Return a judge by whom some metrics lack quiet samples until so many rounds were run."""
    return lambda paths, wanted: set(keys) if len(paths) < until else set()


quiet = undersampled()


def showing(**losses: float) -> Callable[[Sequence[Path]], Any]:
    """Return a learner whose baselines find such losses."""
    criteria = [
        SimpleNamespace(
            benchmark=f"suite.py::test_{name}",
            component=f"suite.py::test_{name}",
            metric=SimpleNamespace(name="rate", better="higher"),
            shown_loss=loss,
            coarse=loss > 0.5,
        )
        for name, loss in losses.items()
    ]
    return lambda paths: SimpleNamespace(criteria=criteria, unjudged=())


ALL, A, B = ["suite.py"], ["suite.py::test_a"], ["suite.py::test_b"]
RATE_OF_B = ("suite.py::test_b", "rate")
OTHER = ("other", "rate")


@pytest.mark.parametrize(
    ("seconds", "losses", "changes", "more"),
    [
        # Seven tenths of the time: seven rounds of 20 s; then 6 s a round of the test that lacks power.
        (200.0, {"a": 0.3, "b": 0.05}, {}, [A] * 9),
        (200.0, {"a": 0.3}, {"skipped": tuple(B)}, [A] * 9),
        (200.0, {"a": 0.1, "b": 0.05}, {}, []),
        (200.0, {}, {}, [ALL] * 2),
        (30.0, {"a": 0.3}, {}, []),
        (30.0, {"a": 0.3}, {"cards": True}, []),
    ],
    ids=["power", "skipped", "all shown", "nothing learned", "short", "cards"],
)
def test_time_is_spent_where_power_is_lacking(
    machine: Machine,
    tmp_path: Path,
    seconds: float,
    losses: dict[str, float],
    changes: dict[str, Any],
    more: list[list[str]],
) -> None:
    vars(machine).update(changes)
    learn = showing(**losses) if losses else lambda paths: None
    of_suite(tmp_path).within(seconds, 0.1, learn, quiet)
    least = MIN_ROUNDS_ON_CARDS if machine.cards else MIN_TIMED_ROUNDS
    assert machine.asked == [ALL] * (7 if seconds == 200.0 else least) + more
    assert seconds == 30.0 or machine.now <= seconds - END_SECONDS


def test_unwanted_metrics_have_no_more_rounds(machine: Machine, tmp_path: Path) -> None:
    some = of_suite(tmp_path, unwanted=["rate"])
    some.within(200.0, 0.1, showing(b=0.05), quiet)
    assert machine.now == 140.0


@pytest.mark.parametrize(("shown_from", "added"), [(3, 3), (99, MIN_TIMED_ROUNDS), (0, 0)])
def test_rounds_are_added_for_uncovered_components(
    machine: Machine, tmp_path: Path, shown_from: int, added: int
) -> None:
    def learn(paths: Sequence[Path]) -> Any:
        more = len(paths) - 7  # of the whole suite
        return showing(a=0.4 if more >= shown_from else 0.6, b=0.2)(paths)

    of_suite(tmp_path).within(200.0, 0.7, learn, quiet)
    assert machine.asked == [ALL] * 7 + [A] * added


@pytest.mark.parametrize(
    ("seconds", "asked", "added"),
    [(60.0, True, 0), (120.0, True, 1), (130.0, True, 2), (60.0, False, MIN_TIMED_ROUNDS)],
)
def test_added_rounds_keep_a_time_that_was_asked_for(
    machine: Machine, tmp_path: Path, seconds: float, asked: bool, added: int
) -> None:
    of_suite(tmp_path).within(seconds, 0.7, showing(a=0.6, b=0.2), quiet, asked=asked)
    assert machine.asked == [ALL] * MIN_TIMED_ROUNDS + [A] * added
    assert machine.now <= max(6 * 20.0, 1.1 * seconds) or not asked


@pytest.mark.parametrize("timed", [True, False])
def test_a_failed_test_has_no_more_rounds(
    machine: Machine, tmp_path: Path, capsys: pytest.CaptureFixture[str], timed: bool
) -> None:
    machine.failing = tuple(B)
    some = of_suite(tmp_path)
    if timed:
        some.within(60.0, 0.1, showing(), quiet)
    else:
        some.of_number(4, undersampled(RATE_OF_B))
    assert machine.asked[0] == ALL
    assert set(map(tuple, machine.asked[1:])) == {tuple(A)}
    assert some.failed == {"suite.py::test_b": "AssertionError: a wrong sum"}
    assert "suite.py::test_b failed: AssertionError: a wrong sum" in capsys.readouterr().out


@pytest.mark.parametrize("timed", [True, False])
@pytest.mark.parametrize(
    ("change", "count", "stopped"),
    [
        ({"skipped": tuple(SECONDS)}, 1, "no test that passes measured anything"),
        (
            {"disturbance": ("12 % steal",)},
            2,
            "others disturbed every measurement of speed in two rounds",
        ),
    ],
)
def test_rounds_in_vain_are_not_repeated(
    machine: Machine,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    timed: bool,
    change: dict[str, Any],
    count: int,
    stopped: str,
) -> None:
    vars(machine).update(change)
    some = of_suite(tmp_path)
    paths = some.within(3000.0, 0.1, showing(), quiet) if timed else some.of_number(5, quiet)
    assert len(paths) == len(some.finished) == len(machine.asked) == count
    said = capsys.readouterr().out
    assert f"stopped: {stopped}" in said
    assert "every metric can show" not in said
    assert ("measurement of speed in all 2 rounds" in some.disturbed) == (count == 2)


@pytest.mark.parametrize(
    ("seconds", "cards", "said"),
    [
        (200.0, False, "every metric can show a loss of 10 %: no more rounds are needed"),
        (30.0, False, "6 rounds, the fewest that a time allows, take about 2 min 06 s here"),
        (30.0, True, "round 1, about 1 min 58 s left (declared costs)"),
        (30.0, False, "round 1, about 4 min 01 s left (declared costs)"),  # 41 s each
        (300.0, False, "round 1, about 4 min 49 s left (time asked for)"),
    ],
)
def test_the_output_says_how_long_it_takes(
    machine: Machine,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    seconds: float,
    cards: bool,
    said: str,
) -> None:
    machine.cards = cards
    of_suite(tmp_path).within(seconds, 0.1, showing(a=0.1, b=0.05), quiet)
    assert said in capsys.readouterr().out


@pytest.mark.parametrize(
    ("number", "first", "last"),
    [
        (None, "round 1, about 4 min 49 s left (time asked for): test_a, 0 of 2 done", "round 1, "),
        # 41 s each: 36 s and the 5 s that have passed; in the end what it has really taken.
        (3, "round 1 of 3, about 1 min 58 s left (declared costs): ",
         "round 1 of 3, about 40 s left (declared costs): "),
    ],
)  # fmt: skip
def test_the_live_line_of_the_first_round(
    machine: Machine, tmp_path: Path, number: int | None, first: str, last: str
) -> None:
    if number is None:
        of_suite(tmp_path).within(300.0, 0.1, showing(a=0.3), quiet)
    else:
        of_suite(tmp_path).of_number(number, quiet)
    shown = machine.shown[: len(SHARES)]
    assert shown[0].startswith(first)
    assert shown[-1].startswith(last)


def test_disturbed_tests_run_before_those_without_power(
    machine: Machine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    disturbed = undersampled(RATE_OF_B, until=7)
    of_suite(tmp_path).within(160.0, 0.1, showing(a=0.3, b=0.05), disturbed)
    assert machine.asked == [ALL] * 6 + [B] + [A] * 3
    assert machine.now <= 160.0 - END_SECONDS
    assert "of 1 metric without enough quiet samples" in capsys.readouterr().out

    machine.asked.clear()
    of_suite(tmp_path).within(30.0, 0.1, showing(a=0.3), undersampled(OTHER))
    assert len(machine.asked) == MIN_TIMED_ROUNDS


def test_two_disturbed_rounds_let_the_others_go_on(machine: Machine, tmp_path: Path) -> None:
    machine.disturbance, machine.disturbed = ("12 % steal",), tuple(B)
    of_suite(tmp_path).within(240.0, 0.1, showing(a=0.3), undersampled(RATE_OF_B))
    assert machine.asked == [*[ALL] * 9, B, B, A, B]


@pytest.mark.parametrize(
    ("lacking", "disturbed", "more"),
    [
        (undersampled(RATE_OF_B, until=5), False, [B, B]),
        (undersampled(RATE_OF_B), False, [B] * 3),  # at most as many again
        (undersampled(OTHER), False, []),  # no round has measured it
        (undersampled(RATE_OF_B), True, [B, B]),  # disturbed twice in a row
        (quiet, True, []),
    ],
)
def test_rounds_are_added_for_disturbed_tests(
    machine: Machine, tmp_path: Path, lacking: Undersampled, disturbed: bool, more: list[list[str]]
) -> None:
    machine.disturbance, machine.disturbed = ("12 % steal",), tuple(B) if disturbed else ()
    paths = of_suite(tmp_path).of_number(3, lacking)
    assert machine.asked == [ALL] * 3 + more
    assert [int(path.name[-2:]) for path in paths] == list(range(1, 4 + len(more)))


def test_added_rounds_are_named(
    machine: Machine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    of_suite(tmp_path).of_number(3, undersampled(RATE_OF_B))
    said = capsys.readouterr().out
    assert "round 2 of 3, about 40 s left" in said
    assert "round 4 of at most 6, added: 1 metric without enough quiet samples" in said


def test_too_few_rounds_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="at least 3 are needed"):
        of_suite(tmp_path).of_number(2, quiet)


def test_a_disturbed_round_says_at_once_what_helps(
    machine: Machine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.disturbance = (
        "other processes used 0.9 of 2 cores: stress-ng (pid 12) 0.8, my tool (pid 3) 0.1",
        "CPU pressure 23 %",
    )
    some = of_suite(tmp_path)
    some.of_number(3, quiet)
    said = [one for one in capsys.readouterr().out.splitlines() if "others disturbed all" in one]
    assert len(said) == 2
    assert said[0].startswith("round 1: others disturbed all of its 2 measurements of speed, ")
    for line in (*said, some.disturbed):
        assert "other processes used 0.9 of 2 cores" in line
        assert "CPU pressure 23 %" in line
        assert "; stop stress-ng, my?tool, or allow what belongs to a quiet machine with " in line
        assert "--pytest-args='--anubis-allow-process=stress-ng,my?tool'" in line
    machine.disturbance = ()
    some.of_number(4, quiet)
    assert some.disturbed == ""


@pytest.mark.parametrize("seen", ["CPU quota of 2 cores", NO_CLEAR_MOMENT])
def test_a_disturbance_without_process_is_stopped(
    machine: Machine, tmp_path: Path, seen: str
) -> None:
    machine.disturbance = (seen,)
    some = of_suite(tmp_path)
    some.of_number(3, quiet)
    assert f"{seen}; stop what disturbs" in some.disturbed
    assert "--anubis" not in some.disturbed
