"""Schedulers get only the requested orders; orders of others are never touched."""

from __future__ import annotations

import io
import json
import ssl
import urllib.error
import urllib.request
from email.message import Message
from pathlib import Path
from typing import Any

import pytest

from pytest_anubis.cli.main import main
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.verdict import Decision, NodeVerdict
from pytest_anubis.fleet.launching import slurm_node
from pytest_anubis.fleet.launching.kubernetes_node import PREFIX
from pytest_anubis.store.node_standing import keep_ended, standing_file

REASON = "ANB:NVLINK-BW gpu3 402 GB/s, expected 439 run=r1"
DRAINED = "NodeName=n1 State=IDLE+DRAIN ThreadsPerCore=1 Reason={} [root@2026-11-22T20:00:00]"
DRAIN = f"update NodeName=n1 State=DRAIN Reason={REASON}"
IDLE = "NodeName=n1 State=IDLE ThreadsPerCore=1"


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for scontrol: shows what ``state`` says, and keeps the orders."""
    program = tmp_path / "bin" / "scontrol"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\ncase "$*" in *show*) cat {tmp_path}/state;; *) echo "$*" >>{tmp_path}/orders;; esac\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    return tmp_path


def health(folder: Path, decision: Decision, *more: str) -> int:
    said = NodeVerdict(node="n1", decision=decision, headline="")
    # What is left of an earlier case would stand: a rejection falls by itself never.
    standing_file(folder, "n1").unlink(missing_ok=True)
    done = RunRecord(run="r1", node="n1", node_verdict=said)
    keep_ended(folder, done, ended=2e9, reason=REASON)
    return main(["health", "--node", "n1", "--store", str(folder), *more])


@pytest.mark.parametrize(
    ("state", "decision", "how", "done"),
    [
        (IDLE, Decision.REJECTED, "drain", DRAIN),
        (DRAINED.format("bad DIMM, ask Kim"), Decision.REJECTED, "drain", ""),
        (DRAINED.format(REASON), Decision.REJECTED, "drain", ""),
        (DRAINED.format("ANB:OLD x"), Decision.REJECTED, "drain", DRAIN),
        (IDLE, Decision.UNDECIDED, "drain", ""),
        (IDLE, Decision.REJECTED, "", ""),
    ],
)  # fmt: skip
def test_slurm_is_told(state: str, decision: Decision, how: str, done: str, slurm: Path) -> None:
    (slurm / "state").write_text(state)
    code = health(slurm, decision, *([f"--act={how}"] if how else []))
    assert code == decision.exit_code
    found = slurm / "orders"
    assert (found.read_text().strip() if found.exists() else "") == done


def test_slurm_resumes_only_what_was_drained_here(slurm: Path) -> None:
    for reason, done in (("bad DIMM, ask Kim", ""), (REASON, "resumed")):
        (slurm / "state").write_text(DRAINED.format(reason))
        assert slurm_node.act("n1", Decision.ACCEPTED, "", resume=False, began=2e9) == ""
        assert slurm_node.act("n1", Decision.ACCEPTED, "", resume=True, began=2e9) == done
    assert (slurm / "orders").read_text() == "update NodeName=n1 State=RESUME\n"


@pytest.mark.parametrize("when", ["2026-11-22T20:00:00", "Sun Nov 22", ""])
def test_an_acceptance_from_before_the_drain_resumes_nothing(slurm: Path, when: str) -> None:
    shown = DRAINED.format(REASON).replace("2026-11-22T20:00:00", when)
    (slurm / "state").write_text(shown)
    done = slurm_node.act("n1", Decision.ACCEPTED, "", resume=True, began=1.7e9)
    assert done.startswith("left drained")
    assert not (slurm / "orders").exists()


def test_a_slurm_that_knows_no_such_node_is_an_error(slurm: Path) -> None:
    (slurm / "state").write_text("")
    with pytest.raises(slurm_node.SlurmError, match="says nothing about node n1"):
        slurm_node.read_node("n1")


def test_a_slurm_that_does_not_answer_is_one_line(
    slurm: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(slurm_node, "TIMEOUT", 0.2)
    (slurm / "bin" / "scontrol").write_text("#!/bin/sh\nexec sleep 20\n")
    assert health(slurm, Decision.REJECTED, "--act=drain") == 2
    printed = capsys.readouterr()
    assert printed.out.strip() == REASON
    assert printed.err == "anubis health: --act drain: scontrol did not answer within 0.2 s\n"


def test_kubernetes_is_told_with_the_pods_own_account(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls: list[tuple[str, str, str, Any]] = []
    refused: list[int] = []

    def answer(request: urllib.request.Request, **_: Any) -> io.BytesIO:
        if refused:
            raise urllib.error.HTTPError(request.full_url, refused[0], "", Message(), None)
        body = json.loads(request.data) if isinstance(request.data, bytes) else None
        assert request.get_header("Authorization") == "Bearer secret"
        kind = str(request.get_header("Content-type"))
        calls.append((request.get_method(), request.full_url, kind, body))
        return io.BytesIO(b"{}")

    (tmp_path / "token").write_text("secret\n")
    monkeypatch.setattr(ssl, "create_default_context", lambda **_: None)
    monkeypatch.setattr(urllib.request, "urlopen", answer)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setattr("pytest_anubis.cli.commands.health_command.ACCOUNT", tmp_path)
    assert health(tmp_path, Decision.REJECTED, "--act=label") == 1
    node = "https://10.0.0.1:443/api/v1/nodes/n1"
    assert [call[:3] for call in calls] == [
        ("GET", node, "application/json"),
        ("PATCH", node, "application/merge-patch+json"),
        ("PATCH", f"{node}/status", "application/strategic-merge-patch+json"),
    ]
    assert calls[1][3]["metadata"]["labels"][f"{PREFIX}/verdict"] == "rejected"
    assert calls[2][3]["status"]["conditions"][0]["reason"] == "NvlinkBw"
    refused.append(403)
    capsys.readouterr()
    assert health(tmp_path, Decision.REJECTED, "--act=label") == 2
    assert "may this service account patch nodes?" in capsys.readouterr().err
