"""Which nodes a filter selects."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_anubis.core.machine_marks import are_of_one_host
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


@given(
    st.lists(
        st.sampled_from(["n1", "n1.a", "n1.b", "10", "10.0", "n*", "n1.*", "n[1]", "*.a", ""])
    ),
    st.sampled_from(["n1", "n1.a", "n2", "10", "10.0", "10.0.0.1", "n1.b", "m.a"]),
)
def test_sorted_patterns_match_as_one_by_one(patterns: list[str], name: str) -> None:
    wanted = RunFilter(nodes=tuple(patterns))
    alone = [
        one
        for one in patterns
        if are_of_one_host(name, one, lambda n, pattern: n == pattern or fnmatchcase(n, pattern))
    ]
    assert wanted.wants_node(name) == (not patterns or bool(alone))
    assert wanted.unmatched([name]) == tuple(one for one in patterns if one not in alone)
