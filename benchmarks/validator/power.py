"""Is the stated power true? Losses of the very size that a criterion calls detectable, how many are found.

A criterion states the smallest loss that it finds in 95 % of cases (``detectable``). Here every criterion of
every baseline gets units that it has not seen, made worse by just that much. Simulated fleets are those of
`dirty.py` (a third of the metrics heavy-tailed; a fifth of the nodes that are learned from sick or
none), single machines those of `machine.py`, with closer looks as a run takes them. ``--data`` adds
real cloud machines: each with one value of every metric, and twelve that were measured again and again.
``--journals`` takes runs of any set that were measured on one machine, such as twenty of the smoke set, and
names the metrics that find less than 93 %.

``found`` is the mean over criteria, ``worst tenth`` the power that nine criteria in ten have at least (known
to a few hundredths, from so many units each), ``stated`` the median loss.

Usage: python benchmarks/validator/power.py [--fleets 2] [--machines 10] [--data DIR] [--journals DIR]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout's packages

import numpy as np

from benchmarks.validator.fleets import (
    FAIL,
    METRICS,
    Fleet,
    LongLived,
    population,
    real_machines,
    real_population,
)
from benchmarks.validator.machine import METRICS as MACHINE_METRICS
from benchmarks.validator.machine import Machine, judge
from benchmarks.validator.machine import learn as learn_machine
from pytest_anubis.core.gather import Gather
from pytest_anubis.core.sample import Population
from pytest_anubis.core.verdict import Outcome
from pytest_anubis.store.journal.journal_reading import read_journal
from pytest_anubis.validator import judge_columns, judge_sample, learn_baseline

HELD = 200
LATER = 20  # runs of a machine after those that it learned from, each slowed in every metric
SPLITS = 20  # ways to draw the runs that are learned from
WANTED = 0.93  # of 95 %, known to two hundredths
Found = tuple[float, float]
"""Share of the injected losses that was found, and their size."""


def on_fleet(nodes: int, sick: float, seed: int) -> Iterator[Found]:
    """Yield what each criterion of one simulated fleet finds of the losses that it states."""
    fleet = Fleet(np.random.default_rng(seed))
    train = [fleet.values(metric, nodes) for metric in range(METRICS)]
    for node, metric, devices, loss in fleet.sick(nodes, sick, batch=False):
        train[metric][node, devices] /= 1 - loss
    populations = [population(metric, values) for metric, values in enumerate(train)]
    baseline = learn_baseline(populations, hardware_class="c", created="-")
    for metric in range(METRICS):
        held = fleet.values(metric, HELD)
        for criterion in baseline.criteria:
            if criterion.metric.name != f"m{metric:02d}" or criterion.detectable is None:
                continue
            worse = held.copy()
            worse[:, 0 if criterion.scope == "unit" else slice(None)] *= 1 + criterion.detectable
            outcome = judge_columns(population(metric, worse), criterion).outcome
            failed = outcome.reshape(HELD, -1)[:, 0] == FAIL
            yield float(failed.mean()), criterion.detectable


def on_machine(runs: int, drift: float, tails: int, seed: int) -> Iterator[Found]:
    """Yield the same of one machine's criteria, in later runs with closer looks."""
    machine = Machine(np.random.default_rng(seed), drift, tails, 0.0)
    baseline = learn_machine(machine, runs)
    found = np.zeros(MACHINE_METRICS)
    for _ in range(LATER):
        machine.next_run()
        for criterion in baseline.criteria:
            metric = int(criterion.metric.name[1:])
            take = partial(machine.stage, metric, criterion.detectable or 0.0)
            found[metric] += judge(take, criterion, baseline)[0] is Outcome.FAIL
    for criterion in baseline.criteria:
        if criterion.detectable is not None:
            yield found[int(criterion.metric.name[1:])] / LATER, criterion.detectable


def on_cloud_machines(folder: Path, nodes: int, splits: int) -> Iterator[Found]:
    """Yield the same of real cloud machines, each with one value of every metric."""
    table, names, codes = real_machines(folder)
    rng = np.random.default_rng(2)
    for _ in range(splits):
        order = rng.permutation(len(table))
        train, held = table.iloc[order[:nodes]], table.iloc[order[nodes : nodes + 1000]]
        populations = [real_population(train, code, names) for code in codes]
        for criterion in learn_baseline(populations, hardware_class="c", created="-").criteria:
            size = criterion.detectable
            if size is None or criterion.second is not None:
                continue
            worse = held.copy()
            better = criterion.metric.better
            worse[criterion.metric.name] *= 1 + size if better == "lower" else 1 - size
            judged = judge_columns(real_population(worse, criterion.metric.name, names), criterion)
            yield float((judged.outcome == FAIL).mean()), size


def on_long_lived(folder: Path, runs: int, starts: int) -> Iterator[Found]:
    """Yield the same of twelve cloud machines that were measured again and again, one value a run."""
    known = LongLived(folder)
    for columns in known.machines():
        last = min(map(len, columns.values())) - runs - LATER
        for start in np.linspace(0, last, starts).astype(int).tolist():
            baseline = known.learn(columns, start, runs)
            for criterion in baseline.criteria:
                size = criterion.detectable
                if size is None:
                    continue
                factor = 1 + size if criterion.metric.better == "lower" else 1 - size
                later = columns[criterion.metric.name][start + runs : start + runs + LATER]
                outcomes = [
                    judge_sample([value * factor], criterion, baseline).outcome for value in later
                ]
                yield float(np.mean([one is Outcome.FAIL for one in outcomes])), size


def read(folder: Path) -> tuple[Population, ...]:
    """Return what all runs below a folder measured on one machine, disturbed or not."""
    gather = Gather()
    for journal in sorted(folder.rglob("journal.jsonl")):
        record = read_journal(journal.parent)
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
            )
    return gather.populations()


def on_runs(folder: Path, runs: int, splits: int) -> Iterator[tuple[str, Found]]:
    """Yield the same of runs that were measured on one machine, judged by one look each, with the metric.

    Args:
        folder: Store with the runs (``pytest --anubis --anubis-mode=measure``), disturbed or not.
        runs: How many are learned from, drawn by chance; the others are slowed and judged.
        splits: How often they are drawn.
    """
    populations = {
        (p.benchmark, p.metric.name, p.group): replace(p, given=True)
        for p in read(folder)
        if p.metric.better != "equal"
    }
    names = sorted({run for p in populations.values() for run in p.runs})
    rng = np.random.default_rng(3)
    for _ in range(splits):
        chosen = {names[place] for place in rng.permutation(len(names))[:runs].tolist()}
        learned = [
            p.only([row for row, run in enumerate(p.runs) if run in chosen])
            for p in populations.values()
        ]
        baseline = learn_baseline(learned, hardware_class="here", created="-", one_machine=True)
        for criterion in baseline.criteria:
            size = criterion.detectable
            p = populations[criterion.benchmark, criterion.metric.name, criterion.group]
            later = [row for row, run in enumerate(p.runs) if run not in chosen]
            if size is None or not later:
                continue
            factor = 1 + size if criterion.metric.better == "lower" else 1 - size
            outcomes = [
                judge_sample(p.sample(row) * factor, criterion, baseline).outcome for row in later
            ]
            name = f"{criterion.benchmark.rpartition('/')[2]} {criterion.metric.name}"
            yield name, (float(np.mean([one is Outcome.FAIL for one in outcomes])), size)


def show_runs(folder: Path, runs: int) -> None:
    """Print one line of all metrics together, and one of each that finds less than is wanted."""
    by_metric: dict[str, list[Found]] = {}
    for name, found in on_runs(folder, runs, SPLITS):
        by_metric.setdefault(name, []).append(found)
    every = (one for each in by_metric.values() for one in each)
    row(f"runs of one machine, learned from {runs}", every)
    means = {name: np.mean(each, axis=0) for name, each in by_metric.items()}
    few = {name: mean for name, mean in means.items() if mean[0] < WANTED}
    print(f"  {len(means) - len(few)} of {len(means)} metrics find {WANTED:.0%} and more; less:")
    for name, (found, size) in sorted(few.items(), key=lambda item: float(item[1][0])):
        print(f"    {name:60} {found:6.1%} of losses of {size:.1%}, {len(by_metric[name])} draws")


def row(name: str, each: Iterator[Found]) -> None:
    """Print one line."""
    pairs = list(each)
    if not pairs:
        print(
            f"{name:44} {0:6d}  too few runs, or none of their criteria states a loss", flush=True
        )
        return
    found, sizes = np.array(pairs).T
    print(
        f"{name:44} {len(found):6d} {found.mean():7.1%} {np.quantile(found, 0.1):12.1%} "
        f"{np.median(sizes):7.1%}",
        flush=True,
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fleets", type=int, default=2)
    parser.add_argument("--machines", type=int, default=10)
    parser.add_argument("--data", type=Path, help="folder with azure_vm_noise/")
    parser.add_argument(
        "--journals", type=Path, help="runs measured on one machine, eight at least, instead"
    )
    options = parser.parse_args()
    print(f"{'':44} {'criteria':>6} {'found':>5} {'worst tenth':>12} {'stated':>7}")
    if options.journals:
        for runs in (5, 6):
            show_runs(options.journals, runs)
        return
    for nodes in (10, 20, 60, 300):
        for sick in (0.0, 0.2):
            each = (one for seed in range(options.fleets) for one in on_fleet(nodes, sick, seed))
            row(f"fleet of {nodes} nodes x 8 devices, {sick:.0%} sick", each)
    for runs in (5, 9, 12):
        for drift, tails in ((0.0, 0), (0.7, 4)):
            each = (
                one
                for seed in range(options.machines)
                for one in on_machine(runs, drift, tails, seed)
            )
            kind = "with drift and tails" if tails else "normal noise"
            row(f"one machine, {runs} runs, {kind}", each)
    if options.data:
        for nodes in (120, 300):
            row(f"{nodes} cloud machines", on_cloud_machines(options.data, nodes, 3))
        for runs in (5, 9, 12):
            row(f"one cloud machine, {runs} runs", on_long_lived(options.data, runs, 4))


if __name__ == "__main__":
    main()
