"""Devices of a node side by side."""

from __future__ import annotations

import math
import re
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_anubis.core.measurement import Measurement
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.verdict import MetricVerdict, Outcome, Reason
from pytest_anubis.report.pages.device_comparison import (
    MAX_METRICS,
    Device,
    peers_figures,
    peers_plot,
)
from pytest_anubis.report.pages.metric_sections import Case

VALUES = st.floats(min_value=0)


def parse(svg: str) -> ET.Element:
    return ET.fromstring(svg)  # noqa: S314  # made by ourselves


def shade(svg: str) -> tuple[int, int]:
    found = re.search(r"d='M(\d+) \d+H(\d+)V\d+H\d+Z'", svg)
    assert found
    return int(found[1]), int(found[2])


@given(
    st.lists(st.builds(Device, st.text(max_size=9), VALUES, st.sampled_from([None, *Outcome]))),
    st.one_of(st.none(), VALUES),
    st.one_of(st.none(), VALUES),
    st.sampled_from(["higher", "lower", "equal"]),
)
def test_any_devices_make_a_well_formed_picture(
    devices: list[Device], expected: float | None, limit: float | None, better: str
) -> None:
    clean = [d for d in devices if d.name.isprintable()]
    svg = peers_plot(clean, unit="GB/s", better=better, label="", expected=expected, limit=limit)
    drawn = sum(math.isfinite(device.value) for device in clean)
    assert (svg == "") == (drawn == 0)
    if svg:
        titles = [t.text or "" for t in parse(svg).iter() if t.tag.endswith("title")]
        assert sum("GB/s, " in title for title in titles) == drawn


@pytest.mark.parametrize(("better", "value"), [("higher", 80.0), ("lower", 120.0)])
def test_a_bad_device_is_a_named_diamond_in_the_shade(better: str, value: float) -> None:
    good = [Device(f"cuda:{i}", 100.0 + 0.1 * i, Outcome.PASS) for i in range(7)]
    limit = 95.0 if better == "higher" else 105.0
    svg = peers_plot(
        [*good, Device("cuda:7", value, Outcome.FAIL)],
        unit="x",
        better=better,
        label="",
        expected=100.0,
        limit=limit,
    )
    left, right = shade(svg)
    diamonds = re.findall(r"d='M(\d+) \d+l13 13", svg)
    circles = [int(x) for x in re.findall(r"cx='(\d+)'", svg)]
    assert len(diamonds) == 1
    assert left <= int(diamonds[0]) <= right
    assert not any(left < x < right for x in circles)
    assert len(circles) == 7
    assert ">cuda:7</text>" in svg
    assert ">cuda:1</text>" not in svg


def test_names_are_escaped_and_the_picture_is_small() -> None:
    devices = [Device("<b>'\"&", 1.0, Outcome.FAIL)] + [Device("d", 2.0 + i) for i in range(15)]
    svg = peers_plot(devices, unit="<u>", better="higher", label="<l>'")
    assert parse(svg).get("aria-label") == "<l>'"
    assert "<b>" not in svg
    assert '"' not in svg
    assert len(svg) < 8000


def case(benchmark: str, device: str, value: float, outcome: Outcome | None = None) -> Case:
    measurement = Measurement(
        test=f"{benchmark}[{device}]",
        benchmark=benchmark,
        component="c",
        metric=Metric(name="rate", unit="GB/s", better="higher"),
        device=device,
        values=(value, value, math.nan),
    )
    if outcome is None:
        return Case(measurement, None)
    verdict = MetricVerdict(
        outcome=outcome,
        reason=Reason.WITHIN,
        text="",
        benchmark=benchmark,
        metric="rate",
        device=device,
        expected=100.0,
        limit=95.0,
    )
    return Case(measurement, verdict)


def test_only_metrics_of_several_devices_have_a_picture() -> None:
    assert peers_figures([]) == []
    assert peers_figures([case("a", "cpu", 1.0), case("b", "cpu", 1.0)]) == []
    several = [case("s/a", "cuda:0", 1.0), case("s/a", "cuda:1", 2.0), case("b", "cpu", 1.0)]
    assert [name for name, _ in peers_figures(several)] == ["a · rate"]


def test_any_judged_device_gives_the_limit() -> None:
    cases = [
        case("a", "cuda:0", 10.0),
        case("a", "cuda:0", 99.0),
        case("a", "cuda:1", 80.0, Outcome.FAIL),
        case("a", "cuda:2", math.nan),
    ]
    ((_, plot),) = peers_figures(cases)
    assert "cuda:0: 99 GB/s, not judged" in plot
    assert "cuda:0: 10 GB/s" not in plot
    assert "median 95 GB/s" in plot
    assert "expected: 100 GB/s" in plot
    assert "cuda:2" not in plot  # it has no number


def test_an_undecided_device_is_a_ring_with_its_name() -> None:
    good = [Device(f"cuda:{i}", 100.0, Outcome.PASS) for i in range(3)]
    svg = peers_plot(
        [*good, Device("cuda:3", 80.0, Outcome.INCONCLUSIVE)], unit="x", better="higher", label=""
    )
    rings = [c for c in parse(svg).iter() if c.tag.endswith("circle") and c.get("fill") == "none"]
    assert len(rings) == 1
    assert ">cuda:3</text>" in svg


def test_the_worst_of_very_many_metrics_are_drawn() -> None:
    cases = [case(f"b{i}", f"cuda:{d}", 99.0, Outcome.PASS) for i in range(99) for d in (0, 1)]
    cases += [case("bad", "cuda:0", 80.0, Outcome.FAIL), case("bad", "cuda:1", 99.0, Outcome.PASS)]
    names = [name for name, _ in peers_figures(cases)]
    assert names == ["bad · rate", *(f"b{i} · rate" for i in range(MAX_METRICS - 1))]
