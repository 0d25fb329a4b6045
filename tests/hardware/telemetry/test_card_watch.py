"""The watch over all cards, against stand-in cards behind the real bindings: each fault is found."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pynvml
import pytest

from pytest_anubis.core.node_map import ModuleErrors
from pytest_anubis.core.verdict import Outcome
from pytest_anubis.hardware.telemetry import card_watch
from pytest_anubis.hardware.telemetry.card_facts import Fact, counter_facts, link_facts
from pytest_anubis.hardware.telemetry.card_watch import CardWatch
from pytest_anubis.hardware.telemetry.host_sensors import Asked, Reading
from pytest_anubis.hardware.telemetry.kernel_log import KernelLog
from pytest_anubis.hardware.telemetry.nvidia_sensors import NvidiaSource
from pytest_anubis.validator.deciding.hardware_policy import RULES
from tests.hardware.nvml_stand_in import Node
from tests.hardware.nvml_stand_in import nvml_node as nvml_node


class Watched:
    """A watch that has begun, and the facts that it reported."""

    def __init__(self, log: Path | None = None, deadline: float = 10.0, wait: int = 20) -> None:
        self.facts: list[Fact] = []
        self.looks = threading.Semaphore(0)
        self.watch = CardWatch(
            self._report,
            sources=[NvidiaSource()],
            log=KernelLog(log) if log is not None else None,
            deadline=deadline,
            pace=0.0,
            wait=wait,
        )
        self.watch.start()
        assert self.watch.wait_ready()

    def _report(self, facts: Sequence[Fact], complete: bool) -> None:
        self.facts += facts
        if complete:
            self.looks.release()

    def look(self) -> None:
        self.watch.look()
        assert self.looks.acquire(timeout=20)

    @property
    def sorts(self) -> list[tuple[str, str]]:
        return [(fact.sort, fact.part) for fact in self.facts]


@pytest.fixture
def watched(nvml_node: Node) -> Iterator[Watched]:
    made = Watched()
    yield made
    nvml_node.heal()
    made.watch.finish()


def test_eight_healthy_cards_tell_nothing(nvml_node: Node, watched: Watched) -> None:
    for _ in range(3):
        watched.look()
    watched.watch.finish()
    assert watched.facts == []


@pytest.mark.parametrize(
    ("change", "sort"),
    [
        ({"gpu3.ecc.uncorrected.volatile": 1}, "uncorrected-memory-error"),
        ({"gpu3.ecc.uncorrected.aggregate": 1}, "uncorrected-memory-error"),
        ({"gpu3.remapped.pending": 1}, "remap-pending"),
        ({"gpu3.remapped.failed": 1}, "remap-failed"),
        ({"gpu3.recovery": 1}, "reset-needed"),
        ({"gpu3.lost": 1}, "card-lost"),
        ({"gpu3.nvlink.7.error.1": 1}, "link-error"),
        ({"gpu3.nvlink.7.error.1": 2}, "link-errors"),
        ({"gpu3.nvlink.7.error.2": 1_000_000}, "link-errors"),
    ],
)
def test_counter_changes_are_reported_with_the_card(
    nvml_node: Node, watched: Watched, change: dict[str, int], sort: str
) -> None:
    watched.look()
    nvml_node.set(change)
    watched.look()
    watched.look()  # a lasting state is reported once
    assert watched.sorts == [(sort, "GPU 3")]


def test_counters_of_down_links_are_not_read(nvml_node: Node) -> None:
    nvml_node.set({f"gpu3.nvlink.{link}.state": 0 for link in range(18) if link != 7})
    source = NvidiaSource()
    source.open()
    found = source.read(counters=True).counters
    source.close()
    links = {name.split()[1] for name in found["GPU 3"] if name.startswith("NVLink")}
    assert links == {"7"}
    assert len({name.split()[1] for name in found["GPU 2"] if name.startswith("NVLink")}) == 18


def test_every_further_error_counts(nvml_node: Node, watched: Watched) -> None:
    for errors in (1, 3):
        nvml_node.set({"gpu3.ecc.uncorrected.volatile": errors})
        watched.look()
    assert [fact.text for fact in watched.facts] == [
        "1 uncorrected memory error",
        "2 uncorrected memory errors",
    ]


def test_what_was_there_before_the_run_is_not_the_runs(nvml_node: Node) -> None:
    nvml_node.set({"gpu3.ecc.uncorrected.aggregate": 5, "gpu3.remapped.pending": 1})
    watched = Watched()
    watched.look()
    watched.watch.finish()
    assert watched.facts == []


@pytest.mark.parametrize(
    ("number", "sort"),
    [
        *((n, "xid-fault") for n in (48, 64, 74, 79, 94, 95, 119, 120)),
        (63, "xid-reset"),
        (999, "xid-unclear"),
    ],
)
def test_nvml_event_replaces_an_unreadable_kernel_log(
    nvml_node: Node, watched: Watched, number: int, sort: str
) -> None:
    nvml_node.event(5, number)
    watched.watch.finish()  # events until the end of the run are received
    (fact,) = watched.facts
    assert (fact.sort, fact.part, fact.name) == (sort, "GPU 5", f"XID {number}")
    assert fact.source == "NVML event"


def test_a_card_without_events_is_known_as_deaf(nvml_node: Node) -> None:
    for call in ("RegisterEvents", "GetSupportedEventTypes"):
        nvml_node.set({f"gpu3.error.nvmlDevice{call}": 3})
    watched = Watched()
    watched.watch.finish()
    assert watched.watch.without_events == {"GPU 3": "Not Supported (NVML error 3)"}


def test_a_programs_xid_is_no_finding(nvml_node: Node, watched: Watched) -> None:
    for number in (13, 31, 43, 45):
        nvml_node.event(5, number)
    watched.watch.finish()
    assert watched.facts == []


def test_a_flood_of_events_does_not_flood_the_journal(nvml_node: Node, watched: Watched) -> None:
    for _ in range(50):
        nvml_node.event(5, 74)
    watched.watch.finish()
    assert len(watched.facts) == 20


def test_the_kernel_log_is_read_with_its_addresses(nvml_node: Node, tmp_path: Path) -> None:
    log = tmp_path / "kmsg"
    log.write_text("6,1,1,-;NVRM: Xid (PCI:0000:61:00): 48, from before the run\n")
    watched = Watched(log)
    with log.open("a") as lines:
        lines.write("6,2,2,-;NVRM: Xid (PCI:0000:61:00): 79, GPU has fallen off the bus.\n")
        lines.write("6,3,3,-;NVRM: Xid (PCI:0000:61:00): 31, pid=7\n")
    watched.watch.finish()
    (fact,) = watched.facts
    assert (fact.sort, fact.name, fact.place, fact.source) == (
        *("xid-fault", "XID 79", "0000:61:00"),
        "kernel log",
    )


def test_the_end_says_where_corrected_memory_errors_are(nvml_node: Node, tmp_path: Path) -> None:
    log = tmp_path / "kmsg"
    log.touch()
    watched = Watched(log)
    for begin in (0, 6):
        with log.open("a") as lines:
            for row in range(begin, begin + 6):
                lines.write(
                    f"4,{row},2,-;EDAC MC0: 1 CE read error on DIMM_A1 (slot:0 row:{row})\n"
                )
        watched.look()
    assert all(fact.module is None for fact in watched.facts)
    watched.watch.finish()
    (fact,) = (fact for fact in watched.facts if fact.module is not None)
    assert fact.module == ModuleErrors(module="DIMM_A1", errors=12, spread="scattered")
    assert (fact.sort, fact.place) == ("evidence", "DIMM_A1")


def test_hanging_driver_is_reported_without_delay(nvml_node: Node, tmp_path: Path) -> None:
    log = tmp_path / "kmsg"
    log.touch()
    watched = Watched(log, deadline=0.2)
    nvml_node.set({"gpu3.hang.nvmlDeviceGetFieldValues": 60})
    watched.watch.look()
    log.write_text("6,2,2,-;NVRM: Xid (PCI:0000:61:00): 119, Timeout waiting for RPC\n")
    watched.watch.finish()
    assert [fact.sort for fact in watched.facts] == ["card-silent", "xid-fault"]
    assert "did not answer within 0.2 s" in watched.facts[0].text
    nvml_node.heal()
    watched.watch._thread.join(20)  # else it closes the library during the next test
    assert not watched.watch._thread.is_alive()


def test_answers_after_the_end_are_not_reported(nvml_node: Node) -> None:
    watched = Watched(deadline=0.2)
    nvml_node.set({"gpu3.hang.nvmlDeviceGetFieldValues": 60})
    watched.watch.look()
    watched.watch.finish()
    nvml_node.heal()
    nvml_node.set({"gpu3.ecc.uncorrected.volatile": 1})
    watched.watch._thread.join(20)  # it has its answer now
    assert not watched.watch._thread.is_alive()
    assert [fact.sort for fact in watched.facts] == ["card-silent"]


def test_library_in_use_by_the_listener_is_not_closed(
    nvml_node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = threading.Event()
    closed_under: list[bool] = []
    wait, shutdown = pynvml.nvmlEventSetWait, pynvml.nvmlShutdown

    def waits(*arguments: object) -> object:
        waiting.set()
        try:
            return wait(*arguments)
        finally:
            waiting.clear()

    def closes() -> None:
        closed_under.append(waiting.is_set())
        shutdown()

    monkeypatch.setattr(pynvml, "nvmlEventSetWait", waits)
    monkeypatch.setattr(pynvml, "nvmlShutdown", closes)
    watched = Watched(wait=300)
    watched.watch.finish()
    watched.watch._thread.join(20)
    assert closed_under == [False]


def test_unreadable_counters_at_the_end_are_reported(nvml_node: Node, watched: Watched) -> None:
    nvml_node.set({"gpu2.error.nvmlDeviceGetFieldValues": 999})
    watched.watch.finish()
    assert watched.sorts == [("card-silent", "GPU 2")]


def test_older_driver_is_read_by_single_calls(nvml_node: Node, watched: Watched) -> None:
    nvml_node.set({"gpu2.error.nvmlDeviceGetFieldValues": 2})
    watched.look()
    nvml_node.set({"gpu2.ecc.uncorrected.volatile": 1})
    watched.watch.finish()
    assert watched.sorts == [("uncorrected-memory-error", "GPU 2")]


def test_library_failing_after_inventory_is_reported(
    nvml_node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH)

    monkeypatch.setattr(pynvml, "nvmlInit", refuse)
    watched = Watched()
    watched.watch.finish()
    (fact,) = watched.facts
    assert (fact.sort, fact.part) == ("card-silent", "")
    assert "(NVML error 18)" in fact.text


def counted(**counters: int) -> Reading:
    return Reading(counters={"GPU 0": {k.replace("_", " "): v for k, v in counters.items()}})


def test_a_counter_that_was_reset_counts_from_there() -> None:
    facts = counter_facts(counted(uncorrected_ECC_errors=4), counted(uncorrected_ECC_errors=1))
    assert [fact.text for fact in facts] == ["1 uncorrected memory error"]


def test_error_of_a_block_that_is_not_memory_is_named() -> None:
    before, after = (counted(uncorrected_gfx_errors=n, corrected_gfx_errors=n) for n in (1, 3))
    (fact,) = counter_facts(before, after)
    assert (fact.sort, fact.part) == ("uncorrected-error", "GPU 0")
    assert fact.text == "2 uncorrected errors in the block gfx"


def test_deferred_errors_are_told_by_their_block() -> None:
    before, after = (counted(deferred_ECC_errors=n, deferred_gfx_errors=2 * n) for n in (1, 2))
    memory, unit = counter_facts(before, after)
    assert (memory.sort, memory.text) == ("deferred-memory-error", "1 deferred memory error")
    assert (unit.sort, unit.text) == ("deferred-error", "2 deferred errors in the block gfx")
    assert not counter_facts(after, after)


@pytest.mark.parametrize(
    ("name", "grown", "sort"),
    [
        ("corrected errors", 1, "link-error"),
        ("corrected errors", 2, "link-errors"),
        ("uncorrected errors", 1, "link-errors"),
    ],
)
def test_links_of_amds_cards_follow_the_same_rules(name: str, grown: int, sort: str) -> None:
    begin, end = (Reading(counters={"GPU 0": {f"xGMI {name}": n}}) for n in (7, 7 + grown))
    assert [fact.sort for fact in link_facts(begin, end, 60.0)] == [sort]
    assert not counter_facts(begin, end)


@pytest.mark.parametrize(
    ("name", "grown", "seconds", "sort"),
    [
        ("replays", 1, 60.0, "link-error"),
        ("replays", 2, 60.0, "link-errors"),
        ("recoveries", 2, 3 * 3600.0, "link-error"),  # within what chance allows a soak
        ("failed recoveries", 1, 3600.0, "link-errors"),
        ("CRC errors", 50, 60.0, ""),
        ("CRC errors", 6000, 60.0, "link-errors"),
    ],
)
def test_links_are_judged_by_the_rate_of_their_errors(
    name: str, grown: int, seconds: float, sort: str
) -> None:
    begin, end = (
        Reading(counters={"GPU 0": {f"NVLink 4 {name}": value}}) for value in (7, 7 + grown)
    )
    assert [fact.sort for fact in link_facts(begin, end, seconds)] == [sort] * bool(sort)


class Held:
    """A source that knows whether it is open."""

    opened = closed = False

    def open(self) -> None:
        self.opened = True

    def read(self, counters: Asked) -> Reading:
        assert counters
        assert not self.closed
        return Reading()

    def close(self) -> None:
        self.closed = True


def test_the_library_is_held_open_for_the_whole_run() -> None:
    held, looks = Held(), threading.Semaphore(0)
    watch = CardWatch(lambda _, complete: looks.release(), sources=[held], pace=0.0)
    watch.start()
    assert watch.wait_ready()
    watch.look()
    assert looks.acquire(timeout=20)
    assert held.opened
    assert not held.closed
    watch.finish()
    assert held.closed


def test_library_that_never_opens_is_reported() -> None:
    reported: list[Fact] = []
    release = threading.Event()

    class Never(Held):
        def open(self) -> None:
            release.wait()

    watch = CardWatch(
        lambda facts, _: reported.extend(facts), sources=[Never()], first=0.05, deadline=0.05
    )
    watch.start()
    assert not watch.wait_ready()
    watch.finish()
    assert [fact.sort for fact in reported] == ["card-silent"]  # once
    release.set()


class Flooded(KernelLog):
    """A log of which a part was overwritten."""

    def _read(self) -> list[str]:
        self.lost = not self.lost
        return []


def test_messages_that_were_overwritten_are_told(nvml_node: Node, tmp_path: Path) -> None:
    (tmp_path / "kmsg").touch()
    made = Watched(tmp_path / "kmsg")
    made.watch._log = Flooded(tmp_path / "kmsg")
    made.look()
    made.watch.finish()
    assert ("log-lost", "") in made.sorts
    assert RULES["log-lost"].outcome is Outcome.INCONCLUSIVE


def test_the_kernel_log_is_read_between_looks(
    nvml_node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(card_watch, "LOG_PACE", 0.01)
    (tmp_path / "kmsg").touch()
    made = Watched(tmp_path / "kmsg")
    with (tmp_path / "kmsg").open("a") as file:
        file.write("2,1,1,-;Memory failure: 0x12: recovered\n")
    until = time.monotonic() + 20
    while not made.facts and time.monotonic() < until:
        time.sleep(0.01)
    assert made.sorts == [("host-memory-error", "")]
    made.watch.finish()
