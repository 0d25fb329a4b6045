"""Sealed golden runs, and the ways in which somebody may change them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import serialization as pem
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from pytest_anubis.cli.commands.sealing.seal_checking import CheckedSeal, check_seal
from pytest_anubis.core.seal import MANIFEST, FlawKind
from pytest_anubis.store.journal.journal_lines import line_of, parse_line, text_of
from pytest_anubis.store.sealing import manifest_form
from pytest_anubis.store.sealing.acceptance_bundle import bundle_bytes, files_of_bundle
from pytest_anubis.store.sealing.seal_signatures import PublicKey, with_signature
from tests.cli.command_line import anubis
from tests.golden.runs import BASELINES, RUNS

DATE = "2026-05-03T00:00:00+00:00"
Files = dict[str, bytes]
Change = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class Key:
    """A key of ours in files."""

    private: Ed25519PrivateKey
    path: Path
    public: Path

    @property
    def known(self) -> PublicKey:
        raw = self.private.public_key().public_bytes_raw()
        return PublicKey(raw=raw, path=str(self.public))


def write_key(folder: Path, name: str, password: str = "") -> Key:
    """Write the two files of a new key."""
    key = Ed25519PrivateKey.generate()
    how = pem.BestAvailableEncryption(password.encode()) if password else pem.NoEncryption()
    made = Key(key, folder / f"{name}.pem", folder / f"{name}.pub")
    form = pem.PrivateFormat.PKCS8
    made.path.write_bytes(key.private_bytes(pem.Encoding.PEM, form, how))
    info = pem.PublicFormat.SubjectPublicKeyInfo
    made.public.write_bytes(key.public_key().public_bytes(pem.Encoding.PEM, info))
    return made


def seal(run: str, key: Key, output: Path, *more: str) -> str:
    """Seal a golden run; return what was refused, empty if nothing was."""
    words = (str(RUNS / run), f"--baseline={BASELINES}", f"--key={key.path}", f"-o={output}", *more)
    done = anubis("seal", *words)
    assert done.returncode == (2 if done.stderr else 0), done
    return done.stderr


def verify(data: bytes, *keys: Key) -> CheckedSeal:
    """Verify an archive, trusting these keys."""
    return check_seal(data, [key.known for key in keys])


def flaws(data: bytes, *keys: Key) -> dict[FlawKind, list[str]]:
    """Return the flaws of an archive by kind, each with the name that it is about; none of an intact one."""
    report = verify(data, *keys).report
    found: dict[FlawKind, list[str]] = {}
    for flaw in report.flaws:
        found.setdefault(flaw.kind, []).append(flaw.name)
    assert (report.verdict is None) == bool(found)
    assert not found or report.exit_code == 20
    return found


def content(data: bytes) -> Files:
    """Return the files of an archive without its signatures."""
    files, odd = files_of_bundle(data)
    assert not odd
    return {name: one for name, one in files.items() if not name.startswith("signatures/")}


def signed_anew(files: Mapping[str, bytes], key: Key, **manifest: Any) -> bytes:
    """Return an archive of changed files with a fresh manifest, signed by the holder of the key."""
    known = manifest_form.manifest_of(files[MANIFEST])
    fresh = dataclasses.replace(known, files=manifest_form.listed_files(files), **manifest)
    changed = {**files, MANIFEST: manifest_form.text_of(fresh)}
    return bundle_bytes(with_signature(changed, key.private, signer="", signed=DATE))


def rewritten(journal: bytes, event: str, change: Change) -> bytes:
    """Return a journal with some events changed, whose numbers and checksums are right."""
    lines = journal.splitlines(keepends=True)
    for number, plain in enumerate(events_of(journal)):
        if plain["event"] == event:
            change(plain)
            lines[number] = line_of(text_of(plain), number + 1)
    return b"".join(lines)


def to(**fields: Any) -> Change:
    """Return the change that gives an event's fields other values."""
    return lambda event: event.update(fields)


def events_of(journal: bytes) -> list[dict[str, Any]]:
    """Return the events of a journal without their numbers, for `journal_of`."""
    events = list(map(parse_line, journal.splitlines(keepends=True)))
    for event in events:
        event.pop("seq", None)
    return events


def journal_of(events: Sequence[dict[str, Any]]) -> bytes:
    return b"".join(line_of(text_of(event), n) for n, event in enumerate(events, start=1))
