"""How often this machine is measured: rounds of a number, or as many short ones as fit into a time."""

from __future__ import annotations

import datetime as dt
import math
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from pytest_anubis.cli.learning.disturbed_rounds import (
    AGAIN,
    disturbed_end,
    disturbed_line,
    vain_line,
    what_helps,
)
from pytest_anubis.cli.learning.live_line import LiveLine
from pytest_anubis.cli.learning.option_values import left_out
from pytest_anubis.cli.learning.watched_round import run_round
from pytest_anubis.cli.shared.command_error import CommandError
from pytest_anubis.core.metric import percent_text
from pytest_anubis.core.run import RunRecord
from pytest_anubis.report.text.moment_text import Moment, left_text
from pytest_anubis.report.text.numbers import count_text, duration_text

if TYPE_CHECKING:
    from pytest_anubis.core.baseline import Baseline

LEAST_ROUNDS = 3
"""Fewest rounds in which noise can be seen at all."""

LEAST_TIMED = 5
"""Fewest rounds however short the time: with fewer, nearly nothing can be shown on a noisy machine."""

FOR_ALL = 0.7
"""Part of the time in which all benchmarks run; the rest goes to those that cannot show enough yet."""

HOPE = 0.2
"""Part of the time after which rounds of a test are in vain if others disturbed all of them: what disturbs
for a minute of five, as a neighbour on the hypervisor does, goes on."""

SEEN = 0.25
"""Part of the declared costs of a brief first round after which its length is reckoned from them: a brief
round is shorter than declared, by a factor that only the round itself tells."""

ENDING = 6.0
"""Seconds that the command takes at its end to read the runs, learn and write, where nothing tells it yet."""

Key = tuple[str, str]
"""Benchmark and name of a metric."""

Spoiled = Callable[[Sequence[Path], int], Collection[Key]]
"""Returns which metrics have fewer quiet samples than wanted, after some runs."""

Judge = Callable[[Sequence[Path]], "Baseline | None"]
"""Learns from some runs; None where nothing can be learned of them."""


@dataclass(kw_only=True)
class Rounds:
    """The rounds of one learning on this machine.

    Attributes:
        tests: Files, folders or node ids.
        store: Folder that keeps runs.
        profile: Sizes and durations.
        pytest_args: More of pytest's own arguments.
        unwanted: What nothing is learned of, as `option_values.left_out` reads it.
        vain: Metrics of which further rounds were in vain: others disturbed the last ones, or all of them.
    """

    tests: Sequence[str]
    store: Path
    profile: str
    pytest_args: str = ""
    unwanted: Sequence[str] = ()
    vain: set[Key] = field(default_factory=set)
    _stamp: str = field(default_factory=lambda: dt.datetime.now(dt.UTC).strftime("%Y%m%d-%H%M%S"))
    _records: list[RunRecord] = field(default_factory=list)
    _paths: list[Path] = field(default_factory=list)
    _took: list[float] = field(default_factory=list)
    _streaks: dict[str, tuple[int, float]] = field(default_factory=dict)

    def of_number(self, wanted: int, spoiled: Spoiled) -> list[Path]:
        """Run so many rounds of full length.

        A sample that was taken while others disturbed the machine teaches nothing, so rounds are added, at
        most as many again, until every metric has as many quiet samples as rounds were asked for. For a
        metric that has none after all of these, no more are added. Where the first `HOPE` of them, and at
        least `LEAST_ROUNDS`, were disturbed wholly, the others are not run: why is told.

        Args:
            wanted: How many rounds.
            spoiled: Returns which metrics have fewer quiet samples than wanted.

        Raises:
            CommandError: Too few, or a round failed.
        """
        if wanted < LEAST_ROUNDS:
            raise CommandError(
                f"--rounds {wanted}: at least {LEAST_ROUNDS} are needed to see the noise"
            )
        with LiveLine() as line:
            while len(self._paths) < wanted:
                more = wanted - len(self._paths)
                what, left = f"round {len(self._paths) + 1} of {wanted}", more * self._each()
                self._run(line, what, left, brief=False, rounds=more)
                if self._empty(line):
                    return self._paths
                hoped = max(LEAST_ROUNDS, math.ceil(HOPE * wanted))
                if self.disturbed and hoped <= len(self._paths) < wanted:
                    line.say(f"stopped: others disturbed all of the first {hoped} rounds")
                    return self._paths
            most, self.vain = 2 * wanted, set(spoiled(self._paths, 1))
            if self.vain and not self.disturbed:  # else the end says it
                line.say(vain_line(self._records, self.vain))
            while len(self._paths) < most and (
                few := set(spoiled(self._paths, wanted)) - self.vain
            ):
                line.say(f"round {len(self._paths) + 1} of at most {most}, added: {_few(few)}")
                self._run(line, f"round {len(self._paths) + 1}", self._each(), brief=False)
        return self._paths

    def within(self, seconds: float, detect: float, judge: Judge, spoiled: Spoiled) -> list[Path]:
        """Run short rounds for so long, in the end those of the benchmarks alone that lack something.

        First of those of which others disturbed so many samples that fewer than `LEAST_ROUNDS` are quiet,
        then of those that lack power. Tests that others disturbed in each of their last `LEAST_ROUNDS`
        rounds, and for `HOPE` of the time, have no more: why is told. The time that the rest of the command
        takes is left to it.

        Args:
            seconds: How long; `LEAST_TIMED` rounds are run however long they take, which is told after the
                first one; fewer where others disturbed all of them so far and those that are left could not
                teach anything, however quiet (fewer than `LEAST_ROUNDS`).
            detect: Loss that every metric is to find, relative.
            judge: Learns from the rounds so far.
            spoiled: Returns which metrics have fewer quiet samples than wanted.

        Raises:
            CommandError: A round failed.
        """
        begin, ending = time.monotonic(), ENDING

        def left() -> float:
            return seconds - ending - (time.monotonic() - begin)

        with LiveLine() as line:
            while len(self._paths) < LEAST_TIMED or (
                left() > self._each()
                and left() > (1 - FOR_ALL) * seconds
                and self._in_vain(HOPE * seconds) != self._measured()
            ):
                if self.disturbed and self._rounds_left(left()) < LEAST_ROUNDS:
                    line.say(f"stopped: the rounds that are left are fewer than {LEAST_ROUNDS}")
                    return self._paths
                number = len(self._paths) + 1
                more = (LEAST_TIMED - number + 1) * self._each()
                if number == 2 and more > left():
                    whole = duration_text(seconds - left() + more)
                    line.say(
                        f"{LEAST_TIMED} rounds, the fewest that show anything, take about {whole} here, "
                        f"longer than the {duration_text(seconds)} that were asked for"
                    )
                least = LEAST_TIMED - len(self._paths)
                self._run(line, f"round {number}", max(left(), more), brief=True, rounds=least)
                if self._empty(line):
                    return self._paths
            while left() > 0:
                line.show("learning what the rounds so far can show")
                vain = self._in_vain(HOPE * seconds)
                few = {
                    key
                    for key in spoiled(self._paths, LEAST_ROUNDS)
                    if self._tests_of([key]) - vain
                }
                if few:
                    wanted, why = self._tests_of(few), _few(few)
                else:
                    since = time.monotonic()
                    wanted = self._lacking(judge(self._paths), detect)
                    ending = max(ENDING, time.monotonic() - since)
                    verb = "lacks" if len(wanted) == 1 else "lack"
                    why = f"{count_text(len(wanted), 'test')} that {verb} power"
                lacking = wanted - vain
                if not lacking:
                    self.vain = self._metrics_of(wanted)
                    if not wanted:
                        line.say(
                            f"every metric can show a loss of {percent_text(detect)}: no more rounds are "
                            "needed"
                        )
                    elif not self.disturbed:  # else the end says it
                        last = min(self._streaks[test][0] for test in wanted)
                        line.say(vain_line(self._records, self.vain, last))
                    break
                if left() < self._expected(lacking):
                    break
                what = f"round {len(self._paths) + 1}, of {why}"
                self._run(line, what, left(), brief=True, without=self._known() - lacking)
        return self._paths

    def _run(
        self,
        line: LiveLine,
        what: str,
        left: float,
        *,
        brief: bool,
        rounds: int = 1,
        without: Collection[str] = (),
    ) -> None:
        """Run one round.

        Args:
            line: Tells how far it is.
            what: What it is called.
            left: Seconds until the last round ends; of the first one, those that were asked for, 0 where it
                was a number of rounds.
            brief: Measure for a moment only.
            rounds: How many like this one there are at least, itself included.
            without: Tests that are left out.
        """
        number = len(self._paths) + 1
        begin = time.monotonic()

        def about(moment: Moment) -> str:
            passed = time.monotonic() - begin
            rest, by = left - passed, "" if self._took else " (time asked for)"
            if (
                not self._took
                and (costs := _reckoned(moment, passed, brief) * rounds - passed) > rest
            ):
                rest, by = costs, " (declared costs)"
            return "".join(f", {text}{by}" for text in left_text(rest))

        def tell(moment: Moment) -> None:
            line.show(f"{what}{about(moment)}: {moment.text()}")

        line.say(what + about(Moment()))
        self._records.append(
            run_round(
                self.tests,
                without=sorted(without),
                store=self.store,
                profile=self.profile,
                run_id=f"learn-{self._stamp}-{number:02d}",
                brief=brief,
                pytest_args=self.pytest_args,
                tell=tell,
            )
        )
        self._paths.append(self.store / "runs" / self._records[-1].run)
        self._took.append(time.monotonic() - begin)
        self._count_streaks(begin)
        if told := disturbed_line(self._records[-1]):
            # What would help is said at first, when two rounds have taught nothing, and at the end.
            before = sum(map(bool, map(disturbed_line, self._records[:-1])))
            if before == number - 1 == 1:
                told = f"{AGAIN}, so nothing can be learned so far: {what_helps(self._records)}"
            elif before:
                told = AGAIN
            line.say(f"round {number}: {told}")

    def _empty(self, line: LiveLine) -> bool:
        """Say that rounds have measured nothing at all, where that is so; the end of the command says why."""
        if self._measured():
            return False
        line.say("stopped: nothing was measured, and another round would be the same")
        return True

    @property
    def finished(self) -> tuple[Path, ...]:
        """The folders of the rounds that came to their end."""
        return tuple(self._paths)

    @property
    def disturbed(self) -> str:
        """Why nothing can be learned of any round, and how to go on; empty where that is not so."""
        return disturbed_end(self._records)

    def what_helps(self, metrics: Collection[Key]) -> str:
        """Say what disturbed some metrics, and which options would have let them count."""
        return what_helps(self._records, metrics)

    def _rounds_left(self, seconds: float) -> float:
        """Return how many rounds there can still be, in so many seconds or to reach `LEAST_TIMED`."""
        in_time = seconds / self._each() if self._each() else math.inf
        return max(LEAST_TIMED - len(self._paths), in_time)

    def _each(self) -> float:
        """Return the seconds that a round of all tests takes, by the median of those so far."""
        return median(self._took) if self._took else 0.0

    def _measured(self) -> set[str]:
        """Return the tests that measured something in any round."""
        return {one.test for record in self._records for one in record.measurements}

    def _known(self) -> set[str]:
        """Return the tests of any round, those too that were skipped or record no metric."""
        return self._measured() | {one.test for record in self._records for one in record.results}

    def _tests_of(self, keys: Collection[Key]) -> set[str]:
        """Return the tests that measured some metrics in any round."""
        return {
            one.test
            for record in self._records
            for one in record.measurements
            if (one.benchmark, one.metric.name) in keys
        }

    def _metrics_of(self, tests: Collection[str]) -> set[Key]:
        """Return the metrics that some tests measured in any round."""
        return {
            (one.benchmark, one.metric.name)
            for record in self._records
            for one in record.measurements
            if one.test in tests
        }

    def _count_streaks(self, begin: float) -> None:
        """Count of each test the rounds in a row in which others disturbed all that it measured."""
        quiet = {one.test: not one.disturbance for one in self._records[-1].measurements}
        for one in self._records[-1].measurements:
            quiet[one.test] |= not one.disturbance
        for test, any_quiet in quiet.items():
            count, since = self._streaks.get(test, (0, begin))
            self._streaks[test] = (0, time.monotonic()) if any_quiet else (count + 1, since)

    def _in_vain(self, least: float) -> set[str]:
        """Return the tests whose rounds others disturbed in a row, and for so many seconds."""
        now = time.monotonic()
        return {
            test
            for test, (count, since) in self._streaks.items()
            if count >= LEAST_ROUNDS and now - since >= least
        }

    def _lacking(self, baseline: Baseline | None, detect: float) -> set[str]:
        """Return the tests with a metric that cannot show a loss of `detect` yet."""
        if baseline is None:
            return self._measured()
        shows = {
            (c.benchmark, c.metric.name)
            for c in baseline.criteria
            if c.metric.better == "equal" or (c.shown_loss is not None and c.shown_loss <= detect)
        }
        return {
            one.test
            for record in self._records
            for one in record.measurements
            if not left_out(one, self.unwanted) and (one.benchmark, one.metric.name) not in shows
        }

    def _expected(self, tests: Collection[str]) -> float:
        """Return the seconds that a round of some tests will take, by their part of the first round.

        What every round takes beside its tests, such as the start of its processes, comes on top.
        """
        spent = {one.test: one.seconds for one in self._records[0].results}
        beside = max(0.0, self._took[0] - sum(spent.values()))
        return beside + sum(spent.get(test, 0.0) for test in tests)


def _reckoned(moment: Moment, passed: float, brief: bool) -> float:
    """Return the seconds that a first round will have taken, as far as declared costs tell; 0 if they do not.

    Args:
        moment: How far it is.
        passed: Seconds that it has run.
        brief: It measures for a moment only, so that it is shorter than declared.
    """
    if brief:
        return passed / moment.share if moment.share >= SEEN else 0.0
    return passed + (1 - moment.share) * moment.cost if moment.cost else 0.0


def _few(keys: Collection[Key]) -> str:
    what = count_text(len(keys), "metric")
    return f"{what} without enough quiet samples, because others disturbed this machine"
