"""Faults that take time: what is measured under each, and trials in turns that can be gone on with later.

The baseline is learned once for all rows. In each round every row has one trial, that without a fault too, so
that all of them see the same hours of the machine. A trial measures the kernels of its row as long as
the plugin does in `smoke`, and looks again, with the plugin's pauses, where a call is close. What has no
criterion is held against its own past, the learned runs: a pass says nothing there, a loss
rejects.
"""

from __future__ import annotations

import json
import platform
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.suites.faults import slowdowns
from benchmarks.suites.faults.kernels import Kernel, kernels
from benchmarks.suites.faults.not_possible import NotPossible
from pytest_anubis.core.baseline import Baseline
from pytest_anubis.core.gather import Gather
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.sample import Population
from pytest_anubis.core.verdict import Outcome
from pytest_anubis.session.measuring.attempts import LOOK_PAUSE
from pytest_anubis.store.baselines.baseline_form import baseline_from_plain, baseline_to_plain
from pytest_anubis.validator import closer_look, judge_by_history, judge_sample, learn_baseline
from pytest_anubis.validator.similarity.centre import FEWEST

BETWEEN_RUNS = (
    1.0  # seconds between two runs of learning: what makes a host noisy lasts about so long
)


@dataclass(frozen=True)
class Slowdown:
    """A fault that takes time.

    Attributes:
        inject: Returns the context in which it is there.
        finds: Kernels of which at least one must fail.
        spares: Kernels that it does not concern.
    """

    inject: Callable[[], AbstractContextManager[object]]
    finds: tuple[str, ...]
    spares: tuple[str, ...]


Values = dict[str, list[float]]
"""What a run measured, by kernel."""

ALL_KERNELS = ("gemm", "training", "triad", "dispatch", "disk write", "tcp", "link", "all-reduce")
HALF, MOST = "link at .5 of its rate", "link at .9 of its rate"
SLOWDOWNS = {
    "nothing": Slowdown(nullcontext, (), ALL_KERNELS),
    "a busy core": Slowdown(slowdowns.busy_core, ("gemm", "training"), ("disk write", "link")),
    "a core at half its quota": Slowdown(
        slowdowns.half_a_core, ("gemm", "training"), ("disk write", "link")
    ),
    "a neighbour that streams memory": Slowdown(slowdowns.memory_neighbour, ("triad",), ("link",)),
    "disk limited to 100 MB/s": Slowdown(
        slowdowns.slow_disk, ("disk write",), ("gemm", "dispatch", "link")
    ),
    HALF: Slowdown(lambda: slowdowns.slow_link(0.5), ("link", "all-reduce"), ("gemm", "tcp")),
    MOST: Slowdown(lambda: slowdowns.slow_link(0.9), ("link", "all-reduce"), ("gemm", "tcp")),
}


@dataclass
class Tried:
    """What the trials of one fault have said so far.

    Attributes:
        failed: The kernels that failed, of each trial.
        impossible: Why this machine cannot have the fault; empty where it can.
    """

    failed: list[frozenset[str]] = field(default_factory=list)
    impossible: str = ""

    def found(self, fault: Slowdown) -> int:
        """Return in how many trials one of those that must find it failed."""
        return sum(bool(one & set(fault.finds)) for one in self.failed)

    def alarms(self, fault: Slowdown) -> int:
        """Return in how many trials one of those that it does not concern failed."""
        return sum(bool(one & set(fault.spares)) for one in self.failed)

    def by(self) -> Counter[str]:
        """Return how often each kernel failed."""
        return Counter(name for one in self.failed for name in one)


class WrongState(ValueError):
    """A file of trials cannot be gone on with; the message says why."""


class State:
    """The trials so far, in a file where there is one: what was cut short is gone on with.

    A line for the baseline, then one for each trial. A last line that was cut off counts as not written.

    Args:
        path: The file; None keeps nothing.

    Attributes:
        baseline: What all trials are judged by; None until it is learned.
        runs: What it was learned from, of each run by kernel.
        tried: By fault, what its trials have said.
        kept: There is a file.

    Raises:
        WrongState: It is no such file, or another machine's.
    """

    def __init__(self, path: Path | None) -> None:
        self._path, self.kept = path, path is not None
        self.baseline: Baseline | None = None
        self.runs: list[Values] = []
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
                    self.tried[line["fault"]].failed.append(frozenset(line["failed"]))
        except (ValueError, KeyError, TypeError) as error:
            if isinstance(error, WrongState):
                raise
            raise WrongState(f"{path}: no trials of this script: {error}") from error

    def _took(self, line: dict[str, Any]) -> None:
        if line["machine"] != platform.node():
            raise WrongState(f"{self._path}: of machine {line['machine']}, this is another one")
        if "runs" not in line:
            raise WrongState(
                f"{self._path}: of an earlier version, without runs: begin another file"
            )
        self.baseline = baseline_from_plain(line["baseline"])
        self.runs = [
            {str(kernel): [float(value) for value in values] for kernel, values in run.items()}
            for run in line["runs"]
        ]

    def learned(self, baseline: Baseline, runs: list[Values]) -> None:
        """Keep what all trials are judged by."""
        self.baseline, self.runs = baseline, runs
        plain = baseline_to_plain(baseline)
        self._append({"machine": platform.node(), "baseline": plain, "runs": runs})

    def add(self, fault: str, failed: Iterable[str]) -> None:
        """Keep a trial."""
        self.tried[fault].failed.append(one := frozenset(failed))
        self._append({"fault": fault, "failed": sorted(one)})

    def _append(self, line: dict[str, object]) -> None:
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")


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
        measured, absent = kernels(wanted, stack)
        for reason in absent:
            print(f"  not possible here: {reason}")
        if (baseline := state.baseline) is None:
            baseline, runs = _learned(measured, learn)
            state.learned(baseline, runs)
        judge = Judge(measured, baseline, state.runs)
        judge.say()
        for number in range(trials):
            begin = time.monotonic()
            for name in chosen:
                if len(state.tried[name].failed) > number or state.tried[name].impossible:
                    continue
                if time.monotonic() >= until:
                    return False
                _try(name, judge, state)
            if (took := time.monotonic() - begin) > BETWEEN_RUNS:
                print(f"  round {number + 1} of {trials}: {took:.0f} s", file=sys.stderr)
    return True


def _try(name: str, judge: Judge, state: State) -> None:
    fault = SLOWDOWNS[name]
    there = [one for one in (*fault.finds, *fault.spares) if one in judge.measured]
    if fault.finds and not set(fault.finds) & set(there):
        state.tried[name].impossible = "what must find it cannot run"
        return
    try:
        with fault.inject():
            failed = judge.failing(there)
    except NotPossible as reason:
        state.tried[name].impossible = str(reason)
        return
    state.add(name, failed)


class Judge:
    """Measures and judges as the plugin does, by the baseline or, without a criterion, by the learned runs.

    Args:
        measured: The kernels.
        baseline: Of the learned runs.
        runs: What they measured.

    Attributes:
        measured: The kernels.
    """

    def __init__(
        self, measured: dict[str, Kernel], baseline: Baseline, runs: Sequence[Values]
    ) -> None:
        self.measured, self._baseline, self._runs = measured, baseline, runs
        found = {n: baseline.find(n, kernel.quantity) for n, kernel in measured.items()}
        self._criteria = {name: one for name, one in found.items() if one is not None}

    def failing(self, names: Iterable[str]) -> set[str]:
        """Return the kernels that fail now; whichever are close look again after one common pause."""
        looks = {name: [self.measured[name].take()] for name in names}
        held = {name: one for name, one in self._criteria.items() if name in looks}
        while close := [n for n, one in held.items() if closer_look(looks[n], one) == "more"]:
            time.sleep(LOOK_PAUSE)  # those of all kernels share it
            for name in close:
                looks[name].append(self.measured[name].again())
        failed = {
            name
            for name, criterion in held.items()
            if judge_sample(
                [value for look in looks[name] for value in look],
                criterion,
                self._baseline,
                looks=len(looks[name]),
            ).outcome
            is Outcome.FAIL
        }
        alone = {name: look[0] for name, look in looks.items() if name not in held}
        return failed | self._slower_than_before(alone)

    def _slower_than_before(self, values: Values) -> set[str]:
        """Return the kernels that the learned runs, as a past without a criterion, reject."""
        now = gathered(self.measured, [values], "now")
        past = [{name: run[name] for name in values if name in run} for run in self._runs]
        judged = judge_by_history(now, gathered(self.measured, past, "learned"))
        return {
            population.benchmark
            for population, found in zip(now, judged, strict=True)
            if any(verdict.outcome is Outcome.FAIL for verdict in found.values())
        }

    def say(self) -> None:
        """Print the loss that each criterion finds, and what has none."""
        losses = ", ".join(
            f"{one.benchmark} {1 - min(one.learned or one.alpha, one.alpha):.0%}"
            for one in self._baseline.criteria
        )
        print(f"learned: the loss that each finds: {losses}")
        if len(self._runs) < FEWEST:
            print(f"  {len(self._runs)} learned runs: too few for a past")
            return
        for name in sorted(set(self.measured) - set(self._criteria)):
            print(f"  {name}: no criterion, held against its own past alone")


def _learned(measured: dict[str, Kernel], runs: int) -> tuple[Baseline, list[Values]]:
    begin = time.monotonic()
    values: list[Values] = []
    for _ in range(runs):
        values.append({name: kernel.take() for name, kernel in measured.items()})
        time.sleep(BETWEEN_RUNS)
    print(f"  learned from {runs} runs: {time.monotonic() - begin:.0f} s", file=sys.stderr)
    created = "2026-01-01T00:00:00Z"  # nobody asks how old it is
    populations = gathered(measured, values, "learned")
    return learn_baseline(populations, hardware_class="here", created=created), values


def gathered(
    measured: Mapping[str, Kernel], runs: Iterable[Values], label: str
) -> list[Population]:
    """Return populations, one for each kernel, of the values of some runs."""
    gather = Gather()
    for number, run in enumerate(runs):
        for name, values in run.items():
            kernel = measured[name]
            gather.add(
                hardware_class="here",
                benchmark=name,
                component="host",
                group="",
                node="here",
                device="cpu",
                run=f"{label}-{number}",
                metric=Metric(name=kernel.quantity, unit=kernel.unit, better=kernel.better),
                values=list(values),
            )
    return list(gather.populations())
