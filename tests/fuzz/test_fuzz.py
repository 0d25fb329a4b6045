"""No file makes a reader fail, hang, exhaust memory or forget damage; ``--fuzz N`` tries more."""

from __future__ import annotations

import json
import random
import signal
import sys
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_anubis.core.verdict import Decision
from pytest_anubis.store.journal.journal_lines import line_of, text_of
from tests.fuzz import batch, campaign, outcome
from tests.fuzz.campaign import run_campaign
from tests.fuzz.healthy_files import Reader, Seed
from tests.fuzz.mutations import CHANGES, mutate
from tests.fuzz.outcome import Defect, anubis, compare
from tests.fuzz.readers import READERS

CORPUS = Path(__file__).parent / "corpus"
LANES = 4
"""Tests that share the inputs, so that they may run side by side."""


@pytest.mark.usefixtures("quick_processes")
@pytest.mark.parametrize("lane", range(LANES))
def test_mutated_files_are_read_or_refused(request: pytest.FixtureRequest, lane: int) -> None:
    inputs = request.config.getoption("--fuzz")
    readers = list(READERS)[lane::LANES]
    share = max(1, inputs * len(readers) // len(READERS))
    done = run_campaign(share, seed=0, readers=readers, together=True)
    assert sum(done.tried.values()) == share
    assert not done.found, "\n".join(map(str, done.found))


def corpus() -> list[Path]:
    return sorted(path for path in CORPUS.glob("*/*") if path.is_file())


@pytest.mark.parametrize("path", corpus(), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_corpus_breaks_no_reader(tmp_path: Path, path: Path) -> None:
    reader = READERS[path.parent.name]
    scratch = tmp_path / "seeds"
    scratch.mkdir()
    seeds = {seed.name: seed for seed in reader.seeds(scratch)}
    about = seeds.get(path.name.partition("@")[2]) or next(iter(seeds.values()))
    for chance in range(3):  # it draws which command reads it
        folder = tmp_path / str(chance)
        folder.mkdir()
        file = folder / about.name
        file.write_bytes(path.read_bytes())
        reader.read(about, file, False, random.Random(chance))


# The fuzzer finds what it is there to find


@pytest.mark.parametrize("form", CHANGES)
def test_the_same_seed_makes_the_same_file(form: str) -> None:
    healthy = json.dumps({"event": "planned", "tests": [{"test": "a"}, 1.5], "crc": "0"}).encode()
    made = [mutate(random.Random(n), healthy, form).content for n in range(40)]
    assert made == [mutate(random.Random(n), healthy, form).content for n in range(40)]
    assert len(set(made)) > 20


def crash(path: Path) -> None:
    raise KeyError(path.name)


def hang(path: Path) -> None:
    while True:
        pass


def eat(path: Path) -> None:
    bytearray(batch.MEMORY * 2)


@pytest.mark.parametrize(
    ("fault", "words"), [(crash, "KeyError"), (hang, "hung"), (eat, "MemoryError")]
)
def test_a_reader_that_is_broken_is_found(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    fault: Callable[[Path], None],
    words: str,
) -> None:
    def read(seed: Seed, path: Path, damaged: bool, rng: random.Random) -> None:
        if path.read_bytes() != seed.content:
            fault(path)

    broken = Reader(
        name="b", form="text", seeds=lambda _: [Seed(name="f", content=b"1,2\n3")], read=read
    )
    monkeypatch.setattr(batch, "HANG", 0.05)
    before = signal.signal(signal.SIGPROF, batch._hung)
    try:
        batch.run_batch(broken, tmp_path, Namespace(seed=0, at=None, keep=tmp_path), 0, 1)
    finally:
        signal.signal(signal.SIGPROF, before)
    (defect,) = map(json.loads, capfd.readouterr().out.splitlines())
    assert words in defect["problem"]
    assert (tmp_path / "b-0-f").read_bytes() != b"1,2\n3"


def test_dead_process_is_reported_and_the_rest_read(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def process(batches: Any, seed: int, at: Path, keep: Any) -> tuple[list[Any], str]:
        seen.append(list(batches))
        if len(seen) > 1:
            return [], ""
        at.write_text("fio:2", encoding="utf-8")
        return [], "the process died (-11)"

    monkeypatch.setattr(campaign, "_process", process)
    found = run_campaign(10, readers=("fio", "history"), together=True)
    assert seen == [[("fio", 0, 5), ("history", 0, 5)], [("fio", 3, 2), ("history", 0, 5)]]
    assert str(*found.found) == "fio, input 2: the process died (-11)"
    assert "| fio | 5 | 4 | 1 |" in found.table()


def test_a_decision_that_becomes_milder_is_found(tmp_path: Path) -> None:
    reader = READERS["journal"]
    (seed,) = (one for one in reader.seeds(tmp_path) if one.about == "measured")
    path = tmp_path / "a" / seed.name
    path.parent.mkdir()
    lines = [json.loads(line) for line in seed.content.splitlines()]
    for line in lines:
        if "values" in line and line["device"] == "cuda:2":
            line["values"] = [value / 0.8 for value in line["values"]]
        del line["crc"], line["seq"]
    made = [line_of(text_of(line), number) for number, line in enumerate(lines, start=1)]
    path.write_bytes(b"".join(made))  # as a line that is well and says something else
    with pytest.raises(Defect, match="milder: judge: REJECTED -> ACCEPTED"):
        reader.read(seed, path, True, random.Random(0))


def test_milder_decision_needs_named_damage() -> None:
    accepted, rejected, undecided = Decision.ACCEPTED, Decision.REJECTED, Decision.UNDECIDED
    compare("judge", rejected, undecided, "line 7: damaged")
    compare("judge", accepted, rejected, "")
    compare("judge", rejected, None, "")
    for before, after in ((rejected, undecided), (rejected, accepted), (undecided, accepted)):
        with pytest.raises(Defect, match="milder"):
            compare("judge", before, after, "")


@pytest.mark.parametrize(
    ("code", "out", "err", "words"),
    [
        (0, "a\x1b[31m\n", "", "not printable"),
        (0, "{NaN}", "", "no JSON"),
        (2, "", "refused\n", "without a line"),
        (3, "", "", "exit code 3"),
    ],
)
def test_forbidden_output_of_a_command_is_found(
    monkeypatch: pytest.MonkeyPatch, code: int, out: str, err: str, words: str
) -> None:
    def main(arguments: Any) -> int:
        sys.stdout.write(out)
        sys.stderr.write(err)
        return code

    monkeypatch.setattr(outcome, "main", main)
    with pytest.raises(Defect, match=words):
        anubis("judge", document="{" in out)
