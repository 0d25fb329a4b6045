"""Output of ``dcgmi diag -j``, of DCGM 2 to 4: what each plugin says of each device."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from pytest_anubis.codec import CodecError, from_plain, parse_json
from pytest_anubis.core.field_types import Alias
from pytest_anubis.tool_outputs.unreadable import UnreadableOutput, shown

TOOL = "dcgmi diag"

PASS, FAIL, WARN, SKIP = "pass", "fail", "warn", "skip"
_WORDS = {"pass": PASS, "fail": FAIL, "warn": WARN, "skip": SKIP, "not run": SKIP}
_TITLES = ("DCGM Diagnostic", "DCGM GPU Diagnostic")
"""From DCGM 4 on, and before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiagResult:
    """What one plugin says of one device.

    Attributes:
        plugin: Its name, small letters without blanks, e.g. ``memory``.
        device: E.g. ``GPU 3``; empty where it speaks of the node.
        status: ``pass``, ``fail``, ``warn`` or ``skip``.
        text: Its warnings, in one line.
    """

    plugin: str
    device: str
    status: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DiagRun:
    """What one run found.

    Attributes:
        version: Of DCGM; empty where it does not tell.
        results: In their order.
        error: Why the run broke off; empty if it did not.
    """

    version: str
    results: tuple[DiagResult, ...]
    error: str


@dataclass(frozen=True, slots=True)
class _Result:
    status: str
    entity_group: str = ""
    entity_id: int | None = None
    gpu_id: str | int = ""
    gpu_ids: str | int = ""
    warnings: Any = ()
    info: Any = ()


@dataclass(frozen=True, slots=True)
class _Test:
    name: str
    results: tuple[_Result, ...] = ()
    test_summary: _Result | None = None


@dataclass(frozen=True, slots=True)
class _Category:
    category: str = ""
    tests: tuple[_Test, ...] = ()


@dataclass(frozen=True, slots=True)
class _Body:
    test_categories: tuple[_Category, ...] = ()
    version: str = ""
    runtime_error: str = ""


@dataclass(frozen=True, slots=True)
class _Metadata:
    version: str = ""


@dataclass(frozen=True, slots=True)
class _Output:
    new: Annotated[_Body | None, Alias(_TITLES[0])] = None
    old: Annotated[_Body | None, Alias(_TITLES[1])] = None
    metadata: _Metadata = field(default_factory=_Metadata)
    runtime_error: str = ""


def read_dcgm_diag(text: str) -> DiagRun:
    """Read what one run printed; what stands before the JSON is skipped.

    Raises:
        UnreadableOutput: It is no such JSON, a status is unknown, or no plugin said anything.
    """
    begin = max(0, text.find("{"))
    try:
        data: Mapping[str, Any] = parse_json(text[begin:])
        output = from_plain(_Output, data, unknown="ignore")
    except CodecError as error:
        raise UnreadableOutput(TOOL, str(error)[:200]) from None
    body = output.new or output.old or _Body()
    results = tuple(
        result for part in body.test_categories for test in part.tests for result in _results(test)
    )
    broken = body.runtime_error or output.runtime_error
    if not results and not broken:
        raise UnreadableOutput(TOOL, "no plugin says anything")
    version = output.metadata.version or body.version
    return DiagRun(version=version, results=results, error=broken)


def _results(test: _Test) -> Iterator[DiagResult]:
    found = [*test.results, *([test.test_summary] if test.test_summary is not None else [])]
    if not found:
        raise UnreadableOutput(TOOL, f"{test.name}: no result")
    for result in found:
        status = _WORDS.get(result.status.lower())
        if status is None:
            raise UnreadableOutput(TOOL, f"{test.name}: unknown status {shown(result.status)}")
        if result is test.test_summary and test.results and status in (PASS, SKIP):
            continue  # the devices have said it; a summary that is worse than they counts
        yield DiagResult(
            plugin=test.name.lower().replace(" ", "_"),
            device=_device(result),
            status=status,
            text="; ".join(_said(result.warnings)),
        )


def _device(result: _Result) -> str:
    if result.entity_id is not None:
        return f"{result.entity_group or 'device'} {result.entity_id}"
    number = f"{result.gpu_id}" or f"{result.gpu_ids}"
    return f"GPU {number}" if number else ""


def _said(warnings: Any) -> Iterator[str]:
    """Yield the texts of warnings: strings, objects with a ``warning``, or a list of them."""
    if isinstance(warnings, str):
        yield warnings
    elif isinstance(warnings, Mapping):
        yield from _said(warnings.get("warning", ""))
    elif isinstance(warnings, list | tuple):
        for one in warnings[:8]:  # so many explain a failure
            yield from _said(one)
