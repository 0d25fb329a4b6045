"""The end of a run on the terminal: the verdict, what explains it, and what was not judged."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from pytest_anubis.core.asking.next_step import next_steps
from pytest_anubis.core.asking.open_questions import AskedQuestions
from pytest_anubis.core.asking.silent_tests import AFTER_DEATH
from pytest_anubis.core.measurement import NOT_INSTALLED
from pytest_anubis.core.metric import metric_name
from pytest_anubis.core.verdict import (
    NOT_JUDGED,
    SEARCHED,
    UNCOVERED,
    Decision,
    MetricVerdict,
    NodeVerdict,
    Outcome,
    Reason,
    Reference,
    without_absent,
)
from pytest_anubis.report.text.failure_text import verdict_table
from pytest_anubis.report.text.headlines import (
    COMPARED_ONLY,
    OPEN_SHOWN,
    after_decision,
    questions_lines,
)
from pytest_anubis.report.text.numbers import count_text, percent
from pytest_anubis.report.text.text_table import clip_but_end, plain_line, printable, wrap

Line = tuple[str, str]
"""Text and style: ``red``, ``green``, ``yellow``, ``bold`` or empty."""

_STYLE = {Decision.ACCEPTED: "green", Decision.REJECTED: "red", Decision.UNDECIDED: "yellow"}
_NEAR = (Reference.PEERS, Reference.SELF)
_BAD = (Outcome.FAIL, Outcome.MARGINAL)
_FOLDERS = re.compile(r"(?<![^\s(])(?<!--anubis )(?:[^\s/:(]+/)+(?=[^\s/:]+\.py::)")
LONGEST = 400
"""Characters of one entry of a list shown without ``-v``: the cause is in them, and what is to be done;
a trace need not be."""
FOLDED = 3
"""Components without a metric that shows a loss of a half from which on they are told together."""
_WITHOUT = re.compile(r" \(it shows losses from [^)]*\)")
_FROM = re.compile(r"\(it shows losses from ([\d.]+ (?:%|times)) on\)")
_FEW = re.compile(r"^\d+ usable units?, at least \d+ needed for a criterion$")
MOST = 12
"""Lines of one list, and rows of the table, shown without ``-v``."""


def summary_lines(
    node: NodeVerdict,
    verdicts: Sequence[MetricVerdict],
    *,
    questions: AskedQuestions | None = None,
    verbosity: int = 0,
    width: int = 80,
    wrapped: bool = False,
) -> list[Line]:
    """Return the lines of the summary.

    What is not judged and stands with its question is not listed once more, without ``-v``.

    Args:
        node: The decision.
        verdicts: All metric verdicts of the run.
        questions: What the run was asked; None where nobody knows.
        verbosity: pytest's: below 0 the decision only, from 1 every metric and every line.
        width: Columns of the terminal; without verbosity long names and lists are cut to it.
        wrapped: What is longer goes on below at a blank, as a terminal would break words; else a line is one
            line, so that what is searched for stays whole.
    """
    columns = width if wrapped else None
    headline = plain_line(node.headline)
    said = plain_line(after_decision(node))
    decision: list[Line] = [(f"{node.decision.value}: {said}", _STYLE[node.decision])]
    if verbosity < 0:
        return wrapped_lines(decision, columns)
    rows = _table(verdicts, verbosity, width)
    lines = _list("why", _whys(verdicts, headline), verbosity)
    lines += _steps(verdicts, headline)
    # The headline of what is undecided says its first blocker.
    blocking = [
        text
        for text in node.blocking
        if verbosity > 0 or plain_line(text).partition(AFTER_DEATH)[0] not in headline
    ]
    lines += _list("in the way of acceptance", blocking, verbosity, folded=verbosity <= 0)
    questions = questions or AskedQuestions()
    told = questions.told if verbosity <= 0 else ()
    listed = without_absent(node.listed, told)
    lines += _list("not judged, does not block", listed, verbosity)
    lines += _list("seen, does not block", node.noted, verbosity)
    unsearched = unsearched_text(verdicts)
    if unsearched:
        lines.append((unsearched, ""))
    head, *classes = questions_lines(
        questions, len(questions.every) if verbosity > 0 else OPEN_SHOWN
    ) or [""]
    lines += [(head, "bold")] if head else []
    lines += [(f"  {text}", "") for text in classes]
    lines.append((coverage_text(node), ""))
    whole = [*wrapped_lines(decision, columns), *rows, *wrapped_lines(lines, columns)]
    return [(printable(text), style) for text, style in whole]


def wrapped_lines(lines: Sequence[Line], width: int | None) -> list[Line]:
    """Return lines broken at blanks to fit a terminal, each as deep as it stands and two columns more.

    Args:
        lines: With their styles.
        width: Columns of the terminal; None leaves them as they are.
    """
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


def elsewhere_lines(benchmarks: Sequence[str], profile: str, *, verbosity: int = 0) -> list[str]:
    """Return one line that counts the benchmarks of other profiles; with ``-v`` their names as well."""
    if not benchmarks or verbosity < 0:
        return []
    line = f"not part of {profile}, does not block: {count_text(len(benchmarks), 'benchmark')}"
    names = [f"  {name}" for name in benchmarks]
    return [f"{line} of other profiles (--anubis-profile)", *(names if verbosity > 0 else ())]


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
    told = [reason for reason in reasons if reason.startswith(NOT_INSTALLED)]
    names = dict.fromkeys(reason[len(NOT_INSTALLED) :].partition(" (")[0] for reason in told)
    if len(names) < 2:
        return ""
    return f"tools not installed: {', '.join(names)} (-v says how to get them)"


def without_folders(text: str) -> str:
    """Return text with test ids cut to file and test: the folders fill a line and tell little.

    What is to be typed (``pytest --anubis FILE::TEST``) stays whole.
    """
    return _FOLDERS.sub("", text)


def _table(verdicts: Sequence[MetricVerdict], verbosity: int, width: int) -> list[Line]:
    shown = [
        verdict for verdict in verdicts if verdict.metric and (verbosity > 0 or _telling(verdict))
    ]
    if not shown:
        return []
    worst_first = sorted(shown, key=lambda v: v.severity)
    rows = worst_first if verbosity > 0 else worst_first[:MOST]
    if verbosity <= 0:
        rows = [replace(verdict, benchmark=without_folders(verdict.benchmark)) for verdict in rows]
    text = verdict_table(
        rows,
        benchmark=True,
        baseline=False,
        similarities=verbosity > 0,
        width=None if verbosity > 0 else max(width, 60),
    )
    lines: list[Line] = [(row, "") for row in text.splitlines()]
    if len(rows) < len(shown):
        lines.append(
            (f"... and {count_text(len(shown) - len(rows), 'more metric')} (-v shows all)", "")
        )
    return lines


def _telling(verdict: MetricVerdict) -> bool:
    """Is it bad, or was it compared and could still not be judged?"""
    return verdict.outcome in _BAD or (
        verdict.outcome is Outcome.INCONCLUSIVE and verdict.similarity is not None
    )


def _whys(verdicts: Sequence[MetricVerdict], headline: str) -> list[str]:
    """Return what the table cannot show: failures without a metric, changes within a run, comparisons."""
    return [
        f"{verdict.benchmark} {verdict.device}: {plain_line(verdict.text)}"
        for verdict in sorted(verdicts, key=lambda v: v.severity)
        if verdict.outcome in _BAD
        and (
            not verdict.metric
            or verdict.reason is Reason.CHANGE_POINT
            or verdict.reference in _NEAR
        )
        and plain_line(verdict.text) not in headline
    ]


def _steps(verdicts: Sequence[MetricVerdict], headline: str) -> list[Line]:
    """Return what to do about everything bad; what the headline says already is not repeated."""
    bad = [verdict for verdict in verdicts if verdict.outcome in _BAD]
    steps = next_steps(sorted(bad, key=lambda verdict: verdict.severity))
    return [
        (f"next step for {', '.join(dict.fromkeys(parts))}: {plain_line(step)}", "")
        for step, those in steps.items()
        if (parts := [v.component or v.metric for v in those]) and plain_line(step) not in headline
    ]


def uncovered_folded(texts: Sequence[str]) -> tuple[list[str], list[str]]:
    """Put the components that nothing covers into one line a reason, where there are several of them.

    Args:
        texts: What is in the way of acceptance.

    Returns:
        The lines that say it of all of them, and the rest of the texts.
    """
    mark = f": {UNCOVERED}: "
    bare = [text for text in texts if mark in text]
    if len(bare) < FOLDED:
        return [], list(texts)
    by_reason: dict[str, list[str]] = {}
    remedies = []
    for text in bare:
        head, _, rest = text.partition(mark)
        *metrics, remedy = rest.split("; ")
        remedies.append(remedy)
        for reason in dict.fromkeys(_WITHOUT.sub("", each.partition(": ")[2]) for each in metrics):
            shown = _FEW.sub("fewer usable units than a criterion needs", reason)
            shown = shown.removeprefix("it is ")
            losses = [found for each in metrics if reason in each for found in _FROM.findall(each)]
            least = f" ({min(losses, key=_loss_size)})" if losses else ""
            by_reason.setdefault(shown, []).append(f"{head.partition(' ')[2]}{least}")
    lines = [
        f"NOT_TESTED {len(bare)} components without a metric that shows a loss of a half: "
        f"{max(remedies, key=len)} (-v says it of each metric)"
    ]
    for reason, names in by_reason.items():
        least = (
            " (the least loss that is shown)" if any(name.endswith(")") for name in names) else ""
        )
        lines.append(f"  {reason}{least}: {', '.join(dict.fromkeys(names))}")
    return lines, [text for text in texts if text not in bare]


def _loss_size(text: str) -> tuple[bool, float]:
    """Order ``51 %`` before ``2.3 times``."""
    number, _, unit = text.partition(" ")
    return unit != "%", float(number)


def _list(title: str, texts: Sequence[str], verbosity: int, *, folded: bool = False) -> list[Line]:
    if not texts:
        return []
    lines: list[Line] = [(f"{title}:", "bold")]
    if folded:
        bare, texts = uncovered_folded(texts)
        lines += [(f"  {text}", "") for text in bare]
    shown = grouped(texts) if verbosity <= 0 else [plain_line(text) for text in texts]
    most = len(shown) if verbosity > 0 else MOST
    for text in shown[:most]:
        told = text if verbosity > 0 else clip_but_end(without_folders(text), LONGEST)
        lines.append((f"  {told}", ""))
    if len(shown) > most:
        lines.append((f"  ... and {len(shown) - most} more (-v shows all)", ""))
    return lines
