"""Fleets that several scripts learn from: simulated ones, and real cloud machines that `--data` names."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_anubis.core.baseline import Baseline
from pytest_anubis.core.metric import Direction, Metric
from pytest_anubis.core.sample import Population, population_of
from pytest_anubis.validator import judge_columns, learn_baseline, learn_criterion
from pytest_anubis.validator.learning.healthy_tails import healthy_tails

Values = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
METRICS, DEVICES, STEPS, HELD = 41, 8, 20, 400
LEAST, MOST = 0.03, 0.6
MUCH = (
    0.25  # a loss that no machine of a sound fleet has: at most 4 % lose so much in any one metric
)
FAIL = 2


@dataclass
class Fleet:
    """The true noise of a fleet: per metric between nodes, between devices, within a sample.

    A third of the metrics is heavy-tailed.
    """

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

    def sick(
        self, nodes: int, share: float, batch: bool
    ) -> Iterator[tuple[int, int, slice, float]]:
        """Yield (node, metric, devices, loss) of the sick ones among so many nodes."""
        rng = self.rng
        common = rng.permutation(METRICS)[: rng.integers(1, 6)]
        where = slice(None) if rng.random() < 0.5 else slice(int(rng.integers(DEVICES)), None)
        for node in rng.permutation(nodes)[: round(share * nodes)].tolist():
            metrics, devices = common, where
            if not batch:
                metrics = rng.permutation(METRICS)[: rng.integers(1, 6)]
                first = int(rng.integers(DEVICES))
                devices = slice(None) if rng.random() < 0.5 else slice(first, first + 1)
            for metric in metrics.tolist():
                yield node, metric, devices, float(rng.uniform(LEAST, MOST))


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


def recorded(path: Path) -> Any:
    """Return a Parquet or CSV file as a table of pandas; say in one line what is missing, and end."""
    try:
        import pandas as pd

        return pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path)
    except ImportError:
        sys.exit(f"{path.name} is read with pandas and pyarrow: pip install pandas pyarrow")
    except FileNotFoundError:
        sys.exit(f"{path} is not there: --data names the folder that holds {path.parent.name}/")


def real_machines(folder: Path) -> tuple[Any, Any, list[str]]:
    """Return cloud machines that have all metrics as a table, what the metrics are, and their codes."""
    table = recorded(folder / "azure_vm_noise" / "short_D8s_v5_eastus.parquet")
    names = recorded(folder / "azure_vm_noise" / "metrics.csv").set_index("code")
    codes = [c for c in table.columns if c.startswith("m") and table[c].notna().mean() > 0.3]
    return table.dropna(subset=codes).reset_index(drop=True), names, codes


def real_population(table: Any, code: str, names: Any) -> Population:
    """Return one metric of cloud machines, one row a machine."""
    values = table[code].to_numpy(dtype=float)[:, None]
    return population_of(values, metric=_real_metric(code, names), benchmark="b")


def _real_metric(code: str, names: Any) -> Metric:
    better: Direction = "lower" if names.lower_is_better[code] else "higher"
    return Metric(name=code, unit=str(names.unit[code]), better=better)


class LongLived:
    """Twelve cloud machines that were measured again and again, one value a run.

    Args:
        folder: Holds ``azure_vm_noise/``.
    """

    def __init__(self, folder: Path) -> None:
        table = recorded(folder / "azure_vm_noise" / "long_lived.parquet")
        self._names = recorded(folder / "azure_vm_noise" / "metrics.csv").set_index("code")
        self._table = table[table.value > 0].sort_values("starttime")

    def machines(self) -> Iterator[dict[str, Values]]:
        """Yield the values of each machine by metric, in the order of their time."""
        for _, machine in self._table.groupby(["vm_region", "vm_sku", "VM_id"], observed=True):
            parts = machine.groupby("metric", observed=True)
            yield {str(code): part.value.to_numpy() for code, part in parts}

    def learn(self, columns: dict[str, Values], start: int, runs: int) -> Baseline:
        """Return the baseline of so many runs of a machine."""
        populations = [
            population_of(
                [[value] for value in column[start : start + runs]],
                metric=_real_metric(code, self._names),
                benchmark="b",
                nodes=["me"] * runs,
                runs=[str(number) for number in range(runs)],
            )
            for code, column in columns.items()
        ]
        return learn_baseline(populations, hardware_class="c", created="-")


def sound_rejected(baseline: Baseline, held: Sequence[Population]) -> float | None:
    """Return the share of sound held-out machines that a baseline rejects; None without limits.

    Nobody has labelled these machines. A held-out one is no stray if the held-out ones themselves take it
    for healthy, by the rules by which a fleet does so when it is learned. But a fleet of 1,500 cannot tell a
    rare slow group from a heavy tail: one machine in seventy does a third less in PostgreSQL than all others,
    with a gap between. So a machine is *sound* if it is no stray and lost no quarter (`MUCH`) in any metric
    against the median of the held-out ones, whatever our limits say of it; to reject one that did is no
    error.
    """
    if baseline.factor is None:  # a finding says so, and alpha decides
        return None
    judged = [
        judge_columns(p, criterion)
        for p in held
        if (criterion := baseline.find("b", p.metric.name)) is not None
    ]
    rejected = (np.array([one.outcome for one in judged]) == FAIL).any(axis=0)
    own = healthy_nodes(held)
    healthy = np.array([name in own for name in held[0].nodes])
    sound = healthy & ~np.array([_lost_much(p) for p in held]).any(axis=0)
    return float((rejected & sound).sum() / sound.sum())


def _lost_much(p: Population) -> Flags:
    """Return which machines lost `MUCH` or more against the median one, of one value each."""
    middle = float(np.median(p.values))
    loss = 1 - middle / p.values if p.metric.better == "lower" else 1 - p.values / middle
    return np.asarray(loss >= MUCH)


def healthy_nodes(populations: Sequence[Population]) -> set[str]:
    """Return the nodes that the learning of thresholds counts as healthy."""
    nodes = set(populations[0].nodes)
    for p in populations:
        (tail,) = healthy_tails([learn_criterion(p)])
        if tail is not None:
            nodes -= {
                name for name, trust in zip(tail.nodes, tail.trust, strict=True) if trust < 0.5
            }
    return nodes
