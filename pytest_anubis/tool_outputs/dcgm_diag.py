"""Read the output of ``dcgmi diag -j`` of DCGM 2 to 4: the result of each plugin for each device.

`dcgm` and `suites/tools/` use it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from pytest_anubis.codec import CodecError, from_plain
from pytest_anubis.core.field_types import Alias
from pytest_anubis.core.metric import Direction, Metric
from pytest_anubis.tool_outputs.failure_lines import failure_said
from pytest_anubis.tool_outputs.plain_lines import json_objects, lines_around
from pytest_anubis.tool_outputs.unreadable import UnreadableOutput, number, shown

TOOL = "dcgmi diag"

PASS = "pass"
FAIL = "fail"
WARN = "warn"
SKIP = "skip"
_WORDS = {"pass": PASS, "fail": FAIL, "warn": WARN, "skip": SKIP, "not run": SKIP}
_WORSE = (SKIP, PASS, WARN, FAIL)
"""From good to bad."""
_OF_ALL = " - all"
"""Ends a status that is that of all devices."""
_TITLES = ("DCGM Diagnostic", "DCGM GPU Diagnostic")
"""Since DCGM 4, and before."""
_OVERALL = "Overall Result"
_FIELDS = frozenset((*_TITLES, "iterations", "runtime_error", "global_errors"))
"""A run has one of these."""

_OF = r"(?:GPU (?P<card>[0-9]{1,4}) ){0,2}"  # older versions name the card twice
_WAY = r"(?P<name>GPU to Host|Host to GPU|bidirectional) "
_VALUE = r"(?P<value>[0-9.]{1,40})"
_READINGS: tuple[tuple[str, str, str, Direction], ...] = (
    (rf"{_WAY}bandwidth:[ \t]{{1,8}}{_VALUE} GB/s", "bandwidth", "GB/s", "higher"),
    (rf"{_WAY}latency:[ \t]{{1,8}}{_VALUE} us", "latency", "us", "lower"),
    (f"calculated at approximately {_VALUE} gigaflops during this test", "rate", "GFLOP/s", "higher"),
    (rf"relative stress level[ \t:]{{1,8}}{_VALUE}", "stress_level", "count", "higher"),
)  # fmt: skip
"""Remarks of plugins that contain a number: the whole remark, kind of metric, unit and direction."""
_MAX_REMARK_LENGTH = 200
"""Characters of a remark with a number."""
_MAX_WARNINGS = 8
"""Warnings that explain a failure; further ones repeat them."""
_MAX_REMARKS = 1000
"""Remarks of one plugin, which makes six for each card."""
_MAX_CARDS = 256
"""Cards of one result; nodes have sixteen at most."""
_CARD = re.compile(r"\bGPU (\d{1,4})\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class DiagResult:
    """The result of one plugin for one device."""

    plugin: str  # Its name, small letters without blanks, e.g. ``memory``.
    device: str  # E.g. ``GPU 3``; empty for the node as a whole.
    status: str  # ``pass``, ``fail``, ``warn`` or ``skip``; a pass with a warning is ``warn``
    text: str  # its warnings, in one line
    readings: tuple[tuple[Metric, float], ...] = ()  # metrics with the values that it measured
    covered: bool = False  # it is the summary of results of which one is as bad


@dataclass(frozen=True, slots=True, kw_only=True)
class DiagRun:
    """The results of one run."""

    results: tuple[DiagResult, ...]
    error: str  # why the run broke off, or an error of no plugin; empty if there is none
    # Device -> serial number, if it is known
    serials: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Result:
    status: str
    entity_group: str = ""
    entity_id: int | None = None
    gpu_id: str | int | None = ""
    gpu_ids: str | int | None = ""
    cpu_id: str | int | None = ""
    warnings: Any = ()
    info: Any = ()


@dataclass(frozen=True, slots=True)
class _Test:
    name: str
    # A card that ran no test is null before one that did; of a test that was skipped all may be.
    results: tuple[_Result | None, ...] | None = ()
    test_summary: _Result | None = None


@dataclass(frozen=True, slots=True)
class _Category:
    category: str = ""
    # DCGM 3.1 leaves a hole where a plugin does not apply.
    tests: tuple[_Test | None, ...] | None = ()


@dataclass(frozen=True, slots=True)
class _Body:
    test_categories: tuple[_Category | None, ...] | None = ()
    runtime_error: str = ""
    global_errors: Any = ()
    overall: Annotated[str, Alias(_OVERALL)] = ""
    serials: Annotated[Any, Alias("GPU Device Serials")] = ()


@dataclass(frozen=True, slots=True)
class _Output(_Body):
    """What is printed: a body below its title, parts of it beside the title, or several of the kind."""

    new: Annotated[_Body | None, Alias(_TITLES[0])] = None
    old: Annotated[_Body | None, Alias(_TITLES[1])] = None
    warning: Any = ()
    entity_groups: Any = ()
    iterations: tuple[Any, ...] | None = ()


def read_dcgm_diag(text: str) -> DiagRun:
    """Read the output of one run, or of several in sequence (``--iterations``); other lines are skipped.

    Raises:
        UnreadableOutput: It is no such JSON, a status is unknown, or no plugin said anything.
    """
    try:
        printed = [
            from_plain(_Output, data, unknown="ignore")
            for _, data in json_objects(text, TOOL, _FIELDS, unique=True)
        ]
        repeated = [
            None if one is None else from_plain(_Output, one, unknown="ignore")
            for output in printed
            for one in output.iterations or ()
        ]
    except CodecError as error:
        raise UnreadableOutput(TOOL, str(error)[:200]) from None
    hole = ""
    for place, one in enumerate(repeated, start=1):
        if one is None:  # it broke off
            hole = hole or f"iteration {place} of {len(repeated)} has no result"
        elif not (one.new or one.old or one.runtime_error):
            raise UnreadableOutput(TOOL, f"iteration {place} of {len(repeated)} has no result")
    outputs = [one for one in repeated if one is not None] + printed
    bodies = [(output, output.new or output.old or _Body()) for output in outputs]
    results = tuple(
        result
        for _, body in bodies
        for part in body.test_categories or ()
        for test in ((part.tests or ()) if part else ())
        for result in (_results(test) if test else ())
    )
    broken = _broken(bodies, hole, results)
    if not results and not broken:
        said = next((line for _, line in lines_around(text) if failure_said(line)), "")
        raise UnreadableOutput(
            TOOL, f"no plugin says anything{f', but: {shown(said)}' if said else ''}"
        )
    serials = {
        device: serial
        for output, body in bodies
        for device, serial in _serials(body.serials or output.serials, output.entity_groups)
    }
    return DiagRun(results=results, error=broken, serials=serials)


def _broken(
    bodies: Sequence[tuple[_Output, _Body]], hole: str, results: Sequence[DiagResult]
) -> str:
    """Return the errors that are of no plugin; the last resort is an iteration that is a hole."""
    pairs = [one for pair in bodies for one in pair]
    errors = [one.runtime_error for one in pairs]
    for one in pairs:
        if one.global_errors:
            errors += [*_said(one.global_errors)] or [shown(f"{one.global_errors}")]
    if error := "; ".join(dict.fromkeys(filter(str.strip, errors))):
        return error
    overall = {_status(one.overall, _OVERALL) for one in pairs if one.overall}
    if hole or (FAIL in overall and not any(one.status == FAIL for one in results)):
        said = "; ".join(text for output, _ in bodies for text in _said(output.warning))
        return said or hole or f"{_OVERALL} is a failure, but of no plugin"
    return ""


def _results(test: _Test) -> Iterator[DiagResult]:
    plugin = test.name.lower().replace(" ", "_")
    of_devices = [one for one in test.results or () if one is not None]
    worst = SKIP
    for result in of_devices:
        alone = len(of_devices) == 1
        for found in _of_devices(plugin, result, _status(result.status, test.name), alone=alone):
            worst = max(worst, found.status, key=_WORSE.index)
            yield found
    if test.test_summary is not None:
        status = _status(test.test_summary.status, test.name)
        for found in _of_devices(plugin, test.test_summary, status):
            if not of_devices or found.status in (WARN, FAIL):  # else the devices' results say it
                covered = bool(of_devices) and _WORSE.index(found.status) <= _WORSE.index(worst)
                yield replace(found, covered=covered)
    elif not of_devices:
        if not test.results:
            raise UnreadableOutput(TOOL, f"{test.name}: no result")
        yield DiagResult(plugin=plugin, device="", status=SKIP, text="")


def _of_devices(
    plugin: str, result: _Result, status: str, *, alone: bool = False
) -> Iterator[DiagResult]:
    """Yield what a result says of each of its devices.

    Args:
        plugin: Name of the test.
        result: The result.
        status: Its status.
        alone: It is the test's only one: DCGM 3 names the last of several cards, and all in its warnings.
    """
    texts = list(_said(result.warnings, _MAX_CARDS))
    if status == PASS and texts:
        status = WARN
    devices = _devices(result)
    measured = list(_measured(result.info, devices[0] if len(devices) == 1 else ""))
    said = dict.fromkeys(devices, texts)
    if alone and result.entity_id is None and len(devices) == 1 and _CARD.fullmatch(devices[0]):
        said = {devices[0]: []}
        for text in texts:
            named = {hit[0] for hit in _CARD.finditer(text)}
            said.setdefault(named.pop() if len(named) == 1 else devices[0], []).append(text)
    for device, own in said.items():
        yield DiagResult(
            plugin=plugin,
            device=device,
            status=status,
            text="; ".join(own[:_MAX_WARNINGS]),
            readings=tuple((metric, value) for of, metric, value in measured if of == device),
        )


def _status(word: str, where: str) -> str:
    status = _WORDS.get(word.strip().lower().removesuffix(_OF_ALL))
    if status is None:
        raise UnreadableOutput(TOOL, f"{where}: unknown status {shown(word)}")
    return status


def _devices(result: _Result) -> list[str]:
    """Return the devices of a result, which cards share in older versions; empty for the node (-1 too)."""
    if result.entity_id is not None:
        return [f"{result.entity_group or 'device'} {result.entity_id}"]
    for kind, ids in (("GPU", result.gpu_id), ("GPU", result.gpu_ids), ("CPU", result.cpu_id)):
        if ids is not None and f"{ids}".strip():
            numbers = dict.fromkeys(one.strip() for one in f"{ids}".split(",")[:_MAX_CARDS])
            return [f"{kind} {one}" if one and one != "-1" else "" for one in numbers]
    return [""]


def _measured(info: Any, device: str) -> Iterator[tuple[str, Metric, float]]:
    """Yield device, metric and value of remarks with a number, which older versions join by commas."""
    texts = _said(info, _MAX_REMARKS)
    for remark in (piece.strip() for text in texts for piece in text.split(", ")):
        for pattern, kind, unit, better in _READINGS:
            found = re.fullmatch(_OF + pattern, remark[:_MAX_REMARK_LENGTH])
            if found is None:
                continue
            parts = found.groupdict()
            way = f"{parts.get('name', '')} ".lower().replace(" ", "_").lstrip("_")
            metric = Metric(name=f"{way}{kind}", unit=unit, better=better)
            card = "" if parts["card"] is None else f"GPU {parts['card']}"
            yield card or device, metric, number(parts["value"], TOOL, f"remark {shown(remark)}")


def _serials(listed: Any, groups: Any) -> Iterator[tuple[str, str]]:
    """Yield device and serial number from the form of either version; any other form is ignored."""
    if isinstance(listed, Mapping):
        yield from ((f"GPU {card}", one) for card, one in listed.items() if isinstance(one, str))
    for group in groups if isinstance(groups, list) else ():
        if not isinstance(group, Mapping) or not isinstance(group.get("entities"), list):
            continue
        for one in group["entities"]:
            if isinstance(one, Mapping) and isinstance(serial := one.get("serial_num"), str):
                yield f"{group.get('entity_group') or 'device'} {one.get('entity_id')}", serial


def _said(warnings: Any, most: int = _MAX_WARNINGS) -> Iterator[str]:
    """Yield at most `most` texts of warnings: strings, objects with a ``warning``, or lists of them.

    DCGM 3 has the texts of its first tests in objects with ``warnings``.
    """
    if isinstance(warnings, str):
        if warnings.strip():
            yield warnings
    elif isinstance(warnings, Mapping):
        yield from _said(warnings.get("warning") or warnings.get("warnings") or "", most)
    elif isinstance(warnings, list | tuple):
        for one in warnings[:most]:
            yield from _said(one, most)
