"""What prevents a node's acceptance, as facts: whoever decides reads these, and people read the sentence."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pytest_anubis.core.field_types import compact


class Hindrance(StrEnum):
    """Kind of a blocker."""

    OPEN = "open"  # a verdict that is INCONCLUSIVE or NOT_TESTED
    UNANSWERED = "unanswered"  # the baseline expects a value, and no verdict speaks of it
    ABSENT = "absent"  # counts the benchmarks of the baseline that did not run
    MISSING = "missing"  # counts the single values that a table lacks
    UNCOVERED = "uncovered"  # a component without a metric that shows a loss of a half
    UNCOLLECTED = "uncollected"  # a file of tests that cannot be collected
    SHARED = "shared"  # what many nodes share explains alone what rejects this one
    NO_BASELINE = "no-baseline"  # this hardware class has none
    SAMPLES_ONLY = "samples-only"  # an exported file, which has nothing besides samples
    NOTHING_JUDGED = "nothing-judged"  # nothing of the run was held against the baseline
    OTHER = "other"  # a process that died, another machine's baseline, a waiver that expired, ...


@compact("defaults")
@dataclass(frozen=True, slots=True, kw_only=True)
class Blocker:
    """One thing that prevents a node's acceptance.

    Attributes:
        cause: Why, in words; blockers of one cause are shown as one.
        kind: What kind of thing it is.
        word: What came of it, as tables show it (``INCONCLUSIVE``); empty where nothing was asked.
        subject: What it is about, in words; may be empty.
        act: What resolves it, in few words; empty: its kind says it (`core.asking.next_step.open_act`).
        benchmark: The benchmark, component or file that it is about; empty if it is about none.
        reason: Value of the `Reason` of an open verdict.
        run: The collected run that it is about; empty while a run goes on, and of several runs.
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
        """Return what and why, in one line."""
        head = f"{self.word} {self.subject}".strip()
        run = f"run {self.run}: " if self.run else ""
        return f"{run}{head}: {self.cause}" if head else f"{run}{self.cause}"

    def __str__(self) -> str:
        return f"{self.fact} -> {self.act}" if self.act else self.fact

    @classmethod
    def of_text(cls, text: str) -> Blocker:
        """Return one of which only the line is known, as journals of older versions have it."""
        return cls(cause=text)
