"""Templates: every one compiles, texts are escaped, a missing value is an error, indentation stays out."""

from __future__ import annotations

import pytest
from jinja2 import UndefinedError

from pytest_anubis.report.pages.rendering import as_markup, block, environment, render
from tests.report.sample_run import EVIL


@pytest.mark.parametrize("name", environment().list_templates())
def test_every_template_compiles_and_explains_itself(name: str) -> None:
    source, _, _ = environment().loader.get_source(environment(), name)  # type: ignore[union-attr]
    assert source.startswith("{# ")
    environment().get_template(name)


def test_texts_are_escaped_and_markup_is_not() -> None:
    assert EVIL not in block("paragraph", EVIL)
    assert "<p><b>x</b></p>" in render("page.html", title=EVIL, body=as_markup("<p><b>x</b></p>"))
    assert EVIL not in render("page.html", title=EVIL, body="")


def test_a_value_that_is_not_given_is_an_error() -> None:
    with pytest.raises(UndefinedError):
        render("page.html", title="x")


def test_indentation_of_templates_is_not_in_pages() -> None:
    page = render("page.html", title="x", body="two\n  lines")
    assert "<main>two\n  lines<p>made by" in page  # data stay as they are


def test_cells_that_are_sorted_carry_their_number() -> None:
    table = block("sortable", "l", ("a", "n", "", "t"), [("x", 3, "bar", (0.5, "half"))], (1, 3))
    assert "<th scope='row'>x</th><td class='n' data-v='3'>3</td><td class='b'>bar</td>" in table
    assert "<td class='n' data-v='0.5'>half</td>" in table
