"""Short texts that terminal, commands and pages share: on a baseline, an inventory, lanes and questions.

Headlines are made in `validator/deciding/decision_headline.py`; here they lose the decision's own words. The
command to type next is made in `next_command.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from pytest_anubis.core.asking.open_questions import (
    AskedQuestion,
    AskedQuestions,
    QuestionState,
    most_frequent_why,
    why_inapplicable,
)
from pytest_anubis.core.baseline import Baseline
from pytest_anubis.core.measurement import LaneCores
from pytest_anubis.core.metric import first_of
from pytest_anubis.core.verdict import NodeVerdict
from pytest_anubis.report.text.numbers import count_text, percent
from pytest_anubis.report.text.safe_text import plain_line
from pytest_anubis.report.text.text_table import clip

COMPARED_ONLY = "compared with its own past or the other devices only, which is no norm"
"""Reason of a metric without a criterion: a pass there answers no question."""
MAX_QUESTIONS = 2
"""Questions named of each state: a whole set of adapters may have no answer."""
MAX_WHY = 120
"""Characters of a state's reason: it names the kind, and the lists above have all of it."""

STEP_WORDS = "; next step: "
"""Words between a reason and its next step."""
_DECISIONS = (" is neither accepted nor rejected", " rejected", " accepted")
"""Words of a headline that repeat the decision."""


def after_decision(verdict: NodeVerdict) -> str:
    """Return a headline without its decision, to be printed after it."""
    name = f"node {verdict.node}" if verdict.node else "the node"
    for words in _DECISIONS:
        if verdict.headline.startswith(name + words):
            return name + verdict.headline[len(name + words) :]
    return verdict.headline


def after_name(verdict: NodeVerdict) -> str:
    """Return a headline without decision and node, to be printed after both."""
    return after_decision(verdict).removeprefix(f"node {verdict.node}").removeprefix(":").strip()


def baseline_line(baseline: Baseline) -> str:
    """Return one line with a baseline's digest, size, runs and error rate."""
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
    """Return one line with an inventory's node and time; empty if it was read here and has no date.

    The inventory is plain data of any shape; `file` is empty or None if it was read from this machine.
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
    """Return a phrase for each lane of a run with accelerators: its devices, CPUs and NUMA node."""
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


def resume_hint(run: str) -> str:
    """Return how to resume a run that was cut short."""
    return (
        f"to go on with this run, give the same command again with --anubis-resume={run}: what is done is "
        "not repeated"
    )


def questions_lines(questions: AskedQuestions, most: int = MAX_QUESTIONS) -> list[str]:
    """Return how many questions are answered, then a line for each state that keeps others open.

    The counts add up: each asked question is answered or open. Questions that do not apply to this machine,
    or are no part of the run, are not asked.
    """
    if not questions.every:
        return []
    open_ = questions.unanswered
    lines = [
        f"{questions.answered} of {questions.asked} questions answered{_not_asked(questions)}"
        + (f"; {questions.asked - questions.answered} not:" if open_ else "")
    ]
    for kind, some in open_.items():
        named = first_of([one.question for one in some], most, "; ")
        lines.append(f"{len(some)} {kind.value}{_why(some)}: {named}")
    return lines


def questions_text(questions: AskedQuestions) -> str:
    """Return `questions_lines` as one line; empty if there are no questions."""
    head, *states = questions_lines(questions) or [""]
    return " ".join([head, "; ".join(states)]).strip()


def _not_asked(questions: AskedQuestions) -> str:
    """Return how many questions do not apply or are no part of the run; empty if none."""
    apart, no_part = (
        len(questions.of(kind)) for kind in (QuestionState.APART, QuestionState.NO_PART)
    )
    text = ""
    if apart:
        why, others = most_frequent_why(questions.of(QuestionState.APART))
        does = "does" if apart == 1 else "do"
        text += f"; {apart} {does} not apply here ({why_inapplicable(why)}{other_reasons(others)})"
    if no_part:
        text += f"; {no_part} {'is' if no_part == 1 else 'are'} no part of this run"
    return text


def other_reasons(count: int) -> str:
    """Return the words for further reasons; empty for none."""
    return f"; and {count_text(count, 'other reason')}" if count else ""


def _why(some: Sequence[AskedQuestion]) -> str:
    why, others = most_frequent_why(some)
    more = other_reasons(others)
    # The lists above have the next step; without a baseline the state's own name says why.
    why = plain_line(why).partition(STEP_WORDS)[0]
    if some and some[0].state is QuestionState.NO_BASELINE:
        return f" ({more.removeprefix('; and ')})" if more else ""
    return f" ({clip(why, MAX_WHY)}{more})" if why else ""
