"""Words of the project's old dialect become fewer: plain English says who does what, and why."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DIALECT = re.compile(r"\b(told|tells|beside|stands|nobody|whoever|heard|of whom)\b", re.IGNORECASE)
MOST = {"pytest_anubis": 34, "suites": 5, "docs": 6, "README.md": 0, "CHANGELOG.md": 0}
"""How often they occur today. Lower a number when you weed; never raise one."""


def places(name: str) -> list[Path]:
    """Return the files of code and text below a place; the page of style quotes the words."""
    top = ROOT / name
    kinds = ("*.py", "*.md", "*.html")
    found = [top] if top.is_file() else [one for kind in kinds for one in top.rglob(kind)]
    return [one for one in found if "__pycache__" not in one.parts and one.name != "style.md"]


@pytest.mark.parametrize("name", MOST)
def test_words_of_the_dialect_do_not_become_more(name: str) -> None:
    counts = {one: len(DIALECT.findall(one.read_text(encoding="utf-8"))) for one in places(name)}
    total, worst = sum(counts.values()), max(counts, key=lambda one: counts[one])
    assert total <= MOST[name], f"{total}; most of them in {worst.relative_to(ROOT)}"
