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
    """What a seal is about, and all of its files but itself and the signatures.

    Attributes:
        format: `FORMAT`.
        schema: `SCHEMA`.
        version: The version of pytest-anubis that sealed.
        run: Id of the run.
        node: Its node.
        hardware_class: Its hardware class.
        started: When it began, ISO 8601, UTC.
        decision: The decision that follows from journal and baseline.
        baseline: Digest of the baseline; empty if the run had none.
        files: The files, in the order of `CONTENTS`.
    """

    format: str = FORMAT
    schema: int = SCHEMA
    version: str
    run: str
    node: str
    hardware_class: str
    started: str
    decision: Decision
    baseline: str
    files: tuple[SealedFile, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """What a key signs.

    Attributes:
        manifest: SHA-256 of the manifest in hexadecimal digits.
        public_key: The 32 bytes of the Ed25519 key that signs, in hexadecimal digits.
        signer: Name that the signer gave; may be empty.
        signed: When, by the signer's clock, ISO 8601, UTC.
        format: `STATEMENT`, so that no other text that the key signed passes as one.
    """

    format: str = STATEMENT
    manifest: str
    public_key: str
    signer: str
    signed: str


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
    """One thing that is wrong with a seal.

    Attributes:
        kind: What is wrong.
        name: The file in the seal, the file of a key, or a key's fingerprint; empty: the seal as a whole.
        detail: What a reader of the file says of it, or a field or a key; may be empty.
        decisions: The decision that the manifest states, and the one that the journal gives, if they differ.
        version: The version that sealed, if it is another one and the decision cannot be confirmed.
    """

    kind: FlawKind
    name: str = ""
    detail: str = ""
    decisions: tuple[Decision, Decision] | None = None
    version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signed:
    """A signature that is valid for the manifest.

    Attributes:
        fingerprint: SHA-256 of the public key (DER), in hexadecimal digits.
        statement: What was signed.
        given: The file of the public key that the verifier named; empty if none of them is this key.
    """

    fingerprint: str
    statement: Statement
    given: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SealReport:
    """What verifying a seal found.

    Attributes:
        manifest: The manifest; None if it cannot be read.
        signatures: The valid signatures, in the order of their fingerprints.
        flaws: What is wrong; empty if the seal is intact.
        verdict: The decision from journal and baseline; None if the seal is not intact.
        compared: Whether the dossier was made again and compared, as only the same version can.
    """

    manifest: Manifest | None = None
    signatures: tuple[Signed, ...] = ()
    flaws: tuple[Flaw, ...] = ()
    verdict: NodeVerdict | None = None
    compared: bool = False

    @property
    def exit_code(self) -> int:
        """0 intact and accepted, 1 intact and rejected, 20 anything else."""
        if self.flaws or self.verdict is None:
            return Decision.UNDECIDED.exit_code
        return self.verdict.decision.exit_code
