"""Which kind of operation carries a slow step's loss: kinds slowed by half, a memory neighbour, and nothing.

Each kind is slowed in the network in which it takes the largest share of the step, by a wait after each of
its operations; healthy trials stand between the slowed ones. What is expected comes from healthy trials.
Wanted: the right kind first in 18 of 20, with a share of the loss of .7 to 1.3; with nothing slowed no kind
named in 19 of 20. "By plain medians" counts the kind whose median rose most.

Usage: python benchmarks/traces/explain.py [--trials 20] [--rounds 12]
Other load on the machine disturbs it.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout's packages

import numpy as np

from benchmarks.suites.faults.slowdowns import memory_neighbour
from benchmarks.traces.networks import NETWORKS, RecordedNetwork, recorded
from pytest_anubis.benchmarking.replay.operation_calls import OperationCall
from pytest_anubis.core.loss_shares import StepShares
from pytest_anubis.traces.operation_kinds import Kind
from pytest_anubis.validator.explaining.step_shares import TimedPart, step_shares

SLOWED = (
    Kind.MATRIX,
    Kind.CONVOLUTION,
    Kind.POINTWISE,
    Kind.NORMALISATION,
    Kind.EMBEDDING,
    Kind.COPY,
)
FACTOR = 1.5
HEALTHY = 8
"""Trials from which the expected times come."""
LEAST_SHARE = 0.02
"""Share of a step below which slowing a kind by half costs less than 1 %."""
WHOLE = "time of the step"

Times = dict[str, list[float]]


@dataclass
class Network:
    """A network with what its healthy steps take."""

    recorded: RecordedNetwork
    expected: dict[str, float] = field(default_factory=dict)
    spread: dict[str, float] = field(default_factory=dict)

    def share(self, kind: Kind) -> float:
        """Return the share of the step that operations of a kind take."""
        return self.expected.get(kind.value, 0.0) / self.expected[WHOLE]


@contextmanager
def slowed(kind: Kind) -> Iterator[None]:
    """Let every operation of a kind take `FACTOR` times as long."""
    own = OperationCall.run

    def run(call: OperationCall, tensor_of: Callable[..., Any]) -> Any:
        if call.kind is not kind:
            return own(call, tensor_of)
        begin = time.perf_counter()
        result = own(call, tensor_of)
        end = begin + FACTOR * (time.perf_counter() - begin)
        while time.perf_counter() < end:
            pass
        return result

    setattr(OperationCall, "run", run)  # noqa: B010 - a method is replaced
    try:
        yield
    finally:
        setattr(OperationCall, "run", own)  # noqa: B010


def trial(network: RecordedNetwork, rounds: int) -> Times:
    """Return milliseconds of whole steps and, in turns with them, of the kinds of operations."""
    step = network.replay
    found: Times = {WHOLE: []}
    for _ in range(rounds):
        step.restore()
        begin = time.perf_counter()
        step.run()
        found[WHOLE].append(1e3 * (time.perf_counter() - begin))
        step.restore()
        for kind, seconds in step.seconds_by_kind(lambda: None).items():
            found.setdefault(kind.value, []).append(1e3 * seconds)
    return found


def learned(name: str, rounds: int) -> Network:
    """Return a network with what healthy trials took."""
    network = Network(recorded(name))
    trials = [trial(network.recorded, rounds) for _ in range(HEALTHY)]
    for metric in trials[0]:
        medians = [statistics.median(one[metric]) for one in trials]
        network.expected[metric] = statistics.median(medians)
        network.spread[metric] = float(np.log(medians).std(ddof=1))
    return network


def explained(network: Network, times: Times) -> StepShares | None:
    """Return how the step's loss is shared out."""
    whole, *parts = (
        TimedPart(
            name=metric,
            values=values,
            expected=network.expected[metric],
            spread=network.spread[metric],
        )
        for metric, values in times.items()
    )
    return step_shares(whole, parts)


def plainly(network: Network, times: Times) -> str:
    """Return the kind whose median rose most."""
    rises = {
        metric: statistics.median(values) - network.expected[metric]
        for metric, values in times.items()
        if metric != WHOLE
    }
    return max(rises, key=lambda metric: rises[metric])


def row(
    label: str,
    network: Network,
    fault: Callable[[], AbstractContextManager[None]],
    right: set[str],
    options: argparse.Namespace,
) -> bool:
    """Print how often the right kind was first, and return whether that is as wanted."""
    first = within = naive = 0
    shares = []
    for _ in range(options.trials):
        trial(network.recorded, 2)  # healthy, between
        with fault():
            times = trial(network.recorded, options.rounds)
        naive += plainly(network, times) in right
        found = explained(network, times)
        named = found.named if found is not None else ()
        if named and (named[0].metric or "all") in right:
            first += 1
            shares.append(named[0].share)
            within += 0.7 <= named[0].share <= 1.3
    middle = f"{statistics.median(shares):.2f}" if shares else "-"
    good = bool(within >= 0.9 * options.trials)
    print(
        f"{label} ({network.recorded.name}): right first {first} of {options.trials}, with a share of .7 to "
        f"1.3 in {within} (median {middle}); by plain medians {naive}{'' if good else '  NOT AS WANTED'}",
        flush=True,
    )
    return good


def main() -> int:
    """Print the table; return 1 if a row is not as wanted."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--trials", type=int, default=20, help="trials of each fault (default: 20)")
    parser.add_argument("--rounds", type=int, default=12, help="rounds of a trial (default: 12)")
    options = parser.parse_args()
    networks = [learned(name, options.rounds) for name in NETWORKS]
    good = True
    for kind in SLOWED:
        network = max(networks, key=lambda one: one.share(kind))
        if network.share(kind) < LEAST_SHARE:
            print(
                f"{kind.value}: {100 * network.share(kind):.1f} % of any step, too little to be seen"
            )
            continue
        good = row(kind.value, network, partial(slowed, kind), {kind.value}, options) and good
    memory = {
        Kind.POINTWISE.value,
        Kind.COPY.value,
        Kind.NORMALISATION.value,
        Kind.EMBEDDING.value,
        "all",
    }
    row("memory neighbour", networks[0], memory_neighbour, memory, options)
    named = 0
    for number in range(options.trials):
        network = networks[number % len(networks)]
        found = explained(network, trial(network.recorded, options.rounds))
        named += bool(found is not None and any(one.metric for one in found.named))
    fine = named <= 0.05 * options.trials
    print(
        f"nothing slowed: a kind named in {named} of {options.trials}{'' if fine else '  NOT AS WANTED'}"
    )
    return 0 if good and fine else 1


if __name__ == "__main__":
    sys.exit(main())
