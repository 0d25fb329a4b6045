"""The dossier and the page of what was learned: complete, escaped, self-contained, small."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_anubis.core.asking.next_step import next_step
from pytest_anubis.core.baseline import Baseline, Exclusion, Finding
from pytest_anubis.core.blocker import Blocker
from pytest_anubis.core.events import WorkerDied
from pytest_anubis.core.measurement import PlannedTest, TestResult
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.sample import population_of
from pytest_anubis.core.verdict import (
    Decision,
    MetricVerdict,
    NodeVerdict,
    Outcome,
    Reason,
    Reference,
)
from pytest_anubis.report.pages import dossier as page_module
from pytest_anubis.report.pages import learned_page as learn_module
from pytest_anubis.report.pages import metric_sections as cases_module
from pytest_anubis.report.pages.dossier import run_page
from pytest_anubis.report.pages.html_blocks import blamed_parts, identity_text
from pytest_anubis.report.pages.inventory_block import inventory_block
from pytest_anubis.report.pages.learned_page import learn_page
from pytest_anubis.report.pages.line_lists import merge_alike
from pytest_anubis.report.pages.metric_sections import cases_of, overview, short
from pytest_anubis.report.pages.rendering import block
from tests.report import sample_run as dossier
from tests.report.page_rules import Page, Rules

EVIL = dossier.EVIL


@pytest.fixture(scope="module")
def learned() -> Baseline:
    return dossier.baseline()


@pytest.fixture(scope="module")
def record(learned: Baseline) -> RunRecord:
    return dossier.record(learned)


@pytest.fixture(scope="module")
def html(record: RunRecord, learned: Baseline) -> str:
    return run_page(record, learned)


@pytest.fixture(scope="module")
def page(html: str) -> Page:
    return Page(html)


@pytest.fixture(scope="module")
def learned_html(learned: Baseline) -> str:
    return learn_page(learned, dossier.populations())


@pytest.fixture
def failure(record: RunRecord) -> MetricVerdict:
    (found,) = [v for v in record.verdicts if v.outcome is Outcome.FAIL]
    return found


def test_decision_blamed_part_and_next_step_come_first(page: Page) -> None:
    order = [
        page.text.index(words)
        for words in (
            "rack4-node17",
            "REJECTED",
            "What is wrong",
            "cuda:3: accelerator.memory",
            "next step: reseat the card",
            "What was not judged",
            "All metrics",
            "Measurements",
            "Where the limits come from",
            "Hardware and software",
        )
    ]
    assert order == sorted(order)


def test_the_blamed_card_has_its_slot_and_serial_number(record: RunRecord, page: Page) -> None:
    card, other = record.inventory["accelerators"][3:5]
    wrong = page.text[page.text.index("What is wrong") : page.text.index("What was not judged")]
    assert f"slot {card['pci']}" in wrong
    assert f"serial number {card['serial']}" in wrong
    assert other["serial"] not in wrong


@pytest.mark.parametrize(
    "words",
    [
        "test_all_reduce: planned, but never reported",
        "gw3: killed by signal 9",
        "another process used 1.3 cores",
        "power limit 700 W",
        "memory clock max 2619 MHz",
    ],
)
def test_open_points_and_readings_are_shown(page: Page, words: str) -> None:
    assert words in page.text


def test_every_measurement_has_a_row_a_section_and_plots(record: RunRecord, page: Page) -> None:
    links = {attributes["href"][1:] for tag, attributes in page.tags if tag == "a"}
    assert len(record.measurements) == 32
    assert links == set(page.ids) == {f"c{i}" for i in range(32)}
    labels = [attributes["aria-label"] for tag, attributes in page.tags if tag == "svg"]
    assert sum("distribution" in label for label in labels) == 32
    assert sum("in time order" in label for label in labels) == 32
    cases = [tag for tag, attributes in page.tags if attributes.get("class") == "case"]
    assert cases == ["section"] * 2 + ["details"] * 30  # what passed is folded


def test_a_failure_that_noise_makes_unsure_has_one_row(record: RunRecord) -> None:
    noisy = dataclasses.replace(
        record, settings={**record.settings, "quiet_limits": {"others": 0.93}}
    )

    def rows(run: RunRecord) -> int:
        cases = cases_of(run.measurements, run.effective_verdicts)
        return overview(cases, run.effective_verdicts, 9).count("<tr>")  # its second call

    assert rows(noisy) == rows(record)


def test_a_compared_metric_without_criterion_has_one_row(record: RunRecord) -> None:
    measured = record.measurements[0]
    bare = MetricVerdict(
        outcome=Outcome.NOT_TESTED,
        reason=Reason.NO_CRITERION,
        text="too noisy",
        benchmark=measured.benchmark,
        metric=measured.metric.name,
        device=measured.device,
    )
    near = dataclasses.replace(
        bare, outcome=Outcome.PASS, reason=Reason.WITHIN, reference=Reference.SELF
    )
    other = dataclasses.replace(bare, device="cuda:9")

    def rows(*verdicts: MetricVerdict) -> tuple[int, int]:
        table = overview(cases_of([measured], verdicts), verdicts, 0)
        return table.count(">NOT_JUDGED<"), table.count(">NOT_TESTED<")

    assert rows(bare, near) == (1, 0)
    assert rows(bare) == (0, 1)
    assert rows(other, near)[1] == 1


def test_pages_can_be_used_by_everybody_and_stand_alone(html: str, learned_html: str) -> None:
    for one in (html, learned_html):
        # A table here is named by the heading above it.
        assert set(Rules(one).wrong) <= {"a table that nothing names"}
        tags = {tag for tag, _ in Page(one).tags}
        assert not tags & {"script", "link", "img", "iframe", "object"}
        assert not re.search(r"https?:|url\(|@import|src=", one)
        assert len(one) < 400_000
        assert "(prefers-color-scheme:dark)" in one
        assert not re.search(r"@media \(prefers", one), "dark colours on paper"
        assert "@media print" in one
        assert "name='viewport'" in one


def test_a_page_is_the_same_every_time(record: RunRecord, learned: Baseline, html: str) -> None:
    assert run_page(record, learned) == html


def evil_copy(value: Any) -> Any:
    """Return a value with markup in every text that may hold any."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        changed = {
            field.name: evil_copy(getattr(value, field.name))
            for field in dataclasses.fields(value)
            if field.name not in ("outcome", "reason", "decision", "better", "scope", "reference")
        }
        return dataclasses.replace(value, **changed)
    if isinstance(value, str):
        return value + EVIL
    if isinstance(value, tuple | list):
        return type(value)(evil_copy(item) for item in value)
    if isinstance(value, dict):
        return {evil_copy(key): evil_copy(item) for key, item in value.items()}
    return value


def test_markup_in_any_text_stays_text(record: RunRecord, learned: Baseline) -> None:
    evil = dataclasses.replace(
        evil_copy(record), inventory={EVIL: evil_copy(dict(record.inventory))}
    )
    found = [Finding(kind="x", text=EVIL), Finding(kind="x", text=EVIL, benchmark="b", metric="m")]
    left = Exclusion(node=EVIL, device=EVIL, benchmark=EVIL, metric=EVIL, reason=EVIL)
    tainted = dataclasses.replace(
        evil_copy(learned), findings=tuple(found), exclusions=(left,), digest=EVIL
    )
    for one in (run_page(evil, tainted), learn_page(tainted, dossier.populations(3))):
        page = Page(one)
        assert "script" not in {tag for tag, _ in page.tags}
        assert EVIL in page.text


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (
            RunRecord(run="r", node="n", started="yesterday", planned=(PlannedTest(test="t::x"),)),
            ("nothing was judged", "t::x: planned, but never reported", "cut short"),
        ),
        # A file of results has a moment and no duration.
        (RunRecord(run="f.csv", node="n", started="2026-05-01T12:00:00+00:00"), ("2026-05-01",)),
    ],
)
def test_a_run_without_measurements_has_a_page(run: RunRecord, words: tuple[str, ...]) -> None:
    text = Page(run_page(run)).text
    assert all(word in text for word in words)
    assert ("cut short" in text) == ("cut short" in words)


@pytest.mark.parametrize(
    "inventory",
    [
        {"accelerators": 3, "processor": [], "memory": "much", "system": None},
        {"accelerators": [None, "x", {"name": None}], "memory": {"total": "x"}},
        {"a": {"b": [[1, {"c": []}], None]}},
    ],
)
def test_an_inventory_of_another_shape_does_no_harm(inventory: dict[str, Any]) -> None:
    Page(run_page(RunRecord(run="r", node="n", inventory=inventory)))
    assert identity_text("cuda:0", inventory) == ""


def test_a_failed_test_is_listed_unless_its_metric_is() -> None:
    results = (
        TestResult(test="t::broken", benchmark="", outcome="failed", text="assert 1 == 2"),
        TestResult(test="t::slow", benchmark="", outcome="failed", text="rate too low", metrics=1),
    )
    verdict = NodeVerdict(node="n", decision=Decision.REJECTED, headline="h")
    text = Page(run_page(RunRecord(run="r", node="n", results=results, node_verdict=verdict))).text
    assert "t::broken: failed: assert 1 == 2" in text
    assert "t::slow" not in text


def test_another_baseline_than_the_judging_one_is_named(
    record: RunRecord, learned: Baseline, page: Page
) -> None:
    other = dataclasses.replace(learned, digest="sha256:ffffffffffff")
    assert "was judged with baseline sha256:0123456789ab" in Page(run_page(record, other)).text
    assert "was judged with baseline" not in page.text


def test_a_criterion_in_another_unit_is_not_drawn(
    record: RunRecord, learned: Baseline, html: str
) -> None:
    criteria = tuple(
        dataclasses.replace(c, metric=dataclasses.replace(c.metric, unit="other"))
        for c in learned.criteria
    )
    other = run_page(record, dataclasses.replace(learned, criteria=criteria))
    assert ">expected</text>" not in other
    assert ">expected</text>" in html


def test_a_long_dossier_draws_and_lists_the_worst(
    record: RunRecord, learned: Baseline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_module, "MAX_PLOTS", 5)
    page = Page(run_page(record, learned))
    assert "The 5 worst of 32 measurements are drawn" in page.text
    assert page.ids == [f"c{i}" for i in range(5)]
    assert page.text.count("test_stream.py::test_triad") >= 8  # the table still has all
    monkeypatch.setattr(cases_module, "MAX_ROWS", 3)
    text = Page(run_page(record, learned)).text
    table = text[text.index("All metrics") : text.index("Measurements")]
    assert all(word in table for word in ("FAIL", "INCONCLUSIVE", "NOT_TESTED", "and 30 more"))
    assert "PASS" not in table


def test_the_dossier_lists_a_hang_once() -> None:
    text = "hung: no end within 3 s"
    verdict = NodeVerdict(
        node="n",
        decision=Decision.UNDECIDED,
        headline="h",
        blocking=(Blocker(subject="t::a", cause=text),),
    )
    died = WorkerDied(worker="gw0", lane="node", test="t::a", text=text)
    result = TestResult(test="t::a", benchmark="t::a", outcome="crashed", text=text)
    run = RunRecord(run="r", node="n", events=(died,), results=(result,), node_verdict=verdict)
    assert Page(run_page(run)).text.count(text) == 1
    undecided = dataclasses.replace(run, node_verdict=None)
    assert Page(run_page(undecided)).text.count(text) == 2  # where nothing was decided, both lists


@pytest.mark.parametrize(
    ("decision", "words"), [("REJECTED", "rejected"), ("ACCEPTED", "accepted")]
)
def test_a_headline_does_not_repeat_node_and_decision(decision: str, words: str) -> None:
    headline = f"node n {words}: cuda:3: 30 % slower"
    verdict = NodeVerdict(node="n", decision=Decision(decision), headline=headline)
    assert f"{decision}</span> <b>cuda:3: 30 % slower</b>" in block(
        "decision", verdict, decision, "", ""
    )


# Lists and inventories.


def test_alike_lines_are_merged() -> None:
    lines = ["no baseline", "INCONCLUSIVE t::a m cpu: no: x", "FAIL t::b: slow"]
    lines += ["INCONCLUSIVE t::a m node: no: x", "INCONCLUSIVE t::c node: no: x", "FAIL t::c: slow"]
    assert merge_alike(lines) == [
        "no baseline",
        "INCONCLUSIVE t::a m cpu, node; t::c node: no: x",
        *("FAIL t::b: slow", "FAIL t::c: slow"),  # two are read one by one
    ]
    assert merge_alike(["x", "x", "x"]) == ["x", "x", "x"]
    page = block("list", "list", lines)
    assert "(6)" in page  # lines before they were merged
    assert page.count("<li>") == 4


def test_shared_readings_of_an_inventory_are_shown_once() -> None:
    html = inventory_block(dossier.inventory())
    text = Page(html).text
    assert text.count("NVIDIA H100 80GB HBM3") == 8  # the name identifies
    assert text.count("96.00.89.00.01") == 1
    assert all(text.count(card["serial"]) == 1 for card in dossier.inventory()["accelerators"])
    # A wide inventory scrolls by itself on a narrow page.
    assert html.partition("</summary>")[2].startswith("<div class='wide' tabindex='0'>")


def test_empty_parts_of_an_inventory_are_left_out() -> None:
    text = Page(inventory_block({"system": {"unreadable": [], "x": None}, "kernel": "6.1"})).text
    assert "system" not in text
    assert "6.1" in text


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(st.dictionaries(st.text(max_size=8), json_values, max_size=5))
def test_any_plain_data_is_shown_as_an_inventory(inventory: dict[str, Any]) -> None:
    Page(inventory_block(inventory))


def test_a_short_name_has_no_folders_and_whole_parameters() -> None:
    assert short("suites/a/test_x.py::test_y[p/q::r]") == "test_x.py::test_y[p/q::r]"
    assert short("test_y") == "test_y"


# What was learned.


def test_the_learned_page_names_baseline_units_and_metrics(
    learned: Baseline, learned_html: str
) -> None:
    page = Page(learned_html)
    assert "<title>8x-made-up-h100_smoke: baseline sha256:0123456789ab</title>" in learned_html
    assert "node03 cuda:5" in page.text
    assert "left out: node03 cuda:5 run03" in page.text  # the tooltip of its curve
    assert all(name in page.text for name in dossier.METRICS)
    first = next(c for c in learned.criteria if c.scope == "unit")
    assert f"{first.units} units of {first.nodes} nodes" in learned_html
    # Metrics with units left out come first.
    assert "triad_rate" in next(heading for heading in page.headings if "::" in heading)


def test_the_learned_page_leaves_out_unknown_facts(learned: Baseline) -> None:
    bare = dataclasses.replace(learned.criteria[0], learned=None, detectable=None)
    page = Page(learn_page(dataclasses.replace(learned, criteria=(bare,)), ())).text
    assert "learned -" not in page
    assert "smallest detectable loss" not in page
    assert "smallest detectable loss" in Page(learn_page(learned, ())).text


def test_thousands_of_metrics_stay_one_usable_page(learned: Baseline) -> None:
    first = learned.criteria[0]
    criteria = tuple(
        dataclasses.replace(
            first,
            benchmark=f"suite/test_{i}.py::test",
            metric=Metric(name=f"metric_{i}", unit="GB/s", better="higher"),
        )
        for i in range(2400)
    )
    values = np.random.default_rng(1).normal(100, 1, (40, 300))
    many = [
        population_of(values, metric=c.metric, benchmark=c.benchmark)  # type: ignore[arg-type]
        for c in criteria
    ]
    html = learn_page(dataclasses.replace(learned, criteria=criteria), many)
    page = Page(html)
    assert f"{learn_module.MAX_PLOTS} of 2400 metrics are drawn" in page.text
    assert sum(tag == "svg" for tag, _ in page.tags) == learn_module.MAX_PLOTS
    assert "metric_2399" in page.text
    assert len(html) < 4_000_000


# Blamed parts.


def slow_card(device: str, **more: Any) -> MetricVerdict:
    """Return a verdict on a copy that was too slow on a card, or on the node's pooled values."""
    facts = {
        "outcome": Outcome.FAIL,
        "reason": Reason.BEYOND,
        "text": f"rate is 85 GB/s on {device}",
        "benchmark": "t.py::test_copy",
        "metric": "rate",
        "component": "accelerator.memory",
        "device": device,
        "evidence": ("the room was warm", f"clock of {device} fell"),
        "action": "compare clocks",
    }
    return MetricVerdict(**facts | more)


CARDS = {f"cuda:{n}": f"slot 0000:0{n}:00.0, serial number 1{n}" for n in range(4)}


def test_a_card_has_one_box_and_one_remedy(record: RunRecord, failure: MetricVerdict) -> None:
    link = dataclasses.replace(
        failure, metric="copy_rate", component="accelerator.pcie", action="exchange the riser"
    )
    unusual = dataclasses.replace(
        failure, outcome=Outcome.MARGINAL, metric="launch_time", evidence=("fan at 100 %",)
    )
    host = dataclasses.replace(failure, device="node", component="memory.host", evidence=())
    found = dataclasses.replace(record, verdicts=(*record.verdicts, link, unusual, host))
    page = run_page(found)
    assert page.count("class='card ") == 2
    card = page[page.index("class='card ") : page.index("<h2>What was not judged")]
    assert card.count("<b>next step:</b>") == 2  # one of each box
    assert "cuda:3: accelerator.memory, accelerator.pcie" in card
    assert "fan at 100 %" in card
    assert "exchange the riser" not in card


def test_a_box_distinguishes_the_cases_of_one_test(failure: MetricVerdict) -> None:
    cases = ("ib.py::test_rate[mlx5_0]", "ib.py::test_rate[mlx5_5]")
    ports = [dataclasses.replace(failure, benchmark=case, device="node") for case in cases]
    (box,) = blamed_parts(ports, {})
    assert "<li>test_rate[mlx5_0] " in box
    assert "<li>test_rate[mlx5_5] " in box


def test_a_card_that_the_gate_names_by_slot_is_described() -> None:
    card = {"name": "H100", "pci": "0000:3a:00.0", "serial": "165"}
    inventory = {"accelerators": [{"name": "other"}, "odd", card], "system": {"product": "P"}}
    identity = identity_text("GPU 2 (0000:3a:00.0)", inventory)
    assert identity == "H100, slot 0000:3a:00.0, serial number 165"
    assert identity_text("0000:db:00.0", inventory) == "product P"  # the bus shows it, nothing else
    device = "GPU 2 (0000:3a:00.0)"
    verdict = slow_card(device, text=f"{device}: PCIe link width is 8", metric="PCIe link width")
    (box,) = blamed_parts([verdict], {}, inventory)
    assert "<li>PCIe link width is 8</li>" in box  # the title names the device
    assert "serial number 165" in box


def test_one_slow_card_has_one_box() -> None:
    pooled = slow_card("node", scope="node", text="rate of all is 96 GB/s")
    link = slow_card("GPU 1 (0000:01:00.0)", metric="PCIe link width", component="accelerator.pcie")
    (box,) = blamed_parts([pooled, link, slow_card("cuda:1")], CARDS)
    assert "all devices" not in box
    assert "cuda:1: accelerator.pcie, accelerator.memory" in box
    assert box.count("compare clocks") == 1
    assert "PCIe link width" in box
    assert "85 GB/s on cuda:1" in box


def test_a_sure_failure_has_its_step_next_to_unsure_cards() -> None:
    pooled = slow_card("node", scope="node", action="")
    cards = [slow_card(name, action="", retest="a single value") for name in CARDS]
    whole, *boxes = blamed_parts([*cards, pooled], CARDS)
    assert f"<b>next step:</b> {next_step(pooled)}" in whole
    assert all("<b>next step:</b> measure again<" in box for box in boxes)
    (box,) = blamed_parts([slow_card("cuda:1", action="", reason=Reason.UNSET)], CARDS)
    assert "record what the test" in box
    (box,) = blamed_parts([slow_card("cuda:1", action="", outcome=Outcome.MARGINAL)], CARDS)
    assert "next step" not in box


def test_lines_about_all_cards_are_in_one_box() -> None:
    pooled = slow_card("node", scope="node", evidence=("the room was warm",))
    whole, *boxes = blamed_parts([*map(slow_card, CARDS), pooled], CARDS)
    assert "all devices: accelerator.memory" in whole
    assert "compare clocks" in whole
    assert len(boxes) == len(CARDS)
    for name, box in zip(CARDS, boxes, strict=True):
        assert f"{name}: accelerator.memory" in box
        assert f"clock of {name} fell" in box  # its own
        assert CARDS[name] in box
    text = "".join([whole, *boxes])
    assert (text.count("compare clocks"), text.count("the room was warm")) == (1, 1)
