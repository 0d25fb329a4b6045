"""Text tables: aligned whatever the texts hold, cut only where there is no room."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_anubis.report.text.safe_text import plain_line
from pytest_anubis.report.text.text_table import clip, folded, squeeze, table, width_of, wrap

CELLS = st.text(max_size=12)


@given(
    st.integers(1, 4).flatmap(
        lambda n: st.lists(st.lists(CELLS, min_size=n, max_size=n), min_size=1)
    )
)
def test_columns_start_at_the_same_place_in_every_line(rows: list[list[str]]) -> None:
    lines = table(rows).split("\n")
    assert len(lines) == len(rows)
    widest = [max(width_of(plain_line(row[i])) for row in rows) for i in range(len(rows[0]))]
    for line, row in zip(lines, rows, strict=True):
        assert width_of(line) <= sum(widest) + 2 * (len(widest) - 1)
        assert all(plain_line(cell) in line for cell in row)


@given(st.text())
def test_a_line_holds_nothing_that_moves_the_cursor(text: str) -> None:
    assert plain_line(text).isprintable()


def test_numbers_are_aligned_to_the_right() -> None:
    lines = table([["name", "value"], ["a", "-"], ["long name", "12.5"], ["b", "3 %"]]).split("\n")
    assert lines == ["name       value", "a              -", "long name   12.5", "b            3 %"]


def test_wide_and_combining_characters_count_as_shown() -> None:
    assert width_of("温度") == 4
    assert width_of("e\u0301") == 1
    assert table([["温度", "x"], ["abcd", "y"]]).split("\n") == ["温度  x", "abcd  y"]


def test_a_wide_table_is_cut_in_one_column() -> None:
    rows = [["benchmark", "value"], ["suites/compute/test_gemm.py::test_gemm[float32]", "123.4"]]
    lines = table(rows, width=40).split("\n")
    assert all(width_of(line) <= 40 for line in lines)
    assert lines[1].startswith("suites/")
    assert "[float32]" in lines[1]
    assert lines[1].endswith("123.4")


def test_one_odd_name_pushes_nothing_out_of_sight() -> None:
    odd = "m" + 500 * "x" + "1"
    header, first, second = table(
        [["metric", "value", "why"], [odd, "1", 300 * "y"], ["ok", "2", ""]]
    ).splitlines()
    assert header.index("value") <= 162
    assert first.startswith("mxxx")
    assert "xx1  " in first
    assert first.endswith(300 * "y")  # the last column's length is its own row's
    assert second.split() == ["ok", "2"]


def test_a_column_is_not_cut_to_nothing() -> None:
    lines = table([["a", "b"], ["x" * 30, "y" * 50]], width=20).split("\n")
    assert lines[1].split()[0] == squeeze("x" * 30, 12)


@given(st.text(), st.integers(2, 40))
def test_cut_texts_fit(text: str, width: int) -> None:
    for cut in (clip(text, width), squeeze(text, width)):
        assert width_of(cut) <= width
        assert cut == text or "…" in cut


def test_rows_of_different_length_are_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        table([["a", "b"], ["c"]])


def test_cut_names_still_differ() -> None:
    names = [
        f"suites/compute/test_gemm.py::test_gemm[float{bits}-8192x8192x8192-cuda]"
        for bits in (16, 32)
    ]
    first, second = table([["name", "n"], *([one, "1"] for one in names)], width=40).splitlines()[
        1:
    ]
    assert "16" in first
    assert "32" in second
    assert max(width_of(first), width_of(second)) <= 40


def test_rows_that_differ_in_name_are_folded() -> None:
    rows = [["node", "state"], *([f"n{i}", "in service"] for i in range(6)), ["x", "drained"]]
    found, counts = folded(rows)
    assert found == [["node", "state"], ["n0, n1, n2 and 3 more", "in service"], ["x", "drained"]]
    assert counts == [0, 6, 1]
    assert folded(rows[:4]) == (rows[:4], [0, 1, 1, 1])


def test_no_line_begins_with_a_per_cent_sign() -> None:
    assert wrap("it is 12 % slower", 8) == ["it is", "12 %", "slower"]
