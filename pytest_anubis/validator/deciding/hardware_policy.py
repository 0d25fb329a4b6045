"""What follows from what the hardware itself reports while tests run: one rule for every sort of report.

The tests may all have passed: an uncorrected error, a driver that lost its card or clocks that were pulled
down are findings of their own. A rule says what follows, where to look, what to do, and why it is so and not
else.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_anubis.core.events import HardwareFound
from pytest_anubis.core.run import EVIDENCE, HOT_AIR, THERMAL, RunRecord
from pytest_anubis.core.verdict import MetricVerdict, Outcome, Reason

BENCHMARK = "hardware"
"""Benchmark id of these verdicts."""

SHOWN = 3
"""Tests named in a sentence; all of them are in the evidence."""

_REPEATED = re.compile(r", (\d+) times$")  # how the kernel log's events say that they are several

_RESET = "reset the card (nvidia-smi --gpu-reset, or reboot), then test again"
_RESET_AMD = "reset the card (amd-smi reset --gpureset, or reboot), then test again"
_REPLACE = "take the card out of use; if it happens again after a reset, replace it"
_SLOT = "look for the card's last words in the kernel log, reseat it, check its power and slot"
_COOL = "check this card's heat sink, thermal paste and air flow against its neighbours"
_POWER = "check the power supplies, their cables and the rack's power budget"
_LINK = "reseat the card and its bridge or board; check the switch (nvidia-smi nvlink -e)"


@dataclass(frozen=True, slots=True)
class Rule:
    """What follows from one sort of report.

    Attributes:
        outcome: FAIL rejects, INCONCLUSIVE blocks, MARGINAL is reported in the headline; None: context only.
        component: What to blame.
        action: Next step.
        reason: Why this follows, for whoever wants to change it.
    """

    outcome: Outcome | None
    component: str
    action: str
    reason: str


RULES: dict[str, Rule] = {
    "uncorrected-memory-error": Rule(
        Outcome.FAIL,
        "accelerator.memory",
        _REPLACE,
        "data was lost: no result of that moment can be trusted, and a new node has none",
    ),
    "uncorrected-error": Rule(
        Outcome.FAIL,
        "accelerator",
        _REPLACE,
        "a unit, a cache or a bus lost data: no result of that moment can be trusted",
    ),
    "deferred-memory-error": Rule(
        Outcome.INCONCLUSIVE,
        "accelerator.memory",
        _RESET_AMD,
        "data was lost that nobody has used yet; the driver retires its page, more of them are bad memory",
    ),
    "deferred-error": Rule(
        Outcome.INCONCLUSIVE,
        "accelerator",
        _RESET_AMD,
        "a unit lost data that nobody has used yet: no result is wrong by it, and the next one may be",
    ),
    "xid-fault": Rule(
        Outcome.FAIL,
        "accelerator",
        _REPLACE,
        "NVIDIA's catalogue asks for a reset or for support, and no program can provoke it",
    ),
    "xid-reset": Rule(
        Outcome.INCONCLUSIVE,
        "accelerator",
        _RESET,
        "the driver repaired something or asks for a reset: healthy or not shows afterwards",
    ),
    "xid-unclear": Rule(
        Outcome.INCONCLUSIVE,
        "accelerator",
        "look the number up in NVIDIA's XID catalogue, reset the card, then test again",
        "programs and hardware both cause it, or nobody here knows it: it must be looked at, not overlooked",
    ),
    "remap-failed": Rule(
        Outcome.FAIL,
        "accelerator.memory",
        "replace the card: its spare rows are used up",
        "the remapping failure flag is NVIDIA's own criterion for an exchange",
    ),
    "remap-pending": Rule(
        Outcome.INCONCLUSIVE,
        "accelerator.memory",
        _RESET,
        "a row waits for its replacement: NVIDIA asks for a reset, which is no reason for an exchange",
    ),
    "reset-needed": Rule(
        Outcome.INCONCLUSIVE,
        "accelerator",
        _RESET,
        "the driver says that the card cannot go on without it, and not why",
    ),
    "card-lost": Rule(
        Outcome.FAIL,
        "accelerator",
        _SLOT,
        "a card that leaves the bus under load does it again; NVML's errors 15 and 16 mean nothing else",
    ),
    "card-silent": Rule(
        Outcome.INCONCLUSIVE,
        "accelerator",
        "check the driver (nvidia-smi must answer within seconds; nvidia-smi -pm 1), then test again",
        "counters that cannot be read say nothing: neither that there was an error nor that there was none",
    ),
    "card-reset": Rule(
        Outcome.INCONCLUSIVE,
        "accelerator",
        "look for the cause in the kernel log, then test again",
        "the driver resets a card for a program that hangs as well as for a fault",
    ),
    "switch-fault": Rule(
        Outcome.FAIL,
        "accelerator.link",
        "reset all cards and switches of the node; if it comes back, replace the switch board",
        "the switch itself calls it fatal: traffic over it stops until a reset",
    ),
    "switch-event": Rule(
        Outcome.MARGINAL,
        "accelerator.link",
        "watch this switch; if it repeats, run the vendor's field diagnostics",
        "the switch calls it non-fatal and goes on: a reason to look, none to reject",
    ),
    "link-errors": Rule(
        Outcome.FAIL,
        "accelerator.link",
        _LINK,
        "beyond the rate at which retries cost bandwidth; a sound link has none",
    ),
    "link-error": Rule(
        Outcome.MARGINAL,
        "accelerator.link",
        _LINK,
        "one recovery can be a particle's: it is told, and counts when it repeats",
    ),
    "power-brake": Rule(
        Outcome.FAIL,
        "accelerator.power",
        _POWER,
        "an external signal halves the clocks: no node that is supplied as it should be raises it",
    ),
    "hw-slowdown": Rule(
        Outcome.FAIL,
        "accelerator.power",
        _POWER,
        "the board pulls the clocks down by itself, for its voltage or current and not for heat",
    ),
    THERMAL: Rule(
        Outcome.FAIL,
        "accelerator.cooling",
        _COOL,
        "with cooler neighbours under the same load it is the card's own cooling; see `ambient_overheating`",
    ),
    HOT_AIR: Rule(
        None,
        "node.cooling",
        "cool the room",
        "says whose fault heat is, and is none while nothing slows down",
    ),
    "host-memory-error": Rule(
        Outcome.FAIL,
        "memory",
        "replace the module that the kernel log names (EDAC)",
        "data in main memory was lost",
    ),
    "card-start-failed": Rule(
        Outcome.INCONCLUSIVE,
        "accelerator",
        "read what the driver says in the kernel log, reinstall the driver, reseat the card, then test again",
        "a card that is broken and a driver that does not fit it are refused alike",
    ),
    "machine-check": Rule(
        Outcome.FAIL,
        "cpu",
        "decode the machine check (rasdaemon, mcelog), replace the processor or module that it names",
        "the processor found data that it could not correct",
    ),
    "disk-fault": Rule(
        Outcome.FAIL,
        "storage.disk",
        "replace the disk (smartctl -x tells its state)",
        "a sector that cannot be read is data that is lost",
    ),
    "disk-trouble": Rule(
        Outcome.INCONCLUSIVE,
        "storage.disk",
        "check the disk (smartctl -x), its cable and slot, then test again",
        "disk, cable, controller and driver give the same words, and each of them costs speed",
    ),
    "network-trouble": Rule(
        Outcome.INCONCLUSIVE,
        "network",
        "check cable, transceiver and switch port, then test again",
        "somebody may have pulled a cable; a link that goes down by itself is a fault",
    ),
    "host-trouble": Rule(
        Outcome.INCONCLUSIVE,
        "host",
        "read the kernel log around it, then test again",
        "devices that do not answer and mistakes of drivers both hold the kernel",
    ),
    "unclear": Rule(
        Outcome.INCONCLUSIVE,
        "host",
        "look in the kernel log for the device that it names, then test again",
        "something was not corrected, and no row of the catalogue says what",
    ),
    "log-lost": Rule(
        Outcome.INCONCLUSIVE,
        "host",
        "find out who floods the kernel log (dmesg), then test again",
        "a fault may have been among the messages that were overwritten",
    ),
    EVIDENCE: Rule(None, "host", "read the kernel log", "listed: it decides nothing by itself"),
    "pcie-uncorrected": Rule(
        Outcome.INCONCLUSIVE,
        "pcie",
        "reseat the device that the kernel log names, check its slot and riser, then test again",
        "a transfer was lost and the link goes on; programs that ask for what is not there cause it too",
    ),
    "pcie-fatal": Rule(
        Outcome.FAIL,
        "pcie",
        "reseat the device that the kernel log names, check its slot and riser",
        "a fatal error takes the link down: what was under way is lost",
    ),
}
"""Sort of report -> what follows. At a software power cap nothing follows: it is normal under full load."""

_ROOM = Rule(
    Outcome.INCONCLUSIVE,
    "node.cooling",
    "mend the cooling of the room or chassis, then test again",
    "where all cards are hot, or the air that comes in is, no card can be blamed",
)

_UNKNOWN = Rule(
    Outcome.INCONCLUSIVE,
    "accelerator",
    "read the journal with the version that wrote it",
    "a later version knows what follows from it; until then it must not be overlooked",
)


def verdicts_of_hardware(run: RunRecord) -> list[MetricVerdict]:
    """Return one verdict for everything that the hardware reported in a run; repeats are one with a count.

    They have no test of their own: a test that passed, was repeated or is waived excuses none of them.
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
    """Return how often something happened: what two sources tell of is one thing, not two."""
    counts: Counter[str] = Counter()
    for event in events:
        said = _REPEATED.search(event.text)
        counts[event.source] += int(said[1]) if said else 1
    return max(counts.values())


def _verdict(
    run: RunRecord, rule: Rule, events: Sequence[HardwareFound], room: str
) -> MetricVerdict:
    first = events[0]
    action = rule.action
    # The text has the slot; the serial number is what a card is sent in by. A hot room is no card's.
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
        more = (
            f" and {len(tests) - SHOWN} more test{'s' if len(tests) > SHOWN + 1 else ''}"
            if len(tests) > SHOWN
            else ""
        )
        text += f", while {', '.join(tests[:SHOWN])}{more} ran"
    if sources:
        text += f" ({sources})"
    if room:
        text += f"; {room}: that is the cooling of room or chassis, not of the card"
    if rule.outcome is Outcome.INCONCLUSIVE:  # has no headline of its own that tells the next step
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
