"""Since when a metric is worse, in words: what moved, or that nothing did."""

from __future__ import annotations

from dataclasses import replace

from pytest_anubis.core.onset import ClockLimit, Onset, RaisedLimit, SensorMove
from pytest_anubis.core.verdict import MetricVerdict, Outcome, Reason
from pytest_anubis.report.text.since_text import since_text, since_words

CLOCK = SensorMove(part="GPU 3", quantity="SM clock", unit="MHz", before=1980.0, after=1410.0)
BRAKE = RaisedLimit(part="GPU 3", limit=ClockLimit.POWER_BRAKE)
NOTHING = Onset(number=22, count=44, size=0.12, compared=7)
VERDICT = MetricVerdict(
    outcome=Outcome.FAIL, reason=Reason.BEYOND, text="", benchmark="b", metric="rate", unit="GB/s",
    better="higher",
)  # fmt: skip


def said(onset: Onset | None) -> str:
    return since_text(replace(VERDICT, onset=onset))


def test_both_values_and_limits_are_said() -> None:
    text = said(replace(NOTHING, sensor=CLOCK, limits=(BRAKE,)))
    for words in ("12 % slower", "value 22 of 44", "1980", "1410 MHz", "power brake", "fell"):
        assert words in text
    assert "rose" in said(replace(NOTHING, sensor=replace(CLOCK, after=2100.0)))
    other = replace(BRAKE, part="GPU 5")
    assert "GPU 5" in said(replace(NOTHING, sensor=CLOCK, limits=(other,)))
    assert "GPU 3" in said(replace(NOTHING, limits=(BRAKE,)))


def test_limits_come_on_and_changes_may_end() -> None:
    assert said(replace(NOTHING, sensor=CLOCK, limits=(BRAKE,))).endswith("and power brake came on")
    assert said(replace(NOTHING, limits=(BRAKE,))).endswith(", when power brake of GPU 3 came on")
    assert "from value 22 of 44 until value 33;" in said(replace(NOTHING, until=33))
    assert "until" not in said(NOTHING)


def test_a_counter_begins_to_rise_or_rises_faster() -> None:
    replays = SensorMove(part="GPU 3", quantity="PCIe replays", unit="/s", before=0.0, after=41.0)
    assert said(replace(NOTHING, sensor=replays)).endswith(
        ", when PCIe replays of GPU 3 began to rise, from 0 to 41 a second"
    )
    assert "rose faster, from 5 to 41" in said(
        replace(NOTHING, sensor=replace(replays, before=5.0))
    )


def test_few_words_name_what_moved() -> None:
    def words(onset: Onset | None, reason: Reason = Reason.BEYOND) -> str:
        return since_words(replace(VERDICT, onset=onset, reason=reason))

    assert words(NOTHING) == "; since value 22 of 44"
    assert words(replace(NOTHING, limits=(BRAKE,))).endswith(": power brake came on")
    fallen = replace(NOTHING, sensor=CLOCK, limits=(BRAKE,), until=33)
    assert words(fallen) == "; from value 22 to 33 of 44: SM clock fell"
    assert words(fallen, Reason.CHANGE_POINT) == "; SM clock fell"
    assert words(NOTHING, Reason.CHANGE_POINT) == words(None) == ""


def test_that_nothing_moved_is_said_and_the_unknown_is_not() -> None:
    assert "none of 7 sensors" in said(NOTHING)
    assert said(None) == ""


def test_a_sensor_of_a_damaged_journal_stays_one_line() -> None:
    odd = replace(CLOCK, quantity="a\nb\x1b[31m", before=float("nan"))
    text = said(replace(NOTHING, sensor=odd))
    assert text.isprintable()
