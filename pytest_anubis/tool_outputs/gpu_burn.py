"""Read the output of gpu-burn: overwritten lines of progress, and a result for every card at the end.

Tests in `suites/tools/` use it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from pytest_anubis.tool_outputs.plain_lines import tool_lines
from pytest_anubis.tool_outputs.unreadable import UnreadableOutput, shown

TOOL = "gpu-burn"

_DONE = re.compile(r"(-?[0-9]{1,12}) \(([0-9]{1,12}) Gflop/s\)")
_ERRORS = re.compile(r"(-?[0-9]{1,12}) ( ?\((?:WARNING|DIED)!\))?")
_MARK = re.compile(r"Tested \d{1,4} GPUs:")
_TESTED = re.compile(r"Tested ([0-9]{1,4}) GPUs:")
_CARD = re.compile(r"GPU ([0-9]{1,4}): (OK|FAULTY)")
_NAME = re.compile(r"GPU ([0-9]{1,4}): (.{1,200}) \(UUID: ")
_PART = re.compile(r"\s*([0-9]{1,3}\.[0-9])%")


@dataclass(slots=True, kw_only=True)
class Card:
    """The results of one card."""

    index: int  # number of the card in gpu-burn's order
    ok: bool  # the tool found no error
    # GFLOP/s of every report except the first, which includes the start
    rates: tuple[float, ...] = ()
    errors: int = 0  # elements that differed from the first product
    died: bool = False
    name: str = ""  # the card's model; empty if it is unknown
    products: int = 0  # products computed by its last report
    # Percent of the run's time at which its reports of further products came, the first included
    parts: tuple[float, ...] = ()


def read_gpu_burn(text: str) -> tuple[Card, ...]:
    """Read the output of one run, whose exit code means nothing.

    Raises:
        UnreadableOutput: The words at the end are missing, or a line of progress has another number of cards.
    """
    lines = tool_lines(text.replace("\r\n", "\n").replace("\r", "\n"), TOOL, _MARK)
    cards = list(_ends(lines))
    reports: list[list[tuple[float, float]]] = [
        [] for _ in cards
    ]  # of further products: rate, percent
    names = {int(named[1]): named[2] for line in lines if (named := _NAME.match(line))}
    last = [0] * len(cards)
    for line in lines:
        if "proc'd:" not in line:
            continue
        rated, known, after = line.partition("proc'd:")[2].partition("errors:")
        found = _DONE.findall(rated)
        errors = _ERRORS.findall(after.partition("temps:")[0])
        part = _PART.match(line)
        if part is None or not known or len(found) != len(cards) or len(errors) != len(cards):
            raise UnreadableOutput(
                TOOL, f"no line of progress of {len(cards)} cards: {shown(line)}"
            )
        for place, card in enumerate(cards):
            products, rate = int(found[place][0]), float(found[place][1])
            wrong, note = int(errors[place][0]), errors[place][1]
            card.died = card.died or products < 0 or "DIED" in note
            # The tool resets its count with every summary.
            card.errors += wrong - last[place] if wrong >= last[place] else wrong
            last[place] = wrong
            if products > card.products:
                card.products = products
                reports[place].append((rate, float(part[1])))
    for card, reported in zip(cards, reports, strict=True):
        card.rates = tuple(rate for rate, _ in reported[1:])
        card.parts = tuple(part for _, part in reported)
        card.name = names.get(card.index, "")
    return tuple(cards)


def _ends(lines: list[str]) -> Iterator[Card]:
    begin = next((n for n, line in enumerate(lines) if line.startswith("Tested ")), None)
    tested = _TESTED.fullmatch(lines[begin].strip()) if begin is not None else None
    if begin is None or tested is None:
        raise UnreadableOutput(TOOL, "the words 'Tested N GPUs:' are missing at the end")
    for index in range(int(tested[1])):
        place = begin + 1 + index
        line = lines[place].strip() if place < len(lines) else ""
        said = _CARD.fullmatch(line)
        if said is None or int(said[1]) != index:
            raise UnreadableOutput(TOOL, f"no word about GPU {index}: {shown(line)}")
        yield Card(index=index, ok=said[2] == "OK")
