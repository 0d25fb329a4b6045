"""A judged node as a row of texts and pages about many nodes: its word, worst finding, cause, next step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pytest_anubis.core.alike_devices import (
    alike_text,
    latest_of,
    other_verdicts,
    same_thing,
)
from pytest_anubis.core.asking.next_step import (
    first_act,
    look_act,
    open_act,
    shared_act,
    throughout,
)
from pytest_anubis.core.blocker import Blocker, Hindrance
from pytest_anubis.core.fleet_survey import TraitShift
from pytest_anubis.core.verdict import (
    LOOK,
    RETEST,
    Decision,
    MetricVerdict,
    NodeVerdict,
    Outcome,
    Reason,
    Trouble,
    word_of,
)
from pytest_anubis.report.text.failure_text import sure_text, worst_text
from pytest_anubis.report.text.numbers import count_text
from pytest_anubis.report.text.safe_text import plain_line
from pytest_anubis.report.text.shared_lines import after_name
from pytest_anubis.report.text.summary_text import without_folders

WORDS = (Decision.REJECTED.value, RETEST, Decision.UNDECIDED.value, LOOK, Decision.ACCEPTED.value)
"""Words for nodes, the worst first."""
BAD = (Outcome.FAIL, Outcome.MARGINAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRow:
    """A node of one hardware class with its decision and verdicts."""

    verdict: NodeVerdict
    # The metric verdicts other than a plain PASS, in the order in which their runs began
    verdicts: Sequence[MetricVerdict] = ()
    # Device -> slot and serial number of its card in words, as far as they are known
    cards: Mapping[str, str] = field(default_factory=dict)
    hardware_class: str = ""
    # The worst metric of an accepted node that learning found unlike the healthy ones; else empty
    unlike: str = ""
    # Its known devices; `verdicts` and `cards` may name others
    devices: frozenset[str] = frozenset()
    missing: int = 0  # how many single values it lacks
    # The shared cause that alone explains its failures, set by `with_shared`; None without one
    shared: Blocker | None = None

    @property
    def unit(self) -> tuple[str, str]:
        """Its name and class: a node may be in several."""
        return self.verdict.node, self.hardware_class

    @property
    def worst(self) -> MetricVerdict | None:
        """The verdict to act on first; None if nothing is bad or open."""
        return min(latest_of(self.to_act_on), key=lambda verdict: verdict.severity, default=None)

    @property
    def to_act_on(self) -> list[MetricVerdict]:
        """The bad verdicts; of an undecided node the inconclusive ones, too."""
        undecided = self.verdict.decision is Decision.UNDECIDED
        sought = (*BAD, Outcome.INCONCLUSIVE) if undecided else BAD
        return [verdict for verdict in self.verdicts if verdict.outcome in sought]

    @property
    def only_absent(self) -> bool:
        """Whether only benchmarks that never ran on it keep it undecided."""
        absent = self.verdict.absent
        return bool(self._open) and all(
            one.kind is Hindrance.ABSENT or one.benchmark in absent for one in self._open
        )

    @property
    def only_missing(self) -> bool:
        """Whether only single missing values keep it undecided."""
        return bool(self._open) and all(one.kind is Hindrance.MISSING for one in self._open)

    @property
    def moved_alike(self) -> bool:
        """Whether it is undecided first of all since most nodes of its class lost the same."""
        return bool(self._open) and self._open[0].reason == Reason.CLASS_SHIFT

    @property
    def _open(self) -> Sequence[Blocker]:
        """The blockers of an undecided node; of any other node none."""
        return self.verdict.blocking if self.verdict.decision is Decision.UNDECIDED else ()

    @property
    def to_look_at(self) -> MetricVerdict | None:
        """The verdict of an accepted node to look at first; None if there is none."""
        if self.verdict.decision is not Decision.ACCEPTED:
            return None
        found = [verdict for verdict in self.verdicts if verdict.worth_a_look]
        return min(found, key=lambda v: (*v.severity[:3], v.similarity or 0.0), default=None)

    @property
    def waived(self) -> bool:
        """Whether it is accepted with failures that a waiver or an xfail mark covers."""
        accepted = self.verdict.decision is Decision.ACCEPTED
        return accepted and any(verdict.reason is Reason.WAIVED for verdict in self.verdicts)

    @property
    def word(self) -> str:
        """Its word in all texts and pages, one of `WORDS`."""
        return word_of(self.verdict, self.verdicts)

    @property
    def trouble(self) -> str:
        """Kind of the worst trouble, or of an undecided node's first blocker; may be empty."""
        if self.worst is not None and (
            self.to_look_at or self.verdict.decision is Decision.REJECTED
        ):
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
        """The other troubles counted by kind: ``2 slow, 1 missing``; empty if there are none."""
        bad = self._bad
        if self._rejecting is not None:  # count the failures that reject, as the headline does
            fails = [v for v in bad if v.outcome is Outcome.FAIL]
            bad = other_verdicts(self._rejecting, fails or bad)
        counts = Counter(verdict.trouble for verdict in bad)
        if self.to_look_at is not None and self.worst is not None:
            counts[self.worst.trouble] -= 1
        open_ones = sum(verdict.outcome is Outcome.INCONCLUSIVE for verdict in self.verdicts)
        counts[Trouble.UNCLEAR] = open_ones
        # A benchmark that never ran has a blocker but no verdict.
        counts[Trouble.MISSING] = max(0, len(self.verdict.hindrances) - open_ones)
        if self.verdict.decision is Decision.UNDECIDED:
            counts[self._lacks] = max(0, counts[self._lacks] - 1)
        return ", ".join(kind.counted(counts[kind]) for kind in Trouble if counts[kind] > 0)

    @property
    def cause(self) -> str:
        """Why it is not accepted, in one sentence that begins with the part; or why it is accepted."""
        worst = self._rejecting
        if worst is not None:
            bad = self._bad
            known = {*self.devices, *self.cards, *(verdict.device for verdict in self.verdicts)}
            thing = same_thing(worst)
            runs = len({verdict.run for verdict in bad if same_thing(verdict) == thing})
            text = worst_text(worst, self.cards, alike_text(worst, bad, known), runs)
            metrics, components = throughout(bad)
            if not metrics:
                return text
            everywhere = f"worse in {metrics} metrics of {components} components, as by one cause"
            return f"{everywhere}; the worst: {text}"
        if self.to_look_at is not None:
            text = worst_text(self.to_look_at, self.cards)
            if not self.verdict.absent:
                return text
            absent = count_text(len(self.verdict.absent), "benchmark")
            return f"{text}; {absent} did not run and need not"
        if self._open:
            return without_folders(plain_line(self._open[0].fact))
        return plain_line(after_name(self.verdict))

    @property
    def step(self) -> str:
        """The first step to take, in few words; empty if there is none."""
        if self._open:
            return open_act(self._open[0])
        if self._rejecting is None:
            return look_act(self.to_look_at) if self.to_look_at is not None else ""
        return shared_act(self.verdict) or first_act(self._rejecting, self._bad)

    @property
    def sure(self) -> str:
        """How sure a rejection is, to be printed after its cause; may be empty."""
        return sure_text(self._rejecting) if self._rejecting is not None else ""

    @property
    def act(self) -> str:
        """How sure a rejection is, and the first step, to be printed at the end of a line; may be empty."""
        return f"{self.sure} -> {self.step}" if self.step else self.sure

    @property
    def _bad(self) -> list[MetricVerdict]:
        return [verdict for verdict in self.verdicts if verdict.outcome in BAD]

    @property
    def _rejecting(self) -> MetricVerdict | None:
        """The worst verdict of a rejected node; None for any other."""
        return self.worst if self.verdict.decision is Decision.REJECTED else None


def counted_words(rows: Iterable[NodeRow]) -> list[tuple[str, int]]:
    """Return how many nodes have each word, the worst first; RETEST and LOOK AT only if any has them."""
    counts = Counter(row.word for row in rows)
    return [(word, counts[word]) for word in WORDS if counts[word] or word not in (RETEST, LOOK)]


def explained_by(
    rows: Sequence[NodeRow], shifts: Sequence[TraitShift]
) -> dict[tuple[str, str], int]:
    """Return node and class -> index of the shared cause that explains all its failures."""
    members = [
        {(node, shift.hardware_class) for node in shift.nodes} if shift.worse else set()
        for shift in shifts
    ]
    found = {}
    for row in rows:
        bad = row.verdict.decision is Decision.REJECTED or row.to_look_at is not None
        for place, shift in enumerate(shifts if bad else ()):
            if row.unit in members[place] and shift.explains(row.verdicts):
                found[row.unit] = place
                break
    return found
