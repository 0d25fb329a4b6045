"""Learned thresholds: the stated and the achieved rate on held-out nodes, the power beside naive rules.

Simulated fleets of 41 metrics on 8 devices; a third of the metrics is heavy-tailed. One fault at a time is
injected into one metric of otherwise healthy held-out nodes. With --data the same is done on real cloud
machines (one value a metric), where faults can only be shifts.

Usage: python benchmarks/validator/thresholds.py [--nodes 60 120 300] [--data DIR]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout's packages

import numpy as np
import numpy.typing as npt

from benchmarks.validator.recorded_tables import recorded
from pytest_anubis.core.baseline import Baseline, Scope
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.sample import Population, population_of
from pytest_anubis.validator import judge_columns, learn_baseline, learn_criterion

Values = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
METRICS, DEVICES, STEPS, HELD = 41, 8, 20, 400
SPLITS = 20
MUCH = (
    0.25  # a loss that no machine of a sound fleet has: at most 4 % lose so much in any one metric
)
MARGINAL, FAIL = 1, 2


@dataclass
class Fleet:
    """The true noise of a fleet: per metric between nodes, between devices, within a sample."""

    rng: np.random.Generator

    def __post_init__(self) -> None:
        """Draw the metrics' own noise."""
        draw = self.rng.uniform
        self.node = np.exp(draw(np.log(0.001), np.log(0.01), METRICS))
        self.device = np.exp(draw(np.log(0.001), np.log(0.008), METRICS))
        self.within = np.exp(draw(np.log(0.003), np.log(0.03), METRICS))
        self.heavy = np.arange(METRICS) % 3 == 2

    def values(self, metric: int, nodes: int) -> Values:
        """Return times, shape (nodes, DEVICES, STEPS)."""
        tails = self.rng.standard_t(3, (nodes, DEVICES)) if self.heavy[metric] else None
        device = self.rng.normal(size=(nodes, DEVICES)) if tails is None else tails
        shift = self.node[metric] * self.rng.normal(size=(nodes, 1)) + self.device[metric] * device
        noise = self.within[metric] * self.rng.normal(size=(nodes, DEVICES, STEPS))
        if self.heavy[metric]:
            hit = self.rng.random(noise.shape) < 0.01
            noise = noise + np.where(hit, self.rng.exponential(0.1, noise.shape), 0)
        return np.asarray(100 * np.exp(shift[:, :, None] + noise))


def slowdown(share: float, devices: slice = slice(None)) -> Callable[[Values], Values]:
    """Return a fault: some devices slower by a share on every step."""

    def fault(values: Values) -> Values:
        out = values.copy()
        out[:, devices] *= 1 + share
        return out

    return fault


def steps_slower(
    factor: float, steps: slice, device: slice = slice(0, 1)
) -> Callable[[Values], Values]:
    """Return a fault: some steps of some devices slower."""

    def fault(values: Values) -> Values:
        out = values.copy()
        out[:, device, steps] *= factor
        return out

    return fault


def intermittent(values: Values) -> Values:
    """Make 5 % of one device's steps three times as long, at random."""
    out = values.copy()
    hit = np.random.default_rng(1).random(out[:, 0].shape) < 0.05
    out[:, 0][hit] *= 3
    return out


def heavy_tail(values: Values) -> Values:
    """Add an exponential tail with a mean of 8 % to one device."""
    out = values.copy()
    out[:, 0] *= 1 + np.random.default_rng(2).exponential(0.08, out[:, 0].shape)
    return out


FAULTS: dict[str, Callable[[Values], Values]] = {
    "uniform 3 %": slowdown(0.03),
    "uniform 8 %": slowdown(0.08),
    "one device of 8, 3 %": slowdown(0.03, slice(0, 1)),
    "one device of 8, 8 %": slowdown(0.08, slice(0, 1)),
    "every 10th step x2": steps_slower(2.0, slice(9, None, 10)),
    "heavy tail": heavy_tail,
    "throttled half-way 12 %": steps_slower(1.12, slice(STEPS // 2, None)),
    "intermittent": intermittent,
}


def population(metric: int, values: Values, steps: int = STEPS) -> Population:
    """Return one row a device."""
    n = values.shape[0]
    return population_of(
        list(values.reshape(n * DEVICES, steps)),
        metric=Metric(name=f"m{metric:02d}", unit="ms", better="lower"),
        benchmark="b",
        nodes=[f"n{i:04d}" for i in range(n) for _ in range(DEVICES)],
        devices=[f"d{d}" for _ in range(n) for d in range(DEVICES)],
    )


class Rules:
    """Our verdicts and the naive rules, all as scores per node for one metric."""

    names = (
        "ours, MARGINAL or FAIL", "ours, FAIL", "alpha .95", "mean + 5 %", "mean + 3 sigma",
        "IQR 1.5", "KS, Bonferroni",
    )  # fmt: skip
    own = (
        MARGINAL - 0.5,
        FAIL - 0.5,
        0.05,
        0.05,
        3.0,
        1.5,
        float(np.log(METRICS * DEVICES / 0.01)),
    )
    """The score beyond which each rule rejects."""

    def __init__(self, baseline: Baseline, train: list[Values]) -> None:
        self.baseline = baseline
        self.means = [values.mean(axis=2).ravel() for values in train]
        self.pooled = [np.sort(values.ravel()) for values in train]

    def scores(self, metric: int, values: Values) -> list[Values]:
        """Return one array of shape (nodes,) for every rule: its worst device."""
        n = values.shape[0]
        outcomes = np.zeros(n, dtype=np.int8)
        loss = np.zeros(n)
        for scope in get_args(Scope):
            criterion = self.baseline.find("b", f"m{metric:02d}", scope=scope)
            if criterion is None:
                continue
            judged = judge_columns(population(metric, values), criterion)
            per = judged.outcome.reshape(n, -1)
            outcomes = np.maximum(outcomes, np.where(per <= FAIL, per, 0).max(axis=1))
            if scope == "unit":
                loss = 1 - judged.similarity.reshape(n, -1).min(axis=1)
        means = values.mean(axis=2)
        known = self.means[metric]
        low, high = np.percentile(known, [25, 75])
        naive = [
            (means / np.median(known) - 1).max(axis=1),
            ((means - known.mean()) / known.std()).max(axis=1),
            ((means - high) / (high - low)).max(axis=1),
        ]
        code = outcomes.astype(np.float64)
        return [code, code, loss, *naive, self._ks(metric, values)]

    def _ks(self, metric: int, values: Values) -> Values:
        from scipy.special import kolmogorov

        reference = self.pooled[metric]
        ordered = np.sort(values, axis=2)
        place = np.searchsorted(reference, ordered) / len(reference)
        steps = np.arange(1, STEPS + 1) / STEPS
        worse = (place - (steps - 1 / STEPS)).max(axis=2)  # one-sided: larger times
        p = kolmogorov(np.sqrt(STEPS) * worse) / 2
        return np.asarray(-np.log(np.maximum(p.min(axis=1), 1e-300)))


Table = dict[str, list[float]]


def simulate(nodes: int, seed: int) -> tuple[Table, Table, float]:
    """Return what each rule rejects, as it stands and at an equal rate, and the seconds to learn.

    For the equal rate the naive rules get the thresholds that reject just 1 % of these very healthy nodes,
    which nobody could know beforehand.
    """
    fleet = Fleet(np.random.default_rng(seed))
    train = [fleet.values(metric, nodes) for metric in range(METRICS)]
    begin = time.perf_counter()
    baseline = learn_baseline(
        [population(metric, values) for metric, values in enumerate(train)],
        hardware_class="c",
        created="-",
    )
    took = time.perf_counter() - begin
    rules = Rules(baseline, train)
    held = [fleet.values(metric, HELD) for metric in range(METRICS)]
    healthy = np.max([rules.scores(metric, values) for metric, values in enumerate(held)], axis=0)
    equal = [*Rules.own[:2], *np.quantile(healthy[2:], 0.99, axis=1)]
    tables: tuple[Table, Table] = ({}, {})
    for table, thresholds in zip(tables, (Rules.own, equal), strict=True):
        table["healthy nodes rejected"] = (thresholds < healthy.T).mean(axis=0).tolist()
    for name, fault in FAULTS.items():
        found = np.array([rules.scores(m, fault(held[m])) for m in range(0, METRICS, 4)])
        for table, thresholds in zip(tables, (Rules.own, equal), strict=True):
            table[name] = (found.transpose(0, 2, 1) > thresholds).mean(axis=(0, 1)).tolist()
    return *tables, took


def real_machines(folder: Path) -> tuple[Any, Any, list[str]]:
    """Return cloud machines that have all metrics as a table, what the metrics are, and their codes."""
    table = recorded(folder / "azure_vm_noise" / "short_D8s_v5_eastus.parquet")
    names = recorded(folder / "azure_vm_noise" / "metrics.csv").set_index("code")
    codes = [c for c in table.columns if c.startswith("m") and table[c].notna().mean() > 0.3]
    return table.dropna(subset=codes).reset_index(drop=True), names, codes


def real(folder: Path, learned: Sequence[int]) -> None:
    """Print the achieved rate on held-out real machines, each with one value of every metric."""
    table, names, codes = real_machines(folder)
    print(f"\nreal: {len(table)} cloud machines with all of {len(codes)} metrics")
    rng = np.random.default_rng(0)
    for nodes in learned:
        every, clear = Achieved(), Achieved()
        counts: list[int] = []
        for _ in range(SPLITS):
            order = rng.permutation(len(table))
            train, held = (
                [real_population(table.iloc[part], code, names) for code in codes]
                for part in (order[:nodes], order[nodes : nodes + 1500])
            )
            baseline = learn_baseline(train, hardware_class="c", created="-")
            every.add(baseline, train, held)
            second = {f.metric for f in baseline.findings if f.kind == "second-population"}
            train, held = ([p for p in x if p.metric.name not in second] for x in (train, held))
            clear.add(learn_baseline(train, hardware_class="c", created="-"), train, held)
            counts.append(len(train))
        print(f"  learned from {nodes}")
        print("    all metrics")
        every.show()
        print(
            f"    the {min(counts)} to {max(counts)} metrics without a second population, learned anew"
        )
        clear.show()


class Achieved:
    """Counts held-out machines that are rejected, in all and among the sound ones.

    Nobody has labelled these machines. A held-out one is no stray if the held-out ones themselves take it
    for healthy, by the rules by which a fleet does so when it is learned. But a fleet of 1,500 cannot tell a
    rare slow group from a heavy tail: one machine in seventy does a third less in PostgreSQL than all others,
    with a gap between. So a machine is *sound* if it is no stray and lost no quarter (`MUCH`) in any metric
    against the median of the held-out ones, whatever our limits say of it; to reject one that did is no
    error. Both columns are told. Splits share machines and each has one baseline, so the rates of single
    splits stand beside their mean.
    """

    def __init__(self) -> None:
        self.count = self.failed = self.alpha = self.few = 0
        self.rates: dict[str, list[float]] = {"no stray": [], "sound": []}
        self.shares: list[float] = []
        self.strays: list[float] = []

    def add(
        self, baseline: Baseline, train: Sequence[Population], held: Sequence[Population]
    ) -> None:
        """Judge one split; where too few healthy nodes were left for a threshold, it is only counted."""
        if baseline.factor is None:  # a finding says so, and alpha decides
            self.few += 1
            return
        judged = [
            judge_columns(p, criterion)
            for p in held
            if (criterion := baseline.find("b", p.metric.name)) is not None
        ]
        failed = np.array([one.outcome for one in judged]) == FAIL
        rejected = failed.any(axis=0)
        own = healthy_nodes(held)
        healthy = np.array([name in own for name in held[0].nodes])
        sound = healthy & ~np.array([_lost_much(p) for p in held]).any(axis=0)
        for column, members in (("no stray", healthy), ("sound", sound)):
            self.rates[column].append(float((rejected & members).sum() / members.sum()))
        self.shares.append(float(sound.mean()))
        self.count += len(healthy)
        self.failed += int(rejected.sum())
        self.alpha += int(np.array([one.similarity < 0.95 for one in judged]).any(axis=0).sum())
        self.strays.append(1 - len(healthy_nodes(train)) / len(train[0]))

    def show(self) -> None:
        """Print one row for each column of rates, and what else there is to know."""
        if not self.shares:
            print("      too few healthy nodes for a threshold in every split")
            return
        for column, rates in self.rates.items():
            error = np.std(rates, ddof=1) / len(rates) ** 0.5 if rates[1:] else np.nan
            print(f"      {column:8s} rejected: mean {np.mean(rates):.2%} +- {error:.2%}, median "
                  f"{np.median(rates):.2%}, {min(rates):.2%} to {max(rates):.2%}, at most 2 % in "
                  f"{sum(rate <= 0.02 for rate in rates)} of {len(rates)} splits")  # fmt: skip
        print(f"      sound are {min(self.shares):.0%} to {max(self.shares):.0%} of the held-out; of all: "
              f"FAIL {self.failed / self.count:.1%}, alpha .95 alone {self.alpha / self.count:.1%}; strays "
              f"among the learned {min(self.strays):.1%} to {max(self.strays):.1%}; {self.few} splits had "
              "too few nodes for a threshold")  # fmt: skip


def _lost_much(p: Population) -> Flags:
    """Return which machines lost `MUCH` or more against the median one, of one value each."""
    middle = float(np.median(p.values))
    loss = 1 - middle / p.values if p.metric.better == "lower" else 1 - p.values / middle
    return np.asarray(loss >= MUCH)


def healthy_nodes(populations: Sequence[Population]) -> set[str]:
    """Return the nodes that the learning of thresholds counts as healthy."""
    # Late: version 0.1 has none, and `dirty.py` tries its limits too.
    from pytest_anubis.validator.learning.healthy_tails import healthy_tails

    nodes = set(populations[0].nodes)
    for p in populations:
        (tail,) = healthy_tails([learn_criterion(p)])
        if tail is not None:
            nodes -= {
                name for name, trust in zip(tail.nodes, tail.trust, strict=True) if trust < 0.5
            }
    return nodes


def real_population(table: Any, code: str, names: Any) -> Population:
    """Return one metric of cloud machines, one row a machine."""
    return population_of(
        table[code].to_numpy(dtype=float)[:, None],
        metric=Metric(
            name=code,
            unit=str(names.unit[code]),
            better="lower" if names.lower_is_better[code] else "higher",
        ),
        benchmark="b",
    )


def main() -> None:
    """Print one table for each number of nodes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="*", default=[60, 120, 300])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--data", type=Path, help="folder with azure_vm_noise/")
    parser.add_argument("--learned", type=int, nargs="*", default=[120, 300, 1000])
    options = parser.parse_args()
    for nodes in options.nodes:
        runs = [simulate(nodes, seed) for seed in range(options.seeds)]
        print(f"\n{nodes} nodes, {METRICS} metrics x {DEVICES} devices, {HELD} held-out nodes, "
              f"{options.seeds} fleets, learned in {np.mean([r[2] for r in runs]):.1f} s")  # fmt: skip
        titles = ("as they stand", "naive rules at an equal rate of 1 %")
        for title, tables in zip(titles, ([r[0] for r in runs], [r[1] for r in runs]), strict=True):
            print(f"{title:36s}" + "".join(f"{name:>24s}" for name in Rules.names))
            for row in tables[0]:
                mean = np.mean([table[row] for table in tables], axis=0)
                print(f"{row:36s}" + "".join(f"{x:24.1%}" for x in mean))
    if options.data:
        real(options.data, options.learned)


if __name__ == "__main__":
    main()
