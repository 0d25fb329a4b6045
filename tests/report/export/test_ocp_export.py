"""OCP Test & Validation: every line fits the schema, and says what the other exports say."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_anubis.cli.shared.run_lookup import completed
from pytest_anubis.core.events import TestRan
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.verdict import (
    Decision,
    MetricVerdict,
    NodeVerdict,
    Outcome,
    Reason,
    Reference,
    Triage,
    Waiver,
)
from pytest_anubis.core.waiving import with_waiver
from pytest_anubis.report.export.junit_export import properties
from pytest_anubis.report.export.ocp_export import ocp_text, run_end
from pytest_anubis.report.export.prometheus_export import prometheus_text
from pytest_anubis.report.export.run_json import run_json
from pytest_anubis.store.baselines.baseline_files import find_baseline, load_baseline
from pytest_anubis.store.journal.journal_reading import read_journal
from tests.cli.command_line import anubis
from tests.golden.runs import BASELINES, EVERY, RUNS, journal_of, prepare, start
from tests.report import sample_run
from tests.report.export.ocp_rules import artifacts, wrong_lines

JUDGED = [run.name for run in EVERY if run.name != "measured"]


def recorded(name: str) -> RunRecord:
    """Return a recorded run as 'anubis report' shows it."""
    record = read_journal(RUNS / name)
    path = find_baseline(BASELINES, record.hardware_class)
    return completed(record, None if path is None else load_baseline(path))


@pytest.fixture(scope="module")
def pruned(tmp_path_factory: pytest.TempPathFactory) -> RunRecord:
    """Return a run within a budget that left a benchmark out, and that accepted its node."""
    (run,) = (run for run in EVERY if run.name == "accepted")
    folder = tmp_path_factory.mktemp("pruned")
    prepare(run, folder)
    budget = ("--anubis-select=budget", "--anubis-budget=2m", "--anubis-explore=0")
    done = start(run, folder, "--anubis-run-id=accepted", *budget)
    assert done.returncode == 0, done.stdout + done.stderr
    return read_journal(journal_of(run, folder))


def said(record: RunRecord) -> list[dict[str, Any]]:
    """Return the artifacts of a run that passes the checker."""
    output = ocp_text(record)
    assert wrong_lines(output) == []
    return artifacts(output)


def of_kind(found: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [{**one[kind], "step": one["step"]} for one in found if kind in one]


def statuses(found: list[dict[str, Any]]) -> dict[str, str]:
    return {one["step"]: one["status"] for one in of_kind(found, "testStepEnd")}


# The schema


def test_every_line_of_a_pruned_run_fits(pruned: RunRecord) -> None:
    assert [one.reason for one in pruned.verdicts].count(Reason.PRUNED) == 1
    found = said(pruned)
    assert sorted(statuses(found).values()) == ["COMPLETE"] * 4 + ["SKIP"]
    assert run_end(pruned) == ("COMPLETE", "PASS")


def test_a_run_with_telemetry_fits() -> None:
    found = said(sample_run.record())
    starts = of_kind(found, "measurementSeriesStart")
    power = [one for one in starts if one["name"] == "GPU 3 power"]
    assert {one["unit"] for one in power} == {"W"}
    elements = [one for one in found if "measurementSeriesElement" in one]
    assert len(elements) == sum(e["totalCount"] for e in of_kind(found, "measurementSeriesEnd"))
    values = [one for one in starts if one["name"] == "triad_rate.values"]
    assert len(values) == 8
    first = values[0]["measurementSeriesId"]
    shown = [
        e["value"]
        for e in of_kind(found, "measurementSeriesElement")
        if e["measurementSeriesId"] == first
    ]
    (measured,) = (
        m
        for m in sample_run.record().measurements
        if (m.metric.name, m.device) == ("triad_rate", "cuda:0")
    )
    assert shown == list(measured.values)


def line_with(kind: str) -> int:
    lines = ocp_text(recorded("accepted")).splitlines()
    return next(n for n, line in enumerate(lines) if f'"{kind}"' in line)


def step(data: dict[str, Any], kind: str) -> Any:
    return data["testStepArtifact"][kind]


WRONG: dict[str, tuple[str, Callable[[dict[str, Any]], Any]]] = {
    "NaN": ("measurement", lambda d: json.dumps(d).replace(str(step(d, "measurement")["value"]), "NaN")),
    "null": ("measurement", lambda d: step(d, "measurement").update(unit=None)),
    "no value": ("measurement", lambda d: step(d, "measurement").pop("value")),
    "unknown field": ("measurement", lambda d: step(d, "measurement").update(limit=1)),
    "validator of a set": (
        "measurement",
        lambda d: step(d, "measurement").update(validators=[{"type": "IN_SET", "value": [1]}]),
    ),
    "unknown validator": (
        "measurement",
        lambda d: step(d, "measurement").update(validators=[{"type": "AT_MOST", "value": 1}]),
    ),
    "unknown part": ("measurement", lambda d: step(d, "measurement").update(hardwareInfoId="gpu9")),
    "verdict of the format": ("diagnosis", lambda d: step(d, "diagnosis").update(type="MARGINAL")),
    "severity": ("testStepEnd", lambda d: d["testStepArtifact"].update(log={"severity": "BAD"})),
    "status": ("testStepEnd", lambda d: step(d, "testStepEnd").update(status="PASS")),
    "two artifacts": ("testStepStart", lambda d: d.update(testRunArtifact={})),
    "end of a run": ("testRunEnd", lambda d: d["testRunArtifact"]["testRunEnd"].update(status="ERROR")),
    "sequence": ("testStepStart", lambda d: d.update(sequenceNumber=0)),
    "huge sequence": ("testStepStart", lambda d: d.update(sequenceNumber=2**31)),
    "time": ("testStepStart", lambda d: d.update(timestamp="yesterday")),
    "back in time": ("testStepEnd", lambda d: d.update(timestamp="2001-01-01T00:00:00.000000Z")),
    "step that is not open": ("testStepEnd", lambda d: d["testStepArtifact"].update(testStepId="9")),
    "element of a series": (
        "measurementSeriesElement",
        lambda d: step(d, "measurementSeriesElement").update(index=5),
    ),
    "count of a series": (
        "measurementSeriesEnd",
        lambda d: step(d, "measurementSeriesEnd").update(totalCount=1),
    ),
    "no node": ("testRunStart", lambda d: d["testRunArtifact"]["testRunStart"].pop("dutInfo")),
    "nested metadata": (
        "testRunStart",
        lambda d: d["testRunArtifact"]["testRunStart"]["dutInfo"]["metadata"].update(a={"b": 1}),
    ),
    "other version": ("schemaVersion", lambda d: d["schemaVersion"].update(major=1)),
    "extension": ("extension", lambda d: step(d, "extension").update(content="x")),
    "no JSON": ("testStepEnd", lambda d: "{"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_the_checker_refuses_a_wrong_line(what: str) -> None:
    kind, change = WRONG[what]
    number = line_with(kind)
    lines = ocp_text(recorded("accepted")).splitlines()
    data = json.loads(lines[number])
    made = change(data)
    lines[number] = made if isinstance(made, str) else json.dumps(data)
    wrong = wrong_lines("\n".join(lines) + "\n")
    assert wrong, what
    assert wrong[0].startswith(f"line {number}"), wrong


def test_the_checker_refuses_a_run_without_end() -> None:
    lines = ocp_text(recorded("accepted")).splitlines()
    assert wrong_lines("\n".join(lines[:-1]) + "\n") == ["the run has no end"]
    assert wrong_lines("\n".join(lines)) == ["the last line has no end"]


def test_the_checker_refuses_a_broken_limit_without_a_reason() -> None:
    lines = [json.loads(line) for line in ocp_text(recorded("slow-card")).splitlines()]
    left = [one for one in lines if "diagnosis" not in one.get("testStepArtifact", {})]
    text = "".join(json.dumps({**one, "sequenceNumber": n}) + "\n" for n, one in enumerate(left))
    assert wrong_lines(text)


# The facts


@pytest.mark.parametrize("name", JUDGED)
def test_the_facts_are_those_of_the_other_exports(name: str) -> None:
    record = recorded(name)
    found = said(record)
    shown = [one["content"] for one in of_kind(found, "extension")]
    node = next(one for one in shown if one["@type"] == "anubis.node/v1")
    verdicts = [one for one in shown if one["@type"] == "anubis.verdict/v1"]
    plain = json.loads(run_json(record))
    names = ("benchmark", "metric", "device")
    waived = {tuple(v.get(n, "") for n in names) for v in verdicts if v["reason"] == "waived"}
    by_ocp, by_json = (
        sorted(
            (*place, v["outcome"], v["reason"])
            for v in given
            if (place := tuple(v.get(n, "") for n in names))
            not in waived  # JSON has them before waivers
        )
        for given in (verdicts, plain["verdicts"])
    )
    assert by_ocp == by_json
    assert node["decision"] == plain["node_verdict"]["decision"]
    assert node["components"] == plain["node_verdict"]["components"]
    effective = record.effective_verdicts
    junit = [v for key, v in properties(effective) if key.endswith(".verdict")]
    assert sorted(junit) == sorted(v["outcome"] for v in verdicts)
    gauges = prometheus_text(record)
    assert f'decision="{node["decision"]}"}} 1.0' in gauges
    by_gauges = re.findall(r'^anubis_metric_outcome\{.*outcome="(\w+)"', gauges, re.MULTILINE)
    last = {
        (v["benchmark"], v.get("metric"), v.get("device"), v["scope"]): v["outcome"]
        for v in verdicts
    }
    assert sorted(by_gauges) == sorted(last.values())  # of several on one metric the last
    values = sorted(
        float(v) for v in re.findall(r"^anubis_metric_value\{.*\} (.+)$", gauges, re.MULTILINE)
    )
    judged = [m for m in of_kind(found, "measurement") if "validators" in m]
    medians = [m for m in of_kind(found, "measurement") if not m["name"].endswith(".similarity")]
    assert set(values) <= {m["value"] for m in medians}
    likes = re.findall(r"^anubis_metric_similarity\{.*\} (.+)$", gauges, re.MULTILINE)
    assert sorted(map(float, likes)) == sorted(
        m["value"] for m in judged if m["name"].endswith(".similarity")
    )
    limits = sorted(v.limit for v in effective if v.limit is not None)
    assert limits == sorted(
        one["value"] for m in judged for one in m["validators"] if one["name"] == "limit"
    )


@pytest.mark.parametrize(
    ("name", "end"),
    [
        ("accepted", ("COMPLETE", "PASS")),
        ("slow-card", ("COMPLETE", "FAIL")),
        ("skipped", ("ERROR", "NOT_APPLICABLE")),
        ("crashed", ("COMPLETE", "FAIL")),
        ("killed", ("COMPLETE", "FAIL")),
        ("measured", ("SKIP", "NOT_APPLICABLE")),
    ],
)
def test_the_end_of_a_run_follows_its_decision(name: str, end: tuple[str, str]) -> None:
    assert run_end(recorded(name)) == end
    assert said(recorded(name))


def test_a_run_cut_short_fails_only_surely_bad_hardware() -> None:
    record = recorded("killed")
    verdict = record.node_verdict
    assert verdict is not None
    assert verdict.decision is Decision.UNDECIDED
    nothing = ("ERROR", "NOT_APPLICABLE")
    unsure = replace(record, node_verdict=replace(verdict, triage=Triage.RETEST))
    assert run_end(unsure) == nothing
    assert run_end(replace(record, node_verdict=replace(verdict, components=()))) == nothing
    assert run_end(replace(record, node_verdict=None)) == nothing
    for one in (unsure, replace(record, node_verdict=None)):
        assert "run-broken-off" in [e["symptom"] for e in of_kind(said(one), "error")]


def test_an_acceptance_that_went_wrong_is_no_pass() -> None:
    record = recorded("accepted")
    assert run_end(replace(record, exit_status=4)) == ("ERROR", "NOT_APPLICABLE")
    assert run_end(replace(record, exit_status=None)) == ("COMPLETE", "PASS")  # judged with others


VERDICT = MetricVerdict(
    outcome=Outcome.PASS,
    reason=Reason.WITHIN,
    text="as expected",
    benchmark="b",
    metric="rate",
    unit="GB/s",
    better="higher",
    component="disk",
    device="cuda:1",
    value=4.0,
    expected=5.0,
    limit=4.5,
    similarity=0.8,
    threshold=0.9,
    reference=Reference.FLEET,
)
NODE = NodeVerdict(node="n1", decision=Decision.UNDECIDED, headline="h")


def run_with(*verdicts: MetricVerdict, **more: Any) -> RunRecord:
    return RunRecord(run="r", node="n1", verdicts=verdicts, node_verdict=NODE, **more)


@pytest.mark.parametrize(
    ("outcome", "kinds", "kind", "status"),
    [
        (Outcome.PASS, ["diagnosis"], "PASS", "COMPLETE"),
        (Outcome.MARGINAL, ["log", "diagnosis"], "UNKNOWN", "COMPLETE"),
        (Outcome.FAIL, ["diagnosis"], "FAIL", "COMPLETE"),
        (Outcome.INCONCLUSIVE, ["error"], "", "ERROR"),
        (Outcome.NOT_TESTED, ["log"], "", "SKIP"),
    ],
)
def test_each_verdict_has_its_artifact(
    outcome: Outcome, kinds: list[str], kind: str, status: str
) -> None:
    found = [
        a for a in said(run_with(replace(VERDICT, outcome=outcome))) if a["step"] != "node-verdict"
    ]
    spoken = [k for a in found for k in ("log", "error", "diagnosis") if k in a]
    assert spoken == kinds
    assert [one["type"] for one in of_kind(found, "diagnosis")] == ([kind] if kind else [])
    assert list(statuses(found).values()) == [status]


def test_a_waived_failure_is_a_diagnosis_with_its_waiver() -> None:
    waiver = Waiver(owner="j.doe", reason="known", expires="2099-01-01")
    failed = replace(VERDICT, outcome=Outcome.FAIL, reason=Reason.BEYOND)
    found = said(run_with(with_waiver(failed, [waiver])))
    (diagnosis,) = (one for one in of_kind(found, "diagnosis") if one["step"] != "node-verdict")
    assert (diagnosis["type"], "j.doe" in diagnosis["message"]) == ("UNKNOWN", True)
    assert diagnosis["verdict"].endswith("waived")
    assert next(iter(statuses(found).values())) == "COMPLETE"


def test_a_pass_by_its_peers_alone_is_no_pass() -> None:
    found = said(run_with(replace(VERDICT, reference=Reference.PEERS)))
    assert [one["type"] for one in of_kind(found, "diagnosis")] == ["UNKNOWN"]


@pytest.mark.parametrize(
    ("better", "validator"),
    [("higher", "GREATER_THAN_OR_EQUAL"), ("lower", "LESS_THAN_OR_EQUAL"), ("equal", "EQUAL")],
)
def test_the_limit_is_a_validator_in_the_metrics_unit(better: str, validator: str) -> None:
    value, similarity = of_kind(said(run_with(replace(VERDICT, better=better))), "measurement")
    assert (value["name"], value["value"], value["unit"]) == ("rate", 4.0, "GB/s")
    (limit,) = value["validators"]
    assert (limit["type"], limit["value"]) == (validator, 4.5)
    assert (similarity["name"], similarity["value"]) == ("rate.similarity", 0.8)
    assert [(one["type"], one["value"]) for one in similarity["validators"]] == [
        ("GREATER_THAN_OR_EQUAL", 0.9)
    ]


def test_a_value_that_is_no_number_is_an_error() -> None:
    record = sample_run.record()
    first = record.measurements[0]
    odd = replace(
        first,
        values=(1.0, math.nan, 2.0, math.inf),
        metric=Metric(name="odd", unit="s", better="lower"),
    )
    more = replace(VERDICT, value=math.nan, limit=math.inf, similarity=math.nan)
    found = said(replace(record, measurements=(odd,), verdicts=(more,)))
    assert [one["symptom"] for one in of_kind(found, "error")].count("value-not-finite") == 2
    assert [one["value"] for one in of_kind(found, "measurement")] == [1.5]
    ends = of_kind(found, "measurementSeriesEnd")
    assert ends[0]["totalCount"] == 2


def test_the_parts_are_those_of_the_inventory() -> None:
    record = recorded("slow-card")
    head = json.loads(ocp_text(record).splitlines()[1])["testRunArtifact"]["testRunStart"]
    parts = {one["hardwareInfoId"]: one for one in head["dutInfo"]["hardwareInfos"]}
    card = record.inventory["accelerators"][5]
    assert parts["cuda:5"]["serialNumber"] == card["serial"]
    assert parts["cuda:5"]["location"] == card["pci"]
    software = {one["softwareInfoId"]: one for one in head["dutInfo"]["softwareInfos"]}
    assert software["vbios:cuda:5"]["version"] == card["vbios"]
    assert software["vbios:cuda:5"]["softwareType"] == "FIRMWARE"
    failed = [one for one in of_kind(said(record), "diagnosis") if one["type"] == "FAIL"]
    assert [one.get("hardwareInfoId") for one in failed] == ["cuda:5", None]


def test_a_redacted_run_shows_no_serial_number() -> None:
    record = recorded("slow-card")
    hidden = json.loads(
        re.sub(r'"(serial|uuid)": "[^"]*"', r'"\1": "redacted"', json.dumps(dict(record.inventory)))
    )
    serials = {str(one["serial"]) for one in record.inventory["accelerators"]}
    output = ocp_text(
        replace(
            record,
            inventory=hidden,
            results=(),  # their texts name the card, as this run was not redacted
            verdicts=(),
            node_verdict=None,
            traits={"serial": min(serials)},
        )
    )
    assert wrong_lines(output) == []
    assert "serialNumber" not in output
    assert not any(serial in output for serial in serials)


def test_a_report_of_the_gate_names_the_card() -> None:
    found = of_kind(said(recorded("faults")), "diagnosis")
    named = {one["verdict"]: one.get("hardwareInfoId") for one in found}
    assert named["accelerator-pcie-pcie-link-width-beyond"] == "cuda:2"
    assert named["accelerator-vbios-version-beyond"] == "cuda:4"


def test_times_stay_within_the_run() -> None:
    record = replace(recorded("crashed"), events=())
    results = tuple(replace(one, seconds=0.2, around=0.0) for one in record.results)
    endless = tuple(replace(one, seconds=1e300) for one in record.results)
    for one in (
        record,
        replace(record, results=results),
        replace(record, results=endless, ended=""),
        replace(record, started="", ended=""),
    ):
        stamps = [json.loads(line)["timestamp"] for line in ocp_text(one).splitlines()]
        assert stamps == sorted(stamps)
        assert not one.ended or stamps[-1][:19] == record.ended[:19]


def test_tests_side_by_side_are_in_the_order_of_time() -> None:
    record = recorded("crashed")
    tests = [plan.test for plan in record.planned]
    late_first = zip(tests, reversed(range(len(tests))), strict=True)
    ran = [TestRan(test=t, worker="gw0", start=n, end=n + 1.5) for t, n in late_first]
    found = said(replace(record, events=tuple(ran), ended=""))
    marks = [next(iter(one.keys() & {"testStepStart", "testStepEnd"}), "") for one in found]
    order = [one["step"] for one, mark in zip(found, marks, strict=True) if mark == "testStepStart"]
    assert order[: len(tests)] == tests[::-1]
    assert [mark for mark in marks if mark][:3] == ["testStepStart", "testStepStart", "testStepEnd"]


# Anything that a file may say


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ("accelerators", "system", "nics", "disks", "drivers", "name", "serial", "pci")
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(
            ("accelerators", "system", "processor", "disks", "nics", "drivers", "software")
        ),
        ANYTHING,
        max_size=4,
    ),
    st.text(max_size=8),
    st.floats(),
    st.sampled_from(list(Outcome)),
)
def test_any_inventory_name_and_value_fits(
    inventory: dict[str, Any], name: str, value: float, outcome: Outcome
) -> None:
    odd = replace(
        VERDICT, outcome=outcome, metric=name, device=name, value=value, text=name, unit=name
    )
    output = ocp_text(run_with(odd, inventory=inventory, devices=(name,), started=name))
    assert wrong_lines(output) == []
    assert output.isascii()


def test_one_node_is_written_and_no_fleet(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    rows = "".join(f"n{n},b,rate,GB/s,higher,{n}\n" for n in (1, 2))
    table.write_text(f"node,benchmark,metric,unit,better,value\n{rows}")
    both = anubis("report", str(table), "--ocp", "-")
    assert (both.returncode, both.stdout) == (2, "")
    assert "--ocp writes one node" in both.stderr
    nodes = tmp_path / "nodes.csv"
    nodes.write_text("node,rack\nother,7\n")
    one = anubis("report", str(table), "--node=n2", f"--nodes-file={nodes}", "--ocp", "-")
    assert wrong_lines(one.stdout) == []  # what is said of the table is not in there
    assert "no node of this table was judged" in one.stderr
    assert json.loads(one.stdout.splitlines()[-1])["testRunArtifact"]["testRunEnd"] == {
        "status": "ERROR", "result": "NOT_APPLICABLE",
    }  # fmt: skip
    fleet = anubis("report", "--fleet", str(table), "--html", str(tmp_path / "d"), "--ocp", "-")
    assert fleet.returncode == 2


def test_the_file_is_whole(tmp_path: Path) -> None:
    run, target = str(RUNS / "accepted"), tmp_path / "run.jsonl"
    printed = anubis("report", run, "--ocp", "-")
    assert printed.returncode == 0, printed.stderr
    assert anubis("report", run, "--ocp", str(target)).returncode == 0
    assert target.read_text(encoding="utf-8") == printed.stdout
    assert wrong_lines(printed.stdout) == []
    assert "slow" not in printed.stdout
