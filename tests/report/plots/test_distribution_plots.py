"""Plots: well-formed, small, honest about outliers, readable without colours and without eyes."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Sequence
from functools import partial

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_anubis.report.plots import distribution_plots
from pytest_anubis.report.plots.canvas import (
    BAD,
    CENTRE,
    DIGIT,
    FONT,
    SAMPLE,
    Frame,
    axes,
    span,
    ticks,
)
from pytest_anubis.report.plots.frontier_plot import frontier_plot
from pytest_anubis.report.plots.time_strip import series_text, spark
from pytest_anubis.report.plots.time_strip import strip_plot as plain_strip
from tests.report.sample_run import EVIL

values = st.lists(
    st.floats(min_value=0, max_value=1e15) | st.sampled_from([math.nan, math.inf]), max_size=300
)
directions = st.sampled_from(["higher", "lower", "equal"])
cdf_plot = partial(distribution_plots.cdf_plot, label="a distribution")
fan_plot = partial(
    distribution_plots.fan_plot, bad={}, better="lower", limit=None, label="a fan", counted="units"
)
strip_plot = partial(plain_strip, unit="s", label="in time order")
HEALTHY = [100 + 0.1 * i for i in range(-20, 21)]


def parsed(svg: str) -> ET.Element:
    return ET.fromstring(svg)  # noqa: S314  # our own output


def path_of(svg: str, colour: str) -> str:
    found = [e for e in parsed(svg).iter("path") if e.get("stroke") == colour and e.get("d")]
    drawn = [e.get("d", "") for e in found if not e.get("d", "").startswith("M0 0")]  # no legend
    assert len(drawn) == 1
    return drawn[0]


def points(path: str) -> list[tuple[int, int]]:
    """Return the corners of a path made of M, H and V."""
    found: list[tuple[int, int]] = []
    x = y = 0
    for letter, first, second in re.findall(r"([MHV])(-?\d+)(?: (-?\d+))?", path):
        x = int(first) if letter in "MH" else x
        y = int(second) if letter == "M" else int(first) if letter == "V" else y
        found.append((x, y))
    return found


@given(values, values, directions, st.none() | st.floats(min_value=0, max_value=1e15), st.text())
def test_any_cdf_plot_is_small_and_well_formed(
    sample: list[float], centre: list[float], better: str, limit: float | None, label: str
) -> None:
    svg = cdf_plot(sample, centre, unit="GB/s", better=better, limit=limit, label=plain(label))
    if not any(map(math.isfinite, sample + centre)):
        assert svg == ""
        return
    assert len(svg) < 8000
    assert '"' not in svg
    root = parsed(svg)
    assert root.get("role") == "img"
    assert root.get("aria-label") == plain(label)
    assert "nan" not in svg
    assert "inf" not in svg.replace("infinit", "")


def plain(text: str) -> str:
    """Return text without characters that no XML may hold; ours is HTML, the parser here is not."""
    return "".join(c for c in text if c.isprintable() and "nan" not in text and "inf" not in text)


def test_the_curve_is_the_empirical_distribution() -> None:
    frame = Frame(low=0, high=1)  # only its heights are used
    svg = cdf_plot([10, 20, 20, 40], [], unit="s", better="lower")
    heights = [y for _, y in points(path_of(svg, SAMPLE))]
    assert heights[0] == frame.floor
    assert heights[-1] == frame.top
    assert sorted(heights, reverse=True) == heights
    assert {frame.y(share) for share in (0.25, 0.75, 1.0)} <= set(heights)


@pytest.mark.parametrize(
    ("better", "bad", "good"), [("higher", 90.0, 110.0), ("lower", 110.0, 90.0)]
)
def test_the_shade_lies_on_the_worse_side(better: str, bad: float, good: float) -> None:
    limit = 95.0 if better == "higher" else 105.0
    svg = cdf_plot([bad, good], HEALTHY, unit="s", better=better, limit=limit)
    shade = next(e for e in parsed(svg).iter("path") if (e.get("fill") or "").startswith("rgba"))
    corners = points(shade.get("d", "").replace("Z", ""))
    sample = sorted({x for x, _ in points(path_of(svg, SAMPLE))})[1:-1]
    at = {bad: sample[0 if bad < good else -1], good: sample[-1 if bad < good else 0]}
    middle = (Frame(low=0, high=1).floor + Frame(low=0, high=1).top) // 2
    crossing = min(corners, key=lambda corner: abs(corner[1] - middle))[0]
    if better == "higher":
        assert at[bad] < crossing < at[good]
    else:
        assert at[good] < crossing < at[bad]


def test_an_exact_metric_has_no_shade() -> None:
    assert "beyond the limit" not in cdf_plot([0, 0, 3], [0], unit="count", better="equal", limit=0)


def test_one_far_value_does_not_flatten_the_rest() -> None:
    svg = cdf_plot([*HEALTHY, 90_000], HEALTHY, unit="us", better="lower")
    assert "1 further up to 90000 us" in svg
    xs = [x for x, _ in points(path_of(svg, CENTRE))]
    assert max(xs[1:-1]) - min(xs[1:-1]) > 100  # of 600: the curve is still a curve


def test_curves_differ_by_more_than_colour() -> None:
    svg = cdf_plot(HEALTHY, HEALTHY, unit="s", better="lower")
    dashes = {
        e.get("stroke"): e.get("stroke-dasharray")
        for e in parsed(svg).iter("path")
        if e.get("stroke") in (SAMPLE, CENTRE)
    }
    assert dashes[SAMPLE] != dashes[CENTRE]


@given(
    st.lists(values, max_size=40), values, st.dictionaries(st.text(max_size=5), values, max_size=3)
)
def test_any_fan_is_well_formed(
    samples: list[list[float]], centre: list[float], bad: dict[str, list[float]]
) -> None:
    named = {plain(name): sample for name, sample in bad.items()}
    svg = fan_plot(samples, centre, unit="s", bad=named, limit=3.0)
    if svg:
        parsed(svg)
        assert '"' not in svg


def test_a_large_fan_stays_small() -> None:
    samples = [[unit + 0.1 * i for i in range(200)] for unit in range(1000)]
    bad = {f"node{n} <cuda>": [5000.0 + n] * 30 for n in range(200)}
    svg = fan_plot(samples, HEALTHY, unit="s", bad=bad, limit=110.0, counted="1000 units")
    assert len(svg) < 20_000
    assert "1000 units, 200 left out" in svg
    assert "left out: node0 &lt;cuda&gt;" in svg


def test_a_fan_shows_excluded_units() -> None:
    svg = fan_plot([HEALTHY] * 30, HEALTHY, unit="s", bad={"slow": [88.0, 88.5]}, better="higher")
    xs = [x for x, _ in points(path_of(svg, BAD))]
    frame = Frame(low=0, high=1)
    assert frame.left < max(xs[1:-1]) < frame.end // 2


@given(values)
def test_a_strip_keeps_its_extremes(sample: list[float]) -> None:
    svg = strip_plot(sample, points=20)
    known = [value for value in sample if math.isfinite(value)]
    if len(known) < 2:
        assert svg == ""
        return
    assert len(svg) < 4000
    line = next(e for e in parsed(svg).iter("path") if e.get("fill") == "none").get("d", "")
    heights = [int(height) for height in re.findall(r"[ML]\d+ (\d+)", line)]
    assert {min(heights), max(heights)} == ({8, 66} if max(known) > min(known) else {66})


def test_a_single_spike_among_thousands_is_still_drawn() -> None:
    sample = [1.0] * 5000
    sample[2345] = 9.0
    line = next(e for e in parsed(strip_plot(sample)).iter("path")).get("d", "")
    assert {int(pair.split()[1]) for pair in line[1:].split("L")} == {8, 66}


@pytest.mark.parametrize(
    ("sample", "pieces", "dots"),
    [
        ([1, 2, 3, 4], 1, 0),
        ([1, 2, math.nan, 3, 4], 2, 0),
        ([1, math.inf, 3, 4], 2, 1),
        ([*range(2000), *[math.nan] * 1000, *range(2000)], 2, 0),
        ([*range(2000), math.nan, *range(2000)], 1, 0),  # narrower than a column
    ],
)
@pytest.mark.parametrize("plot", [strip_plot, partial(spark, label="")])
def test_missing_values_leave_a_gap(
    plot: Callable[[list[float]], str], sample: list[float], pieces: int, dots: int
) -> None:
    lines = (e for e in parsed(plot(sample)).iter("path") if e.get("fill") == "none")
    line = next(lines).get("d", "")
    assert (line.count("M"), line.count("h0")) == (pieces, dots)


def test_series_in_words() -> None:
    assert series_text([3.0, 1.0, 2.0]) == "1 to 3"
    assert series_text([7.0, 7.0]) == "7"
    assert series_text([math.nan]) == "-"
    assert spark([7.0, 7.0], label="flat") == ""


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["none", "greedy", "ideal"]),
            st.lists(st.tuples(st.floats(0, 1e9), st.floats(0, 1e9)), max_size=20),
        ),
        max_size=9,
    )
)
def test_any_frontier_is_well_formed(
    lines: Sequence[tuple[str, Sequence[tuple[float, float]]]],
) -> None:
    svg = frontier_plot(lines, x_label="hours", y_label="MTBI (h)")
    count = sum(len(line) for _, line in lines)
    if not count:
        assert svg == ""
        return
    root = parsed(svg)
    assert len(list(root.iter("circle"))) == count


def places(svg: str) -> dict[str, tuple[int, int]]:
    """Return where each point of a frontier lies, by its words."""
    return {
        "".join(dot.itertext()): (int(dot.attrib["cx"]), int(dot.attrib["cy"]))
        for dot in parsed(svg).iter("circle")
    }


def test_more_lies_further_right_and_higher() -> None:
    line = [(4.0, 100.0), (1.0, 50.0), (2.0, 80.0)]
    svg = frontier_plot([("selector", line), ("none", [(0.0, 10.0)])], x_label="h", y_label="MTBI")
    found = places(svg)
    assert list(found) == [
        "selector: 1, 50", "selector: 2, 80", "selector: 4, 100", "none: 0, 10",
    ]  # fmt: skip
    (x1, y1), (x2, y2), (x4, y4), (x0, y0) = found.values()
    assert x0 < x1 < x2 < x4
    assert y4 < y2 < y1 < y0  # the picture's origin is its upper left corner
    assert x2 - x1 == pytest.approx((x4 - x0) / 4, abs=2)
    assert y2 - y4 == pytest.approx((y0 - y4) * 20 / 90, abs=2)


def test_single_points_are_dots() -> None:
    def lines(points: Sequence[tuple[float, float]]) -> int:
        svg = frontier_plot([("p", points)], x_label="x", y_label="y")
        return sum("stroke-width" in path.attrib for path in parsed(svg).iter("path"))

    assert lines([(1, 1), (2, 2)]) == lines([(1, 1)]) + 1


def test_points_that_are_no_numbers_are_left_out() -> None:
    nan, inf = float("nan"), float("inf")
    svg = frontier_plot([("p", [(nan, 1), (1, inf), (3, 4)])], x_label="x", y_label="y")
    assert list(places(svg)) == ["p: 3, 4"]
    assert frontier_plot([("p", [(nan, 1)])], x_label="x", y_label="y") == ""


def test_nine_lines_have_different_styles() -> None:
    svg = frontier_plot(
        [(f"p{i}", [(i, i), (i + 1, i)]) for i in range(9)], x_label="x", y_label="y"
    )
    looks = [
        (path.attrib["stroke"], path.attrib.get("stroke-dasharray"))
        for path in parsed(svg).iter("path")
        if path.attrib.get("stroke-width") == "4"
    ]
    assert len(looks) == len(set(looks)) == 9


@pytest.mark.parametrize("tiny", [5e-324, 1e-310, 2.5e-300])
def test_the_smallest_numbers_can_be_drawn(tiny: float) -> None:
    svg = frontier_plot([("none", [(0.0, tiny), (tiny, 0.0)])], x_label="x", y_label="y")
    assert svg.startswith("<svg")
    assert cdf_plot([0.0, tiny], [tiny], unit="x", better="higher", limit=tiny).startswith("<svg")


def test_names_are_escaped_everywhere() -> None:
    pictures = (
        cdf_plot([1, 2], [1], unit=EVIL, better="higher", limit=1, label=EVIL),
        fan_plot([[1, 2]], [1], unit=EVIL, bad={EVIL: [1.0]}, label=EVIL),
        strip_plot([1, 2], unit=EVIL, label=EVIL),
        spark([1, 2], label=EVIL),
        frontier_plot([(EVIL, [(1, 2)])], x_label=EVIL, y_label=EVIL),
    )
    for svg in pictures:
        parsed(svg)
        assert "<script" not in svg


@given(st.lists(st.floats(0, 1e15), min_size=1, max_size=50))
def test_a_range_has_a_width_and_never_goes_below_zero(sample: list[float]) -> None:
    low, high = span(sample)
    assert 0 <= low < high


@example(low=137438953473.0, width=6.103515625e-05)
@given(st.floats(0, 1e12), st.floats(1e-9, 1e12))
def test_ticks_are_few_ascending_and_inside(low: float, width: float) -> None:
    high = low + width
    found = ticks(low, high)
    assert len(found) <= 5
    assert found == sorted(set(found))
    slack = 1e-9 * max(high, 1e-300)
    assert all(low - slack <= tick <= high + slack for tick in found)


def test_units_of_a_single_value_are_points_by_rank() -> None:
    svg = fan_plot(
        [[3.0], [1.0], [2.0]],
        [2.0],
        unit="GB/s",
        bad={"n9": [9.0]},
        better="higher",
        counted="3 runs",
    )
    (drawn,) = [e for e in parsed(svg).iter("path") if e.get("stroke") == SAMPLE]
    dots = [tuple(map(int, dot)) for dot in re.findall(r"M(\d+) (\d+)h0", drawn.get("d", ""))]
    assert len(dots) == 3
    assert dots == sorted(dots, key=lambda dot: (dot[0], -dot[1]))
    (left_out,) = [e for e in parsed(svg).iter("path") if e.get("stroke") == BAD]
    assert left_out.get("d", "").endswith("h0")
    assert "3 runs, 1 left out" in svg


def test_the_last_number_of_an_axis_is_not_cut() -> None:
    frame = Frame(low=17500, high=18400)
    drawn = re.findall(r"<text x='(\d+)' y='\d+' text-anchor='middle'>([\d.]+)<", axes(frame, "s"))
    assert drawn
    for x, words in drawn:
        assert int(x) + len(words) * FONT * DIGIT / 2 <= frame.width + 1


def test_legends_show_lines_and_dots() -> None:
    alone = frontier_plot([("fleet", [(1, 1), (2, 2)])], x_label="x", y_label="y")
    assert ">fleet</text>" not in alone
    two = frontier_plot([("a", [(1, 1)]), ("b", [(1, 1), (2, 2)])], x_label="x", y_label="y")
    assert ">a</text>" in two
    assert two.count("h36'") == 1  # b's; a is a dot
