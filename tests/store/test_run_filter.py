"""Which nodes a filter selects."""

from __future__ import annotations

import pytest

from pytest_anubis.store.run_filter import RunFilter


@pytest.mark.parametrize(
    ("pattern", "name", "selected"),
    [
        ("n1", "n1", True),
        ("n1", "n1.c.example", True),
        ("n1.c.example", "n1", True),
        ("n[12]", "n1.c.example", True),
        ("n1.c.example", "n1.d.example", False),
        ("n1", "n11.c.example", False),
        ("n1", "n2", False),
        ("10", "10.0.0.1", False),
        ("10.0.0.1", "10", False),
        ("*.c.example", "n1.c.example", True),
    ],
)
def test_either_name_of_a_host_selects_it_or_leaves_it_out(
    pattern: str, name: str, selected: bool
) -> None:
    assert RunFilter(nodes=(pattern,)).wants_node(name) is selected
    assert RunFilter(exclude=(pattern,)).wants_node(name) is not selected
