"""Text that every encoding can write: what the file system or a damaged file brought in is replaced."""

from __future__ import annotations

import re

_LONE = re.compile("[\ud800-\udfff]")


def without_surrogates(text: str) -> str:
    """Return text with every lone surrogate, which UTF-8 cannot write, replaced by U+FFFD."""
    return text if text.isascii() else _LONE.sub("\N{REPLACEMENT CHARACTER}", text)
