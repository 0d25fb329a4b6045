"""The fleet's pages: everybody can use them, findings are on top, cells lead to dossiers, text is text."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zlib
from dataclasses import replace
from typing import Any

import pytest

from pytest_anubis.core.metric import Metric
from pytest_anubis.core.survey.fleet_survey import (
    DriftMoment,
    MetricDrift,
    ShiftedMetric,
    TraitShift,
)
from pytest_anubis.core.verdict import Decision, Outcome, Reason
from pytest_anubis.report.fleet.fleet_index import fleet_index
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
from tests.report.fleet.page_rules import Rules, contrast, mixed
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
        runs=8,
        first="2026-08-03T06:00:00+00:00",
        last="2026-10-19T06:00:00+00:00",
    )


def data_of(page: str) -> Any:
    return json.loads(re.findall(r"id='fleet'>(.*?)</script>", page)[0])


def test_everybody_can_use_the_pages() -> None:
    some = view()
    assert Rules(fleet_index(some)).wrong == []
    assert [wrong for n in range(2) for wrong in Rules(metric_page(some, n)).wrong] == []
    bare = replace(some, shifts=(), drifts=(), times=(), traits=(), first="")
    assert Rules(fleet_index(replace(bare, nodes=some.nodes[4:], cells=some.cells[4:]))).wrong == []


def test_the_rules_find_what_is_wrong() -> None:
    page = fleet_index(view())
    for old, new in (
        ("<th scope='row'>", "<th>"),
        ("<html lang='en'>", "<html>"),
        ("<label>metrics<input", "<input"),
        ("tabindex='0'", "tabindex='1'"),
        ("href='#map?", "href='#nowhere?"),
        ("</ul>", ""),
        ("aria-label='metrics' ", ""),
    ):
        assert old in page
        assert Rules(page.replace(old, new, 1)).wrong, old


def test_every_text_has_contrast_on_its_ground() -> None:
    pairs = [*zip(LIGHT, LIGHT_TEXT, strict=True), *zip(DARK, DARK_TEXT, strict=True)]
    pairs += [("#ffffff", badge) for badge in ("#5c5c5c", "#00704f", "#b3400b", "#7f5a00")]
    for ink, paper, link in (("#1d1d1f", "#ffffff", "#00599b"), ("#e4e4e2", "#16181b", "#8ec7f0")):
        pairs += [(ink, paper), (link, paper), (mixed(ink, paper, 0.65), paper)]
    assert [pair for pair in pairs if contrast(*pair) < 4.5] == []
    assert contrast("#000000", "#ffffff") == pytest.approx(21)


def test_no_cell_speaks_by_its_colour_alone() -> None:
    words = {kind.text: kind.short for kind in view().kinds}
    assert words == {
        "FAIL, 30 % slower": "\N{BLACK DIAMOND} 30 %",
        "MARGINAL, 4.0 % slower": "\N{WHITE DIAMOND} 4.0 %",
        "PASS, 2.0 % slower": "2.0 %",
        "PASS, no worse": "\N{MIDDLE DOT}",
    }
    failed = cell_kind(Outcome.FAIL, Reason.TEST_FAILED, None, "equal", "count")
    assert (failed.text, failed.level) == ("FAIL, test-failed", 5)
    missing = cell_kind(Outcome.NOT_TESTED, Reason.NOT_RUN, None, "higher", "GB/s")
    assert failed < missing
    assert missing.short == "\N{EN DASH}"


def test_what_is_found_stands_on_top_with_the_way_to_it() -> None:
    page = fleet_index(view())
    top = page[: page.index("id='map'")]
    assert "4 nodes rejected: 4 share a cause (next box), 0 are sick on their own" in top
    assert (
        "<b>batch B4</b>: rate 8.0 % slower; 4 of 4 rejected, 1 of 5 others; the same nodes as rack 7"
        in top
    )
    assert "href='#map?trait=1+B4&amp;order=m0&amp;m=rate'" in top
    assert (
        "<a href='metrics/metric-time.html'>time</a>: 5.3 % longer (the last third of 1970-01-01"
        in top
    )
    still = fleet_index(replace(view(), drifts=(drift(drifts=False),)))
    assert "no metric became worse over time" in still[: still.index("id='map'")]


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


def test_cells_lead_to_the_place_in_the_dossier() -> None:
    page = fleet_index(view())
    cell = "<td class='c h5 FAIL'><a href='nodes/node-b0.html#c0' tabindex='-1' title='FAIL, 30 % slower'>"
    assert cell in page
    data = data_of(page)
    assert data["nodes"][0][:4] == [
        "b0",
        data["decisions"].index("REJECTED"),
        "",
        "nodes/node-b0.html",
    ]
    assert data["nodes"][0][6] == {"0": "c0"}
    assert data["cells"][4] == [3, 1]
    assert data["cells"][7] == [3, -1]
    assert "<span class='faint'>?</span>" in page


def test_text_out_of_a_file_stays_text_and_no_other_script_runs() -> None:
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


def test_the_picture_has_the_worst_of_every_column_and_says_so_in_words(
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


def test_a_value_whose_test_failed_is_not_called_wrong() -> None:
    said = [
        cell_kind(Outcome.FAIL, reason, None, "higher", "GB/s").short.split()[-1]
        for reason in (Reason.TEST_FAILED, Reason.BEYOND)
    ]
    assert said == ["failed", "wrong"]
