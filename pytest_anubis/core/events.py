"""What can happen in a run, one type an event: the words of which every journal consists.

An event is made where it happens, handed to the run's sink once, written to the journal and applied to the
run's state (`run_state.RunState`), in this order. Nobody else interprets events.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

from pytest_anubis.core.blocker import Blocker, Hindrance
from pytest_anubis.core.field_types import Flat, Rare
from pytest_anubis.core.measurement import (
    ExpectedTest,
    LaneCores,
    Measurement,
    PlannedTest,
    Purpose,
    TestResult,
)
from pytest_anubis.core.verdict import MetricVerdict, NodeVerdict
from pytest_anubis.core.waivers.waiving import WaiversRead

INVENTORY = "inventory"
"""Entry of `RunStarted.looked_at`: the inventory was compared with that of the class."""

KERNEL_LOG, COUNTERS = "kernel log", "error counters"
"""Further entries: the kernel log, or the cards' error counters, were watched."""

MACHINE = "machine"
"""Further entry: a recorded inventory was used, and it is one of the machine that measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted:
    """A run begins: the first event of every journal.

    Attributes:
        run: Id of the run.
        node: Name of the node that is measured.
        started: ISO 8601, UTC.
        hardware_class: Key of the node's hardware class.
        attributes: What the key was made of.
        profile: ``smoke``, ``standard`` or ``soak``.
        purpose: ``measure``, ``learn`` or ``acceptance``.
        inventory: The node's inventory as plain data.
        settings: The settings of the run as plain data, without passwords.
        baseline: Digest of the baseline that the run is judged with; empty if none.
        devices: Devices that tests of every device run on; empty if none was given.
        tests, root: The tests as they were typed, and where their ids begin, as in `run.RunRecord`.
        traits: What a table says of the node besides, as in `run.RunRecord`.
        took: Benchmark -> its seconds on the node, of an imported file that says them.
        file_dated: `started` is when the imported file was last written, as it names no time.
        unread: Lines of an imported file about the node that could not be read.
        looked_at: What besides tests is looked at: `INVENTORY`, `KERNEL_LOG`, `COUNTERS`, and each part whose
            own counters could be read (``disk nvme0n1``); None in journals of older versions.
        behind: Seconds by which the machine's clock was behind the baseline; `started` was moved on by them.
        after: Id of the node's run that its store knew as the latest one; empty where there was none.
        campaign: Name of the soak that it is a cycle of; empty if it is none.
    """

    kind: ClassVar[str] = "run_started"
    run: str
    node: str
    started: str = ""
    hardware_class: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)
    profile: str = ""
    purpose: Purpose = "measure"
    inventory: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    baseline: str = ""
    devices: tuple[str, ...] = ()
    tests: str = ""
    root: str = ""
    traits: Annotated[Mapping[str, str], Rare] = field(default_factory=dict)
    took: Annotated[Mapping[str, float], Rare] = field(default_factory=dict)
    file_dated: Annotated[bool, Rare] = False
    unread: Annotated[int, Rare] = 0
    looked_at: Annotated[tuple[str, ...] | None, Rare] = None
    behind: Annotated[float, Rare] = 0.0
    after: Annotated[str, Rare] = ""
    campaign: Annotated[str, Rare] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TestsPlanned:
    """What the run means to execute, and (`elsewhere`) the benchmarks of other profiles; events add up."""

    __test__ = False
    kind: ClassVar[str] = "planned"
    tests: tuple[PlannedTest, ...]
    elsewhere: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TestStarted:
    """A test begins: after a crash it names the one in flight; a repeated test begins again.

    Attributes:
        test: Node id.
        worker, lane: Worker that runs it, and that one's lane; empty in the main process.
    """

    __test__ = False
    kind: ClassVar[str] = "test_started"
    test: str
    worker: str = ""
    lane: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A metric was measured; what is here is never lost."""

    kind: ClassVar[str] = "measurement"
    measurement: Annotated[Measurement, Flat()]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempted:
    """Values of moments that were not clear, or a lead-in: nothing is concluded from them."""

    kind: ClassVar[str] = "attempt"
    measurement: Annotated[Measurement, Flat()]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A verdict was reached; it knows its test, or has none when the whole run was looked at."""

    kind: ClassVar[str] = "verdict"
    verdict: Annotated[MetricVerdict, Flat()]


@dataclass(frozen=True, slots=True, kw_only=True)
class TestFinished:
    """A test ended."""

    __test__ = False

    kind: ClassVar[str] = "test_finished"
    result: Annotated[TestResult, Flat()]


@dataclass(frozen=True, slots=True, kw_only=True)
class TestPutOff:
    """A test met too few clear moments, or would fail: it is visited again at the end of the run."""

    __test__ = False

    kind: ClassVar[str] = "test_put_off"
    test: str  # node id


@dataclass(frozen=True, slots=True, kw_only=True)
class TestRepeated:
    """An attempt of a test failed and another plugin repeats it: the last attempt counts."""

    __test__ = False

    kind: ClassVar[str] = "test_repeated"
    test: str  # node id
    phase: str = ""  # pytest's phase of the failure
    text: str = ""  # its first line


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockerFound:
    """Something without a verdict prevents acceptance, such as a device that the user hides."""

    kind: ClassVar[str] = "blocker"
    text: str  # what, in one line
    found_anew: bool = False  # a resumed run finds it again where it is still so; all else stays
    file: str = ""  # what could not be collected, until tests of it were planned
    test: Annotated[str, Rare] = ""  # which file, class or test could not; the text says why

    @property
    def blocker(self) -> Blocker:
        """What prevents acceptance."""
        if not self.test:
            return Blocker(cause=self.text)
        subject = f"{self.test} cannot be collected"
        return Blocker(
            kind=Hindrance.UNCOLLECTED, subject=subject, cause=self.text, benchmark=self.test
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerDied:
    """A worker process ended before its time."""

    kind: ClassVar[str] = "worker_died"
    worker: str = ""
    lane: str = ""
    test: str = ""  # the test that it was running; empty if none
    text: str = ""  # how it died, in words


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftBehind:
    """A test left something behind that the next one would have met; it was put right where possible."""

    kind: ClassVar[str] = "left_behind"
    test: str  # node id
    what: tuple[str, ...] = ()  # one phrase each: a process that ran on, a changed limit
    repaired: bool = True  # all of it was put right; if not, a blocker says so too


@dataclass(frozen=True, slots=True, kw_only=True)
class HardwareFound:
    """Something that the hardware itself reported while the run lasted, whatever its tests say.

    What follows is decided from the record (`validator.deciding.hardware_policy`), live and read back.
    """

    kind: ClassVar[str] = "hardware"
    sort: str  # which rule of the policy it falls under: ``card-lost``, ``thermal-slowdown``, ...
    name: str  # what it was, without numbers that grow: ``XID 79``, ``uncorrected ECC errors``
    text: str  # what happened, one phrase
    part: str = ""  # the part as people find it: ``GPU 3 (0000:5d:00.0)``; empty for the node
    device: str = ""  # the run's name of that device; empty where it has none
    tests: tuple[str, ...] = ()  # tests that ran on it meanwhile, as evidence
    source: str = ""  # who says so: ``kernel log``, ``counters``, ``NVML event``, ``telemetry``


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneGivenUp:
    """The workers of a lane died again and again: nothing more runs there."""

    kind: ClassVar[str] = "lane_given_up"
    lane: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LanesPlaced:
    """Which lane works on which CPUs; one with cards of several NUMA nodes stands there for each of them."""

    kind: ClassVar[str] = "lanes"
    lanes: tuple[LaneCores, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanPredicted:
    """What a distributed run will look like."""

    kind: ClassVar[str] = "placed"
    tests: tuple[ExpectedTest, ...]  # one slot a test
    wall: float  # seconds that the tests will take
    serial: float  # seconds that they would take one after the other


@dataclass(frozen=True, slots=True, kw_only=True)
class TestRan:
    """Where and when a test really ran; seconds since the first test's start."""

    __test__ = False

    kind: ClassVar[str] = "ran"
    test: str
    worker: str
    start: float
    end: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTimed:
    """How long all tests of a distributed run took, and how long had been predicted; seconds."""

    kind: ClassVar[str] = "dispatched"
    wall: float
    predicted: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseFailed:
    """A test has failed in its setup or body, of what `text` says; its teardown may be cut short."""

    kind: ClassVar[str] = "phase_failed"
    test: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed:
    """A run that was broken off goes on.

    Attributes:
        started: ISO 8601, UTC.
        done: How many tests are not repeated.
        interrupted: Tests that had begun and never ended.
        baseline: Digest of the baseline from here on; None where an earlier version went on, with any.
        settings: The settings from here on, as in `RunStarted`.
        looked_at: As in `RunStarted`.
        changed: What differs from the earlier part, one phrase each. If anything does, verdicts that were
            reached before no longer hold: those of the kept measurements follow anew.
    """

    kind: ClassVar[str] = "resumed"
    started: str = ""
    done: int = 0
    interrupted: tuple[str, ...] = ()
    baseline: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    looked_at: Annotated[tuple[str, ...] | None, Rare] = None
    changed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DamageFound:
    """A line of the journal cannot be read, or was not kept: what it said is lost, and nothing is accepted.

    Made where a journal is read; a run writes one only if its disk fails after its last word.
    """

    kind: ClassVar[str] = "damage"
    text: str  # where, and what is wrong with it


@dataclass(frozen=True, slots=True, kw_only=True)
class InternalErrorFound:
    """A fault of ours or of a hook while the run was decided."""

    kind: ClassVar[str] = "internal_error"
    text: str
    traceback: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarksChosen:
    """The Selector's choice as plain data, see `selector.choice.choice_record`."""

    kind: ClassVar[str] = "selection"
    choice: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDecided:
    """The decision about the node."""

    kind: ClassVar[str] = "node_verdict"
    verdict: Annotated[NodeVerdict, Flat()]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFinished:
    """The run came to its end: the last event of a journal that is complete."""

    kind: ClassVar[str] = "run_finished"
    exit_status: int  # pytest's exit status
    ended: str  # ISO 8601, UTC
    broken_off: str = ""  # what broke the run off before its time; empty if nothing did


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownEvent:
    """An event of another version: kept as it is, and nothing is concluded from it."""

    kind: ClassVar[str] = ""
    data: Mapping[str, Any]  # the event as plain data


Event = (
    RunStarted
    | TestsPlanned
    | TestStarted
    | Measured
    | Attempted
    | WaiversRead
    | Judged
    | PhaseFailed
    | TestFinished
    | TestRepeated
    | TestPutOff
    | BlockerFound
    | WorkerDied
    | LeftBehind
    | HardwareFound
    | LaneGivenUp
    | LanesPlaced
    | PlanPredicted
    | TestRan
    | RunTimed
    | Resumed
    | DamageFound
    | InternalErrorFound
    | BenchmarksChosen
    | NodeDecided
    | RunFinished
    | UnknownEvent
)
