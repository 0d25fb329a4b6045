"""Lines about many files: those that say the same of each are printed once, with their number."""

from __future__ import annotations

from pytest_anubis.cli.shared.printing import say
from pytest_anubis.report.text.numbers import count_text

EACH = 3
"""Lines of one kind up to which each is printed, and how many files a folded one names."""


class FoldedLines:
    """Gathers lines by what they say, and prints them in the order in which each was first met.

    Args:
        all_of_them: Print every line as it comes.
    """

    def __init__(self, *, all_of_them: bool) -> None:
        self._all = all_of_them
        self._lines: dict[str, list[tuple[str, str]]] = {}  # the first few of each kind
        self._counts: dict[str, int] = {}

    def add(self, about: object, text: str, *, kind: str = "") -> None:
        """Take a line.

        Args:
            about: The file that it is about, which may stand in the text.
            text: The line.
            kind: Lines of one kind say the same; empty: those do that differ in the file alone.
        """
        if self._all:
            say(text)
            return
        key = kind or text.replace(str(about), "")
        self._counts[key] = self._counts.get(key, 0) + 1
        known = self._lines.setdefault(key, [])
        if len(known) <= EACH:
            known.append((str(about), text))

    def tell(self) -> None:
        """Print what was gathered until now."""
        for key, known in self._lines.items():
            if self._counts[key] <= EACH:
                say(*(text for _, text in known))
                continue
            (_, first), *others = known
            named = ", ".join(about for about, _ in others[: EACH - 1])
            more = count_text(self._counts[key] - 1, "more file")
            say(f"{first} (and {more}, such as {named}; -v for each)")
        self._lines, self._counts = {}, {}
