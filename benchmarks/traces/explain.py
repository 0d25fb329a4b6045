"""Which kind of operation carries a slow step's loss: kinds slowed by half, a memory neighbour, and nothing.

Each kind is slowed in a step of which it takes a good share, by a wait after each of its operations. A trial
measures healthy and slowed rounds in turns, and what is expected comes from its healthy ones, because
machines have modes that last for seconds. Wanted: the right kind first in 18 of 20, and a share of .7 to 1.3
of the loss explained; with nothing slowed no kind named in 19 of 20. "By plain medians" counts the kind whose
median rose most. The memory neighbour takes no core's time, and its loss is a fifth of the others': it has
four times as many rounds.

Usage: python benchmarks/traces/explain.py [--trials 20] [--rounds 12] [--only KIND]
Other load on the machine disturbs it.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout's packages

import numpy as np

from benchmarks.traces.networks import (
    RecordedNetwork,
    data_moves,
    neighbour_on_another_core,
    normalised_layers,
    one_core,
    recorded,
    recorded_step,
    table_lookups,
)
from pytest_anubis.benchmarking.replay.operation_calls import OperationCall
from pytest_anubis.core.loss_shares import StepShares
from pytest_anubis.traces.operation_kinds import Kind
from pytest_anubis.validator.surveying.step_shares import TimedPart, step_shares

Setting = Callable[[], AbstractContextManager[object]]

SLOWED: dict[Kind, Callable[[], RecordedNetwork]] = {
    Kind.MATRIX: partial(recorded, "llama-small"),
    Kind.CONVOLUTION: partial(recorded, "resnet50"),
    Kind.POINTWISE: partial(recorded, "experts-small"),
    Kind.NORMALISATION: lambda: recorded_step("normalised layers", normalised_layers()),
    Kind.EMBEDDING: lambda: recorded_step("lookups in a table", table_lookups()),
    Kind.COPY: lambda: recorded_step("moves of data", data_moves()),
}
OF_MEMORY = {
    *(kind.value for kind in (Kind.POINTWISE, Kind.COPY, Kind.NORMALISATION, Kind.EMBEDDING)),
    "all",
}
"""What a neighbour that streams memory may slow most."""
FACTOR = 1.5
BLOCKS = 4
"""Times that healthy and slowed rounds take turns in a trial."""
WHOLE = "time of the step"

Times = dict[str, list[float]]


@contextmanager
def slowed(kind: Kind) -> Iterator[None]:
    """Let every operation of a kind take `FACTOR` times as long."""
    own = OperationCall.run

    def run(call: OperationCall, tensors: Any) -> Any:
        if call.kind is not kind:
            return own(call, tensors)
        begin = time.perf_counter()
        result = own(call, tensors)
        end = begin + FACTOR * (time.perf_counter() - begin)
        while time.perf_counter() < end:
            pass
        return result

    setattr(OperationCall, "run", run)  # noqa: B010 - a method is replaced
    try:
        yield
    finally:
        setattr(OperationCall, "run", own)  # noqa: B010


def measured(network: RecordedNetwork, rounds: int) -> Times:
    """Return milliseconds of whole steps and, in turns with them, of the kinds of operations."""
    step = network.replay
    found: Times = {WHOLE: []}
    for _ in range(rounds):
        step.ready()
        begin = time.perf_counter()
        step.run()
        found[WHOLE].append(1e3 * (time.perf_counter() - begin))
        step.ready()
        for kind, seconds in step.seconds_by_kind(lambda: None).items():
            found.setdefault(kind.value, []).append(1e3 * seconds)
    return found


@dataclass
class Trial:
    """Times of the same seconds: of healthy rounds, and of those with a fault."""

    healthy: list[Times]
    hurt: Times

    @property
    def typical(self) -> dict[str, float]:
        """Healthy medians."""
        return {
            metric: statistics.median(values) for metric, values in joined(self.healthy).items()
        }

    def halves(self, metric: str) -> float:
        """Return log of the ratio of the two halves' medians; noise of the whole is half of its spread."""
        one, other = (statistics.median(joined(self.healthy[first::2])[metric]) for first in (0, 1))
        return math.log(one / other)


def joined(blocks: list[Times]) -> Times:
    """Return the values of all blocks by time."""
    return {metric: [v for one in blocks for v in one[metric]] for metric in blocks[0]}


def trials(
    network: RecordedNetwork, fault: Setting, options: argparse.Namespace
) -> Iterator[tuple[Trial, dict[str, float]]]:
    """Yield each trial, and the spread of healthy medians by time."""
    rounds = max(1, options.rounds // BLOCKS)
    measured(network, rounds)
    found = []
    for _ in range(options.trials):
        healthy, hurt = [], []
        for _ in range(BLOCKS):
            healthy.append(measured(network, rounds))
            with fault():
                network.replay.run()  # after a fork each page costs once more at its first change
                hurt.append(measured(network, rounds))
        found.append(Trial(healthy, joined(hurt)))
    spread = {
        metric: float(np.std([one.halves(metric) for one in found], ddof=1)) / 2
        for metric in found[0].hurt
    }
    for one in found:
        yield one, spread


def explained(one: Trial, spread: dict[str, float]) -> StepShares | None:
    """Return how the step's loss is shared out."""
    typical = one.typical
    whole, *parts = (
        TimedPart(name=metric, values=values, expected=typical[metric], spread=spread[metric])
        for metric, values in one.hurt.items()
    )
    return step_shares(whole, parts)


def plainly(one: Trial) -> str:
    """Return the kind whose median rose most."""
    typical = one.typical
    rises = {
        metric: statistics.median(values) - typical[metric]
        for metric, values in one.hurt.items()
        if metric != WHOLE
    }
    return max(rises, key=lambda metric: rises[metric])


def row(
    label: str,
    network: RecordedNetwork,
    fault: Setting,
    right: set[str],
    options: argparse.Namespace,
) -> bool:
    """Print how often the right kind was first, and return whether that is as wanted."""
    first = within = naive = 0
    shares = []
    lost = []
    for one, spread in trials(network, fault, options):
        lost.append(statistics.median(one.hurt[WHOLE]) / one.typical[WHOLE] - 1)
        naive += plainly(one) in right
        found = explained(one, spread)
        named = found.named if found is not None else ()
        if found is not None and named and (named[0].metric or "all") in right:
            first += 1
            shares.append(1 - found.rest)
            within += 0.7 <= shares[-1] <= 1.3
    middle = f"{statistics.median(shares):.2f}" if shares else "-"
    good = bool(within >= 0.9 * options.trials)
    print(
        f"{label} ({network.name}, {100 * statistics.median(lost):.0f} % slower): right first {first} of "
        f"{options.trials}, with .7 to 1.3 of the loss explained {within} (median {middle}); by plain "
        f"medians {naive}{'' if good else '  NOT AS WANTED'}",
        flush=True,
    )
    return good


def main() -> int:
    """Print the table; return 1 if a row is not as wanted."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--trials", type=int, default=20, help="trials of each fault (default: 20)")
    parser.add_argument("--rounds", type=int, default=12, help="rounds of a trial (default: 12)")
    choices = [*(kind.value for kind in SLOWED), "memory", "nothing"]
    parser.add_argument("--only", choices=choices, help="one row")
    options = parser.parse_args()
    if options.trials < 2:
        parser.error("two trials or more")
    good = True
    for kind, build in SLOWED.items():
        if options.only in (None, kind.value):
            fault = partial(slowed, kind)
            good = row(kind.value, build(), fault, {kind.value}, options) and good
    if options.only in (None, "memory"):
        with one_core():
            network = recorded_step("lookups in a table", table_lookups())
            often = argparse.Namespace(trials=options.trials, rounds=4 * options.rounds)
            neighbour = neighbour_on_another_core
            good = row("memory neighbour", network, neighbour, OF_MEMORY, often) and good
    if options.only in (None, "nothing"):
        named = 0
        for one, spread in trials(recorded("llama-small"), nullcontext, options):
            found = explained(one, spread)
            named += bool(found is not None and any(part.metric for part in found.named))
        fine = named <= 0.05 * options.trials
        print(
            f"nothing slowed: a kind named in {named} of {options.trials}{'' if fine else '  NOT AS WANTED'}"
        )
        good = good and fine
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
