"""Moments in files; dates outside Python's calendar are none."""

from __future__ import annotations

import pytest

from pytest_anubis.codec.moments import moment


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("1970-01-01T00:01:00", 60.0),
        ("1970-01-01T01:01:00+01:00", 60.0),
        (" 1970-01-02 ", 86400.0),
        ("60", 60.0),
        ("9999-12-31T23:59:59-12:00", None),
        ("1e300", None),
        ("nan", None),
        ("soon", None),
    ],
)
def test_a_moment_is_one_that_a_calendar_shows(text: str, found: float | None) -> None:
    assert moment(text) == found
