"""The dossier: one run as one HTML page that opens anywhere, to be sent to whoever must mend the node."""

from __future__ import annotations

import html

from pytest_anubis.core.baseline import Baseline
from pytest_anubis.core.measurement import Measurement
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.verdict import MetricVerdict, Outcome
from pytest_anubis.report import blocks
from pytest_anubis.report.headline import baseline_line
from pytest_anubis.report.inventory_block import inventory_block
from pytest_anubis.report.numbers import duration_text
from pytest_anubis.report.style import BLOCKS

_PAGE_STYLE = """
:root{color-scheme:light dark}
body{margin:2em auto;max-width:72em;padding:0 1em;font:15px/1.5 system-ui,sans-serif}
h1{font-size:1.4em;margin-bottom:.2em}h2{font-size:1.1em;margin:1.6em 0 .3em}
.facts{opacity:.8}
section{break-inside:avoid;border-top:1px solid rgba(128,128,128,.3);padding-top:.4em}
@media print{details{display:block}body{margin:0}}
"""
_ORDER = (
    *(Outcome.FAIL, Outcome.MARGINAL, Outcome.INCONCLUSIVE, Outcome.NOT_TESTED),
    Outcome.PASS,
)


def run_page(record: RunRecord, baseline: Baseline | None = None) -> str:
    """Return the page of one run.

    Args:
        record: The run, complete or cut short.
        baseline: For the expected distributions in the plots; the verdicts do not need it.
    """
    title = (
        f"{record.node}: {record.node_verdict.decision if record.node_verdict else 'not judged'}"
    )
    verdict = record.node_verdict
    parts = [
        f"<h1>{html.escape(record.node)}</h1>",
        blocks.decision_block(verdict, "nothing was decided in this run"),
        f"<p class='facts'>{'<br>'.join(html.escape(fact) for fact in _facts(record, baseline))}</p>",
        blocks.lines_block("notes on the journal", record.warnings, open_=True),
        blocks.lines_block(
            "in the way of acceptance", verdict.blocking if verdict else (), open_=True
        ),
        blocks.lines_block("not judged, does not block", verdict.listed if verdict else ()),
        blocks.lines_block("tests that did not report", _silent(record), open_=True),
        inventory_block(record.inventory),
        "<h2>Measurements</h2>",
        *_sections(record, baseline),
    ]
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{html.escape(title)}</title><style>{_PAGE_STYLE}{BLOCKS}</style></head>"
        f"<body class='anubis'>{''.join(parts)}</body></html>\n"
    )


def _facts(record: RunRecord, baseline: Baseline | None) -> list[str]:
    facts = [
        f"run {record.run}, started {record.started}, ended {record.ended or 'never'}",
        f"hardware class {record.hardware_class}, profile {record.profile}",
    ]
    if baseline is not None:
        facts.append(baseline_line(baseline))
    return facts


def _silent(record: RunRecord) -> list[str]:
    bad = ("not reported", "crashed", "error", "failed")
    return [
        f"{result.test}: {result.outcome}{': ' + result.text if result.text else ''}"
        for result in record.results
        if result.outcome in bad and not (result.outcome == "failed" and result.metrics)
    ]


def _sections(record: RunRecord, baseline: Baseline | None) -> list[str]:
    verdicts: dict[tuple[str, str, str], MetricVerdict] = {}
    for verdict in record.verdicts:
        verdicts[(verdict.benchmark, verdict.metric, verdict.device)] = verdict
    keyed = [(m, verdicts.get((m.benchmark, m.metric.name, m.device))) for m in record.measurements]
    keyed.sort(key=lambda pair: _ORDER.index(pair[1].outcome) if pair[1] else len(_ORDER))
    return [_section(measurement, verdict, baseline) for measurement, verdict in keyed]


def _section(
    measurement: Measurement, verdict: MetricVerdict | None, baseline: Baseline | None
) -> str:
    metric = measurement.metric
    criterion = baseline and baseline.find(
        measurement.benchmark, metric.name, group=measurement.group
    )
    head = f"{measurement.benchmark} {measurement.device}"
    facts = (
        f"{measurement.component or 'no component'}; {len(measurement.values)} values in "
        f"{duration_text(measurement.seconds)}, {measurement.attempts} attempt"
        f"{'s' if measurement.attempts != 1 else ''}; {metric.better} is better"
    )
    parts = [f"<section><h2>{html.escape(head)}</h2><p class='facts'>{html.escape(facts)}</p>"]
    if metric.question:
        parts.append(f"<p>{html.escape(metric.question)}</p>")
    if verdict is not None:
        parts += [blocks.verdict_rows([verdict]), blocks.explanation(verdict)]
    else:
        parts.append(f"<p>{html.escape(metric.name)}, not judged</p>")
    parts += [blocks.plots(measurement, criterion or None, verdict), "</section>"]
    return "".join(parts)
