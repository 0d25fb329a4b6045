"""How often this machine is measured: rounds of a number, or as many as fit into a time."""

from __future__ import annotations

import datetime as dt
import math
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from pytest_anubis.cli.learning.disturbed_rounds import (
    disturbed_end,
    disturbed_line,
    what_helps,
    wholly_disturbed,
)
from pytest_anubis.cli.learning.option_values import left_out
from pytest_anubis.cli.learning.watched_round import failed_tests, run_round
from pytest_anubis.cli.shared.command_error import CommandError
from pytest_anubis.cli.shared.progress import LiveLine
from pytest_anubis.core.measurement import Measurement
from pytest_anubis.core.metric import percent_text
from pytest_anubis.core.run import RunRecord
from pytest_anubis.report.text.numbers import count_text, duration_text
from pytest_anubis.report.text.run_progress import RunProgress, left_text
from pytest_anubis.validator.deciding.ledger import uncovered_components

if TYPE_CHECKING:
    from pytest_anubis.core.baseline import Baseline

LEAST_ROUNDS = 3
"""Fewest rounds in which noise can be seen at all."""

LEAST_TIMED = 6
"""Fewest rounds however short the time: with fewer, nearly nothing can be shown on a noisy machine."""

LEAST_ON_CARDS = 3
"""The same where there are accelerators: their rates repeat within a percent, and a round takes minutes."""

FOR_ALL = 0.7
"""Part of the time in which all benchmarks run; the rest goes to those that cannot show enough yet."""

GRACE = 0.1
"""Part of the time by which rounds may exceed it for a component that no metric covers yet."""

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
    """The rounds of one learning on this machine."""

    tests: Sequence[str]  # files, folders or node ids
    store: Path  # folder that keeps runs
    profile: str  # sizes and durations
    pytest_args: str = ""  # more of pytest's own arguments
    unwanted: Sequence[str] = ()  # what nothing is learned of, as `option_values.left_out` reads it
    failed: dict[str, str] = field(default_factory=dict)  # test -> why, and it has no more rounds
    _least: int = LEAST_TIMED
    _stamp: str = field(default_factory=lambda: dt.datetime.now(dt.UTC).strftime("%Y%m%d-%H%M%S"))
    _records: list[RunRecord] = field(default_factory=list)
    _paths: list[Path] = field(default_factory=list)
    _took: list[float] = field(default_factory=list)

    def of_number(self, wanted: int, spoiled: Spoiled) -> list[Path]:
        """Run so many rounds, and those of tests again that others disturbed in some of them.

        A disturbed sample teaches nothing, so rounds are added, at most as many again, until every metric has
        as many quiet samples as rounds were asked for.

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
                self._run(line, what, left, rounds=more)
                if self._stops(line):
                    return self._paths
            while len(self._paths) < 2 * wanted:
                few = spoiled(self._paths, wanted)
                tests = self._tests_of(few)
                if not tests:
                    break
                what = f"round {len(self._paths) + 1} of at most {2 * wanted}, added: {_few(few)}"
                self._run(line, what, self._expected(tests), without=self._known() - tests)
                if self._stops(line):
                    break
        return self._paths

    def within(
        self,
        seconds: float,
        detect: float,
        judge: Judge,
        spoiled: Spoiled,
        *,
        asked: bool = True,
    ) -> list[Path]:
        """Run rounds for so long, in the end those of the tests alone that lack something.

        First of those of which others disturbed so many samples that fewer than `LEAST_ROUNDS` are quiet,
        then, or where they were disturbed twice in a row, of those that lack power. The time that the rest of
        the command takes is left to it.

        Args:
            seconds: How long; `LEAST_TIMED` rounds, with accelerators `LEAST_ON_CARDS`, are run however long
                they take, which is reported as soon as the first one knows its tests, and after it.
            detect: Loss that every metric is to find, relative.
            judge: Learns from the rounds so far.
            spoiled: Returns which metrics have fewer quiet samples than wanted.
            asked: Somebody asked for that time: it is kept also where no metric covers a component yet.

        Raises:
            CommandError: A round failed.
        """
        begin, ending = time.monotonic(), ENDING

        def left() -> float:
            return seconds - ending - (time.monotonic() - begin)

        with LiveLine() as line:
            while len(self._paths) < self._least or left() > max(
                self._each(), (1 - FOR_ALL) * seconds
            ):
                number = len(self._paths) + 1
                more = (self._least - number + 1) * self._each()
                if number == 2 and more > left():
                    whole = duration_text(seconds - left() + more)
                    line.say(
                        f"{self._least} rounds, the fewest that show anything, take about {whole} here, "
                        f"more than the {duration_text(seconds)} of --for"
                    )
                self._run(line, f"round {number}", max(left(), more), rounds=None)
                if self._stops(line):
                    return self._paths
            while left() > 0:
                line.show("learning what the rounds so far can show")
                few = spoiled(self._paths, LEAST_ROUNDS)
                wanted, why = self._tests_of(few), _few(few)
                if not wanted or self._disturbed_twice():
                    since = time.monotonic()
                    wanted = self._lacking(judge(self._paths), detect) - wanted
                    ending = max(ENDING, time.monotonic() - since)
                    verb = "lacks" if len(wanted) == 1 else "lack"
                    why = f"{count_text(len(wanted), 'test')} that {verb} power"
                    if not wanted and not few:
                        line.say(
                            f"every metric can show a loss of {percent_text(detect)}: no more rounds are "
                            "needed"
                        )
                if not wanted or left() < self._expected(wanted):
                    break
                what = f"round {len(self._paths) + 1}, of {why}"
                self._run(line, what, left(), without=self._known() - wanted)
            self._cover(line, judge, lambda: left() + GRACE * seconds if asked else math.inf)
        return self._paths

    def _cover(self, line: LiveLine, judge: Judge, left: Callable[[], float]) -> None:
        """Add rounds of the components that no metric covers: no machine is accepted without them.

        At most as many as there had to be, since twice as many show what a third more noise hid, and none
        that is expected to end later than in the seconds that are left.
        """
        for added in range(self._least):
            baseline = judge(self._paths)
            lacking = uncovered_components(baseline) if baseline else ()
            components = [one.component for one in lacking]
            wanted = {one.test for one in self._useful() if one.component in components}
            if not wanted or self._disturbed_twice() or left() < self._expected(wanted):
                break
            what = (
                f"round {len(self._paths) + 1}, added: no metric of {', '.join(components)} "
                "shows a loss of a half yet"
            )
            rest = min(left(), self._expected(wanted) * (self._least - added))
            self._run(line, what, rest, without=self._known() - wanted)

    def _run(
        self,
        line: LiveLine,
        what: str,
        left: float,
        *,
        rounds: int | None = 1,
        without: Collection[str] = (),
    ) -> None:
        """Run one round.

        Args:
            line: Tells how far it is.
            what: What it is called.
            left: Seconds until the last round ends; of the first one, those that were asked for, 0 where it
                was a number of rounds.
            rounds: How many like this one there are at least, itself included; None: by its devices.
            without: Tests that are left out.
        """
        number = len(self._paths) + 1
        begin = time.monotonic()

        def about(moment: RunProgress) -> str:
            passed = time.monotonic() - begin
            rest, by = left - passed, "" if self._took else " (time asked for)"
            count = rounds or self._least - number + 1
            if not self._took and (costs := _reckoned(moment, passed) * count - passed) > rest:
                rest, by = costs, " (declared costs)"
            return "".join(f", {text}{by}" for text in left_text(rest))

        known = bool(self._took)

        def tell(moment: RunProgress) -> None:
            nonlocal known
            if moment.cards:
                self._least = LEAST_ON_CARDS
            if moment.planned and not known:
                known = True
                line.say(f"{what}{about(moment)}")
            line.show(f"{what}{about(moment)}: {moment.text()}")

        line.say(what + (about(RunProgress()) if known else ""))
        self._records.append(
            run_round(
                self.tests,
                without=sorted({*without, *self.failed}),
                store=self.store,
                profile=self.profile,
                run_id=f"learn-{self._stamp}-{number:02d}",
                pytest_args=self.pytest_args,
                tell=tell,
            )
        )
        self._paths.append(self.store / "runs" / self._records[-1].run)
        self._took.append(time.monotonic() - begin)
        if told := disturbed_line(self._records[-1]):
            line.say(f"round {number}: {told}")
        for one in failed_tests(self._records[-1]):
            self.failed[one.test] = one.environment or one.text or one.outcome
            line.say(
                f"round {number}: {one.test} failed: {self.failed[one.test]}; what the others measured is "
                "kept, and they go on without it"
            )

    def _stops(self, line: LiveLine) -> bool:
        """Say that another round would be in vain, where that is so; the end of the command says why."""
        if not self._measured():
            line.say("stopped: nothing was measured, and another round would be the same")
            return True
        if self._disturbed_twice():
            line.say("stopped: others disturbed every measurement of two rounds in a row")
            return True
        return False

    def _disturbed_twice(self) -> bool:
        return len(self._records) > 1 and all(map(wholly_disturbed, self._records[-2:]))

    @property
    def finished(self) -> tuple[Path, ...]:
        """The folders of the rounds that came to their end."""
        return tuple(self._paths)

    @property
    def disturbed(self) -> str:
        """Why nothing can be learned of any round, and how to go on; empty where that is not so."""
        return disturbed_end(self._records)

    def what_helps(self, metrics: Collection[Key]) -> str:
        """Say what disturbed some metrics, and what helps."""
        return what_helps(self._records, metrics)

    def _each(self) -> float:
        """Return the seconds that a round of all tests takes, by the median of those so far."""
        return median(self._took) if self._took else 0.0

    def _measured(self) -> set[str]:
        """Return the tests that measured something in any round."""
        return {one.test for one in self._useful()}

    def _useful(self) -> Iterator[Measurement]:
        """Give what was measured by tests that never failed."""
        for record in self._records:
            yield from (one for one in record.measurements if one.test not in self.failed)

    def _known(self) -> set[str]:
        """Return the tests of any round, those too that were skipped or record no metric."""
        return self._measured() | {one.test for record in self._records for one in record.results}

    def _tests_of(self, keys: Collection[Key]) -> set[str]:
        """Return the tests that measured some metrics in any round."""
        return {one.test for one in self._useful() if (one.benchmark, one.metric.name) in keys}

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
            for one in self._useful()
            if not left_out(one, self.unwanted) and (one.benchmark, one.metric.name) not in shows
        }

    def _expected(self, tests: Collection[str]) -> float:
        """Return the seconds that a round of some tests will take, by their part of the first round.

        What every round takes beside its tests, such as the start of its processes, comes on top.
        """
        spent = {one.test: one.seconds for one in self._records[0].results}
        beside = max(0.0, self._took[0] - sum(spent.values()))
        return beside + sum(spent.get(test, 0.0) for test in tests)


def _reckoned(moment: RunProgress, passed: float) -> float:
    """Return the seconds that a first round will have taken, as far as declared costs tell; 0 if they do not.

    Args:
        moment: How far it is.
        passed: Seconds that it has run.
    """
    return passed + (1 - moment.share) * moment.cost if moment.cost else 0.0


def _few(keys: Collection[Key]) -> str:
    what = count_text(len(keys), "metric")
    return f"{what} without enough quiet samples, because others disturbed this machine"
