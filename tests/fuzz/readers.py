"""Every reader of the project, with healthy files, and what must hold for a mutated one.

A reader's files are written by the project itself, from the golden recordings. What is held for every file:
no exception, nothing but printable lines on the terminal, one line where it is refused. For what carries
checksums (journals, baselines, archives) besides: damage makes no decision milder.
"""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pytest_anubis.cli.commands.report_command import completed
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
from pytest_anubis.store.journal.journal_events import (
    JournalError,
    event_from_plain,
    event_to_plain,
    started_to_plain,
)
from pytest_anubis.store.journal.journal_lines import line_of, text_of
from pytest_anubis.store.journal.journal_reading import read_journal, read_state
from pytest_anubis.validator.deciding.run_decision import decide_run
from tests.fuzz.outcome import anubis, compare

RECORDINGS = Path(__file__).parents[1] / "golden" / "recordings"
RUNS = RECORDINGS / "store" / "runs"
BASELINES = RECORDINGS / "baselines"
HOST = "no-accelerator_lab-f6m143-16c_64-gib_torch2_smoke"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seed:
    """One healthy file.

    Attributes:
        name: Of the file, as its reader expects it.
        content: Its bytes.
        about: What its reader needs besides.
    """

    name: str
    content: bytes
    about: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """One way in for files.

    Attributes:
        name: In words.
        form: Of its files, see `mutations.CHANGES`.
        seeds: Makes its healthy files in a scratch folder.
        read: Reads one in a folder of its own: the seed, the file, whether it was only damaged, and a source
            of chance for what is the same for every file. Raises whatever goes wrong.
    """

    name: str
    form: str
    seeds: Callable[[Path], Sequence[Seed]]
    read: Callable[[Seed, Path, bool, random.Random], None]


def seed_of(path: Path, about: str = "", name: str = "") -> Seed:
    """Return a recorded file."""
    return Seed(name=name or path.name, content=path.read_bytes(), about=about)


# Journals

JOURNALS = (
    *(
        "accepted",
        "slow",
        "slow-many",
        "assertion",
        "plain-failure",
        "killed-slow",
        "measured-slow",
    ),
    *(
        "no-baseline",
        "waived",
        "skipped",
        "crashed",
        "repeated",
        "interrupted",
        "not-a-number",
        "cards-slow",
    ),
    *("cards-crashed", "cards-gate", "selected-cost"),
)


def rewritten(path: Path) -> bytes:
    """Return a recorded journal as this version writes it: with today's words and checksums."""
    lines: list[bytes] = []
    for text in path.read_text("utf-8").splitlines():
        data = json.loads(text)
        event = event_from_plain(data, 1)
        plain = event_to_plain(event) if lines else {**started_to_plain(event), "pid": 4711}
        lines.append(line_of(text_of({**plain, "at": data["at"]}), len(lines) + 1))
    return b"".join(lines)


CUT_SHORT = ("slow-many", "assertion", "plain-failure", "repeated", "crashed")
"""Runs that are read as if they had been killed before they were decided, so that they can be resumed."""


def _journals(scratch: Path) -> list[Seed]:
    whole = {run: rewritten(RUNS / run / "journal.jsonl") for run in JOURNALS}
    found = [Seed(name="journal.jsonl", content=text, about=run) for run, text in whole.items()]
    for run in CUT_SHORT:
        lines = whole[run].splitlines(keepends=True)
        end = next(n for n, line in enumerate(lines) if line.startswith(b'{"event":"node_verdict"'))
        found.append(Seed(name="journal.jsonl", content=b"".join(lines[:end]), about=f"{run}, cut"))
    return found


def _old_journals(scratch: Path) -> list[Seed]:
    runs = ("slow", "killed-slow", "cards-crashed", "accepted-attempts", "selected-explored")
    return [seed_of(RUNS / run / "journal.jsonl", run) for run in runs]


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
    said = " ".join((*record.warnings, *record.blockers, verdict.headline if verdict else ""))
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
    text = " ".join((*state.warnings, *decided.node_verdict.blocking))
    return decided.node_verdict.decision, text


def _finish_well(state: RunState) -> None:
    good = [
        event_from_plain(json.loads(line), 1)
        for line in (RUNS / "accepted" / "journal.jsonl").read_text("utf-8").splitlines()
    ]
    for event in good:
        if isinstance(event, TestsPlanned):
            state.apply(event)
    left = set(state.missing)
    for event in good:
        match event:
            case TestStarted(test=test) if test in left:
                state.apply(event)
            case Measured(measurement=one) if one.test in left:
                state.apply(event)
            case Judged(verdict=one) if one.test in left:
                state.apply(event)
            case TestFinished(result=one) if one.test in left:
                state.apply(event)


WAYS: dict[str, Callable[[Path], tuple[Decision | None, str]]] = {
    "report": _reported,
    "judge": _judged,
    "resume": _gone_on_with,
}


def _read_journal(seed: Seed, path: Path, damaged: bool, rng: random.Random) -> None:
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
    kind = rng.randrange(5)
    if kind < 3:
        shown.append(("-v", "--prometheus=-", "--json=-")[kind])
        anubis(*shown, document=kind == 2)
    else:
        anubis(*shown, *(["--html", str(path.with_name("page.html"))] if kind == 3 else []))


# Baselines, recorded nodes, certificates


def _baselines(scratch: Path) -> list[Seed]:
    found = [seed_of(path) for path in sorted(BASELINES.glob("*.json"))]
    return [*found, seed_of(RECORDINGS / "baselines-fleet" / "fleet.json")]


BASELINE_RUNS = {"no-": ("accepted", "slow", "measured-slow"), "8x-": ("cards", "cards-slow")}


def _read_baseline(seed: Seed, path: Path, damaged: bool, rng: random.Random) -> None:
    anubis("baseline", "show", str(path))
    runs = [str(RUNS / run) for run in BASELINE_RUNS.get(seed.name[:3], ())] or [
        str(RECORDINGS / "imports" / "fleet-new.csv.npz")
    ]
    run = rng.choice(runs)
    answer = anubis("judge", run, f"--baseline={path.parent}", "--json=-", document=True)
    if damaged:
        before = _judged_against(seed, run, path.parents[1])
        compare(f"judge {Path(run).name}", before, answer.decision, answer.text)
        if answer.code != 2 and answer.decision is not before:
            raise AssertionError(f"another decision: {before} -> {answer.decision}")
    others = [
        ("baseline", "diff", str(path), str(BASELINES / f"{HOST}.json")),
        ("baseline", "promote", str(path), f"--to={path.with_name('promoted')}"),
        ("report", run, f"--baseline={path.parent}"),
        ("baseline", "list", str(path.parent)),
    ]
    if "imports" not in run or rng.random() < 0.5:
        anubis(*rng.choice(others[: 2 if "imports" in run else 4]))


@cache
def _judged_against(seed: Seed, run: str, folder: Path) -> Decision | None:
    place = folder / "healthy" / "baselines"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    (place / seed.name).write_bytes(seed.content)
    return anubis("judge", run, f"--baseline={place}", "--json=-", document=True).decision


def _inventories(scratch: Path) -> list[Seed]:
    return [seed_of(path) for path in sorted((RECORDINGS / "inventories").glob("*.json"))]


def _read_inventory(seed: Seed, path: Path, damaged: bool, rng: random.Random) -> None:
    more = rng.choice((("--redact",), ("--json",), (f"--baseline={BASELINES}",)))
    anubis("doctor", f"--inventory={path}", *more, document=more == ("--json",))


def _certificates(scratch: Path) -> list[Seed]:
    return [seed_of(path) for path in (BASELINES / "certificates").glob("*.json")]


def _read_certificates(seed: Seed, path: Path, damaged: bool, rng: random.Random) -> None:
    place = path.parent / "certificates"
    place.mkdir()
    path.rename(place / path.name)
    node = RECORDINGS / "inventories" / "lab-a.json"
    anubis("doctor", f"--inventory={node}", f"--baseline={path.parent}")


# The history


def database(scratch: Path) -> Path:
    """Return the recorded history as a database, made once."""
    path = scratch / "history.sqlite"
    if not path.exists():
        connection = sqlite3.connect(path)
        connection.executescript((RECORDINGS / "history.sql").read_text("utf-8"))
        connection.close()
    return path


def _models(scratch: Path) -> list[Seed]:
    database(scratch)
    seeds = []
    for kind in ("exponential", "weibull", "cox"):
        path = scratch / f"{kind}.json"
        anubis("risk", f"--store={scratch}", f"--model={kind}", f"--save={path}")
        seeds.append(seed_of(path, name="risk-model.json"))
    return seeds


def _read_model(seed: Seed, path: Path, damaged: bool, rng: random.Random) -> None:
    shutil.copy(path.parents[1] / "seeds" / "history.sqlite", path.parent)
    store = f"--store={path.parent}"
    if rng.random() < 0.5:
        anubis("risk", store, "--json=-", document=True)
    else:
        anubis("select", store, "--node=n01", "--by=cost", "--json=-", document=True)


def _histories(scratch: Path) -> list[Seed]:
    return [seed_of(database(scratch))]


def _read_history(seed: Seed, path: Path, damaged: bool, rng: random.Random) -> None:
    store = f"--store={path.parent}"
    commands = (
        ("history", store),
        ("history", store, "--node=n01"),
        ("history", "incident", "list", store),
        ("history", "defect", "list", store),
        ("risk", store, "--model=exponential"),
        ("select", store, "--node=n01"),
        ("history", "incident", "add", "--node=n01", "--kind=nic", "--started=2026-05-01", store),
        ("history", "defect", "close", "2", "--as=confirmed", store),
        ("history", "state", "--node=n02", "--as=repair", store),
    )
    for command in rng.sample(commands, 3):
        anubis(*command)


def _incidents(scratch: Path) -> list[Seed]:
    database(scratch)
    text = (RECORDINGS / "inputs" / "incidents.csv").read_bytes()
    return [Seed(name="incidents.csv", content=b"".join(text.splitlines(keepends=True)[:12]))]


def _read_incidents(seed: Seed, path: Path, damaged: bool, rng: random.Random) -> None:
    shutil.copy(path.parents[1] / "seeds" / "history.sqlite", path.parent)
    store = f"--store={path.parent}"
    anubis("history", "incident", "import", str(path), "--add-nodes", store)
    anubis("history", "incident", "list", store)


# Imports


def _archives(scratch: Path) -> list[Seed]:
    return [seed_of(path) for path in sorted((RECORDINGS / "imports").glob("*.npz"))]


def _read_archive(seed: Seed, path: Path, damaged: bool, rng: random.Random) -> None:
    after = _judged_archive(path)
    if damaged:
        healthy = _healthy_archive(seed.name)
        compare("judge", healthy, after[0], after[1])


@cache
def _healthy_archive(name: str) -> Decision | None:
    return _judged_archive(RECORDINGS / "imports" / name)[0]


def _judged_archive(path: Path) -> tuple[Decision | None, str]:
    place = RECORDINGS / "baselines-fleet"
    answer = anubis("judge", str(path), f"--baseline={place}", "--json=-", document=True)
    return answer.decision, answer.text


def _table_rows() -> list[str]:
    """Return the lines of a small table: a few of every kind that the recorded one has, also wrong ones."""
    lines = (RECORDINGS / "inputs" / "fleet-new.csv").read_text("utf-8").splitlines()
    return [lines[0], *lines[1:20], *lines[-8:]]


def _tables(scratch: Path) -> list[Seed]:
    rows = _table_rows()
    return [
        Seed(name="table.csv", content=("\n".join(rows) + "\n").encode()),
        Seed(name="table.tsv", content=("\n".join(rows).replace(",", "\t") + "\n").encode()),
    ]


def _parquets(scratch: Path) -> list[Seed]:
    import duckdb

    source, target = scratch / "table.csv", scratch / "table.parquet"
    source.write_text("\n".join(_table_rows()[:20]) + "\n", encoding="utf-8")
    relation = duckdb.sql(f"SELECT * FROM read_csv('{source}')")  # noqa: S608
    assert relation is not None
    relation.write_parquet(str(target))
    return [seed_of(target)]


def _read_table(seed: Seed, path: Path, damaged: bool, rng: random.Random) -> None:
    anubis("import", "table", str(path), f"--store={path.parent}")
    if rng.random() < 0.5:
        anubis("judge", str(path), f"--baseline={RECORDINGS / 'baselines-fleet'}")


def _input(name: str) -> Callable[[Path], list[Seed]]:
    return lambda scratch: [seed_of(RECORDINGS / "inputs" / name)]


def _read_import(kind: str) -> Callable[[Seed, Path, bool, random.Random], None]:
    def read(seed: Seed, path: Path, damaged: bool, rng: random.Random) -> None:
        answer = anubis("import", kind, str(path), f"--store={path.parent}")
        if answer.code == 0:  # what was written must be readable
            (written,) = path.parent.glob("imports/*.npz")
            anubis("judge", str(written), f"--baseline={RECORDINGS / 'baselines-fleet'}")

    return read


READERS: dict[str, Reader] = {
    reader.name: reader
    for reader in (
        Reader(name="journal", form="journal", seeds=_journals, read=_read_journal),
        Reader(name="journal-0.1", form="lines", seeds=_old_journals, read=_read_journal),
        Reader(name="baseline", form="baseline", seeds=_baselines, read=_read_baseline),
        Reader(name="recorded-node", form="json", seeds=_inventories, read=_read_inventory),
        Reader(name="certificates", form="json", seeds=_certificates, read=_read_certificates),
        Reader(name="risk-model", form="json", seeds=_models, read=_read_model),
        Reader(name="history", form="sqlite", seeds=_histories, read=_read_history),
        Reader(name="incidents-csv", form="text", seeds=_incidents, read=_read_incidents),
        Reader(name="npz", form="npz", seeds=_archives, read=_read_archive),
        Reader(name="table", form="text", seeds=_tables, read=_read_table),
        Reader(name="parquet", form="bytes", seeds=_parquets, read=_read_table),
        Reader(
            name="superbench",
            form="lines",
            seeds=_input("superbench.jsonl"),
            read=_read_import("superbench"),
        ),
        Reader(
            name="nccl-tests", form="text", seeds=_input("nccl_allreduce.log"), read=_read_import("nccl"),
        ),
        Reader(name="fio", form="json", seeds=_input("fio.json"), read=_read_import("fio")),
    )
}  # fmt: skip
