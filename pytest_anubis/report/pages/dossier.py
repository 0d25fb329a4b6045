"""The dossier: one run as one HTML page that opens anywhere, to be sent to whoever must repair the node."""

from __future__ import annotations

import datetime
import html
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pytest_anubis.core.asking.next_step import shared_act
from pytest_anubis.core.asking.open_questions import asked_questions
from pytest_anubis.core.asking.silent_tests import kept_silent
from pytest_anubis.core.baseline import Baseline
from pytest_anubis.core.events import WorkerDied
from pytest_anubis.core.metric import metric_name
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.verdict import HOST, Outcome
from pytest_anubis.report.pages import html_blocks as blocks
from pytest_anubis.report.pages.choice_report import selection_block
from pytest_anubis.report.pages.device_comparison import peers_section
from pytest_anubis.report.pages.inventory_block import inventory_block
from pytest_anubis.report.pages.metric_sections import Case, cases_of, overview, section
from pytest_anubis.report.pages.style_sheets import BLOCKS, PAGE
from pytest_anubis.report.text.headlines import (
    baseline_line,
    inventory_line,
    lane_texts,
    next_of,
    questions_text,
)
from pytest_anubis.report.text.node_text import traits_text
from pytest_anubis.report.text.numbers import bytes_text, duration_text, moment_text, percent
from pytest_anubis.report.text.summary_text import unsearched_names, unsearched_text

PLOTS = 300
"""Measurements drawn, the worst first; a page with thousands would not open on a phone."""
CARDS = 40
"""Blamed components shown one by one."""
FOLD = 20
"""Longer lists start folded."""

_EXIT = {
    0: "accepted",
    1: "rejected",
    2: "interrupted",
    3: "internal error",
    4: "usage error",
    5: "nothing collected",
    20: "neither accepted nor rejected",
}
_HELP = (
    ("value", "the median of the measured values"),
    ("expected", "the median of what healthy units of this hardware class deliver"),
    (
        "limit",
        "the median at which a uniformly worse unit would just cross the threshold; what was seen once only "
        "is held against a wider one than what several looks confirm",
    ),
    (
        "similarity",
        "1 when the measured distribution is nowhere worse than the expected one; 0.95 when it "
        "is 5 % lower (or, of what should be low, 5.3 % higher) throughout. Being better is never punished",
    ),
    ("threshold", "the similarity below which the verdict changes"),
    (
        "loss",
        "how much worse than expected the distribution is, on the scale of the values: 12 % slower, longer "
        "or lower, 30 times as long",
    ),
    (
        "certainty",
        "the probability that the loss is beyond the limit, from the scatter of the values and the spread "
        "of healthy units",
    ),
    (
        "reject, retest, investigate",
        "sure; to be measured again first (borderline, noise was allowed, a single value, one look); to be "
        "looked at. The decision does not depend on it",
    ),
    (
        "distribution",
        "each curve climbs by the share of values up to that point; in the shaded area the unit "
        "is worse than the limit allows",
    ),
    (
        "disturbed",
        "somebody else used the machine meanwhile; such a measurement cannot reject the node",
    ),
)


def run_page(
    record: RunRecord, baseline: Baseline | None = None, *, drawn: int | None = None, home: str = ""
) -> str:
    """Return the page of one run.

    Args:
        record: The run, complete or cut short.
        baseline: For the expected distributions in the plots and where they come from; the verdicts
            do not need it.
        drawn: Measurements with plots, the worst first; the others stand in the table only. None draws as
            many as a page can hold.
        home: Place of the page of the whole fleet that this one belongs to; empty if there is none.
    """
    verdict = record.node_verdict
    decision = verdict.word if verdict else "not judged"
    drawn = PLOTS if drawn is None else min(drawn, PLOTS)
    told = record.effective_verdicts
    cases = cases_of(record.measurements, told)
    body = [
        f"<nav aria-label='fleet'><a href='{home}'>the whole fleet</a></nav>" if home else "",
        _banner(record),
        _facts(record, baseline),
        _wrong(record),
        _waived(record),
        _unjudged(record),
        _choice(record),
        _peers(cases if drawn >= PLOTS else _same_metrics(cases, drawn)),
        "<h2>All metrics</h2>" + overview(cases, told, drawn) if cases else "",
        _sections(cases, baseline, drawn),
        _provenance(record, baseline),
        "<h2>Hardware and software</h2>" + inventory_block(record.inventory, open_=True)
        if record.inventory
        else "",
        _reading(),
    ]
    return blocks.document(f"{record.node}: {decision}", BLOCKS + PAGE, "".join(body))


def _same_metrics(cases: Sequence[Case], drawn: int) -> list[Case]:
    """Return all measurements of the metrics that are drawn."""
    names = {(c.measurement.benchmark, c.measurement.metric.name) for c in cases[:drawn]}
    return [c for c in cases if (c.measurement.benchmark, c.measurement.metric.name) in names]


def _peers(cases: Sequence[Case]) -> str:
    return blocks.titled("Devices side by side", peers_section(cases))


def _banner(record: RunRecord) -> str:
    verdict = record.node_verdict
    if verdict is None:
        count = len(record.measurements)
        words = f"{count} measurements recorded, nothing was judged in this run"
    else:
        words = "nothing was decided"
    step = next_of(record)
    return (
        f"<header class='banner {verdict.decision.value if verdict else ''}'>"
        f"<h1>{html.escape(record.node)}</h1>{blocks.decision_block(verdict, words, step)}</header>"
    )


def _facts(record: RunRecord, baseline: Baseline | None) -> str:
    status = record.exit_status
    rows = [
        ("hardware", _hardware(record.inventory)),
        ("inventory", inventory_line(record.inventory, record.settings.get("inventory"))),
        ("hardware class", record.hardware_class),
        ("known of it", traits_text(record.traits)),
        ("held against", baseline_line(baseline) if baseline else record.baseline),
        ("run", record.run),
        ("time", _time(record)),
        ("profile", record.profile),
        (
            "questions",
            questions_text(
                asked_questions(record.planned, record.effective_verdicts, record.results)
            ),
        ),
        ("lanes", "; ".join(lane_texts(record.lanes))),
        ("exit status", "" if status is None else f"{status}, {_EXIT.get(status, 'unknown')}"),
    ]
    return _pairs(rows)


def _pairs(rows: Iterable[tuple[str, str]]) -> str:
    items = "".join(
        f"<dt>{html.escape(label)}</dt><dd>{html.escape(value)}</dd>"
        for label, value in rows
        if value
    )
    return f"<dl class='facts'>{items}</dl>" if items else ""


def _hardware(inventory: Mapping[str, Any]) -> str:
    """Say in one line what the machine is; parts of an unknown shape are left out."""
    parts = []
    cards = inventory.get("accelerators")
    if isinstance(cards, list | tuple):
        names = [str(c["name"]) for c in cards if isinstance(c, Mapping) and c.get("name")]
        parts += [f"{names.count(name)} × {name}" for name in dict.fromkeys(names)]
    processor, memory = inventory.get("processor"), inventory.get("memory")
    if isinstance(processor, Mapping) and processor.get("model"):
        threads = f", {processor['usable']} usable threads" if processor.get("usable") else ""
        parts.append(f"{processor['model']}{threads}")
    total = memory.get("total") if isinstance(memory, Mapping) else None
    if isinstance(total, int | float):
        parts.append(f"{bytes_text(total)} of memory")
    system = inventory.get("system")
    if isinstance(system, Mapping):
        named = " ".join(str(system[key]) for key in ("vendor", "product") if system.get(key))
        serial = f" (serial {system['serial']})" if system.get("serial") else ""
        parts.append(f"{named}{serial}" if named else "")
    return "; ".join(part for part in parts if part)


def _time(record: RunRecord) -> str:
    if not record.started:  # of an import
        return ""
    try:
        began = datetime.datetime.fromisoformat(record.started)
        ended = datetime.datetime.fromisoformat(record.ended)
        took = (ended - began).total_seconds()
    except (ValueError, TypeError):  # TypeError: one of them has no time zone
        # What was collected from files is of one moment: nobody knows for how long it was measured.
        if not (record.ended or record.settings or record.planned):
            return moment_text(record.started)
        return f"{moment_text(record.started)}, {'ended ' + record.ended if record.ended else 'cut short'}"
    # An import is of one moment.
    return moment_text(record.started) + (f", took {duration_text(took)}" if took > 0 else "")


def _wrong(record: RunRecord) -> str:
    """Return one box per blamed part: what is wrong, which part it is, what to do."""
    bad = [v for v in record.effective_verdicts if v.outcome is Outcome.FAIL]
    unusual = [v for v in record.effective_verdicts if v.outcome is Outcome.MARGINAL]
    # What is only unusual is in the box of its card, where there is one.
    failed = {v.device for v in bad} - set(HOST)
    bad += [v for v in unusual if v.device in failed]
    unusual = [v for v in unusual if v.device not in failed]
    step = shared_act(record.node_verdict)
    parts = []
    for title, verdicts in (
        ("What is wrong", bad),
        ("Unusual for this fleet, not yet costly", unusual),
    ):
        cards = blocks.blamed_parts(verdicts, record.cards, record.inventory, step=step)
        if cards:
            more = len(cards) - CARDS
            left = f"<p>and {more} more, see the table below</p>" if more > 0 else ""
            parts.append(f"<h2>{title}</h2>{''.join(cards[:CARDS])}{left}")
    return "".join(parts)


def _waived(record: RunRecord) -> str:
    """Return the failures that somebody answers for: they are none of the node's, and no PASS."""
    lines = [
        f"{metric_name(v.benchmark, v.metric, v.device)}: {v.text}"
        for v in record.effective_verdicts
        if v.waiver is not None
    ]
    block = blocks.lines_block("failures that waivers cover, or did until they expired", lines)
    return blocks.titled("Waived", block)


def _unjudged(record: RunRecord) -> str:
    verdict = record.node_verdict
    blocking, listed, noted = (
        (tuple(map(str, verdict.blocking)), verdict.listed, verdict.noted)
        if verdict
        else ((), (), ())
    )
    died = [
        f"{event.worker or 'worker'}: {event.text or 'died'}"
        for event in record.events
        if isinstance(event, WorkerDied)
        and not (event.test and any(event.test in line for line in blocking))
    ]
    lists = (
        ("in the way of acceptance", blocking, len(blocking) <= FOLD),
        ("not judged, does not block", listed, False),
        ("seen, does not block", noted, False),
        (
            "tests that crashed, failed outside a measurement or never reported",
            blocks.unsaid(_silent(record), blocking),
            True,
        ),
        ("processes that died", died, True),
        ("about the journal itself", record.warnings, True),
    )
    inner = "".join(
        blocks.lines_block(title, list(lines), open_=state) for title, lines, state in lists
    )
    unsearched = unsearched_text(record.effective_verdicts)
    inner += blocks.lines_block(unsearched, unsearched_names(record.effective_verdicts))
    return blocks.titled("What was not judged, and what else was seen", inner)


def _choice(record: RunRecord) -> str:
    return blocks.titled("What was chosen, and what was left out", selection_block(record.choice))


def _silent(record: RunRecord) -> list[str]:
    kept = kept_silent(record)
    reported = {result.test for result in record.results}
    bad = ("not reported", "crashed", "error", "failed")
    lines = [
        f"{result.test}: {result.outcome}{': ' + result.text if result.text else ''}"
        for result in record.results
        if result.outcome in bad
        and result.test not in kept
        and not (result.outcome == "failed" and result.metrics)
    ]
    missing = [plan.test for plan in record.planned if plan.test not in {*reported, *kept}]
    return lines + [f"{test}: planned, but never reported" for test in missing]


def _sections(cases: Sequence[Case], baseline: Baseline | None, drawn: int) -> str:
    if not cases or not drawn:
        return ""
    known = blocks.criteria_by_key(baseline)
    parts = [section(case, number, known) for number, case in enumerate(cases[:drawn])]
    more = ""
    if len(cases) > drawn:
        more = (
            f"<p>The {drawn} worst of {len(cases)} measurements are drawn; the journal has every "
            "value of all.</p>"
        )
    return f"<h2>Measurements</h2>{more}{''.join(parts)}"


def _provenance(record: RunRecord, baseline: Baseline | None) -> str:
    if baseline is None:
        return ""
    rate = baseline.error_rate
    confidence = baseline.confidence
    sure = f" with {percent(confidence)} confidence" if confidence is not None else " on average"
    nodes = len(baseline.nodes)
    rows = [
        ("baseline", f"{baseline.digest}, learned {moment_text(baseline.created)}"),
        ("hardware class", baseline.hardware_class),
        ("made of", ", ".join(f"{k} {v}" for k, v in sorted(baseline.attributes.items()))),
        ("nodes", "1: this machine against itself" if baseline.one_machine else str(nodes)),
        ("runs", f"{len(baseline.runs)}"),
        ("criteria", f"{len(baseline.criteria)}, centre by {baseline.method}"),
        (
            "a healthy node is rejected",
            "at an unknown rate: only practical thresholds apply"
            if rate is None
            else f"in {percent(rate)} of cases{sure}",
        ),
        ("units left out", f"{len(baseline.exclusions)}"),
    ]
    other = ""
    if record.baseline and baseline.digest and record.baseline != baseline.digest:
        other = (
            f"<p><b>The run was judged with baseline {html.escape(record.baseline)}</b>, which is "
            "not the one drawn here.</p>"
        )
    findings = blocks.lines_block("findings", [finding.text for finding in baseline.findings])
    return f"<h2>Where the limits come from</h2>{other}{_pairs(rows)}{findings}"


def _reading() -> str:
    rows = "".join(f"<dt>{word}</dt><dd>{meaning}</dd>" for word, meaning in _HELP)
    return f"<h2>How to read this page</h2><dl class='facts'>{rows}</dl>"
