"""The tables of faults: the command's options, what it runs, what it prints."""

from __future__ import annotations

import argparse
import fnmatch
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass

from benchmarks.suites.faults import bits, cards, eight_cards, slowdowns
from benchmarks.suites.faults.kernels import Kernel, kernels
from benchmarks.suites.faults.not_possible import NotPossible
from pytest_anubis.core.baseline import Baseline
from pytest_anubis.core.gather import Gather
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.verdict import Outcome
from pytest_anubis.validator import closer_look, judge_sample, learn_baseline

RECALL, ALARMS = 0.95, 0.05  # at least and at most of the trials, for an exit status of 0
BROKEN_OFF = 130  # the exit status after Ctrl-C, as shells have it
LOOK_PAUSE = 1.0  # seconds before a closer look, as between bursts of smoke, five of them


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


SLOWDOWNS = {
    "nothing": Slowdown(
        nullcontext, (), ("gemm", "triad", "dispatch", "disk write", "tcp", "link", "all-reduce")
    ),
    "a busy core": Slowdown(slowdowns.busy_core, ("gemm", "training"), ("disk write", "link")),
    "a core at half its quota": Slowdown(
        slowdowns.half_a_core, ("gemm", "training"), ("disk write", "link")
    ),
    "a neighbour that streams memory": Slowdown(slowdowns.memory_neighbour, ("triad",), ("link",)),
    "disk limited to 100 MB/s": Slowdown(
        slowdowns.slow_disk, ("disk write",), ("gemm", "dispatch", "link")
    ),
    "link at .5 of its rate": Slowdown(
        lambda: slowdowns.slow_link(0.5), ("link", "all-reduce"), ("gemm", "tcp")
    ),
    "link at .9 of its rate": Slowdown(
        lambda: slowdowns.slow_link(0.9), ("link", "all-reduce"), ("gemm", "tcp")
    ),
}
ALL = (*SLOWDOWNS, *bits.BUFFERS, *eight_cards.FAULTS, *cards.FAULTS)
NAME = max(map(len, ALL)) + 2
"""Columns of the table that a fault's name takes."""


def main(about: str, arguments: Sequence[str] | None = None) -> int:
    """Inject, print the tables; 1 if something was missed or blamed wrongly more often than it may.

    Ctrl-C in a row of faults that take time prints what its trials so far say.
    """
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument(
        "--learn", type=int, default=10, help="runs that the baseline is learned from"
    )
    parser.add_argument(
        "--only", nargs="+", default=["*"], metavar="NAME", help="patterns of faults"
    )
    parser.add_argument("--list", action="store_true", help="print the faults' names")
    options = parser.parse_args(arguments)
    chosen = [name for name in ALL if any(fnmatch.fnmatch(name, one) for one in options.only)]
    if options.list:
        print("\n".join(ALL))
        return 0
    print(
        f"{'fault':{NAME}}{'must be found by':30}{'recall':>9}   {'must be left alone':44}"
        f"{'false alarms':>12}"
    )
    missed = [
        _speed([name for name in chosen if name in SLOWDOWNS], options.trials, options.learn),
        *(
            _said(name, *bits.tried(name, options.trials))
            for name in chosen
            if name in bits.BUFFERS
        ),
        *(
            _said(name, *one)
            for name, one in eight_cards.tried(
                [n for n in chosen if n in eight_cards.FAULTS], options.trials
            )
        ),
        *(
            _said(name, *one)
            for name, one in cards.tried([n for n in chosen if n in cards.FAULTS], options.trials)
        ),
    ]
    return int(any(missed))


def _said(
    name: str,
    finder: str,
    found: int,
    trials: int,
    alarms: int,
    silent: str = "the same, without the fault",
) -> bool:
    """Print a row whose benchmark is its own witness; return whether something was missed."""
    print(
        f"{name:{NAME}}{finder:30}{found:>6}/{trials}   {silent:44}{alarms:>8}/{trials}",
        flush=True,
    )
    return found < trials or alarms > 0


def _speed(chosen: Sequence[str], trials: int, learn: int) -> bool:
    if not chosen:
        return False
    wanted = {
        kernel for name in chosen for kernel in (*SLOWDOWNS[name].finds, *SLOWDOWNS[name].spares)
    }
    missed = False
    with ExitStack() as stack:
        measured, absent = kernels(wanted, stack)
        for reason in absent:
            print(f"  not possible here: {reason}")
        baseline = _learned(measured, learn)
        for name in chosen:
            missed |= _row(name, SLOWDOWNS[name], measured, baseline, trials)
    return missed


def _row(
    name: str, fault: Slowdown, measured: dict[str, Kernel], baseline: Baseline, trials: int
) -> bool:
    finds, spares = (
        [one for one in group if one in measured] for group in (fault.finds, fault.spares)
    )
    if fault.finds and not finds:
        print(f"{name:{NAME}}not possible here")
        return False
    found = alarms = done = 0
    by: dict[str, int] = {}
    broken_off = False
    try:
        for _ in range(trials):
            with fault.inject():
                failed = {one for one in (*finds, *spares) if _fails(one, measured[one], baseline)}
            done += 1
            found += bool(failed & set(finds))
            alarms += bool(failed & set(spares))
            for one in failed:
                by[one] = by.get(one, 0) + 1
    except NotPossible as reason:
        print(f"{name:{NAME}}not possible here: {reason}")
        return False
    except KeyboardInterrupt:  # a machine is had alone for minutes: the trials so far count
        broken_off = True
    shown = ", ".join(f"{one} {by.get(one, 0)}" for one in finds) or "-"
    beside = ", ".join(f"{one} {by[one]}" if one in by else one for one in spares)
    recall = f"{found}/{done}" if finds else "-"
    print(f"{name:{NAME}}{shown:30}{recall:>9}   {beside:44}{alarms:>9}/{done}", flush=True)
    if broken_off:
        raise SystemExit(BROKEN_OFF)
    return (bool(finds) and found < RECALL * done) or alarms > ALARMS * done


def _learned(measured: dict[str, Kernel], runs: int) -> Baseline:
    gather = Gather()
    for run in range(runs):
        for name, kernel in measured.items():
            _add(gather, name, kernel, f"r{run}", kernel.take())
        time.sleep(LOOK_PAUSE)  # what makes a host noisy comes and goes within seconds
    baseline = learn_baseline(
        gather.populations(), hardware_class="here", created="2026-01-01T00:00:00Z"
    )
    print(
        "learned: the loss that each finds: "
        + ", ".join(
            f"{one.benchmark} {1 - min(one.learned or one.alpha, one.alpha):.0%}"
            for one in baseline.criteria
        )
    )
    for name in sorted(set(measured) - {one.benchmark for one in baseline.criteria}):
        print(f"  {name}: no criterion, too noisy here to show that it has halved")
    return baseline


def _fails(name: str, kernel: Kernel, baseline: Baseline) -> bool:
    criterion = baseline.find(name, kernel.quantity)
    if criterion is None:
        return False
    looks = [kernel.take()]
    while closer_look(looks, criterion) == "more":
        time.sleep(LOOK_PAUSE)
        looks.append(kernel.take())
    values = [value for look in looks for value in look]
    return judge_sample(values, criterion, baseline, looks=len(looks)).outcome is Outcome.FAIL


def _add(gather: Gather, name: str, kernel: Kernel, run: str, values: Iterable[float]) -> None:
    gather.add(
        hardware_class="here",
        benchmark=name,
        component="host",
        group="",
        node="here",
        device="cpu",
        run=run,
        metric=Metric(name=kernel.quantity, unit=kernel.unit, better=kernel.better),
        values=list(values),
        pace=(),
    )
