"""Text that every encoding can write: what a damaged file brought in is replaced.

That is for what is read and kept, where a hole must not become other words. What is told to people keeps its
bytes, spelled out: `encodable_text.encodable`.
"""

from __future__ import annotations

import re

LONE = re.compile("[\ud800-\udfff]")


def without_surrogates(text: str) -> str:
    """Return text with every lone surrogate, which UTF-8 cannot write, replaced by U+FFFD."""
    return text if text.isascii() else LONE.sub("\N{REPLACEMENT CHARACTER}", text)
