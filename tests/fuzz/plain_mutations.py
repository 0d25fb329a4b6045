"""Mutate bytes, lines and JSON, independent of their meaning."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from typing import Any

Plain = Any

LONG = 20_000
"""Letters of a very long text: a regular expression of quadratic time needs seconds for them."""

DEEP = (60, 70, 1_500, 50_000)
"""Levels of nesting: below and beyond our limit, beyond Python's, beyond the stack's."""

CONTROL = "x\x1b[31m\nACCEPTED: node forged accepted\r\x9b2J\u202e\u2028\x00"
"""Colours, line ends, a forged verdict, a turn of the writing direction, the end of a C string."""

WORDS = (
    *("", " ", "x", "NaN", "Infinity", "-1", "1e999", "null", "../../etc/passwd", "cuda:0", "PASS", "FAIL"),
    *("ACCEPTED", "REJECTED", "xfailed", "passed", "node", "\ud800", "x\udc80", "\U0010ffff", CONTROL),
    *("2026-05-02T06:00:00+00:00", "9999-12-31T23:59:59+14:00", "=1+1", "a" * LONG, "1" * 5000),
)  # fmt: skip
NUMBERS = (
    *(0, 1, -1, 2, 0.0, -0.0, 0.5, 1.5, 100, 1e-320, 5e-324, 1e308, -1e308, 2**31, 2**53, 2**63, -(2**63)),
    *(2**64, 10**40, float("nan"), float("inf"), float("-inf")),
)  # fmt: skip
OTHERS: tuple[Plain, ...] = (None, True, False, [], {}, [[]], {"": {}}, [None], {"a": 1}, "text", 7)


# Of bytes


def place(rng: random.Random, content: bytes) -> int:
    return rng.randrange(len(content) + 1)


def flip(rng: random.Random, content: bytes) -> bytes:
    if not content:
        return b"\x01"
    at = rng.randrange(len(content))
    return content[:at] + bytes([content[at] ^ (1 << rng.randrange(8))]) + content[at + 1 :]


def delete(rng: random.Random, content: bytes) -> bytes:
    at = place(rng, content)
    return content[:at] + content[at + rng.choice((1, 1, 2, 7, 100)) :]


def insert(rng: random.Random, content: bytes) -> bytes:
    at = place(rng, content)
    what = rng.choice(
        (
            *(rng.randbytes(1), rng.randbytes(8), b"\x00", b"\x1b[31m", b"\n", b"\r\n", b'"', b",", b"\xff"),
            *(b"{", b"}", b"[", b"0", b"9" * 5000, b"\xed\xa0\x80", b"\xef\xbb\xbf", b"-", b"e9"),
        )
    )  # fmt: skip
    return content[:at] + what + content[at:]


def overwrite(rng: random.Random, content: bytes) -> bytes:
    at = place(rng, content)
    size = rng.choice((1, 2, 8, 64, 512))
    what = bytes(size) if rng.random() < 0.5 else rng.randbytes(size)
    return content[:at] + what + content[at + size :]


def truncate(rng: random.Random, content: bytes) -> bytes:
    return content[: place(rng, content)]


def repeat(rng: random.Random, content: bytes) -> bytes:
    begin, end = sorted((place(rng, content), place(rng, content)))
    return content[:end] + content[begin:end] + content[end:]


# Of lines


def lines_of(content: bytes) -> list[bytes]:
    return content.splitlines(keepends=True)


def _of_lines(
    change: Callable[[random.Random, list[bytes]], object], least: int = 1
) -> Callable[[random.Random, bytes], bytes]:
    """Return a mutation of files with at least so many lines, which `change` mutates."""

    def changed(rng: random.Random, content: bytes) -> bytes:
        lines = lines_of(content)
        if len(lines) >= least:
            change(rng, lines)
        return b"".join(lines)

    return changed


def _swap(rng: random.Random, lines: list[bytes]) -> None:
    one, other = rng.sample(range(len(lines)), 2)
    lines[one], lines[other] = lines[other], lines[one]


def _join(rng: random.Random, lines: list[bytes]) -> None:
    at = rng.randrange(len(lines))
    lines[at] = lines[at].rstrip(b"\r\n")


delete_line = _of_lines(lambda rng, lines: lines.pop(rng.randrange(len(lines))))
double_line = _of_lines(
    lambda rng, lines: lines.insert(rng.randrange(len(lines) + 1), rng.choice(lines))
)
swap_lines = _of_lines(_swap, least=2)
join_lines = _of_lines(_join)


_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_WORD = re.compile(rb"[^\s,;:{}\[\]\"]+")


def _other(
    rng: random.Random, content: bytes, pattern: re.Pattern[bytes], make: Callable[[bytes], str]
) -> bytes | None:
    found = list(pattern.finditer(content))
    if not found:
        return None
    one = rng.choice(found)
    made = make(one[0]).encode("utf-8", "surrogatepass")
    return content[: one.start()] + made + content[one.end() :]


def other_number(rng: random.Random, content: bytes) -> bytes | None:
    def made(number: bytes) -> str:
        if rng.random() < 0.5:
            return repr(float(number) * rng.choice((-1, 0.5, 2, 10, 1e6, 1e-6, 1e300)))
        return str(rng.choice(NUMBERS))

    return _other(rng, content, _NUMBER, made)


def other_word(rng: random.Random, content: bytes) -> bytes | None:
    return _other(rng, content, _WORD, lambda word: rng.choice(WORDS))


# Of JSON


def places(data: Plain) -> list[tuple[Any, Any]]:
    """Return every (holder, key or index) of a document."""
    found: list[tuple[Any, Any]] = []
    waiting = [data]
    while waiting:
        holder = waiting.pop()
        keys = holder.keys() if isinstance(holder, dict) else range(len(holder))
        for key in keys:
            found.append((holder, key))
            if isinstance(holder[key], dict | list):
                waiting.append(holder[key])
    return found


def nested(rng: random.Random) -> str:
    depth = rng.choice(DEEP)
    opening, closing = rng.choice((("[", "]"), ('{"a":', "}")))
    return opening * depth + "0" + closing * depth


def change_json(rng: random.Random, data: Plain) -> str:
    """Return a JSON text that differs in one place from a document, which is changed."""
    found = places(data) if isinstance(data, dict | list) else []
    if not found:
        return json.dumps(rng.choice((*OTHERS, *NUMBERS, *WORDS)))
    holder, key = rng.choice(found)
    value = holder[key]
    kind = rng.randrange(9)
    if kind == 0:
        del holder[key]
    elif kind < 4:
        holder[key] = rng.choice((OTHERS, NUMBERS, WORDS)[kind - 1])
    elif kind == 4 and isinstance(value, int | float) and not isinstance(value, bool):
        holder[key] = value * rng.choice((-1, 0.5, 0.99, 1.01, 2, 1000))
    elif kind == 5 and isinstance(holder, dict):
        holder[str(rng.choice(WORDS))] = holder.pop(key)
    elif kind == 6 and isinstance(holder, list):
        holder += [value] * rng.choice((1, 2, 300))
    elif kind == 7:
        other, name = rng.choice(found)
        holder[key] = json.loads(json.dumps(other.get(name) if type(other) is dict else other[:1]))
    else:
        mark = "deeply nested"
        holder[key] = mark
        return json.dumps(data).replace(f'"{mark}"', rng.choice((nested(rng), "9" * 5000, "1e400")))
    return json.dumps(data)


def edit_json(rng: random.Random, content: bytes) -> bytes | None:
    try:
        data = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return change_json(rng, data).encode()


def edit_json_line(rng: random.Random, content: bytes) -> bytes | None:
    lines = lines_of(content)
    if not lines:
        return None
    at = rng.randrange(len(lines))
    made = edit_json(rng, lines[at])
    if made is None:
        return None
    lines[at] = made + b"\n"
    return b"".join(lines)
