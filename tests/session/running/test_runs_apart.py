"""Several runs of one node, judged together: a waiver covers failures of its own run and of earlier ones."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable

import pytest

from pytest_anubis.cli.main import main
from pytest_anubis.cli.shared import collected_judging
from pytest_anubis.report.pages.rendering import block
from pytest_anubis.store import node_standing
from pytest_anubis.store.journal.journal_lines import line_of, parse_line, text_of
from tests.session.conftest import Learn

SUITE = """
import os, pytest

@pytest.mark.anubis(component="cpu.compute", goal="g", question="q", action="check the cooler")
def test_speed(anubis_metric, anubis_device):
    speed = 50.0 if "slow" in os.environ["FAULT"] else 100.0
    anubis_metric.record("speed", [speed] * 20, unit="GFLOP/s", better="higher")
    anubis_metric.record("other", [100.0] * 20, unit="GFLOP/s", better="higher")

def test_right():
    assert "wrong" not in os.environ["FAULT"], "three elements are wrong"
"""
WAIVERS = """
[[waiver]]
owner = "j.doe"
reason = "cooler is ordered"
expires = {expires}
metric = "speed"
[[waiver]]
owner = "j.doe"
reason = "cooler is ordered"
expires = {expires}
metric = "check"
"""


@pytest.fixture
def project(
    pytester: pytest.Pytester, learn: Learn, monkeypatch: pytest.MonkeyPatch
) -> pytest.Pytester:
    """A project with a baseline of two metrics."""
    pytester.makepyfile(test_suite=SUITE)
    learn({"speed": ("GFLOP/s", "higher"), "other": ("GFLOP/s", "higher")})
    monkeypatch.delenv("PYTEST_ANUBIS_WAIVERS", raising=False)
    return pytester


class Runs:
    """Makes runs one after the other, and judges all of them."""

    def __init__(self, project: pytest.Pytester, capsys: pytest.CaptureFixture[str]) -> None:
        self.path, self._project, self._capsys = project.path, project, capsys
        self.runs = project.path / ".anubis" / "runs"

    def make(
        self, monkeypatch: pytest.MonkeyPatch, name: str, fault: str, expires: str = ""
    ) -> int:
        """Run with a fault, and with waivers that expire then; return the exit code."""
        monkeypatch.setenv("FAULT", fault)
        file = self.path / "w.toml"
        file.write_text(WAIVERS.format(expires=expires or "2999-01-01"))
        waived = [f"--anubis-waivers={file}"] if expires else []
        return int(self._project.runpytest("--anubis", f"--anubis-run-id={name}", *waived).ret)

    def tell(self, *words: str) -> tuple[int, str]:
        """Run a command of ``anubis``; return its exit code and what it prints."""
        self._capsys.readouterr()
        code = main([*words, f"--baseline={self.path / 'baselines'}"])
        return code, self._capsys.readouterr().out

    def health(self, node: str) -> int:
        """Return the exit code of ``anubis health``."""
        return main(["health", f"--store={self.runs.parent}", f"--node={node}"])


@pytest.fixture
def runs(project: pytest.Pytester, capsys: pytest.CaptureFixture[str]) -> Runs:
    return Runs(project, capsys)


@pytest.mark.parametrize(("fault", "expired"), [("slow", False), ("wrong", True)])
@pytest.mark.parametrize("order", [("", "2999-01-01"), ("2999-01-01", "")])
def test_a_waived_run_hides_no_failure_of_a_later_run(
    runs: Runs, monkeypatch: pytest.MonkeyPatch, fault: str, order: tuple[str, str], expired: bool
) -> None:
    for name, expires in zip("ab", order, strict=True):
        code = runs.make(monkeypatch, name, fault, expires or ("2020-01-01" if expired else ""))
        assert code == (1 if not expires else 0)
    waived, bare = sorted("ab", key=lambda name: not order["ab".index(name)])
    assert runs.tell("judge", str(runs.runs / waived))[0] == 0
    assert runs.tell("judge", str(runs.runs / bare))[0] == 1
    code, said = runs.tell("judge", str(runs.runs), "--json=-")
    (node,) = json.loads(said)["nodes"]
    covered = waived == "b"  # the waiver came after the failure
    assert (code, node["decision"]) == ((0, "ACCEPTED") if covered else (1, "REJECTED"))
    assert runs.health(node["node"]) == code
    waivers = str(runs.path / "w.toml")  # of today, for every run
    (runs.path / "w.toml").write_text(WAIVERS.format(expires="2999-01-01"))
    assert runs.tell("judge", str(runs.runs), f"--waivers={waivers}")[0] == 0


def test_a_waiver_that_has_ended_since_covers_nothing(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs.make(monkeypatch, "a", "slow")
    runs.make(monkeypatch, "b", "slow", "2999-01-01")
    assert runs.tell("judge", str(runs.runs))[0] == 0
    monkeypatch.setattr(collected_judging, "today", lambda: "2999-01-02")
    assert runs.tell("judge", str(runs.runs))[0] == 1
    assert runs.tell("judge", str(runs.runs / "b"))[0] == 1


def test_reports_and_history_show_it_too(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    runs.make(monkeypatch, "b", "slow", "2999-01-01")
    runs.make(monkeypatch, "a", "slow")
    _, said = runs.tell("judge", str(runs.runs), "--json=-")
    node = json.loads(said)["nodes"][0]["node"]
    _, said = runs.tell("report", str(runs.runs), "--node", node, "--json=-")
    page = json.loads(said)
    assert page["node_verdict"]["decision"] == "REJECTED"
    assert [v["run"] for v in page["waived"]] == ["b"]
    assert sorted(v["run"] for v in page["verdicts"] if v["outcome"] == "FAIL") == ["a"]
    history = str(runs.path / "all")
    assert main(["push", str(runs.runs), "--history", history]) == 0
    code, said = runs.tell("judge", "--history", history, "--json=-")
    assert (code, json.loads(said)["nodes"][0]["decision"]) == (1, "REJECTED")
    site = runs.path / "site"
    assert runs.tell("report", "--fleet", str(runs.runs), f"--html={site}")[0] == 0
    assert block("badge", "REJECTED") in (site / "index.html").read_text()


def test_old_run_rejects_until_a_later_pass(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    assert runs.make(monkeypatch, "before", "slow") == 1
    assert "in run" not in runs.tell("judge", str(runs.runs))[1]  # there is but one
    assert runs.make(monkeypatch, "after", "none") == 0
    code, said = runs.tell("judge", str(runs.runs), "-v")
    assert code == 0
    assert re.search(r"; in run before of \d{4}-\d\d-\d\d \d\d:\d\d; passed in run after of", said)
    node = json.loads(runs.tell("judge", str(runs.runs), "--json=-")[1])["nodes"][0]["node"]
    page = runs.path / "page.html"
    runs.tell("report", str(runs.runs), "--node", node, f"--html={page}")
    assert "in run before of" in page.read_text()
    assert runs.make(monkeypatch, "worse", "slow") == 1
    code, said = runs.tell("judge", str(runs.runs), "-v")
    assert code == 1
    found = {
        run: set(
            re.findall(
                rf"^ +(?:seen, does not block: )?(FAIL|ANSWERED) .*; in run {run} of", said, re.M
            )
        )
        for run in ("before", "worse")
    }
    assert found == {"before": {"ANSWERED"}, "worse": {"FAIL"}}  # "after" passed the first


def test_a_check_of_an_old_run_that_failed_names_it(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs.make(monkeypatch, "before", "wrong")
    runs.make(monkeypatch, "after", "none")
    code, said = runs.tell("judge", str(runs.runs), "-v")
    assert code == 0  # the later run passed it
    assert "three elements are wrong" in said
    assert "in run before of" in said


def test_a_run_that_was_resumed_after_a_backup(
    runs: Runs, project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.makeconftest(
        "import os, pytest\n"
        "def pytest_runtest_setup(item):\n"
        "    if 'stop' in os.environ['FAULT'] and 'right' in item.nodeid:\n"
        "        pytest.exit('enough', returncode=2)\n"
    )
    monkeypatch.setenv("FAULT", "stop")
    assert project.runpytest_subprocess("--anubis", "--anubis-run-id=only").ret == 2
    (kept,) = (runs.path / ".anubis/nodes").glob("*.json")
    before = kept.read_text()
    monkeypatch.setenv("FAULT", "wrong")

    assert project.runpytest("--anubis", "--anubis-resume=only").ret == 1
    kept.write_text(before)
    monkeypatch.setattr(node_standing, "_MAX_CLOSING", 0.0)  # it was resumed within a second
    assert runs.health(kept.stem) == 1


def of_another_version(journal: bytes) -> bytes:
    """Return a journal as a later version may write it."""
    first, _, rest = journal.partition(b"\n")
    event = parse_line(first)
    number = event.pop("seq")
    return line_of(text_of(event | {"schema": 999}), number) + rest


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "cut": lambda text: text[:60],
    "nulls": lambda text: bytes(len(text)),
    "flipped": lambda text: text[:40] + b"X" + text[41:],
    "another version": of_another_version,
}


@pytest.mark.parametrize(
    ("lost", "code"), [((), 20), (("nodes/*",), 1), (("nodes/*", "history*"), 20)]
)
def test_a_run_whose_journal_cannot_be_read(
    runs: Runs, monkeypatch: pytest.MonkeyPatch, lost: tuple[str, ...], code: int
) -> None:
    """It may have rejected the node, so the node is undecided until a later run."""
    assert runs.make(monkeypatch, "good", "none") == 0
    (kept,) = (runs.path / ".anubis/nodes").glob("*.json")
    before = kept.read_text()
    assert runs.make(monkeypatch, "bad", "slow") == 1
    kept.write_text(before)
    for path in [one for pattern in lost for one in kept.parents[1].glob(pattern)]:
        path.unlink()
    journal = runs.runs / "bad" / "journal.jsonl"
    whole = journal.read_bytes()
    shutil.copytree(runs.runs.parent, runs.path / "before")
    for name, damage in list(DAMAGES.items())[: 1 if lost else None]:
        shutil.rmtree(runs.runs.parent)
        shutil.copytree(runs.path / "before", runs.runs.parent)
        journal.write_bytes(damage(whole))
        assert runs.health(kept.stem) == code, name
        assert runs.make(monkeypatch, "later", "none") == 0
        assert runs.health(kept.stem) == 0, name
