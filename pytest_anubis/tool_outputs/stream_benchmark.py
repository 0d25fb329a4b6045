"""Output of McCalpin's STREAM, the program in C."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pytest_anubis.tool_outputs.unreadable import UnreadableOutput, count, number, shown

TOOL = "STREAM"
KERNELS = {"Copy": 2, "Scale": 2, "Add": 3, "Triad": 3}
"""Kernel -> arrays that a pass reads or writes."""

_ELEMENT = re.compile(r"This system uses ([0-9]{1,2}) bytes per array element\.")
_ARRAY = re.compile(r"Array size = ([0-9]{1,18}) \(elements\).{0,80}")
_VERSION = re.compile(r"STREAM version \$Revision: ([0-9.]{1,20}) \$")
_ROUNDING = 0.01
"""Times have six decimals: of a pass of a tenth of a millisecond the rate is that exact."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRun:
    """What one run measured.

    Attributes:
        version: Of STREAM.
        array: Bytes of one of its three arrays.
        rates: Kernel -> the best rate, in MB/s.
        failure: What it says is wrong with its arrays; empty if they hold what they should.
    """

    version: str
    array: int
    rates: dict[str, float]
    failure: str


def read_stream(text: str) -> StreamRun:
    """Read what one run printed.

    Raises:
        UnreadableOutput: A kernel, the arrays' size or the word about the solution is missing, or a rate is
            not bytes over time.
    """
    lines = [line.strip() for line in text.split("\n")]
    element, array, version = (
        next((found[1] for line in lines if (found := rule.fullmatch(line))), "")
        for rule in (_ELEMENT, _ARRAY, _VERSION)
    )
    size = count(element, TOOL, "bytes of an element") * count(array, TOOL, "array size")
    rates: dict[str, float] = {}
    for line in lines:
        name, colon, rest = line.partition(":")
        if colon and name in KERNELS:
            if name in rates:
                raise UnreadableOutput(TOOL, f"{name} stands there twice")
            rates[name] = _rate(rest.split(), KERNELS[name] * size, line)
    missing = [name for name in KERNELS if name not in rates]
    if missing:
        raise UnreadableOutput(TOOL, f"{', '.join(missing)} missing")
    failed = next((line for line in lines if line.startswith("Failed Validation")), "")
    if not failed and not any(line.startswith("Solution Validates") for line in lines):
        raise UnreadableOutput(TOOL, "no word about the solution")
    return StreamRun(version=version, array=size, rates=rates, failure=failed)


def _rate(words: list[str], size: int, line: str) -> float:
    if len(words) != 4:
        raise UnreadableOutput(TOOL, f"no line of a kernel: {shown(line)}")
    rate, _, least, _ = (number(word, TOOL, shown(line)) for word in words)
    # Half of the time's last decimal, in addition.
    if abs(rate * 1e6 * least - size) > _ROUNDING * size + 1e-6 * rate * 1e6:
        raise UnreadableOutput(TOOL, f"the rate is not bytes / time: {shown(line)}")
    return rate
