"""How many rounds are run, of which tests, for how long."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_anubis.cli.learning import rounds
from pytest_anubis.cli.learning.rounds import ENDING, LEAST_ON_CARDS, LEAST_TIMED, Rounds
from pytest_anubis.cli.shared.command_error import CommandError
from pytest_anubis.cli.shared.progress import LiveLine
from pytest_anubis.report.text.run_progress import RunProgress
from pytest_anubis.session.measuring.attempts import NO_CLEAR_MOMENT

SECONDS = {"suite.py::test_a": 4.0, "suite.py::test_b": 14.0}
START = 2.0
SHARES, DECLARED = (0.0, 0.2, 0.5, 1.0), 36.0  # of a round that takes 20 s


class Machine:
    """A stand-in for rounds that take time: a clock that they move, and what they were asked for."""

    def __init__(self) -> None:
        self.now = 0.0
        self.asked: list[list[str]] = []
        self.disturbance: tuple[str, ...] = ()
        self.disturbed = tuple(SECONDS)
        self.skipped: tuple[str, ...] = ()
        self.failing: tuple[str, ...] = ()
        self.cards = False
        self.told: list[str] = []  # what the live line showed of the first round

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
    monkeypatch.setattr(LiveLine, "show", lambda _, text: machine.told.append(text))
    monkeypatch.setattr("pytest_anubis.cli.learning.rounds.time.monotonic", lambda: machine.now)
    return machine


def of_suite(tmp_path: Path) -> Rounds:
    return Rounds(tests=["suite.py"], store=tmp_path, profile="smoke")


def quiet(paths: Sequence[Path], wanted: int) -> set[tuple[str, str]]:
    """Say that nobody disturbed any metric."""
    return set()


def showing(**losses: float) -> Callable[[Sequence[Path]], Any]:
    """Return a baseline whose criteria find such losses, whatever it was learned from."""
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


def test_time_is_spent_where_power_is_lacking(machine: Machine, tmp_path: Path) -> None:
    of_suite(tmp_path).within(200.0, 0.1, showing(a=0.3, b=0.05), quiet)
    # Seven tenths of the time: seven rounds of 20 s; then 6 s a round of the test that lacks power, its start
    # included, while the end of the command has its time left.
    assert machine.asked == [["suite.py"]] * 7 + [["suite.py::test_a"]] * 9
    assert machine.now == 200.0 - ENDING


@pytest.mark.parametrize(("shown_from", "added"), [(3, 3), (99, LEAST_TIMED), (0, 0)])
def test_rounds_are_added_until_a_metric_of_every_component_shows_a_half(
    machine: Machine, tmp_path: Path, shown_from: int, added: int
) -> None:
    def judge(paths: Sequence[Path]) -> Any:
        more = len(paths) - 7  # of the whole suite
        return showing(a=0.4 if more >= shown_from else 0.6, b=0.2)(paths)

    of_suite(tmp_path).within(200.0, 0.7, judge, quiet)
    assert machine.asked == [["suite.py"]] * 7 + [["suite.py::test_a"]] * added


@pytest.mark.parametrize(("asked", "added"), [(60.0, 0), (120.0, 1), (130.0, 2)])
def test_rounds_are_added_within_the_time_asked_for_and_a_tenth(
    machine: Machine, tmp_path: Path, asked: float, added: int
) -> None:
    of_suite(tmp_path).within(asked, 0.7, showing(a=0.6, b=0.2), quiet)
    assert machine.asked == [["suite.py"]] * LEAST_TIMED + [["suite.py::test_a"]] * added
    assert machine.now <= max(6 * 20.0, 1.1 * asked)


def test_rounds_are_added_beyond_a_time_that_nobody_asked_for(
    machine: Machine, tmp_path: Path
) -> None:
    of_suite(tmp_path).within(60.0, 0.7, showing(a=0.6, b=0.2), quiet, asked=False)
    assert machine.asked == [["suite.py"]] * LEAST_TIMED + [["suite.py::test_a"]] * LEAST_TIMED


def test_a_test_that_is_always_skipped_has_no_more_rounds(machine: Machine, tmp_path: Path) -> None:
    """It ran in every round of those that lack power, and the live line counted it."""
    machine.skipped = ("suite.py::test_b",)
    of_suite(tmp_path).within(200.0, 0.1, showing(a=0.3), quiet)
    assert machine.asked == [["suite.py"]] * 7 + [["suite.py::test_a"]] * 9


@pytest.mark.parametrize("timed", [True, False])
def test_a_test_that_fails_has_no_more_rounds_and_the_others_go_on(
    machine: Machine, tmp_path: Path, capsys: pytest.CaptureFixture[str], timed: bool
) -> None:
    machine.failing = ("suite.py::test_b",)
    some = of_suite(tmp_path)
    if timed:
        some.within(60.0, 0.1, showing(), quiet)
    else:
        some.of_number(4, lambda paths, wanted: {("suite.py::test_b", "rate")})
    assert machine.asked[0] == ["suite.py"]
    assert set(map(tuple, machine.asked[1:])) == {("suite.py::test_a",)}
    assert some.failed == {"suite.py::test_b": "AssertionError: a wrong sum"}
    assert "suite.py::test_b failed: AssertionError: a wrong sum" in capsys.readouterr().out


@pytest.mark.parametrize("timed", [True, False])
def test_rounds_that_measure_nothing_are_not_repeated(
    machine: Machine, tmp_path: Path, capsys: pytest.CaptureFixture[str], timed: bool
) -> None:
    machine.skipped = tuple(SECONDS)
    some = of_suite(tmp_path)
    found = some.within(200.0, 0.1, showing(), quiet) if timed else some.of_number(3, quiet)
    assert len(found) == len(machine.asked) == 1
    said = capsys.readouterr().out
    assert "stopped: nothing was measured" in said
    assert "every metric can show" not in said


def test_nothing_more_is_run_once_every_metric_shows_enough(
    machine: Machine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    of_suite(tmp_path).within(200.0, 0.1, showing(a=0.1, b=0.05), quiet)
    assert machine.now == 140.0
    assert "every metric can show a loss of 10 %" in capsys.readouterr().out


def test_metrics_that_nobody_wants_have_no_more_rounds(machine: Machine, tmp_path: Path) -> None:
    some = Rounds(tests=["suite.py"], store=tmp_path, profile="smoke", unwanted=["rate"])
    some.within(200.0, 0.1, showing(b=0.05), quiet)
    assert machine.now == 140.0


def test_what_cannot_be_learned_yet_runs_again_as_a_whole(machine: Machine, tmp_path: Path) -> None:
    of_suite(tmp_path).within(200.0, 0.1, lambda paths: None, quiet)
    assert machine.asked == [["suite.py"]] * 9


def test_short_time_still_has_the_fewest_rounds_and_it_is_told(
    machine: Machine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    of_suite(tmp_path).within(30.0, 0.1, showing(a=0.3), quiet)
    assert len(machine.asked) == LEAST_TIMED
    said = capsys.readouterr().out
    assert "6 rounds, the fewest that show anything, take about 2 min 06 s here" in said


def test_the_first_round_says_about_how_long_it_all_takes_and_by_what(
    machine: Machine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No round had shown yet how long one takes, so the first said nothing of it."""
    of_suite(tmp_path).within(300.0, 0.1, showing(a=0.3), quiet)
    said = capsys.readouterr().out.splitlines()
    assert said[:2] == ["round 1", "round 1, about 4 min 49 s left (time asked for)"]
    by_time = [f"about {text} left (time asked for)" for text in ("4 min 49 s", "4 min 44 s")]
    assert [f"round 1, {text}: test_a, 0 of 2 done" for text in by_time] == machine.told[:2]

    machine.told.clear()
    machine.asked.clear()
    of_suite(tmp_path).within(30.0, 0.1, showing(a=0.3), quiet)
    # 41 s each: 36 s beside the 5 s that have passed; more than what was asked for.
    assert machine.told[0].startswith("round 1, about 4 min 01 s left (declared costs): ")
    assert "round 1, about 4 min 01 s left (declared costs)\n" in capsys.readouterr().out


def test_a_node_with_cards_has_fewer_rounds_and_says_how_long_they_take(
    machine: Machine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.cards = True
    of_suite(tmp_path).within(30.0, 0.1, showing(a=0.3), quiet)
    assert len(machine.asked) == LEAST_ON_CARDS
    assert "round 1, about 1 min 58 s left (declared costs)\n" in capsys.readouterr().out


def test_the_first_of_some_rounds_goes_by_declared_costs(machine: Machine, tmp_path: Path) -> None:
    of_suite(tmp_path).of_number(3, quiet)
    first, *_, last = machine.told[: len(SHARES)]
    # 41 s each: 36 s beside the 5 s that have passed; in the end what it has really taken.
    assert first.startswith("round 1 of 3, about 1 min 58 s left (declared costs): ")
    assert last.startswith("round 1 of 3, about 40 s left (declared costs): ")


ALL, A, B = ["suite.py"], ["suite.py::test_a"], ["suite.py::test_b"]
RATE_OF_B = ("suite.py::test_b", "rate")


def test_what_others_disturbed_runs_again_before_what_lacks_power_and_never_beyond_the_time(
    machine: Machine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def disturbed(paths: Sequence[Path], wanted: int) -> set[tuple[str, str]]:
        return {RATE_OF_B} if len(paths) < 7 else set()

    of_suite(tmp_path).within(160.0, 0.1, showing(a=0.3, b=0.05), disturbed)
    assert machine.asked == [ALL] * 6 + [B] + [A] * 3
    assert machine.now <= 160.0 - ENDING
    assert "of 1 metric without enough quiet samples" in capsys.readouterr().out

    machine.asked.clear()
    of_suite(tmp_path).within(30.0, 0.1, showing(a=0.3), lambda paths, wanted: {("other", "rate")})
    assert len(machine.asked) == LEAST_TIMED


def test_what_lacks_power_has_a_turn_where_the_others_were_disturbed_twice_in_a_row(
    machine: Machine, tmp_path: Path
) -> None:
    machine.disturbance, machine.disturbed = ("12 % steal",), ("suite.py::test_b",)
    of_suite(tmp_path).within(240.0, 0.1, showing(a=0.3), lambda paths, wanted: {RATE_OF_B})
    assert machine.asked == [*[ALL] * 9, B, B, A, B]


def test_rounds_of_a_number_are_added_for_the_tests_that_others_disturbed(
    machine: Machine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def disturbed(paths: Sequence[Path], wanted: int) -> list[tuple[str, str]]:
        return [RATE_OF_B] if len(paths) < wanted + 2 else []

    found = of_suite(tmp_path).of_number(3, disturbed)
    assert machine.asked == [ALL, ALL, ALL, B, B]
    assert [path.name[-2:] for path in found] == ["01", "02", "03", "04", "05"]
    said = capsys.readouterr().out
    assert "round 2 of 3, about 40 s left" in said
    assert "round 4 of at most 6, added: 1 metric without enough quiet samples" in said


def test_at_most_as_many_rounds_are_added(machine: Machine, tmp_path: Path) -> None:
    assert len(of_suite(tmp_path).of_number(3, lambda paths, wanted: {RATE_OF_B})) == 6


def test_no_rounds_are_added_for_what_no_round_has_measured(
    machine: Machine, tmp_path: Path
) -> None:
    assert len(of_suite(tmp_path).of_number(3, lambda paths, wanted: {("other", "rate")})) == 3


def test_added_rounds_end_where_others_disturb_them_too(machine: Machine, tmp_path: Path) -> None:
    machine.disturbance, machine.disturbed = ("12 % steal",), ("suite.py::test_b",)
    assert len(of_suite(tmp_path).of_number(5, lambda paths, wanted: {RATE_OF_B})) == 7


@pytest.mark.parametrize("timed", [True, False])
def test_rounds_end_where_others_disturbed_every_measurement_of_two_in_a_row(
    machine: Machine, tmp_path: Path, capsys: pytest.CaptureFixture[str], timed: bool
) -> None:
    machine.disturbance = ("12 % steal",)
    some = of_suite(tmp_path)
    found = some.within(3000.0, 0.1, showing(), quiet) if timed else some.of_number(5, quiet)
    assert len(found) == len(some.finished) == 2
    stopped = "stopped: others disturbed every measurement of two rounds in a row"
    assert stopped in capsys.readouterr().out
    assert "others disturbed every measurement of all 2 rounds" in some.disturbed


def test_one_quiet_sample_lets_the_rounds_go_on(machine: Machine, tmp_path: Path) -> None:
    machine.disturbance, machine.disturbed = ("12 % steal",), ("suite.py::test_b",)
    some = of_suite(tmp_path)
    some.of_number(5, quiet)
    assert len(some.finished) == 5


def test_too_few_rounds_are_refused(machine: Machine, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="at least 3 are needed"):
        of_suite(tmp_path).of_number(2, lambda paths, wanted: [])


def test_a_round_that_others_disturbed_wholly_says_so_at_once_and_what_helps(
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
def test_what_names_no_process_can_only_be_stopped(
    machine: Machine, tmp_path: Path, seen: str
) -> None:
    machine.disturbance = (seen,)
    some = of_suite(tmp_path)
    some.of_number(3, quiet)
    assert f"{seen}; stop what disturbs" in some.disturbed
    assert "--anubis" not in some.disturbed
