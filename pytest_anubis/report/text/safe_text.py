"""Make foreign text safe for terminals: names and messages from files may contain control characters."""

from __future__ import annotations


def plain_line(text: str) -> str:
    """Return text on one line without control characters, since it may come from an untrusted file."""
    return printable(" ".join(str(text).split()))


def printable(text: str) -> str:
    r"""Return text with each invisible character but the blank as an escape, e.g. ``\x1b`` or ``\n``.

    Control characters, line ends, marks of the writing direction and lone surrogates are invisible. A second
    call changes nothing.
    """
    if text.isprintable():  # nearly always
        return text
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
