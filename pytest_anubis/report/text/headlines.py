"""One-line descriptions of baselines, runs and their decisions, for headers and tables."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from pytest_anubis.core.baseline import Baseline
from pytest_anubis.core.measurement import LaneCores, PlannedTest, QuietWait
from pytest_anubis.core.verdict import (
    UNCOVERED,
    Decision,
    MetricVerdict,
    NodeVerdict,
    Outcome,
    Reason,
    Reference,
)
from pytest_anubis.report.text.numbers import count_text

ANSWERS = (Outcome.PASS.value, Outcome.MARGINAL.value, Outcome.FAIL.value)
"""Outcomes that answer a benchmark's question."""
COMPARED_ONLY = "compared with its own past or the other devices only, which is no norm"
"""What is said of a metric without a criterion: passing there is no answer."""
OPEN_SHOWN = 3
"""Questions without an answer that the terminal names: a whole set of adapters may have none."""

LONGER = "--for 9m"
"""Three times what learning `smoke` takes by itself: limits shrink with the root of the time at best."""
USUAL = "smoke"
"""The profile that need not be typed."""
PLACES = 3
"""Most folders of tests in a command; more than these are not one benchmark set."""

_NO_BASELINE = "no baseline: "
_AGAIN = "measure again"
_ONE_MACHINE = "one machine"
_OF_NO_MATTER = (Reason.NO_CRITERION, Reason.REPEATED)
"""Reasons of verdicts that leave a question answered by the benchmark's other verdicts."""
_UNCOLLECTED = " cannot be collected: "
_APART = "not applicable"
"""How a benchmark's reason begins that its question is none of this machine's."""
_SAID = (" is neither accepted nor rejected", " rejected", " accepted")


def after_decision(verdict: NodeVerdict) -> str:
    """Return a headline, to stand behind the decision: it names the node and does not decide again."""
    name = f"node {verdict.node}" if verdict.node else "the node"
    for words in _SAID:
        if verdict.headline.startswith(name + words):
            return name + verdict.headline[len(name + words) :]
    return verdict.headline


def after_name(verdict: NodeVerdict) -> str:
    """Return a headline, to stand behind the decision and the node's name: it says neither again."""
    said = after_decision(verdict)
    return said.removeprefix(f"node {verdict.node}").removeprefix(":").strip()


def baseline_line(baseline: Baseline) -> str:
    """Say in one line what a baseline is and what it rests on."""
    if baseline.one_machine:
        basis = f"{len(baseline.runs)} runs of {', '.join(baseline.nodes) or 'one machine'} alone (nodes: 1)"
    else:
        runs = count_text(len(baseline.runs), "run")
        basis = f"{count_text(len(baseline.nodes), 'node')}, {runs}"
    rate = (
        f"error rate {baseline.error_rate:.3g} a node"
        if baseline.error_rate is not None
        else "practical thresholds only"
    )
    check = baseline.self_check
    if check is not None and not check.holds:
        rate += f" stated, {check.own_rejected:.2g} of its own rejected"
    lanes = baseline.attributes.get("lanes")
    way = f" with the accelerators {lanes}" if lanes else ""
    return (
        f"baseline {baseline.digest}, {count_text(len(baseline.criteria), 'criterion')}, {basis}, {rate}, "
        f"learned {baseline.created[:10]}{way}"
    )


def inventory_line(inventory: Mapping[str, Any], file: object = "") -> str:
    """Say in one line when an inventory was recorded, and of which node; empty where it has no date.

    Args:
        inventory: Plain data of any shape.
        file: The file that it came from in place of this machine's; empty or None if it was read here.
    """
    taken = inventory.get("taken")
    if not isinstance(taken, str) or not taken:
        return f"inventory recorded at an unknown time, out of {file}" if file else ""
    try:
        moment = datetime.fromisoformat(taken).astimezone(UTC)
    except (ValueError, OverflowError):
        return f"inventory recorded {taken[:40]!r}, which is no date"
    where = f", out of {file} and not read from this machine" if file else ""
    return f"inventory of {inventory.get('node') or 'this node'} recorded {moment:%Y-%m-%d %H:%M} UTC{where}"


def lane_texts(lanes: Sequence[LaneCores]) -> list[str]:
    """Say which lane of a run with accelerators works on which CPUs, one phrase each."""
    found = []
    for one in lanes:
        what = ", ".join(one.devices) or "what runs alone, and the host's tests"
        name = "" if one.devices == (one.lane,) else f"lane {one.lane}: "
        node = f"NUMA node {one.numa_node}" if one.numa_node is not None else "NUMA node unknown"
        far = " (not kept to its CPUs)" if one.numa_node is not None and not one.near else ""
        found.append(f"{name}{what}: CPUs {one.cpus}{f', {node}{far}' if one.devices else ''}")
    if not all(one.own for one in lanes):
        found.append(
            "the lanes have no CPUs of their own (fewer cores than lanes, a quota of CPU time, or "
            "binding is forbidden): what is timed on the host runs alone"
        )
    return found


def waiting_line(wait: QuietWait) -> str:
    """Say what a test waits for and how long at most, or that it goes on."""
    what = "; ".join(wait.what)
    if wait.seconds is None:
        return (
            f"anubis: {wait.test} waits for a quiet machine, at most {wait.most:.0f} s: {what} "
            "(its deadline does not run meanwhile)"
        )
    if wait.quiet:
        return f"anubis: {wait.test} goes on after {wait.seconds:.0f} s: the machine is quiet"
    return (
        f"anubis: {wait.test} goes on after {wait.seconds:.0f} s, the machine is not quiet: {what}; "
        "no other test waits until it has been quiet once"
    )


def way_on(run: str) -> str:
    """Say how to go on with a run that was cut short.

    Args:
        run: Its id.
    """
    return (
        f"to go on with this run, give the same command again with --anubis-resume={run}: what is done is "
        "not repeated"
    )


def inapplicable(reason: str) -> bool:
    """Tell whether this is why a benchmark does not apply to a machine: there is nothing to be mended."""
    return reason.removeprefix("Skipped: ").startswith(_APART)


def inapplicable_text(reasons: Sequence[str]) -> str:
    """Say how many questions do not apply and for which reason most of them; empty without any."""
    if not reasons:
        return ""
    why = Counter(one.partition(_APART)[2].strip(": ") for one in reasons)
    most, _ = why.most_common(1)[0]
    others = f"; and {count_text(len(why) - 1, 'other reason')}" if len(why) > 1 else ""
    verb = "does" if len(reasons) == 1 else "do"
    return f"; {len(reasons)} {verb} not apply here ({most}{others})"


def _of_exact_values_alone(verdicts: Sequence[MetricVerdict]) -> set[tuple[str, str]]:
    """Return benchmark and device of which exact values alone were judged, and rates had no criterion."""
    rates = [v for v in verdicts if v.metric and v.better != "equal"]
    without = {(v.benchmark, v.device) for v in rates if v.reason is Reason.NO_CRITERION}
    return without - {(v.benchmark, v.device) for v in rates if v.outcome.value in ANSWERS}


def questions_text(
    planned: Sequence[PlannedTest], verdicts: Sequence[MetricVerdict], most: int = OPEN_SHOWN
) -> str:
    """Return how many of a run's questions its verdicts answer, and which they do not; empty without any.

    Args:
        planned: The tests of the run, with the questions that their marks ask.
        verdicts: All verdicts as they count. A question is answered where every benchmark that asks it was
            judged on every device that it applies to, whatever came out; that it was as before, or as its
            neighbours are, says only that nothing changed, and that values are right says nothing of rates
            that have no criterion. One that applies to none is counted apart.
        most: How many without an answer are named.
    """
    answered = {
        (v.benchmark, v.device)
        for v in verdicts
        if v.outcome.value in ANSWERS and not v.compared_only
    }
    unanswered = [
        v for v in verdicts if v.outcome.value not in ANSWERS and v.reason not in _OF_NO_MATTER
    ]
    answered -= {(v.benchmark, v.device) for v in unanswered} | _of_exact_values_alone(verdicts)
    apart = {(v.benchmark, v.device): v.text for v in unanswered if inapplicable(v.text)}
    asked: dict[str, bool] = {}
    elsewhere: dict[str, str] = {}
    for plan in planned:
        if plan.question and plan.place in apart:
            elsewhere.setdefault(plan.question, apart[plan.place])
        elif plan.question:
            asked[plan.question] = asked.get(plan.question, True) and plan.place in answered
    none = inapplicable_text([why for text, why in elsewhere.items() if text not in asked])
    if not asked:
        return f"0 of 0 questions answered{none}" if none else ""
    open_ = [question for question, known in asked.items() if not known]
    more = f"; not: {'; '.join(open_[:most])}" if open_ else ""
    rest = f"; and {len(open_) - most} more (-v names all)" if len(open_) > most else ""
    return f"{len(asked) - len(open_)} of {len(asked)} questions answered{none}{more}{rest}"


def next_line(node: NodeVerdict, verdicts: Sequence[MetricVerdict], *, profile: str = USUAL) -> str:
    """Return what to type next about an undecided node.

    A blocker that measuring again can never take away decides, however many others there are: learning where
    there is no baseline or components have no criterion, measuring again where only a disturbance is left.
    Before all of these comes what broke: of tests that hang nothing is to be learned.

    Args:
        node: The decision.
        verdicts: All verdicts: they tell where the tests lie, and how many machines the baseline is of.
        profile: That of the run; empty where nobody knows.

    Returns:
        ``next: COMMAND``, perhaps with when to type it; empty of other nodes and where nothing is known.
    """
    tests = _tests(verdicts)
    if node.decision is not Decision.UNDECIDED or not tests:
        return ""
    if step := _after_mending(node, verdicts, profile):
        return step
    known = set(map(_kind, node.blocking))
    first = next((kind for kind in (_NO_BASELINE, UNCOVERED, _AGAIN) if kind in known), "")
    if not first:
        return ""
    other = profile not in ("", USUAL)
    if first == _AGAIN:
        more = f" --anubis-profile={profile}" if other else ""
        return f"next: pytest --anubis {tests}{more} (when the machine is quiet)"
    of_profile = f" --profile {profile}" if other else ""
    if first == _NO_BASELINE:
        return f"next: anubis learn {tests}{of_profile}"
    if not _of_one_machine(verdicts):
        return ""  # that of a fleet is learned from its runs, and nobody knows here where they lie
    longer = of_profile or f" {LONGER}"
    return f"next: anubis learn {tests}{longer} (when the machine is quieter than it was)"


def _after_mending(node: NodeVerdict, verdicts: Sequence[MetricVerdict], profile: str) -> str:
    """Return what to type once somebody has seen to what broke; empty where nothing did."""
    broken = next((verdict for verdict in verdicts if verdict.broken), None)
    files = [line.partition(_UNCOLLECTED) for line in node.blocking]
    lost = next((name for name, found, _ in files if found), "").partition("::")[0]
    if broken is None and not lost:
        return ""
    more = "" if profile in ("", USUAL) else f" --anubis-profile={profile}"
    if broken is None:
        return f"next: pytest --anubis {shlex.quote(lost)}{more} (once it can be collected)"
    first = "where it ended" if broken.reason is Reason.NOT_REPORTED else "what stood in its way"
    test = shlex.quote(broken.benchmark.partition("[")[0])
    return f"next: pytest --anubis {test}{more} (alone, after a look at {first})"


def _kind(line: str) -> str:
    """Return what helps against a blocker, by the words that it has; empty where none is known."""
    if line.startswith(_NO_BASELINE):
        return _NO_BASELINE
    if UNCOVERED in line:
        return UNCOVERED
    return _AGAIN if line.startswith(Outcome.INCONCLUSIVE.value) and _AGAIN in line else ""


def _of_one_machine(verdicts: Sequence[MetricVerdict]) -> bool:
    """Tell whether nothing was held against a fleet."""
    held = [v.population for v in verdicts if v.reference is Reference.FLEET and v.population]
    return all(_ONE_MACHINE in population for population in held)


def _tests(verdicts: Sequence[MetricVerdict]) -> str:
    """Return the folders of the tests as they are typed; empty where they are no tests, or of many."""
    files = (v.benchmark.partition("::")[0] for v in verdicts if "::" in v.benchmark)
    places = {f"{name.partition('/')[0]}/" if "/" in name else name for name in files}
    return shlex.join(sorted(places)) if len(places) <= PLACES else ""
