"""What ``pytest --fixtures`` shows of every fixture: a sentence, and an example that is Python."""

from __future__ import annotations

import inspect
import textwrap
from typing import Any

import pytest

from pytest_anubis.session.measuring import fixtures, pair_fixtures

ALL = {
    name: found
    for room in (fixtures, pair_fixtures)
    for name, found in vars(room).items()
    if name.startswith("anubis_")
}


@pytest.mark.parametrize("name", sorted(ALL))
def test_every_fixture_shows_how_it_is_used(name: str) -> None:
    fixture: Any = ALL[name]
    text = inspect.getdoc(fixture._get_wrapped_function()) or ""
    block = text.partition("Example")[2].partition("::\n")[2]
    lines = [line for line in block.splitlines() if not line or line.startswith("    ")]
    example = textwrap.dedent("\n".join(lines))
    compile(example, name, "exec")
    assert name in example
