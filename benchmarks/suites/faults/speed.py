"""Faults that take time: what is measured under each, and trials in turns that can be gone on with later.

The baseline is learned once for all rows. In each round every row has one trial, that without a fault too, so
that all of them see the same hours of the machine. A trial is a short run: the plugin's own recorder measures
the kernels of its row, as long as in `smoke`, by the host's clear moments, looks again where a call is close,
and visits again what met too few clear moments or would fail. What met none says nothing, as in a run.
"""

from __future__ import annotations

import json
import platform
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.suites.faults import slowdowns
from benchmarks.suites.faults.kernels import Kernel, kernels
from pytest_anubis.benchmarking.shaped_link import NotPossible
from pytest_anubis.core.baseline import Baseline
from pytest_anubis.core.gather import Gather
from pytest_anubis.core.measurement import Measurement
from pytest_anubis.core.sample import Population
from pytest_anubis.core.verdict import Outcome
from pytest_anubis.hardware.load.clear_moments import HostMonitor
from pytest_anubis.hardware.load.host_load import LoadReader
from pytest_anubis.hardware.load.kernel_counters import RESCAN
from pytest_anubis.session.collecting.benchmark_mark import BenchmarkMark
from pytest_anubis.session.context import RunContext, discard
from pytest_anubis.session.measuring.attempts import Visit
from pytest_anubis.session.measuring.conditions import Conditions, ConditionsWatch
from pytest_anubis.session.measuring.recorder import Found, Recorder
from pytest_anubis.session.measuring.sample_verdicts import judge_measurement
from pytest_anubis.session.measuring.visits import MAX_FRUITLESS, MAX_VISITS, MIN_SECONDS
from pytest_anubis.settings import Settings
from pytest_anubis.store.baselines.baseline_form import baseline_from_plain, baseline_to_plain
from pytest_anubis.validator import learn_baseline

BETWEEN_RUNS = (
    1.0  # seconds between two runs of learning: what makes a host noisy lasts about so long
)
THERE = (
    2 * RESCAN
)  # seconds for which a fault is there before its trial: so old is what a run knows
WAY = "clear moments"  # how what a state holds was measured
HERE = "here"  # name of node and hardware class
SETTINGS = Settings(active=True, profile="smoke", node=HERE)


@dataclass(frozen=True)
class Slowdown:
    """A fault that takes time.

    Attributes:
        inject: Returns the context in which it is there.
        finds: Kernels of which at least one must fail.
        spares: Kernels that it does not concern.
        disturbs: It is somebody else on the cores: to say so, and to judge nothing, is to find it.
    """

    inject: Callable[[], AbstractContextManager[object]]
    finds: tuple[str, ...]
    spares: tuple[str, ...]
    disturbs: bool = False


Values = dict[str, Measurement]
"""What a run measured, by kernel."""

ALL_KERNELS = (
    "gemm", "training", "triad", "dispatch", "disk write", "tcp", "link", "all-reduce", "loading",
    "slowest rank",
)  # fmt: skip
CORE = (("gemm", "training"), ("disk write", "link"))
LINK = (("link", "all-reduce"), ("gemm", "tcp"))
SLOWDOWNS = {
    "nothing": Slowdown(nullcontext, (), ALL_KERNELS),
    "a busy core": Slowdown(slowdowns.busy_core, *CORE, disturbs=True),
    "a core at half its quota": Slowdown(lambda: slowdowns.part_of_core(0.5), *CORE),
    "a core at .8 of its quota": Slowdown(lambda: slowdowns.part_of_core(0.8), *CORE),
    "a neighbour that streams memory": Slowdown(
        slowdowns.memory_neighbour, ("triad",), ("link",), disturbs=True
    ),
    "disk limited to 100 MB/s": Slowdown(
        slowdowns.slow_disk, ("disk write",), ("gemm", "dispatch", "link")
    ),
    "a reader at 10 MB/s": Slowdown(
        lambda: slowdowns.slow_reader(10e6), ("loading",), ("gemm", "dispatch")
    ),
    "a rank at .6 of its time": Slowdown(
        lambda: slowdowns.slow_rank(0.6), ("slowest rank",), ("gemm", "loading")
    ),
    "link at .5 of its rate": Slowdown(lambda: slowdowns.slow_link(0.5), *LINK),
    "link at .8 of its rate": Slowdown(lambda: slowdowns.slow_link(0.8), *LINK),
    "link at .9 of its rate": Slowdown(lambda: slowdowns.slow_link(0.9), *LINK),
}


@dataclass(frozen=True)
class Trial:
    """What one trial said.

    Attributes:
        failed: The kernels that failed.
        unclear: Those that met too few clear moments, or were slow in one visit alone: not judged.
    """

    failed: frozenset[str]
    unclear: frozenset[str]


@dataclass
class Tried:
    """What the trials of one fault have said so far.

    Attributes:
        trials: One after the other.
        impossible: Why this machine cannot have the fault; empty where it can.
    """

    trials: list[Trial] = field(default_factory=list)
    impossible: str = ""

    def found(self, fault: Slowdown) -> int:
        """Return in how many trials one of those that must find it did."""
        finds = set(fault.finds)
        return sum(
            bool(finds & (one.failed | one.unclear if fault.disturbs else one.failed))
            for one in self.trials
        )

    def alarms(self, fault: Slowdown) -> int:
        """Return in how many trials one of those that it does not concern failed."""
        return sum(bool(one.failed & set(fault.spares)) for one in self.trials)

    def by(self) -> Counter[str]:
        """Return how often each kernel failed."""
        return Counter(name for one in self.trials for name in one.failed)

    def unclear(self) -> Counter[str]:
        """Return how often each kernel could not be judged."""
        return Counter(name for one in self.trials for name in one.unclear)


class WrongState(ValueError):
    """A file of trials cannot be gone on with; the message says why."""


class State:
    """The trials so far, in a file where there is one: what was cut short is gone on with.

    A line for the baseline, then one for each trial. A last line that was cut off counts as not written.

    Args:
        path: The file; None keeps nothing.

    Attributes:
        baseline: What all trials are judged by; None until it is learned.
        best: The best reading of the host's probe in learning; 0 if none is known.
        quickest: By benchmark and metric, the quickest readings of its measurements.
        tried: By fault, what its trials have said.
        kept: There is a file.

    Raises:
        WrongState: It is no such file, or another machine's.
    """

    def __init__(self, path: Path | None) -> None:
        self._path, self.kept = path, path is not None
        self.baseline: Baseline | None = None
        self.best = 0.0
        self.quickest: dict[str, list[float]] = {}
        self.tried = {name: Tried() for name in SLOWDOWNS}
        if path is None or not path.exists():
            return
        text = path.read_text(encoding="utf-8")
        whole = text[: text.rfind("\n") + 1]
        if whole != text:
            path.write_text(whole, encoding="utf-8")
        try:
            for line in map(json.loads, whole.splitlines()):
                if "baseline" in line:
                    self._took(line)
                else:
                    one = Trial(frozenset(line["failed"]), frozenset(line["unclear"]))
                    self.tried[line["fault"]].trials.append(one)
        except (ValueError, KeyError, TypeError) as error:
            if isinstance(error, WrongState):
                raise
            raise WrongState(f"{path}: no trials of this script: {error}") from error

    def _took(self, line: dict[str, Any]) -> None:
        if line["machine"] != platform.node():
            raise WrongState(f"{self._path}: of machine {line['machine']}, this is another one")
        if line.get("way") != WAY:
            raise WrongState(f"{self._path}: of an earlier version: begin another file")
        self.baseline = baseline_from_plain(line["baseline"])
        self.best = float(line["best"])
        self.quickest = {
            str(name): list(map(float, known)) for name, known in line["beside"].items()
        }

    def learned(self, baseline: Baseline, host: HostMonitor) -> None:
        """Keep what all trials are judged by, and what is known of the host's probe."""
        self.baseline, self.best, self.quickest = baseline, host.best, host.quickest
        known = {"best": host.best, "beside": host.quickest}
        plain = baseline_to_plain(baseline)
        self._append({"machine": platform.node(), "way": WAY, **known, "baseline": plain})

    def add(self, fault: str, trial: Trial) -> None:
        """Keep a trial."""
        self.tried[fault].trials.append(trial)
        said = {"failed": sorted(trial.failed), "unclear": sorted(trial.unclear)}
        self._append({"fault": fault, **said})

    def _append(self, line: dict[str, object]) -> None:
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")


def this_host(best: float, quickest: Mapping[str, Sequence[float]]) -> HostMonitor:
    """Return this host as a run of its own sees it: a fault that is a stranger's is no part of the run.

    Args:
        best: The best reading of its probe that is known from before.
        quickest: The quickest readings of earlier measurements.
    """
    reader = LoadReader()

    def own() -> list[str]:
        return [one for one in reader.tree() if int(one) not in slowdowns.STRANGERS]

    return HostMonitor(own, best, quickest=quickest)


class Watch(ConditionsWatch):
    """Watches one trial by the host's clear moments alone: what else is disturbed nobody asks.

    Args:
        context: The facts of the trial.
        host: Takes the readings.
    """

    def __init__(self, context: RunContext, host: HostMonitor) -> None:
        super().__init__(context)
        self._host = host

    @contextmanager
    def around(self, *, host: bool = True) -> Iterator[Conditions]:
        """See nothing by itself."""
        yield Conditions()


def measured(kernels_: Mapping[str, Kernel], context: RunContext, host: HostMonitor) -> Values:
    """Measure kernels as a run does its tests: once each, and in turns what is to be visited again.

    Args:
        kernels_: By name.
        context: With the baseline that they are judged by, if there is one.
        host: Takes the readings.
    """
    watch = Watch(context, host)
    found: Values = {}
    earlier: dict[str, Found] = {}
    visits = Counter[str]()
    waiting, last, fruitless, clear = list(kernels_), False, 0, 0
    until = float("inf")
    while waiting:
        turn, waiting = waiting, []
        for name in turn:
            visits[name] += 1
            recorder = Recorder(
                test=name,
                benchmark=name,
                mark=BenchmarkMark(component="host", resources=kernels_[name].resources),
                device=None,
                context=context,
                sink=discard,
                watch=watch,
                earlier=earlier.get(name),
                visit=Visit(last=last or visits[name] >= MAX_VISITS, hurry=last),
            )
            kernels_[name].measure(recorder)
            earlier[name] = recorder.found
            if recorder.waiting:
                waiting.append(name)
            else:
                found[name] = recorder.measurements[-1]
        now = sum(len(one.values) for name in turn for one in earlier[name].values())
        fruitless = 0 if now > clear else fruitless + len(turn)
        clear = sum(len(one.values) for name in waiting for one in earlier[name].values())
        until = min(until, time.monotonic() + MIN_SECONDS)
        last = fruitless >= MAX_FRUITLESS or time.monotonic() >= until
    return found


def tried(
    chosen: Sequence[str], trials: int, learn: int, state: State, until: float = float("inf")
) -> bool:
    """Try faults in turns, each until it has so many trials; return whether all of them were made.

    Args:
        chosen: Names of faults.
        trials: Trials of each, those that the state has included.
        learn: Runs that the baseline is learned from, where the state has none.
        state: Takes what comes out.
        until: No trial begins after this moment of the monotonic clock.
    """
    of_rows = {n for name in chosen for n in (*SLOWDOWNS[name].finds, *SLOWDOWNS[name].spares)}
    # Who goes on with a state may choose other rows: what they need is learned too.
    wanted = of_rows if state.baseline is not None or not state.kept else set(ALL_KERNELS)
    with ExitStack() as stack:
        there, absent = kernels(wanted, stack)
        for reason in absent:
            print(f"  not possible here: {reason}")
        host = this_host(state.best, state.quickest)
        if (baseline := state.baseline) is None:
            baseline = _learned(there, host, learn)
            state.learned(baseline, host)
        judge = Judge(there, baseline, host)
        judge.say()
        for number in range(trials):
            begin = time.monotonic()
            for name in chosen:
                if len(state.tried[name].trials) > number or state.tried[name].impossible:
                    continue
                if time.monotonic() >= until:
                    return False
                _try(name, judge, state)
            if (took := time.monotonic() - begin) > BETWEEN_RUNS:
                print(f"  round {number + 1} of {trials}: {took:.0f} s", file=sys.stderr)
    return True


def _try(name: str, judge: Judge, state: State) -> None:
    fault = SLOWDOWNS[name]
    there = [one for one in (*fault.finds, *fault.spares) if one in judge.kernels]
    if fault.finds and not set(fault.finds) & set(there):
        state.tried[name].impossible = "what must find it cannot run"
        return
    try:
        with fault.inject():
            time.sleep(THERE)
            trial = judge.trial(there)
    except NotPossible as reason:
        state.tried[name].impossible = str(reason)
        return
    state.add(name, trial)


class Judge:
    """Measures and judges as the plugin does.

    Args:
        kernels_: By name.
        baseline: Of the learned runs.
        host: Takes the readings.

    Attributes:
        kernels: By name.
    """

    def __init__(self, kernels_: dict[str, Kernel], baseline: Baseline, host: HostMonitor) -> None:
        self.kernels, self._baseline, self._host = kernels_, baseline, host
        self._context = RunContext(
            settings=SETTINGS, node=HERE, hardware_class=HERE, baseline=baseline
        )

    def trial(self, names: Iterable[str]) -> Trial:
        """Return what the kernels say now."""
        values = measured({n: self.kernels[n] for n in names}, self._context, self._host)
        failed = {
            name
            for name, one in values.items()
            if judge_measurement(self._context, one).outcome is Outcome.FAIL
        }
        unclear = {name for name, one in values.items() if one.disturbance}
        return Trial(frozenset(failed), frozenset(unclear))

    def say(self) -> None:
        """Print the loss that each criterion finds, and what has none."""
        losses = ", ".join(
            f"{one.benchmark} {'-' if one.shown_loss is None else f'{one.shown_loss:.0%}'}"
            for one in self._baseline.criteria
        )
        print(f"learned: the loss that each finds: {losses}")
        judged = {one.benchmark for one in self._baseline.criteria}
        for name in sorted(set(self.kernels) - judged):
            print(f"  {name}: no criterion, too few runs met clear moments")


def _learned(there: Mapping[str, Kernel], host: HostMonitor, runs: int) -> Baseline:
    begin = time.monotonic()
    context = RunContext(settings=SETTINGS, node=HERE, hardware_class=HERE)
    values: list[Values] = []
    for _ in range(runs):
        values.append(measured(there, context, host))
        time.sleep(BETWEEN_RUNS)
    print(f"  learned from {runs} runs: {time.monotonic() - begin:.0f} s", file=sys.stderr)
    created = "2026-01-01T00:00:00Z"  # nobody asks how old it is
    return learn_baseline(gathered(values), hardware_class=HERE, created=created)


def gathered(runs: Iterable[Values]) -> list[Population]:
    """Return populations, one for each kernel, of what some runs measured in clear moments."""
    gather = Gather()
    for number, run in enumerate(runs):
        for name, one in run.items():
            if one.disturbance:
                continue
            gather.add(
                hardware_class=HERE,
                benchmark=name,
                component=one.component,
                group="",
                node=HERE,
                device=one.device,
                run=f"run-{number}",
                metric=one.metric,
                values=list(one.values),
            )
    return list(gather.populations())
