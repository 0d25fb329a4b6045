"""One test of a run: its plan, measurements, result and lane, and texts that other modules recognise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pytest_anubis.core.field_types import AnyFloat, Count, NotNegative, Rare, compact
from pytest_anubis.core.metric import Metric

Purpose = Literal["measure", "learn", "acceptance"]

NOT_INSTALLED = "not installed: "
"""Prefix of a skip's reason that names a missing tool; many are reported in one line."""

LOOKS_SPENT = "the further looks that this run may take are used up"
"""Disturbance of a measurement whose close call needed more looks than the run had left."""

ONE_VISIT = "it was seen at one of two moments only"
"""Disturbance of a measurement whose loss did not appear again later in the run."""

HOST_SLOWER = "the whole host was slower than it has been"
"""Disturbance of a measurement during which the probe of all cores was slower than in earlier runs, on a
machine that may be shared."""

MISTAKE = "the benchmark is written wrongly: "
"""Prefix of a result's `environment` if the test's own code prevented its work."""

GATE_STOPPED = "the gate stopped the run before anything was measured"
"""Blocker of a run whose hardware was rejected, or could not be tested, before its first test."""

WAY = " -> "
"""Separates two nodes, sender first, in the name of a unit that is the way from one to the other."""

TOOL_PROPERTY = "anubis_tool"
"""Name of the test's properties (pytest's ``record_property``) with the tools that it ran."""


ASKING = ("goal", "question", "metrics")
"""Keys of a mark that make its test a question of the run, even if it skips before it measures."""

SET = "suites"
"""The folder and package of the benchmark set that comes with this project."""


def portable_id(test: str, module: str) -> str:
    """Return a node id that does not depend on where pytest was started, for tests of the benchmark set.

    pytest names a file from its root folder, from a folder that was given, or not at all (``--pyargs``).
    `module` is the full name of the test's module.
    """
    if not module.startswith(f"{SET}."):
        return test
    _, separator, rest = test.partition("::")
    return f"{module.replace('.', '/')}.py{separator}{rest}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTest:
    """One planned test."""

    test: str  # node id
    benchmark: str = ""  # node id without the device parameter
    component: str = ""  # component of the mark, empty without one
    device: str = ""  # device that the test is bound to, empty if none
    metrics: tuple[str, ...] = ()  # names of the metrics that the mark declares
    cost: NotNegative | None = None  # expected duration in seconds, None when nothing is known
    question: str = ""  # the question that its mark states; may be empty

    @property
    def place(self) -> tuple[str, str]:
        """Its benchmark, or the test itself if it is no benchmark, and the device."""
        return self.benchmark or self.test, self.device


@compact("defaults")
@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """All values of one metric from one unit under test in one run, as recorded.

    Attributes:
        test: Node id of the test.
        benchmark: Node id without the device parameter.
        component: The part of the node that the benchmark exercises.
        metric: The metric.
        device: ``cpu``, ``cuda:3``, ``node``, ...
        group: Label of the comparable units; empty if there is none.
        values: Values that count, in time order, in the metric's unit; values of moments that were not clear
            are in `core.events.Attempted`.
        disturbance: What disturbed the machine meanwhile, one phrase each; empty if it was quiet.
        looks: How many looks the values come from: more than one if the call was close.
        telemetry: Sensor series and counter changes during the measurement, (name, values) pairs.
        evidence: Signs for or against the hardware meanwhile (counters that moved, kernel events).
        seconds: Wall time of the measurement; 0 for values that the test recorded itself (`given`).
        unclear: How many more values were taken in moments that were not clear.
    """

    test: str
    benchmark: str
    component: str
    metric: Metric
    device: str
    group: str = ""
    values: tuple[AnyFloat, ...]
    disturbance: tuple[str, ...] = ()
    looks: Count = 1
    telemetry: tuple[tuple[str, tuple[AnyFloat, ...]], ...] = ()
    evidence: tuple[str, ...] = ()
    seconds: NotNegative = 0.0
    unclear: Count = 0

    @property
    def given(self) -> bool:
        """Whether the test recorded the values itself, so that they cannot be measured again."""
        return self.seconds == 0


@compact("defaults")
@dataclass(frozen=True, slots=True, kw_only=True)
class TestResult:
    """The result of one planned test."""

    __test__ = False

    test: str  # node id
    benchmark: str  # node id without the device parameter
    component: str = ""  # component of the mark, empty without one
    # pytest's word: ``passed``, ``failed``, ``skipped``, ``error``, ``crashed``, ``xfailed``,
    # ``xpassed``, ``not reported``, ``deselected``
    outcome: str = "not reported"
    text: str = ""  # first line of the failure or the reason of the skip
    seconds: NotNegative = 0.0  # duration of its call
    # Duration of its setup and teardown, with the fixtures that it was the first to use
    around: NotNegative = 0.0
    metrics: Count = 0  # how many metrics it recorded
    busy: NotNegative = 0.0  # seconds of its call in which the measured code ran, warm-ups included
    # The mistake in the benchmark's use of the plugin, which says nothing about the hardware
    misuse: str = ""
    # Why a subtest was skipped, or failed as expected, so that the test is incomplete
    left_out: str = ""
    # What in its environment prevented the test's work, and what to do about it; it says nothing
    # about the hardware. With the prefix `MISTAKE` it is the test's own code.
    environment: str = ""
    tools: tuple[str, ...] = ()  # external programs that it ran, with version and path
    action: str = ""  # what to do about its error, if known
    # What else it stated by ``record_property``, ``name: value``, shortened
    properties: Annotated[tuple[str, ...], Rare] = ()

    @property
    def duty(self) -> float | None:
        """Share of its call in which the measured code ran; None if unknown."""
        return min(1.0, self.busy / self.seconds) if self.busy and self.seconds else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedTest:
    """The expected place and time of a test; seconds since the first test's start."""

    test: str
    lane: str
    start: float
    end: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneCores:
    """The CPUs on which a lane works while it uses some cards."""

    lane: str
    devices: tuple[str, ...] = ()  # the cards; empty for work that uses none in particular
    cpus: str = ""  # the CPUs in the kernel's form, such as ``0-11``
    numa_node: int | None = None  # NUMA node of the cards; None if unknown
    near: bool = True  # the CPUs are those of that node
    own: bool = True  # no other lane of accelerators uses any of them
