"""What a test says when it is not passed: the first line stands alone, the table explains the rest."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_anubis.core.verdict import MetricVerdict, Outcome
from pytest_anubis.report.numbers import percent, similarity_text, value_text
from pytest_anubis.report.table import table

_BAD = (Outcome.FAIL, Outcome.MARGINAL)
_COLUMNS = (
    *("metric", "unit", "value", "expected", "limit", "similarity", "threshold"),
    *("fleet percentile", "baseline", "verdict"),
)


def failure_text(verdicts: Sequence[MetricVerdict]) -> str:
    """Return the message of a test with a rejected metric.

    Args:
        verdicts: All verdicts of the test, the good ones too; at least one is bad.

    Returns:
        A first line that makes sense alone in a list of failures, then for each device the table, the
        component, evidence and next step.
    """
    bad = [verdict for verdict in verdicts if verdict.outcome in _BAD]
    parts = [_first_line(bad, len(verdicts)), "", verdict_table(verdicts), ""]
    parts += [f"{verdict.metric or verdict.benchmark}: {verdict.text}" for verdict in bad]
    components = list(dict.fromkeys(v.component for v in bad if v.component))
    if components:
        where = ", ".join(dict.fromkeys(f"{v.node} {v.device}".strip() for v in bad))
        parts.append(f"component: {', '.join(components)} ({where})")
    bases = list(dict.fromkeys(v.population for v in bad if v.population))
    if bases:
        parts.append(f"learned from: {', '.join(bases)}")
    parts += [f"evidence: {line}" for v in bad for line in v.evidence]
    parts += [f"next step: {action}" for action in dict.fromkeys(v.action for v in bad if v.action)]
    return "\n".join(parts)


def inconclusive_text(verdicts: Sequence[MetricVerdict]) -> str:
    """Return one line that says why a test that measured cannot be judged."""
    open_ones = [v for v in verdicts if v.outcome in (Outcome.INCONCLUSIVE, Outcome.NOT_TESTED)]
    texts = list(dict.fromkeys(verdict.text for verdict in open_ones))
    word = next((v.outcome for v in open_ones if v.outcome is Outcome.INCONCLUSIVE), None)
    return f"{word or Outcome.NOT_TESTED}: {'; '.join(texts)}"


def verdict_table(verdicts: Sequence[MetricVerdict], *, benchmark: bool = False) -> str:
    """Return one row a verdict: what was measured, what is expected, and what came of it.

    Args:
        verdicts: In the order of the rows.
        benchmark: Name the benchmark and the device in a first column.
    """
    header = (["benchmark"] if benchmark else []) + list(_COLUMNS)
    return table([header, *(_row(verdict, benchmark) for verdict in verdicts)])


def _row(verdict: MetricVerdict, benchmark: bool) -> list[str]:
    name = f"{verdict.benchmark} {verdict.device}".strip()
    return ([name] if benchmark else []) + [
        verdict.metric or "(none)",
        verdict.unit or "-",
        value_text(verdict.value),
        value_text(verdict.expected),
        value_text(verdict.bound),
        similarity_text(verdict.similarity),
        similarity_text(verdict.threshold),
        "-" if verdict.percentile is None else f"{verdict.percentile:.0f}",
        verdict.baseline or "-",
        verdict.outcome.value,
    ]


def _first_line(bad: Sequence[MetricVerdict], total: int) -> str:
    worst = min(bad, key=lambda v: 1.0 if v.similarity is None else v.similarity)
    if len(bad) > 1:
        names = ", ".join(dict.fromkeys(verdict.metric for verdict in bad))
        return f"{len(bad)} of {total} metrics outside what is normal: {names}"
    if worst.similarity is None or worst.value is None:
        return worst.text
    if worst.better == "equal":
        return f"{worst.metric} must be exactly {value_text(worst.expected, worst.unit)}"
    return (
        f"{worst.metric} {percent(1 - worst.similarity)} worse than normal: "
        f"{value_text(worst.value, worst.unit)}, expected {value_text(worst.expected)} "
        f"(similarity {similarity_text(worst.similarity)} < {similarity_text(worst.threshold)})"
    )
