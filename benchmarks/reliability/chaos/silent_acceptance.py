"""Runs of a bad node, whose fault something else may hide: none may be accepted in silence.

A scenario is drawn from a seed: the kind of node, a fault, the test that has it (first, middle, last), and up
to two evasions. Before the drawn pairs every fault is tried alone, and every evasion with a slow benchmark.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.reliability.chaos.evasions import Evasion, evasions
from benchmarks.reliability.chaos.node_faults import (
    Fault,
    device_faults,
    metric_faults,
    plain_faults,
)
from benchmarks.reliability.chaos.toy_node import (
    Area,
    Campaign,
    Ran,
    command,
    copy_of,
    journals,
    kind_options,
    run,
    suite,
)

EVASIONS = evasions()
METRIC, PLAIN, DEVICE = metric_faults(), plain_faults(), device_faults()
_BY_DRIVER = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True)
class Scenario:
    """One bad run, and what distinguishes it.

    Attributes:
        kind: Kind of node.
        target: ``metric``, ``plain`` or ``device``: what finds the fault.
        test: The test that has it, without ``test_``.
        fault: Name of the fault; empty for a healthy node.
        evasions: Names of what may hide it.
    """

    kind: str
    target: str
    test: str
    fault: str
    evasions: tuple[str, ...]

    def __str__(self) -> str:
        hidden = " + ".join(self.evasions) or "nothing"
        return f"[{self.kind}, test_{self.test}] {self.fault or 'healthy'} | {hidden}"

    @property
    def parts(self) -> tuple[Evasion, ...]:
        """The evasions themselves."""
        return tuple(EVASIONS[name] for name in self.evasions)

    @property
    def its_fault(self) -> Fault:
        """The fault itself."""
        found = {"metric": METRIC, "plain": PLAIN, "device": DEVICE}[self.target]
        return found[self.fault] if self.fault else Fault("")


def scenarios(count: int, seed: int) -> Iterator[Scenario]:
    """Draw scenarios, the single ones first, in an order that a seed gives."""
    draw = random.Random(seed)
    single = [Scenario("host", "metric", draw.choice("ace"), name, ()) for name in METRIC]
    single += [Scenario("host", "plain", "p", name, ()) for name in PLAIN]
    for name, one in EVASIONS.items():
        slow = ("metric", draw.choice("ace"), "20 % slower")
        failing = ("plain", "p", "assertion")
        for target, test, fault in (slow, failing) if one.conftest or one.options else (slow,):
            kind = "eight" if name.startswith(_BY_DRIVER) else "host"
            if kind == "eight":
                target, test, fault = "device", "g", "cuda:3 20 % slower"
            single.append(Scenario(kind, target, test, fault, (name,)))
    single += [Scenario("eight", "device", draw.choice("gh"), name, ()) for name in DEVICE]
    draw.shuffle(single)
    # Half of the campaign are random pairs.
    yield from single[: max(count // 2, count - count // 2)]
    for _ in range(count - min(len(single), max(count // 2, count - count // 2))):
        yield _pair(draw)


def _pair(draw: random.Random) -> Scenario:
    target = draw.choices(("metric", "plain", "device"), (6, 3, 1))[0]
    kind = "eight" if target == "device" else "host"
    test = draw.choice({"metric": "ace", "plain": "p", "device": "gh"}[target])
    fault = draw.choice(list({"metric": METRIC, "plain": PLAIN, "device": DEVICE}[target]))
    groups: dict[str, list[str]] = {}
    for name, one in EVASIONS.items():
        what = "conftest" if one.conftest else "marks" if one.marks else "rest"
        groups.setdefault(what, []).append(name)
    chosen = [draw.choice(groups[draw.choice(list(groups))]) for _ in range(draw.choice((1, 2)))]
    return Scenario(kind, target, test, fault, tuple(dict.fromkeys(chosen)))


def play(scenario: Scenario, campaign: Campaign, folder: Path) -> Ran:
    """Play one scenario in a new folder."""
    fault, faulty = scenario.its_fault, f"test_{scenario.test}"
    marks = fault.marks + "\n".join(one.marks for one in scenario.parts if one.marks)
    body = {scenario.test: fault.body} if fault.body else {}
    text = suite(scenario.kind, body, {scenario.test: marks}, fault.top)
    conftest = "\n".join(one.conftest for one in scenario.parts).replace("FAULTY", faulty)
    copy_of(campaign.template(scenario.kind), folder, text, conftest)
    options = [*kind_options(scenario.kind), *fault.options]
    options += [word.replace("FAULTY", faulty) for one in scenario.parts for word in one.options]
    environ = {name: value for one in scenario.parts for name, value in one.environ.items()}
    return run(folder, options, environ)


def _wrong(scenario: Scenario, ran: Ran, folder: Path) -> str:
    """Say what claims that the bad node is good; empty if nothing does."""
    claims = []
    measured = any(one.only_measures for one in scenario.parts)
    if ran.status is None:
        return "no end"
    if ran.status == 0 and not (measured and scenario.target == "metric"):
        claims.append("exit status 0")
    if ran.accepted:
        claims.append("journal ACCEPTED")
    for path in journals(folder):
        code, said = command("report", str(path))
        if any(line.startswith("ACCEPTED") for line in said.splitlines()):
            claims.append("report ACCEPTED")
        baseline = next(iter(path.parents[3].glob("baselines")), folder / "baselines")
        code, said = command("judge", str(path), f"--baseline={baseline}")
        if code == 0:
            claims.append("judge accepts")
    if claims and not _excused(scenario, ran):
        return ", ".join(dict.fromkeys(claims))
    return ""


def _excused(scenario: Scenario, ran: Ran) -> bool:
    """Return whether the user has decided it himself, and the verdict says so where it must."""
    left_out = any(one.leaves_out for one in scenario.parts)
    if scenario.target == "plain":
        return left_out
    headlines = [one.node_verdict.headline for one in ran.records if one.node_verdict]
    return bool(headlines) and all(f"test_{scenario.test}" in line for line in headlines)


def silent_acceptance(campaign: Campaign) -> Area:
    """Play bad nodes, then the same evasions on healthy ones, of which a share is said."""
    count = campaign.size(800, 12)
    chosen = list(scenarios(count, campaign.seed))
    tried, defects = campaign.each("silent", count, partial(_attempt, campaign, chosen))
    healthy = sorted({s.evasions for s in chosen if s.kind == "host"})[: campaign.size(150, 4)]
    good: list[bool] = []

    def control(number: int, folder: Path) -> str:
        ran = play(Scenario("host", "metric", "a", "", healthy[number]), campaign, folder)
        good.append(ran.status == 0 and ran.accepted)
        return ""

    if not campaign.numbers:
        campaign.each("control", len(healthy), control)
    note = f"of {len(good)} healthy runs with the same evasions {sum(good)} were accepted"
    return Area("a bad node accepted in silence", tried, defects, (note,))


def _attempt(campaign: Campaign, chosen: list[Scenario], number: int, folder: Path) -> str:
    scenario = chosen[number]
    wrong = _wrong(scenario, play(scenario, campaign, folder), folder)
    return f"{scenario}: {wrong}" if wrong else ""
