"""Keep what a run decided of its node in one cell, so that every command words it in the same way."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from pytest_anubis.codec import CodecError, from_plain, to_plain
from pytest_anubis.codec.json_files import parse_json
from pytest_anubis.core.field_types import Rare
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.validation_figures import BenchmarkSpent, spent_of
from pytest_anubis.core.verdict import MetricVerdict, NodeVerdict, Outcome, Reason

_LARGEST = 1 << 26
"""Bytes before compression: some 100,000 verdicts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What a run decided of its node.

    Attributes:
        verdict: The decision with its blockers; None if the run broke off before it.
        verdicts: Its metric verdicts other than a plain PASS.
        cards: Device -> slot and serial number of its card in words.
        devices: The devices that it measured.
        spent: What it spent on each benchmark; None if it does not say.
    """

    verdict: NodeVerdict | None = None
    verdicts: tuple[MetricVerdict, ...] = ()
    cards: Mapping[str, str] = field(default_factory=dict)
    devices: tuple[str, ...] = ()
    spent: Annotated[tuple[BenchmarkSpent, ...] | None, Rare] = None


def judgement_row(run: int, record: RunRecord) -> dict[str, Any]:
    """Return a run's judgement as a row."""
    notable = (
        one
        for one in record.effective_verdicts
        if one.outcome is not Outcome.PASS or one.worth_a_look or one.reason is Reason.WAIVED
    )
    judgement = Judgement(
        verdict=record.node_verdict,
        verdicts=tuple(notable),
        cards=record.cards,
        devices=tuple(sorted({*record.devices, *(one.device for one in record.measurements)})),
        spent=spent_of(record),
    )
    text = json.dumps(to_plain(judgement), separators=(",", ":"))
    return {"run_id": run, "packed": zlib.compress(text.encode("utf-8", "replace"))}


def read_judgement(packed: bytes | None) -> Judgement | None:
    """Return a judgement as `judgement_row` packed it; None if there is none, or it is damaged."""
    if packed is None:
        return None
    try:
        return from_plain(Judgement, _unpacked(packed), unknown="ignore")
    except (zlib.error, CodecError):
        return None


def read_spent(packed: bytes | None) -> tuple[BenchmarkSpent, ...] | None:
    """Return what a run spent, without reading its verdicts; None if that is unknown."""
    if packed is None:
        return None
    try:
        plain = _unpacked(packed)
        spent = plain.get("spent") if isinstance(plain, dict) else None
        return None if spent is None else from_plain(_Spent, {"spent": spent}).spent
    except (zlib.error, CodecError):
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Spent:
    """The part of a judgement that says what its run spent."""

    spent: tuple[BenchmarkSpent, ...]


def _unpacked(packed: bytes) -> Any:
    return parse_json(zlib.decompressobj().decompress(packed, _LARGEST))
