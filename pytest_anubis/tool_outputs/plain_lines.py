"""Remove labels of launchers, time stamps and colours from a tool's lines, for every reader.

A label is the text before a line that only the tool prints, its mark. It is removed from every line that
begins with it. Mixed outputs of several processes, which have different labels, are refused.
"""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple

from pytest_anubis.codec import CodecError, leading_json
from pytest_anubis.tool_outputs.unreadable import UnreadableOutput, shown

_COLOUR = re.compile(r"\x1b\[[0-9;?]{0,20}[A-Za-z]")
_MARGIN = re.compile(
    # 2026-03-04T05:06:07.8Z of Docker and Kubernetes, 05:06:07; Thu Mar  5 05:06:07 2026 of Open MPI
    r"(?:\[?(?:\d{4}-\d\d-\d\d[T ])?\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?\]?"
    r"(?=[\s\[<])\s?|"
    r"(?:[A-Z][a-z]{2} )?[A-Z][a-z]{2} {1,2}\d{1,2} \d\d:\d\d:\d\d(?:\.\d{1,9})?(?: \d{4})?(?=[\s\[<])\s?)|"
    # [1,0]<stdout>: of Open MPI, [pod/name/container] of Kubernetes
    r"(?P<label>\[[^\[\]\s]{0,200}\d,\d{1,7}\](?:(?=<std)|: ?)|\[pod/[^\[\]\s]{1,300}\] ?)|"
    r"<std(?:out|err|diag)>:? ?"
)
_MAX_MARGINS = 6
"""Stamps, labels and streams before one line."""
_MAX_LABELS = 8
"""Maximum number of different labels that are removed from one output."""
_LABEL = re.compile(r"[^\"{}#]{0,80}\w[^\"{}#]{0,80}")
_LABELLED = re.compile(r" {0,8}[\w.@-]{1,80}(?:: | \| )")
_WORD = re.compile(r"\w")
_OBJECT = re.compile(r"\{(?=\s*(?:[\"}]|\Z))")
_BEGINS = re.compile(r"\{\s*(?:\"|$)")


class Line(NamedTuple):
    """One line of a tool."""

    label: str  # the launcher's text before it; empty without one
    text: str  # the line as the tool printed it


def tool_lines(text: str, tool: str, mark: re.Pattern[str]) -> list[str]:
    """Return all lines of a tool's output without labels, time stamps and colours.

    `mark` is the beginning of a line that every process of the tool prints and no other program does.

    Raises:
        UnreadableOutput: Several processes printed the mark, each with its own label.
    """
    lines = _plain_lines(text, mark)
    labels: dict[str, int] = {}
    for place, line in enumerate(lines, start=1):
        if mark.match(line.text):
            labels.setdefault(line.label, place)
    _one_process(tool, labels)
    return [line.text for line in lines]


def json_objects(
    text: str, tool: str, names: AbstractSet[str], *, unique: bool = False
) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the JSON objects in a tool's output, each with the number of the line where it begins.

    Other lines and objects are skipped: each of the tool's objects has at least one of the fields `names`.
    With `unique`, an object that has a field twice is refused.

    Raises:
        UnreadableOutput: An object is damaged, cut off, or has a field twice; or several processes are mixed.
    """
    lines = _plain_lines(text, _BEGINS)
    whole = "\n".join(line.text for line in lines)
    labels: dict[str, int] = {}
    place = 1
    counted = 0
    for begin, _, data in _objects(whole, tool, unique=unique):
        place += whole.count("\n", counted, begin)
        counted = begin
        if names & data.keys():
            before = whole[whole.rfind("\n", 0, begin) + 1 : begin].strip()
            labels.setdefault(lines[place - 1].label or before, place)
            _one_process(tool, labels)
            yield place, data


def _objects(
    text: str, tool: str = "", *, unique: bool = False
) -> Iterator[tuple[int, int, Mapping[str, Any]]]:
    """Yield where each JSON object of a text begins and ends, and the object."""
    end = 0
    while begin := _OBJECT.search(text, end):
        try:
            data, end = leading_json(text, begin.start(), unique=unique)
        except CodecError as error:
            place = text.count("\n", 0, begin.start()) + 1
            raise UnreadableOutput(tool, f"the JSON that begins on line {place}: {error}") from None
        yield begin.start(), end, data


def lines_around(text: str) -> Iterator[tuple[int, str]]:
    """Yield number and stripped text of each line outside JSON, without the label that most lines share."""
    lines = [line.text for line in _plain_lines(text, _BEGINS)]
    label = _common_label(lines)
    whole = "\n".join(line.removeprefix(label) for line in lines)
    parts, at = [], 0
    with contextlib.suppress(UnreadableOutput):  # what follows is no JSON
        for begin, end, _ in _objects(whole):
            parts += [whole[at:begin], "\n" * whole.count("\n", begin, end)]
            at = end
    for number, line in enumerate("".join([*parts, whole[at:]]).split("\n"), start=1):
        if bare := line.strip():
            yield number, bare


def _common_label(lines: list[str]) -> str:
    """Return the label that most lines begin with, as of ``srun --label`` or pdsh; empty without one."""
    hits = Counter(hit[0] for line in lines if (hit := _LABELLED.match(line)))
    label, count = max(hits.items(), key=lambda one: one[1], default=("", 0))
    return label if count > max(2, sum(map(bool, lines)) // 2) else ""


def _plain_lines(text: str, mark: re.Pattern[str]) -> list[Line]:
    """Return all lines with the labels that were removed from them."""
    lines = [_bare(line) for line in text.split("\n")]
    for shape in _shapes(lines, mark):
        found = [(line, shape.match(line.text)) for line in lines]
        if sum(hit is not None for _, hit in found) > 1:
            lines = [
                Line((line.label + hit[0]).strip(), line.text[hit.end() :]) if hit else line
                for line, hit in found
            ]
    return lines


def _shapes(lines: list[Line], mark: re.Pattern[str]) -> list[re.Pattern[str]]:
    """Return a pattern for each label before a mark; it also matches other numbers and fewer blanks."""
    found: dict[str, int] = {}
    for line in lines:
        hit = mark.search(line.text)
        label = line.text[: hit.start()] if hit else ""
        if _LABEL.fullmatch(label):
            stem = re.sub(r"\d+", r"\\d+", re.escape(label.rstrip()))
            if len(found) < _MAX_LABELS or stem in found:
                found[stem] = max(found.get(stem, 0), len(label) - len(label.rstrip()))
    return [re.compile(f"{stem} {{0,{blanks}}}") for stem, blanks in found.items()]


def _bare(line: str) -> Line:
    """Return a line without colours, time stamps and the labels of known launchers."""
    text = (_COLOUR.sub("", line) if "\x1b" in line else line).rstrip("\r")
    label = ""
    for _ in range(_MAX_MARGINS):
        hit = _MARGIN.match(text)
        if hit is None:
            break
        label += hit["label"] or ""
        text = text[hit.end() :]
    return Line(label.strip(), text)


def _one_process(tool: str, labels: Mapping[str, int]) -> None:
    """Refuse marks with different labels, given as label -> line of its first mark."""
    named = [(label, place) for label, place in labels.items() if _WORD.search(label)]
    if len(named) > 1:
        (one, first), (other, second) = named[:2]
        raise UnreadableOutput(
            tool,
            f"outputs of several processes are mixed: line {first} is labelled {shown(one)}, line {second} "
            f"{shown(other)}; read the output of each by itself",
        )
