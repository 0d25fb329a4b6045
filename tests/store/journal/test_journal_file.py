"""The journal keeps events, reports lost ones, and never stops a run."""

from __future__ import annotations

import dataclasses
import errno
import json
import math
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_anubis.core.events import (
    BlockerFound,
    DamageFound,
    Event,
    Judged,
    Measured,
    NodeDecided,
    Resumed,
    RunFinished,
    RunStarted,
    TestFinished,
    TestsPlanned,
    TestStarted,
    UnknownEvent,
    WorkerDied,
)
from pytest_anubis.core.measurement import Measurement, PlannedTest, TestResult
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.verdict import (
    Decision,
    MetricVerdict,
    NodeVerdict,
    Outcome,
    Reason,
    Reference,
)
from pytest_anubis.store.journal.journal_events import (
    JournalError,
    event_from_plain,
    event_to_plain,
)
from pytest_anubis.store.journal.journal_file import Journal, journal_path
from pytest_anubis.store.journal.journal_lines import line_of
from pytest_anubis.store.journal.journal_reading import read_journal
from tests.store.written_runs import write_events

METRIC = Metric(
    name="rate", unit="GB/s", better="higher", goal="fast links", question="fast?", action="reseat"
)


def measurement(values: tuple[float, ...] = (1.0, 2.5), **more: object) -> Measurement:
    fields: dict[str, object] = {
        "test": "test_a.py::test_x[cuda:0]",
        "benchmark": "test_a.py::test_x",
        "component": "network",
        "metric": METRIC,
        "device": "cuda:0",
        "values": values,
    }
    return Measurement(**(fields | more))  # type: ignore[arg-type]


def measured(values: tuple[float, ...] = (1.0, 2.5)) -> Measured:
    return Measured(measurement=measurement(values))


def head(run: str = "r1") -> RunStarted:
    return RunStarted(
        run=run,
        node="n1",
        started="2026-01-01T00:00:00Z",
        hardware_class="cpu-x",
        attributes={"cpu": "x"},
        profile="smoke",
        purpose="learn",
        inventory={"cores": 2},
        settings={"store": ".anubis"},
        baseline="sha256:0123",
    )


END = RunFinished(exit_status=1, ended="2026-01-01T00:01:00Z")


def journal_of(store: Path, *events: Event) -> Path:
    """Write the journal of a run ``r`` with these events after its head."""
    return write_events(store, "r", head("r"), *events)


VERDICT = MetricVerdict(
    outcome=Outcome.FAIL,
    reason=Reason.BEYOND,
    text="slow",
    benchmark="test_a.py::test_x",
    metric="rate",
    test="test_a.py::test_x[cuda:0]",
    value=1.0,
    similarity=0.5,
    reference=Reference.FLEET,
    disturbance=("steal",),
    count=2,
)
DECISION = NodeVerdict(
    node="n1",
    decision=Decision.REJECTED,
    headline="slow link",
    components=("network",),
    counts=(("FAIL", 1),),
    residual_risk=0.25,
)
SAMPLE = measurement(
    disturbance=("cpu pressure 30 %",),
    group="stage0",
    telemetry=(("power", (300.0, math.nan)),),
    seconds=1.5,
)
RESULT = TestResult(
    test=SAMPLE.test, benchmark=SAMPLE.benchmark, outcome="failed", text="slow", metrics=1
)
PLAN = PlannedTest(test=SAMPLE.test, benchmark=SAMPLE.benchmark, metrics=("rate",), cost=2.0)
LOST = PlannedTest(test="test_b", benchmark="test_b", component="disk")


def refuse(word: str) -> float:
    raise AssertionError(f"{word} is not JSON")


def without_time(event: Event) -> dict[str, Any]:
    """Return an event of another version as it was before the journal said when."""
    assert isinstance(event, UnknownEvent)
    plain = dict(event.data)
    assert plain.pop("at") > 0
    return plain


def unknown(record: RunRecord) -> list[UnknownEvent]:
    return [event for event in record.events if isinstance(event, UnknownEvent)]


def test_a_whole_run_comes_back(tmp_path: Path) -> None:
    write_events(
        tmp_path,
        "r1",
        head(),
        TestsPlanned(tests=(PLAN, LOST)),
        TestStarted(test=SAMPLE.test),
        Measured(measurement=SAMPLE),
        Judged(verdict=VERDICT),
        TestFinished(result=RESULT),
        UnknownEvent(data={"event": "crash", "worker": "gw0"}),
        NodeDecided(verdict=DECISION),
        END,
    )
    record = read_journal(tmp_path / "runs" / "r1")
    assert repr(record) == repr(read_journal(journal_path(tmp_path, "r1")))  # a NaN equals nothing
    assert (record.run, record.node, record.purpose, record.profile) == (
        "r1", "n1", "learn", "smoke",
    )  # fmt: skip
    assert record.inventory == {"cores": 2}
    assert record.attributes == {"cpu": "x"}
    assert record.settings == {"store": ".anubis"}
    assert record.head == head()
    assert record.planned == (PLAN, LOST)
    assert record.measurements[0].telemetry[0][1][0] == 300.0
    assert math.isnan(record.measurements[0].telemetry[0][1][1])
    assert record.measurements[0].values == SAMPLE.values
    assert record.verdicts == (VERDICT,)
    assert record.node_verdict == DECISION
    assert [without_time(one) for one in unknown(record)] == [{"event": "crash", "worker": "gw0"}]
    assert [one.cause for one in record.blockers] == [
        "journal.jsonl line 7: damaged (unknown event 'crash')"
    ]
    assert record.exit_status == 1
    assert record.warnings == ("journal.jsonl line 7: unknown event 'crash'; skipped",)
    assert record.results[0] == RESULT
    assert (record.results[1].test, record.results[1].outcome) == ("test_b", "not reported")
    assert record.results[1].component == "disk"


def test_unknown_field_of_an_event_is_ignored() -> None:
    plain = event_to_plain(Measured(measurement=SAMPLE))
    read = event_from_plain({**plain, "pace": [["compute", [0.001, 0.001]]]})
    assert repr(read) == repr(Measured(measurement=SAMPLE))  # a NaN equals nothing


@given(st.lists(st.floats(), max_size=20))
def test_every_float_survives_strict_json(values: list[float]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = journal_of(Path(folder), measured(tuple(values)))
        lines = path.read_text().splitlines()
        record = read_journal(path)
    for line in lines:
        json.loads(line, parse_constant=refuse)
    assert record.warnings == ("journal.jsonl: the run never finished",)
    ((back,),) = [(one.values,) for one in record.measurements]
    assert len(back) == len(values)
    assert all(
        a == b or (math.isnan(a) and math.isnan(b)) for a, b in zip(values, back, strict=True)
    )


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=8,
    )
)
def test_hostile_event_is_read_or_one_line(value: object) -> None:
    for name in ("metric", "values", "benchmark", "seconds", "disturbance", "telemetry"):
        event = event_to_plain(measured()) | {name: value}
        try:
            event_from_plain(event)
        except JournalError as error:
            said = str(error)
        else:
            said = name
        assert name in said
        assert "\n" not in said


def test_numpy_and_odd_values_are_written(tmp_path: Path) -> None:
    odd = {
        "n": (np.int64(3), 3),
        "series": (np.array([1.0, math.inf]), [1.0, "Infinity"]),
        "deep": ({"x": [math.nan]}, {"x": ["NaN"]}),
        "path": (Path("a"), "a"),
        "odd": ("\ud800", "\ud800"),
    }
    given = {name: value for name, (value, _) in odd.items()}
    path = journal_of(tmp_path, UnknownEvent(data={"event": "telemetry"} | given))
    (event,) = unknown(read_journal(path))
    plain = {name: value for name, (_, value) in odd.items()}
    assert without_time(event) == {"event": "telemetry"} | plain


@pytest.mark.parametrize("cut", range(0, 900, 37))
def test_any_prefix_is_a_record_or_one_clear_line(tmp_path: Path, cut: int) -> None:
    path = journal_of(tmp_path, measured())
    path.write_bytes(path.read_bytes()[:cut])
    try:
        said = read_journal(path).run
    except JournalError as error:
        said = str(error)
    assert said == "r" or str(path) in said
    assert "\n" not in said


def test_a_bad_line_in_the_middle_is_named_and_skipped(tmp_path: Path) -> None:
    path = journal_of(tmp_path)
    bad = [
        b"{not json",
        b"[1, 2]",
        b'{"event": "measurement", "values": [NaN]}',
        b'{"event": "measurement", "test": 5}',
        b"[" * 100_000,
        b"\xff\xfe",
        b'{"event": "x", "n": ' + b"9" * 5000 + b"}",
    ]
    with path.open("ab") as out:
        out.write(b"\n".join(bad) + b"\n")
        out.write(json.dumps(event_to_plain(measured())).encode() + b"\n")
    record = read_journal(path)
    assert len(record.measurements) == 1
    for number in range(2, 2 + len(bad)):
        assert any(f"line {number}:" in text for text in record.warnings)


def test_resuming_closes_a_torn_line_and_goes_on(tmp_path: Path) -> None:
    path = journal_of(tmp_path, measured())
    path.write_bytes(path.read_bytes()[:-5])
    with Journal.open_existing(path.parent) as again:
        again.write(measured((7.0,)))
    record = read_journal(path)
    assert [m.values for m in record.measurements] == [(7.0,)]
    assert any("line 2:" in text for text in record.warnings)


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"", "empty"),
        (b'{"event": "measurement"}\n', "not an Anubis journal"),
        (b'{"event": "run_started", "format": "anubis-journal", "schema": 99}\n', "schema 99"),
        (b'{"event": "run_started", "format": "anubis-journal", "schema": 1}\n', "schema 1,"),
        (
            b'{"event": "run_started", "format": "anubis-journal", "schema": 2}\n',
            "schema 2, without line numbers",
        ),
        (
            line_of(b'{"event":"run_started","format":"anubis-journal","schema":2}', 1),
            r"\brun\b.* missing",
        ),
        (b"\x00\x01\x02", "not a journal"),
    ],
)
def test_file_that_is_no_journal_gives_one_line(tmp_path: Path, content: bytes, word: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(content)
    with pytest.raises(JournalError, match=word) as caught:
        read_journal(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_files_and_taken_ids(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="cannot be read"):
        read_journal(tmp_path / "nothing")
    with pytest.raises(JournalError, match="go on"):
        Journal.open_existing(tmp_path / "nothing")
    Journal.create(tmp_path, "r").close()
    with pytest.raises(JournalError, match="exists already"):
        Journal.create(tmp_path, "r")
    with pytest.raises(JournalError, match="run id"):
        Journal.create(tmp_path, "../r")
    (tmp_path / "file").write_text("")
    with pytest.raises(JournalError, match="another store folder"):
        Journal.create(tmp_path / "file", "r")


def test_full_disk_warns_once_and_is_retried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    journal = Journal.create(tmp_path, "r")
    journal.write(head("r"))
    real = os.write

    def full(descriptor: int, data: bytes) -> int:
        if descriptor == journal._descriptor:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(descriptor, data)

    def half(descriptor: int, data: bytes) -> int:
        if descriptor == journal._descriptor:
            return real(descriptor, data[: len(data) // 2])
        return real(descriptor, data)

    monkeypatch.setattr(os, "write", full)
    journal.write(measured((1.0,)))
    monkeypatch.setattr(os, "write", half)
    journal.write(measured((2.0,)))
    monkeypatch.setattr(os, "write", real)
    journal.write(measured((3.0,)))
    journal.close()
    journal.close()
    record = read_journal(journal.path)
    assert [m.values for m in record.measurements] == [(1.0,), (2.0,), (3.0,)]
    (said,) = capsys.readouterr().err.splitlines()
    assert "No space left" in said


def test_disk_that_stays_full_is_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "runs" / "r").mkdir(parents=True)
    descriptor = os.open("/dev/full", os.O_WRONLY)
    journal = Journal(tmp_path / "x", descriptor)
    for _ in range(3):
        journal.write(measured())
    journal.close()
    journal.write(UnknownEvent(data={"event": "late"}))
    assert journal.lost == 4
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2
    assert "incomplete" in said[-1]


def test_kill_9_loses_at_most_the_event_in_flight(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from pytest_anubis.store.journal.journal_file import Journal\n"
        "from pytest_anubis.core.events import RunStarted, UnknownEvent\n"
        "j = Journal.create(Path(sys.argv[1]), 'r')\n"
        "j.write(RunStarted(run='r', node='n', started=''))\n"
        "i = 0\n"
        "while True:\n"
        "    j.write(UnknownEvent(data={'event': 'tick', 'i': i}))\n"
        "    print(i, flush=True)\n"
        "    i += 1\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    seen = [process.stdout.readline() for _ in range(200)]
    process.send_signal(signal.SIGKILL)
    rest = process.stdout.read().splitlines()
    process.wait()
    process.stdout.close()
    complete = [line for line in (*seen, *rest) if line.strip()]
    record = read_journal(journal_path(tmp_path, "r"))
    ticks = [without_time(event) for event in unknown(record)]
    assert len(ticks) >= len(complete) - 1
    assert ticks == [{"event": "tick", "i": i} for i in range(len(ticks))]


def test_every_flipped_bit_of_a_journal_is_noticed(tmp_path: Path) -> None:
    """A digit that becomes another digit is valid JSON: a loss of a half would be a gain."""
    path = journal_of(tmp_path, measured(), Judged(verdict=VERDICT), END)
    whole = path.read_bytes()
    untouched = repr(dataclasses.replace(read_journal(path), warnings=()))
    first = whole.index(b"\n") + 1  # a damaged head is no journal at all
    rng = random.Random(3)
    missed = []
    for place in rng.sample(range(first, len(whole)), 300):
        data = bytearray(whole)
        data[place] ^= 1 << rng.randrange(7)
        path.write_bytes(data)
        record = read_journal(path)
        same = repr(dataclasses.replace(record, warnings=())) == untouched
        if not same and not record.blockers and not record.broken_off:
            missed.append((place, bytes(data[place - 20 : place + 20])))
    assert missed == []


def test_truncated_line_before_a_resumption_is_no_damage(tmp_path: Path) -> None:
    path = journal_of(tmp_path, measured())
    path.write_bytes(path.read_bytes()[:-30])
    with Journal.open_existing(path) as journal:
        journal.write(Resumed())
    record = read_journal(path)
    assert record.blockers == ()
    assert "cut short" in record.warnings[0]


def test_truncated_death_and_damaged_line_block(tmp_path: Path) -> None:
    path = journal_of(tmp_path, measured(), WorkerDied(worker="gw0", text="signal 9"))
    data = path.read_bytes().replace(b'"measurement"', b'"measurem\xffnt"')
    path.write_bytes(data[:-30])
    with Journal.open_existing(path) as journal:
        journal.write(Resumed())
    places = [str(one).partition(":")[0] for one in read_journal(path).blockers]
    assert places == ["journal.jsonl line 2", "journal.jsonl line 3"]


def test_second_writer_is_refused_and_named_the_first(tmp_path: Path) -> None:
    with Journal.create(tmp_path, "r") as journal:
        journal.write(head("r"))
        with pytest.raises(JournalError, match=f"still being written by process {os.getpid()}"):
            Journal.open_existing(journal.path)
    Journal.open_existing(journal.path).close()


def test_failed_synchronisation_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fdatasync", broken)
    with Journal.create(tmp_path, "r") as journal:
        journal.write(head("r"))
    assert journal.unsafe == "Input/output error"
    assert journal.missing == 0


def test_a_line_that_is_gone_or_moved_is_noticed(tmp_path: Path) -> None:
    path = journal_of(tmp_path, *(BlockerFound(text=f"part {number}") for number in range(6)))
    with Journal.open_existing(path) as again:
        for event in (Resumed(), BlockerFound(text="part 6"), END):
            again.write(event)
    whole = path.read_bytes().splitlines(keepends=True)
    assert not damages(read_journal(path))
    for at in range(1, len(whole) - 1):
        for lines, word in (
            ([*whole[:at], *whole[at + 1 :]], f"line {at + 1}: 1 line before it missing"),
            ([*whole[:at], whole[at], *whole[at:]], "it is in the wrong place"),
            ([*whole[:at], whole[at + 1], whole[at], *whole[at + 2 :]], "before it missing"),
            (
                [*whole[:at], b'{"event":"blocker","text":"x"}\n', *whole[at + 1 :]],
                "number is missing",
            ),
            (
                [*whole[:at], re.sub(rb'"crc":".', b'"crc":"q', whole[at]), *whole[at + 1 :]],
                "missing",  # its checksum, or before a resumed part its number
            ),
            (
                [*whole[:at], whole[at][: whole[at].index(b',"crc"')] + b"}\n", *whole[at + 1 :]],
                # Before a part goes on it might have been cut short; then its number is missed.
                "missing",
            ),
        ):
            path.write_bytes(b"".join(lines))
            record = read_journal(path)
            assert damages(record), (at, word)
            assert any(word in text for text in record.warnings), record.warnings


def damages(record: RunRecord) -> list[DamageFound]:
    return [event for event in record.events if isinstance(event, DamageFound)]
