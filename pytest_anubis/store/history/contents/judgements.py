"""Keep what a run decided of its node in one compressed cell, to show it later in the run's own words.

`anubis fleet status` and `health` do; the figures about validation read from it what benchmarks cost.
"""

from __future__ import annotations

import dataclasses
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from pytest_anubis.codec import CodecError, from_plain, to_plain
from pytest_anubis.codec.json_files import parse_json
from pytest_anubis.core.field_types import Count, NotNegative, Rare
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.validation_figures import BenchmarkSpent, spent_of
from pytest_anubis.core.verdict import MetricVerdict, NodeVerdict, Outcome, Reason

_MAX_BYTES = 1 << 26
"""Bytes before compression: some 100,000 verdicts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpentColumns:
    """What a run spent on each benchmark, by columns, which take a tenth of the time to read.

    The columns are those of `BenchmarkSpent` that the figures about validation need.
    """

    benchmark: tuple[str, ...]
    seconds: tuple[NotNegative, ...]
    tests: tuple[Count, ...]
    compared: tuple[Count, ...]
    planned: tuple[NotNegative, ...]
    took: tuple[NotNegative, ...]

    @property
    def rows(self) -> tuple[BenchmarkSpent, ...]:
        """What was spent on each benchmark; nothing if the columns have different lengths."""
        columns = [getattr(self, name) for name in _COLUMNS]
        if len({len(column) for column in columns}) > 1:
            return ()
        return tuple(
            BenchmarkSpent(**dict(zip(_COLUMNS, row, strict=True)))
            for row in zip(*columns, strict=True)
        )


_COLUMNS = tuple(field.name for field in dataclasses.fields(SpentColumns))


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What a run decided of its node."""

    # The decision with its blockers; None if the run broke off before it
    verdict: NodeVerdict | None = None
    verdicts: tuple[MetricVerdict, ...] = ()  # its metric verdicts other than a plain PASS
    # Device -> slot and serial number of its card in words
    cards: Mapping[str, str] = field(default_factory=dict)
    devices: tuple[str, ...] = ()  # the devices that it measured
    # What it spent on each benchmark; None if it does not say
    spent: Annotated[SpentColumns | None, Rare] = None


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
        spent=_columns(record),
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
        return None if spent is None else from_plain(SpentColumns, spent, unknown="ignore").rows
    except (zlib.error, CodecError):
        return None


def _columns(record: RunRecord) -> SpentColumns | None:
    spent = spent_of(record)
    if spent is None:
        return None
    columns = {name: tuple(_short(getattr(one, name)) for one in spent) for name in _COLUMNS}
    return SpentColumns(**columns)


def _short(cell: Any) -> Any:
    """Return a duration with six digits: a day of them is a tenth of a second off at most."""
    return float(f"{cell:.6g}") if isinstance(cell, float) else cell


def _unpacked(packed: bytes) -> Any:
    return parse_json(zlib.decompressobj().decompress(packed, _MAX_BYTES))
