from __future__ import annotations

import pytest

from pytest_anubis.report.pages.inventory_block import inventory_block
from pytest_anubis.report.text.headlines import inventory_line


@pytest.mark.parametrize(
    ("taken", "said"),
    [
        ("2026-01-31T12:00:00+00:00", "of n1 recorded 2026-01-31 12:00 UTC, out of n1.json and not"),
        ("", "at an unknown time, out of n1.json"),
        ("soon", "'soon', which is no date"),
        (7, "at an unknown time, out of n1.json"),
    ],
)  # fmt: skip
def test_when_an_inventory_was_recorded_is_said(taken: object, said: str) -> None:
    assert said in inventory_line({"node": "n1", "taken": taken}, "n1.json")


def test_pages_say_when_the_inventory_was_recorded() -> None:
    page = inventory_block({"node": "n1", "taken": "2026-01-31T12:00:00+00:00", "os": "x"})
    assert "recorded 2026-01-31 12:00 UTC" in page
