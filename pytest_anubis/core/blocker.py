"""Blockers: what prevents a node's acceptance, as fields for decisions and as a sentence for people."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pytest_anubis.core.field_types import compact


class Hindrance(StrEnum):
    """Kind of a blocker."""

    OPEN = "open"  # a verdict that is INCONCLUSIVE or NOT_TESTED
    UNANSWERED = "unanswered"  # the baseline expects a value that has no verdict
    ABSENT = "absent"  # counts the benchmarks of the baseline that did not run
    MISSING = "missing"  # counts the single values that a table lacks
    UNCOVERED = "uncovered"  # a component without a metric that shows a loss of a half
    UNCOLLECTED = "uncollected"  # a file of tests that cannot be collected
    SHARED = "shared"  # a cause that many nodes share is the only reason to reject this one
    NO_BASELINE = "no-baseline"  # this hardware class has none
    SAMPLES_ONLY = "samples-only"  # an exported file, which has nothing besides samples
    NOTHING_JUDGED = "nothing-judged"  # the baseline judged nothing of the run
    OTHER = "other"  # a dead process, another machine's baseline, an expired waiver, ...


@compact("defaults")
@dataclass(frozen=True, slots=True, kw_only=True)
class Blocker:
    """One thing that prevents a node's acceptance.

    Attributes:
        cause: The reason in words; blockers with the same cause are shown as one.
        kind: Its kind.
        word: The outcome as tables show it (``INCONCLUSIVE``); empty without one.
        subject: Its subject in words; may be empty.
        act: What resolves it, in few words; empty: its kind decides (`core.asking.next_step.open_act`).
        benchmark: The benchmark, component or file that it concerns; may be empty.
        reason: Value of the `Reason` of an open verdict.
        run: The collected run that it concerns; empty for the current run, and for several runs.
    """

    cause: str
    kind: Hindrance = Hindrance.OTHER
    word: str = ""
    subject: str = ""
    act: str = ""
    benchmark: str = ""
    reason: str = ""
    run: str = ""

    @property
    def fact(self) -> str:
        """Subject and cause in one line."""
        head = f"{self.word} {self.subject}".strip()
        run = f"run {self.run}: " if self.run else ""
        return f"{run}{head}: {self.cause}" if head else f"{run}{self.cause}"

    def __str__(self) -> str:
        return f"{self.fact} -> {self.act}" if self.act else self.fact

    @classmethod
    def of_text(cls, text: str) -> Blocker:
        """Return a blocker of a plain line, as notes and some journals have it."""
        return cls(cause=text)
