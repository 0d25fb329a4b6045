"""Run the rounds in which ``anubis learn`` measures this machine: a given number, or for about a given time.

Tests that other programs disturbed get more rounds. With a time, so do those that lack statistical power.
"""

from __future__ import annotations

import datetime as dt
import math
import re
import shlex
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from pytest_anubis.cli.learning.option_values import is_named
from pytest_anubis.cli.learning.watched_round import failed_tests, run_round
from pytest_anubis.cli.shared.command_error import CommandError
from pytest_anubis.cli.shared.progress import LiveLine
from pytest_anubis.core.measurement import Measurement
from pytest_anubis.core.metric import percent_text
from pytest_anubis.core.run import RunRecord
from pytest_anubis.hardware.load.disturbance import processes_named
from pytest_anubis.report.text.numbers import count_text, duration_text
from pytest_anubis.report.text.run_progress import RunProgress, left_text
from pytest_anubis.report.text.text_table import clip
from pytest_anubis.validator.deciding.ledger import uncovered_components

if TYPE_CHECKING:
    from pytest_anubis.core.baseline import Baseline

MIN_ROUNDS = 3
"""Fewest quiet rounds that show any noise."""

MIN_TIMED_ROUNDS = 6
"""Fewest rounds with a time, however short: fewer show nearly nothing on a noisy machine."""

MIN_ROUNDS_ON_CARDS = 3
"""The same with accelerators, whose rates repeat within a percent and whose rounds take minutes."""

SHARE_FOR_ALL = 0.7
"""Share of the time in which all tests run; the rest is for tests that lack quiet samples or power."""

OVERTIME = 0.1
"""Share of the user's time by which rounds may exceed it for a component that no metric covers yet."""

END_SECONDS = 6.0
"""Seconds that the command needs at its end to read the runs, learn and write, until it has been measured."""

MAX_CAUSES_LENGTH = 200
"""Characters for the kinds of disturbance and the processes behind them."""
_NUMBER = re.compile(r"[\d.]+")

MetricKey = tuple[str, str]
"""Benchmark and name of a metric."""

FindUndersampled = Callable[[Sequence[Path], int], Collection[MetricKey]]
"""Returns which metrics have fewer quiet samples than wanted, after some runs."""

LearnSoFar = Callable[[Sequence[Path]], "Baseline | None"]
"""Learns from some runs; returns None if nothing can be learned from them."""


@dataclass(kw_only=True)
class Rounds:
    """The rounds of one learning on this machine."""

    tests: Sequence[str]  # files, folders or node ids
    store: Path  # folder that keeps runs
    profile: str  # sizes and durations
    pytest_args: str = ""  # more of pytest's own arguments
    unwanted: Sequence[str] = ()  # what nothing is learned of, as `option_values.is_named` reads it
    failed: dict[str, str] = field(default_factory=dict)  # test -> why; it has no more rounds
    _min_rounds: int = MIN_TIMED_ROUNDS
    _stamp: str = field(default_factory=lambda: dt.datetime.now(dt.UTC).strftime("%Y%m%d-%H%M%S"))
    _records: list[RunRecord] = field(default_factory=list)
    _paths: list[Path] = field(default_factory=list)
    _took: list[float] = field(default_factory=list)

    def of_number(self, wanted: int, undersampled: FindUndersampled) -> list[Path]:
        """Run `wanted` rounds, then at most as many again of tests without `wanted` quiet samples.

        Two rounds in a row that were disturbed throughout end it early. `undersampled` returns which metrics
        have fewer quiet samples than wanted.
        """
        if wanted < MIN_ROUNDS:
            raise CommandError(
                f"--rounds {wanted}: at least {MIN_ROUNDS} are needed to see the noise"
            )
        with LiveLine() as line:
            while len(self._paths) < wanted:
                more = wanted - len(self._paths)
                name = f"round {len(self._paths) + 1} of {wanted}"
                self._run(line, name, more * self._typical_seconds(), rounds=more)
                if self._stops(line):
                    return self._paths
            while len(self._paths) < 2 * wanted:
                keys = undersampled(self._paths, wanted)
                tests = self._tests_of(keys)
                if not tests:
                    break
                number = len(self._paths) + 1
                name = f"round {number} of at most {2 * wanted}, added: {_undersampled_text(keys)}"
                self._run(line, name, self._expected(tests), without=self._known() - tests)
                if self._stops(line):
                    break
        return self._paths

    def within(
        self,
        seconds: float,
        detect: float,
        learn: LearnSoFar,
        undersampled: FindUndersampled,
        *,
        asked: bool = True,
    ) -> list[Path]:
        """Run rounds for about a time: of all tests first, then of the tests that lack something.

        Of these, tests with fewer than `MIN_ROUNDS` quiet samples come first, unless two rounds in a row were
        disturbed throughout; then tests that lack power. Rounds end early if no test lacks anything.

        Args:
            seconds: How long, the end of the command included. `MIN_TIMED_ROUNDS` rounds, with accelerators
                `MIN_ROUNDS_ON_CARDS`, are run however long they take; a line after the first says so.
            detect: Loss that every metric is to find, relative.
            learn: Learns from the rounds so far.
            undersampled: As of `of_number`.
            asked: The user gave the time: rounds for an uncovered component may exceed it by `OVERTIME`, else
                by any time.
        """
        begin = time.monotonic()
        end_seconds = END_SECONDS

        def left() -> float:
            return seconds - end_seconds - (time.monotonic() - begin)

        with LiveLine() as line:
            while len(self._paths) < self._min_rounds or left() > max(
                self._typical_seconds(), (1 - SHARE_FOR_ALL) * seconds
            ):
                number = len(self._paths) + 1
                more = (self._min_rounds - number + 1) * self._typical_seconds()
                if number == 2 and more > left():
                    whole = duration_text(seconds - left() + more)
                    line.say(
                        f"{self._min_rounds} rounds, the fewest that a time allows, take about {whole} here, "
                        f"more than {duration_text(seconds)}"
                    )
                self._run(line, f"round {number}", max(left(), more), rounds=None)
                if self._stops(line):
                    return self._paths
            while left() > 0:
                line.show("learning what the rounds so far can show")
                keys = undersampled(self._paths, MIN_ROUNDS)
                tests = self._tests_of(keys)
                why = _undersampled_text(keys)
                if not tests or self._disturbed_twice():
                    since = time.monotonic()
                    tests = self._lacking_power(learn(self._paths), detect) - tests
                    end_seconds = max(END_SECONDS, time.monotonic() - since)
                    verb = "lacks" if len(tests) == 1 else "lack"
                    why = f"{count_text(len(tests), 'test')} that {verb} power"
                    if not tests and not keys:
                        line.say(
                            f"every metric can show a loss of {percent_text(detect)}: no more rounds are "
                            "needed"
                        )
                if not tests or left() < self._expected(tests):
                    break
                name = f"round {len(self._paths) + 1}, of {why}"
                self._run(line, name, left(), without=self._known() - tests)
            self._cover_components(
                line, learn, lambda: left() + OVERTIME * seconds if asked else math.inf
            )
        return self._paths

    def _cover_components(
        self, line: LiveLine, learn: LearnSoFar, left: Callable[[], float]
    ) -> None:
        """Add rounds of the components that no metric covers: no machine is accepted without them.

        At most `_min_rounds` are added, since doubling the rounds narrows the noise to 0.71, and none
        that is expected to take longer than the time left.
        """
        for added in range(self._min_rounds):
            baseline = learn(self._paths)
            lacking = uncovered_components(baseline) if baseline else ()
            components = [one.component for one in lacking]
            tests = {one.test for one in self._useful() if one.component in components}
            if not tests or self._disturbed_twice() or left() < self._expected(tests):
                break
            name = (
                f"round {len(self._paths) + 1}, added: no metric of {', '.join(components)} "
                "shows a loss of a half yet"
            )
            rest = min(left(), self._expected(tests) * (self._min_rounds - added))
            self._run(line, name, rest, without=self._known() - tests)

    def _run(
        self,
        line: LiveLine,
        name: str,
        left: float,
        *,
        rounds: int | None = 1,
        without: Collection[str] = (),
    ) -> None:
        """Run one round.

        Args:
            line: Shows its progress.
            name: What it is called.
            left: Seconds until the last round is expected to end; in the first round the time given, or 0.
            rounds: For the first estimate, rounds to come with this one; None: the fewest with a time.
            without: Tests that are left out.
        """
        number = len(self._paths) + 1
        begin = time.monotonic()
        announced = bool(self._took)

        def about(moment: RunProgress) -> str:
            passed = time.monotonic() - begin
            rest = left - passed
            by = "" if self._took else " (time asked for)"
            if not self._took and moment.cost:
                count = rounds or self._min_rounds - number + 1
                costs = (passed + (1 - moment.share) * moment.cost) * count - passed
                if costs > rest:
                    rest = costs
                    by = " (declared costs)"
            return "".join(f", {text}{by}" for text in left_text(rest))

        def show(moment: RunProgress) -> None:
            nonlocal announced
            if moment.cards:
                self._min_rounds = MIN_ROUNDS_ON_CARDS
            if moment.planned and not announced:
                announced = True
                line.say(f"{name}{about(moment)}")
            line.show(f"{name}{about(moment)}: {moment.text()}")

        line.say(name + (about(RunProgress()) if announced else ""))
        record = run_round(
            self.tests,
            without=sorted({*without, *self.failed}),
            store=self.store,
            profile=self.profile,
            run_id=f"learn-{self._stamp}-{number:02d}",
            pytest_args=self.pytest_args,
            tell=show,
        )
        self._records.append(record)
        self._paths.append(self.store / "runs" / record.run)
        self._took.append(time.monotonic() - begin)
        if wholly_disturbed(record):
            every = count_text(len(_speed_measurements(record)), "measurement")
            line.say(
                f"round {number}: others disturbed all of its {every} of speed, so none of them teaches "
                f"anything: {what_helps([record])}"
            )
        for one in failed_tests(record):
            self.failed[one.test] = one.environment or one.text or one.outcome
            line.say(
                f"round {number}: {one.test} failed: {self.failed[one.test]}; what the other tests "
                "measured is kept, and the rounds go on without this one"
            )

    def _stops(self, line: LiveLine) -> bool:
        """Return whether another round would teach nothing, and print why; `what_helps` has the remedy."""
        if not self._measured():
            line.say(
                "stopped: no test that passes measured anything, and another round would be the same"
            )
            return True
        if self._disturbed_twice():
            line.say("stopped: others disturbed every measurement of speed in two rounds in a row")
            return True
        return False

    def _disturbed_twice(self) -> bool:
        return len(self._records) > 1 and all(map(wholly_disturbed, self._records[-2:]))

    @property
    def finished(self) -> tuple[Path, ...]:
        """The folders of the rounds that ended."""
        return tuple(self._paths)

    @property
    def disturbed(self) -> str:
        """Why nothing can be learned from any round, and what helps; empty if something can."""
        if not self._records or not all(map(wholly_disturbed, self._records)):
            return ""
        rounds = count_text(len(self._records), "round")
        helps = what_helps(self._records)
        return f"others disturbed every measurement of speed in all {rounds}: {helps}"

    @property
    def root(self) -> str:
        """Path from the current folder to pytest's root; empty if it is this one."""
        return self._records[0].root if self._records else ""

    def what_helps(self, metrics: Collection[MetricKey]) -> str:
        """Return what disturbed some metrics, and what helps."""
        return what_helps(self._records, metrics)

    def _typical_seconds(self) -> float:
        """Return the median seconds of the rounds so far; 0 before the first one has ended."""
        return median(self._took) if self._took else 0.0

    def _measured(self) -> set[str]:
        """Return the tests that never failed and measured something in any round."""
        return {one.test for one in self._useful()}

    def _useful(self) -> Iterator[Measurement]:
        """Yield the measurements of tests that never failed."""
        for record in self._records:
            yield from (one for one in record.measurements if one.test not in self.failed)

    def _known(self) -> set[str]:
        """Return the tests of any round, also those that were skipped or record no metric."""
        return self._measured() | {one.test for record in self._records for one in record.results}

    def _tests_of(self, keys: Collection[MetricKey]) -> set[str]:
        """Return the tests that never failed and measured any of some metrics in any round."""
        return {one.test for one in self._useful() if (one.benchmark, one.metric.name) in keys}

    def _lacking_power(self, baseline: Baseline | None, detect: float) -> set[str]:
        """Return the tests that never failed and have a metric that cannot show a loss of `detect` yet."""
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
            if not is_named(one, self.unwanted) and (one.benchmark, one.metric.name) not in shows
        }

    def _expected(self, tests: Collection[str]) -> float:
        """Return the seconds that a round of some tests will take, by their part of the first round.

        The time of a round outside its tests, such as the start of processes, is added.
        """
        spent = {one.test: one.seconds for one in self._records[0].results}
        overhead = max(0.0, self._took[0] - sum(spent.values()))
        return overhead + sum(spent.get(test, 0.0) for test in tests)


def _speed_measurements(record: RunRecord) -> list[Measurement]:
    """Return the measurements that load can change; an exact value teaches whatever else runs."""
    return [one for one in record.measurements if one.metric.better != "equal"]


def wholly_disturbed(record: RunRecord) -> bool:
    """Return whether others disturbed every measurement of speed in a round, so that it teaches none."""
    timed = _speed_measurements(record)
    return bool(timed) and all(one.disturbance for one in timed)


def what_helps(records: Sequence[RunRecord], metrics: Collection[MetricKey] | None = None) -> str:
    """Return what disturbed some metrics (None: all of speed), and what helps; empty if nothing did.

    It helps to stop what disturbs, or to allow processes that are always there.
    """
    phrases = [
        phrase
        for record in records
        for one in (_speed_measurements(record) if metrics is None else record.measurements)
        if metrics is None or (one.benchmark, one.metric.name) in metrics
        for phrase in one.disturbance
    ]
    if not phrases:
        return ""
    kinds: dict[str, str] = {}
    for phrase in phrases:
        kinds.setdefault(_NUMBER.sub("", phrase.partition(":")[0]), phrase)
    seen = clip("; ".join(kinds.values()), MAX_CAUSES_LENGTH)
    names = processes_named(phrases)
    if not names:
        return f"{seen}; stop what disturbs"
    option = shlex.quote(f"--anubis-allow-process={','.join(names)}")
    return (
        f"{seen}; stop {', '.join(names)}, or allow what belongs to a quiet machine with "
        f"--pytest-args={option}"
    )


def _undersampled_text(keys: Collection[MetricKey]) -> str:
    metrics = count_text(len(keys), "metric")
    return f"{metrics} without enough quiet samples, because others disturbed this machine"
