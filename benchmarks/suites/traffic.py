"""The patterns of `suites/traffic` between processes on this machine: what they reach, beside their models.

- experts: what the way that the benchmark chooses costs, over the one that is best in hindsight (wanted: at
  most 10 % more), and the exchange at half of a link's rate (wanted: 1.8 to 2.2 times as long);
- layered: steps of VGG-16 and ResNet-50 behind a link, by priority and first in, first out, beside their
  bounds (wanted: between the longer of products and exchange, with 5 % of tolerance as each is a median of
  its own, and 1.05 times both);
- tiers: an all-reduce of four ranks by the schedule and in fixed order, beside the model's ratio;
- jobs: two trainings in turns behind a link, beside max(2C, C + M, 2M) (wanted: within 20 %);
- cut: steps of a network in two stages behind a link of three hidden rates, beside their plans (wanted:
  within 20 %), and where each plan cuts (wanted: later for a slower link);
- waiting: in how many of 20 trainings of four ranks one that may run a quarter of the time is named (wanted:
  19), and in how many of equal ones any (wanted: none);
- tables: lookups and updates of twice the pooling (wanted: 1.6 to 2.4 times as long), and how far placements
  of eight tables are from the best of all (wanted: at most 5 %);
- stack: bytes over a loopback interface of three hidden rates, by TCP over that rate (wanted: .85 to 1.0) and
  without TCP over their own rates before (wanted: .9 or more).

Usage: python benchmarks/suites/traffic.py [--rounds 8] [--only PATTERN ...]
All but the choice of a way, waiting and tables need root and iproute2. Other load on the machine disturbs it.
What cannot be measured counts as missed.
"""

from __future__ import annotations

import argparse
import itertools
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout's packages

import torch

from benchmarks.suites.faults.slowdowns import stopped
from pytest_anubis.benchmarking.shaped_link import (
    INTERFACE,
    NotPossible,
    ShapedLink,
    run,
    shaper,
    trusted,
)
from pytest_anubis.benchmarking.tier_schedule import Stage, duration, fixed_order, timeline
from pytest_anubis.benchmarking.turns import values_in_turns
from suites.network.loopback import Loopback
from suites.pipeline.group import PipelineGroup
from suites.recommendation.placement import BY_ROWS, placed
from suites.recommendation.tables import Batch, Plan, Tables, gradients_of
from suites.recommendation.test_tables import shape_for
from suites.shared_ranks import times_within
from suites.traffic.group import TrafficGroup, Way
from suites.traffic.test_experts import ON_A_HOST, choose, right_layer
from suites.traffic.test_layered import right_sums
from suites.traffic.test_two_jobs import same_as_alone
from suites.workload.data_parallel import TrainingGroup
from suites.workload.waiting import waited_for, waiting_share

RATE = 30e6
"""Bytes a second of links that are slow compared with what these processes compute and copy."""

SLOW = 20e6
"""Bytes a second of the jobs' link: waking a thread on shared CPUs is then little of an exchange."""

MIB = 1 << 20
LOOPED = 80 << 10
"""Bytes of a shaper's bucket on a loopback interface: more than its longest packet."""

STEPS = 8
"""Of both jobs in a row: the first product and the last exchange have no partner, half a step in all."""

BUCKET = 80 << 10
"""Bytes of a shaper's bucket on the loopback interface: more than its longest packet."""

REGRET = 0.10
WITHIN = 0.20
TRIALS = 20
DOUBLED = (1.8, 2.2)
TOGETHER = 1.05
POOLED = (1.6, 2.4)


@contextmanager
def ranks(world: int, link: ShapedLink | None = None) -> Iterator[TrafficGroup]:
    """Start connected ranks, one half of them at each end of a link."""
    given: dict[str, Any] = {}
    if link is not None:
        given["environment"] = {"GLOO_SOCKET_IFNAME": INTERFACE}
    ends = [link.command(2 * number // world) for number in range(world)] if link else []
    with TrafficGroup(0, world, on_cpu=world, within=ends, **given) as group:
        group.join()
        yield group


def experts(rounds: int) -> bool:
    """Print what the chosen way costs over the best, and the exchange at half of a link's rate."""
    good = True
    for world in (2, 4):
        with ranks(world) as group:
            group.prepare_experts(**ON_A_HOST)
            chosen = choose(group, lambda *_: None)
            times = times_within(0.1, group.layer_seconds(chosen))
            asked = {way: partial(group.layer_seconds, way, times) for way in group.ways()}
            taken = values_in_turns(asked, rounds=rounds)
            middle = {way: statistics.median(some) for way, some in taken.items()}
            regret = middle[chosen] / min(middle.values()) - 1
            for way, seconds in middle.items():
                mark = " (chosen)" if way == chosen else ""
                print(f"experts, {world} ranks, {way}: {1e3 * seconds:.3g} ms{mark}")
            print(
                f"experts, {world} ranks: chosen {100 * regret:.1f} % beyond the best in hindsight"
            )
            good &= regret <= REGRET
            layer = group.layer(chosen, times)
            print(f"experts, {world} ranks: stretch {layer.stretch:.2f}")
            right_layer(group, chosen)
    with ShapedLink(RATE) as link, ranks(2, link) as group:
        group.prepare_experts(width=128, inner=8, tokens=8192, dtype="float32")
        taken_at = []
        for rate in (RATE, RATE / 2):
            link.shape(rate)
            taken_at.append(
                statistics.median(group.layer(Way(1, 1)).exchange for _ in range(rounds))
            )
        ratio = taken_at[1] / taken_at[0]
        print(f"experts: the exchange takes {ratio:.2f} times as long at half of a link's rate")
    return good and DOUBLED[0] <= ratio <= DOUBLED[1]


def layered(rounds: int) -> bool:
    """Print steps of both networks behind a link, by both orders."""
    good = True
    with ShapedLink(RATE) as link, ranks(2, link) as group:
        for network in ("vgg16", "resnet50"):
            products = 40
            for _ in range(
                2
            ):  # the second time with products that take a good half of the exchange
                orders = group.prepare_layers(
                    network, size=6 << 20, products=products, order=320, dtype="float32", warm=3
                )
                products = max(8, round(0.6 * products * orders.exchange / orders.products))
            taken = []
            for _ in range(rounds):
                steps = [
                    group.layered_step(one) for one in (orders.first_come, orders.first_needed)
                ]
                taken.append((*group.layered_parts(), *steps))
            *parts, come, needed = (statistics.median(some) for some in zip(*taken, strict=True))
            least, most = max(parts) / TOGETHER, TOGETHER * sum(parts)
            print(
                f"layered, {network}: products {1e3 * parts[0]:.0f} ms, exchange {1e3 * parts[1]:.0f} ms; "
                f"step by priority {1e3 * needed:.0f} ms of {1e3 * least:.0f} to {1e3 * most:.0f} wanted, "
                f"first in, first out {1e3 * come:.0f} ms "
                f"({come / needed:.2f})"
            )
            right_sums(group, orders)
            good &= least <= needed <= most
            good &= network == "resnet50" or needed < come
    return good


def tiers(rounds: int) -> bool:
    """Print an all-reduce of two hosts with two ranks each, by the schedule and in fixed order."""
    good = True
    tc = trusted("tc")
    for within in (1, 4):
        with ShapedLink(RATE) as link:
            for space in range(2):
                inside = shaper(within * RATE, BUCKET).split()
                run(link.command(space, [tc, "qdisc", "replace", "dev", "lo", "root", *inside]))
            with ranks(4, link) as group:
                seen, stages = group.prepare_tiers(4 << 20, 16, rounds)
                size, chunks = 4 << 20, 16
                fixed = timeline(seen, size, fixed_order(seen, chunks))
                asked = {
                    "fixed": partial(reduced, group, fixed),
                    "schedule": partial(reduced, group, stages),
                }
                taken = {
                    name: statistics.median(some)
                    for name, some in values_in_turns(asked, rounds=rounds).items()
                }
                one = group.tiers(stages)
                predicted = duration(fixed) / duration(stages)
                ratio = taken["fixed"] / taken["schedule"]
                print(
                    f"tiers, within {within} times across: fixed order {1e3 * taken['fixed']:.0f} ms, "
                    f"schedule {1e3 * taken['schedule']:.0f} ms, ratio {ratio:.2f}, by the model "
                    f"{predicted:.2f}; stretch {one.stretch:.2f}"
                )
                good &= abs(ratio / predicted - 1) <= WITHIN and not group.wrong_in_tiers(stages)
    return good


def reduced(group: TrafficGroup, stages: Sequence[Stage]) -> float:
    """Return the seconds of an all-reduce by its stages."""
    return group.tiers(stages).together


def jobs(rounds: int) -> bool:
    """Print two jobs in turns behind a link, with exchanges of a quarter, a half and all of the products."""
    good = True
    for wanted in (0.25, 0.5, 1.0):
        with ShapedLink(SLOW) as link, ranks(2, link) as group:
            group.prepare_jobs(size=1024, batches=1, dtype="float32")
            computing, exchange = middle_parts(group, rounds)
            batches = max(1, round(exchange / wanted / computing))
            group.prepare_jobs(size=1024, batches=batches, dtype="float32")
            off, gains, ratios = [], [], []
            for _ in range(rounds):
                before = group.parts_of_jobs(2)
                together = group.jobs_in_turns(STEPS)
                after = group.parts_of_jobs(2)
                computing, exchange = (
                    statistics.mean(two) for two in zip(before, after, strict=True)
                )
                best = max(2 * computing, computing + exchange, 2 * exchange)
                ratios.append(exchange / computing)
                off.append(together / best - 1)
                gains.append(2 * (computing + exchange) / together)
            print(
                f"jobs, M/C {statistics.median(ratios):.2f}: {100 * statistics.median(off):+.0f} % of "
                f"max(2C, C+M, 2M), gain {statistics.median(gains):.2f}"
            )
            good &= abs(statistics.median(off)) <= WITHIN
            same_as_alone(group)
    return good


def cut(rounds: int) -> bool:
    """Print planned and measured steps of a small Llama behind links of hidden rates, and the cuts."""
    good, cuts = True, []
    with ShapedLink(None) as link:
        ends = [link.command(end) for end in range(2)]
        variables = {"GLOO_SOCKET_IFNAME": INTERFACE}
        with PipelineGroup(0, 2, within=ends, environment=variables) as group:
            plan = group.plan("llama-small", "float32")
            block = plan.layers[1].work / plan.rates["block"]
            hidden = plan.layers[1].takes / (random.uniform(1.0, 1.4) * block)
            for rate in (hidden, hidden / 2, hidden / 4):
                link.shape(rate)
                plan = group.plan("llama-small", "float32")
                _, wrong = group.uncut()
                steps = [group.step(number // 4) for number in range(max(2, rounds) * 4)]
                seconds = statistics.median(step.seconds for step in steps)
                bubble = statistics.median(step.bubble for step in steps)
                cuts.append(plan.stages[1].start)
                print(
                    f"cut, link of {rate / 1e6:.1f} MB/s, seen {plan.link / 1e6:.1f}: {plan.words(1)}, "
                    f"planned {1e3 * plan.step:.0f} ms, measured {1e3 * seconds:.0f} ms "
                    f"({seconds / plan.step:.2f}), bubble {bubble:.2f}"
                )
                good &= abs(seconds / plan.step - 1) <= WITHIN and not wrong
                good &= not any(step.wrong for step in steps)
    return good and cuts == sorted(cuts) and cuts[0] < cuts[-1]


def waiting(rounds: int) -> bool:
    """Print how often a rank with a quarter of a core is named, and one of four equal ones with a half."""
    named, accused = 0, 0
    shares: dict[bool, list[float]] = {True: [], False: []}
    with TrainingGroup(0, 1, on_cpu=4) as group:
        group.join()
        group.prepare("llama-small", "float32", 1)
        group.step(4)
        for trial in range(TRIALS):
            rank = trial % group.world
            for slow in (True, False):
                with stopped(group.processes[rank].pid, 0.25) if slow else nullcontext():
                    taken = [group.step().each for _ in range(max(24, rounds))]
                found = [one.rank for one in waited_for(taken)]
                named += slow and found == [rank]
                accused += not slow and bool(found)
                shares[slow].append(statistics.median(map(waiting_share, taken)))
    print(
        f"waiting: the slow one of four ranks named in {named} of {TRIALS}, of equal ones in {accused}"
    )
    for slow, some in shares.items():
        ends = f"{min(some):.3f} to {max(some):.3f}"
        print(
            f"waiting: share {statistics.median(some):.3f} ({ends}){' with a slow one' if slow else ''}"
        )
    return named >= 0.95 * TRIALS and not accused


def middle_parts(group: TrafficGroup, rounds: int) -> list[float]:
    """Return the median seconds of a job's computing and of its exchange."""
    taken = [group.parts_of_jobs(2) for _ in range(rounds)]
    return [statistics.median(some) for some in zip(*taken, strict=True)]


def tables(rounds: int) -> bool:
    """Print the time of lookups and updates at twice the pooling, and placements beside the best of all."""
    device = torch.device("cpu")
    shapes = [replace(shape_for("cpu", 1 << 30, 1 << 30), pooling=(many,) * 8) for many in (16, 32)]
    held = Tables(shapes[0], device)
    work: dict[str, Callable[[], float]] = {}
    for shape, name in zip(shapes, ("", " twice"), strict=True):
        batch = Batch.drawn(shape, 1, "uniform", device)
        plan, gradients = Plan(batch), gradients_of(shape, 1, device)
        work[f"lookup{name}"] = partial(seconds_of, partial(held.lookup, batch.rows, batch.starts))
        work[f"update{name}"] = partial(seconds_of, partial(held.update, plan, gradients))
    taken = values_in_turns(work, rounds=4 * rounds)
    good = True
    for name in ("lookup", "update"):
        ratio = statistics.median(taken[f"{name} twice"]) / statistics.median(taken[name])
        print(f"tables: {name}s of twice the pooling take {ratio:.2f} times as long")
        good &= POOLED[0] <= ratio <= POOLED[1]
    chance, worst = random.Random(4), 1.0
    for trial in range(100):
        world, costs = 2 + trial % 3, [chance.paretovariate(1.2) for _ in range(8)]
        found = placed(costs, world)
        whole = [cost for cost, rank in zip(costs, found, strict=True) if rank != BY_ROWS]
        every = itertools.product(range(world), repeat=len(whole))
        best = min(busiest(whole, one, world) for one in every)
        worst = max(worst, busiest(costs, found, world) / best)
    print(
        f"tables: the worst of 100 placements has {worst:.3f} times the least work of a busiest rank"
    )
    return good and worst <= 1.05


def stack(rounds: int) -> bool:
    """Print the rates of TCP, a Unix socket and memory inside a namespace whose loopback is limited."""
    good = True
    for rate in (15e6, 25e6, 40e6):
        with ShapedLink(rate) as link:
            ways = ("tcp", "socket", "ring")
            free = {way: looped(link, way, 64 * MIB, rounds) for way in ways}
            limits = shaper(rate, LOOPED).split()
            add = [trusted("tc"), "qdisc", "replace", "dev", "lo", "root", *limits]
            run(link.command(0, add))
            tcp = looped(link, "tcp", 8 * MIB, 2) / rate
            kept = {way: looped(link, way, 64 * MIB, rounds) / free[way] for way in ways[1:]}
        print(f"stack: at {rate / 1e6:.0f} MB/s TCP reaches {tcp:.2f} of it", end="; ")
        print(", ".join(f"{way} {share:.2f} of its own" for way, share in kept.items()), flush=True)
        good &= 0.85 < tcp < 1.01 and min(kept.values()) >= 0.9
    return good


def looped(link: ShapedLink, way: str, size: int, rounds: int) -> float:
    """Return the best rate of some transfers inside one end of a link, bytes per second."""
    with Loopback(way, within=link.command(0)) as loop:
        loop.rate(MIB)
        return max(loop.rate(size) for _ in range(rounds))


def busiest(work: Sequence[float], chosen: Sequence[int], ranks: int) -> float:
    """Return the work of the rank that has the most of it, without tables by rows."""
    loads = [0.0] * ranks
    for one, rank in zip(work, chosen, strict=True):
        if rank != BY_ROWS:
            loads[rank] += one
    return max(loads)


def seconds_of(work: Callable[[], object]) -> float:
    """Return the seconds of a call."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


PATTERNS = {
    "tables": tables,
    "experts": experts,
    "layered": layered,
    "tiers": tiers,
    "jobs": jobs,
    "cut": cut,
    "waiting": waiting,
    "stack": stack,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures; return 1 if one is not as wanted."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=8, help="values of each (default: 8)")
    parser.add_argument("--only", nargs="+", choices=PATTERNS, default=list(PATTERNS))
    options = parser.parse_args(arguments)
    missed = []
    for name in options.only:
        try:
            good = PATTERNS[name](options.rounds)
        except NotPossible as why:  # a figure that was not measured is none that is as wanted
            print(f"{name}: {why}")
            good = False
        print(f"{name}: {'as wanted' if good else 'MISSED'}", flush=True)
        missed += [] if good else [name]
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
