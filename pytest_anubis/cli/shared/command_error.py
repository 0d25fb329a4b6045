"""The one error that ends a command with a line for people."""

from __future__ import annotations


class CommandError(Exception):
    """Wrong usage or input: one line that says what, where and how to fix it."""
