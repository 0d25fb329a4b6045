"""The Validator on real measurements: flags of three methods and of naive rules, and injected faults.

GPU runs of two clusters, and bandwidth of same-model disks. The three methods are the median of quantile
functions, the exact medoid, and the naive all-pairs algorithm; they should flag the same units. Then a share
of each set is made slow, so that the truth is known, and precision and recall stand beside the naive rules.

``--smears`` tries the learned limits instead: of half of each set's nodes a share is made sick (one device or
all, 3 to 60 %), limits are learned from them with the defaults, and the other half is judged. Nobody has
labelled these sets: as in `fleets.py` a unit is *sound* if the whole clean set takes its node for healthy
and it lost no quarter against the median. That judge is ours, and takes a few slow nodes for a heavy tail. So
the same stands a second time by a fixed rule that knows nothing of ours: a node that *itself* lost more than
a tenth (the median of its units' losses against the median of the whole set) is sick, and its units take no
part in what is counted; they stay among those that are learned from. Rules on the means of units, learned
from the same dirty halves, stand beside it.

Usage: python benchmarks/validator/real.py --data DIR [--naive] [--smears]
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout's packages

import numpy as np
import numpy.typing as npt
import pandas as pd

from benchmarks.validator.fleets import FAIL, LEAST, MOST, MUCH, Flags, healthy_nodes, recorded
from pytest_anubis.core.metric import Direction, Metric
from pytest_anubis.core.sample import Population, population_of
from pytest_anubis.validator import judge_columns, learn_baseline, learn_criterion, one_sided
from pytest_anubis.validator.similarity.distance import similarity

OWN_LOSS = 0.1  # of a node, from which on the second reading counts it as sick: the loss that is to be found
SPLITS, FEWEST = 6, 50  # ways to halve a set, and fewest units of one: a dozen disks make no limit
PAL = (
    ("Longhorn ResNet", "resnet-longhorn-agg.csv", "perf"),
    ("Longhorn BERT", "bert-longhorn-agg.csv", "perf"),
    ("Longhorn PageRank", "pagerank-longhorn-agg.csv", "perf"),
    ("Frontera BERT", "frontera-bert-agg.csv", "perf"),
    ("Frontera PageRank", "frontera-pagerank-agg.csv", "perf_avg"),
)


def populations(data: Path) -> Iterator[tuple[str, Population]]:
    """Yield (name, population) of every set."""
    for name, file, column in PAL:
        table = recorded(data / "pal_gpu_variability" / file)
        table["at"] = table.cabinet.astype(str) + "-" + table.node.astype(str)
        parts = list(table[np.isfinite(table[column])].groupby("uuid"))
        yield name, _population(name, parts, column, "lower", [p["at"].iloc[0] for _, p in parts])
        if name == "Longhorn ResNet":
            nodes = list(table[np.isfinite(table[column])].groupby("at"))
            yield f"{name}, per node", _population(name, nodes, column, "lower", None)
    for year in (2002, 2006, 2008, 2009):
        table = recorded(data / "cmu_disks" / f"{year}disks.parquet")
        parts = list(table.groupby("disk"))
        yield f"CMU disks {year}", _population(f"disks {year}", parts, "bandwidth", "higher", None)


def _population(
    name: str,
    parts: list[tuple[object, pd.DataFrame]],
    column: str,
    better: Direction,
    nodes: list[str] | None,
) -> Population:
    return population_of(
        [part[column].to_numpy() for _, part in parts],
        metric=Metric(name=name, unit="ms" if better == "lower" else "MB/s", better=better),
        benchmark="b",
        nodes=nodes or [str(key) for key, _ in parts],
        devices=[str(key) for key, _ in parts],
    )


def all_pairs(population: Population, alpha: float = 0.95) -> Flags:
    """Return the flags of the iterative medoid with every pair compared, as the paper has it."""
    samples = [population.sample(i) for i in range(len(population))]
    better = population.metric.better
    alike = np.array([[similarity(a, b) for b in samples] for a in samples])
    live = np.arange(len(samples))
    while True:
        centre = samples[live[alike[np.ix_(live, live)].sum(1).argmax()]]
        kept = live[[one_sided(samples[i], centre, better) >= alpha for i in live]]
        if len(kept) == len(live):
            return np.array([one_sided(s, centre, better) < alpha for s in samples])
        live = kept


def naive_rules(population: Population) -> dict[str, Flags]:
    """Return the flags of rules on each unit's mean or median."""
    sign = 1 if population.metric.better == "lower" else -1
    samples = [population.sample(i) for i in range(len(population))]
    means = np.array([s.mean() for s in samples])
    medians = np.array([np.median(s) for s in samples])
    low, high = np.percentile(sign * means, [25, 75])
    return {
        "5 % on means": sign * means > sign * np.median(means) * (1 + sign * 0.05),
        "5 % on medians": sign * medians > sign * np.median(medians) * (1 + sign * 0.05),
        "mean 3 sigma": sign * means > (sign * means).mean() + 3 * means.std(),
        "IQR 1.5": sign * means > high + 1.5 * (high - low),
    }


def contaminated(
    population: Population, share: float, factor: float, which: str
) -> tuple[Population, Flags]:
    """Return the population with a share of its units made slower, and which ones."""
    rng = np.random.default_rng(0)
    count = len(population)
    truth = np.zeros(count, dtype=np.bool_)
    truth[rng.permutation(count)[: max(1, int(share * count))]] = True
    worse = factor if population.metric.better == "lower" else 1 / factor
    samples = []
    for row in range(count):
        sample = population.sample(row).copy()
        if truth[row]:
            sample[_hit(len(sample), which)] *= worse
        samples.append(sample)
    return population_of(
        samples,
        metric=population.metric,
        benchmark="b",
        nodes=population.nodes,
        devices=population.devices,
    ), truth


def _hit(count: int, which: str) -> slice:
    return {"all": slice(None), "half": slice(count // 2, None), "some": slice(0, None, 4)}[which]


def quality(flags: Flags, truth: Flags) -> str:
    """Return precision / recall."""
    if not truth.any():
        return "-"
    hits = int((flags & truth).sum())
    precision = hits / flags.sum() if flags.any() else 1.0
    return f"{precision:.2f}/{hits / truth.sum():.2f}"


def show_flags(data: Path, naive: bool) -> None:
    """Print one row for every set."""
    print("set                         n   median  medoid  pairs  R       least sim | naive rules")
    for name, population in populations(data):
        learned = learn_criterion(population)
        medoid = learn_criterion(population, method="medoid")
        pairs = "-"
        if naive and len(population.values) < 20_000:
            begin = time.perf_counter()
            flags = all_pairs(population)
            same = "same" if (flags == learned.flagged).all() else "DIFFERENT"
            pairs = f"{flags.sum()} {same} {time.perf_counter() - begin:.1f} s"
        rules = ", ".join(f"{key} {int(f.sum())}" for key, f in naive_rules(population).items())
        criterion = learned.criterion
        repeats = criterion.repeatability if criterion and criterion.repeatability else float("nan")
        print(
            f"{name:26s} {len(population):4d} {int(learned.flagged.sum()):6d} "
            f"{int(medoid.flagged.sum()):7d}  {pairs:>6s}    "
            f"{repeats:.4f}  {1 - np.nanmax(learned.losses):.3f}     | {rules}"
        )


def show_faults(data: Path) -> None:
    """Print precision/recall on contaminated sets; flags of the clean set are left out of both."""
    print(
        "\nprecision/recall with injected faults (units that the clean set already flags left out)"
    )
    faults = (
        ("5 % of units x2", 0.05, 2.0, "all"),
        ("45 % of units x2", 0.45, 2.0, "all"),
        ("10 % of units +8 %", 0.1, 1.08, "all"),
        ("10 %, half of the runs +30 %", 0.1, 1.3, "half"),
        ("10 %, every 4th run x2", 0.1, 2.0, "some"),
    )
    sums: dict[str, dict[str, npt.NDArray[np.int64]]] = {}
    for name, population in populations(data):
        already = learn_criterion(population).flagged
        even = 1 / 1.05 if population.metric.better == "lower" else 0.95
        clean = learn_criterion(population, alpha=even).flagged
        for fault, share, factor, which in faults:
            dirty, truth = contaminated(population, share, factor, which)
            learned = learn_criterion(dirty)
            # A time that is 5 % longer is 4.76 % less similar: at the threshold of the rule on means.
            level = learn_criterion(dirty, alpha=even).flagged & ~clean
            count = ~already
            row = {"ours": learned.flagged, "ours at 5 % of a time": level, **naive_rules(dirty)}
            text = "  ".join(f"{key} {quality(f[count], truth[count])}" for key, f in row.items())
            print(f"{name:26s} {fault:30s} {text}")
            for key, f in row.items():
                found = sums.setdefault(fault, {}).setdefault(key, np.zeros(3, dtype=np.int64))
                hits = f[count] & truth[count]
                found += [hits.sum(), f[count].sum(), truth[count].sum()]
    print("\nall sets together: precision/recall (F1)")
    for fault, rules in sums.items():
        cells = []
        for key, (hits, flagged, faulty) in rules.items():
            precision, recall = hits / max(flagged, 1), hits / faulty
            f1 = 2 * hits / (flagged + faulty)
            cells.append(f"{key} {precision:.2f}/{recall:.2f} ({f1:.2f})")
        print(f"{fault:30s} {'  '.join(cells)}")


def _limits(train: Population) -> dict[str, Callable[[Population], Flags]]:
    """Return our learned limits and rules on means, each as a function that returns the failed units."""
    sign = 1 if train.metric.better == "lower" else -1

    def means(p: Population) -> npt.NDArray[np.float64]:
        return sign * np.add.reduceat(p.values, p.offsets[:-1]) / np.diff(p.offsets)

    def beyond(limit: float) -> Callable[[Population], Flags]:
        return lambda p: np.asarray(means(p) > limit)

    def judged(error_rate: float | None) -> Callable[[Population], Flags]:
        baseline = learn_baseline([train], hardware_class="c", created="-", error_rate=error_rate)
        criterion = baseline.find(train.benchmark, train.metric.name)
        if criterion is None:
            return lambda p: np.zeros(len(p), dtype=np.bool_)
        return lambda p: np.asarray(judge_columns(p, criterion).outcome == FAIL)

    x = means(train)
    low, middle, high = np.percentile(x, [25, 50, 75])
    spread = 1.4826 * np.median(np.abs(x - middle))
    return {
        "ours": judged(0.01),
        "alpha alone": judged(None),
        "median + k MAD": beyond(middle + 2.326 * spread),  # one of a hundred, were noise normal
        "IQR x 3": beyond(high + 3 * (high - low)),
    }


def show_smears(data: Path) -> None:
    """Print what learned limits find in halves of the sets that they have not seen."""
    print(
        f"learned from half of each set's nodes, of which a share is sick; {SPLITS} halves of each set\n"
        f"{'':48} {'sound by the whole set':>25}   {'and no node that lost a tenth':>25}\n"
        f"{'set':26s} {'sick':>5} {'rule':15} {'rejected':>9} {'10-60 %':>8} {'5 %':>6} "
        f"{'rejected':>11} {'10-60 %':>8} {'5 %':>6} found"
    )
    sums: dict[tuple[float, str], list[tuple[float, ...]]] = {}
    for name, population in populations(data):
        for share in (0.0, 0.1, 0.2, 0.3) if len(population) >= FEWEST else ():
            rows: dict[str, list[tuple[float, ...]]] = {}
            for split in range(SPLITS):
                for rule, found in _smeared(population, share, split).items():
                    rows.setdefault(rule, []).append(found)
            for rule, each in rows.items():
                sums.setdefault((share, rule), []).extend(each)
                print(_smear_row(name, share, rule, each))
    for (share, rule), each in sums.items():
        print(_smear_row("all sets together", share, rule, each), flush=True)


def _smear_row(name: str, share: float, rule: str, each: list[tuple[float, ...]]) -> str:
    readings = []
    for part in np.split(np.array(each).T, 2):
        rejected, sound, ten, five = part
        readings.append(f"{rejected.sum() / sound.sum():9.2%} {ten.mean():8.1%} {five.mean():6.1%}")
    return f"{name:26s} {share:5.0%} {rule:15} {'   '.join(readings)}"


def _smeared(population: Population, share: float, seed: int) -> dict[str, tuple[float, ...]]:
    """Return per rule, for both readings: sound units rejected, how many are sound, 10 to 60 %, 5 % found."""
    rng = np.random.default_rng(seed)
    names = np.array(sorted(set(population.nodes)))
    half = set(rng.permutation(names)[: len(names) // 2].tolist())
    mine = [row for row, node in enumerate(population.nodes) if node in half]
    others = sorted(set(range(len(population))) - set(mine))
    train, held = population.only(mine), population.only(others)
    losses = np.zeros(len(train))
    own = np.array(train.nodes)
    known = np.unique(own)
    for node in rng.permutation(known)[: round(share * len(known))]:  # one of its devices or all
        units = rng.permutation(np.flatnonzero(own == node))
        losses[units[: 1 if rng.random() < 0.5 else None]] = rng.uniform(LEAST, MOST)
    dirty = _slower(train, losses)
    ten, five = (
        _slower(held, losses)
        for losses in (rng.uniform(0.1, MOST, len(held)), np.full(len(held), 0.05))
    )
    healthy, slow = healthy_nodes([population]), _slow_nodes(population)
    sound = (_losses(population)[others] < MUCH) & np.array([one in healthy for one in held.nodes])
    readings = (sound, sound & np.array([one not in slow for one in held.nodes]))
    found = {}
    for rule, rejects in _limits(dirty).items():
        clean, tenth, twentieth = rejects(held), rejects(ten), rejects(five)
        found[rule] = tuple(
            float(figure)
            for good in readings
            for figure in (
                (clean & good).sum(),
                good.sum(),
                tenth[good].mean(),
                twentieth[good].mean(),
            )
        )
    return found


def _losses(population: Population) -> npt.NDArray[np.float64]:
    """Return the loss of each unit's mean against the median of all, shape (n,)."""
    means = np.array([np.mean(population.sample(row)) for row in range(len(population))])
    middle = float(np.median(means))
    return 1 - middle / means if population.metric.better == "lower" else 1 - means / middle


def _slow_nodes(population: Population) -> set[str]:
    """Return the nodes that lost a tenth themselves: `OWN_LOSS`."""
    losses, nodes = _losses(population), np.array(population.nodes)
    return {str(node) for node in np.unique(nodes) if np.median(losses[nodes == node]) > OWN_LOSS}


def _slower(p: Population, losses: npt.NDArray[np.float64]) -> Population:
    each = np.repeat(losses, np.diff(p.offsets))
    return replace(
        p, values=p.values / (1 - each) if p.metric.better == "lower" else p.values * (1 - each)
    )


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=os.environ.get("ANUBIS_DATA"))
    parser.add_argument("--naive", action="store_true", help="compare all pairs too (slow)")
    parser.add_argument("--smears", action="store_true", help="the learned limits on dirty halves")
    options = parser.parse_args()
    if options.data is None:
        parser.error("say where the data is: --data DIR or ANUBIS_DATA")
    if options.smears:
        show_smears(options.data)
        return
    show_flags(options.data, options.naive)
    show_faults(options.data)


if __name__ == "__main__":
    main()
