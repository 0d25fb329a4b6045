"""Numbers as text: never a wrong value, never rounded across a limit."""

from __future__ import annotations

import math
import re
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
    ("name", "value", "text"),
    [
        ("power_limit", 700.0, "700 W"),
        ("nvlink_speed", 26562, "26562 MB/s"),
        ("memory", 85520809984, "79.6 GiB"),
        ("remap_failed", False, "no"),
        ("speed", "damaged", "damaged"),
        ("threads", 224, "224"),
        ("speed", None, "-"),
    ],
)
def test_a_reading_of_an_inventory_has_its_unit(name: str, value: object, text: str) -> None:
    assert reading_text(name, value) == text


@given(st.floats(0, 1e300))
def test_a_value_keeps_four_significant_digits(value: float) -> None:
    assert float(value_text(value)) == pytest.approx(value, rel=5.1e-4)


@given(st.floats())
def test_every_value_has_a_text_with_its_unit(value: float) -> None:
    text = value_text(value, "GB/s")
    assert re.fullmatch(r"(-?[\d.]+(e[+-]\d+)?|NaN|-?Infinity) GB/s", text), text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (0.0, "0"), (-0.0, "0"), (612.34, "612.3"), (0.88, "0.88"), (3e9, "3.000e+09")],
)
def test_values_read_as_people_write_them(value: float | None, text: str) -> None:
    assert value_text(value) == text


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


def test_comparisons_have_few_digits() -> None:
    assert comparison_text(0.88, 0.95) == "similarity .88 < .95"
    assert comparison_text(0.9496, 0.95) == "similarity .9496 < .9500"


@given(SHARES)
def test_a_small_loss_is_never_shown_as_none(share: float) -> None:
    assert (percent(share) == "0 %") == (share == 0)


@given(SHARES)
def test_a_percentage_is_near(share: float) -> None:
    text = percent(share).removeprefix("<").removesuffix(" %")
    assert float(text) / 100 == pytest.approx(share, rel=0.051, abs=1e-4)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.35, "350 ms"),
        (0.9996, "1.0 s"),
        (59.97, "1 min 00 s"),
        (245, "4 min 05 s"),
        (3599.7, "1 h 00 min"),
        (7800, "2 h 10 min"),
    ],
)
def test_durations_carry_over(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


@given(st.floats(0, 1e9))
def test_durations_never_show_sixty(seconds: float) -> None:
    assert not re.search(r"\b60 (s|min)\b|\b1000 ms|\b60\.0 s", duration_text(seconds))


@pytest.mark.parametrize(
    ("count", "noun", "text"),
    [
        (1, "metric", "1 metric"),
        (2, "box", "2 boxes"),
        (0, "node", "0 nodes"),
        (2, "criterion", "2 criteria"),
        (3, "more criterion", "3 more criteria"),
        (1, "more criterion", "1 more criterion"),
    ],
)
def test_counts_agree_with_their_noun(count: int, noun: str, text: str) -> None:
    assert count_text(count, noun) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (512, "512 B"),
        (80 * 2**30, "80 GiB"),
        (1.5 * 2**40, "1.5 TiB"),
        (1010, "1010 B"),
    ],
)
def test_memory_is_written_in_binary_units(size: float, text: str) -> None:
    assert bytes_text(size) == text


@pytest.mark.parametrize(
    ("iso", "text"),
    [
        ("2026-11-21T06:14:36.123+00:00", "2026-11-21 06:14:36 UTC"),
        ("2026-11-21T06:14:36Z", "2026-11-21 06:14:36 UTC"),
        ("2026-11-21T06:14:36+01:00", "2026-11-21T06:14:36+01:00"),
        ("", ""),
        ("yesterday", "yesterday"),
    ],
)
def test_only_moments_in_utc_are_shortened(iso: str, text: str) -> None:
    assert moment_text(iso) == text


def test_missing_and_infinite_numbers_have_texts() -> None:
    assert similarity_text(None) == percent(None) == "-"
    assert duration_text(math.inf) == "Infinity s"
    assert percent(math.nan) == "nan %"


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
