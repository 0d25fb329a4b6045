"""Measures how README's first command ends, by many repetitions on hosts with and without neighbours.

Each repetition (a *time*) uses a fresh folder. It runs ``anubis learn suites/`` alone, and then ``pytest
--anubis suites/`` once on each requested host:

alone      an idle machine
neighbour  another process uses one core at random: 2 s on, 2 s off on average
busy       as many processes as cores use all cores
later      an idle machine, with the baseline of an earlier time, at least an hour old

With ``--slow SHARE ...`` each component in turn loses this share of its rate, on `alone` and `neighbour`.
With ``--spells SHARE ...`` it does so for a third of the time (100 ms of 300). An injected loss counts as
found if the node is REJECTED and that component blamed. Runs whose baseline states that the component's most
powerful metric finds such a loss (for spells, a third of the share) are counted separately.

Run: ``python benchmarks/sessions/first_run.py --times 20 [--host alone neighbour busy later] [--slow 10% 20%]
[--spells 40%] [--component NAME ...] [--state FILE] [--for 9m] [--pytest-args ARGS]``. ``--state`` keeps all
runs (baselines and journals in FILE.d). ``--for`` starts no run that would take longer than that; exit status
75 means that runs are left, and the same command continues. ``--for 0s`` prints the figures so far. Otherwise
the exit status is 0, because the script prints figures and decides nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout's packages

from benchmarks import ROOT
from benchmarks.sessions.first_run_report import HOSTS, LEARN, Loss, Metric, Run, report
from benchmarks.sessions.slow_component import COMPONENT, SHARE, SPELLS
from pytest_anubis.core.baseline import Baseline
from pytest_anubis.core.verdict import Decision, Outcome
from pytest_anubis.durations import seconds as seconds_of
from pytest_anubis.store.baselines.baseline_files import load_baselines
from pytest_anubis.store.journal.journal_events import JournalError
from pytest_anubis.store.journal.journal_reading import read_journal

COMPONENTS = (
    "compute.matrix",
    "memory.bandwidth",
    "memory.latency",
    "network.loopback",
    "training.convolution",
    "training.transformer",
    "compute.dispatch",
    "storage.disk",
)
SLOWED_HOSTS = ("alone", "neighbour")
"""Hosts on which a component is made slower."""

OLD = 3600.0
"""Age in seconds from which a baseline counts as `later`."""

LEFT, BROKEN_OFF = 75, 130
"""Exit statuses if runs are left ("try again later" of sysexits.h), and after Ctrl-C."""

EXPECTED = {LEARN: 260.0}
"""Expected seconds of a run before any of its kind; `ELSE` for all other kinds."""

ELSE = 60.0

FEWEST_RUNS = 5
"""So many of a kind tell how long one takes; the longest of them counts."""

_NEIGHBOUR = """
import os, random, time
parent = os.getppid()
while os.getppid() == parent:
    end = time.monotonic() + random.expovariate(1 / 2)
    while time.monotonic() < end:
        pass
    time.sleep(random.expovariate(1 / 2))
"""
_BUSY = """
import os
parent = os.getppid()
while os.getppid() == parent:
    for _ in range(1_000_000):
        pass
"""


class WrongState(ValueError):
    """A file of runs cannot be gone on with; the message says why."""


class State:
    """The runs so far, in a file where there is one; a last line that was cut off counts as not written.

    Args:
        path: The file; None keeps nothing.

    Attributes:
        runs: All runs in the order in which they were made.

    Raises:
        WrongState: It is no such file, or another machine's.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.runs: list[Run] = []
        if path is None:
            return
        if not path.exists():
            self._append({"first_run": 1, "machine": platform.node()})
            return
        text = path.read_text(encoding="utf-8")
        whole = text[: text.rfind("\n") + 1]
        if whole != text:
            path.write_text(whole, encoding="utf-8")
        try:
            head, *lines = map(json.loads, whole.splitlines())
            if head["first_run"] != 1:
                raise WrongState(f"{path}: of another version of this script")
            if head["machine"] != platform.node():
                raise WrongState(f"{path}: of machine {head['machine']}, this is another one")
            self.runs = [Run.of(line) for line in lines]
        except (ValueError, KeyError, TypeError) as error:
            if isinstance(error, WrongState):
                raise
            raise WrongState(f"{path}: no runs of this script: {error}") from error

    def add(self, run: Run) -> None:
        """Keep a run."""
        self.runs.append(run)
        self._append(run.plain())

    def find(self, time_: int, host: str, loss: Loss | None = None) -> Run | None:
        """Return a run that was made already."""
        key = (time_, host, loss)
        return next((one for one in self.runs if (one.time, one.host, one.loss) == key), None)

    def expected(self, host: str) -> float:
        """Return the seconds that a run on a host takes, by those that were made."""
        known = [one.seconds for one in self.runs if one.host == host]
        guess = EXPECTED.get(host, ELSE)
        return max([*known, *([] if len(known) >= FEWEST_RUNS else [guess])])

    def _append(self, line: dict[str, Any]) -> None:
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")


class Player:
    """Plays the command in folders of its own.

    Args:
        folder: Holds a folder for each time.
        pytest_args: More of pytest's own arguments, of learning and of judging.
        state: Takes the runs.
    """

    def __init__(self, folder: Path, pytest_args: str, state: State) -> None:
        self._folder, self._args, self._state = folder, pytest_args, state

    def play(self, time_: int, host: str, loss: Loss | None) -> None:
        """Make one run and keep what came of it."""
        if host == LEARN:
            self._state.add(self._learn(time_))
        else:
            self._state.add(self._judge(time_, host, loss))

    def hindrance(self, time_: int, host: str, loss: Loss | None) -> str:
        """Say why a run cannot be made; empty if it can."""
        if host == "later" and self._old(time_) is None:
            return "no earlier time has a baseline that is an hour old"
        learned = self._state.find(time_, LEARN)
        if loss is not None and learned is not None and not learned.metrics:
            return "nothing was learned"
        return ""

    def _old(self, time_: int) -> int | None:
        """Return the latest time whose baseline is old enough."""
        found = [
            one.time
            for one in self._state.runs
            if one.host == LEARN
            and one.time < time_
            and one.metrics
            and time.time() - one.ended >= OLD
        ]
        return max(found, default=None)

    def _learn(self, time_: int) -> Run:
        place = self._place(time_)
        shutil.rmtree(place, ignore_errors=True)  # of a run that was cut short
        place.mkdir(parents=True)
        more = [f"--pytest-args={self._args}"] if self._args else []
        command = ["pytest_anubis", "learn", "suites/", "-o", str(place / "baselines")]
        command += ["--store", str(place / "store"), *more]
        code, took = _call(command, place / "learn.txt")
        metrics = tuple(_learned(baseline)) if (baseline := _baseline(place)) else ()
        return Run(
            time=time_, host=LEARN, exit=code, seconds=took, ended=time.time(), metrics=metrics
        )

    def _judge(self, time_: int, host: str, loss: Loss | None) -> Run:
        old = self._old(time_) if host == "later" else None
        place = self._place(time_ if old is None else old)
        name = f"{time_}-{host}{'' if loss is None else f'-{loss.name}'}".replace(" ", "-")
        name = name.replace("%", "")
        shutil.rmtree(place / "store" / "runs" / name, ignore_errors=True)  # cut short before
        command = ["pytest", "--anubis", "suites/", "-q", "-p", "no:cacheprovider"]
        command += [f"--anubis-baseline={place / 'baselines'}", f"--anubis-run-id={name}"]
        command += [f"--anubis-store={place / 'store'}", *shlex.split(self._args)]
        environ: dict[str, str] = {}
        if loss is not None:
            command += ["-p", "benchmarks.sessions.slow_component"]
            environ = {COMPONENT: loss.component, SHARE: str(loss.share), SPELLS: "01"[loss.spells]}
        with _beside(host):
            code, took = _call(command, place / f"{name}.txt", **environ)
        run = Run(time=time_, host=host, loss=loss, exit=code, seconds=took, ended=time.time())
        return _told(run, place / "store" / "runs" / name, _baseline(place))

    def _place(self, time_: int) -> Path:
        return self._folder / f"time-{time_}"


def _call(module: Sequence[str], output: Path, **environ: str) -> tuple[int, float]:
    """Run a module of Python's in the checkout; return its exit status and how long it took."""
    begin = time.monotonic()
    with output.open("wb") as file:
        done = subprocess.run(
            [sys.executable, "-m", *module],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), **environ},
            stdout=file,
            stderr=subprocess.STDOUT,
            check=False,
        )
    return done.returncode, time.monotonic() - begin


@contextlib.contextmanager
def _beside(host: str) -> Iterator[None]:
    """Run a host's neighbours, if it has any; they end with this process, come what may."""
    codes = {"neighbour": [_NEIGHBOUR], "busy": [_BUSY] * len(os.sched_getaffinity(0))}
    processes = [subprocess.Popen([sys.executable, "-S", "-c", c]) for c in codes.get(host, ())]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _baseline(place: Path) -> Baseline | None:
    if not (place / "baselines").is_dir():
        return None
    return next(iter(load_baselines(place / "baselines").values()), None)


def _learned(baseline: Baseline) -> Iterator[Metric]:
    """Yield what a baseline says that each metric shows; exact results show everything and are left out."""
    for one in baseline.criteria:
        if one.metric.better != "equal":
            yield Metric(one.benchmark, one.metric.name, one.component, shows=one.shown_loss)
    for other in baseline.unjudged:
        yield Metric(other.benchmark, other.metric, other.component)


def _told(run: Run, folder: Path, baseline: Baseline | None) -> Run:
    """Return a judged run with what its journal says."""
    try:
        record = read_journal(folder)
    except JournalError as error:
        return replace(run, decision="BROKEN", headline=str(error))
    outcomes = {
        (v.benchmark, v.metric, v.device, v.group): v for v in record.effective_verdicts if v.metric
    }
    metrics = []
    for one in record.measurements:
        verdict = outcomes.get((one.benchmark, one.metric.name, one.device, one.group))
        found = baseline and baseline.find(one.benchmark, one.metric.name, group=one.group)
        exact = one.metric.better == "equal"
        metrics.append(
            Metric(
                one.benchmark,
                one.metric.name,
                one.component,
                outcome=verdict.outcome.value if verdict is not None else "",
                shows=found.shown_loss if found and not exact else None,
                clear=0 if one.disturbance else len(one.values),
                unclear=one.unclear + (len(one.values) if one.disturbance else 0),
            )
        )
    rest = {(m.benchmark, m.metric) for m in metrics}
    metrics += [
        Metric(v.benchmark, v.metric, v.component, outcome=v.outcome.value)
        for v in record.effective_verdicts
        if v.outcome is Outcome.FAIL and (v.benchmark, v.metric) not in rest
    ]
    said = record.node_verdict
    return replace(
        run,
        decision=(said.decision if said else Decision.UNDECIDED).value,
        headline=said.headline if said else record.broken_off,
        blamed=said.components if said and said.decision is Decision.REJECTED else (),
        metrics=tuple(metrics),
    )


def plan(
    times: int, hosts: Sequence[str], losses: Sequence[Loss]
) -> Iterator[tuple[int, str, Loss | None]]:
    """Yield the runs in their order: time, host (`LEARN` first), and the loss that is put in."""
    slowed = [host for host in SLOWED_HOSTS if host in hosts] or [SLOWED_HOSTS[0]]
    for time_ in range(1, times + 1):
        yield time_, LEARN, None
        yield from ((time_, host, None) for host in HOSTS if host in hosts)
        yield from ((time_, host, loss) for loss in losses for host in slowed)


def played(
    player: Player, state: State, runs: Iterator[tuple[int, str, Loss | None]], most: float
) -> bool:
    """Make what is not there yet; return whether there is nothing left to do.

    Args:
        player: Makes a run.
        state: Knows and keeps the runs.
        runs: Those that are wanted.
        most: Seconds; but for the first one, no run begins that would take longer, as others of its kind did.
    """
    begin, first = time.monotonic(), True
    for time_, host, loss in runs:
        if state.find(time_, host, loss) is not None:
            continue
        name = f"time {time_}, {host}{'' if loss is None else f', {loss.name}'}"
        if why := player.hindrance(time_, host, loss):
            print(f"{name}: skipped: {why}", file=sys.stderr)
            continue
        past = time.monotonic() - begin
        if past >= most or (not first and past + state.expected(host) > most):
            return False
        first = False
        player.play(time_, host, loss)
        last = state.runs[-1]
        print(f"{name}: {last.ending}, {last.seconds:.0f} s", file=sys.stderr, flush=True)
    return True


def share_of(text: str) -> float:
    """Return a share such as ``10%`` or ``.1``."""
    found = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    if not 0 < found < 1:
        raise ValueError(f"{text}: must lie between 0 and 1")
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Play, print the figures; `LEFT` if there is more to do."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--times", type=int, default=20, help="how often all of it is played")
    parser.add_argument("--host", nargs="+", choices=HOSTS, default=list(HOSTS))
    parser.add_argument("--slow", nargs="+", type=share_of, default=[], metavar="SHARE")
    parser.add_argument("--spells", nargs="+", type=share_of, default=[], metavar="SHARE")
    parser.add_argument(
        "--component", nargs="+", default=list(COMPONENTS), metavar="NAME", help="made slower"
    )
    parser.add_argument("--state", type=Path, metavar="FILE", help="keep the runs and go on")
    parser.add_argument("--for", dest="most", type=seconds_of, default=math.inf, metavar="TIME")
    parser.add_argument("--pytest-args", default="", metavar="ARGS", help="more of pytest's own")
    given = parser.parse_args(arguments)
    components = list(given.component)
    if "storage.disk" in components and shutil.which("fio") is None:
        components.remove("storage.disk")
        if given.slow or given.spells:
            print("storage.disk: not made slower, fio not found", file=sys.stderr)
    losses = [
        Loss(component, share, spells)
        for spells, shares in ((False, given.slow), (True, given.spells))
        for share in shares
        for component in components
    ]
    try:
        state = State(given.state)
    except WrongState as error:
        parser.error(str(error))
    with contextlib.ExitStack() as stack:
        folder = (
            Path(f"{given.state}.d").absolute()
            if given.state
            else Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="anubis-first-run-")))
        )
        player = Player(folder, given.pytest_args, state)
        broken_off = whole = False
        try:
            whole = played(player, state, plan(given.times, given.host, losses), given.most)
        except KeyboardInterrupt:
            broken_off = True
    report(state.runs)
    if broken_off:
        return BROKEN_OFF
    if not whole:
        print("runs are left: the same command with the same --state goes on")
        return LEFT
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
