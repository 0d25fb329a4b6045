"""The events of a run, of which its journal consists.

The part of the run where an event happens hands it to the run's sink once, which writes it to the journal and
then applies it to the run's state (`run_state.RunState`), the only interpreter of events.
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
from pytest_anubis.core.node_map import ModuleErrors
from pytest_anubis.core.verdict import MetricVerdict, NodeVerdict
from pytest_anubis.core.waiving import WaiversRead

INVENTORY = "inventory"
"""Entry of `RunHead.looked_at`: the inventory was compared with that of the class."""

KERNEL_LOG = "kernel log"
"""Entry of `RunHead.looked_at`: the kernel log was watched."""

COUNTERS = "error counters"
"""Entry of `RunHead.looked_at`: the cards' error counters were watched."""

MACHINE = "machine"
"""Entry of `RunHead.looked_at`: the recorded inventory is of the machine that measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunHead:
    """What is known of a run from its beginning; `run.RunRecord` has it, too."""

    run: str  # its id
    node: str  # name of the node that is measured
    started: str = ""  # ISO 8601, UTC
    hardware_class: str = ""  # key of the node's hardware class
    attributes: Mapping[str, str] = field(default_factory=dict)  # the parts of the key
    profile: str = ""  # ``smoke``, ``standard`` or ``soak``
    # ``measure`` only records, ``learn`` records for a baseline, ``acceptance`` is judged
    purpose: Purpose = "measure"
    # The node's inventory, and the settings of the run without passwords, as plain data
    inventory: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    baseline: str = ""  # digest of the baseline that the run is judged with; empty if none
    devices: tuple[str, ...] = ()  # devices that tests of every device run on; empty if none given
    tests: str = ""  # its tests as they were typed, quoted for a shell; empty if unknown
    # Path from the working directory to the folder in which the tests' ids begin; may be empty
    root: str = ""
    # Further traits of the node from a table: driver, firmware, batch, rack, ...
    traits: Annotated[Mapping[str, str], Rare] = field(default_factory=dict)
    # Benchmark -> its seconds on the node, from an imported file
    took: Annotated[Mapping[str, float], Rare] = field(default_factory=dict)
    # `started` is when the imported file was last written, since it names no time
    file_dated: Annotated[bool, Rare] = False
    # How many lines of an imported file about the node could not be read
    unread: Annotated[int, Rare] = 0
    # What is checked besides tests (of a record, in all parts of the run): `INVENTORY`,
    # `KERNEL_LOG`, `COUNTERS`, and each part whose own counters could be read (``disk nvme0n1``);
    # None if unknown
    looked_at: Annotated[tuple[str, ...] | None, Rare] = None
    # Seconds by which the machine's clock was behind the baseline; `started` includes them
    behind: Annotated[float, Rare] = 0.0
    after: Annotated[str, Rare] = ""  # id of the node's latest run in its store; empty without one
    campaign: Annotated[str, Rare] = ""  # name of the soak of which it is a cycle; may be empty


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted(RunHead):
    """The start of a run: the first event of every journal."""

    kind: ClassVar[str] = "run_started"


@dataclass(frozen=True, slots=True, kw_only=True)
class TestsPlanned:
    """Planned tests; `elsewhere`: benchmarks that only other profiles run. Several such events add up."""

    __test__ = False
    kind: ClassVar[str] = "planned"
    tests: tuple[PlannedTest, ...]
    elsewhere: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TestStarted:
    """The start of a test or its next attempt; if a process dies, its last one names the test that ran."""

    __test__ = False
    kind: ClassVar[str] = "test_started"
    test: str  # node id
    # The worker that runs it, and its lane; empty in the main process
    worker: str = ""
    lane: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A measurement of a metric."""

    kind: ClassVar[str] = "measurement"
    measurement: Annotated[Measurement, Flat()]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempted:
    """Values of moments that were not clear, or of a lead-in, which no verdict uses."""

    kind: ClassVar[str] = "attempt"
    measurement: Annotated[Measurement, Flat()]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A verdict on a test; on the whole run if it names no test."""

    kind: ClassVar[str] = "verdict"
    verdict: Annotated[MetricVerdict, Flat()]


@dataclass(frozen=True, slots=True, kw_only=True)
class TestFinished:
    """The end of a test."""

    __test__ = False

    kind: ClassVar[str] = "test_finished"
    result: Annotated[TestResult, Flat()]


@dataclass(frozen=True, slots=True, kw_only=True)
class TestPutOff:
    """A test that met too few clear moments, or would fail, and runs again at the end of the run."""

    __test__ = False

    kind: ClassVar[str] = "test_put_off"
    test: str  # node id


@dataclass(frozen=True, slots=True, kw_only=True)
class TestRepeated:
    """A failed attempt of a test that another plugin repeats; the last attempt counts."""

    __test__ = False

    kind: ClassVar[str] = "test_repeated"
    test: str  # node id
    phase: str = ""  # pytest's phase of the failure
    text: str = ""  # its first line


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockerFound:
    """A blocker without a verdict, such as a device that the user hides."""

    kind: ClassVar[str] = "blocker"
    text: str  # one line
    found_anew: bool = False  # a resumed run checks it again; other blockers stay
    file: str = ""  # the file that could not be collected; tests of it resolve the blocker
    test: Annotated[str, Rare] = ""  # the file, class or test that could not; the text says why

    @property
    def blocker(self) -> Blocker:
        """The blocker of the node's acceptance."""
        if not self.test:
            return Blocker(cause=self.text)
        subject = f"{self.test} cannot be collected"
        return Blocker(
            kind=Hindrance.UNCOLLECTED, subject=subject, cause=self.text, benchmark=self.test
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerDied:
    """The unexpected end of a worker process."""

    kind: ClassVar[str] = "worker_died"
    worker: str = ""
    lane: str = ""
    test: str = ""  # the test that it was running; empty if none
    text: str = ""  # how it died, in words


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftBehind:
    """State that a test left behind for the next one; it was restored if possible."""

    kind: ClassVar[str] = "left_behind"
    test: str  # node id
    what: tuple[str, ...] = ()  # one phrase each: a process that ran on, a changed limit
    repaired: bool = True  # all of it was restored; if not, there is a blocker too


@dataclass(frozen=True, slots=True, kw_only=True)
class HardwareFound:
    """A report of the hardware itself during the run, such as a kernel message or a counter that grew.

    `validator.deciding.hardware_policy` decides its consequence from the record.
    """

    kind: ClassVar[str] = "hardware"
    sort: str  # the rule of the policy for it: ``card-lost``, ``thermal-slowdown``, ...
    name: str  # its name without numbers that grow: ``XID 79``, ``uncorrected ECC errors``
    text: str  # what happened, one phrase
    part: str = ""  # the part for people: ``GPU 3 (0000:5d:00.0)``; empty for the node
    device: str = ""  # the run's name of that device; may be empty
    tests: tuple[str, ...] = ()  # tests that ran on it meanwhile, as evidence
    source: str = ""  # ``kernel log``, ``counters``, ``NVML event`` or ``telemetry``
    module: Annotated[ModuleErrors | None, Rare] = None  # where this memory module's errors are


@dataclass(frozen=True, slots=True, kw_only=True)
class InventoryChanged:
    """The inventory at the end of the run as plain data, if it is not the one at the start."""

    kind: ClassVar[str] = "inventory_changed"
    inventory: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneGivenUp:
    """A lane on which nothing more runs, since its workers died again and again."""

    kind: ClassVar[str] = "lane_given_up"
    lane: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LanesPlaced:
    """The CPUs of each lane; a lane with cards of several NUMA nodes has an entry for each of these."""

    kind: ClassVar[str] = "lanes"
    lanes: tuple[LaneCores, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanPredicted:
    """The expected schedule of a distributed run."""

    kind: ClassVar[str] = "placed"
    tests: tuple[ExpectedTest, ...]
    wall: float  # seconds that the tests will take
    serial: float  # seconds that they would take one after the other


@dataclass(frozen=True, slots=True, kw_only=True)
class TestRan:
    """The place and time of a test that ran; seconds since the first test's start."""

    __test__ = False

    kind: ClassVar[str] = "ran"
    test: str
    worker: str
    start: float
    end: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTimed:
    """The duration of all tests of a distributed run, and the predicted one; seconds."""

    kind: ClassVar[str] = "dispatched"
    wall: float
    predicted: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseFailed:
    """A failure in a test's setup or body, recorded before its teardown, which may be cut short."""

    kind: ClassVar[str] = "phase_failed"
    test: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed:
    """The resumption of a run that was broken off."""

    kind: ClassVar[str] = "resumed"
    started: str = ""  # ISO 8601, UTC
    done: int = 0  # how many tests are not repeated
    interrupted: tuple[str, ...] = ()  # tests that had begun and never ended
    baseline: str | None = None  # digest of the baseline from here on; None if unknown
    # The settings from here on, as in `RunHead`
    settings: Mapping[str, Any] = field(default_factory=dict)
    looked_at: Annotated[tuple[str, ...] | None, Rare] = None  # as in `RunHead`
    # Differences from the earlier part, one phrase each. If there are any, earlier verdicts are
    # dropped and reached again from the kept measurements.
    changed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DamageFound:
    """A line of the journal that cannot be read or was lost, so that the run accepts nothing.

    Readers of journals add it; a run writes one only if its disk fails at its very end.
    """

    kind: ClassVar[str] = "damage"
    text: str  # where, and what is wrong with it


@dataclass(frozen=True, slots=True, kw_only=True)
class InternalErrorFound:
    """An error in our code or in a hook during the decision."""

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
    """The end of the run: the last event of a complete journal."""

    kind: ClassVar[str] = "run_finished"
    exit_status: int  # pytest's exit status
    ended: str  # ISO 8601, UTC
    broken_off: str = ""  # what broke the run off; empty if nothing did


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownEvent:
    """An event of another version: it is kept, and counts as damage, so that the run accepts nothing."""

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
    | InventoryChanged
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
