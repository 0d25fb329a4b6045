"""The tables of faults: the command's options, what it runs, what it prints."""

from __future__ import annotations

import argparse
import fnmatch
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.suites.faults import bits, cards, eight_cards, speed
from benchmarks.suites.faults.speed import SLOWDOWNS, Slowdown, State, Tried, WrongState
from pytest_anubis.durations import seconds as seconds_of
from pytest_anubis.validator import LearnError

RECALL, ALARMS = 0.95, 0.05  # at least and at most of the trials, for an exit status of 0
BROKEN_OFF = 130  # the exit status after Ctrl-C, as shells have it
LEFT = 75  # the exit status where trials are left, "try again later" of sysexits.h

ALL = (*SLOWDOWNS, *bits.BUFFERS, *eight_cards.FAULTS, *cards.FAULTS)
NAME = max(map(len, ALL)) + 2
"""Columns of the table that a fault's name takes."""

FINDER = 46
"""Columns of what must find it."""


def main(about: str, arguments: Sequence[str] | None = None) -> int:
    """Inject, print the tables; 1 if something was missed or blamed wrongly more often than it may.

    Ctrl-C in a row of faults that take time prints what its trials so far say.
    """
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument(
        "--learn", type=int, default=20, help="runs that the baseline is learned from"
    )
    parser.add_argument(
        "--state",
        type=Path,
        metavar="FILE",
        help="keep the baseline and the trials of faults that take time there, and go on with what it has",
    )
    parser.add_argument(
        "--for",
        dest="most",
        type=seconds_of,
        default=float("inf"),
        metavar="TIME",
        help="begin no trial of a fault that takes time after 9m or so",
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
    try:
        state = State(options.state)
    except WrongState as error:
        parser.error(str(error))
    slowdowns = [name for name in chosen if name in SLOWDOWNS]
    status = _speed(slowdowns, options.trials, options.learn, state, options.most)
    if not slowdowns:
        _head()
    missed = [
        status == 1,
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
    return int(any(missed)) or status


def _head() -> None:
    print(
        f"{'fault':{NAME}}{'must be found by':{FINDER}}{'recall':>9}   {'must be left alone':44}"
        f"{'false alarms':>12}"
    )


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
        f"{name:{NAME}}{finder:{FINDER}}{found:>6}/{trials}   {silent:44}{alarms:>8}/{trials}",
        flush=True,
    )
    return found < trials or alarms > 0


def _speed(chosen: Sequence[str], trials: int, learn: int, state: State, seconds: float) -> int:
    """Try faults that take time, print their rows; return 1 if one was missed, `LEFT` if trials are left."""
    if not chosen:
        return 0
    broken_off, whole = False, False
    begin = time.monotonic()
    try:
        whole = speed.tried(chosen, trials, learn, state, begin + seconds)
    except KeyboardInterrupt:  # a machine is had alone for minutes: the trials so far count
        broken_off = True
    except LearnError as error:
        print(f"  {error}: others had this machine all the time; try again when they have gone")
        return LEFT
    _head()
    missed = [_row(name, SLOWDOWNS[name], state.tried[name], state) for name in chosen]
    print(f"  {time.monotonic() - begin:.0f} s, learning included")
    if broken_off:
        raise SystemExit(BROKEN_OFF)
    if not whole:
        print("  trials are left: the same command with the same --state goes on")
        return LEFT
    return int(any(missed))


def _row(name: str, fault: Slowdown, tried: Tried, state: State) -> bool:
    """Print what the trials of a fault say; return whether it was missed or blamed too often."""
    if tried.impossible:
        print(f"{name:{NAME}}not possible here: {tried.impossible}")
        return False
    done, found, alarms, by, unclear = (
        len(tried.trials), tried.found(fault), tried.alarms(fault), tried.by(), tried.unclear()
    )  # fmt: skip
    judged = {one.benchmark for one in state.baseline.criteria} if state.baseline else set[str]()
    said = [
        f"{one} {by[one] if one in judged else '-'}{_not_clear(unclear[one])}"
        for one in fault.finds
    ]
    counted = [one for one in fault.spares if one in by] if not fault.finds else fault.spares
    beside = ", ".join(f"{one} {by[one]}" if one in by else one for one in counted)
    beside = beside if fault.finds else f"all of them {beside}".rstrip()
    beside += _not_clear(sum(unclear[one] for one in fault.spares))
    recall = f"{found}/{done}" if fault.finds else "-"
    shown = ", ".join(said) or "-"
    print(f"{name:{NAME}}{shown:{FINDER}}{recall:>9}   {beside:44}{alarms:>9}/{done}", flush=True)
    return (bool(fault.finds) and found < RECALL * done) or alarms > ALARMS * done


def _not_clear(count: int) -> str:
    """Tell how often there were too few clear moments."""
    return f" ({count} not clear)" if count else ""
