"""Import the JSON of ``dcgmi diag -r LEVEL -j`` of DCGM 2 to 4: each plugin's result and numbers per card."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Unpack

from pytest_anubis.core.metric import Metric
from pytest_anubis.store.importers.import_result import (
    Imported,
    OfNode,
    Samples,
    Unit,
    import_samples,
    read_output,
)
from pytest_anubis.tool_outputs.dcgm_diag import FAIL, SKIP, WARN, DiagRun, read_dcgm_diag

_NOT_PASSED = Metric(name="not_passed", unit="count", better="equal")
_COMPONENT = "accelerator.diagnostics"
_COMPONENTS = {
    "pcie": "memory.transfer",
    "memory_bandwidth": "memory.bandwidth",
    "diagnostic": "compute.matrix",
    "targeted_stress": "compute.matrix",
}
"""Plugin with numbers -> the component that they are about."""
_MAX_NOTES = 20
"""Warnings and skipped plugins that are listed; further ones repeat a reason."""


def import_dcgm(path: Path, **of_node: Unpack[OfNode]) -> Imported:
    """Read the output of one ``dcgmi diag -j`` on one node.

    Every plugin and card gives ``not_passed`` of ``dcgm/<plugin>``: 0 for a pass, 1 for a warning, the
    problem ``failed`` with DCGM's reason for a failure, the problem ``missing`` if it was skipped on this
    card but not on others. A summary that is worse than all of its cards is a result of the node. A plugin
    that was skipped on every card is listed. Bandwidths, latencies and rates in its remarks are separate
    metrics. A run that broke off, or has an error of no plugin, has the problem ``failed`` in ``not_passed``
    of ``dcgm/diag``.

    Raises:
        ImportFileError: The file cannot be read, or is no such output.
    """
    found = read_output(path, read_dcgm_diag, "write it with dcgmi diag -r LEVEL -j")
    samples = Samples()
    if found.error:
        text = f"dcgmi diag broke off: {' '.join(found.error[:200].split())}"
        samples.problem(Unit("dcgm/diag", _NOT_PASSED, "node"), "failed", text)
    ran = Counter(one.plugin for one in found.results if one.status != SKIP)
    for one in found.results:
        if one.covered:
            continue
        name = f"dcgm/{one.plugin}"
        device = one.device or "node"
        unit = Unit(name, _NOT_PASSED, device)
        samples.components[name] = _COMPONENTS.get(one.plugin, _COMPONENT)
        reason = one.text or {FAIL: "failed", SKIP: "skipped"}.get(one.status, "")
        said = f"{_serial(found, device)}{reason or 'a warning'}"
        if one.status != SKIP:
            samples.add(unit, float(one.status == WARN))
            for metric, value in one.readings:
                samples.add(Unit(name, metric, device), value)
        if one.status == FAIL:
            for hit in (unit, *(Unit(name, metric, device) for metric, _ in one.readings)):
                samples.problem(hit, "failed", said)
        elif one.status == SKIP and ran[one.plugin] and not samples.values.get(unit):
            samples.problem(unit, "missing", reason)
        elif one.status == WARN:
            samples.notes.append(f"{one.plugin}: {device}: {said}")
    if skipped := sorted({one.plugin for one in found.results} - ran.keys()):
        samples.notes.append(f"skipped on every card, not imported: {', '.join(skipped)}")
    if (more := len(samples.notes) - _MAX_NOTES) > 0:
        samples.notes[_MAX_NOTES:] = [f"... and {more} more"]
    return import_samples(path, samples, _COMPONENT, **of_node)


def _serial(found: DiagRun, device: str) -> str:
    """Return a card's serial number as the beginning of a message; empty if it is unknown."""
    serial = found.serials.get(device, "")
    return f"serial {serial}: " if serial else ""
