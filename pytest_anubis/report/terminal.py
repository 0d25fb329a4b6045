"""The end of a run on the terminal: the verdict, what explains it, and what was not judged."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_anubis.core.verdict import Decision, MetricVerdict, NodeVerdict, Outcome
from pytest_anubis.report.failure import verdict_table
from pytest_anubis.report.table import clip

Line = tuple[str, str]
"""Text and style: ``red``, ``green``, ``yellow``, ``bold`` or empty."""

_STYLE = {Decision.ACCEPTED: "green", Decision.REJECTED: "red", Decision.UNDECIDED: "yellow"}
MOST = 12
"""Lines of one list shown without ``-v``."""


def summary_lines(
    node: NodeVerdict,
    verdicts: Sequence[MetricVerdict],
    *,
    verbosity: int = 0,
    width: int = 80,
) -> list[Line]:
    """Return the lines of the summary.

    Args:
        node: The decision.
        verdicts: All metric verdicts of the run.
        verbosity: pytest's: below 0 the decision only, from 1 every metric and every line.
        width: Columns of the terminal; only long lists are cut to it.
    """
    lines: list[Line] = [(f"{node.decision.value}: {node.headline}", _STYLE[node.decision])]
    if verbosity < 0:
        return lines
    shown = [
        verdict
        for verdict in verdicts
        if verbosity > 0 or verdict.outcome in (Outcome.FAIL, Outcome.MARGINAL)
    ]
    measured = [verdict for verdict in shown if verdict.metric]
    if measured:
        lines += [(row, "") for row in verdict_table(measured, benchmark=True).splitlines()]
    lines += _list("in the way of acceptance", node.blocking, verbosity, width)
    lines += _list("not judged, does not block", node.listed, verbosity, width)
    lines.append((_coverage(node), ""))
    return lines


def _list(title: str, texts: Sequence[str], verbosity: int, width: int) -> list[Line]:
    if not texts:
        return []
    lines: list[Line] = [(f"{title}:", "bold")]
    grouped = _grouped(texts)
    most = len(grouped) if verbosity > 0 else MOST
    lines += [
        (text if verbosity > 0 else clip(text, max(width, 60)), "") for text in grouped[:most]
    ]
    if len(grouped) > most:
        lines.append((f"  ... and {len(grouped) - most} more (-v shows all)", ""))
    return lines


def _grouped(texts: Sequence[str]) -> list[str]:
    """Put what has one reason into one line: forty metrics without a baseline are one fact."""
    by_reason: dict[str, list[str]] = {}
    for text in texts:
        head, separator, reason = text.partition(": ")
        by_reason.setdefault(reason if separator else text, []).append(head if separator else "")
    lines = []
    for reason, heads in by_reason.items():
        named = [head for head in heads if head]
        if len(named) <= 1:
            lines.append(f"  {named[0]}: {reason}" if named else f"  {reason}")
        else:
            lines.append(f"  {reason} ({len(named)}: {named[0]}, ...)")
    return lines


def _coverage(node: NodeVerdict) -> str:
    counts = ", ".join(f"{count} {name}" for name, count in node.counts) or "nothing"
    baseline = f" against baseline {node.baseline}" if node.baseline else ""
    risk = "" if node.residual_risk is None else f", residual risk {node.residual_risk:.3g}"
    return f"judged{baseline}: {counts}{risk}"
