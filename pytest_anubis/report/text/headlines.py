"""One-line descriptions of baselines, runs and their decisions, for headers and tables."""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from pytest_anubis.core.asking.open_questions import (
    APART,
    AskedQuestion,
    AskedQuestions,
    Standing,
    inapplicable,
    most_frequent_why,
    why_inapplicable,
)
from pytest_anubis.core.asking.typed_tests import SHIPPED, learning, with_options
from pytest_anubis.core.baseline import Baseline
from pytest_anubis.core.blocker import Hindrance
from pytest_anubis.core.measurement import LOOKS_SPENT, NOT_INSTALLED, LaneCores
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.verdict import (
    SKIPPED,
    Decision,
    MetricVerdict,
    NodeVerdict,
    Reason,
)
from pytest_anubis.core.waivers.widened_limits import noise_options
from pytest_anubis.report.text.numbers import count_text, percent
from pytest_anubis.report.text.text_table import clip, plain_line

COMPARED_ONLY = "compared with its own past or the other devices only, which is no norm"
"""What is said of a metric without a criterion: passing there is no answer."""
OPEN_SHOWN = 2
"""Questions of each class that are named: a whole set of adapters may have no answer."""
WHY_SHOWN = 120
"""Characters of the reason of a class: it names the kind, and the lists above tell all."""

LONGER = "--for 9m"
"""Three times what learning `smoke` takes by itself: limits shrink with the root of the time at best."""
USUAL = "smoke"
"""The profile that need not be typed."""
PLACES = 3
"""Most folders of tests in a command; more than these are not one benchmark set."""

_AGAIN = (Reason.DISTURBED, Reason.BROKEN_OFF)
"""Reasons of open verdicts that measuring again resolves."""
_STEP = "; next step: "
_ONE_MACHINE = "one machine"
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
    runs = count_text(len(baseline.runs), "run")
    if baseline.one_machine:
        basis = f"{runs} of {', '.join(baseline.nodes) or 'one machine'} alone (nodes: 1)"
    else:
        basis = f"{count_text(len(baseline.nodes), 'node')}, {runs}"
    rate = "practical thresholds only"
    if baseline.error_rate is not None:
        rate = f"error rate {baseline.error_rate:.3g} a node"
    check = baseline.self_check
    if check is not None and not check.holds:
        rate += f" stated, {percent(check.own_rejected)} of its own nodes rejected"
    if baseline.undecided:
        rate += f", slower groups undecided in {count_text(len(baseline.undecided), 'metric')}"
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


def way_on(run: str) -> str:
    """Say how to go on with a run of this id that was cut short."""
    return (
        f"to go on with this run, give the same command again with --anubis-resume={run}: what is done is "
        "not repeated"
    )


def questions_lines(questions: AskedQuestions, most: int = OPEN_SHOWN) -> list[str]:
    """Say how many questions were asked and answered, and what keeps the others open; empty without any.

    The first line's numbers and those at the beginning of the lines below it add up: asked are the answered
    and the open ones. What does not apply here, or is no part of the run, was not asked.
    """
    if not questions.every:
        return []
    open_ = questions.unanswered
    lines = [
        f"{questions.answered} of {questions.asked} questions answered{_beside(questions)}"
        + (f"; {questions.asked - questions.answered} not:" if open_ else "")
    ]
    for kind, some in open_.items():
        named = "; ".join(one.question for one in some[:most])
        rest = f"; and {len(some) - most} more" if len(some) > most else ""
        lines.append(f"{len(some)} {kind.value}{_why(some)}: {named}{rest}")
    return lines


def questions_text(questions: AskedQuestions) -> str:
    """Return the same in one line, as `questions_lines` has it; empty without any."""
    head, *classes = questions_lines(questions) or [""]
    return " ".join([head, "; ".join(classes)]).strip()


def _beside(questions: AskedQuestions) -> str:
    """Say how many questions were not asked, since they do not apply or are no part; empty without any."""
    apart, no_part = (len(questions.of(kind)) for kind in (Standing.APART, Standing.NO_PART))
    text = ""
    if apart:
        why, others = most_frequent_why(questions.of(Standing.APART))
        more = f"; and {count_text(others, 'other reason')}" if others else ""
        text += f"; {apart} {'does' if apart == 1 else 'do'} not apply here ({why_inapplicable(why)}{more})"
    if no_part:
        text += f"; {no_part} {'is' if no_part == 1 else 'are'} no part of this run"
    return text


def _why(some: Sequence[AskedQuestion]) -> str:
    why, others = most_frequent_why(some)
    more = f"; and {count_text(others, 'other reason')}" if others else ""
    # The lists above say the next step; without a baseline the class's own name says why.
    why = plain_line(why).partition(_STEP)[0]
    if some and some[0].standing is Standing.NO_BASELINE:
        return f" ({more.removeprefix('; and ')})" if more else ""
    return f" ({clip(why, WHY_SHOWN)}{more})" if why else ""


def next_of(run: RunRecord) -> str:
    """Return what to type next about a run, as `next_line`; empty where nothing was decided."""
    if run.node_verdict is None:
        return ""
    required = run.settings.get("require")
    line = next_line(
        run.node_verdict,
        run.effective_verdicts,
        profile=str(run.settings.get("profile", "")),
        typed=run.tests,
        root=run.root,
        required=[str(one) for one in required] if isinstance(required, list | tuple) else (),
    )
    return with_options(line, noise_options(run.parts))


def next_line(
    node: NodeVerdict,
    verdicts: Sequence[MetricVerdict],
    *,
    profile: str = USUAL,
    typed: str = "",
    root: str = "",
    required: Sequence[str] = (),
) -> str:
    """Return what to type next about an undecided node.

    A blocker that measuring again can never take away decides, however many others there are: learning where
    there is no baseline or nothing covers a component, measuring again where only a disturbance is left.
    Before all of these comes what broke: of tests that hang nothing is to be learned. Then comes a loss that
    waits for its confirmation: learning would take it for what is normal. Where no test ran for want of its
    tool, that comes first: there is nothing to learn from either. Benchmarks of the baseline that did not run
    are added to the tests, as one run has to have all that is required.

    Args:
        node: The decision.
        verdicts: All verdicts: they tell where the tests lie, and how many machines the baseline is of.
        profile: That of the run; empty if unknown.
        typed: The tests as they were typed, quoted; empty: the folders of those that have verdicts.
        root: The folder in which the tests' ids begin, from where they were typed; empty: the same.
        required: What had to be measured; empty: everything.

    Returns:
        ``next: COMMAND``, perhaps with when to type it; empty of other nodes and where nothing is known.
    """
    tests = _with_absent(typed or _places(verdicts, root), node, root)
    if node.decision is not Decision.UNDECIDED or not tests:
        return ""
    if step := _after_mending(node, verdicts, profile, root) or _open_loss(
        verdicts, profile, tests
    ):
        return step
    kinds = {one.kind for one in node.blocking}
    unlearned, uncovered = Hindrance.NO_BASELINE in kinds, Hindrance.UNCOVERED in kinds
    again = any(one.reason in _AGAIN for one in node.blocking)
    if not (unlearned or uncovered or again) or (
        unlearned and _nothing_ran(verdicts) and not _tools_first(verdicts)
    ):
        return _after_installing(verdicts, tests, profile) or _all_in_one(
            node, tests, profile, required
        )
    if not (unlearned or uncovered):
        return f"next: pytest --anubis {tests}{_profiled(profile)} (when the machine is quiet)"
    of_profile = _profiled(profile, " --profile ")
    if unlearned:
        return f"next: {_tools_first(verdicts)}{learning(tests)}{of_profile}"
    if not _of_one_machine(verdicts):
        return ""  # that of a fleet is learned from its runs, and nobody knows here where they lie
    return f"next: {learning(tests)}{of_profile or f' {LONGER}'} (when the machine is quieter than it was)"


def _profiled(profile: str, option: str = " --anubis-profile=") -> str:
    return "" if profile in ("", USUAL) else f"{option}{profile}"


def _all_in_one(node: NodeVerdict, tests: str, profile: str, required: Sequence[str]) -> str:
    """Return what runs all that the baseline asks for in one run; empty where nothing of it was absent."""
    others = [one for one in node.blocking if one.benchmark not in node.absent]
    if len(others) == len(node.blocking):
        return ""
    more = "".join(f" {shlex.quote(f'--anubis-require={name}')}" for name in required)
    mended = any(one.kind is not Hindrance.ABSENT for one in others)
    return f"next: pytest --anubis {tests}{_profiled(profile)}{more}" + (
        " (once what else stands above is mended)" if mended else ""
    )


def _with_absent(tests: str, node: NodeVerdict, root: str) -> str:
    """Return tests with the files, or if these are many the folders, of what is required and did not run."""
    blocked = {one.benchmark for one in node.blocking}
    due = [name for name in node.absent if "::" in name and name in blocked]
    if not tests or not due or tests == SHIPPED:
        return tests
    typed = shlex.split(tests)
    files = {_as_typed(name.partition("::")[0], root) for name in due}
    missed = {file for file in files if not _within(file, typed)}
    if len(missed) > PLACES:
        missed = {_as_typed(name, root) for name in _folders(due)}
    kept = [one for one in typed if not _within(one, missed)]
    places = [*kept, *sorted(missed)]
    return shlex.join(places) if len(places) <= max(PLACES, len(typed)) else ""


def _after_mending(
    node: NodeVerdict, verdicts: Sequence[MetricVerdict], profile: str, root: str
) -> str:
    """Return what to type once somebody has seen to what broke; empty where nothing did."""
    broken = next((verdict for verdict in verdicts if verdict.broken), None)
    lost = (one.benchmark for one in node.blocking if one.kind is Hindrance.UNCOLLECTED)
    file = next(lost, "").partition("::")[0]
    if broken is None and not file:
        return ""
    more = _profiled(profile)
    if broken is None:
        return f"next: pytest --anubis {shlex.quote(_as_typed(file, root))}{more} (once it can be collected)"
    first = "where it ended" if broken.reason is Reason.NOT_REPORTED else "what stood in its way"
    test = shlex.quote(_as_typed(broken.benchmark.partition("[")[0], root))
    return f"next: pytest --anubis {test}{more} (alone, after a look at {first})"


def _after_installing(verdicts: Sequence[MetricVerdict], tests: str, profile: str) -> str:
    """Return what to type once the tools are there that tests missed; empty where none did."""
    missed = _missing(verdicts)
    if not missed:
        return ""
    why = clip(plain_line(missed[0]).partition(_STEP)[0], WHY_SHOWN)
    more = f"; and {count_text(len(missed) - 1, 'other reason')}" if len(missed) > 1 else ""
    return f"next: pytest --anubis {tests}{_profiled(profile)} (once this is seen to: {why}{more})"


def _missing(verdicts: Sequence[MetricVerdict]) -> list[str]:
    """Return why tests that are for this machine did not run, each reason once."""
    found = (v.text for v in verdicts if v.reason in SKIPPED and not inapplicable(v.text))
    return list(dict.fromkeys(filter(None, found)))


def _nothing_ran(verdicts: Sequence[MetricVerdict]) -> bool:
    """Tell whether no test measured anything: learning again would measure as little."""
    tests = [v for v in verdicts if "::" in v.benchmark]
    return bool(tests) and all(v.reason in SKIPPED for v in tests)


def _open_loss(verdicts: Sequence[MetricVerdict], profile: str, tests: str) -> str:
    """Return what to type where a loss would reject or be unusual had nothing cut its measurement short."""
    lost = [v for v in verdicts if v.reason is Reason.DISTURBED and v.reference.is_baseline]
    if not lost:
        return ""
    when = "" if any(LOOKS_SPENT in v.disturbance for v in lost) else " (when the machine is quiet)"
    return f"next: pytest --anubis {tests}{_profiled(profile)}{when}"


def _tools_first(verdicts: Sequence[MetricVerdict]) -> str:
    """Return which tools are to be installed first; empty where a test ran or lacked something else.

    What does not apply to this machine has nothing to say about it.
    """
    told = [v for v in verdicts if v.benchmark and not v.text.startswith(APART)]
    if not all(v.reason in SKIPPED and v.text.startswith(NOT_INSTALLED) for v in told):
        return ""
    names = (v.text.removeprefix(NOT_INSTALLED).partition(" (")[0] for v in told)
    tools = ", ".join(dict.fromkeys(names))
    return f"install {tools} (-v says how), then " if tools else ""


def _of_one_machine(verdicts: Sequence[MetricVerdict]) -> bool:
    """Tell whether nothing was held against a fleet."""
    held = [v.population for v in verdicts if v.reference.is_baseline and v.population]
    return all(_ONE_MACHINE in population for population in held)


def _places(verdicts: Sequence[MetricVerdict], root: str) -> str:
    """Return the folders of the tests as they are typed; empty where they are no tests, or of many."""
    places = {_as_typed(name, root) for name in _folders(v.benchmark for v in verdicts)}
    return shlex.join(sorted(places)) if len(places) <= PLACES else ""


def _within(test: str, places: Iterable[str]) -> bool:
    """Tell whether a file, folder or test is part of one of others, all as they are typed."""
    path = posixpath.normpath(test.partition("::")[0])
    wider = {"." if path[:1] not in "./" else path, path}
    wider |= {path[:end] for end, letter in enumerate(path) if letter == "/"}
    return any(posixpath.normpath(one) in wider for one in places if "::" not in one)


def _as_typed(name: str, root: str) -> str:
    """Return a file or folder, or a test of one, as it is typed; a folder ends with a slash."""
    if not root:
        return name
    path, colons, test = name.partition("::")
    end = "/" if path.endswith("/") else ""
    return posixpath.normpath(f"{root}/{path}") + end + colons + test


def _folders(benchmarks: Iterable[str]) -> set[str]:
    """Return the top folders of benchmarks, with a slash; of those that lie in none their files."""
    files = (name.partition("::")[0] for name in benchmarks if "::" in name)
    return {f"{name.partition('/')[0]}/" if "/" in name else name for name in files}
