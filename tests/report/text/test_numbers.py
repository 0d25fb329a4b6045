"""Numbers as text: never a wrong value, never rounded across a limit."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_anubis.core.verdict import MetricVerdict, Outcome, Reason
from pytest_anubis.report.text.failure_text import sure_text
from pytest_anubis.report.text.numbers import (
    bytes_text,
    certainty_text,
    comparison_text,
    count_text,
    duration_text,
    moment_text,
    percent,
    reading_text,
    similarity_text,
    value_text,
)

SHARES = st.floats(0, 1)


@pytest.mark.parametrize(
    ("written", "values", "text"),
    [
        (value_text, (None,), "-"),
        (value_text, (0.0,), "0"),
        (value_text, (-0.0,), "0"),
        (value_text, (612.34,), "612.3"),
        (value_text, (0.88,), "0.88"),
        (value_text, (3e9,), "3.000e+09"),
        (comparison_text, (0.88, 0.95), "similarity .88 < .95"),
        (comparison_text, (0.9496, 0.95), "similarity .9496 < .9500"),
        (similarity_text, (None,), "-"),
        (percent, (None,), "-"),
        (percent, (math.nan,), "nan %"),
        (duration_text, (0.35,), "350 ms"),
        (duration_text, (0.9996,), "1.0 s"),
        (duration_text, (59.97,), "1 min 00 s"),
        (duration_text, (245,), "4 min 05 s"),
        (duration_text, (3599.7,), "1 h 00 min"),
        (duration_text, (7800,), "2 h 10 min"),
        (duration_text, (math.inf,), "Infinity s"),
        (count_text, (1, "metric"), "1 metric"),
        (count_text, (2, "box"), "2 boxes"),
        (count_text, (0, "node"), "0 nodes"),
        (count_text, (2, "criterion"), "2 criteria"),
        (count_text, (3, "more criterion"), "3 more criteria"),
        (count_text, (1, "more criterion"), "1 more criterion"),
        (bytes_text, (0,), "0 B"),
        (bytes_text, (512,), "512 B"),
        (bytes_text, (80 * 2**30,), "80 GiB"),
        (bytes_text, (1.5 * 2**40,), "1.5 TiB"),
        (bytes_text, (1010,), "1010 B"),
        (moment_text, ("2026-11-21T06:14:36.123+00:00",), "2026-11-21 06:14:36 UTC"),
        (moment_text, ("2026-11-21T06:14:36Z",), "2026-11-21 06:14:36 UTC"),
        (moment_text, ("2026-11-21T06:14:36+01:00",), "2026-11-21T06:14:36+01:00"),
        (moment_text, ("",), ""),
        (moment_text, ("yesterday",), "yesterday"),
        (reading_text, ("power_limit", 700.0), "700 W"),
        (reading_text, ("nvlink_speed", 26562), "26562 MB/s"),
        (reading_text, ("memory", 85520809984), "79.6 GiB"),
        (reading_text, ("remap_failed", False), "no"),
        (reading_text, ("speed", "damaged"), "damaged"),
        (reading_text, ("threads", 224), "224"),
        (reading_text, ("speed", None), "-"),
    ],
)
def test_numbers_read_as_people_write_them(
    written: Callable[..., str], values: tuple[object, ...], text: str
) -> None:
    assert written(*values) == text


@given(st.floats(0, 1e300))
def test_a_value_keeps_four_significant_digits(value: float) -> None:
    assert float(value_text(value)) == pytest.approx(value, rel=5.1e-4)


@given(st.floats())
def test_every_value_has_a_text_with_its_unit(value: float) -> None:
    text = value_text(value, "GB/s")
    assert re.fullmatch(r"(-?[\d.]+(e[+-]\d+)?|NaN|-?Infinity) GB/s", text), text


@given(SHARES)
@example(0.99995)
def test_a_similarity_is_never_rounded_up_to_one(similarity: float) -> None:
    text = similarity_text(similarity)
    assert (text == "1.0000") == (similarity == 1)
    assert float(text) == pytest.approx(similarity, abs=1.01e-4)


@given(SHARES, SHARES)
def test_a_comparison_shows_which_side_is_larger(similarity: float, threshold: float) -> None:
    match = re.fullmatch(
        r"similarity ([\d.]+) ([<>=]) ([\d.]+)", comparison_text(similarity, threshold)
    )
    assert match
    left, sign, right = float(match[1]), match[2], float(match[3])
    assert sign == ("<" if similarity < threshold else ">" if similarity > threshold else "=")
    if abs(similarity - threshold) > 1e-8:
        assert (left < right) == (similarity < threshold)


@given(SHARES)
def test_a_small_loss_is_never_shown_as_none(share: float) -> None:
    assert (percent(share) == "0 %") == (share == 0)


@given(SHARES)
def test_a_percentage_is_near(share: float) -> None:
    text = percent(share).removeprefix("<").removesuffix(" %")
    assert float(text) / 100 == pytest.approx(share, rel=0.051, abs=1e-4)


@given(st.floats(0, 1e9))
def test_durations_never_show_sixty(seconds: float) -> None:
    assert not re.search(r"\b60 (s|min)\b|\b1000 ms|\b60\.0 s", duration_text(seconds))


@pytest.mark.parametrize(("sure", "text"), [(1.0, ">99 %"), (0.999, ">99 %"), (0.62, "62 %")])
def test_a_certainty_is_the_same_in_tables_and_lines(sure: float, text: str) -> None:
    verdict = MetricVerdict(
        outcome=Outcome.FAIL, reason=Reason.BEYOND, text="", benchmark="b", metric="m",
        better="higher", certainty=sure, similarity=0.6,
    )  # fmt: skip
    assert certainty_text(sure) == text
    assert sure_text(verdict) == f"; {text} sure"
    again = sure_text(replace(verdict, retest="seen in one look only"))
    assert again == ("" if sure > 0.95 else f"; {text} sure")
