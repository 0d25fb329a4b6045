"""Renders the Jinja2 templates in ``report/templates``, which hold all markup of pages except the plots'.

Templates escape every text that is not `Markup`. ``blocks.html`` has the macros that several pages share;
templates reach them as ``blocks.NAME``, Python by `block`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from pytest_anubis import __version__
from pytest_anubis.core.metric import metric_name
from pytest_anubis.core.verdict import LOOK, RETEST
from pytest_anubis.report.pages.line_lists import merge_alike
from pytest_anubis.report.plots import canvas
from pytest_anubis.report.text.numbers import count_text, reading_text
from pytest_anubis.report.text.shared_lines import after_name
from pytest_anubis.report.text.summary_text import coverage_text

if TYPE_CHECKING:
    from jinja2 import Environment
    from jinja2.lexer import Token, TokenStream

_BREAK_AT_EDGE = re.compile(r"(?:(?<=>)|\A)\s*\n\s*|\s*\n\s*(?=<|\Z)")
"""Line breaks next to a tag or a placeholder."""

_GLOBALS = {
    "version": __version__,
    "badge_colours": {RETEST: "REJECTED", LOOK: "MARGINAL"},  # word -> the word whose colour it has
    "colours": {name: getattr(canvas, name) for name in ("SAMPLE", "CENTRE", "BAD", "SHADE")},
    "after_name": after_name,
    "count_text": count_text,
    "coverage_text": coverage_text,
    "merge_alike": merge_alike,
    "metric_name": metric_name,
    "reading_text": reading_text,
}


@cache
def environment() -> Environment:
    """Return the environment of all templates; Jinja2 is loaded when the first page is made."""
    from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
    from jinja2.ext import Extension
    from jinja2.lexer import Token

    class IndentedHtml(Extension):
        """Lexer filter for ``*.html``: a line break next to a tag is dropped, another one is a space."""

        def filter_stream(self, stream: TokenStream) -> Iterator[Token]:
            html = (stream.name or "").endswith(".html")
            for token in stream:
                if html and token.type == "data":
                    text = re.sub(r"\s*\n\s*", " ", _BREAK_AT_EDGE.sub("", token.value))
                    yield Token(token.lineno, token.type, text)
                else:
                    yield token

    templates = Environment(
        loader=PackageLoader("pytest_anubis.report"),
        autoescape=select_autoescape(),
        undefined=StrictUndefined,
        extensions=[IndentedHtml],
    )
    templates.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    templates.globals.update(_GLOBALS)
    templates.globals["blocks"] = templates.get_template("blocks.html").module
    return templates


def render(template: str, **values: Any) -> str:
    """Return a whole page.

    Raises:
        UndefinedError: The template names a value that is not given.
    """
    return environment().get_template(template).render(values)


def fragment(template: str, **values: Any) -> Markup:
    """Return a part of a page, made from a template of its own."""
    return as_markup(render(template, **values))


def block(macro: str, *values: Any, **named: Any) -> Markup:
    """Return the markup of a macro of ``blocks.html``."""
    blocks = environment().globals["blocks"]
    return as_markup(getattr(blocks, macro)(*values, **named))


def as_markup(text: str) -> Markup:
    """Return markup that was made here, such as a plot, as what templates do not escape again."""
    return Markup(text)  # noqa: S704  # the one place; all text in it was escaped
