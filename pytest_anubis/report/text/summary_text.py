"""The summary at the end of a run, at most a screen: the decision, its reasons and its blockers.

The run's terminal plugin and `anubis report` print it; dossier and commands use single lines of it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from pytest_anubis.core.asking.next_step import host_trouble, next_step, next_steps, shared_act
from pytest_anubis.core.asking.open_questions import AskedQuestions, inapplicable, why_inapplicable
from pytest_anubis.core.blocker import Hindrance
from pytest_anubis.core.end_to_end import MetricPlace, end_to_end_losses, place_of_metric
from pytest_anubis.core.measurement import NOT_INSTALLED, TestResult
from pytest_anubis.core.metric import first_of, metric_name
from pytest_anubis.core.verdict import (
    HOST,
    LOOK,
    MIN_SEARCHED,
    NOT_JUDGED,
    SKIPPED,
    Decision,
    MetricVerdict,
    NodeVerdict,
    Outcome,
    Reason,
    Triage,
    word_of,
)
from pytest_anubis.report.text.explanation_text import attained_text, shares_text, whole_text
from pytest_anubis.report.text.failure_text import sure_text, verdict_table, worst_text
from pytest_anubis.report.text.numbers import count_text, percent
from pytest_anubis.report.text.part_lines import part_lines
from pytest_anubis.report.text.safe_text import plain_line, printable
from pytest_anubis.report.text.shared_lines import COMPARED_ONLY, after_decision, questions_lines
from pytest_anubis.report.text.since_text import SINCE, since_text, since_words
from pytest_anubis.report.text.text_table import clip, clip_but_end, wrap

Line = tuple[str, str]
"""Text and style: ``red``, ``green``, ``yellow``, ``bold`` or empty."""

_STYLE = {Decision.ACCEPTED: "green", Decision.REJECTED: "red", Decision.UNDECIDED: "yellow"}
_ANSWERED = (Outcome.PASS.value, Outcome.MARGINAL.value, Outcome.FAIL.value)
_OF_BASELINE = (Hindrance.UNCOVERED, Hindrance.NO_BASELINE, Hindrance.NOTHING_JUDGED)
STATED = "stated by tests"
"""Title of the properties that tests have stated."""
MAX_ENTRY = 280
"""Characters of a list's entry without ``-v``: enough for the cause and what to do, not for a trace."""
_FOLDERS = re.compile(r"(?<![^\s(])(?<!--anubis )(?:[^\s/:(]+/)+(?=[^\s/:]+\.py::)")
MAX_LINES = 13
"""Lines of all lists without ``-v``: a screen has 24."""
KEPT_LINES = 4
"""Lines that a list leaves to each list after it."""
MAX_STEPS = 2
"""Next steps without ``-v``."""
MAX_NAMES = 3
"""Names in a line that counts them."""
MAX_REASONS = 2
"""Reasons in a line that counts them."""
MAX_REASON = 40
"""Characters of such a reason."""


def summary_lines(
    node: NodeVerdict,
    verdicts: Sequence[MetricVerdict],
    *,
    questions: AskedQuestions | None = None,
    results: Sequence[TestResult] = (),
    cards: Mapping[str, str] = MappingProxyType({}),
    verbosity: int = 0,
    width: int = 80,
    wrapped: bool = False,
) -> list[Line]:
    """Return the lines of the summary: decision, failures, verdicts to look at, blockers.

    Args:
        node: The decision.
        verdicts: All metric verdicts of the run.
        questions: The run's questions; None if unknown. They are reported with ``-v`` only.
        results: The ends of the run's tests. What they stated is reported with ``-v`` only.
        cards: Device -> slot and serial number of its card in words, as far as they are known.
        verbosity: pytest's: below 0 the decision only, from 1 every metric and every line.
        width: Columns of the terminal.
        wrapped: Break long lines at blanks; else they stay whole, so that text in them can be searched for.
    """
    verbose = verbosity > 0
    columns = width if wrapped else None
    text = verdict_text(node, verdicts) if verbosity == 0 else plain_line(after_decision(node))
    word = word_of(node, verdicts)
    word = f"{node.decision}, {word}" if word == LOOK else word
    lines = wrapped_lines([(f"{word}: {text}", _STYLE[node.decision])], columns)
    if verbosity >= 0:
        lines += _lists(node, verdicts, cards, columns, verbose=verbose)
        if verbose:
            lines += _listed(STATED, stated_lines(results), "", columns, None)
            texts = _verbose_texts(node, verdicts, questions or AskedQuestions())
            rows = sorted((v for v in verdicts if v.metric), key=lambda verdict: verdict.severity)
            lines += [(row, "") for row in (verdict_table(rows).splitlines() if rows else ())]
        else:
            texts = _not_run_texts(node, verdicts)
        lines += wrapped_lines([(text, "") for text in texts if text], columns)
    return [(printable(text), style) for text, style in lines]


def _lists(
    node: NodeVerdict,
    verdicts: Sequence[MetricVerdict],
    cards: Mapping[str, str],
    columns: int | None,
    *,
    verbose: bool,
) -> list[Line]:
    """Return the lists of failures, of verdicts to look at and of blockers, and the next steps."""
    worst_first = sorted(verdicts, key=lambda verdict: verdict.severity)
    failed = [v for v in worst_first if v.outcome is Outcome.FAIL]
    # The headline of an accepted node already names repeated tests and reports of the hardware.
    named = (Reason.REPEATED, Reason.HARDWARE) if node.decision is Decision.ACCEPTED else ()
    looks = [v for v in worst_first if v.worth_a_look and v.reason not in named]
    # The first line already names what disturbed the whole host.
    known = Reason.DISTURBED.value if host_trouble(verdicts) else None
    blockers = list(map(str, node.blocking)) if verbose else in_the_way(node, known)
    lists: list[tuple[str, Sequence[str], str]] = [
        ("", [f"{_bad_line(v, cards, verbose)}{sure_text(v)}" for v in failed], "red"),
        ("", [_bad_line(v, cards, verbose) for v in looks], "yellow"),
        ("in the way of acceptance", blockers, ""),
    ]
    if verbose:
        since = [since_text(one, _name(place_of_metric(one))) for one in (*failed, *looks)]
        wholes = [f"{_name(one.whole)}: {whole_text(one)}" for one in end_to_end_losses(verdicts)]
        lists.append((SINCE, [*filter(None, since)], ""))
        lists.append(("end-to-end losses", wholes, ""))
        lists.append(("parts of a loss", [*filter(None, map(shares_text, (*failed, *looks)))], ""))
        attained = [
            f"{_name(place_of_metric(one))}: {text}"
            for one in verdicts
            if (text := attained_text(one))
        ]
        lists.append(("shares of nominal rates", attained, ""))
        lists.append(("not judged, does not block", node.listed, ""))
    seen = [*part_lines(node), *(node.noted if verbose else ())]
    lists.append(("seen, does not block", seen, ""))
    lines: list[Line] = []
    room = MAX_LINES
    for number, (title, texts, style) in enumerate(lists):
        after = sum(bool(texts) for _, texts, _ in lists[number + 1 :])
        own = _listed(title, texts, style, columns, None if verbose else room - KEPT_LINES * after)
        room -= len(own)
        lines += own
        # The blockers name the step against a shared cause.
        if number == 1 and node.triage is not Triage.SHARED:
            odd = [v for v in looks if v.outcome is not Outcome.PASS]
            lines += _steps([*failed, *odd], columns, verbose=verbose, act=shared_act(node))
    return lines


def stated_lines(results: Sequence[TestResult]) -> list[str]:
    """Return what each test stated by ``record_property``, in one line each."""
    return [
        f"{_FOLDERS.sub('', one.test)}: {'; '.join(one.properties)}"
        for one in results
        if one.properties
    ]


def _bad_line(verdict: MetricVerdict, cards: Mapping[str, str], verbose: bool) -> str:
    """Return a bad verdict in one line; ``-v`` says below since when it is bad."""
    since = "" if verbose else since_words(verdict)
    return f"{verdict.outcome.value} {worst_text(verdict, cards)}{since}"


def _name(place: MetricPlace) -> str:
    name = metric_name(place.benchmark.rpartition("::")[2], place.metric)
    return name if place.device in HOST else f"{name} on {place.device}"


def _verbose_texts(
    node: NodeVerdict, verdicts: Sequence[MetricVerdict], questions: AskedQuestions
) -> list[str]:
    head, *states = questions_lines(questions, len(questions.every)) or [""]
    indented = (f"  {text}" for text in states)
    return [unsearched_text(verdicts), head, *indented, coverage_text(node)]


def _not_run_texts(node: NodeVerdict, verdicts: Sequence[MetricVerdict]) -> list[str]:
    """Return how many tests did not run here, and how many chosen tests were pruned later."""
    skipped = [v for v in verdicts if v.reason in SKIPPED and not v.metric]
    blocked = {one.benchmark for one in node.blocking}  # listed with its reason
    reasons = [v.text for v in skipped if v.benchmark not in blocked]
    texts = [f"not run here: {untested_text(reasons)}"] if reasons else []
    # Tests that were never chosen are reported before the run.
    late = [v for v in verdicts if v.reason is Reason.PRUNED and v.test]
    if late:
        texts.append(f"{count_text(len(late), 'test')} {late[0].text} (-v names them)")
    return texts


def verdict_text(node: NodeVerdict, verdicts: Sequence[MetricVerdict]) -> str:
    """Return the decision in one sentence, to be printed after the decision's word and above the lists.

    For an accepted node it is the whole headline, which says how much the acceptance covers.
    """
    if node.decision is Decision.ACCEPTED:
        return plain_line(after_decision(node))
    name = plain_line(f"node {node.node}" if node.node else "the node")
    counts = dict(node.counts)
    whole = count_text(sum(counts.get(word, 0) for word in _ANSWERED), "result")
    failed = counts.get(Outcome.FAIL.value, 0)
    waivers = [verdict.waiver for verdict in verdicts if verdict.reason is Reason.WAIVED]
    only = waivers[0] if len(set(map(str, waivers))) == 1 else None
    also = f", {len(waivers)} waived" if waivers else ""
    also += f" ({only})" if only is not None else ""
    if node.decision is Decision.UNDECIDED:
        cause = host_trouble(verdicts)
        cause = f": {plain_line(cause)}" if cause else ""
        return f"{name}: {whole} judged, {failed or 'none'} failed{also}{cause}"
    word = "failed" if failed else "MARGINAL"
    parts = first_of([plain_line(one) for one in node.components], MAX_NAMES)
    number = failed or counts.get(Outcome.MARGINAL.value, 0)
    return f"{name}: {parts} ({number} of {whole} {word}{also})"


def in_the_way(node: NodeVerdict, known: str | None = None) -> list[str]:
    """Return the blockers in few lines, one for each cause; a rejected node's omit what the baseline lacks.

    `known` is the reason of open verdicts that are reported elsewhere; None if there are none.
    """
    omitted = _OF_BASELINE if node.decision is Decision.REJECTED else ()
    shown = [one for one in node.hindrances if one.kind not in omitted]
    uncovered = [one.benchmark for one in shown if one.kind is Hindrance.UNCOVERED]
    others = (one for one in shown if one.kind is not Hindrance.UNCOVERED)
    texts = grouped([str(one) for one in others if known is None or one.reason != known])
    if uncovered:
        components = count_text(len(uncovered), "component")
        texts.append(
            f"NOT_TESTED {components} without a metric that shows a loss of a half: "
            f"{first_of(uncovered, 2 * MAX_NAMES)} (-v says why)"
        )
    return [clip_but_end(without_folders(text), MAX_ENTRY) for text in texts]


def untested_text(reasons: Sequence[str]) -> str:
    """Return how many tests did not run, and the most frequent reasons; empty if all ran."""
    if not reasons:
        return ""
    tools = _tools(reasons)
    named = ", ".join(tools[:MAX_NAMES]) + (", ..." if len(tools) > MAX_NAMES else "")
    counted = Counter(
        NOT_INSTALLED + named if reason.startswith(NOT_INSTALLED) else _short_reason(reason)
        for reason in reasons
    ).most_common()
    texts = [f"{count} {plain_line(why)}" for why, count in counted[:MAX_REASONS]]
    if len(counted) > MAX_REASONS:
        texts.append(count_text(len(counted) - MAX_REASONS, "other reason"))
    return f"{count_text(len(reasons), 'test')} ({'; '.join(texts)}; -v names them)"


def not_for_this_machine(reason: str) -> bool:
    """Return whether a test did not run because the machine lacks a part or a tool, not for a fault."""
    return inapplicable(reason) or reason.startswith(NOT_INSTALLED)


def _short_reason(reason: str) -> str:
    return clip(why_inapplicable(reason) if inapplicable(reason) else reason, MAX_REASON)


def wrapped_lines(lines: Sequence[Line], width: int | None) -> list[Line]:
    """Return lines broken at blanks; further lines of each are indented by two columns more."""
    return [
        (part, style)
        for text, style in lines
        for part in wrap(text, width, indent=" " * (len(text) - len(text.lstrip()) + 2))
    ]


def coverage_text(node: NodeVerdict) -> str:
    """Return the coverage statement: the counts of verdicts, the baseline, and the residual risk."""
    counted = dict(node.counts)
    not_judged = counted.pop(NOT_JUDGED, 0)
    counts = ", ".join(f"{count} {name}" for name, count in counted.items()) or "nothing"
    baseline = f" against baseline {node.baseline}" if node.baseline else ""
    text = f"judged{baseline}: {counts}"
    if not_judged:
        text += f"; {not_judged} {NOT_JUDGED}: {COMPARED_ONLY}"
    if node.blocking:
        text += f"; {len(node.hindrances)} in the way of acceptance"
    if node.residual_risk is not None:
        text += f"; risk of an incident after what passed: {percent(node.residual_risk)}"
    if node.residual_interval is not None:
        text += f" (95 % within {' to '.join(map(percent, node.residual_interval))})"
    return text


def elsewhere_lines(benchmarks: Sequence[str], profile: str) -> list[str]:
    """Return one line that counts the benchmarks of other profiles, then a line for each."""
    if not benchmarks:
        return []
    line = f"not part of {profile}, does not block: {count_text(len(benchmarks), 'benchmark')}"
    return [f"{line} of other profiles (--anubis-profile)", *(f"  {name}" for name in benchmarks)]


def unsearched_text(verdicts: Sequence[MetricVerdict]) -> str:
    """Return how many metrics had too few values for a search for changes, by component."""
    short = {(v.benchmark, v.metric, v.group): v.component for v in verdicts if v.too_short}
    if not short:
        return ""
    judged = {(v.benchmark, v.metric, v.group) for v in verdicts if v.loss is not None}
    counted = Counter(component or "no component" for component in short.values())
    where = ", ".join(f"{name} {count}" for name, count in sorted(counted.items()))
    return (
        f"not searched for changes within the run (fewer than {MIN_SEARCHED} values): {len(short)} of "
        f"{count_text(len(judged), 'metric')} ({where})"
    )


def unsearched_names(verdicts: Sequence[MetricVerdict]) -> list[str]:
    """Return the names of the metrics that `unsearched_text` counts, by benchmark, metric and group."""
    found = {(v.benchmark.rpartition("/")[2], v.metric, v.group) for v in verdicts if v.too_short}
    return sorted(metric_name(*one) for one in found)


def grouped(texts: Sequence[str]) -> list[str]:
    """Return one line for each reason, since forty metrics without a baseline are one fact.

    Texts are lines ``subject: reason``, whose subject ends at the first colon followed by a blank. Tools that
    are not installed are one reason.
    """
    by_reason: dict[str, list[str]] = {}
    parts = [text.partition(": ") for text in map(plain_line, texts)]
    tools = _tools([reason for _, _, reason in parts])
    for head, separator, reason in parts:
        if len(tools) > 1 and reason.startswith(NOT_INSTALLED):
            reason = f"tools not installed: {', '.join(tools)} (-v says how to get them)"
        by_reason.setdefault(reason if separator else head, []).append(head if separator else "")
    lines = []
    for reason, heads in by_reason.items():
        named = [head for head in heads if head]
        if len(named) <= 1:
            lines.append(f"{named[0]}: {reason}" if named else reason)
            continue
        word = named[0].partition(" ")[0]  # the outcome, if all have the same
        if not word.isupper() or any(head.partition(" ")[0] != word for head in named):
            word = "times"
        first = named[0].removeprefix(f"{word} ")
        lines.append(f"{len(named)} {word}: {reason} ({first}, ...)")
    return lines


def _tools(reasons: Sequence[str]) -> list[str]:
    missing = (reason for reason in reasons if reason.startswith(NOT_INSTALLED))
    return list(dict.fromkeys(one[len(NOT_INSTALLED) :].partition(" (")[0] for one in missing))


def without_folders(text: str) -> str:
    """Return text with test ids cut to file and test.

    Commands to type (``pytest --anubis FILE::TEST``) keep their folders.
    """
    return _FOLDERS.sub("", text)


def _listed(
    title: str, texts: Sequence[str], style: str, columns: int | None, room: int | None
) -> list[Line]:
    """Return a list's lines: at least one entry, and as many as fit the room; None: all."""
    if not texts:
        return []
    lines: list[Line] = [(f"{title}:", "bold")] if title else []
    indent = "  " if title else ""
    first = len(lines)
    for number, text in enumerate(texts):
        own = wrapped_lines([(indent + plain_line(text), style)], columns)
        if room is not None and len(lines) > first and len(lines) + len(own) >= room:
            lines.append((f"{indent}... and {len(texts) - number} more (-v shows all)", ""))
            break
        lines += own
    return lines


def _steps(
    bad: Sequence[MetricVerdict], columns: int | None, *, verbose: bool, act: str
) -> list[Line]:
    """Return the next steps for bad verdicts, each step once; `act` replaces them."""
    steps = (
        [f"next step: {plain_line(act)}"]
        if act
        else [
            f"next step for {', '.join(dict.fromkeys(map(_part, those)))}: {plain_line(step)}"
            for step, those in next_steps(bad).items()
        ]
    )
    if not steps and bad and bad[0].outcome is Outcome.FAIL:  # results of other tools name no step
        steps = [f"next step: {plain_line(next_step(bad[0]))}"]
    shown = steps if verbose else steps[:MAX_STEPS]
    return wrapped_lines([(step, "bold") for step in shown], columns)


def _part(verdict: MetricVerdict) -> str:
    return verdict.component or verdict.metric or without_folders(verdict.benchmark)
