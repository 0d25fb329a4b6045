"""Kinds of trouble: what people count who read many verdicts."""

from __future__ import annotations

from enum import StrEnum


class Trouble(StrEnum):
    """Which kind of trouble a verdict tells of: what people count, never the exit code."""

    SLOW = "slow"  # worse than normal, for sure
    FAILED = "failed"  # wrong, broken, or reported by the hardware itself
    SINGLE = "single value"  # beyond the limit, and one value tells so: to be measured again first
    NOISY = "noisy"  # beyond the limit, and noise was allowed: to be measured again first
    BORDERLINE = "borderline"  # to be measured again or looked at first
    UNCLEAR = "unclear"  # measured, and could not be judged
    MISSING = "missing"  # no answer at all
    NONE = ""  # none

    def counted(self, number: int) -> str:
        """Return so many of the kind in words: ``2 slow``, ``8 of a single value``."""
        return f"{number} of a single value" if self is Trouble.SINGLE else f"{number} {self.value}"


SINGLE_VALUE = "a single value"
"""Why a failure is to be measured again that one value tells of (`MetricVerdict.retest`)."""

NOISY = "measured while the machine was let be noisy"
"""Why a failure is to be measured again that was found under wider limits (`MetricVerdict.retest`)."""

UNSURE = {SINGLE_VALUE: Trouble.SINGLE, NOISY: Trouble.NOISY}
"""Kind of trouble of a failure that is not near its limit, by why it is to be measured again all the same."""
