"""Nouns of sealed runs (`anubis seal`): manifest, signature, and what verifying a seal finds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from pytest_anubis.core.field_types import Range
from pytest_anubis.core.verdict import Decision, NodeVerdict

FORMAT = "anubis-seal"
SCHEMA = 1

STATEMENT = "anubis-signature-1"

MANIFEST = "manifest.json"
JOURNAL = "journal.jsonl"
BASELINE = "baseline.json"
WAIVERS = "waivers.json"
INVENTORY = "inventory.json"
DOSSIER = "dossier.html"

CONTENTS = (JOURNAL, BASELINE, WAIVERS, INVENTORY, DOSSIER)
"""The files that a manifest may list, in their order; only the baseline may be absent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedFile:
    """A file of a seal as its manifest has it: name, bytes, and SHA-256 in hexadecimal digits."""

    name: str
    size: Annotated[int, Range(least=0)]
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What a seal is about, and all of its files but itself and the signatures."""

    format: str = FORMAT  # `FORMAT`
    schema: int = SCHEMA  # `SCHEMA`
    version: str  # the version of pytest-anubis that sealed
    run: str  # id of the run
    node: str  # its node
    hardware_class: str  # its hardware class
    started: str  # when it began, ISO 8601, UTC
    decision: Decision  # the decision that follows from journal and baseline
    baseline: str  # digest of the baseline; empty if the run had none
    files: tuple[SealedFile, ...]  # the files, in the order of `CONTENTS`


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """What a key signs."""

    format: str = STATEMENT  # `STATEMENT`, so that no other text that the key signed passes as one
    manifest: str  # SHA-256 of the manifest in hexadecimal digits
    public_key: str  # the 32 bytes of the Ed25519 key that signs, in hexadecimal digits
    signer: str  # name that the signer gave; may be empty
    signed: str  # when, by the signer's clock, ISO 8601, UTC


class FlawKind(StrEnum):
    """Kind of what is wrong with a seal."""

    UNREADABLE = "unreadable"
    VERSION = "version"
    CHANGED = "changed"
    UNLISTED = "baseline not listed"
    OTHER_FILES = "other files listed"
    MISSING = "missing"
    ADDED = "added"
    TWICE = "twice"
    REPACKED = "repacked"
    FORGED = "forged"
    PASTED = "pasted"
    UNKNOWN_SIGNER = "unknown signer"
    NOT_SIGNED = "not signed"
    DIFFERS = "differs"
    UNDECIDABLE = "undecidable"
    VERDICT = "verdict"
    DECISION = "decision"


@dataclass(frozen=True, slots=True, kw_only=True)
class Flaw:
    """One thing that is wrong with a seal."""

    kind: FlawKind  # what is wrong
    # The file in the seal, the file of a key, or a key's fingerprint; empty: the seal as a whole
    name: str = ""
    detail: str = ""  # what a reader of the file says of it, or a field or a key; may be empty
    # The decision that the manifest states, and the one that the journal gives, if they differ
    decisions: tuple[Decision, Decision] | None = None
    # The version that sealed, if it is another one and the decision cannot be confirmed
    version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signed:
    """A signature that is valid for the manifest."""

    fingerprint: str  # SHA-256 of the public key (DER), in hexadecimal digits
    statement: Statement  # what was signed
    # The file of the public key that the verifier named; empty if none of them is this key
    given: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SealReport:
    """What verifying a seal found."""

    manifest: Manifest | None = None  # the manifest; None if it cannot be read
    signatures: tuple[Signed, ...] = ()  # the valid signatures, in the order of their fingerprints
    flaws: tuple[Flaw, ...] = ()  # what is wrong; empty if the seal is intact
    # The decision from journal and baseline; None if the seal is not intact
    verdict: NodeVerdict | None = None
    # Whether the dossier was made again and compared, as only the same version can
    compared: bool = False

    @property
    def exit_code(self) -> int:
        """0 intact and accepted, 1 intact and rejected, 20 anything else."""
        if self.flaws or self.verdict is None:
            return Decision.UNDECIDED.exit_code
        return self.verdict.decision.exit_code
