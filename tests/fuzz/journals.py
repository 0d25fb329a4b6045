"""Decide healthy and mutated journals in three ways; damage must make no decision milder."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from functools import cache
from pathlib import Path

from pytest_anubis.cli.shared.run_lookup import completed
from pytest_anubis.core.events import (
    Judged,
    Measured,
    Resumed,
    TestFinished,
    TestsPlanned,
    TestStarted,
)
from pytest_anubis.core.run_state import RunState
from pytest_anubis.core.verdict import Decision
from pytest_anubis.store.baselines.baseline_files import find_baseline, load_baseline
from pytest_anubis.store.journal.journal_events import JournalError, event_from_plain
from pytest_anubis.store.journal.journal_reading import read_journal, read_state
from pytest_anubis.validator.deciding.run_decision import decide_run
from tests.fuzz.healthy_files import HOST, Seed, seed_of
from tests.fuzz.outcome import anubis, compare
from tests.golden.runs import BASELINES, EVERY, RUNS

CUT_SHORT = ("assertion", "waived", "skipped", "slow-card", "crashed")
"""Runs that are read as if they had been killed before they were decided, so that they can be resumed."""


def healthy_journals(scratch: Path) -> list[Seed]:
    found = [seed_of(RUNS / run.name / "journal.jsonl", run.name) for run in EVERY]
    for run in CUT_SHORT:
        lines = (RUNS / run / "journal.jsonl").read_bytes().splitlines(keepends=True)
        end = next(n for n, line in enumerate(lines) if line.startswith(b'{"event":"node_verdict"'))
        found.append(Seed(name="journal.jsonl", content=b"".join(lines[:end]), about=f"{run}, cut"))
    return found


@cache
def _original(content: bytes, about: str, way: str, folder: Path) -> Decision | None:
    path = folder / "healthy" / about / "journal.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return WAYS[way](path)[0]


def _reported(path: Path) -> tuple[Decision | None, str]:
    """Decide as ``anubis report`` does."""
    record = read_journal(path)
    place = find_baseline(BASELINES, record.hardware_class)
    baseline = load_baseline(place) if place is not None else None
    verdict = completed(record, baseline).node_verdict
    said = " ".join(
        (*record.warnings, *map(str, record.blockers), verdict.headline if verdict else "")
    )
    return (verdict.decision if verdict else None), said


def _judged(path: Path) -> tuple[Decision | None, str]:
    """Decide as ``anubis judge`` does."""
    answer = anubis("judge", str(path), f"--baseline={BASELINES}", "--json=-", document=True)
    return answer.decision, answer.text


def _gone_on_with(path: Path) -> tuple[Decision | None, str]:
    """Decide as if the run went on today, and everything that is left were found good."""
    state = read_state(path)
    record = state.record()
    if record.ended and record.exit_status not in (2, 3):
        return None, ""
    if record.hardware_class != HOST or record.settings.get("mode") != "judge":
        return None, ""
    baseline = load_baseline(BASELINES / f"{HOST}.json", hardware_class=HOST)
    state.apply(Resumed(baseline=baseline.digest))
    _finish_well(state)
    decided = decide_run(state.record(), baseline)
    text = " ".join((*state.warnings, *map(str, decided.node_verdict.blocking)))
    return decided.node_verdict.decision, text


def _finish_well(state: RunState) -> None:
    good = [
        event_from_plain(json.loads(line))
        for line in (RUNS / "accepted" / "journal.jsonl").read_text("utf-8").splitlines()
    ]
    for event in good:
        if isinstance(event, TestsPlanned):
            state.apply(event)
    left = set(state.missing)
    for event in good:
        match event:
            case Measured(measurement=one) | Judged(verdict=one) | TestFinished(result=one):
                test = one.test
            case TestStarted(test=test):
                pass
            case _:
                continue
        if test in left:
            state.apply(event)


WAYS: dict[str, Callable[[Path], tuple[Decision | None, str]]] = {
    "report": _reported,
    "judge": _judged,
    "resume": _gone_on_with,
}


def read_mutated_journal(seed: Seed, path: Path, damaged: bool, rng: random.Random) -> None:
    protected = b'"crc":' in seed.content
    # One that lacks its end is that of a run that was killed earlier: what it lost is done again.
    ends = seed.content.splitlines()[-1] in path.read_bytes()
    for way, decide in WAYS.items():
        try:
            after, said = decide(path)
        except JournalError as error:
            if not str(error).isprintable():
                raise
            after, said = None, ""
        if damaged and protected and (ends or way != "resume"):
            before = _original(seed.content, seed.about, way, path.parents[1])
            compare(way, before, after, said)
    shown = ["report", str(path), f"--baseline={BASELINES}"]
    kind = rng.randrange(6)
    if kind < 3:
        shown.append(("-v", "--prometheus=-", "--json=-")[kind])
        anubis(*shown, document=kind == 2)
    else:
        page = f"--html={path.with_name('page.html')}"
        anubis(*shown, *([page], ["--ocp=-"], list[str]())[kind - 3])
