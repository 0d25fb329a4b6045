"""Prometheus' text format: what its parser demands, and no sample twice."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pytest_anubis.core.blocker import Blocker
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.verdict import Decision, MetricVerdict, NodeVerdict, Outcome, Reason, Triage
from pytest_anubis.report.export.prometheus_export import prometheus_text
from pytest_anubis.store.journal.journal_reading import read_journal
from tests.golden.runs import RUNS

LABEL = r'[a-z_]+="(?:[^"\\\n]|\\\\|\\"|\\n)*"'
SAMPLE = re.compile(rf"([a-z_]+)\{{({LABEL}(?:,{LABEL})*)\}} (NaN|[+-]Inf|-?[\d.e+-]+)")
NODE = NodeVerdict(
    node="n1",
    decision=Decision.REJECTED,
    headline="h",
    components=("accelerator.memory",),
    blocking=(Blocker(cause="a"), Blocker(cause="b")),
    counts=(("FAIL", 1), ("PASS", 3)),
    baseline="sha256:0",
)


def verdict(
    outcome: Outcome = Outcome.PASS,
    value: float | None = 1.0,
    name: str = "rate",
    device: str = "c",
) -> MetricVerdict:
    return MetricVerdict(
        outcome=outcome,
        reason=Reason.WITHIN,
        text="t",
        benchmark="b",
        metric=name,
        unit="GB/s",
        node="n1",
        device=device,
        value=value,
        similarity=0.9,
        threshold=0.95,
    )


def text_of(node: NodeVerdict | None, *verdicts: MetricVerdict, **facts: Any) -> str:
    known: dict[str, Any] = {"run": "r", "node": "n1", **facts}
    return prometheus_text(RunRecord(node_verdict=node, verdicts=verdicts, **known))


def samples(text: str) -> dict[tuple[str, str], str]:
    """Return (name, labels) -> value of a page, checked line by line."""
    assert text == "" or text.endswith("\n")
    found: dict[tuple[str, str], str] = {}
    described: list[str] = []
    for line in text.split("\n")[:-1]:
        if line.startswith("#"):
            match = re.fullmatch(r"# (?:HELP|TYPE) ([a-z_]+) .+", line)
            assert match, line
            described.append(match[1])
            continue
        match = SAMPLE.fullmatch(line)
        assert match, line
        assert described[-1] == match[1]  # one block for every name
        assert (match[1], match[2]) not in found
        found[match[1], match[2]] = match[3]
    assert len(described) == 2 * len(set(described))
    return found


def test_decisions_are_one_hot_and_counts_complete() -> None:
    found = samples(text_of(NODE, verdict(Outcome.FAIL)))
    decisions = {k[1]: v for k, v in found.items() if k[0] == "anubis_node_decision"}
    assert decisions == {
        'node="n1",decision="ACCEPTED"': "0.0",
        'node="n1",decision="REJECTED"': "1.0",
        'node="n1",decision="UNDECIDED"': "0.0",
    }
    assert found["anubis_node_verdicts", 'node="n1",outcome="MARGINAL"'] == "0.0"
    assert found["anubis_node_verdicts", 'node="n1",outcome="PASS"'] == "3.0"
    assert found["anubis_node_blocking", 'node="n1"'] == "2.0"
    assert found["anubis_node_blamed", 'node="n1",component="accelerator.memory"'] == "1.0"


def test_the_risk_that_is_left_has_its_interval() -> None:
    assert "residual" not in text_of(NODE)
    known = replace(NODE, residual_risk=0.004, residual_interval=(0.001, 0.02))
    found = samples(text_of(known))
    risks = {k[0]: v for k, v in found.items() if "residual" in k[0]}
    assert risks == {
        "anubis_node_residual_risk": "0.004",
        "anubis_node_residual_risk_low": "0.001",
        "anubis_node_residual_risk_high": "0.02",
    }


def test_of_two_verdicts_on_one_metric_the_last_counts() -> None:
    text = text_of(None, verdict(Outcome.FAIL, 1.0), verdict(Outcome.PASS, 2.0))
    found = samples(text)
    assert [value for (name, _), value in found.items() if name == "anubis_metric_value"] == ["2.0"]
    assert 'outcome="FAIL"' not in text


def test_the_run_has_times_and_class() -> None:
    facts = {"run": "r1", "hardware_class": "h100", "profile": "smoke"}
    facts["started"] = "2026-11-22T10:00:00.000+00:00"
    found = samples(text_of(NODE, **facts, ended="2026-11-22T10:05:00.500+00:00"))
    info = 'node="n1",run="r1",class="h100",profile="smoke"'
    assert found["anubis_run_info", info] == "1.0"
    assert found["anubis_run_duration_seconds", 'node="n1"'] == "300.5"
    began = float(found["anubis_run_start_time_seconds", 'node="n1"'])
    assert datetime.fromtimestamp(began, UTC).isoformat() == "2026-11-22T10:00:00+00:00"
    cut = {name for name, _ in samples(text_of(None, **facts))}
    assert cut == {"anubis_run_info", "anubis_run_start_time_seconds"}


def test_special_values_follow_the_format() -> None:
    odd = (math.nan, math.inf, -math.inf, None)
    text = text_of(None, *(verdict(value=v, device=str(v)) for v in odd))
    values = [v for (name, _), v in samples(text).items() if name == "anubis_metric_value"]
    assert values == ["NaN", "+Inf", "-Inf"]


@given(st.text(), st.floats(), st.sampled_from(list(Outcome)))
def test_any_name_and_value_makes_a_readable_file(
    name: str, value: float, outcome: Outcome
) -> None:
    samples(text_of(NODE, verdict(outcome, value, name, device=name)))


def test_unwritable_characters_yield_no_duplicates() -> None:
    devices = ("a\x1b[31m", "a\x07[31m", "a\ud800[31m")
    text = text_of(None, *(verdict(device=device) for device in devices))
    assert text.encode().decode() == text
    assert {char for char in text if not char.isprintable()} == {"\n"}
    assert len([key for key in samples(text) if key[0] == "anubis_metric_value"]) == 1


def test_triage_and_word_are_gauges() -> None:
    slow = replace(verdict(Outcome.FAIL), better="lower", similarity=0.5, certainty=0.9, retest="x")
    node = replace(NODE, triage=Triage.RETEST)
    found = samples(text_of(node, slow, verdict(Outcome.PASS, device="d")))
    shown = {name: value for (name, labels), value in found.items() if 'device="c"' in labels}
    assert (shown["anubis_metric_loss"], shown["anubis_metric_certainty"]) == ("1.0", "0.9")
    (labels,) = [labels for name, labels in found if name == "anubis_metric_triage"]
    assert 'triage="retest"' in labels
    assert found["anubis_node_word", 'node="n1",word="RETEST"'] == "1.0"
    assert found["anubis_node_word", 'node="n1",word="REJECTED"'] == "0.0"


def test_the_names_of_the_gauges_stay() -> None:
    found = samples(prometheus_text(read_journal(RUNS / "slow-card")))
    assert {name.removeprefix("anubis_") for name, _ in found} == {
        *("run_info", "run_start_time_seconds", "run_end_time_seconds", "run_duration_seconds"),
        *("node_decision", "node_verdicts", "node_blocking", "node_listed", "node_blamed"),
        *("node_baseline_info", "node_word", "metric_outcome", "metric_value", "metric_expected"),
        *("metric_similarity", "metric_threshold", "metric_loss", "metric_certainty"),
        "metric_triage",
    }
    decided = {labels: value for (name, labels), value in found.items() if "decision" in name}
    (yes,) = [labels for labels, value in decided.items() if float(value) == 1]
    assert 'decision="REJECTED"' in yes
