"""Which nodes of a list a fleet has never seen."""

from __future__ import annotations

import pytest

from pytest_anubis.fleet.fleet_status import unknown_of


@pytest.mark.parametrize(
    ("known", "unknown"),
    [
        (["n1"], ["n2"]),
        (["n1.c.example", "n2"], []),
        (["n1.c.example", "n1.d.example"], ["n1", "n2"]),
        ([], ["n1", "n2"]),
    ],
)
def test_a_host_is_known_by_its_short_or_full_name(known: list[str], unknown: list[str]) -> None:
    assert unknown_of(["n1", "n2", "n1"], known) == unknown


def test_a_full_name_is_not_another_one() -> None:
    assert unknown_of(["n1.a.example", "10.0.0.1"], ["n1.b.example", "10"]) == [
        "n1.a.example",
        "10.0.0.1",
    ]
    assert unknown_of(["n1.a.example"], ["n1"]) == []
