"""A sealed journal states each fault of its inventory, and the failures that its values show alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_anubis.cli.commands.sealing.sealed_decision import decided, journal_record
from pytest_anubis.core.seal import BASELINE, JOURNAL, FlawKind
from pytest_anubis.core.verdict import Decision
from tests.cli.command_line import anubis
from tests.cli.commands.sealed_runs import (
    Change,
    Files,
    Key,
    content,
    events_of,
    flaws,
    journal_of,
    rewritten,
    seal,
    signed_anew,
    to,
    verify,
    write_key,
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sealed")


@pytest.fixture(scope="module")
def vendor(place: Path) -> Key:
    return write_key(place, "vendor")


@pytest.fixture(scope="module")
def sealed(place: Path, vendor: Key) -> Callable[[str], Files]:
    """Return the files of a sealed golden run."""

    def files_of(run: str) -> Files:
        path = place / f"{run}.zip"
        if not path.exists():
            assert seal(run, vendor, path) == ""
        return content(path.read_bytes())

    return files_of


def forged(files: Files, key: Key, *changes: tuple[str, Change], **manifest: Any) -> bytes:
    """Return a seal by the holder of the key, with some events of its journal changed."""
    journal = files[JOURNAL]
    for event, change in changes:
        fresh = rewritten(journal, event, change)
        assert fresh != journal
        journal = fresh
    return signed_anew({**files, JOURNAL: journal}, key, **manifest)


def at(*path: Any, value: Any) -> Change:
    def change(event: Any) -> None:
        for step in path[:-1]:
            event = event[step]
        event[path[-1]] = value

    return change


# The gate


narrow = at("inventory", "accelerators", 2, "link_width", value=8)
erring = at("inventory", "accelerators", 5, "ecc_uncorrected", value=3)


@pytest.mark.parametrize("fault", [narrow, erring], ids=["narrow", "erring"])
def test_a_fault_without_a_verdict_is_refused(
    vendor: Key, sealed: Callable[[str], Files], fault: Change
) -> None:
    data = forged(sealed("slow-card"), vendor, ("run_started", fault))
    assert list(flaws(data, vendor)) == [FlawKind.VERDICT]


def milder(event: dict[str, Any]) -> None:
    if event["benchmark"] == "inventory":
        event["outcome"] = "INCONCLUSIVE"


def elsewhere(event: dict[str, Any]) -> None:
    if event["benchmark"] == "inventory":
        event["device"] = "GPU 7"


@pytest.mark.parametrize("lie", [milder, elsewhere])
def test_a_rewritten_fault_is_refused(
    vendor: Key, sealed: Callable[[str], Files], lie: Change
) -> None:
    files = with_fault(sealed("slow-card"))
    assert flaws(forged(files, vendor), vendor).keys() <= {FlawKind.DIFFERS}
    assert list(flaws(forged(files, vendor, ("verdict", lie)), vendor)) == [FlawKind.VERDICT]


def with_fault(files: Files) -> Files:
    """Return files whose journal has a narrow link, and the gate's verdict instead of a card's."""
    journal = rewritten(files[JOURNAL], "run_started", narrow)

    def found(event: dict[str, Any]) -> None:
        if event["device"] == "node" or event["outcome"] == "FAIL":
            return
        if event["device"] == "cuda:2":
            event |= {
                "outcome": "FAIL",
                "reason": "beyond",
                "benchmark": "inventory",
                "metric": "PCIe link width",
                "device": "GPU 2 (0000:3a:00.0)",
                "component": "accelerator.pcie",
                "value": None,
                "test": "",
            }

    journal = rewritten(journal, "verdict", found)
    blamed = ["accelerator.memory", "accelerator.pcie"]
    return {**files, JOURNAL: rewritten(journal, "node_verdict", to(components=blamed))}


def test_a_gate_that_was_off_finds_nothing(vendor: Key, sealed: Callable[[str], Files]) -> None:
    files = sealed("slow-card")
    journal = rewritten(files[JOURNAL], "run_started", narrow)
    journal = rewritten(journal, "run_started", at("settings", "gate", value="off"))
    run = decided(journal_record(journal, JOURNAL), files[BASELINE])
    assert run.verdict.decision is Decision.REJECTED


def lost(inventory: dict[str, Any]) -> None:
    del inventory["accelerators"][7]


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (at("accelerators", 5, "ecc_uncorrected", value=3), [FlawKind.VERDICT]),
        (lost, [FlawKind.VERDICT]),
        (at("accelerators", 5, "memory_free", value=1 << 30), []),
    ],
    ids=["erring", "lost", "freed"],
)
def test_a_fault_at_the_end_needs_its_verdict(
    vendor: Key, sealed: Callable[[str], Files], change: Change, found: list[FlawKind]
) -> None:
    files = sealed("slow-card")
    events = events_of(files[JOURNAL])
    inventory = json.loads(json.dumps(events[0]["inventory"]))
    change(inventory)
    end = next(n for n, event in enumerate(events) if event["event"] == "node_verdict")
    events.insert(end, {"event": "inventory_changed", "inventory": inventory, "at": 1777669200.0})
    data = signed_anew({**files, JOURNAL: journal_of(events)}, vendor)
    assert list(flaws(data, vendor)) == found


# Failures


def card_three(event: dict[str, Any]) -> None:
    if event["outcome"] == "FAIL" and event["device"] == "cuda:5":
        event["device"] = "cuda:3"


def half(event: dict[str, Any]) -> None:
    if event["outcome"] == "FAIL":
        event["value"] /= 2


def passes(event: dict[str, Any]) -> None:
    if event["outcome"] == "FAIL":
        event["outcome"] = "PASS"


@pytest.mark.parametrize("lie", [card_three, half, passes])
def test_another_failure_is_refused(
    vendor: Key, sealed: Callable[[str], Files], lie: Change
) -> None:
    data = forged(sealed("slow-card"), vendor, ("verdict", lie))
    assert list(flaws(data, vendor)) == [FlawKind.VERDICT]


@pytest.mark.parametrize("outcome", ["PASS", "MARGINAL"])
def test_a_good_verdict_needs_its_values(
    vendor: Key, sealed: Callable[[str], Files], outcome: str
) -> None:
    files = sealed("slow-card")
    events = events_of(files[JOURNAL])
    events = [e for e in events if (e["event"], e.get("device")) != ("measurement", "cuda:5")]
    for event in events:
        if event["event"] == "verdict":
            event["outcome"] = outcome
        elif event["event"] == "test_finished":
            event["outcome"] = "passed"
        elif event["event"] == "node_verdict":
            event |= {"decision": "ACCEPTED", "components": []}
    data = signed_anew({**files, JOURNAL: journal_of(events)}, vendor, decision=Decision.ACCEPTED)
    assert list(flaws(data, vendor)) == [FlawKind.VERDICT]


def test_an_accepted_run_has_no_failure(vendor: Key, sealed: Callable[[str], Files]) -> None:
    data = forged(sealed("accepted"), vendor, ("verdict", to(outcome="FAIL", reason="beyond")))
    assert list(flaws(data, vendor)) == [FlawKind.VERDICT]


def test_a_rewritten_headline_is_never_shown(
    tmp_path: Path, vendor: Key, sealed: Callable[[str], Files]
) -> None:
    path = tmp_path / "sealed.zip"
    path.write_bytes(
        forged(sealed("accepted"), vendor, ("node_verdict", to(headline="node lab-a: awful")))
    )
    for more in ([], ["-v"], ["--json=-"]):
        done = anubis("verify", str(path), f"--key={vendor.public}", *more)
        assert done.returncode == 0
        assert "awful" not in done.stdout


# Wrong types


WRONG = {
    "large": at("inventory", "accelerators", 3, "memory", value=10**400),
    "card": at("inventory", "accelerators", 4, value="x"),
    "cards": at("inventory", "accelerators", value=5),
    "limit": at("settings", "quiet_limits", "memory", value=10**400),
    "names": at("settings", "allowed_processes", value=1),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_types_are_one_line(
    tmp_path: Path, vendor: Key, sealed: Callable[[str], Files], name: str
) -> None:
    files = sealed("slow-card")
    data = forged(files, vendor, ("run_started", WRONG[name]))
    assert list(flaws(data, vendor)) == [FlawKind.UNDECIDABLE]
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "journal.jsonl").write_bytes(content(data)[JOURNAL])
    said = seal(str(tmp_path / "run"), vendor, tmp_path / "out.zip")
    assert len(said.splitlines()) == 1
    assert ("inventory" if name in ("large", "card", "cards") else "settings") in said


# What was not compared


def test_a_foreign_dossier_is_said_first(
    tmp_path: Path, vendor: Key, sealed: Callable[[str], Files]
) -> None:
    path = tmp_path / "sealed.zip"
    path.write_bytes(forged(sealed("slow-card"), vendor, version="9.1"))
    done = anubis("verify", str(path), f"--key={vendor.public}")
    assert done.returncode == 1
    line = done.stdout.splitlines()[1]
    assert "NOT verified" in line
    assert "9.1" in line
    done = anubis("verify", str(path), f"--key={vendor.public}", "--json=-")
    found = json.loads(done.stdout)
    assert (found["dossier_compared"], found["notes"]) == (False, [line])


def test_json_says_that_a_run_is_one_cycle(
    tmp_path: Path, vendor: Key, sealed: Callable[[str], Files]
) -> None:
    files = sealed("slow-card")
    journal = rewritten(files[JOURNAL], "run_started", to(campaign="soak-1"))
    run = decided(journal_record(journal, JOURNAL), files[BASELINE])
    path = tmp_path / "sealed.zip"
    path.write_bytes(signed_anew({**files, JOURNAL: journal, **run.derived()}, vendor))
    assert verify(path.read_bytes(), vendor).report.exit_code == 1
    done = anubis("verify", str(path), f"--key={vendor.public}", "--json=-")
    (note,) = json.loads(done.stdout)["notes"]
    assert "soak-1" in note
