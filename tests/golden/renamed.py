"""Words that later versions say otherwise than the one that made the recordings."""

from __future__ import annotations

RENAMED: dict[str, str] = {
    # "old word": "new word",  # why it was renamed
}
"""Old word -> new word, in all that is expected: whole words of texts, and keys and texts of JSON documents.

While it is not empty, texts are compared without regard to how many spaces stand between words, since a
longer word widens its column.
"""
