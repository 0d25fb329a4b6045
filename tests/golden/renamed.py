"""Words that later versions say otherwise than the one that made the recordings."""

from __future__ import annotations

RENAMED: dict[str, str] = {
    # "old word": "new word",  # why it was renamed
}
"""Old word -> new word: whole words of texts, and of keys and texts of JSON documents.

They are put into what is found as well as into what is expected, since recorded journals keep their words.
"""
