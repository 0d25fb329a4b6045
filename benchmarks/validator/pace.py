"""What judging at the host's reference pace is worth on this machine.

1. Spread between runs (standard deviation of the logs of their means) of every metric of the smoke set, raw
   and at the reference pace, each run corrected by slopes that were fitted without it; beside it that of
   medians, of the best quarter of the values and of half of them; in silence as far as this machine has any,
   and beside a neighbour that comes and goes. What others disturbed is not left out.
2. A baseline of six metrics from as many runs as a first command of six minutes makes; then runs in which
   nothing is changed, runs in which a matrix product, a memory stream and a training step are 5 or 10 %
   slower, and runs in which everything is: this process is stopped for a quarter of every hundredth of a
   second, as a quota does.

Run: ``python benchmarks/validator/pace.py [--runs 20] [--learn 6] [--judged 10] [--only spread|power]``.
``--journals DIR`` takes the spread from runs that there are already. ``--keep FILE`` keeps the runs of the
second part, one a line: broken off and called again it goes on with the next one.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout's packages

import numpy as np

from pytest_anubis.core.baseline import HOST_PACE, Baseline
from pytest_anubis.core.gather import Gather
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.sample import FloatArray, Population
from pytest_anubis.core.verdict import MetricVerdict, Outcome
from pytest_anubis.hardware.host_pace import Pace, Pacer, kinds_for
from pytest_anubis.hardware.round_plans import PLANS, RoundPlan
from pytest_anubis.hardware.timing import HostClock, rounds, warm_up
from pytest_anubis.session.measuring.attempts import LOOK_PAUSE
from pytest_anubis.session.measuring.conditions import joined
from pytest_anubis.store.journal.journal_reading import read_journal
from pytest_anubis.validator import (
    closer_look,
    judge_populations,
    judge_sample,
    learn_baseline,
    learn_criterion,
)
from pytest_anubis.validator.learning.pace_learning import learn_paced
from pytest_anubis.validator.similarity.pacing import pace_populations, paced_forms_of

STOPPED, PERIOD = 0.25, 0.01
"""What a quota takes, and of how many seconds."""

SLOWED = ("gemm", "stream", "training")
SPARE = 6.0
"""Least of the machine's memory in GiB with which streams are as long as in the suites."""

Work = Callable[[], object]
Around = Callable[[], AbstractContextManager[None]]
T = TypeVar("T")


def main() -> None:
    """Measure, print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--learn", type=int, default=6)
    parser.add_argument("--judged", type=int, default=10)
    parser.add_argument("--only", choices=("spread", "power"))
    parser.add_argument("--tests", default="suites")
    parser.add_argument("--journals", type=Path)
    parser.add_argument("--keep", type=Path, help="file of the second part's runs, to go on with")
    arguments = parser.parse_args()
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # it takes an hour
    if arguments.journals is not None:
        show_spread("runs that there were", read(arguments.journals))
        return
    if arguments.only != "power":
        for name, around in (("quiet", nullcontext), ("a neighbour comes and goes", neighbour)):
            with tempfile.TemporaryDirectory() as folder, around():
                for number in range(arguments.runs):
                    measure_suite(arguments.tests, Path(folder), f"r{number}")
                show_spread(name, read(Path(folder)))
    if arguments.only != "spread":
        show_power(arguments.learn, arguments.judged, Kept(arguments.keep))


# --- 1. The spread between runs ---------------------------------------------------------------------------


def measure_suite(tests: str, folder: Path, run: str) -> None:
    """Measure the set once."""
    command = [sys.executable, "-m", "pytest", "--anubis", "--anubis-mode=measure", "-q", "-n0"]
    command += [f"--anubis-store={folder}", f"--anubis-run-id={run}", "-p", "no:cacheprovider"]
    subprocess.run([*command, tests], stdout=subprocess.DEVNULL, check=False)


def read(folder: Path) -> tuple[Population, ...]:
    """Return what all runs below a folder measured, disturbed or not."""
    journals = sorted(folder.rglob("journal.jsonl"))
    return populations_of(read_journal(journal.parent) for journal in journals)


def populations_of(records: Iterable[RunRecord]) -> tuple[Population, ...]:
    """Return what runs of one machine measured, disturbed or not."""
    gather = Gather()
    for record in records:
        for one in record.measurements:
            gather.add(
                hardware_class="here",
                benchmark=one.benchmark,
                metric=one.metric,
                component=one.component,
                group=one.group,
                node="here",
                device=one.device,
                run=record.run,
                values=one.values,
                pace=one.pace,
            )
    return gather.populations()


def other_forms(values: FloatArray, better: str) -> list[float]:
    """Return what might be judged instead of a sample's mean.

    Args:
        values: Shape (n,), in time order.
        better: Direction of the metric.

    Returns:
        Its median; the mean of its best quarter; the mean of half of its values, as runs of half the length
        would have it: the first ones of each of two bursts.
    """
    best = np.sort(values if better == "lower" else -values)[: max(1, len(values) // 4)]
    bursts = np.array_split(values, 2)
    shorter = np.concatenate([burst[: max(1, len(burst) // 2)] for burst in bursts])
    return [float(np.median(values)), float(abs(best).mean()), float(shorter.mean())]


def show_spread(name: str, populations: Sequence[Population]) -> None:
    """Print the spread of every metric, raw, in other forms, and paced."""
    print(f"\n{name}: spread between {len({run for p in populations for run in p.runs})} runs")
    head = ("raw", "median", "best", "half", "paced", "of raw")
    print(f"{'metric':58} {' '.join(f'{one:>7}' for one in head)}  follows")
    every = []
    for population in populations:
        samples = [population.sample(row) for row in range(len(population))]
        means = np.array([sample.mean() for sample in samples])
        if population.metric.better == "equal" or len(means) < 3 or not np.all(means > 0):
            continue
        raw = float(np.log(means).std(ddof=1))
        forms = np.array([other_forms(one, population.metric.better) for one in samples])
        spreads = [raw, *np.log(forms).std(axis=0, ddof=1).tolist()]
        every.append(spreads)
        name = f"{population.benchmark.rpartition('/')[2]} {population.metric.name}"
        label = f"{name:58} {' '.join(f'{one:7.1%}' for one in spreads)}"
        learned = learn_criterion(population, one_machine=True)
        form = learn_paced(learned, alpha=0.95, method="median", one_machine=True)
        if form is None:
            print(f"{label} {'-':>7} {'-':>7}  nothing that was read")
            continue
        kinds = ", ".join(f"{one.kind} {one.slope:.2f}" for one in form.slopes)
        print(f"{label} {raw * form.gain:7.1%} {form.gain:7.2f}  {kinds}")
    if every:
        middle = " ".join(f"{one:7.1%}" for one in np.median(every, axis=0))
        print(f"{'median of all':58} {middle}")


@contextmanager
def neighbour() -> Iterator[None]:
    """Let another process compute, on one CPU, for a tenth of a second to one and a half, now and then."""
    if pid := os.fork():
        try:
            yield
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        return
    draw, data = random.Random(1), bytes(1 << 16)
    while True:
        end = time.monotonic() + draw.uniform(0.1, 1.5)
        while time.monotonic() < end:
            hashlib.sha256(data).digest()
        time.sleep(draw.uniform(0.1, 1.5))


# --- 2. What is found -------------------------------------------------------------------------------------


Run = tuple[str, list[float], Pace]
"""A piece of work, what its rounds took, and the pace beside them."""
Told = tuple[bool, bool, bool, bool]
"""Of one judged run: the slowed metric failed, one failed by its raw form, any failed, the pace failed."""


class Kept:
    """Runs that there are already, of a file with one JSON object a line; without a file none.

    Args:
        file: Is written to as well.
    """

    def __init__(self, file: Path | None) -> None:
        self._file = file
        lines = file.read_text().splitlines() if file is not None and file.exists() else []
        self._known = {one["run"]: one["is"] for one in map(json.loads, lines)}

    def of(self, run: str, measure: Callable[[], T]) -> T:
        """Return a run as it was kept, or measure and keep it."""
        if run not in self._known:
            self._known[run] = measure()
            if self._file is not None:
                with self._file.open("a") as out:
                    out.write(json.dumps({"run": run, "is": self._known[run]}) + "\n")
        found: T = self._known[run]
        return found


def show_power(learned: int, judged: int, kept: Kept) -> None:
    """Learn, judge runs of every kind in turns, print what was found."""
    works, pacer = workloads(), Pacer(kinds_for(()))
    gather = Gather()

    def once() -> list[Run]:
        return [(name, *measure(work, pacer)) for name, work in works.items()]

    for run in range(learned):
        for name, values, pace in kept.of(f"learned {run}", once):
            add(gather, name, f"r{run}", values, tuple((kind, tuple(of)) for kind, of in pace))
    baseline = learn_baseline(
        gather.populations(), hardware_class="here", created="2026-01-01T00:00:00Z"
    )
    print(f"\nlearned from {learned} runs: the loss that a metric finds, raw and paced")
    for one in baseline.criteria:
        raw, form = one.learned or one.alpha, one.paced
        paced = f"{1 - (form.learned or one.alpha):7.1%}" if form else "      -"
        kinds = ", ".join(f"{s.kind} {s.slope:.2f}" for s in form.slopes) if form else ""
        print(f"{one.benchmark:12} {1 - min(raw, one.alpha):7.1%} {paced}  {kinds}")
    cases = [(name, share) for name in SLOWED for share in (0.05, 0.1)]
    cases += [("nothing", 0.0), ("all, by a quarter", 0.0)]
    told: dict[str, list[Told]] = {}
    for number, (name, share) in ((n, case) for n in range(judged) for case in cases):
        label = name if not share else f"{name} {share:.0%} slower"
        around = stopping if name.startswith("all") else nullcontext

        def judged_once(name: str = name, share: float = share, around: Around = around) -> Told:
            with around():
                return tell(name, judge(works, pacer, baseline, name, share))

        told.setdefault(label, []).append(kept.of(f"{label} {number}", judged_once))
    print(
        f"\n{'what was done':34} {'runs':>4} {'found':>5} {'raw':>4} {'any':>4}  pace of the host"
    )
    for label, each in told.items():
        found, raw, failed, pace = np.sum(each, axis=0)
        print(f"{label:34} {len(each):4} {found:5} {raw:4} {failed:4}  failed in {pace}")


def tell(slowed: str, run: Sequence[MetricVerdict]) -> Told:
    """Return what failed in one run."""
    failed = [v for v in run if v.outcome is Outcome.FAIL]
    return (
        any(v.benchmark == slowed for v in failed),
        any("reference pace, measured" not in v.text for v in failed),
        bool(failed),
        any(v.benchmark == HOST_PACE for v in failed),
    )


def judge(
    works: Mapping[str, Work], pacer: Pacer, baseline: Baseline, slowed: str, share: float
) -> list[MetricVerdict]:
    """Measure one run as the plugin does, looking again where it is close, and judge it."""
    gather, found = Gather(), []
    for name, work in works.items():
        criterion = baseline.find(name, "time")
        if criterion is None:
            continue
        plan, again = PLANS["smoke"], slower(work, share) if name == slowed else work
        looks = [measure(again, pacer)]
        paces = [looks[0][1]]
        while closer_look([one for one, _ in looks], criterion, paces=paces) == "more":
            time.sleep(plan.pause_seconds * LOOK_PAUSE)
            looks.append(measure(again, pacer, plan.look()))
            paces.append(looks[-1][1])
        values = [value for one, _ in looks for value in one]
        pace = joined(paces)
        found.append(judge_sample(values, criterion, baseline, looks=len(looks), pace=dict(pace)))
        add(gather, name, "now", values, pace)
    forms = paced_forms_of(baseline.criteria)
    if forms:
        paces_of = pace_populations(gather.populations(), forms)
        for judged in judge_populations(paces_of, replace(baseline, criteria=_of_pace(baseline))):
            found += judged.verdicts(baseline)
    return found


def _of_pace(baseline: Baseline) -> tuple:  # type: ignore[type-arg]
    return tuple(one for one in baseline.criteria if one.benchmark == HOST_PACE)


def measure(work: Work, pacer: Pacer, plan: RoundPlan = PLANS["smoke"]) -> tuple[list[float], Pace]:
    """Time a piece of work as the plugin does."""
    clock = HostClock(lambda: None)
    values = rounds(work, clock, plan, warm_up(work, clock, plan), pacer)
    return values, pacer.taken(len(values))


def add(gather: Gather, name: str, run: str, values: Sequence[float], pace: Pace) -> None:
    """Add one measurement."""
    gather.add(
        hardware_class="here",
        benchmark=name,
        metric=Metric(name="time", unit="s", better="lower"),
        component="host",
        group="",
        node="here",
        device="cpu",
        run=run,
        values=values,
        pace=pace,
    )


def slower(work: Work, share: float) -> Work:
    """Return work that takes so much longer, whatever the host's pace."""

    def prolonged() -> None:
        begin = time.perf_counter()
        work()
        now = time.perf_counter()
        end = now + share * (now - begin)
        while time.perf_counter() < end:
            pass

    return prolonged


@contextmanager
def stopping() -> Iterator[None]:
    """Have this process stopped for a share of every period, as a quota of its control group would."""
    parent = os.getpid()
    if pid := os.fork():
        try:
            yield
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            os.kill(parent, signal.SIGCONT)
        return
    while True:
        try:
            os.kill(parent, signal.SIGSTOP)
            time.sleep(STOPPED * PERIOD)
            os.kill(parent, signal.SIGCONT)
        except ProcessLookupError:
            os._exit(0)
        time.sleep((1 - STOPPED) * PERIOD)


def workloads() -> dict[str, Work]:
    """Return what is measured; the names of `SLOWED` are among it."""
    import torch

    from suites.compute.kernels import Gemm, Launch
    from suites.memory.stream import Stream
    from suites.training.gpt import GptShape, gpt_step
    from suites.training.resnet import ResNetShape, resnet_step

    torch.set_num_threads(len(os.sched_getaffinity(0)))
    cpu = torch.device("cpu")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    elements = (1 << 26) if memory > SPARE else (1 << 23)
    shape = ResNetShape(width=16, stages=3, blocks=2, picture=32, batch=16)
    tokens = GptShape(layers=2, width=256, heads=4, context=128, batch=4, vocabulary=1024)
    return {
        "gemm": Gemm(1024, "float32", cpu).run,
        "gemm of 64": Gemm(1024, "float64", cpu).run,
        "stream": Stream("triad", elements, cpu).run,
        "training": resnet_step(shape, cpu).run,
        "transformer": gpt_step(tokens, cpu).run,
        "dispatch": Launch(cpu).run,
    }


if __name__ == "__main__":
    main()
