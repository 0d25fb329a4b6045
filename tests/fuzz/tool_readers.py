"""Readers of tools' outputs: a mutated one is refused in a line, or gives values of its text."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from pytest_anubis.tool_outputs.dcgm_diag import read_dcgm_diag
from pytest_anubis.tool_outputs.gpu_burn import read_gpu_burn
from pytest_anubis.tool_outputs.hpl import read_hpl
from pytest_anubis.tool_outputs.nccl_tests import read_nccl_tests
from pytest_anubis.tool_outputs.nvbandwidth import read_nvbandwidth
from pytest_anubis.tool_outputs.perftest import read_perftest
from pytest_anubis.tool_outputs.stream_benchmark import read_stream
from pytest_anubis.tool_outputs.stress_ng import read_stress_ng
from pytest_anubis.tool_outputs.unreadable import UnreadableOutput
from tests.fuzz.healthy_files import Reader, Seed, seed_of
from tests.fuzz.outcome import Defect

DATA = Path(__file__).parents[1] / "tool_outputs" / "data"
NUMBER = re.compile(r"\.?[0-9][0-9.]{0,60}(?:[eE][+-]?[0-9]{1,3})?")
COLOUR = re.compile(r"\x1b\[[0-9;?]{0,20}[A-Za-z]")
MIB = 8 * (1 << 20) / 1e9
"""Of perftest's MB/s to Gbit/s."""


def _floats(value: Any) -> Iterator[float]:
    if isinstance(value, float):
        yield value
    elif isinstance(value, dict):
        yield from (number for one in value.values() for number in _floats(one))
    elif isinstance(value, list | tuple):
        yield from (number for one in value for number in _floats(one))
    elif is_dataclass(value):
        yield from (n for field in fields(value) for n in _floats(getattr(value, field.name)))


def _held(text: str) -> set[float]:
    """Return every number that a text without colours holds, as it is and in perftest's other unit."""
    found = set()
    for word in NUMBER.findall(COLOUR.sub("", text)):
        try:
            found |= {float(word), MIB * float(word)}
        except ValueError:  # 1.2.3
            continue
    return found


def _reading(reader: Callable[[str], Any]) -> Callable[[Seed, Path, bool, random.Random], None]:
    def read(seed: Seed, path: Path, damaged: bool, rng: random.Random) -> None:
        text = path.read_bytes().decode("utf-8", "replace")
        try:
            said = reader(text)
        except UnreadableOutput as error:
            if "\n" in str(error) or len(str(error)) > 1000:
                raise Defect(f"no line: {str(error)[:200]!r}") from None
            return
        invented = [value for value in _floats(said) if value not in _held(text)]
        if invented:
            raise Defect(f"values that the text does not hold: {invented[:5]}")

    return read


def _seeds(*names: str) -> Callable[[Path], list[Seed]]:
    return lambda scratch: [seed_of(DATA / name) for name in names]


_FORMS = (
    ("nccl-tests-strict", "text", read_nccl_tests, ("all_reduce_perf.txt",)),
    ("nvbandwidth", "text", read_nvbandwidth, ("nvbandwidth.txt",)),
    ("nvbandwidth-json", "json", read_nvbandwidth, ("nvbandwidth.json",)),
    ("perftest", "text", read_perftest, ("ib_write_bw.txt", "ib_write_lat.txt")),
    ("dcgm-diag", "json", read_dcgm_diag, ("dcgm_diag_3.json", "dcgm_diag_4.json")),
    ("stress-ng", "text", read_stress_ng, ("stress_ng.yaml",)),
    ("gpu-burn", "text", read_gpu_burn, ("gpu_burn.txt",)),
    ("hpl", "text", read_hpl, ("hpl.txt",)),
    ("stream", "text", read_stream, ("stream.txt",)),
)
TOOL_READERS = tuple(
    Reader(name=name, form=form, seeds=_seeds(*names), read=_reading(reader))
    for name, form, reader, names in _FORMS
)
