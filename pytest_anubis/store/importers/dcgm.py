"""JSON of ``dcgmi diag -j``, of DCGM 2 to 4: what every plugin says of every card, and its numbers."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from pytest_anubis.core.metric import Metric
from pytest_anubis.core.sample import Problem
from pytest_anubis.store.importers.import_result import (
    UNCLASSIFIED,
    Imported,
    ImportFileError,
    Unit,
    WrongLines,
    import_samples,
    read_text,
)
from pytest_anubis.tool_outputs.dcgm_diag import FAIL, SKIP, WARN, DiagRun, read_dcgm_diag
from pytest_anubis.tool_outputs.unreadable import UnreadableOutput

_NOT_PASSED = Metric(name="not_passed", unit="count", better="equal")
_COMPONENT = "accelerator.diagnostics"
_COMPONENTS = {
    "pcie": "memory.transfer",
    "memory_bandwidth": "memory.bandwidth",
    "diagnostic": "compute.matrix",
    "targeted_stress": "compute.matrix",
}
"""Plugin -> what its numbers are about; the others tell none."""
_MOST_NOTES = 20
"""Warnings and skipped plugins that are named; more of them repeat a reason."""


def import_dcgm(
    path: Path, *, node: str, hardware_class: str = UNCLASSIFIED, run: str = ""
) -> Imported:
    """Read the output of one ``dcgmi diag -j`` on one node.

    Every plugin and card gives ``not_passed`` of ``dcgm/<plugin>``: 0 where it passed, 1 where it warned, the
    problem ``failed`` with DCGM's reason where it failed, the problem ``missing`` where it was skipped and
    other cards were not. A plugin that was skipped on every card is listed. Bandwidths, latencies and rates
    that its remarks tell are metrics of their own.

    Args:
        path: The file.
        node: The node that it comes from.
        hardware_class: The node's class.
        run: The run's id; default: the file's name.

    Raises:
        ImportFileError: The file cannot be read, is no such output, or the run broke off.
    """
    try:
        found = read_dcgm_diag(read_text(path))
    except UnreadableOutput as error:
        raise ImportFileError(f"{path}: {error}; write it with dcgmi diag -r LEVEL -j") from None
    if found.error:
        raise ImportFileError(
            f"{path}: dcgmi diag broke off: {' '.join(found.error[:200].split())}"
        )
    samples: dict[Unit, list[float]] = {}
    failed: dict[Unit, Problem] = {}
    notes: list[str] = []
    ran = Counter(one.plugin for one in found.results if one.status != SKIP)
    blamed = {one.plugin for one in found.results if one.device and one.status in (FAIL, WARN)}
    for one in found.results:
        if not one.device and one.plugin in blamed:
            continue  # the summary of what its cards said
        name, device = f"dcgm/{one.plugin}", one.device or "node"
        unit = (name, _NOT_PASSED, device)
        reason = one.text or {FAIL: "failed", SKIP: "skipped"}.get(one.status, "")
        if one.status != SKIP:
            samples.setdefault(unit, []).append(float(one.status == WARN))
            for metric, value in one.readings:
                samples.setdefault((name, metric, device), []).append(value)
        if one.status == FAIL:
            text = f"{_serial(found, device)}{reason}"
            for hit in (unit, *((name, metric, device) for metric, _ in one.readings)):
                failed[hit] = Problem(kind="failed", text=text)
        elif one.status == SKIP and ran[one.plugin]:
            samples.setdefault(unit, [])
            failed[unit] = Problem(kind="missing", text=reason)
        elif one.status == WARN:
            said = f"{_serial(found, device)}{reason or 'a warning'}"
            notes.append(f"{one.plugin}: {device}: {said}")
    if skipped := sorted({one.plugin for one in found.results} - ran.keys()):
        notes.append(f"skipped on every card, not imported: {', '.join(skipped)}")
    if len(notes) > _MOST_NOTES:
        notes = [*notes[:_MOST_NOTES], f"... and {len(notes) - _MOST_NOTES} more"]
    return import_samples(
        path,
        samples,
        failed,
        node=node,
        hardware_class=hardware_class,
        run=run,
        component={
            name: _COMPONENTS.get(name.removeprefix("dcgm/"), _COMPONENT) for name, _, _ in samples
        },
        lines=len(found.results),
        wrong=WrongLines(),
        notes=notes,
    )


def _serial(found: DiagRun, device: str) -> str:
    """Return a card's serial number before what is said of it, where DCGM tells one."""
    serial = found.serials.get(device, "")
    return f"serial {serial}: " if serial else ""
