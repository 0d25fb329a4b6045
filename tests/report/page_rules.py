"""Pages as tests read them: elements and text, and the rules that make a page usable for everybody."""

from __future__ import annotations

import re
from collections import Counter
from html.parser import HTMLParser

VOID = {"meta", "br", "input", "img", "link", "hr", "source"}
NEED_TEXT = {
    "a",
    "button",
    "summary",
    "th",
    "label",
    "caption",
    "h1",
    "h2",
    "h3",
    "option",
    "title",
}


class Page(HTMLParser):
    """Elements and visible text of a page or a part of one; its elements are nested rightly."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.stack: list[tuple[str, dict[str, str]]] = []
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self.headings: list[str] = []
        self.feed(html)
        self.close()
        self.check_whole()

    def check_whole(self) -> None:
        assert self.stack == []

    @property
    def open(self) -> list[str]:
        return [name for name, _ in self.stack]

    @property
    def ids(self) -> list[str]:
        return [attributes["id"] for _, attributes in self.tags if "id" in attributes]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = tag, {name: value or "" for name, value in attrs}
        self.tags.append(element)
        if tag not in VOID:
            self.stack.append(element)

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text += data
            if self.open and self.open[-1] in ("h1", "h2", "h3"):
                self.headings.append(data)


class Rules(Page):
    """Collects what is wrong with a whole page, one line each, in `wrong`."""

    def __init__(self, page: str) -> None:
        self.wrong: list[str] = []
        self.targets: list[str] = []
        self.texts: list[str] = []
        self.counts: dict[str, int] = {}
        self.level = 0
        super().__init__(page)

    def check_whole(self) -> None:
        ids = Counter(self.ids)
        self.wrong += [f"{name} is not closed" for name in self.open]
        self.wrong += [f"id {one} twice" for one, count in ids.items() if count > 1]
        for name in ("title", "main", "h1"):
            if self.counts.get(name) != 1:
                self.wrong.append(f"{self.counts.get(name, 0)} times <{name}>")
        targets = (one.partition("?")[0] for one in self.targets)
        self.wrong += [f"#{one} leads nowhere" for one in targets if one not in ids]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        above, named = self.open, any(one.get("aria-label") for _, one in self.stack)
        super().handle_starttag(tag, attrs)
        given = self.tags[-1][1]
        if "svg" not in above:  # a title in there is that of a part
            self.counts[tag] = self.counts.get(tag, 0) + 1
        self.wrong += [f"<{tag} {name}>" for name in given if name.startswith("on")]
        if int(given.get("tabindex", "0")) > 0:
            self.wrong.append(f"<{tag}> with tabindex {given['tabindex']}")
        if tag == "html" and not given.get("lang"):
            self.wrong.append("no language")
        if tag == "th" and "scope" not in given:
            self.wrong.append("a heading of a table without scope")
        if tag in ("svg", "img") and not (given.get("aria-label") or given.get("alt")):
            self.wrong.append(f"<{tag}> without words")
        if tag == "svg" and given.get("role") != "img":
            self.wrong.append("svg without role")
        if tag in ("input", "select") and "label" not in above:
            self.wrong.append(f"<{tag}> without label")
        if tag == "table" and not named:
            self.wrong.append("a table that nothing names")
        if tag == "li" and (not above or above[-1] not in ("ul", "ol")):
            self.wrong.append("an item without list")
        if tag in ("h1", "h2", "h3"):
            level = int(tag[1])
            if level > self.level + 1:
                self.wrong.append(f"<{tag}> after h{self.level}")
            self.level = level
        if tag in ("script", "link", "iframe", "object", "base") and (
            "src" in given or "href" in given
        ):
            self.wrong.append(f"<{tag}> from elsewhere")
        place = given.get("href", "")
        if tag == "a" and place.startswith("#"):
            self.targets.append(place[1:])
        if re.match(r"(?i)\s*([a-z][a-z0-9+.-]*:|//|\\)", place):
            self.wrong.append(f"a link to {place}")
        if tag not in VOID:
            self.texts.append(given.get("aria-label", ""))

    def handle_endtag(self, tag: str) -> None:
        if self.open[-1:] != [tag]:
            self.wrong.append(f"</{tag}> does not end {self.open[-1:]}")
            return
        super().handle_endtag(tag)
        text = self.texts.pop()
        if tag in NEED_TEXT and not text.strip():
            self.wrong.append(f"<{tag}> without words")
        if self.texts:
            self.texts[-1] += text

    def handle_data(self, data: str) -> None:
        super().handle_data(data)
        if self.texts:
            self.texts[-1] += data


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours, ``#rrggbb`` each (WCAG 2.1), 1 to 21."""
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def mixed(ink: str, paper: str, share: float) -> str:
    """Return the colour of half-transparent ink on paper."""
    pairs = zip(_parts(ink), _parts(paper), strict=True)
    return "#" + "".join(f"{round(share * a + (1 - share) * b):02x}" for a, b in pairs)


def _parts(colour: str) -> list[int]:
    return [int(colour[n : n + 2], 16) for n in (1, 3, 5)]


def _luminance(colour: str) -> float:
    linear = [
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4
        for c in (part / 255 for part in _parts(colour))
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
