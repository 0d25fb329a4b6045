"""Later versions say of recorded runs, baselines, imports and histories what the recording version said."""

from __future__ import annotations

import difflib
import json
import math
import os
import re
import shutil
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_anubis.report.export.run_json import run_json
from pytest_anubis.store.baselines.baseline_files import load_baseline, save_baseline
from pytest_anubis.store.journal.journal_reading import read_journal
from tests.golden.asking import NOW, ask, tidy
from tests.golden.cases import CASES, CHOSEN, Case
from tests.golden.record import IMPORTS, ROOT, loaded
from tests.golden.renamed import RENAMED
from tests.golden.scenes import (
    CARDS,
    EXPECTED,
    RECORDINGS,
    RUNS,
    SCENES,
    Scene,
    plain,
    play,
    written,
)
from tests.golden.toys import write_project

WRITE = bool(os.environ.get("GOLDEN_WRITE"))
"""Write down what this version says in place of comparing with it."""


def renamed(text: str) -> str:
    """Put the new words in place of the old ones."""
    for old, new in RENAMED.items():
        if old in text:  # seldom, and much faster found
            text = re.sub(rf"(?<!\w){re.escape(old)}(?!\w)", new, text)
    return text


def renamed_in(document: Any) -> Any:
    """Put the new words in place of the old ones in a JSON document, in keys too."""
    if isinstance(document, dict):
        return {renamed(key): renamed_in(item) for key, item in document.items()}
    if isinstance(document, list):
        return [renamed_in(item) for item in document]
    return renamed(document) if isinstance(document, str) else document


SHARES = {"concordance": 0.02, "observed": 0.05}
"""Field -> how far apart shares of rows may be: a row that changes its place moves them in steps."""


def aligned(found: Any, expected: Any, close: float, apart: float = 1e-12) -> Any:
    """Return what was found, with the expected number wherever the found one is as good as equal."""
    if isinstance(found, dict) and isinstance(expected, dict):
        return {
            key: aligned(item, expected.get(key), close, SHARES.get(key, 1e-12))
            for key, item in found.items()
        }
    if isinstance(found, list) and isinstance(expected, list) and len(found) == len(expected):
        return [aligned(one, two, close) for one, two in zip(found, expected, strict=True)]
    if type(found) is float and type(expected) in (int, float):
        return expected if math.isclose(found, expected, rel_tol=close, abs_tol=apart) else found
    return found


def same(name: str, found: str, expected: str) -> None:
    """Compare two texts line by line; show how they differ.

    Renamed words are put into both: what is found may quote a recorded journal in its old words. Where there
    are any, neither the number of spaces between words counts, since a longer word widens its column, nor
    where a line that was too long was cut.
    """
    mine, theirs = renamed(found).splitlines(), renamed(expected).splitlines()
    if RENAMED:
        mine, theirs = ([re.sub(r" {2,}", "  ", one).rstrip() for one in a] for a in (mine, theirs))
        for place, (one, two) in enumerate(zip(mine, theirs, strict=False)):
            short = min(len(one), len(two)) - 1
            if one.endswith("…") and two.endswith("…") and one[:short] == two[:short]:
                mine[place] = two
    if mine != theirs:
        lines = difflib.unified_diff(theirs, mine, f"expected {name}", "found", lineterm="", n=2)
        pytest.fail("\n".join(lines), pytrace=False)


def as_expected(name: str, found: str, close: float = 1e-9) -> None:
    """Compare a text, or by its structure a JSON document, with the file of that name."""
    path = EXPECTED / name
    document = plain(found) if name.endswith(".json") else None
    if WRITE:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(found if document is None else written(document))
    elif document is None:
        same(name, found, path.read_text())
    else:
        wanted = renamed_in(json.loads(path.read_text()))
        same(name, written(aligned(renamed_in(document), wanted, close)), written(wanted))


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_a_scene_is_as_recorded(scene: Scene, tmp_path: Path) -> None:
    shown = play(scene, tmp_path.resolve())
    as_expected(f"{scene.name}.txt", shown.transcript)
    for name, text in shown.documents.items():
        as_expected(f"{scene.name}.{name}", text, scene.close)


# Baselines: what is learned again is the same file, digest and all.


@pytest.mark.parametrize(
    ("folder", "runs", "options"),
    [
        ("baselines", "store/runs/learn-*", ()),
        ("baselines", "store/runs/gpu-*", ("--error-rate", "none")),
        ("baselines-choices", "store/runs/choices-*", ("--error-rate", "none")),
        ("baselines-fleet", "imports/fleet.csv.npz", ()),
    ],
)
def test_recorded_baselines_are_learned_again_to_the_byte(
    folder: str, runs: str, options: tuple[str, ...], tmp_path: Path
) -> None:
    said = ask(["learn", *map(str, sorted(RECORDINGS.glob(runs))), "-o", "out", *options], tmp_path)
    assert said.code == 0, said
    (path,) = (tmp_path / "out").glob("*.json")
    # Limits are learned otherwise than by version 0.1, whose files the other scenes still judge by; what both
    # have, centre and units, is the same to the last digit.
    learned, recorded = (
        [(c.benchmark, c.metric.name, c.group, c.scope, c.centre, c.medians) for c in one.criteria]
        for one in (load_baseline(path), load_baseline(RECORDINGS / folder / path.name))
    )
    assert learned == recorded
    as_expected(f"{folder}/{path.name}", path.read_text())


def test_recorded_inputs_are_imported_again_to_the_number(tmp_path: Path) -> None:
    for file in sorted((RECORDINGS / "inputs").iterdir()):
        # A word in place of a value is an invalid value now; it was left out.
        lines = file.read_bytes().splitlines(keepends=True)
        kept = [line for line in lines if b",higher,fast," not in line]
        (tmp_path / file.name).write_bytes(b"".join(kept))
        os.utime(tmp_path / file.name, (NOW, NOW))
    for kind, name, *more in IMPORTS:
        said = ask(["import", kind, Path(name).name, *more, "--lenient"], tmp_path)
        assert said.code == 0, said
    for path in sorted((RECORDINGS / "imports").iterdir()):
        with np.load(tmp_path / ".anubis" / "imports" / path.name) as new, np.load(path) as old:
            assert set(new) == set(old)
            for name in set(old) - {"header"}:
                np.testing.assert_array_equal(new[name], old[name], f"{path.name}: {name}")
            found, recorded = (json.loads(bytes(one["header"])) for one in (new, old))
            for run in (
                *found["records"],
                *recorded["records"],
            ):  # what the head of a journal holds
                run |= {"format": "anubis-journal", "schema": 1, "baseline": ""}
                run.pop("unread", None)  # lines that could not be read are counted now
            # Components of known metrics come from a map now, and fio and nccl-tests have groups.
            for name in ("component", "group"):
                found, recorded = without(found, name), without(recorded, name)
            same(f"{path.name}: header", written(renamed_in(found)), written(renamed_in(recorded)))


# Runs made now: by themselves, and the rest of recorded half runs.

USUAL = ("-q", "-p", "no:cacheprovider", "--anubis", "--anubis-inventory=node.json")

FLEETING = {
    "at",
    "seconds",
    "started",
    "ended",
    "wall",
    "start",
    "end",
    "traceback",
    "baselines",
    "store",
    "version",
}
"""Keys of a run whose values differ from one time to the next."""

NOT_OF_OLD = {
    *(
        "around",
        "telemetry",
        "misuse",
        "busy",
        "environment",
        "left_out",
        "in_process",
        "devices",
        "cause",
    ),
    *("file", "found_anew", "loss", "certainty", "retest", "triage", "lowest"),
    *("quiet_limits", "allowed_processes", "waivers"),
    *("junit", "other_machine", "split", "require", "absent", "part", "exposing", "tools"),
    "baseline_pin",
    *("looked_at", "after"),
    "questions",  # of tests that stated none then
}
"""Sensors are asked where a test took a tenth of a second; version 0.1 did not know the others."""


def timeless(value: Any) -> Any:
    """Return a run's JSON without what differs from one time to the next, e.g. on a busy machine."""
    if isinstance(value, dict):
        return {
            key: "<fleeting>" if key in FLEETING else timeless(item)
            for key, item in value.items()
            if key not in NOT_OF_OLD
            and not (key == "question" and "metrics" in value)
            # How it was typed, which old runs had not; among events it is the plan.
            and not (key in ("tests", "root") and isinstance(item, str))
            and not (
                key == "node" and item == ""
            )  # the setting of this name, which old runs had not
        }
    return [timeless(item) for item in value] if isinstance(value, list) else value


def without(value: Any, name: str) -> Any:
    """Return a document without the fields of one name."""
    if isinstance(value, dict):
        return {key: without(item, name) for key, item in value.items() if key != name}
    return [without(item, name) for item in value] if isinstance(value, list) else value


RESUMED: Mapping[str, tuple[int, Mapping[str, Any]]] = {
    "killed": (0, {}),
    "killed-slow": (1, {"speed": {"factor": 0.8}}),
    "interrupted": (0, {}),
    "broken-decision": (0, {}),
    "accepted": (4, {}),
}
"""Recorded run -> exit code of going on with it, and what the toy records then."""


@pytest.mark.parametrize("run", RESUMED)
def test_a_recorded_half_run_is_gone_on_with(run: str, pytester: pytest.Pytester) -> None:
    code, plan = RESUMED[run]
    folder = pytester.path
    write_project(folder, plan=plan)
    shutil.copy(RECORDINGS / "inventories" / "lab-a.json", folder / "node.json")
    shutil.copytree(RECORDINGS / "baselines", folder / "baselines")
    shutil.copytree(RUNS / run, folder / ".anubis" / "runs" / run)
    given = [*USUAL, "toy.py", "-p", "no:xdist", "--anubis-resume"]
    if run == "killed":  # one as its users start it
        result = pytester.runpytest_subprocess(*given)
    else:
        result = pytester.runpytest_inprocess(*given)
    assert result.ret == code
    said = ask(["report", run, "--json", "-"], folder)
    as_expected(f"resumed/{run}.json", json.dumps(timeless(json.loads(said.out))))


AGAIN = (
    "accepted",
    "accepted-redacted",
    "all-required",
    "assertion",
    "cards-gate",
    "cards-peers",
    "cards-slow",
    "deselected",
    "marginal",
    "nothing-recorded",
    "not-a-number",
    "odd-names",
    "skipped",
    "slow-many",
    "strict",
    "uncollected",
    "waived",
    "wrong-use",
    "selected",
)
"""Recorded runs that are made again; what pytest prints then and its JUnit file are expected files."""


HEADED_OTHERWISE = (
    *("waived", "selected", "odd-names", "cards-slow", "cards-peers", "marginal", "accepted"),
    *("accepted-redacted", "assertion", "strict"),
)
"""Runs made again whose headline says more than it did."""

OTHERWISE = {
    # Errors of a card's memory wait for a reset and replace no card; next steps name the serial number.
    "cards-gate",
    # The risk that is left has an interval, and the notes say why the model of risk was taken.
    "selected",
    # The metrics of a failure stand in the order of what to act on first.
    "slow-many",
    # A failure's text begins with the loss, and names slot and serial number of the card.
    *("cards-slow", "waived"),
    # What passes beside the node's other cards alone counts as NOT_JUDGED.
    "cards-peers",
    # A failed check is its message, with the values compared and the mark's action.
    *("assertion", "strict"),
}
"""Runs made again that tell something else on purpose: what they tell is an expected file."""


def told_by(journal: Path, name: str, folder: Path) -> Any:
    """Return what a journal tells, whatever its schema, without what differs from one time to the next."""
    text = run_json(read_journal(journal)).replace(str(folder), f"{ROOT}/{name}")
    return timeless(json.loads(text))


def unworded(text: str) -> str:
    """Return text without the sizes of losses, which version 0.1 said in other words and on another scale."""
    size = r"(<?[\d.]+ ?% (worse|slower|longer|lower|higher)|[\d.]+ times as (slow|long|high)|no worse)"
    text = re.sub(rf"(: |became ){size}", r"\1<loss>", text)
    text = re.sub(r"degraded by [\d.]+% from", "became <loss> from", text)
    text = re.sub(rf" is ({size} than the expected|[\d.]+ % (below|above)) ", " is <loss> ", text)
    # A failure began with the name of its exception and with the value, and did not say which card it was.
    text = re.sub(
        r"AcceptanceFailure: (\w+) (\S+ \S+) is <loss> (\S+) \(",
        r"\1 <loss>: \2, expected \3 (",
        text,
    )
    text = re.sub(rf'"(\w+) {size}: (\S+ \S+), expected', r'"\1 <loss>: \5, expected', text)
    text = re.sub(r" on cuda:\d \(slot [^)]*\)", "", text)
    text = re.sub(
        r" \(medians\); its distribution: <loss>|; its distribution is .*?, its median \w+",
        ": <loss>",
        text,
    )
    return re.sub(r"(threshold|limit|spread) of [\d.]+( ?%)?", r"\1 of <loss>", text)


@pytest.mark.parametrize("name", AGAIN)
def test_a_recorded_run_made_again_tells_the_same(
    name: str, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    (case,) = [case for case in (*CASES, *CHOSEN) if case.name == name]
    folder = pytester.path
    arguments = _prepared(case, folder, monkeypatch)
    if name.startswith("cards-"):
        _bring_to_todays_class(folder / "baselines", monkeypatch)
    result = pytester.runpytest_inprocess(*arguments)
    assert result.ret == case.code, result.stdout.str()
    # What was waived, left out or not judged stands in the headline now, and whose it is; what is printed
    # is an expected file.
    if name in HEADED_OTHERWISE:
        monkeypatch.setitem(RENAMED, *_headlines(name, folder))
    found = told_by(folder / ".anubis" / "runs" / name / "journal.jsonl", name, folder)
    recorded = renamed_in(told_by(RUNS / name / "journal.jsonl", name, folder))
    if name.startswith("cards-"):  # what a class is made of stands in its key, which is compared
        found, recorded = without(found, "attributes"), without(recorded, "attributes")
    found = aligned(renamed_in(found), recorded, 1e-3)
    if name in OTHERWISE:
        as_expected(f"again/{name}.json", written(found), 1e-3)
    else:
        same(f"{name}/journal.jsonl", unworded(written(found)), unworded(written(recorded)))
    as_expected(f"again/{name}.txt", without_times(tidy(result.stdout.str(), folder)))
    as_expected(f"again/{name}.xml", without_times(tidy((folder / "out.xml").read_text(), folder)))


def _bring_to_todays_class(baselines: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the recorded baseline be of today's class: torch's minor version is part of it."""
    old = CARDS.removesuffix(".json")
    for key in (old, f"7{old[1:]}"):
        monkeypatch.setitem(RENAMED, key, key.replace("torch2_", "torch2.7_"))
    if (baselines / CARDS).exists():
        baseline = load_baseline(baselines / CARDS)
        now = replace(baseline, hardware_class=RENAMED[old])
        (baselines / CARDS).unlink()  # else two classes are equally close
        monkeypatch.setitem(
            RENAMED, baseline.digest, load_baseline(save_baseline(now, baselines)).digest
        )


def _headlines(name: str, folder: Path) -> tuple[str, str]:
    """Return what a recorded run made again is headed with, and what it was headed with."""
    places = (RUNS / name, folder / ".anubis" / "runs" / name)
    old, new = (read_journal(place).node_verdict for place in places)
    assert old is not None
    assert new is not None
    assert (old.decision, old.components) == (new.decision, new.components)
    return renamed(new.headline), old.headline


def _prepared(case: Case, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    write_project(folder, toy=case.toy, plan=case.plan, conftest=case.conftest)
    shutil.copy(RECORDINGS / "inventories" / f"{case.node}.json", folder / "node.json")
    more: tuple[str, ...] = ()
    if case in CHOSEN:
        shutil.copytree(RECORDINGS / "baselines-choices", folder / "baselines")
        loaded(RECORDINGS / "history.sql", folder / ".anubis")
        monkeypatch.setattr(time, "time", lambda: NOW)
        more = ("-s",)
    elif case.baselines:
        shutil.copytree(RECORDINGS / case.baselines, folder / "baselines")
    if case.before is not None:
        case.before(folder)
    monkeypatch.setenv("COLUMNS", "120")
    return [
        *USUAL,
        case.toy,
        *case.args,
        *more,
        f"--anubis-run-id={case.name}",
        "--junitxml=out.xml",
        # The recording version ran them in pytest's own process.
        *(() if "-n0" in case.args or "-n2" in case.args else ("--anubis-in-process",)),
    ]


def without_times(text: str) -> str:
    """Take out how long things took, when they were, what pytest itself names, and Python's own frames."""
    text = re.sub(r"\b\d+\.\d+ ?s\b", "<seconds>", text)
    text = re.sub(r"\b0x[0-9a-f]+\b", "<address>", text)
    text = re.sub(r"(?ms)^=+ ERRORS =+\n.*?(?=^-+ anubis -+$)", "", text)
    text = re.sub(r"(?s)(<error [^>]*>).*?(?=</error>)", r"\1", text)
    text = re.sub(r' (time|timestamp|hostname)="[^"]*"', "", text)
    return text.replace("><", ">\n<")


def test_everything_recorded_and_expected_is_asked_for() -> None:
    asked = [*(scene.name for scene in SCENES), *(f"resumed/{run}" for run in RESUMED)]
    asked += [f"again/{name}" for name in AGAIN]
    asked += [
        str(path.relative_to(RECORDINGS).with_suffix("")) for path in RECORDINGS.glob("base*/*")
    ]
    files = [str(path.relative_to(EXPECTED)) for path in EXPECTED.rglob("*") if path.is_file()]
    assert [file for file in files if not file.startswith(tuple(f"{n}." for n in asked))] == []
    assert {f"report/{path.name}" for path in RUNS.iterdir()} <= set(asked)


def test_no_recording_names_the_machine_that_made_it() -> None:
    for path in [*RECORDINGS.rglob("*"), *EXPECTED.rglob("*")]:
        text = path.read_bytes() if path.is_file() else b""
        found = set(re.findall(rb"(?<!\w)/([a-z]{3,})/", text))
        assert found <= {b"recorded", b"dev"}, f"{path.name} has folders of a machine: {found}"
