"""Turn what the hardware reports while tests run into verdicts, by one rule for each sort of report.

The tests may all have passed: an uncorrected error, a driver that lost its card, or lowered clocks are
findings of their own. A rule states the outcome, the component and the next step; its comment says why.
`run_decision` uses it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from pytest_anubis.core.events import HardwareFound
from pytest_anubis.core.run import EVIDENCE, HOT_AIR, THERMAL, RunRecord
from pytest_anubis.core.verdict import MetricVerdict, Outcome, Reason

BENCHMARK = "hardware"
"""Benchmark id of these verdicts."""

MAX_TESTS_NAMED = 3
"""Tests named in a sentence; all of them are in the evidence."""

_REPEATED = re.compile(r", (\d+) times$")  # ends the text of repeated events of the kernel log

_RESET = "reset the card (nvidia-smi --gpu-reset, or reboot), then test again"
_RESET_AMD = "reset the card (amd-smi reset --gpureset, or reboot), then test again"
_REPLACE = "take the card out of use; if it happens again after a reset, replace it"
_SLOT = "look for the card's last words in the kernel log, reseat it, check its power and slot"
_COOL = "check this card's heat sink, thermal paste and air flow against its neighbours"
_POWER = "check the power supplies, their cables and the rack's power budget"
_LINK = "reseat the card and its bridge or board; check the switch (nvidia-smi nvlink -e)"


_FAIL = Outcome.FAIL  # rejects
_INCONCLUSIVE = Outcome.INCONCLUSIVE  # blocks
_MARGINAL = Outcome.MARGINAL  # is reported in the headline


class Rule(NamedTuple):
    """The consequence of one sort of report."""

    outcome: Outcome | None  # None: the report is context only
    component: str  # what to blame
    action: str  # next step


RULES: dict[str, Rule] = {
    # Data was lost: no result of that moment can be trusted, and a new node has none.
    "uncorrected-memory-error": Rule(_FAIL, "accelerator.memory", _REPLACE),
    # A unit, a cache or a bus lost data: no result of that moment can be trusted.
    "uncorrected-error": Rule(_FAIL, "accelerator", _REPLACE),
    # Data was lost before it was used; the driver retires its page, and more such errors mean bad
    # memory.
    "deferred-memory-error": Rule(_INCONCLUSIVE, "accelerator.memory", _RESET_AMD),
    # A unit lost data before it was used: no result is wrong yet, but the next one may be.
    "deferred-error": Rule(_INCONCLUSIVE, "accelerator", _RESET_AMD),
    # NVIDIA's catalogue asks for a reset or for support, and no program can provoke it.
    "xid-fault": Rule(_FAIL, "accelerator", _REPLACE),
    # The driver repaired something or asks for a reset: healthy or not shows afterwards.
    "xid-reset": Rule(_INCONCLUSIVE, "accelerator", _RESET),
    # Programs and hardware both cause it, or its cause is unknown: an engineer must look at it.
    "xid-unclear": Rule(
        _INCONCLUSIVE,
        "accelerator",
        "look the number up in NVIDIA's XID catalogue, reset the card, then test again",
    ),
    # The remapping failure flag is NVIDIA's own criterion for an exchange.
    "remap-failed": Rule(
        _FAIL, "accelerator.memory", "replace the card: its spare rows are used up"
    ),
    # A row waits for its replacement: NVIDIA asks for a reset, which is no reason for an exchange.
    "remap-pending": Rule(_INCONCLUSIVE, "accelerator.memory", _RESET),
    # The driver says that the card cannot go on without it, and not why.
    "reset-needed": Rule(_INCONCLUSIVE, "accelerator", _RESET),
    # A card that leaves the bus under load does it again; NVML's errors 15 and 16 mean nothing else.
    "card-lost": Rule(_FAIL, "accelerator", _SLOT),
    # Counters that cannot be read say nothing: neither that there was an error nor that there was none.
    "card-silent": Rule(
        _INCONCLUSIVE,
        "accelerator",
        "check the driver (nvidia-smi must answer within seconds; nvidia-smi -pm 1), then test again",
    ),
    # The driver resets a card for a program that hangs as well as for a fault.
    "card-reset": Rule(
        _INCONCLUSIVE, "accelerator", "look for the cause in the kernel log, then test again"
    ),
    # The switch itself calls it fatal: traffic over it stops until a reset.
    "switch-fault": Rule(
        _FAIL,
        "accelerator.link",
        "reset all cards and switches of the node; if it comes back, replace the switch board",
    ),
    # The switch calls it non-fatal and goes on: a reason to look, none to reject.
    "switch-event": Rule(
        _MARGINAL,
        "accelerator.link",
        "watch this switch; if it repeats, run the vendor's field diagnostics",
    ),
    # Beyond the rate at which retries cost bandwidth; a sound link has none.
    "link-errors": Rule(_FAIL, "accelerator.link", _LINK),
    # A particle can cause one recovery: it is reported, and counts when it repeats.
    "link-error": Rule(_MARGINAL, "accelerator.link", _LINK),
    # An external signal halves the clocks; a node with a sound supply never raises it.
    "power-brake": Rule(_FAIL, "accelerator.power", _POWER),
    # The board lowers the clocks because of its voltage or current, not because of heat.
    "hw-slowdown": Rule(_FAIL, "accelerator.power", _POWER),
    # With cooler neighbours under the same load it is the card's own cooling; see
    # `ambient_overheating`.
    THERMAL: Rule(_FAIL, "accelerator.cooling", _COOL),
    # Shows whether heat is the card's fault; no fault while nothing slows down.
    HOT_AIR: Rule(None, "node.cooling", "cool the room"),
    # Data in main memory was lost.
    "host-memory-error": Rule(
        _FAIL, "memory", "replace the module that the kernel log names (EDAC)"
    ),
    # A card that is broken and a driver that does not fit it are refused alike.
    "card-start-failed": Rule(
        _INCONCLUSIVE,
        "accelerator",
        "read what the driver says in the kernel log, reinstall the driver, reseat the card, then test again",
    ),
    # The processor found data that it could not correct.
    "machine-check": Rule(
        _FAIL,
        "cpu",
        "decode the machine check (rasdaemon, mcelog), replace the processor or module that it names",
    ),
    # A sector that cannot be read is data that is lost.
    "disk-fault": Rule(_FAIL, "storage.disk", "replace the disk (smartctl -x tells its state)"),
    # Disk, cable, controller and driver give the same words, and each of them costs speed.
    "disk-trouble": Rule(
        _INCONCLUSIVE,
        "storage.disk",
        "check the disk (smartctl -x), its cable and slot, then test again",
    ),
    # An operator may have pulled a cable; a link that goes down by itself is a fault.
    "network-trouble": Rule(
        _INCONCLUSIVE, "network", "check cable, transceiver and switch port, then test again"
    ),
    # Devices that do not answer and mistakes of drivers both hold the kernel.
    "host-trouble": Rule(_INCONCLUSIVE, "host", "read the kernel log around it, then test again"),
    # An error was not corrected, and no row of the catalogue names its source.
    "unclear": Rule(
        _INCONCLUSIVE,
        "host",
        "look in the kernel log for the device that it names, then test again",
    ),
    # A fault may have been among the messages that were overwritten.
    "log-lost": Rule(
        _INCONCLUSIVE, "host", "find out what floods the kernel log (dmesg), then test again"
    ),
    # Listed: it decides nothing by itself.
    EVIDENCE: Rule(None, "host", "read the kernel log"),
    # A transfer was lost and the link goes on; programs that ask for what is not there cause it too.
    "pcie-uncorrected": Rule(
        _INCONCLUSIVE,
        "pcie",
        "reseat the device that the kernel log names, check its slot and riser, then test again",
    ),
    # A fatal error takes the link down: what was under way is lost.
    "pcie-fatal": Rule(
        _FAIL, "pcie", "reseat the device that the kernel log names, check its slot and riser"
    ),
}
"""Sort of report -> its rule. A software power cap has no rule: it is normal under full load."""

# Where all cards are hot, or the air that comes in is, no card can be blamed.
_ROOM = Rule(
    _INCONCLUSIVE, "node.cooling", "mend the cooling of the room or chassis, then test again"
)

# A later version knows what follows from it; until then it must not be overlooked.
_UNKNOWN = Rule(_INCONCLUSIVE, "accelerator", "read the journal with the version that wrote it")


def verdicts_of_hardware(run: RunRecord) -> list[MetricVerdict]:
    """Return the verdicts on what the hardware reported in a run; repeated reports are one, with a count.

    They belong to no test, so a test that passed, was repeated or is waived excuses none of them.
    """
    groups: dict[tuple[str, str, str], list[HardwareFound]] = {}
    for event in run.hardware:
        groups.setdefault((event.sort, event.name, event.device or event.part), []).append(event)
    room = run.ambient_overheating
    verdicts = []
    for (sort, _, _), events in groups.items():
        rule = _ROOM if sort == THERMAL and room else RULES.get(sort, _UNKNOWN)
        if rule.outcome is not None:
            verdicts.append(_verdict(run, rule, events, room if rule is _ROOM else ""))
    worst = (Outcome.FAIL, Outcome.INCONCLUSIVE, Outcome.MARGINAL)
    return sorted(verdicts, key=lambda verdict: worst.index(verdict.outcome))


def _times(events: Sequence[HardwareFound]) -> int:
    """Return how often something happened; reports of several sources are about the same events."""
    counts: Counter[str] = Counter()
    for event in events:
        repeated = _REPEATED.search(event.text)
        counts[event.source] += int(repeated[1]) if repeated else 1
    return max(counts.values())


def _verdict(
    run: RunRecord, rule: Rule, events: Sequence[HardwareFound], room: str
) -> MetricVerdict:
    first = events[0]
    action = rule.action
    # A card is sent in by its serial number; the text has only the slot. A hot room is not the card's fault.
    serial = run.cards.get(first.device, "").partition("serial number ")[2]
    if serial and rule is not _ROOM:
        action += f" (serial number {serial})"
    tests = list(dict.fromkeys(test for event in events for test in event.tests))
    sources = " and ".join(dict.fromkeys(event.source for event in events if event.source))
    what = _REPEATED.sub("", first.text)
    text = f"{first.part}: {what}" if first.part else what
    times = _times(events)
    if times > 1:
        text += f", {times} times"
    if tests:
        others = len(tests) - MAX_TESTS_NAMED
        more = f" and {others} more test{'s' if others > 1 else ''}" if others > 0 else ""
        text += f", while {', '.join(tests[:MAX_TESTS_NAMED])}{more} ran"
    if sources:
        text += f" ({sources})"
    if room:
        text += f"; {room}: that is the cooling of room or chassis, not of the card"
    if rule.outcome is Outcome.INCONCLUSIVE:  # no headline names its next step
        text += f"; next step: {action}"
    return MetricVerdict(
        outcome=rule.outcome or Outcome.INCONCLUSIVE,
        reason=Reason.HARDWARE,
        text=text,
        benchmark=BENCHMARK,
        metric=first.name,
        component=rule.component,
        node=run.node,
        device=first.device or first.part,
        evidence=(
            *dict.fromkeys(event.text for event in events),
            *(f"ran meanwhile: {test}" for test in tests),
        ),
        action=action,
    )
