"""The error of reading or writing plain data, in one line with the place in the data.

It also describes what was found, and spells NaN and the infinities as files do.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import inf, isfinite, nan
from typing import Any

NOT_FINITE = {"NaN": nan, "Infinity": inf, "-Infinity": -inf}
INT_LIMIT = 2**63
"""Whole numbers below this fit into the 64 bits of arrays, databases and other programs."""


class CodecError(ValueError):
    """Plain data cannot be read, or a value cannot be written as such; the message is one line.

    Args:
        problem: What was expected and what was found.
        path: The place inside the data, e.g. ``criteria[3].alpha``; empty at the top.
    """

    def __init__(self, problem: str, path: str = "") -> None:
        super().__init__(problem, path)
        self.problem = problem
        self.path = path

    def __str__(self) -> str:
        return f"{self.path.lstrip('.')}: {self.problem}" if self.path else self.problem

    def inside(self, step: str) -> CodecError:
        """Return this error with a path that begins one level further out."""
        self.path = step + self.path
        return self


def shown(text: Any) -> str:
    """Return text from a file for a message: short and on one line."""
    text = str(text)
    return repr(text[:40])[1:-1] + ("..." if len(text) > 40 else "")


def found(value: Any) -> str:
    """Return a description of an unexpected value for a message: short and on one line."""
    if isinstance(value, str):
        return f'"{shown(value)}"'
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, int):
        return str(value) if abs(value) < INT_LIMIT else "a number that is too large"
    if isinstance(value, float):
        return repr(value) if isfinite(value) else spelled(value)
    if isinstance(value, Mapping):
        return "an object"
    return "a list" if isinstance(value, list | tuple) else type(value).__name__


def spelled(value: float) -> str:
    """Return how files spell NaN or an infinity, a key of `NOT_FINITE`."""
    if value > 0:
        return "Infinity"
    return "-Infinity" if value < 0 else "NaN"
