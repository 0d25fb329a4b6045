"""Pieces of HTML that the dossier and pytest-html's report share; all text is escaped here."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_anubis.core.baseline import Criterion
from pytest_anubis.core.measurement import Measurement
from pytest_anubis.core.verdict import Decision, MetricVerdict, NodeVerdict, Outcome
from pytest_anubis.report.numbers import percent, similarity_text, value_text
from pytest_anubis.report.svg import cdf_plot, strip_plot

STYLE = """
.anubis{font:14px/1.45 system-ui,sans-serif}
.anubis table{border-collapse:collapse;margin:.4em 0}
.anubis th,.anubis td{padding:.15em .7em .15em 0;text-align:left;vertical-align:top;
border-bottom:1px solid rgba(128,128,128,.25)}
.anubis td.n{text-align:right;font-variant-numeric:tabular-nums}
.anubis .verdict{display:inline-block;padding:.1em .6em;border-radius:.3em;color:#fff;font-weight:600}
.anubis .PASS,.anubis .ACCEPTED{background:#00785a}
.anubis .FAIL,.anubis .REJECTED{background:#b8440a}
.anubis .MARGINAL,.anubis .INCONCLUSIVE,.anubis .UNDECIDED{background:#8a6100}
.anubis .NOT_TESTED{background:#666}
.anubis .why{max-width:60em}
.anubis .plots{display:flex;flex-wrap:wrap;gap:1em;align-items:flex-end}
.anubis svg{max-width:100%;height:auto}
.anubis details{margin:.3em 0}
"""


def badge(word: str) -> str:
    """Return a verdict or decision as a coloured word."""
    return f"<span class='verdict {html.escape(word)}'>{html.escape(word)}</span>"


def verdict_rows(verdicts: Sequence[MetricVerdict]) -> str:
    """Return a table with one row a verdict."""
    head = (
        *("metric", "value", "expected", "limit", "similarity", "threshold", "percentile"),
        "verdict",
    )
    rows = []
    for verdict in verdicts:
        cells = [
            f"<td>{html.escape(verdict.metric or '(none)')}</td>",
            _number(value_text(verdict.value, verdict.unit)),
            _number(value_text(verdict.expected, verdict.unit)),
            _number(value_text(verdict.bound, verdict.unit)),
            _number(similarity_text(verdict.similarity)),
            _number(similarity_text(verdict.threshold)),
            _number("-" if verdict.percentile is None else f"{verdict.percentile:.0f}"),
            f"<td>{badge(verdict.outcome.value)}</td>",
        ]
        rows.append(f"<tr>{''.join(cells)}</tr>")
    header = "".join(f"<th>{name}</th>" for name in head)
    return f"<table><tr>{header}</tr>{''.join(rows)}</table>"


def explanation(verdict: MetricVerdict) -> str:
    """Return why a verdict is what it is, with evidence and next step."""
    lines = [verdict.text]
    if verdict.population:
        lines.append(f"learned from {verdict.population}, baseline {verdict.baseline}")
    lines += [f"disturbed: {text}" for text in verdict.disturbance]
    lines += [f"evidence: {text}" for text in verdict.evidence]
    if verdict.action and verdict.outcome not in (Outcome.PASS, Outcome.NOT_TESTED):
        lines.append(f"next step: {verdict.action}")
    return "<p class='why'>" + "<br>".join(html.escape(line) for line in lines if line) + "</p>"


def plots(
    measurement: Measurement, criterion: Criterion | None, verdict: MetricVerdict | None
) -> str:
    """Return the plots of one measurement: distribution, values in time order, telemetry."""
    metric = measurement.metric
    parts = [
        cdf_plot(
            measurement.values,
            criterion.centre if criterion else (),
            unit=metric.unit,
            better=metric.better,
            bound=verdict.bound if verdict else None,
            label=f"{metric.name}: measured (solid) and expected (dashed) distribution",
        ),
        strip_plot(measurement.values, unit=metric.unit, label="in time order"),
    ]
    parts += [strip_plot(series, label=name) for name, series in measurement.telemetry]
    return f"<div class='plots'>{''.join(parts)}</div>"


def decision_block(verdict: NodeVerdict | None, fallback: str) -> str:
    """Return the decision with its headline, blamed components and counts."""
    if verdict is None:
        return f"<p>{badge('UNDECIDED')} {html.escape(fallback)}</p>"
    parts = [f"<p>{badge(verdict.decision.value)} <b>{html.escape(verdict.headline)}</b></p>"]
    if verdict.components and verdict.decision is Decision.REJECTED:
        parts.append(f"<p>blamed: {html.escape(', '.join(verdict.components))}</p>")
    counts = ", ".join(f"{count} {name}" for name, count in verdict.counts) or "nothing"
    parts.append(f"<p>judged: {html.escape(counts)}")
    if verdict.baseline:
        parts.append(f" against baseline {html.escape(verdict.baseline)}")
    if verdict.residual_risk is not None:
        parts.append(f", residual risk {percent(verdict.residual_risk)}")
    parts.append("</p>")
    return "".join(parts)


def lines_block(title: str, lines: Sequence[str], *, open_: bool = False) -> str:
    """Return a titled list that can be folded, or nothing when it is empty."""
    if not lines:
        return ""
    items = "".join(f"<li>{html.escape(line)}</li>" for line in lines)
    state = " open" if open_ else ""
    head = f"{html.escape(title)} ({len(lines)})"
    return f"<details{state}><summary>{head}</summary><ul>{items}</ul></details>"


def inventory_block(inventory: Mapping[str, Any]) -> str:
    """Return an inventory as nested tables, folded; what the machine does not have is left out."""
    if not inventory:
        return ""
    return f"<details><summary>inventory</summary>{_nested(inventory)}</details>"


def _nested(value: Any) -> str:
    if isinstance(value, Mapping):
        rows = "".join(
            f"<tr><th>{html.escape(str(key))}</th><td>{_nested(item)}</td></tr>"
            for key, item in value.items()
            if item not in (None, "", [], {}, ())
        )
        return f"<table>{rows}</table>"
    if isinstance(value, list | tuple):
        return "".join(
            _nested(item) + ("<br>" if not isinstance(item, Mapping) else "") for item in value
        )
    return html.escape(str(value))


def _number(text: str) -> str:
    return f"<td class='n'>{html.escape(text)}</td>"
