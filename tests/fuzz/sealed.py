"""Verify healthy and mutated seals: no change passes, and no change signed by the key's holder crashes."""

from __future__ import annotations

import random
from pathlib import Path

from cryptography.hazmat.primitives import serialization as pem
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from pytest_anubis.cli.commands.sealing.sealed_decision import decided, journal_record
from pytest_anubis.codec import CodecError
from pytest_anubis.core.seal import BASELINE, JOURNAL, MANIFEST, Manifest
from pytest_anubis.core.verdict import Decision
from pytest_anubis.store.baselines.baseline_files import find_baseline
from pytest_anubis.store.sealing.acceptance_bundle import bundle_bytes, files_of_bundle
from pytest_anubis.store.sealing.manifest_form import (
    NewerSealError,
    listed_files,
    manifest_of,
    text_of,
)
from pytest_anubis.store.sealing.seal_signatures import with_signature
from tests.fuzz.healthy_files import Seed
from tests.fuzz.outcome import Defect, anubis
from tests.golden.runs import BASELINES, RUNS

_KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
_DATE = "2026-05-03T00:00:00+00:00"


def sealed_runs(scratch: Path) -> list[Seed]:
    """Return the seals of an accepted and a rejected run, the same bytes each time."""
    return [Seed(name=f"{run}.zip", content=_sealed(run)) for run in ("accepted", "slow-card")]


def _sealed(run: str) -> bytes:
    journal = (RUNS / run / "journal.jsonl").read_bytes()
    record = journal_record(journal, run)
    path = find_baseline(BASELINES, record.hardware_class)
    assert path is not None
    files = {JOURNAL: journal, BASELINE: path.read_bytes()}
    found = decided(record, files[BASELINE])
    files |= found.derived()
    names = ("run", "node", "hardware_class", "started", "baseline")
    manifest = Manifest(
        version="0",  # so that its page is not compared
        decision=found.verdict.decision,
        files=listed_files(files),
        **{name: getattr(record, name) for name in names},
    )
    return _signed({**files, MANIFEST: text_of(manifest)})


def _signed(files: dict[str, bytes]) -> bytes:
    return bundle_bytes(with_signature(files, _KEY, signer="", signed=_DATE))


def read_mutated_seal(seed: Seed, path: Path, damaged: bool, rng: random.Random) -> None:
    """Verify a seal as it is, and again as its signer would have signed it."""
    key = path.with_name("key.pub")
    form = (pem.Encoding.PEM, pem.PublicFormat.SubjectPublicKeyInfo)
    key.write_bytes(_KEY.public_key().public_bytes(*form))
    content = path.read_bytes()
    words = ("verify", str(path), f"--key={key}", "--json=-")
    answer = anubis(*words, document=True)
    if content == seed.content:
        if answer.decision is Decision.UNDECIDED:
            raise AssertionError(f"a healthy seal is refused: {answer.text}")
        return
    if answer.code != Decision.UNDECIDED.exit_code:
        raise Defect(f"a changed seal ends with {answer.code}")
    files, _ = files_of_bundle(content)
    files = {name: one for name, one in files.items() if not name.startswith("signatures/")}
    try:
        known = manifest_of(files.get(MANIFEST, b""))
    except (CodecError, NewerSealError):
        return
    fields = {name: getattr(known, name) for name in Manifest.__dataclass_fields__}
    fresh = Manifest(**fields | {"files": listed_files(files)})
    path.write_bytes(_signed({**files, MANIFEST: text_of(fresh)}))
    anubis(*words, document=True)
    anubis(*words[:-1], "-v")
