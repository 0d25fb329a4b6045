"""``anubis seal``: keys, a second signature, and what cannot be sealed."""

from __future__ import annotations

import fcntl
import json
import shutil
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import pytest

from pytest_anubis.cli.commands.seal_command import PASSWORD
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.seal import JOURNAL
from pytest_anubis.report.text.seal_text import cycle_lines
from tests.cli.command_line import anubis
from tests.cli.commands.sealed_runs import Key, content, flaws, seal, verify, write_key
from tests.golden.runs import BASELINES, RUNS

RUN = str(RUNS / "slow-card")
BASELINE = f"--baseline={BASELINES}"


@pytest.fixture
def ours(here: Path) -> Key:
    return write_key(here, "ours")


@pytest.fixture
def sealed(here: Path, ours: Key) -> Path:
    path = here / "sealed.zip"
    assert seal("slow-card", ours, path) == ""
    return path


def refused(*words: str) -> str:
    """Return the line with which a command refuses."""
    done = anubis("seal", *words)
    assert (done.returncode, done.stdout) == (2, ""), done
    (line,) = done.stderr.splitlines()
    return line


def test_both_sides_sign_the_same_manifest(here: Path, ours: Key, sealed: Path) -> None:
    theirs = write_key(here, "theirs")
    adds = ("--add-signature=sealed.zip", f"--key={theirs.path}", "--signer=ACME")
    before = sealed.read_bytes()
    done = anubis("seal", *adds, "-o=both.zip", "--json=-")
    assert (done.returncode, sealed.read_bytes()) == (0, before)
    assert json.loads(done.stdout)["keys"] == sorted(k.known.fingerprint for k in (ours, theirs))
    both = Path("both.zip").read_bytes()
    assert content(both) == content(before)
    report = verify(both, ours, theirs).report
    assert report.exit_code == 1
    names = {one.given: one.statement.signer for one in report.signatures}
    assert names == {str(ours.public): "", str(theirs.public): "ACME"}
    assert anubis("seal", *adds).returncode == 0  # in its own place
    assert flaws(sealed.read_bytes(), ours, theirs) == {}
    assert "has signed it already" in refused(*adds)


def test_no_signature_is_added_to_a_changed_archive(here: Path, ours: Key, sealed: Path) -> None:
    theirs = write_key(here, "theirs")
    changed = sealed.read_bytes().replace(b"79.8", b"99.8")
    sealed.write_bytes(changed)
    assert JOURNAL in refused(f"--add-signature={sealed}", f"--key={theirs.path}")
    assert sealed.read_bytes() == changed


def test_nothing_is_overwritten(sealed: Path, ours: Key) -> None:
    before = sealed.read_bytes()
    for more in ((RUN, BASELINE), (f"--add-signature={sealed}",)):
        assert "exists already" in refused(*more, f"--key={ours.path}", f"-o={sealed}")
    assert sealed.read_bytes() == before


SESAME = "open sesame"


def test_an_encrypted_key_takes_its_password(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = write_key(here, "locked", password=SESAME)
    words = (RUN, BASELINE, f"--key={key.path}", "-o=sealed.zip")
    assert PASSWORD in refused(*words)
    monkeypatch.setenv(PASSWORD, "wrong")
    assert "wrong password" in refused(*words)
    monkeypatch.setenv(PASSWORD, SESAME)
    assert anubis("seal", *words).returncode == 0
    assert verify(Path("sealed.zip").read_bytes(), key).report.exit_code == 1


def test_a_terminal_is_asked_for_the_password(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = write_key(here, "locked", password=SESAME)
    monkeypatch.setattr(sys, "stdin", Namespace(isatty=lambda: True))
    monkeypatch.setattr("getpass.getpass", lambda prompt, stream: SESAME)
    assert anubis("seal", RUN, BASELINE, f"--key={key.path}", "-o=sealed.zip").returncode == 0


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
def test_keys_of_openssl_sign(here: Path) -> None:
    for command in (
        "openssl genpkey -algorithm ed25519 -out key.pem",
        "openssl pkey -in key.pem -pubout -out pub.pem",
    ):
        subprocess.run(command.split(), check=True, capture_output=True)
    assert anubis("seal", RUN, BASELINE, "--key=key.pem", "-o=s.zip").returncode == 0
    assert anubis("verify", "s.zip", "--key=pub.pem").returncode == 1


def test_what_is_no_such_key_is_refused(here: Path, ours: Key, sealed: Path) -> None:
    from cryptography.hazmat.primitives import serialization as pem
    from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key

    other = generate_private_key(SECP256R1())
    form = (pem.Encoding.PEM, pem.PrivateFormat.PKCS8, pem.NoEncryption())
    Path("other.pem").write_bytes(other.private_bytes(*form))
    info = pem.PublicFormat.SubjectPublicKeyInfo
    Path("other.pub").write_bytes(other.public_key().public_bytes(pem.Encoding.PEM, info))
    Path("text").write_text("no key")
    Path("broken").write_text("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")
    for name in ("other.pem", "text", "broken", "none", str(ours.public)):
        assert name in refused(RUN, BASELINE, f"--key={name}", "-o=out.zip")
    for name in ("other.pub", "text", "none", str(ours.path)):
        done = anubis("verify", str(sealed), f"--key={name}")
        assert (done.returncode, done.stdout) == (2, "")
        assert name in done.stderr
    assert not Path("out.zip").exists()


def test_a_missing_package_is_named(
    sealed: Path, ours: Key, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [one for one in sys.modules if one.partition(".")[0] == "cryptography"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "cryptography", None)
    assert "pytest-anubis[seal]" in refused(RUN, BASELINE, f"--key={ours.path}", "-o=out.zip")
    done = anubis("verify", str(sealed), f"--key={ours.public}")
    assert done.returncode == 2
    assert "pytest-anubis[seal]" in done.stderr


# Runs that can be sealed, and runs that cannot


def test_a_run_out_of_a_history_is_sealed(here: Path, ours: Key) -> None:
    shutil.copytree(RUNS / "slow-card", here / "store" / "runs" / "slow-card")
    assert anubis("push", "store", "--history=sqlite:///fleet.sqlite").returncode in (0, 1)
    for number, place in enumerate(("sqlite:///fleet.sqlite", "store")):
        words = ("slow-card", BASELINE, f"--key={ours.path}", f"-o={number}.zip")
        more = (f"--history={place}",) if "://" in place else (f"--store={place}",)
        done = anubis("seal", *words, *more)
        assert done.returncode == 0, done.stderr
        kept = content(Path(f"{number}.zip").read_bytes())
        assert kept[JOURNAL] == (RUNS / "slow-card" / "journal.jsonl").read_bytes()
    assert "no run" in refused(
        "none", "--history=sqlite:///fleet.sqlite", f"--key={ours.path}", "-o=x.zip"
    )


def test_what_cannot_be_sealed_is_refused(here: Path, ours: Key) -> None:
    key = (f"--key={ours.path}", "-o=out.zip")
    Path("t.csv").write_text("node,benchmark,metric,unit,better,value\nn1,b,m,s,lower,1\n")
    assert "only measured" in refused(str(RUNS / "measured"), BASELINE, *key)
    assert "one run" in refused("t.csv", *key)
    assert "one run" in refused(str(RUNS), *key)
    assert "no such run" in refused("nowhere", *key)
    assert "--baseline" in refused(RUN, *key)
    Path("other").mkdir()
    other = next(path for path in BASELINES.glob("8x-*.json"))
    milder = other.read_text().replace('"alpha": 0.95', '"alpha": 0.9')
    Path("other", other.name).write_text(milder)
    assert anubis("baseline", "promote", f"other/{other.name}", "--to=used").returncode == 0
    assert "judged the run" in refused(RUN, "--baseline=used", *key)
    assert not Path("out.zip").exists()


def test_a_run_that_goes_on_is_not_sealed(here: Path, ours: Key) -> None:
    shutil.copytree(RUN, here / "run")
    with (here / "run" / "journal.jsonl").open("ab") as journal:
        fcntl.flock(journal, fcntl.LOCK_EX)
        assert "goes on" in refused("run", BASELINE, f"--key={ours.path}", "-o=out.zip")


def test_a_cycle_of_a_soak_names_its_soak() -> None:
    (line,) = cycle_lines(RunRecord(run="soak-1-00002", node="n", campaign="soak-1"))
    assert "soak-1" in line
    assert cycle_lines(RunRecord(run="r", node="n")) == []
