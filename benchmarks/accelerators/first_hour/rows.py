"""Record the results of the first hour, and list the expected figures of healthy cards by model."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

GOOD, OFF, SEEN, FAILED, IMPOSSIBLE = "as expected", "off", "seen", "failed", "not possible"
"""Verdicts on a line: `OFF` and `FAILED` make the exit code 1, `SEEN` means that nothing is expected."""

SOURCES = {
    "W": "measured on a single card",
    "S": "a vendor's or operator's public threshold",
    "P": "a published measurement",
    "E": "an estimate",
}
SHARES = {"W": 0.95, "S": 1.0, "P": 0.95, "E": 1.0}
"""Kind of source -> minimum share of its figure: two healthy cards differ by some percent."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the page.

    Attributes:
        step: The step that found it.
        what: What was checked.
        found: The result in words, with its unit.
        value: The result as a number, if it is one.
        expected: The expected result in words; empty if nothing is expected.
        source: Source of the expectation.
        end: `GOOD`, `OFF`, `SEEN`, `FAILED` or `IMPOSSIBLE`.
        note: Further information.
    """

    step: str
    what: str
    found: str
    value: float | None = None
    expected: str = ""
    source: str = ""
    end: str = SEEN
    note: str = ""


class Findings:
    """The lines of one step, each written to its file at once, so that a step that dies loses none.

    Args:
        step: Name of the step.
        path: The file, one JSON object per line.
        model: The card's key in `EXPECTED`; empty if it has none.
    """

    def __init__(self, step: str, path: Path, model: str = "") -> None:
        self.step = step
        self.model = model
        self.path = path

    def row(self, what: str, found: str, **more: Any) -> None:
        """Write one line."""
        self._write({"row": asdict(Row(step=self.step, what=what, found=found, **more))})

    def figure(self, key: str, value: float, *, what: str = "", note: str = "") -> None:
        """Write a figure and the expected one.

        Args:
            key: The figure's key in `EXPECTED`.
            value: The figure in the unit of its key.
            what: Its name; default the key's own words.
            note: Further information.
        """
        words, unit = WORDS[key]
        known = EXPECTED.get(self.model, {}).get(key)
        expected = source = ""
        end = SEEN
        if known is not None:
            low, high, tag = known
            source = SOURCES[tag]
            minimum = low * SHARES[tag]
            if high is None:
                expected = f"{minimum:.4g} {unit} or more, of {low:g} {unit}"
            else:
                expected = f"{low:g} to {high:g} {unit}"
            right = minimum <= value and (high is None or value <= high)
            end = SEEN if tag == "E" else GOOD if right else OFF  # an estimate fails no card
        self.row(
            what or words,
            f"{value:.4g} {unit}",
            value=value,
            expected=expected,
            source=source,
            end=end,
            note=note,
        )

    def within(self, what: str, value: float, most: float, unit: str, source: str) -> None:
        """Write a figure that must not exceed `most`."""
        self.row(
            what,
            f"{value:.3g} {unit}",
            value=value,
            expected=f"at most {most:g} {unit}",
            source=source,
            end=GOOD if value <= most else OFF,
        )

    def series(self, name: str, unit: str, points: Sequence[tuple[float, float]]) -> None:
        """Write a time series of (seconds, value)."""
        self._write({"series": {"step": self.step, "name": name, "unit": unit, "points": points}})

    def _write(self, line: dict[str, Any]) -> None:
        with self.path.open("a", encoding="utf-8") as out:
            out.write(json.dumps(line) + "\n")


def read_findings(path: Path) -> tuple[list[Row], list[dict[str, Any]]]:
    """Return the lines and series of a file, without a last line that is incomplete."""
    rows, courses = [], []
    for text in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            line = json.loads(text)
        except ValueError:
            continue
        if "row" in line:
            rows.append(Row(**line["row"]))
        else:
            courses.append(line["series"])
    return rows, courses


def model_of(name: str) -> str:
    """Return the key of a card in `EXPECTED`; empty for an unknown card."""
    for pattern, model in _MODELS:
        if re.search(pattern, name, re.IGNORECASE):
            return model
    return ""


_MODELS = (
    (r"H100.*HBM3", "H100"),  # the SXM module; PCIe and NVL cards are slower
    (r"H200(?!.*NVL)", "H200"),
    (r"B200", "B200"),
    (r"MI300X", "MI300X"),
)

WORDS = {
    "copy": ("copy within device memory", "TB/s"),
    "bf16": ("bf16 matrix products, burst", "TFLOP/s"),
    "fp32": ("fp32 matrix products", "TFLOP/s"),
    "fp64": ("fp64 matrix products", "TFLOP/s"),
    "h2d": ("copy from the host", "GB/s"),
    "d2h": ("copy to the host", "GB/s"),
    "peer": ("copy to another card", "GB/s"),
    "busbw": ("all-reduce over all cards, bus bandwidth", "GB/s"),
    "dispatch": ("one more launch", "us"),
    "round_trip": ("one launch until the host knows its end", "us"),
}
"""Key -> words and unit."""

_Range = tuple[float, float | None, str]
_HOST_SIDE: dict[str, _Range] = {"dispatch": (3, 6, "E"), "round_trip": (8, 20, "E")}

# Lowest and highest figure of a healthy card, and the kind of source. Products are those of `card.SIDE`.
EXPECTED: dict[str, dict[str, _Range]] = {
    "H100": {
        "copy": (3.0, None, "W"), "bf16": (798, None, "W"),
        "fp32": (51, None, "E"), "fp64": (60, None, "E"),
        "h2d": (52, None, "S"), "d2h": (52, None, "S"), "peer": (370, None, "E"),
        "busbw": (460, None, "S"), **_HOST_SIDE,
    },
    "H200": {
        "copy": (4.25, None, "W"), "bf16": (729, None, "W"),
        "fp32": (50.7, None, "W"), "fp64": (62, None, "W"),
        "h2d": (53.7, None, "W"), "d2h": (54.4, None, "W"), "peer": (335, None, "S"),
        "busbw": (431, None, "S"), "dispatch": (3, 12, "W"), "round_trip": (8, 32, "W"),
    },
    "B200": {
        "copy": (7.2, None, "E"), "bf16": (1745, None, "P"),
        "fp32": (65, None, "E"), "fp64": (35, None, "E"),
        "h2d": (55, None, "E"), "d2h": (55, None, "E"), "peer": (740, None, "E"),
        "busbw": (810, None, "P"), **_HOST_SIDE,
    },
    "MI300X": {
        "copy": (4.18, None, "S"), "bf16": (782, None, "P"),
        "fp32": (110, None, "E"), "fp64": (70, None, "E"),
        "h2d": (48, None, "S"), "d2h": (48, None, "S"), "peer": (44, None, "S"),
        "busbw": (314, None, "S"), **_HOST_SIDE,
    },
}  # fmt: skip
"""Card -> key -> lowest, highest (None: none), kind of source."""
