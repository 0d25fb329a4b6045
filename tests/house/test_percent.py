"""Shares are said in one form, ``12 %``: written by `percent_text`, or at least with its blank.

A format specification that ends in ``%`` writes ``12%``, which only what is typed back as an option has.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.house.test_arrows import PACKAGE, ROOT

TYPED = ("=", "(default: ")
"""What stands before a value that is typed: ``--promise network=20%``."""


def glued(tree: ast.AST) -> Iterator[int]:
    """Yield the lines of f-strings in which a number and its sign are written together, options aside."""
    for string in ast.walk(tree):
        if not isinstance(string, ast.JoinedStr):
            continue
        before = ""
        for part in string.values:
            if isinstance(part, ast.Constant):
                before = str(part.value)
            elif isinstance(part, ast.FormattedValue):
                form = ast.unparse(part.format_spec) if part.format_spec else ""
                if form.rstrip("\"'").endswith("%") and not before.endswith(TYPED):
                    yield string.lineno
                before = ""


def files() -> Iterator[Path]:
    for folder in (PACKAGE, ROOT / "suites"):
        yield from folder.rglob("*.py")


def test_no_share_is_written_without_its_blank() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{n}"
        for path in files()
        for n in glued(ast.parse(path.read_text()))
    ]
    assert not found


def test_what_is_glued_is_found() -> None:
    assert list(glued(ast.parse("f'{share:.0%} of it'"))) == [1]
    assert not list(glued(ast.parse("f'--promise network={share:.0%}'")))
    assert not list(glued(ast.parse("f'{100 * share:.0f} %'")))
