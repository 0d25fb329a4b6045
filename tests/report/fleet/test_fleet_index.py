"""The fleet's pages, in a folder and as one file: usable by everybody, findings on top, escaped."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zlib
from dataclasses import replace
from typing import Any

import pytest

from pytest_anubis.core.fleet_survey import (
    DriftMoment,
    MetricDrift,
    ShiftedMetric,
    TraitShift,
)
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.validation_figures import (
    BenchmarkFigures,
    FalseAlarms,
    ValidationFigures,
)
from pytest_anubis.core.verdict import Decision, Outcome, Reason
from pytest_anubis.report.fleet.fleet_index import fleet_index, on_one_page
from pytest_anubis.report.fleet.fleet_picture import DARK, DARK_TEXT, LIGHT, LIGHT_TEXT
from pytest_anubis.report.fleet.fleet_view import (
    BenchmarkTime,
    ClassMetric,
    FleetMetric,
    FleetNode,
    FleetView,
    cell_kind,
)
from pytest_anubis.report.fleet.metric_page import metric_page
from tests.report.page_rules import Rules, contrast, mixed
from tests.report.sample_run import EVIL
from tests.report.text.test_node_text import SLOW, row

BENCHMARK = SLOW.benchmark
RATE = Metric(name="rate", unit="GB/s", better="higher")
TIME = Metric(name="time", unit="ms", better="lower")


def shift(*names: str, rejected: int = 0) -> TraitShift:
    moved = ShiftedMetric(
        benchmark=BENCHMARK, metric=RATE, component="memory", similarity=0.92, worse=True, apart=1,
        chance=1e-9,
    )  # fmt: skip
    return TraitShift(
        hardware_class="", trait="batch", value="B4", nodes=names, others=5, metrics=(moved,),
        aliases=("rack 7",), rejected=rejected, rejected_others=1,
    )  # fmt: skip


def drift(*, drifts: bool = True) -> MetricDrift:
    moments = tuple(
        DriftMoment(
            begin=86400.0 * n, end=86400.0 * (n + 1), nodes=9, middle=1 - n / 100, low=0.9, high=1.1
        )
        for n in range(8)
    )
    return MetricDrift(
        hardware_class="", benchmark="t.py::test_time", metric=TIME, component="network", moments=moments,
        similarity=0.95, chance=1e-5, drifts=drifts,
    )  # fmt: skip


def validation(evil: str = "") -> ValidationFigures:
    wrong = FalseAlarms(open=1, confirmed=3, false_alarms=1, share=0.25, interval=(0.006, 0.81))
    some = BenchmarkFigures(
        benchmark=f"t{evil}", runs=8, hours=0.5, confirmed=3, per_hour=6.0, compared=0, ratio=None,
        error=None,
    )  # fmt: skip
    return ValidationFigures(
        runs=8, older=0, timed=8, days=4, accepted=6, accepted_per_day=1.5, rejections=wrong,
        benchmarks=(some,),
    )  # fmt: skip


def view(evil: str = "") -> FleetView:
    kinds = (
        cell_kind(Outcome.FAIL, Reason.BEYOND, 0.7, "higher", "GB/s"),
        cell_kind(Outcome.MARGINAL, Reason.UNUSUAL, 0.96, "higher", "GB/s"),
        cell_kind(Outcome.PASS, Reason.WITHIN, 0.98, "higher", "GB/s"),
        cell_kind(Outcome.PASS, Reason.WITHIN, 1.0, "higher", "GB/s"),
    )
    bad = [
        FleetNode(
            row=row(
                f"b{n}{evil}", Decision.REJECTED, replace(SLOW, text=f"slow {evil}", similarity=0.9)
            ),
            link=f"nodes/node-b{n}.html",
            traits={"batch": "B4", "rack": f"7{evil}"},
            anchors={0: "c0"},
        )
        for n in range(4)
    ]
    good = [
        FleetNode(
            row=row(f"g{n}", Decision.ACCEPTED),
            link=f"nodes/node-g{n}.html",
            traits={"rack": "8"},
            filed=f"REJECTED 2026 {evil}" if evil else "",
        )
        for n in range(4)
    ]
    part = ClassMetric(
        hardware_class="", healthy=(100.0, 101.0, 99.5), bad={f"b0{evil}": 70.0}, limit=95.0
    )
    metrics = (
        FleetMetric(
            benchmark=BENCHMARK, metric=RATE, component=f"memory{evil}", label=f"rate{evil}",
            link="metrics/metric-rate.html", classes=(part,), failed=4, worst=0.7,
        ),
        FleetMetric(
            benchmark="t.py::test_time", metric=TIME, component="network", label="time", marginal=1,
            link="metrics/metric-time.html",
        ),
    )  # fmt: skip
    return FleetView(
        nodes=(*bad, *good),
        metrics=metrics,
        kinds=kinds,
        cells=[[0, 2]] * 4 + [[3, 1], [3, 3], [3, 3], [3, -1]],
        traits=("rack", "batch"),
        shifts=(shift("b0", "b1", "b2", "b3", rejected=4),),
        drifts=(drift(),),
        findings=(f"a finding {evil}",) if evil else (),
        notes=(f"a note {evil}",) if evil else (),
        times=(
            BenchmarkTime(benchmark=f"t{evil}", component="memory", seconds=70, tests=8, nodes=8),
        ),
        validation=validation(evil),
        runs=8,
        first="2026-08-03T06:00:00+00:00",
        last="2026-10-19T06:00:00+00:00",
    )


def data_of(page: str) -> Any:
    return json.loads(re.findall(r"id='fleet'>(.*?)</script>", page)[0])


@pytest.fixture(scope="module")
def page() -> str:
    return fleet_index(view())


def above_the_map(page: str) -> str:
    return page[: page.index("id='map'")]


def test_everybody_can_use_the_pages(page: str) -> None:
    some = view()
    assert Rules(page).wrong == []
    assert [wrong for n in range(2) for wrong in Rules(metric_page(some, n)).wrong] == []
    good = replace(some, nodes=some.nodes[4:], cells=some.cells[4:], shifts=())
    bare = replace(good, drifts=(), times=(), traits=(), first="", validation=None)
    empty = replace(good, nodes=(), cells=[], metrics=(), kinds=(), traits=())
    for one in (bare, on_one_page(good), on_one_page(empty)):
        assert Rules(fleet_index(one)).wrong == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("<th scope='row'>", "<th>"),
        ("<html lang='en'>", "<html>"),
        ("<label>metrics<input", "<input"),
        ("tabindex='0'", "tabindex='1'"),
        ("href='#map?", "href='#nowhere?"),
        ("</ul>", ""),
        ("aria-label='metrics' ", ""),
    ],
)
def test_the_rules_find_what_is_wrong(page: str, old: str, new: str) -> None:
    assert old in page
    assert Rules(page.replace(old, new, 1)).wrong


def test_every_text_has_contrast_on_its_ground() -> None:
    pairs = [*zip(LIGHT, LIGHT_TEXT, strict=True), *zip(DARK, DARK_TEXT, strict=True)]
    pairs += [("#ffffff", badge) for badge in ("#5c5c5c", "#00704f", "#b3400b", "#7f5a00")]
    for ink, paper, link in (("#1d1d1f", "#ffffff", "#00599b"), ("#e4e4e2", "#16181b", "#8ec7f0")):
        pairs += [(ink, paper), (link, paper), (mixed(ink, paper, 0.65), paper)]
    assert [pair for pair in pairs if contrast(*pair) < 4.5] == []
    assert contrast("#000000", "#ffffff") == pytest.approx(21)


@pytest.mark.parametrize(
    ("outcome", "reason", "similarity", "short", "text"),
    [
        (Outcome.FAIL, Reason.BEYOND, 0.7, "\N{BLACK DIAMOND} 30 %", "FAIL, 30 % slower"),
        (
            Outcome.MARGINAL,
            Reason.UNUSUAL,
            0.96,
            "\N{WHITE DIAMOND} 4.0 %",
            "MARGINAL, 4.0 % slower",
        ),
        (Outcome.PASS, Reason.WITHIN, 0.98, "2.0 %", "PASS, 2.0 % slower"),
        (Outcome.PASS, Reason.WITHIN, 1.0, "\N{MIDDLE DOT}", "PASS, no worse"),
        (Outcome.PASS, Reason.WITHIN, None, "\N{MIDDLE DOT}", "PASS"),
        (Outcome.FAIL, Reason.TEST_FAILED, None, "\N{BLACK DIAMOND} failed", "FAIL, test-failed"),
        (Outcome.FAIL, Reason.BEYOND, None, "\N{BLACK DIAMOND} wrong", "FAIL, beyond"),
        (Outcome.NOT_TESTED, Reason.NOT_RUN, None, "\N{EN DASH}", "NOT_TESTED, not-run"),
    ],
)
def test_a_cell_has_words_for_its_colour(
    outcome: Outcome, reason: Reason, similarity: float | None, short: str, text: str
) -> None:
    kind = cell_kind(outcome, reason, similarity, "higher", "GB/s")
    assert (kind.short, kind.text) == (short, text)
    assert (kind.level == 5) == (outcome is Outcome.FAIL)


def test_the_worst_content_of_a_cell_comes_first() -> None:
    failed = cell_kind(Outcome.FAIL, Reason.TEST_FAILED, None, "equal", "count")
    missing = cell_kind(Outcome.NOT_TESTED, Reason.NOT_RUN, None, "higher", "GB/s")
    kinds = [failed, *view().kinds[:2], missing, *view().kinds[2:]]
    assert sorted(kinds) == kinds


def test_findings_are_on_top_with_their_links(page: str) -> None:
    for words in (
        "4 nodes rejected: 4 share a cause (next box), 0 are sick on their own",
        "<b>batch B4</b>: rate 8.0 % slower; 4 of 4 rejected, 1 of 5 others; the same nodes as rack 7",
        "href='#map?trait=1+B4&amp;order=m0&amp;m=rate'",
        "<a href='metrics/metric-time.html'>time</a>: 5.3 % longer (the last third of 1970-01-01",
    ):
        assert words in above_the_map(page)
    still = fleet_index(replace(view(), drifts=(drift(drifts=False),)))
    assert "no metric became worse over time" in above_the_map(still)
    short = replace(drift(drifts=False), moments=drift().moments[:2])
    assert not short.searched
    few = fleet_index(replace(view(), drifts=(short,)))
    assert "that takes 6 periods of a day or more" in above_the_map(few)
    assert "became worse" not in few


def test_nodes_that_fail_otherwise_are_sick_on_their_own() -> None:
    some = view()
    other = replace(some.nodes[0], row=row("b0", Decision.REJECTED, replace(SLOW, metric="else")))
    page = fleet_index(replace(some, nodes=(other, *some.nodes[1:])))
    assert "4 nodes rejected: 3 share a cause (next box), 1 is sick on its own" in page
    few = replace(some, nodes=(*some.nodes[:2], *some.nodes[4:]), cells=some.cells[2:])
    page = fleet_index(few)  # two may each be sick by themselves
    assert "2 nodes rejected; <a" in page
    assert "Slower than the others, not rejected for it" in page
    assert "the 1 metric that some node fails" in page


def test_a_cell_leads_to_its_place_in_the_dossier(page: str) -> None:
    cell = "<td class='c h5 FAIL'><a href='nodes/node-b0.html#c0' tabindex='-1' title='FAIL, 30 % slower'>"
    assert cell in page
    assert "A cell leads to the node's dossier, a heading to the metric's distribution." in page
    assert "id='found'" not in page
    data = data_of(page)
    rejected = data["decisions"].index("REJECTED")
    assert data["nodes"][0][:4] == ["b0", rejected, "", "nodes/node-b0.html"]
    assert data["nodes"][0][6] == {"0": "c0"}
    assert (data["cells"][4], data["cells"][7]) == ([3, 1], [3, -1])
    assert "<span class='faint'>?</span>" in page


def test_a_single_page_has_what_was_found_on_its_nodes() -> None:
    some = on_one_page(view(EVIL))
    page = fleet_index(some)
    assert Rules(page).wrong == []
    assert EVIL not in page
    assert [node.link for node in some.nodes] == ["#n0", "#n1", "#n2", "#n3", "", "", "", ""]
    found = page[page.index("id='found'") :]
    assert found.count("<details class='case' id='n") == 4
    assert found.count("class='card FAIL'") == 4
    assert "what was found</a>" in above_the_map(page)
    assert "A cell leads to what was found on the node." in page
    assert not re.search(r"href='[^#]", page)  # no other file is needed
    assert "<li>g0</li>" in page  # in the list of all names


def test_a_single_page_counts_the_nodes_it_leaves_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_anubis.report.fleet.fleet_index.MAX_DETAILS", 1)
    some = on_one_page(view())
    assert [node.link for node in some.nodes[:2]] == ["#n0", ""]
    assert "and 3 nodes more; --json FILE writes all" in fleet_index(some)


def test_markup_stays_text_and_no_other_script_runs() -> None:
    some = view(f"</script>{EVIL}<!--")
    page = fleet_index(some)
    assert EVIL not in page
    assert page.count("<script") == 2
    assert page.count("</script>") == 2
    assert "<!--" not in page
    assert Rules(page).wrong == []
    assert data_of(page)["nodes"][0][0] == f"b0</script>{EVIL}<!--"
    (script,) = re.findall(r"<script>(.*?)</script>", page, flags=re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"default-src 'none'; script-src 'sha256-{digest}';" in page
    other = metric_page(some, 0)
    assert EVIL not in other
    assert "<script" not in other


def test_the_picture_shows_the_worst_of_each_column(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    some = view()
    assert "<img" not in fleet_index(some)  # the table shows them all
    monkeypatch.setattr("pytest_anubis.report.fleet.fleet_picture.MIN_NODES", 2)
    monkeypatch.setattr("pytest_anubis.report.fleet.fleet_picture.MAX_COLUMNS", 4)
    page = fleet_index(some)
    assert Rules(page).wrong == []
    assert (
        "alt='8 nodes by class, side by side with those of its batch, 2 metrics: 4 of the" in page
    )
    assert "<li style='width:50.000%' title='batch others'>others</li>" in page
    text = re.findall(r"src='data:image/png;base64,([^']+)'", page)[0]
    (content,) = re.findall(rb"IDAT(.*)....\0\0\0\0IEND", base64.b64decode(text), flags=re.DOTALL)
    # The accepted ones have no batch and come first; of two nodes a column the worse one counts.
    assert zlib.decompress(content) == b"\0\0\0\5\5" + b"\0\2\0\0\0"
    assert data_of(page)["strip"] == [4, 5, 6, 7, 0, 1, 2, 3]
