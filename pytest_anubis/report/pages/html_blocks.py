"""Pieces of HTML that the dossier and pytest-html's report share; all text is escaped here."""

from __future__ import annotations

import html
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from pytest_anubis import __version__
from pytest_anubis.core.asking.next_step import next_step, next_steps
from pytest_anubis.core.baseline import Baseline, Criterion
from pytest_anubis.core.measurement import Measurement
from pytest_anubis.core.shown_loss import ALL_DEVICES
from pytest_anubis.core.verdict import (
    HOST,
    RETEST,
    Decision,
    MetricVerdict,
    NodeVerdict,
    Outcome,
    Reason,
)
from pytest_anubis.report.plots.distribution_plots import cdf_plot
from pytest_anubis.report.plots.time_strip import series_text, spark, strip_plot
from pytest_anubis.report.text.device_identity import identity_text
from pytest_anubis.report.text.headlines import after_name
from pytest_anubis.report.text.node_row import LOOK
from pytest_anubis.report.text.numbers import (
    certainty_text,
    lost_text,
    similarity_text,
    value_text,
)
from pytest_anubis.report.text.summary_text import coverage_text

SERIES = 12
"""Telemetry series shown of one measurement; the journal has all."""

FOLD = 20
"""Lines of one kind in a box."""

ALIKE = 3
"""So many lines that say the same of several things are one: of two, each may be read."""

ALL = ALL_DEVICES
"""Title of what the node's pooled values show."""

_UNLEARNED = (Reason.NO_BASELINE, Reason.NO_CRITERION)

CriterionKey = tuple[str, str, str]


def criteria_by_key(baseline: Baseline | None) -> dict[CriterionKey, Criterion]:
    """Return the criteria for single units by (benchmark, metric, group)."""
    criteria = baseline.criteria if baseline is not None else ()
    return {(c.benchmark, c.metric.name, c.group): c for c in criteria if c.scope == "unit"}


def criterion_of(
    measurement: Measurement, known: dict[CriterionKey, Criterion]
) -> Criterion | None:
    """Return the criterion of a measurement, None without one or when units or versions differ."""
    found = known.get((measurement.benchmark, measurement.metric.name, measurement.group))
    same = found is not None and found.metric.variant == measurement.metric.variant
    return found if same else None


def badge(word: str) -> str:
    """Return a verdict, a decision or what a node is called as a coloured word."""
    return (
        f"<span class='verdict {html.escape(_COLOURS.get(word, word))}'>{html.escape(word)}</span>"
    )


_COLOURS = {RETEST: "REJECTED", LOOK: "MARGINAL"}
"""Words that have the colour of another one."""


def word_badges(counts: Iterable[tuple[str, int]]) -> str:
    """Return how many nodes are called what, as coloured words."""
    return " ".join(f"<span class='kv'>{badge(word)} {count}</span>" for word, count in counts)


def triaged_badge(verdict: MetricVerdict) -> str:
    """Return a verdict as a coloured word, with what to do about it."""
    return f"{badge(verdict.shown_as)} {verdict.triage.value}".rstrip()


def verdict_rows(verdicts: Iterable[MetricVerdict]) -> str:
    """Return a table with one row a verdict."""
    words = ("value", "expected", "limit", "loss", "certainty", "similarity", "threshold")
    head = headings("metric", "verdict") + headings(*words, "fleet percentile", number=True)
    rows = []
    for verdict in sorted(verdicts, key=lambda verdict: verdict.severity):
        name = (verdict.metric or "(none)") + (
            f" of {ALL_DEVICES}" if verdict.scope == "node" else ""
        )
        rows.append(
            f"{cells(name)}<td>{triaged_badge(verdict)}</td>"
            + numbers(
                value_text(verdict.value, verdict.unit),
                value_text(verdict.expected, verdict.unit),
                value_text(verdict.limit, verdict.unit),
                lost_text(verdict),
                certainty_text(verdict.certainty),
                similarity_text(verdict.similarity),
                similarity_text(verdict.threshold),
                "-" if verdict.percentile is None else f"{verdict.percentile:.0f}",
            )
        )
    return table(head, rows)


def headings(*words: str, number: bool = False) -> str:
    """Return the heads of columns, of numbers or else of text; one without a word is an empty cell."""
    how = " class='n'" if number else ""
    return "".join(
        f"<th scope='col'{how}>{html.escape(word)}</th>" if word else "<td></td>" for word in words
    )


def wide(table: str) -> str:
    """Return a table that scrolls by itself where the page is narrow, by keyboard too."""
    return f"<div class='wide' tabindex='0'>{table}</div>"


def table(head: str, rows: Iterable[str], *, kind: str = "") -> str:
    """Return a table that scrolls by itself; `head` from `headings`, rows of cells, and its class."""
    how = f" class='{kind}'" if kind else ""
    body = "".join(f"<tr>{row}</tr>" for row in (head, *rows) if row)
    return wide(f"<table{how}>{body}</table>")


def cells(*texts: str) -> str:
    """Return cells with text."""
    return "".join(f"<td>{html.escape(text)}</td>" for text in texts)


def numbers(*texts: str) -> str:
    """Return cells with numbers."""
    return "".join(map(number, texts))


def linked(text: str, place: str) -> str:
    """Return text that leads to a place of ours; without one, bare."""
    words = html.escape(text)
    return f"<a href='{html.escape(place)}'>{words}</a>" if place else words


def paragraph(text: str, kind: str = "") -> str:
    """Return a paragraph of a class; nothing without text."""
    how = f" class='{kind}'" if kind else ""
    return f"<p{how}>{html.escape(text)}</p>" if text else ""


def titled(title: str, inner: str) -> str:
    """Return a part of a page below its title; nothing where it is empty."""
    return f"<h2>{title}</h2>{inner}" if inner else ""


def number(text: str) -> str:
    """Return a cell with a number."""
    return f"<td class='n'>{html.escape(text)}</td>"


def explanation(verdict: MetricVerdict) -> str:
    """Return why a verdict is what it is, with disturbance, evidence, origin and next step."""
    lines = [("", verdict.text)]
    lines += [("disturbed: ", text) for text in verdict.disturbance]
    lines += [("evidence: ", text) for text in verdict.evidence]
    if verdict.population:
        lines.append(("learned from: ", f"{verdict.population}, baseline {verdict.baseline}"))
    # Where nothing is known of what is normal, nothing speaks against the part either.
    known = verdict.reason not in _UNLEARNED
    if verdict.action and known and verdict.outcome not in (Outcome.PASS, Outcome.NOT_TESTED):
        lines.append(("next step: ", next_step(verdict)))
    said = (f"<b>{head}</b>{html.escape(text)}" for head, text in lines if text)
    return f"<p class='why'>{'<br>'.join(said)}</p>"


def plots(
    measurement: Measurement,
    criterion: Criterion | None,
    verdict: MetricVerdict | None,
    *,
    points: int = 90,
) -> str:
    """Return the plots of one measurement: its distribution, and its values in time order."""
    metric = measurement.metric
    limit = verdict.limit if verdict else None
    parts = [
        cdf_plot(
            measurement.values,
            criterion.centre if criterion else (),
            unit=metric.unit,
            better=metric.better,
            limit=limit,
            label=f"{metric.name}: distribution of the measured values against the expected one",
            steps=points,
        ),
        strip_plot(
            measurement.values,
            unit=metric.unit,
            label="in time order",
            expected=verdict.expected if verdict else None,
            limit=limit,
            points=points,
        ),
    ]
    return f"<div class='plots'>{''.join(parts)}</div>"


def telemetry(measurement: Measurement, *, most: int = SERIES, points: int = 40) -> str:
    """Return a table of what the sensors showed meanwhile: name, range and course, those that moved first."""
    series = sorted(measurement.telemetry, key=lambda s: len(set(s[1])) < 2)
    if not series:
        return ""
    rows = [
        f"{cells(name)}{number(series_text(values))}"
        f"<td>{spark(values, label=name, points=points)}</td>"
        for name, values in series[:most]
    ]
    left = len(series) - most
    rows += [f"<td colspan='3'>and {left} more in the journal</td>"] if left > 0 else []
    count = f"telemetry during the measurement ({len(series)} series)"
    return f"<details><summary>{count}</summary>{table('', rows)}</details>"


def blamed_parts(
    verdicts: Iterable[MetricVerdict],
    cards: Mapping[str, str],
    inventory: Mapping[str, Any] = MappingProxyType({}),
    *,
    heading: str = "h3",
    step: str = "",
) -> list[str]:
    """Return one box a card, and a box a component of the host: all that speaks against it, and one remedy.

    What all devices have in common has a box of its own, and is not said again in theirs.

    Args:
        verdicts: Those that are FAIL or MARGINAL, in any order; the worst part comes first.
        cards: Device -> slot and serial number of its card in words.
        inventory: The node's, as plain data; more is told of a card than `cards` does where it knows it.
        heading: Element of a box's title: one below that of what the boxes stand under.
        step: What resolves all of it, in place of each part's own step; empty: these.
    """
    verdicts = sorted(verdicts, key=lambda verdict: verdict.severity)
    where: dict[tuple[str, str, str], set[str]] = {}
    for verdict in verdicts:
        if verdict.scope == "unit":
            where.setdefault(_metric(verdict), set()).add(verdict.device)
    parts: dict[tuple[str, str], list[MetricVerdict]] = {}
    for verdict in verdicts:
        pooled = verdict.scope == "node"
        if pooled and len(where.get(_metric(verdict), ())) == 1:
            continue  # one card makes the node's pooled values bad, and its box says so
        blamed = verdict.component or verdict.benchmark
        many_parts = verdict.device in HOST or pooled
        place = ALL if pooled else _card(verdict.device, cards)
        parts.setdefault((place, blamed if many_parts else ""), []).append(verdict)
    # What concerns all stands first, so that no box of a card says it again.
    boxes = sorted(parts.items(), key=lambda part: (part[1][0].severity[:2], part[0][0] != ALL))
    said = {line for (place, _), found in boxes if place == ALL for line in _about(found, step)}
    return [
        _part(place, found, cards, inventory, heading, frozenset() if place == ALL else said, step)
        for (place, _), found in boxes
    ]


def _metric(verdict: MetricVerdict) -> tuple[str, str, str]:
    return verdict.benchmark, verdict.metric, verdict.group


def _card(device: str, cards: Mapping[str, str]) -> str:
    """Return the run's name of a card that is named by its slot, as the gate does; else the name itself."""
    for name, words in cards.items():
        slot = words.partition(",")[0].removeprefix("slot ")
        if words.startswith("slot ") and slot in device:
            return name
    return device


def _part(
    place: str,
    found: Sequence[MetricVerdict],
    cards: Mapping[str, str],
    inventory: Mapping[str, Any],
    heading: str,
    said: Collection[tuple[str, str]],
    step: str,
) -> str:
    """Return the box of a part; `place` is its device, or `ALL`, of which `said` has what it says."""
    worst = found[0]
    blamed = list(dict.fromkeys(v.component or v.benchmark for v in found))
    name = f"{place}: " if place not in HOST else ""
    title = f"{badge(worst.outcome.value)} {html.escape(name + ', '.join(blamed))}"
    lines = [f"<{heading}>{title}</{heading}>"]
    known = identity_text(place, inventory) or cards.get(place, "")
    if known:
        lines.append(f"<div class='faint'>{html.escape(known)}</div>")
    items = [_why(verdict) for verdict in found[:FOLD]]
    items += [f"and {len(found) - FOLD} more"] if len(found) > FOLD else []
    lines.append("<ul>" + "".join(f"<li>{html.escape(item)}</li>" for item in items) + "</ul>")
    lines += [
        f"<div><b>{label}:</b> {html.escape(text)}</div>"
        for label, text in _about(found, step)
        if (label, text) not in said
    ]
    return f"<div class='card {worst.outcome.value}'>{''.join(lines)}</div>"


def _about(found: Sequence[MetricVerdict], step: str) -> list[tuple[str, str]]:
    """Return evidence, disturbances and the one remedy of a part, each with its label."""
    steps = list(next_steps(found)) or list(filter(None, map(next_step, found)))
    steps = [step] if step else steps
    told = (
        ("evidence", [text for v in found for text in v.evidence]),
        ("disturbed", [text for v in found for text in v.disturbance]),
        ("next step", steps[:1]),
    )
    return [(label, text) for label, texts in told for text in list(dict.fromkeys(texts))[:FOLD]]


def _why(verdict: MetricVerdict) -> str:
    """Return why a part is blamed; of a test of several cases or groups also which of them it was."""
    name = verdict.metric or verdict.benchmark
    text = verdict.text.removeprefix(f"{verdict.device}: ")  # the box's title says it
    text = text if text.startswith(name) else f"{name}: {text}"
    test = verdict.benchmark.partition("::")[2]
    group = f" ({verdict.group})" if verdict.group and verdict.group not in test else ""
    several = verdict.metric and ("[" in test or group)
    return f"{test}{group} {text}" if several else text


def decision_block(verdict: NodeVerdict | None, fallback: str, step: str = "") -> str:
    """Return the decision with its headline, blamed components and counts, and what to type next."""
    if verdict is None:
        return f"<p>{html.escape(fallback)}</p>"
    # The badge says the decision, and a title above whose it is.
    said = after_name(verdict)
    parts = [f"<p class='headline'>{badge(verdict.word)} <b>{html.escape(said)}</b></p>"]
    if verdict.components and verdict.decision is Decision.REJECTED:
        parts.append(f"<p>blamed: <b>{html.escape(', '.join(verdict.components))}</b></p>")
    parts.append(paragraph(coverage_text(verdict), "faint"))
    return "".join(parts) + (f"<p><b>{html.escape(step)}</b></p>" if step else "")


def lines_block(
    title: str, lines: Sequence[str], *, open_: bool = False, count: int | None = None
) -> str:
    """Return a titled list that can be folded, or nothing when it is empty.

    `count` is how many lines there are in truth, where only some are listed.
    """
    if not lines:
        return ""
    items = "".join(f"<li>{html.escape(line)}</li>" for line in alike(lines))
    state = " open" if open_ else ""
    head = f"<b>{html.escape(title)}</b> ({len(lines) if count is None else count})"
    return f"<details{state}><summary>{head}</summary><ul>{items}</ul></details>"


def alike(lines: Sequence[str]) -> list[str]:
    """Put lines that say the same of several things into one, at the place of the first of them.

    Args:
        lines: ``WHAT: WHY`` each, or anything else, which stays as it is. Of things that differ in their
            last word only, such as devices, the rest is said once.
    """
    why = [line.partition(": ")[2] for line in lines]
    groups: dict[str, list[str]] = {}
    for line, reason in zip(lines, why, strict=True):
        groups.setdefault(reason or line, []).append(line)
    merged = []
    for reason, some in groups.items():
        if len(some) < ALIKE or len(set(some)) == 1:
            merged += some
            continue
        names: dict[str, list[str]] = {}
        for line in some:
            stem, _, last = line.partition(": ")[0].rpartition(" ")
            names.setdefault(stem, []).append(last)
        told = [f"{stem} {', '.join(last)}".strip() for stem, last in names.items()]
        outcome = told[0].partition(" ")[0]
        if outcome in list(Outcome) and all(one.startswith(f"{outcome} ") for one in told):
            told[1:] = [one.removeprefix(f"{outcome} ") for one in told[1:]]
        merged.append(f"{'; '.join(told)}: {reason}")
    return merged


def unsaid(lines: Iterable[str], said: Sequence[str]) -> list[str]:
    """Return the lines about tests that no other list has: they name the same test and device.

    Args:
        lines: ``TEST: WHY`` each, TEST with its parameters, as ``t.py::test_copy[cuda:0]``.
        said: Lines that stand above: ``OUTCOME BENCHMARK METRIC DEVICE: WHY``, and those of dead processes.
    """
    return [line for line in lines if not any(_names(line.partition(": ")[0], one) for one in said)]


def _names(test: str, line: str) -> bool:
    if test in line:
        return True
    name, _, parameters = test.partition("[")
    words = [name, *parameters.rstrip("]").split("-")] if parameters else [name]
    return all(re.search(rf"(?<![\w:]){re.escape(word)}(?![\w-])", line) for word in words)


def document(title: str, style: str, body: str, *, head: str = "") -> str:
    """Return a whole page that needs nothing from outside; `head` is more of ours for its head."""
    return (
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"{head}<title>{html.escape(title)}</title><style>{style}</style></head>\n"
        f"<body class='anubis'><main>{body}<p>made by pytest-anubis {__version__}</p></main></body></html>\n"
    )
