"""The dossier and the page of what was learned: complete, escaped, self-contained, small."""

from __future__ import annotations

import dataclasses
import re
from html.parser import HTMLParser
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
from pytest_anubis.report.pages.html_blocks import (
    blamed_parts,
)
from pytest_anubis.report.pages.inventory_block import inventory_block
from pytest_anubis.report.pages.learned_page import learn_page
from pytest_anubis.report.pages.line_lists import merge_alike
from pytest_anubis.report.pages.metric_sections import cases_of, overview, short
from pytest_anubis.report.pages.rendering import block
from pytest_anubis.report.text.device_identity import identity_text
from tests.report import sample_run as dossier
from tests.report.fleet.page_rules import Rules

EVIL = dossier.EVIL
VOID = {"meta", "br", "path", "circle", "rect"}


class Page(HTMLParser):
    """Checks that tags are nested, and gathers what a reader sees."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.headings: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.words.append(data)
            if self.open and self.open[-1] in ("h1", "h2", "h3"):
                self.headings.append(data)

    @property
    def text(self) -> str:
        return "".join(self.words)


@pytest.fixture(scope="module")
def learned() -> Baseline:
    return dossier.baseline()


@pytest.fixture(scope="module")
def record(learned: Baseline) -> RunRecord:
    return dossier.record(learned)


def test_the_decision_comes_first_then_the_blamed_part_and_the_next_step(
    record: RunRecord, learned: Baseline
) -> None:
    page = Page(run_page(record, learned))
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


def test_the_blamed_card_is_named_by_slot_and_serial_number(record: RunRecord) -> None:
    text = Page(run_page(record)).text
    card = record.inventory["accelerators"][3]
    wrong = text[text.index("What is wrong") : text.index("What was not judged")]
    assert f"slot {card['pci']}" in wrong
    assert f"serial number {card['serial']}" in wrong
    assert record.inventory["accelerators"][4]["serial"] not in wrong


def test_what_was_not_judged_is_listed(record: RunRecord) -> None:
    text = Page(run_page(record)).text
    assert "test_all_reduce: planned, but never reported" in text
    assert "gw3: killed by signal 9" in text
    assert "another process used 1.3 cores" in text


def test_every_measurement_has_a_row_a_section_and_its_plots(
    record: RunRecord, learned: Baseline
) -> None:
    page = Page(run_page(record, learned))
    ids = {attrs["id"] for _, attrs in page.tags if attrs.get("id")}
    links = {(attrs["href"] or "")[1:] for tag, attrs in page.tags if tag == "a"}
    assert len(record.measurements) == 32
    assert links == ids == {f"c{i}" for i in range(32)}
    labels = [attrs["aria-label"] or "" for tag, attrs in page.tags if tag == "svg"]
    assert sum("distribution" in label for label in labels) == 32
    assert sum("in time order" in label for label in labels) == 32


def test_a_failure_that_allowed_noise_makes_unsure_has_one_row(record: RunRecord) -> None:
    noisy = dataclasses.replace(
        record, settings={**record.settings, "quiet_limits": {"others": 0.93}}
    )
    count = overview_rows(record)
    assert overview_rows(noisy) == count
    table = overview(
        cases_of(noisy.measurements, noisy.effective_verdicts), noisy.effective_verdicts, 9
    )  # asked twice
    assert table.count("<tr>") == count


def overview_rows(record: RunRecord) -> int:
    page = run_page(record).partition("<h2>All metrics</h2>")[2]
    return page.partition("</table>")[0].count("<tr>")


def test_only_what_passed_is_folded(record: RunRecord, learned: Baseline) -> None:
    page = Page(run_page(record, learned))
    cases = [tag for tag, attrs in page.tags if attrs.get("class") == "case"]
    assert cases == ["section"] * 2 + ["details"] * 30


def test_pages_keep_the_rules_that_make_them_usable_for_everybody(
    record: RunRecord, learned: Baseline
) -> None:
    for html in (run_page(record, learned), learn_page(learned, dossier.populations())):
        # A table here is named by the heading above it.
        assert set(Rules(html).wrong) <= {"a table that nothing names"}


def test_the_page_needs_nothing_from_outside(record: RunRecord, learned: Baseline) -> None:
    for html in (run_page(record, learned), learn_page(learned, dossier.populations())):
        page = Page(html)
        assert not {tag for tag, _ in page.tags} & {"script", "link", "img", "iframe", "object"}
        assert not re.search(r"https?:|url\(|@import|src=", html)
        assert len(html) < 400_000
        assert "(prefers-color-scheme:dark)" in html
        assert not re.search(r"@media \(prefers", html), "dark colours on paper"
        assert "@media print" in html
        assert any(attrs.get("name") == "viewport" for _, attrs in page.tags)


def test_pages_are_the_same_every_time(record: RunRecord, learned: Baseline) -> None:
    assert run_page(record, learned) == run_page(record, learned)


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
    for html in (run_page(evil, tainted), learn_page(tainted, dossier.populations(3))):
        page = Page(html)
        assert "script" not in {tag for tag, _ in page.tags}
        assert EVIL in page.text


def test_an_interrupted_empty_run_has_a_page() -> None:
    record = RunRecord(
        run="r", node="n", started="yesterday", planned=(PlannedTest(test="t::lost"),)
    )
    text = Page(run_page(record)).text
    assert "nothing was judged" in text
    assert "t::lost: planned, but never reported" in text
    assert "cut short" in text
    collected = RunRecord(run="fleet.csv", node="n", started="2026-05-01T12:00:00+00:00")
    text = Page(run_page(collected)).text
    assert "cut short" not in text  # a file does not tell how long it was measured for
    assert "2026-05-01" in text


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


def test_a_plain_failed_test_is_told_and_a_rejected_metric_is_not_told_twice() -> None:
    results = (
        TestResult(test="t::broken", benchmark="", outcome="failed", text="assert 1 == 2"),
        TestResult(test="t::slow", benchmark="", outcome="failed", text="rate too low", metrics=1),
    )
    verdict = NodeVerdict(node="n", decision=Decision.REJECTED, headline="h")
    text = Page(run_page(RunRecord(run="r", node="n", results=results, node_verdict=verdict))).text
    assert "t::broken: failed: assert 1 == 2" in text
    assert "t::slow" not in text


def test_a_run_judged_with_another_baseline_says_so(record: RunRecord, learned: Baseline) -> None:
    other = dataclasses.replace(learned, digest="sha256:ffffffffffff")
    assert "was judged with baseline sha256:0123456789ab" in Page(run_page(record, other)).text
    assert "was judged with baseline" not in Page(run_page(record, learned)).text


def test_a_criterion_in_another_unit_is_not_drawn(record: RunRecord, learned: Baseline) -> None:
    criteria = tuple(
        dataclasses.replace(c, metric=dataclasses.replace(c.metric, unit="other"))
        for c in learned.criteria
    )
    html = run_page(record, dataclasses.replace(learned, criteria=criteria))
    assert ">expected</text>" not in html
    assert ">expected</text>" in run_page(record, learned)


def test_only_the_worst_of_very_many_measurements_are_drawn(
    record: RunRecord, learned: Baseline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_module, "MAX_PLOTS", 5)
    page = Page(run_page(record, learned))
    assert "The 5 worst of 32 measurements are drawn" in page.text
    assert [attrs["id"] for _, attrs in page.tags if attrs.get("id")] == [f"c{i}" for i in range(5)]
    assert page.text.count("test_stream.py::test_triad") >= 8  # the table still has all


def test_the_table_of_very_many_metrics_is_cut_and_keeps_the_worst(
    record: RunRecord, learned: Baseline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cases_module, "MAX_ROWS", 3)
    text = Page(run_page(record, learned)).text
    table = text[text.index("All metrics") : text.index("Measurements")]
    assert all(word in table for word in ("FAIL", "INCONCLUSIVE", "NOT_TESTED", "and 30 more"))
    assert "PASS" not in table


def test_what_cards_share_is_said_once_and_what_differs_side_by_side() -> None:
    text = Page(inventory_block(dossier.inventory())).text
    assert text.count("NVIDIA H100 80GB HBM3") == 8  # the name identifies
    assert text.count("96.00.89.00.01") == 1
    for card in dossier.inventory()["accelerators"]:
        assert text.count(card["serial"]) == 1


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


def test_folders_are_taken_off_a_benchmark_but_never_parameters() -> None:
    assert short("suites/a/test_x.py::test_y[p/q::r]") == "test_x.py::test_y[p/q::r]"
    assert short("test_y") == "test_y"


# What was learned.


def test_the_page_of_what_was_learned_names_the_unit_left_out(learned: Baseline) -> None:
    text = Page(learn_page(learned, dossier.populations())).text
    assert "node03 cuda:5" in text
    assert "left out: node03 cuda:5 run03" in text  # the tooltip of its curve
    for name in dossier.METRICS:
        assert name in text


def test_metrics_with_something_to_look_at_come_first(learned: Baseline) -> None:
    page = Page(learn_page(learned, dossier.populations()))
    first = next(heading for heading in page.headings if "::" in heading)
    assert "triad_rate" in first


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


def test_a_card_is_one_box_with_all_its_evidence_and_one_remedy(
    record: RunRecord, learned: Baseline
) -> None:
    (bad,) = [v for v in record.verdicts if v.outcome is Outcome.FAIL]
    link = dataclasses.replace(
        bad, metric="copy_rate", component="accelerator.pcie", action="exchange the riser"
    )
    unusual = dataclasses.replace(
        bad, outcome=Outcome.MARGINAL, metric="launch_time", evidence=("fan at 100 %",)
    )
    host = dataclasses.replace(bad, device="node", component="memory.host", evidence=())
    found = dataclasses.replace(record, verdicts=(*record.verdicts, link, unusual, host))
    page = run_page(found, learned)
    assert page.count("class='card ") == 2
    card = page[page.index("class='card ") : page.index("<h2>What was not judged")]
    assert card.count("<b>next step:</b>") == 2  # one of each box
    assert "cuda:3: accelerator.memory, accelerator.pcie" in card
    assert "fan at 100 %" in card
    assert "exchange the riser" not in card


def test_a_box_tells_the_cases_of_one_test_apart(record: RunRecord) -> None:
    (bad,) = [v for v in record.verdicts if v.outcome is Outcome.FAIL]
    cases = ("ib.py::test_rate[mlx5_0]", "ib.py::test_rate[mlx5_5]")
    ports = [dataclasses.replace(bad, benchmark=case, device="node") for case in cases]
    (box,) = blamed_parts(ports, {})
    assert "<li>test_rate[mlx5_0] " in box
    assert "<li>test_rate[mlx5_5] " in box


def test_the_headline_of_a_page_does_not_say_node_and_decision_twice() -> None:
    for decision, words in (("REJECTED", "rejected"), ("ACCEPTED", "accepted")):
        verdict = NodeVerdict(
            node="n", decision=Decision(decision), headline=f"node n {words}: cuda:3: 30 % slower"
        )
        page = block("decision", verdict, "", "")
        assert f"{decision}</span> <b>cuda:3: 30 % slower</b>" in page


def test_readings_of_an_inventory_have_their_units(record: RunRecord) -> None:
    text = Page(run_page(record)).text
    assert "power limit 700 W" in text
    assert "memory clock max 2619 MHz" in text


def test_the_page_of_what_was_learned_names_its_baseline_and_counts_units() -> None:
    learned = dossier.baseline(4)
    page = learn_page(learned, dossier.populations(4))
    assert "<title>8x-made-up-h100_smoke: baseline sha256:0123456789ab</title>" in page
    first = next(c for c in learned.criteria if c.scope == "unit")
    assert f"{first.units} units of {first.nodes} nodes" in page


def test_a_wide_inventory_scrolls_by_itself_on_a_narrow_page(record: RunRecord) -> None:
    page = run_page(record)
    _, _, rest = page[page.index("<summary><b>inventory</b>") :].partition("</summary>")
    assert rest.startswith("<div class='wide' tabindex='0'>")


def test_a_metric_that_was_compared_for_want_of_a_criterion_has_one_row(record: RunRecord) -> None:
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
    table = overview(cases_of([measured], [bare, near]), [bare, near], 0)
    assert (table.count(">NOT_JUDGED<"), table.count(">NOT_TESTED<")) == (1, 0)
    assert overview(cases_of([measured], [bare]), [bare], 0).count(">NOT_TESTED<") == 1
    other = dataclasses.replace(bare, device="cuda:9")
    assert (
        overview(cases_of([measured], [other, near]), [other, near], 0).count(">NOT_TESTED<") == 1
    )


def test_lines_that_say_the_same_of_several_things_are_one() -> None:
    lines = ["no baseline", "INCONCLUSIVE t::a m cpu: no: x", "FAIL t::b: slow"]
    lines += ["INCONCLUSIVE t::a m node: no: x", "INCONCLUSIVE t::c node: no: x", "FAIL t::c: slow"]
    assert merge_alike(lines) == [
        "no baseline",
        "INCONCLUSIVE t::a m cpu, node; t::c node: no: x",
        *("FAIL t::b: slow", "FAIL t::c: slow"),  # of two, each may be read
    ]
    assert merge_alike(["x", "x", "x"]) == ["x", "x", "x"]
    page = block("list", "list", lines)
    assert "(6)" in page  # what is counted elsewhere
    assert page.count("<li>") == 4


def test_a_card_that_the_gate_names_by_its_slot_is_described() -> None:
    card = {"name": "H100", "pci": "0000:3a:00.0", "serial": "165"}
    inventory = {"accelerators": [{"name": "other"}, "odd", card], "system": {"product": "P"}}
    said = identity_text("GPU 2 (0000:3a:00.0)", inventory)
    assert said == "H100, slot 0000:3a:00.0, serial number 165"
    assert identity_text("0000:db:00.0", inventory) == "product P"  # the bus shows it, nothing else
    verdict = MetricVerdict(
        outcome=Outcome.FAIL, reason=Reason.BEYOND, metric="PCIe link width", benchmark="inventory",
        device="GPU 2 (0000:3a:00.0)", component="accelerator.pcie",
        text="GPU 2 (0000:3a:00.0): PCIe link width is 8, expected 16",
    )  # fmt: skip
    (box,) = blamed_parts([verdict], {}, inventory)
    assert "<li>PCIe link width is 8, expected 16</li>" in box  # its title says the device
    assert "serial number 165" in box


def test_the_dossier_says_a_hang_once() -> None:
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


def test_learned_pages_leave_out_what_is_not_known(learned: Baseline) -> None:
    bare = dataclasses.replace(learned.criteria[0], learned=None, detectable=None)
    page = Page(learn_page(dataclasses.replace(learned, criteria=(bare,)), ())).text
    assert "learned -" not in page
    assert "smallest detectable loss" not in page
    assert "smallest detectable loss" in Page(learn_page(learned, ())).text


def slow_card(device: str, **more: Any) -> MetricVerdict:
    """Return a verdict on a copy that was too slow on a card, or on the node's pooled values."""
    told = {
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
    return MetricVerdict(**told | more)


CARDS = {f"cuda:{n}": f"slot 0000:0{n}:00.0, serial number 1{n}" for n in range(4)}


def test_one_slow_card_has_one_box() -> None:
    pooled = slow_card("node", scope="node", text="rate of all is 96 GB/s")
    link = slow_card("GPU 1 (0000:01:00.0)", metric="PCIe link width", component="accelerator.pcie")
    (box,) = blamed_parts([pooled, link, slow_card("cuda:1")], CARDS)
    assert "all devices" not in box
    assert "cuda:1: accelerator.pcie, accelerator.memory" in box
    assert box.count("compare clocks") == 1
    assert "PCIe link width" in box
    assert "85 GB/s on cuda:1" in box


def test_a_sure_failure_has_a_next_step_beside_cards_that_are_to_be_measured_again() -> None:
    pooled = slow_card("node", scope="node", action="")
    cards = [slow_card(name, action="", retest="a single value") for name in CARDS]
    whole, *boxes = blamed_parts([*cards, pooled], CARDS)
    assert f"<b>next step:</b> {next_step(pooled)}" in whole
    assert all("<b>next step:</b> measure again<" in box for box in boxes)
    (box,) = blamed_parts([slow_card("cuda:1", action="", reason=Reason.UNSET)], CARDS)
    assert "record what the test" in box
    (box,) = blamed_parts([slow_card("cuda:1", action="", outcome=Outcome.MARGINAL)], CARDS)
    assert "next step" not in box


def test_what_concerns_all_cards_is_said_once() -> None:
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
