"""The units of all cores do the work they say, end in known checksums, and a sick core is named."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from suites.compute import units
from suites.compute.units import SOURCE, STEPS, UNITS, Cores, cpus_for
from suites.memory import native

COMPILER = native.find_compiler()
pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C compiler found")
CHAINS, BYTES = 8, 64
MASK = (1 << 64) - 1
LCG = 6364136223846793005


@pytest.fixture(scope="module")
def library() -> ctypes.CDLL:
    assert COMPILER is not None
    return native.load(SOURCE, COMPILER, native.cache_folder())


def nearest(value: int, bits: int) -> int:
    """Return a whole number over 2^bits, rounded to the nearest and at the middle to the even one."""
    whole, rest = value >> bits, value & ((1 << bits) - 1)
    half = 1 << (bits - 1)
    return whole + (rest > half or (rest == half and whole & 1))


def float64(x: int) -> int:
    y = x * 50331653 + 12345679
    return y - (nearest(y, 26) << 26)


def float32(x: int) -> int:
    y = x * 1597 + 1237
    return y - (nearest(y, 12) << 12)


def int32(x: int) -> int:
    x ^= x >> 15
    return (x * 739982445 + 1013904223) & 0xFFFFFFFF


def int64(x: int) -> int:
    x ^= x >> 29
    return (x * LCG + 1442695040888963407) & MASK


REFERENCE = {
    "float64": (float64, 8),
    "float32": (float32, 4),
    "int32": (int32, 4),
    "int64": (int64, 64),
}


def int16(steps: int) -> int:
    """Return the checksum of a block of sums of products."""
    random, a, b = 1, list[int](), list[int]()
    for _ in range(2048 + 16 * 32):
        random = (random * 1664525 + 1013904223) & 0xFFFFFFFF
        for numbers, shift in ((a, 16), (b, 8)):
            numbers.append(((random >> shift) + (1 << 15)) % (1 << 16) - (1 << 15))
    total = 0
    for turn in range(steps // 8):
        products = sum(one * other for one, other in zip(a[turn % 16 * 32 :], b[:2048]))  # noqa: B905
        total = (total * 1664525 + products) & 0xFFFFFFFF
    return total


def checksum(name: str, steps: int) -> int:
    """Return a block's checksum, computed one number after the other in Python."""
    if name == "int16":
        return int16(steps)
    step, width = REFERENCE[name]
    total = 0
    for number in range(CHAINS * max(1, BYTES // width)):
        x = number + 1
        for _ in range(steps):
            x = step(x)
        total = (total * LCG + x) & MASK
    return total


@pytest.mark.parametrize("name", list(UNITS))
def test_block_ends_as_whole_numbers_say(library: ctypes.CDLL, name: str) -> None:
    block = getattr(library, f"unit_{name}")
    block.restype = ctypes.c_uint64
    for steps in (1, 200):
        assert block(ctypes.c_uint64(steps), ctypes.c_uint64(0)) == checksum(name, steps)
    assert block(ctypes.c_uint64(STEPS), ctypes.c_uint64(0)) == UNITS[name].checksum


@pytest.mark.skipif(shutil.which("objdump") is None, reason="no objdump found")
def test_products_of_16_bits_use_vectors_whatever_the_compiler_does_with_loops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert COMPILER is not None
    version = subprocess.run([COMPILER, "--version"], capture_output=True, text=True, check=True)
    if "Free Software Foundation" in version.stdout:  # -O1 does without, as -O2 did before GCC 12
        monkeypatch.setattr(native, "FLAGS", ("-O1", *native.FLAGS[1:]))
    native.load(SOURCE, COMPILER, tmp_path)
    [built] = tmp_path.glob("units-*.so")
    code = subprocess.run(["objdump", "-d", built], capture_output=True, text=True, check=True)
    assert re.search(r"\b(vpdpwssd|v?pmaddwd|smlal2?)\b", code.stdout)


@pytest.mark.parametrize("name", list(UNITS))
@pytest.mark.parametrize("bit", [0, 5, 11])
def test_bit_that_turns_round_in_a_register_is_counted_and_its_core_is_named(
    library: ctypes.CDLL, name: str, bit: int
) -> None:
    cpus = cpus_for(2)
    cores = Cores(library, cpus, [name], faults={cpus[-1]: 1 << bit})
    cores.load(0.0, turns=2)
    assert cores.wrong == {cpu: int(cpu == cpus[-1]) for cpu in cpus}


def test_twice_the_turns_are_twice_the_work(library: ctypes.CDLL) -> None:
    cores = Cores(library, cpus_for(1))
    (once,), (twice,) = cores.load(60.0, turns=1), cores.load(60.0, turns=2)
    assert once.operations == STEPS * sum(unit.operations for unit in UNITS.values())
    assert twice.operations == 2 * once.operations
    assert once.seconds > 0


def test_load_comes_and_goes(library: ctypes.CDLL) -> None:
    cores = Cores(library, cpus_for(1), ["int64"])
    begin = time.monotonic()
    (core,), (last,) = cores.steps(50.0, 3, 2)
    assert (
        time.monotonic() - begin >= 3 / 50
    )  # the last rest, too, or the frequency is a higher one
    assert core.operations >= 2 * cores.work  # once in each period, at least
    assert last.operations >= cores.work
    assert cores.notice()
    assert cores.wrong == {core.cpu: 0}  # what was shown to it does not count


def test_core_that_notices_nothing_is_not_believed(
    library: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch
) -> None:
    cores = Cores(library, cpus_for(1))
    assert cores.notice()
    blind = Cores(library, cpus_for(1))
    monkeypatch.setattr(blind, "load", lambda seconds, turns: [units.CoreLoad(0, 1.0, 1.0, 0)])
    assert not blind.notice()


def test_fewer_cores_than_cpus_are_spread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    assert cpus_for(8) == list(range(8))
    assert cpus_for(2) == [0, 4]
    assert cpus_for(99) == list(range(8))
