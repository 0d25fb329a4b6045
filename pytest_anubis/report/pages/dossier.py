"""The dossier: one run as one self-contained HTML page, for the people who repair the node.

`anubis report --html` and `anubis seal` make it; the pages of a fleet have one for each node.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from pytest_anubis.core.asking.next_step import shared_act
from pytest_anubis.core.asking.open_questions import asked_questions, kept_silent
from pytest_anubis.core.baseline import Baseline
from pytest_anubis.core.end_to_end import end_to_end_losses
from pytest_anubis.core.events import WorkerDied
from pytest_anubis.core.history import Defect
from pytest_anubis.core.metric import metric_name
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.verdict import HOST, MetricVerdict, Outcome, word_of
from pytest_anubis.report.pages import html_blocks as blocks
from pytest_anubis.report.pages.choice_report import selection_block
from pytest_anubis.report.pages.device_comparison import peers_figures
from pytest_anubis.report.pages.inventory_block import inventory_block
from pytest_anubis.report.pages.line_lists import without_repeated
from pytest_anubis.report.pages.metric_sections import Case, cases_of, overview, section
from pytest_anubis.report.pages.rendering import render
from pytest_anubis.report.text.next_command import next_of
from pytest_anubis.report.text.node_text import traits_text
from pytest_anubis.report.text.numbers import bytes_text, duration_text, moment_text, percent
from pytest_anubis.report.text.part_lines import part_lines
from pytest_anubis.report.text.shared_lines import (
    baseline_line,
    inventory_line,
    lane_texts,
    questions_text,
)
from pytest_anubis.report.text.summary_text import (
    STATED,
    stated_lines,
    unsearched_names,
    unsearched_text,
)

MAX_PLOTS = 300
"""Measurements drawn, the worst first; a page with thousands would not open on a phone."""
MAX_CARDS = 40
"""Blamed components shown one by one."""
MAX_OPEN_LINES = 20
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


def run_page(
    record: RunRecord,
    baseline: Baseline | None = None,
    *,
    drawn: int | None = None,
    home: str = "",
    closed: Sequence[Defect] = (),
) -> str:
    """Return the page of one run, complete or cut short.

    Args:
        record: The run.
        baseline: For the expected distributions in plots and their origin; the verdicts do not need it.
        drawn: Measurements with plots, the worst first; None: as many as a page can hold.
        home: Place of the page of the whole fleet that this one belongs to; empty if there is none.
        closed: Defects of the node's class that operators have closed.
    """
    verdict = record.node_verdict
    drawn = MAX_PLOTS if drawn is None else min(drawn, MAX_PLOTS)
    verdicts = record.effective_verdicts
    cases = cases_of(record.measurements, verdicts)
    criteria = blocks.criteria_by_key(baseline)
    blocking = list(map(str, verdict.blocking)) if verdict else []
    word = word_of(verdict, verdicts) if verdict else "not judged"
    return render(
        "dossier.html",
        title=f"{record.node}: {word}",
        word=word,
        home=home,
        record=record,
        step=next_of(record),
        facts=_facts(record, baseline),
        shared=part_lines(verdict),
        wrong=_wrong(record, verdicts, closed),
        max_cards=MAX_CARDS,
        waived=[
            f"{metric_name(v.benchmark, v.metric, v.device)}: {v.text}"
            for v in verdicts
            if v.waiver is not None
        ],
        blocking=blocking,
        max_open=MAX_OPEN_LINES,
        lists=_lists(record, blocking),
        choice=selection_block(record.choice),
        peers=peers_figures(cases if drawn >= MAX_PLOTS else _same_metrics(cases, drawn)),
        overview=overview(cases, verdicts, drawn) if cases else "",
        sections=[section(case, number, criteria) for number, case in enumerate(cases[:drawn])],
        cases=cases,
        baseline=baseline,
        provenance=_provenance(baseline) if baseline else (),
        findings=[finding.text for finding in baseline.findings] if baseline else (),
        inventory=inventory_block(record.inventory, open_=True),
    )


def _same_metrics(cases: Sequence[Case], drawn: int) -> list[Case]:
    """Return all measurements of the metrics that are drawn."""
    names = {(c.measurement.benchmark, c.measurement.metric.name) for c in cases[:drawn]}
    return [c for c in cases if (c.measurement.benchmark, c.measurement.metric.name) in names]


def _facts(record: RunRecord, baseline: Baseline | None) -> list[tuple[str, str]]:
    status = record.exit_status
    questions = asked_questions(record.planned, record.effective_verdicts, record.results)
    return [
        ("hardware", _hardware(record.inventory)),
        ("inventory", inventory_line(record.inventory, record.settings.get("inventory"))),
        ("hardware class", record.hardware_class),
        ("known of it", traits_text(record.traits)),
        ("held against", baseline_line(baseline) if baseline else record.baseline),
        ("run", record.run),
        ("time", _time(record)),
        ("profile", record.profile),
        ("questions", questions_text(questions)),
        ("lanes", "; ".join(lane_texts(record.lanes))),
        ("exit status", "" if status is None else f"{status}, {_EXIT.get(status, 'unknown')}"),
    ]


def _hardware(inventory: Mapping[str, Any]) -> str:
    """Return the machine's parts in one line; parts of an unknown shape are left out."""
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
    if not record.started:  # an import
        return ""
    try:
        began = datetime.datetime.fromisoformat(record.started)
        ended = datetime.datetime.fromisoformat(record.ended)
        took = (ended - began).total_seconds()
    except (ValueError, TypeError):  # TypeError: one of them has no time zone
        # Files of results give one moment, not how long the run took.
        if not (record.ended or record.settings or record.planned):
            return moment_text(record.started)
        return f"{moment_text(record.started)}, {'ended ' + record.ended if record.ended else 'cut short'}"
    return moment_text(record.started) + (f", took {duration_text(took)}" if took > 0 else "")


def _wrong(
    record: RunRecord, verdicts: Sequence[MetricVerdict], closed: Sequence[Defect]
) -> list[tuple[str, list[Markup]]]:
    """Return a box for each blamed part, below the title of its severity."""
    bad = [v for v in verdicts if v.outcome is Outcome.FAIL]
    unusual = [v for v in verdicts if v.outcome is Outcome.MARGINAL]
    # A card that fails has one box, with its unusual metrics.
    failed = {v.device for v in bad} - set(HOST)
    bad += [v for v in unusual if v.device in failed]
    unusual = [v for v in unusual if v.device not in failed]
    step = shared_act(record.node_verdict)
    losses = end_to_end_losses(verdicts)
    return [
        (
            title,
            blocks.blamed_parts(
                some, record.cards, record.inventory, step=step, losses=losses, closed=closed
            ),
        )
        for title, some in (
            ("What is wrong", bad),
            ("Unusual for this fleet, not yet costly", unusual),
        )
        if some
    ]


def _lists(record: RunRecord, blocking: Sequence[str]) -> list[tuple[str, Sequence[str], bool]]:
    """Return what else was not judged or seen: title, lines, whether unfolded; empty lists are left out."""
    verdicts = record.effective_verdicts
    died = [
        f"{event.worker or 'worker'}: {event.text or 'died'}"
        for event in record.events
        if isinstance(event, WorkerDied)
        and not (event.test and any(event.test in line for line in blocking))
    ]
    failed = "tests that crashed, failed outside a measurement or never reported"
    lists: list[tuple[str, Sequence[str], bool]] = [
        (failed, without_repeated(_silent(record), blocking), True),
        ("processes that died", died, True),
        ("about the journal itself", record.warnings, True),
        (unsearched_text(verdicts), unsearched_names(verdicts), False),
        (STATED, stated_lines(record.results), False),
    ]
    return [one for one in lists if one[1]]


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


def _provenance(baseline: Baseline) -> list[tuple[str, str]]:
    """Return the facts of the baseline that the limits come from."""
    rate = baseline.error_rate
    confidence = baseline.confidence
    sure = f" with {percent(confidence)} confidence" if confidence is not None else " on average"
    return [
        ("baseline", f"{baseline.digest}, learned {moment_text(baseline.created)}"),
        ("hardware class", baseline.hardware_class),
        ("made of", ", ".join(f"{k} {v}" for k, v in sorted(baseline.attributes.items()))),
        (
            "nodes",
            "1: this machine against itself" if baseline.one_machine else str(len(baseline.nodes)),
        ),
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
