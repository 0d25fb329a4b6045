"""The end of a run on the terminal, at most a screen: the verdict, what explains it, what is in its way."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from pytest_anubis.core.asking.next_step import next_step, next_steps
from pytest_anubis.core.asking.open_questions import AskedQuestions, inapplicable, why_inapplicable
from pytest_anubis.core.blocker import Hindrance
from pytest_anubis.core.measurement import NOT_INSTALLED
from pytest_anubis.core.metric import metric_name
from pytest_anubis.core.verdict import (
    NOT_JUDGED,
    SEARCHED,
    SKIPPED,
    Decision,
    MetricVerdict,
    NodeVerdict,
    Outcome,
    Reason,
    Triage,
    host_trouble,
)
from pytest_anubis.report.text.failure_text import sure_text, verdict_table, worst_text
from pytest_anubis.report.text.headlines import COMPARED_ONLY, after_decision, questions_lines
from pytest_anubis.report.text.numbers import count_text, percent
from pytest_anubis.report.text.text_table import clip, clip_but_end, plain_line, printable, wrap

Line = tuple[str, str]
"""Text and style: ``red``, ``green``, ``yellow``, ``bold`` or empty."""

_STYLE = {Decision.ACCEPTED: "green", Decision.REJECTED: "red", Decision.UNDECIDED: "yellow"}
_ANSWERED = (Outcome.PASS.value, Outcome.MARGINAL.value, Outcome.FAIL.value)
_OF_BASELINE = (Hindrance.UNCOVERED, Hindrance.NO_BASELINE, Hindrance.NOTHING_JUDGED)
LONGEST = 280
"""Characters of one entry of a list shown without ``-v``: the cause is in them, and what is to be done;
a trace need not be."""
_FOLDERS = re.compile(r"(?<![^\s(])(?<!--anubis )(?:[^\s/:(]+/)+(?=[^\s/:]+\.py::)")
ROOM = 13
"""Lines of a terminal that all lists together take without ``-v``: a screen has 24."""
OTHERS = 4
"""Lines of them that a list leaves to those behind it."""
STEPS = 2
"""Next steps told without ``-v``."""
NAMED = 3
"""Names in a line that counts them."""
REASONS = 2
"""Reasons in such a line, and the characters of each."""
REASON = 40


def summary_lines(
    node: NodeVerdict,
    verdicts: Sequence[MetricVerdict],
    *,
    questions: AskedQuestions | None = None,
    cards: Mapping[str, str] = MappingProxyType({}),
    verbosity: int = 0,
    width: int = 80,
    wrapped: bool = False,
) -> list[Line]:
    """Return the lines of the summary: the verdict, what failed, what is to be looked at, what is in the way.

    Args:
        node: The decision.
        verdicts: All metric verdicts of the run.
        questions: What the run was asked; None if unknown. It is reported with ``-v`` only.
        cards: Device -> slot and serial number of its card in words, as far as they are known.
        verbosity: pytest's: below 0 the decision only, from 1 every metric and every line.
        width: Columns of the terminal.
        wrapped: What is longer goes on below at a blank, as a terminal would break words; else a line is one
            line, so that what is searched for stays whole.
    """
    verbose = verbosity > 0
    columns = width if wrapped else None
    told = verdict_text(node, verdicts) if verbosity == 0 else plain_line(after_decision(node))
    lines = wrapped_lines([(f"{node.word}: {told}", _STYLE[node.decision])], columns)
    if verbosity < 0:
        return [(printable(text), style) for text, style in lines]
    worst_first = sorted(verdicts, key=lambda verdict: verdict.severity)
    failed = [v for v in worst_first if v.outcome is Outcome.FAIL]
    # What was repeated, or the hardware reported, is in the headline of what is accepted.
    named = (Reason.REPEATED, Reason.HARDWARE) if node.decision is Decision.ACCEPTED else ()
    looks = [v for v in worst_first if v.worth_a_look and v.reason not in named]
    # What disturbed the whole host is one fact, in the first line: what it disturbed is no news.
    known = Reason.DISTURBED.value if host_trouble(verdicts) else None
    ways = list(map(str, node.blocking)) if verbose else in_the_way(node, known)
    lists: list[tuple[str, Sequence[str], str]] = [
        ("", [f"{v.outcome.value} {worst_text(v, cards)}{sure_text(v)}" for v in failed], "red"),
        ("", [f"{v.outcome.value} {worst_text(v, cards)}" for v in looks], "yellow"),
        ("in the way of acceptance", ways, ""),
    ]
    if verbose:
        lists.append(("not judged, does not block", node.listed, ""))
        lists.append(("seen, does not block", node.noted, ""))
    room = ROOM
    for number, (title, texts, style) in enumerate(lists):
        behind = sum(bool(texts) for _, texts, _ in lists[number + 1 :])
        own = _listed(title, texts, style, columns, None if verbose else room - OTHERS * behind)
        room -= len(own)
        lines += own
        if number == 1:
            odd = [v for v in looks if v.outcome is not Outcome.PASS]
            # What resolves a shared cause is said below, in the way of acceptance.
            alone = [] if node.triage is Triage.SHARED else [*failed, *odd]
            lines += _steps(alone, columns, verbose=verbose)
    if verbose:
        rows = [verdict for verdict in worst_first if verdict.metric]
        lines += [(row, "") for row in (verdict_table(rows).splitlines() if rows else ())]
        questions = questions or AskedQuestions()
        head, *classes = questions_lines(questions, len(questions.every)) or [""]
        rest = [unsearched_text(verdicts), head, *(f"  {text}" for text in classes)]
        texts = [*rest, coverage_text(node)]
    else:
        skipped = [v for v in verdicts if v.reason in SKIPPED and not v.metric]
        blocked = {one.benchmark for one in node.blocking}  # listed with its reason
        reasons = [v.text for v in skipped if v.benchmark not in blocked]
        texts = [f"not run here: {untested_text(reasons)}"] if reasons else []
        # What a choice left out has been said before: these had been chosen.
        late = [v for v in verdicts if v.reason is Reason.PRUNED and v.test]
        texts += [f"{count_text(len(late), 'test')} {late[0].text} (-v names them)"] if late else []
    lines += wrapped_lines([(text, "") for text in texts if text], columns)
    return [(printable(text), style) for text, style in lines]


def verdict_text(node: NodeVerdict, verdicts: Sequence[MetricVerdict]) -> str:
    """Return the decision in one sentence, to stand above the lists and behind the decision's own word.

    Of what is accepted it is the whole headline, which says how much that is worth.
    """
    if node.decision is Decision.ACCEPTED:
        return plain_line(after_decision(node))
    name = plain_line(f"node {node.node}" if node.node else "the node")
    counts = dict(node.counts)
    whole = count_text(sum(counts.get(word, 0) for word in _ANSWERED), "result")
    failed = counts.get(Outcome.FAIL.value, 0)
    waived = sum(verdict.reason is Reason.WAIVED for verdict in verdicts)
    waivers = {str(verdict.waiver) for verdict in verdicts if verdict.reason is Reason.WAIVED}
    who = f" ({next(iter(waivers))})" if len(waivers) == 1 and "None" not in waivers else ""
    also = f", {waived} waived{who}" if waived else ""
    if node.decision is Decision.UNDECIDED:
        cause = host_trouble(verdicts)
        cause = f": {plain_line(cause)}" if cause else ""
        return f"{name}: {whole} judged, {failed or 'none'} failed{also}{cause}"
    word = "failed" if failed else "MARGINAL"
    parts = [plain_line(one) for one in node.components]
    more = f" and {len(parts) - NAMED} more" if len(parts) > NAMED else ""
    number = failed or counts.get(Outcome.MARGINAL.value, 0)
    return f"{name}: {', '.join(parts[:NAMED])}{more} ({number} of {whole} {word}{also})"


def in_the_way(node: NodeVerdict, known: str | None = None) -> list[str]:
    """Return what prevents acceptance, in few lines: what has one cause is one of them.

    What the baseline lacks is no matter of a node that is rejected.

    Args:
        node: The decision.
        known: Reason of open verdicts that are said elsewhere; None: of none.
    """
    apart = _OF_BASELINE if node.decision is Decision.REJECTED else ()
    shown = [one for one in node.hindrances if one.kind not in apart]
    bare = [one.benchmark for one in shown if one.kind is Hindrance.UNCOVERED]
    others = (one for one in shown if one.kind is not Hindrance.UNCOVERED)
    texts = grouped([str(one) for one in others if known is None or one.reason != known])
    if bare:
        named = ", ".join(bare[: 2 * NAMED])
        more = f" and {len(bare) - 2 * NAMED} more" if len(bare) > 2 * NAMED else ""
        what = f"{count_text(len(bare), 'component')} without a metric that shows a loss of a half"
        texts.append(f"NOT_TESTED {what}: {named}{more} (-v says why)")
    return [clip_but_end(without_folders(text), LONGEST) for text in texts]


def untested_text(reasons: Sequence[str]) -> str:
    """Return how many tests did not run, and the most frequent reasons; empty of none."""
    if not reasons:
        return ""
    tools = _tools(reasons)
    named = ", ".join(tools[:NAMED]) + (", ..." if len(tools) > NAMED else "")
    counted = Counter(
        NOT_INSTALLED + named if reason.startswith(NOT_INSTALLED) else _why_apart(reason)
        for reason in reasons
    ).most_common()
    told = [f"{count} {plain_line(why)}" for why, count in counted[:REASONS]]
    more = len(counted) - REASONS
    told += [count_text(more, "other reason")] if more > 0 else []
    return f"{count_text(len(reasons), 'test')} ({'; '.join(told)}; -v names them)"


def not_for_this_machine(reason: str) -> bool:
    """Return whether a test did not run for what the machine has not, and not for what is wrong."""
    return inapplicable(reason) or reason.startswith(NOT_INSTALLED)


def _why_apart(reason: str) -> str:
    return clip(why_inapplicable(reason) if inapplicable(reason) else reason, REASON)


def wrapped_lines(lines: Sequence[Line], width: int | None) -> list[Line]:
    """Return lines broken at blanks to fit a terminal, each with its own indentation and two columns more."""
    return [
        (part, style)
        for text, style in lines
        for part in wrap(text, width, indent=" " * (len(text) - len(text.lstrip()) + 2))
    ]


def coverage_text(node: NodeVerdict) -> str:
    """Return the coverage statement: what was judged, against what, and the risk that is left."""
    counted = dict(node.counts)
    beside = counted.pop(NOT_JUDGED, 0)
    counts = ", ".join(f"{count} {name}" for name, count in counted.items()) or "nothing"
    baseline = f" against baseline {node.baseline}" if node.baseline else ""
    text = f"judged{baseline}: {counts}"
    if beside:
        text += f"; {beside} {NOT_JUDGED}: {COMPARED_ONLY}"
    if node.blocking:
        text += f"; {len(node.hindrances)} in the way of acceptance"
    if node.residual_risk is not None:
        text += f"; risk of an incident after what passed: {percent(node.residual_risk)}"
    if node.residual_interval is not None:
        text += f" (95 % within {' to '.join(map(percent, node.residual_interval))})"
    return text


def elsewhere_lines(benchmarks: Sequence[str], profile: str) -> list[str]:
    """Return one line that counts the benchmarks of other profiles, and their names."""
    if not benchmarks:
        return []
    line = f"not part of {profile}, does not block: {count_text(len(benchmarks), 'benchmark')}"
    return [f"{line} of other profiles (--anubis-profile)", *(f"  {name}" for name in benchmarks)]


def unsearched_text(verdicts: Sequence[MetricVerdict]) -> str:
    """Return how many metrics had too few values for a search for changes, counted by component."""
    short = {(v.benchmark, v.metric, v.group): v.component for v in verdicts if v.too_short}
    if not short:
        return ""
    judged = {(v.benchmark, v.metric, v.group) for v in verdicts if v.loss is not None}
    counted = Counter(component or "no component" for component in short.values())
    where = ", ".join(f"{name} {count}" for name, count in sorted(counted.items()))
    return (
        f"not searched for changes within the run (fewer than {SEARCHED} values): {len(short)} of "
        f"{count_text(len(judged), 'metric')} ({where})"
    )


def unsearched_names(verdicts: Sequence[MetricVerdict]) -> list[str]:
    """Return which metrics those are, by benchmark, metric and group."""
    found = {(v.benchmark.rpartition("/")[2], v.metric, v.group) for v in verdicts if v.too_short}
    return sorted(metric_name(*one) for one in found)


def grouped(texts: Sequence[str]) -> list[str]:
    """Put what has one reason into one line: forty metrics without a baseline are one fact.

    Tools that are not installed are one fact as well, whichever they are.

    Args:
        texts: Lines ``what: reason``; the part up to the first colon and blank says what.
    """
    by_reason: dict[str, list[str]] = {}
    parts = [text.partition(": ") for text in map(plain_line, texts)]
    absent = tools_missing([reason for _, _, reason in parts])
    for head, separator, reason in parts:
        told = absent if absent and reason.startswith(NOT_INSTALLED) else reason
        by_reason.setdefault(told if separator else head, []).append(head if separator else "")
    lines = []
    for reason, heads in by_reason.items():
        named = [head for head in heads if head]
        if len(named) <= 1:
            lines.append(f"{named[0]}: {reason}" if named else reason)
            continue
        word = named[0].partition(" ")[0]
        if not word.isupper() or any(head.partition(" ")[0] != word for head in named):
            word = "times"  # else it is what came of all of them
        first = named[0].removeprefix(f"{word} ")
        lines.append(f"{len(named)} {word}: {reason} ({first}, ...)")
    return lines


def tools_missing(reasons: Sequence[str]) -> str:
    """Return one reason for all tests whose tools are not installed; empty if that is one tool at most."""
    tools = _tools(reasons)
    return f"tools not installed: {', '.join(tools)} (-v says how to get them)" if tools[1:] else ""


def _tools(reasons: Sequence[str]) -> list[str]:
    told = [reason for reason in reasons if reason.startswith(NOT_INSTALLED)]
    return list(dict.fromkeys(one[len(NOT_INSTALLED) :].partition(" (")[0] for one in told))


def without_folders(text: str) -> str:
    """Return text with test ids cut to file and test: the folders fill a line and tell little.

    What is to be typed (``pytest --anubis FILE::TEST``) stays whole.
    """
    return _FOLDERS.sub("", text)


def _listed(
    title: str, texts: Sequence[str], style: str, columns: int | None, room: int | None
) -> list[Line]:
    """Return a list's lines, one entry at least, as many as there is room for; None: all of them."""
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


def _steps(bad: Sequence[MetricVerdict], columns: int | None, *, verbose: bool) -> list[Line]:
    """Return what to do about what failed, or else about what is to be looked at, each step once."""
    steps = [
        (
            f"next step for {', '.join(dict.fromkeys(map(_part, those)))}: {plain_line(step)}",
            "bold",
        )
        for step, those in next_steps(bad).items()
    ]
    if not steps and bad and bad[0].outcome is Outcome.FAIL:  # results of other tools name no step
        steps = [(f"next step: {plain_line(next_step(bad[0]))}", "bold")]
    return wrapped_lines(steps[: None if verbose else STEPS], columns)


def _part(verdict: MetricVerdict) -> str:
    return verdict.component or verdict.metric or without_folders(verdict.benchmark)
