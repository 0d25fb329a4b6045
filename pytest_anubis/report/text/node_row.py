"""One judged node with what its verdict rests on, and which kind of trouble it has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pytest_anubis.core.asking.next_step import first_act, open_act, shared_act, throughout
from pytest_anubis.core.blocker import Blocker, Hindrance
from pytest_anubis.core.identity.alike_devices import (
    alike_text,
    latest_of,
    other_verdicts,
    same_thing,
)
from pytest_anubis.core.survey.fleet_survey import TraitShift
from pytest_anubis.core.verdict import (
    RETEST,
    Decision,
    MetricVerdict,
    NodeVerdict,
    Outcome,
    Reason,
    Trouble,
)
from pytest_anubis.report.text.failure_text import sure_text, worst_text
from pytest_anubis.report.text.headlines import after_name
from pytest_anubis.report.text.numbers import count_text
from pytest_anubis.report.text.summary_text import without_folders
from pytest_anubis.report.text.text_table import plain_line

LOOK = "LOOK AT"
"""What an accepted node is called that is worth a look."""
WORDS = (
    Decision.REJECTED.value,
    RETEST,
    Decision.UNDECIDED.value,
    LOOK,
    Decision.ACCEPTED.value,
)
"""What nodes are called, the worst first."""
BAD = (Outcome.FAIL, Outcome.MARGINAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRow:
    """One node with what its verdict rests on.

    Attributes:
        verdict: The decision.
        verdicts: Its verdicts that are not simply a PASS, in the order in which their runs began.
        cards: Device -> slot and serial number of its card in words, as far as they are known.
        hardware_class: That of the node.
        unlike: Of an accepted node what learning found it to be worst in, where it was no part of the
            healthy nodes; empty of any other.
        devices: Its devices, as far as they are known; `verdicts` and `cards` may name others.
        missing: How many single values it lacks.
        shared: What many nodes share and explains alone what is bad on it; None where nothing does, or before
            it was looked for (`with_shared`).
    """

    verdict: NodeVerdict
    verdicts: Sequence[MetricVerdict] = ()
    cards: Mapping[str, str] = field(default_factory=dict)
    hardware_class: str = ""
    unlike: str = ""
    devices: frozenset[str] = frozenset()
    missing: int = 0
    shared: Blocker | None = None

    @property
    def unit(self) -> tuple[str, str]:
        """Its name and class: a node may be in several."""
        return self.verdict.node, self.hardware_class

    @property
    def worst(self) -> MetricVerdict | None:
        """The verdict to act on first; None where nothing was found bad, nor left open."""
        open_one = self.verdict.decision is Decision.UNDECIDED
        sought = (*BAD, Outcome.INCONCLUSIVE) if open_one else BAD
        found = latest_of(verdict for verdict in self.verdicts if verdict.outcome in sought)
        return min(found, key=lambda verdict: verdict.severity, default=None)

    @property
    def only_absent(self) -> bool:
        """Whether it is undecided for nothing but benchmarks that never ran on it."""
        absent = self.verdict.absent
        return self._undecided_for(
            one.kind is Hindrance.ABSENT or one.benchmark in absent for one in self.verdict.blocking
        )

    @property
    def only_missing(self) -> bool:
        """Whether it is undecided for nothing but single values that are missing."""
        return self._undecided_for(one.kind is Hindrance.MISSING for one in self.verdict.blocking)

    def _undecided_for(self, blockers: Iterable[bool]) -> bool:
        """Return whether it is undecided, and something holds of all its blockers."""
        undecided = self.verdict.decision is Decision.UNDECIDED and bool(self.verdict.blocking)
        return undecided and all(blockers)

    @property
    def look(self) -> MetricVerdict | None:
        """Of an accepted node, what is to be looked at first; None where there is nothing."""
        found = [verdict for verdict in self.verdicts if verdict.worth_a_look]
        if self.verdict.decision is not Decision.ACCEPTED:
            return None
        return min(found, key=lambda v: (*v.severity[:3], v.similarity or 0.0), default=None)

    @property
    def waived(self) -> bool:
        """Whether it is accepted with failures that a waiver or an xfail mark covers."""
        accepted = self.verdict.decision is Decision.ACCEPTED
        return accepted and any(verdict.reason is Reason.WAIVED for verdict in self.verdicts)

    @property
    def word(self) -> str:
        """What it is called everywhere: its decision, or one of `RETEST` and `LOOK`."""
        return word_of(self.verdict, self.verdicts)

    @property
    def trouble(self) -> str:
        """Kind of the worst trouble, or what an undecided node lacks."""
        if self.worst is not None and (self.look or self.verdict.decision is Decision.REJECTED):
            return self.worst.trouble.value
        return self._lacks.value if self.verdict.decision is Decision.UNDECIDED else ""

    @property
    def _lacks(self) -> Trouble:
        """Kind of an undecided node's first blocker."""
        first = next(iter(self.verdict.blocking), None)
        unclear = first is not None and first.word == Outcome.INCONCLUSIVE
        return Trouble.UNCLEAR if unclear else Trouble.MISSING

    @property
    def rest(self) -> str:
        """What else is wrong, counted by kind: ``2 slow, 1 missing``; empty if there is nothing."""
        rejected = self.verdict.decision is Decision.REJECTED
        bad = [v for v in self.verdicts if v.outcome in BAD]
        if rejected and self.worst is not None:  # what rejects, as the headline counts it
            fails = [v for v in bad if v.outcome is Outcome.FAIL]
            bad = other_verdicts(self.worst, fails or bad)
        counts = Counter(verdict.trouble for verdict in bad)
        if self.look is not None and self.worst is not None:
            counts[self.worst.trouble] -= 1
        open_ones = sum(verdict.outcome is Outcome.INCONCLUSIVE for verdict in self.verdicts)
        counts[Trouble.UNCLEAR] = open_ones
        # What was never asked has no verdict, only a line.
        counts[Trouble.MISSING] = max(0, len(self.verdict.hindrances) - open_ones)
        if self.verdict.decision is Decision.UNDECIDED:
            counts[self._lacks] = max(0, counts[self._lacks] - 1)
        return ", ".join(kind.counted(counts[kind]) for kind in Trouble if counts[kind] > 0)

    @property
    def cause(self) -> str:
        """Why it is not accepted, in one sentence that begins with the part; of an accepted one its basis."""
        if self.verdict.decision is Decision.REJECTED and self.worst is not None:
            bad = self._bad
            known = {*self.devices, *self.cards, *(verdict.device for verdict in self.verdicts)}
            thing = same_thing(self.worst)
            runs = len({verdict.run for verdict in bad if same_thing(verdict) == thing})
            text = worst_text(self.worst, self.cards, alike_text(self.worst, bad, known), runs)
            return f"{self._throughout(bad)}{text}"
        if self.look is not None:
            absent = (
                f"; {count_text(len(self.verdict.absent), 'benchmark')} did not run and need not"
            )
            return worst_text(self.look, self.cards) + (absent if self.verdict.absent else "")
        if self.verdict.decision is Decision.UNDECIDED and self.verdict.blocking:
            return without_folders(plain_line(self.verdict.blocking[0].fact))
        return plain_line(after_name(self.verdict))

    @property
    def step(self) -> str:
        """What is done first about it, in few words; empty where nothing is to be done."""
        if self.verdict.decision is Decision.UNDECIDED:
            return open_act(self.verdict.blocking[0]) if self.verdict.blocking else ""
        if self.verdict.decision is not Decision.REJECTED or self.worst is None:
            return ""
        return shared_act(self.verdict) or first_act(self.worst, self._bad)

    @property
    def act(self) -> str:
        """How sure a rejection is, and what is done first, to end a line; or empty."""
        rejected = self.verdict.decision is Decision.REJECTED and self.worst is not None
        sure = sure_text(self.worst) if rejected and self.worst else ""
        return f"{sure} -> {self.step}" if self.step else sure

    @property
    def _bad(self) -> list[MetricVerdict]:
        return [verdict for verdict in self.verdicts if verdict.outcome in BAD]

    def _throughout(self, bad: Sequence[MetricVerdict]) -> str:
        """Return that a node is worse nearly everywhere, which no single component explains; else empty."""
        metrics, components = throughout(bad)
        if not metrics:
            return ""
        return (
            f"worse in {metrics} metrics of {components} components, as by one cause; the worst: "
        )


def word_of(verdict: NodeVerdict, metrics: Iterable[MetricVerdict]) -> str:
    """Return what a node is called: one of `WORDS`.

    Args:
        verdict: The decision.
        metrics: The verdicts that it rests on.
    """
    look = verdict.decision is Decision.ACCEPTED and any(one.worth_a_look for one in metrics)
    return LOOK if look else verdict.word


def counted_words(rows: Iterable[NodeRow]) -> list[tuple[str, int]]:
    """Return how many nodes are called what, the worst first; no RETEST or LOOK AT where there is none."""
    counts = Counter(row.word for row in rows)
    return [(word, counts[word]) for word in WORDS if counts[word] or word not in (RETEST, LOOK)]


def explained_by(
    rows: Sequence[NodeRow], shifts: Sequence[TraitShift]
) -> dict[tuple[str, str], int]:
    """Return node and class -> place of the shared cause that explains all that is bad on it."""
    members = [
        {(node, shift.hardware_class) for node in shift.nodes} if shift.worse else set()
        for shift in shifts
    ]
    found = {}
    for row in rows:
        bad = row.verdict.decision is Decision.REJECTED or row.look is not None
        for place, shift in enumerate(shifts if bad else ()):
            if row.unit in members[place] and shift.explains(row.verdicts):
                found[row.unit] = place
                break
    return found
