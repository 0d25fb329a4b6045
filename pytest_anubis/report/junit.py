"""Verdicts as JUnit properties, so that other tools can read the numbers."""

from __future__ import annotations

from collections.abc import Iterable

from pytest_anubis.core.verdict import MetricVerdict
from pytest_anubis.report.numbers import similarity_text, value_text


def properties(verdicts: Iterable[MetricVerdict]) -> list[tuple[str, str]]:
    """Return (name, value) pairs: ``anubis.<metric>`` and what was concluded about it."""
    pairs: list[tuple[str, str]] = []
    for verdict in verdicts:
        name = f"anubis.{verdict.metric or 'benchmark'}"
        pairs.append((name, value_text(verdict.value, verdict.unit)))
        pairs.append((f"{name}.verdict", verdict.outcome.value))
        if verdict.similarity is not None:
            pairs.append((f"{name}.similarity", similarity_text(verdict.similarity)))
            pairs.append((f"{name}.threshold", similarity_text(verdict.threshold)))
        if verdict.outcome.value != "PASS":
            pairs.append((f"{name}.reason", verdict.text))
    return pairs
