"""A file of waivers is complete, or refused in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_anubis.core.verdict import Waiver
from pytest_anubis.store.waiver_files import (
    _MAX_BYTES,
    _MAX_LINE_LENGTH,
    WaiverError,
    read_waivers,
)

HEALTHY = """
# riser
[[waiver]]
owner = "j.doe"
reason = "riser is ordered, HW-4711"
expires = 2026-12-01
test = "suites/memory/*"
device = "cuda:3"
node = "n17"

[[waiver]]
owner = "ops"
reason = "known"
expires = "2026-11-30"
metric = "XID 48"
"""


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "waivers.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_waivers_hold_to_the_end_of_their_last_day(tmp_path: Path) -> None:
    path = write(tmp_path, HEALTHY)
    first, second = read_waivers(path, "2026-12-01")
    assert first == Waiver(
        owner="j.doe",
        reason="riser is ordered, HW-4711",
        expires="2026-12-01",
        test="suites/memory/*",
        device="cuda:3",
        node="n17",
    )
    assert (second.expires, second.expired) == ("2026-11-30", True)
    assert [one.expired for one in read_waivers(path, "2026-12-02")] == [True, True]
    assert read_waivers(write(tmp_path, "# no waivers\n"), "2026-12-01") == ()


NEEDED = '[[waiver]]\nowner = "o"\nreason = "r"\nexpires = 2026-12-01\n'


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("waiver", "not valid TOML (Expected '='"),
        ('[waiver]\nowner = "o"', "'waiver' as something else than [[waiver]]"),
        ("[[waivers]]", "it has 'waivers'; write every waiver as a table [[waiver]]"),
        ("waiver = [1]", "waiver 1: not a table"),
        ('[[waiver]]\nreason = "r"', 'waiver 1: no owner; write owner = "..."'),
        ('[[waiver]]\nowner = "o"\nreason = "r"', "no expires; write expires = 2027-01-31"),
        (NEEDED, "it says not what it covers; name a test, a metric or a component"),
        (NEEDED + 'device = "cuda:3"', "it says not what it covers"),
        (NEEDED + 'tests = "x"', "unknown key 'tests'; a waiver has owner, reason"),
        (NEEDED + "test = 3", "test must be one line of text"),
        (NEEDED + 'test = "a\\nb"', "test must be one line of text"),
        (NEEDED.replace("2026-12-01", '"soon"') + 'test = "x"', "expires must be a date"),
        (NEEDED.replace("2026-12-01", "2026-12-01T10:00:00") + 'test = "x"', "must be a date"),
        (NEEDED.replace("2026-12-01", "2026-13-01"), "not valid TOML"),
        (NEEDED + "test = " + "[\n" * 5000, "nested too deeply"),
        ("#" * (_MAX_LINE_LENGTH + 1), "line 1 has more than 400 characters"),
        ("# a\n" * _MAX_BYTES, "too large"),
    ],
)
def test_incomplete_file_is_refused_in_one_line(tmp_path: Path, text: str, says: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(WaiverError) as refused:
        read_waivers(path, "2026-12-01")
    said = str(refused.value)
    assert said.startswith(str(path))
    assert says in said
    assert "\n" not in said


def test_unreadable_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(WaiverError, match="cannot be read"):
        read_waivers(tmp_path / "none.toml", "2026-12-01")
    path = tmp_path / "waivers.toml"
    path.write_bytes(b"# \xff")
    with pytest.raises(WaiverError, match="byte 2 is not UTF-8"):
        read_waivers(path, "2026-12-01")


KEYS = ("owner", "reason", "test", "metric", "component", "device", "node")
BLANK = ("", " ", "\u3000", " - ", "...")


@pytest.mark.parametrize(
    ("key", "text"),
    [*((key, text) for key in KEYS for text in BLANK), ("owner", "?*"), ("reason", "?*")],
)
def test_blank_fields_and_owners_by_pattern_are_refused(
    tmp_path: Path, key: str, text: str
) -> None:
    given = {"owner": "o", "reason": "r", "metric": "*"} | {key: text}
    lines = "".join(f'{name} = "{value}"\n' for name, value in given.items())
    path = write(tmp_path, f"[[waiver]]\nexpires = 2999-01-01\n{lines}")
    with pytest.raises(WaiverError, match=key):
        read_waivers(path, "2026-12-01")
