"""A sealed run is verified byte by byte, and decided anew from what is in the archive."""

from __future__ import annotations

import json
import random
import stat
import struct
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_anubis.cli.commands.sealing.sealed_decision import decided, journal_record
from pytest_anubis.core.seal import (
    BASELINE,
    DOSSIER,
    INVENTORY,
    JOURNAL,
    MANIFEST,
    WAIVERS,
    FlawKind,
)
from pytest_anubis.core.verdict import Decision
from pytest_anubis.report.text.seal_text import flaw_line
from pytest_anubis.store.baselines.baseline_files import save_baseline
from pytest_anubis.store.baselines.baseline_form import baseline_from_plain, baseline_to_plain
from pytest_anubis.store.sealing.acceptance_bundle import (
    _pieces,
    bundle_bytes,
    files_of_bundle,
    signature_names,
)
from pytest_anubis.store.sealing.seal_signatures import with_signature
from tests.cli.command_line import anubis
from tests.cli.commands.sealed_runs import (
    DATE,
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
from tests.golden.runs import RUNS

CHANGES = 200


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sealed")


@pytest.fixture(scope="module")
def vendor(place: Path) -> Key:
    return write_key(place, "vendor")


@pytest.fixture(scope="module")
def stranger(place: Path) -> Key:
    return write_key(place, "stranger")


@pytest.fixture(scope="module")
def archive(place: Path, vendor: Key) -> bytes:
    """Seal the run that a slow card rejects."""
    path = place / "slow-card.zip"
    assert seal("slow-card", vendor, path) == ""
    return path.read_bytes()


@pytest.fixture(scope="module")
def files(archive: bytes) -> Files:
    return content(archive)


@pytest.mark.parametrize("now", [1e9, 3e9])
def test_the_decision_does_not_depend_on_the_clock(
    monkeypatch: pytest.MonkeyPatch, vendor: Key, archive: bytes, now: float
) -> None:
    monkeypatch.setattr("time.time", lambda: now)
    assert flaws(archive, vendor) == {}
    assert verify(archive, vendor).report.exit_code == 1


def test_any_program_unpacks_what_was_sealed(tmp_path: Path, archive: bytes, files: Files) -> None:
    path = tmp_path / "sealed.zip"
    path.write_bytes(archive)
    with zipfile.ZipFile(path) as packed:
        assert packed.testzip() is None
        assert {one: packed.read(one) for one in files} == files
    assert files[JOURNAL] == (RUNS / "slow-card" / "journal.jsonl").read_bytes()


def test_the_same_run_makes_the_same_bytes(
    tmp_path: Path, vendor: Key, archive: bytes, files: Files
) -> None:
    again = tmp_path / "again.zip"
    assert seal("slow-card", vendor, again) == ""
    assert content(again.read_bytes()) == files
    assert bundle_bytes(dict(reversed(files.items()))) == bundle_bytes(files)


# What somebody without the key may do


def owners(archive: bytes) -> list[tuple[int, str]]:
    """Return where each piece of an archive ends, and the file that it is about."""
    ends, at = [], 0
    for name, piece in _pieces(files_of_bundle(archive)[0]):
        at += len(piece)
        ends.append((at, name))
    return ends


def test_every_changed_byte_is_found_and_named(vendor: Key, archive: bytes) -> None:
    chance = random.Random(200)
    pieces = owners(archive)
    # Most bytes are the journal's and the dossier's: half of the changes are in the small pieces.
    anywhere = [chance.randrange(len(archive)) for _ in range(CHANGES // 2)]
    starts = [0, *(end for end, _ in pieces[:-1])]
    anywhere += [
        chance.randrange(start, end)
        for start, (end, _) in (
            chance.choice(list(zip(starts, pieces, strict=True))) for _ in range(CHANGES // 2)
        )
    ]
    for at in anywhere:
        changed = bytearray(archive)
        changed[at] ^= 1 << chance.randrange(8)
        owner = next(name for end, name in pieces if at < end)
        named = {name for names in flaws(bytes(changed), vendor).values() for name in names}
        assert owner in named or (not owner and named), (at, owner, named)


@pytest.mark.parametrize("name", [MANIFEST, JOURNAL, BASELINE, WAIVERS, INVENTORY, DOSSIER])
def test_a_removed_file_is_named(vendor: Key, archive: bytes, name: str) -> None:
    left, _ = files_of_bundle(archive)
    del left[name]
    assert name in flaws(bundle_bytes(left), vendor)[FlawKind.MISSING]


@pytest.mark.parametrize("end", [0, 1])
def test_half_a_signature_is_none(vendor: Key, archive: bytes, end: int) -> None:
    left, _ = files_of_bundle(archive)
    name = signature_names(vendor.known.fingerprint)[end]
    del left[name]
    assert flaws(bundle_bytes(left), vendor)[FlawKind.MISSING] == [name]


@pytest.mark.parametrize(
    "name", ["extra.txt", "../x", "/etc/passwd", "Journal.jsonl", "signatures/x.sig", "a\\b", "ä"]
)
def test_an_added_file_is_named(tmp_path: Path, vendor: Key, archive: bytes, name: str) -> None:
    path = tmp_path / "sealed.zip"
    path.write_bytes(archive)
    with zipfile.ZipFile(path, "a") as packed:
        packed.writestr(name, "more")
    assert name in flaws(path.read_bytes(), vendor)[FlawKind.ADDED]


def test_a_second_file_of_one_name_is_named(tmp_path: Path, vendor: Key, archive: bytes) -> None:
    path = tmp_path / "sealed.zip"
    path.write_bytes(archive)
    with zipfile.ZipFile(path, "a") as packed, pytest.warns(UserWarning, match="Duplicate"):
        packed.writestr(JOURNAL, "another")
    assert flaws(path.read_bytes(), vendor) == {FlawKind.TWICE: [JOURNAL]}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("compress_type", zipfile.ZIP_DEFLATED),
        ("external_attr", (stat.S_IFLNK | 0o777) << 16),
        ("date_time", (2026, 1, 1, 0, 0, 0)),
        ("comment", b"more"),
    ],
)
def test_a_repacked_archive_is_refused(
    tmp_path: Path, vendor: Key, archive: bytes, field: str, value: object
) -> None:
    path = tmp_path / "sealed.zip"
    with zipfile.ZipFile(path, "w") as packed:  # as another program writes it
        for name, one in files_of_bundle(archive)[0].items():
            info = zipfile.ZipInfo(name)
            info.external_attr = (stat.S_IFREG | 0o644) << 16
            if name == JOURNAL:
                setattr(info, field, value)
            packed.writestr(info, one)
    assert JOURNAL in flaws(path.read_bytes(), vendor)[FlawKind.REPACKED]


def test_nothing_of_a_bomb_is_unpacked(tmp_path: Path, vendor: Key) -> None:
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as bomb:
        bomb.writestr(JOURNAL, bytes(50 << 20))
    found, odd = files_of_bundle((tmp_path / "bomb.zip").read_bytes())
    assert found == {}
    assert [flaw.kind for flaw in odd] == [FlawKind.REPACKED]


def test_files_that_share_bytes_are_unreadable(vendor: Key, files: Files) -> None:
    large = {**files, JOURNAL: bytes(1 << 20)}
    pieces = list(_pieces(large))
    listed = {name: piece for name, piece in pieces if piece.startswith(b"PK\x01\x02")}
    journal = listed[JOURNAL]
    for name, entry in listed.items():  # every file begins where the journal does, and is as long
        listed[name] = entry[:16] + journal[16:28] + entry[28:42] + journal[42:46] + entry[46:]
    data = b"".join(
        listed[name] if piece.startswith(b"PK\x01\x02") else piece for name, piece in pieces
    )
    assert list(flaws(data, vendor)) == [FlawKind.UNREADABLE]


def hostile() -> Iterator[tuple[str, Callable[[bytes], bytes]]]:
    yield "empty", lambda data: b""
    yield "text", lambda data: b"no archive\n" * 9
    yield "half", lambda data: data[: len(data) // 2]
    yield "its last byte is gone", lambda data: data[:-1]
    yield "trailing byte", lambda data: data + b"\0"
    yield "trailing archive", lambda data: data + data
    yield "leading byte", lambda data: b"#" + data
    yield "many files", lambda data: data[:-14] + struct.pack("<HH", 65535, 65535) + data[-10:]


@pytest.mark.parametrize("change", [pytest.param(one, id=name) for name, one in hostile()])
def test_what_is_no_archive_is_unreadable(
    tmp_path: Path, vendor: Key, archive: bytes, change: Callable[[bytes], bytes]
) -> None:
    assert list(flaws(change(archive), vendor)) == [FlawKind.UNREADABLE]
    path = tmp_path / "sealed.zip"
    path.write_bytes(change(archive))
    done = anubis("verify", str(path), f"--key={vendor.public}", "--json=-")
    assert done.returncode == 20
    assert json.loads(done.stdout)["decision"] is None


def test_bytes_before_and_between_files_are_found(vendor: Key, archive: bytes) -> None:
    end = struct.Struct("<4sHHHHIIH")
    mark, *disks, count, size, start, comment = end.unpack(archive[-end.size :])
    moved = end.pack(mark, *disks, count, size, start + 4, comment)
    data = archive[:start] + b"more" + archive[start : -end.size] + moved
    assert FlawKind.REPACKED in flaws(data, vendor)


def test_a_missing_file_is_unreadable(tmp_path: Path, vendor: Key) -> None:
    assert anubis("verify", str(tmp_path / "none"), f"--key={vendor.public}").returncode == 20


def test_a_foreign_key_is_named(vendor: Key, stranger: Key, archive: bytes) -> None:
    found = flaws(archive, stranger)
    assert found[FlawKind.UNKNOWN_SIGNER] == [vendor.known.fingerprint]
    assert found[FlawKind.NOT_SIGNED] == [str(stranger.public)]
    both = flaws(archive, vendor, stranger)
    assert both == {FlawKind.NOT_SIGNED: [str(stranger.public)]}


def test_a_strangers_signature_is_not_trusted(
    vendor: Key, stranger: Key, archive: bytes, files: Files
) -> None:
    forged = signed_anew(files, stranger)
    assert set(flaws(forged, vendor)) == {FlawKind.UNKNOWN_SIGNER, FlawKind.NOT_SIGNED}
    more = with_signature(
        files_of_bundle(archive)[0], stranger.private, signer="vendor", signed=DATE
    )
    assert list(flaws(bundle_bytes(more), vendor)) == [FlawKind.UNKNOWN_SIGNER]


def test_a_fresh_manifest_needs_a_fresh_signature(
    vendor: Key, archive: bytes, files: Files
) -> None:
    old = {name: one for name, one in files_of_bundle(archive)[0].items() if name not in files}
    lied = {**files, JOURNAL: files[JOURNAL].replace(b"79.", b"99.")}
    fresh = content(signed_anew(lied, vendor))
    assert flaws(bundle_bytes({**fresh, **old}), vendor) == {FlawKind.PASTED: [MANIFEST]}


def test_a_signature_of_another_archive_is_found(tmp_path: Path, vendor: Key, files: Files) -> None:
    assert seal("accepted", vendor, tmp_path / "other.zip") == ""
    other, _ = files_of_bundle((tmp_path / "other.zip").read_bytes())
    pasted = {name: one for name, one in other.items() if name.startswith("signatures/")}
    found = flaws(bundle_bytes({**files, **pasted}), vendor)
    assert found == {FlawKind.PASTED: [MANIFEST]}


def test_a_key_cannot_sign_for_another(
    vendor: Key, stranger: Key, archive: bytes, files: Files
) -> None:
    mine = content(archive)
    signed = with_signature(mine, stranger.private, signer="", signed=DATE)
    own, foreign = (signature_names(key.known.fingerprint) for key in (stranger, vendor))
    renamed = {dict(zip(own, foreign, strict=True)).get(n, n): one for n, one in signed.items()}
    assert flaws(bundle_bytes(renamed), vendor) == {FlawKind.FORGED: [foreign[0]]}


@pytest.mark.parametrize("lie", [{"signer": "x" * 999}, {"signed": "ACCEPTED: node n17"}])
def test_a_statement_has_a_name_and_a_date(vendor: Key, files: Files, lie: dict[str, str]) -> None:
    said = {"signer": "", "signed": DATE} | lie
    data = bundle_bytes(with_signature(files, vendor.private, **said))
    name = signature_names(vendor.known.fingerprint)[0]
    assert flaws(data, vendor) == {FlawKind.CHANGED: [name]}


# What the holder of the key may do: the journal decides


def accept(event: dict[str, Any]) -> None:
    event |= {"decision": "ACCEPTED", "components": [], "headline": "node gpu-a accepted"}


def lied_about(journal: bytes) -> bytes:
    """Return the journal of a rejected run in which everything but the values speaks of a healthy node."""
    journal = rewritten(journal, "node_verdict", accept)
    journal = rewritten(journal, "run_finished", to(exit_status=0))
    journal = rewritten(journal, "test_finished", to(outcome="passed"))
    return rewritten(journal, "verdict", to(outcome="PASS", reason="within"))


@pytest.mark.parametrize(
    "lie", [lambda one: rewritten(one, "node_verdict", accept), lied_about], ids=["one", "all"]
)
def test_a_rewritten_verdict_is_refused(
    tmp_path: Path, vendor: Key, files: Files, lie: Callable[[bytes], bytes]
) -> None:
    journal = lie(files[JOURNAL])
    assert journal != files[JOURNAL]
    data = signed_anew({**files, JOURNAL: journal}, vendor, decision=Decision.ACCEPTED)
    assert list(flaws(data, vendor)) == [FlawKind.VERDICT]
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "journal.jsonl").write_bytes(journal)
    assert "REJECTED" in seal(str(tmp_path / "run"), vendor, tmp_path / "sealed.zip")
    assert not (tmp_path / "sealed.zip").exists()


def other_card(event: dict[str, Any]) -> None:
    if event["outcome"] == "FAIL":
        event["device"] = "cuda:2"


@pytest.mark.parametrize(
    ("kind", "lie"),
    [
        ("node_verdict", to(components=["network"])),
        ("node_verdict", to(components=[])),
        ("verdict", other_card),
    ],
    ids=["another component", "no component", "another card"],
)
def test_another_blamed_part_is_refused(
    vendor: Key, files: Files, kind: str, lie: Callable[[dict[str, Any]], None]
) -> None:
    journal = rewritten(files[JOURNAL], kind, lie)
    assert journal != files[JOURNAL]
    data = signed_anew({**files, JOURNAL: journal}, vendor)
    assert list(flaws(data, vendor)) == [FlawKind.VERDICT]


def test_another_decision_in_the_manifest_is_refused(vendor: Key, files: Files) -> None:
    data = signed_anew(files, vendor, decision=Decision.ACCEPTED)
    (flaw,) = verify(data, vendor).report.flaws
    assert (flaw.kind, flaw.version) == (FlawKind.DECISION, "")
    assert flaw.decisions == (Decision.ACCEPTED, Decision.REJECTED)
    assert "the seal says ACCEPTED, its journal REJECTED" in flaw_line(flaw)


def test_a_journal_of_another_run_is_refused(vendor: Key, files: Files) -> None:
    other = (RUNS / "crashed" / "journal.jsonl").read_bytes()
    found = flaws(signed_anew({**files, JOURNAL: other}, vendor), vendor)
    assert MANIFEST in found[FlawKind.DIFFERS]


@pytest.mark.parametrize("resealed", [False, True])
def test_a_swapped_baseline_is_refused(
    tmp_path: Path, vendor: Key, files: Files, resealed: bool
) -> None:
    text = files[BASELINE].decode()
    milder = text.replace('"alpha": 0.95', '"alpha": 0.5')
    assert milder != text
    changed = milder.encode()
    if resealed:  # its digest is that of its content then
        plain = baseline_to_plain(baseline_from_plain(json.loads(milder)))
        changed = save_baseline(baseline_from_plain(plain), tmp_path).read_bytes()
    data = signed_anew({**files, BASELINE: changed}, vendor)
    assert list(flaws(data, vendor)) == [FlawKind.UNDECIDABLE]
    left = {name: one for name, one in files.items() if name != BASELINE}
    assert FlawKind.UNDECIDABLE in flaws(signed_anew(left, vendor, baseline=""), vendor)


@pytest.mark.parametrize("name", [DOSSIER, WAIVERS, INVENTORY])
def test_files_that_the_journal_does_not_give(vendor: Key, files: Files, name: str) -> None:
    data = signed_anew({**files, name: files[name] + b" "}, vendor)
    assert flaws(data, vendor) == {FlawKind.DIFFERS: [name]}


def test_a_waiver_counts_as_of_the_runs_day(tmp_path: Path, vendor: Key, files: Files) -> None:
    waiver = {"owner": "j.doe", "reason": "known", "metric": "rate", "expires": "2099-01-01"}
    held = with_waivers(files[JOURNAL], waiver)
    data = signed_anew(anew_of(held, files), vendor, decision=Decision.ACCEPTED)
    assert flaws(data, vendor) == {}
    assert verify(data, vendor).report.exit_code == 0
    late = with_waivers(files[JOURNAL], {**waiver, "expires": "2026-04-30"})
    data = signed_anew({**files, JOURNAL: late}, vendor, decision=Decision.ACCEPTED)
    assert list(flaws(data, vendor)) == [FlawKind.VERDICT]


def with_waivers(journal: bytes, waiver: dict[str, Any]) -> bytes:
    """Return the journal of a run that a waiver lets pass, as it says itself."""
    events = events_of(journal)
    events.insert(1, {"event": "waivers", "waivers": [waiver], "at": 1777669200.0})
    for event in events:
        if event["event"] == "node_verdict":
            accept(event)
        elif event["event"] == "run_finished":
            event["exit_status"] = 0
    return journal_of(events)


def anew_of(journal: bytes, files: Files) -> Files:
    """Return the files that belong to another journal."""
    record = journal_record(journal, JOURNAL)
    derived = decided(record, files[BASELINE]).derived()
    return {**files, JOURNAL: journal, **derived}


# Other versions


def test_a_seal_of_another_version_is_verified(vendor: Key, files: Files) -> None:
    page = {**files, DOSSIER: b"<p>as another version writes it"}
    report = verify(signed_anew(page, vendor, version="9.1"), vendor).report
    assert (report.flaws, report.exit_code, report.compared) == ((), 1, False)


def test_a_newer_form_names_its_version(vendor: Key, files: Files) -> None:
    newer = {**json.loads(files[MANIFEST]), "schema": 2, "version": "9.1", "more": 1}
    changed = {**files, MANIFEST: json.dumps(newer).encode()}
    signed = with_signature(changed, vendor.private, signer="", signed=DATE)
    report = verify(bundle_bytes(signed), vendor).report
    (flaw,) = report.flaws
    assert (flaw.kind, report.exit_code) == (FlawKind.VERSION, 20)
    assert "9.1" in flaw.detail


def test_an_older_journal_names_the_other_version(vendor: Key, files: Files) -> None:
    journal = rewritten(files[JOURNAL], "run_started", to(schema=1))
    data = signed_anew({**files, JOURNAL: journal}, vendor, version="0.1.0")
    (flaw,) = verify(data, vendor).report.flaws
    assert (flaw.kind, flaw.version) == (FlawKind.UNDECIDABLE, "0.1.0")
    assert "verify it with 0.1.0" in flaw_line(flaw)
