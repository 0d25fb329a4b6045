"""Blockers in plain data, and lines in place of blockers."""

from __future__ import annotations

from pytest_anubis.codec import from_plain, to_plain
from pytest_anubis.core.blocker import Blocker, Hindrance
from pytest_anubis.core.verdict import NodeVerdict, Reason


def test_blocker_is_read_as_written_and_a_line_as_cause() -> None:
    typed = Blocker(
        kind=Hindrance.OPEN,
        word="INCONCLUSIVE",
        subject="b m",
        cause="x",
        reason=Reason.TOO_FEW.value,
    )
    plain = {"node": "n", "decision": "UNDECIDED", "headline": "h"}
    read = from_plain(NodeVerdict, {**plain, "blocking": [to_plain(typed), "no baseline: learn"]})
    assert read.blocking == (typed, Blocker(cause="no baseline: learn"))
    assert [str(one) for one in read.blocking] == ["INCONCLUSIVE b m: x", "no baseline: learn"]
