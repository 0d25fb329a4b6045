"""The command ``anubis`` as its users type it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_anubis.cli.main import COMMANDS, main
from tests.cli.command_line import anubis
from tests.forked import Quick
from tests.quiet import OPTIONS

SUITE = """
import itertools, pytest

count = itertools.count()

@pytest.mark.anubis(component="cpu.compute", goal="full speed", question="is it fast?", action="look")
def test_speed(anubis_metric):
    anubis_metric.record("speed", [100 + 0.1 * (i % 7) for i in range(20)], unit="GFLOP/s",
                         better="higher")
"""


IN_PROCESS = "--pytest-args=--anubis-in-process"


def write_suite(folder: Path) -> None:
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_suite.py").write_text(SUITE)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick_processes: None) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTEST_ADDOPTS", OPTIONS)
    write_suite(tmp_path)
    yield tmp_path
    sys.modules.pop("test_suite", None)  # `anubis goals` has collected it in this process


@pytest.fixture(scope="module")
def taught(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what three rounds of the suite on this machine taught, learned once."""
    folder = tmp_path_factory.mktemp("taught")
    write_suite(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess, "Popen", Quick)
        patch.chdir(folder)
        patch.setenv("PYTEST_ADDOPTS", OPTIONS)
        learned = anubis("learn", "test_suite.py", "--rounds", "3", IN_PROCESS)
    assert learned.returncode == 0, learned.stdout + learned.stderr
    (folder / "said").write_text(learned.stdout)
    return folder


@pytest.fixture
def learned(here: Path, taught: Path) -> Path:
    """The only baseline here, learned from this machine."""
    shutil.copytree(taught / "baselines", here / "baselines")
    (path,) = (here / "baselines").glob("*.json")
    return path


def pytest_here(*arguments: str) -> subprocess.CompletedProcess[str]:
    process = [*("-p", "no:cacheprovider"), "--anubis-in-process"]
    command = [sys.executable, "-m", "pytest", *process, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_learn_judge_report_history(here: Path, taught: Path, learned: Path) -> None:
    assert "round 3 of 3" in (taught / "said").read_text()
    data = json.loads(learned.read_text())
    (criterion,) = [c for c in data["criteria"] if c["scope"] == "unit"]
    assert criterion["unit"] == "GFLOP/s"
    assert data["one_machine"] is True

    done = pytest_here("--anubis", "test_suite.py", "--html=r.html", "--self-contained-html")
    assert done.returncode == 0, done.stdout
    page = (here / "r.html").read_text()
    assert "ACCEPTED" in page
    assert "&lt;svg" in page

    report = anubis(
        "report", "--html", "page.html", "--json", "run.json", "--prometheus", "anubis.prom"
    )
    assert report.returncode == 0, report.stderr
    gauges = (here / "anubis.prom").read_text()
    assert 'decision="ACCEPTED"} 1.0\n' in gauges
    assert 'decision="REJECTED"} 0.0\n' in gauges
    assert "ACCEPTED" in report.stdout
    assert "<svg" in (here / "page.html").read_text()
    assert json.loads((here / "run.json").read_text())["node_verdict"]["decision"] == "ACCEPTED"

    history = anubis("history")
    assert history.returncode == 0, history.stderr
    assert "ACCEPTED" in history.stdout
    goals = anubis("goals", "test_suite.py")
    assert "is it fast?" in goals.stdout
    assert "PASS" in goals.stdout
    (here / "test_other.py").write_text("def test_other():\n    pass\n")
    pytest_here("--anubis", "-q", "test_other.py")
    assert (
        anubis("goals", "test_suite.py").stdout == goals.stdout
    )  # the latest run says nothing of it


def test_a_run_that_was_killed_is_still_reported(here: Path) -> None:
    (here / "test_suite.py").write_text(
        SUITE + "\ndef test_killed(anubis_metric):\n    import os\n    os.kill(os.getpid(), 9)\n"
    )
    pytest_here("--anubis", "test_suite.py", "-p", "no:xdist")
    report = anubis("report", "--json", "run.json")
    assert report.returncode == 0, report.stderr
    record = json.loads((here / "run.json").read_text())
    assert record["node_verdict"]["decision"] == "UNDECIDED"
    assert [m["metric"]["name"] for m in record["measurements"]] == ["speed"]
    assert any("test_killed" in v["benchmark"] for v in record["verdicts"])


def test_runs_of_many_nodes_are_learned_and_judged(here: Path) -> None:
    rows = ["node,device,benchmark,metric,unit,better,value"]
    for node in range(20):
        for device in range(4):
            speed = 80.0 if (node, device) == (7, 2) else 100 + 0.1 * ((node + device) % 5)
            rows.append(f"n{node:02d},cuda:{device},copy,rate,GB/s,higher,{speed}")
    rows.append("n03,cuda:0,copy,rate,GB/s,higher,fast")
    (here / "fleet.csv").write_text("\n".join(rows) + "\n")
    imported = anubis("import", "table", "fleet.csv")
    assert imported.returncode == 1, imported.stderr
    assert "line 82" in imported.stdout  # one value is lost, which the exit code says
    file = ".anubis/imports/fleet.csv.npz"
    assert imported.stdout.endswith(f"next: anubis learn {file}, then anubis judge {file}\n")
    assert anubis("learn", ".anubis/imports", "--error-rate", "none").returncode == 0
    judged = anubis("judge", ".anubis/imports", "--baseline", "baselines", "--json", "out.json")
    assert judged.returncode == 1
    data = json.loads((here / "out.json").read_text())
    decisions = {node["node"]: node["decision"] for node in data["nodes"]}
    assert decisions.pop("n07") == "REJECTED"
    assert decisions.pop("n03") == "UNDECIDED"  # a word is no value
    assert set(decisions.values()) == {"ACCEPTED"}
    bad = [v for v in data["verdicts"] if v["verdict"] == "FAIL" and v["scope"] == "unit"]
    assert [(v["node"], v["device"]) for v in bad] == [("n07", "cuda:2")]


def test_a_baseline_from_list_to_expire(learned: Path) -> None:
    path = learned
    assert path.name in anubis("baseline", "list").stdout
    assert "speed" in anubis("baseline", "show", str(path)).stdout
    same = anubis("baseline", "diff", str(path), str(path)).stdout
    assert "as before" in same
    assert "speed" not in same
    edited = path.with_name("edited.txt")
    edited.write_text(path.read_text().replace('"alpha": 0.95', '"alpha": 0.9'))
    done = anubis("baseline", "promote", str(edited), "--to=used")
    assert "->" not in done.stdout  # nothing is replaced
    assert "edited by hand" in anubis("baseline", "show", "used").stdout
    weaker = anubis("baseline", "diff", str(path), "used").stdout.splitlines()
    [row] = [line for line in weaker if " speed " in line and " unit " in line]
    assert "0.9500 -> 0.9000" in row  # alpha, and not the learned limit
    assert row.rstrip().endswith("%")
    assert "->" in row.rpartition("0.9000")[2]  # what it finds
    for _ in range(2):
        back = anubis("baseline", "promote", str(path), "--to=used").stdout
        again = anubis("baseline", "promote", str(edited), "--to=used").stdout
        assert "0.9000 -> 0.9500" in back
        assert row in again
    assert len(list(Path("used/expired").iterdir())) == 2  # one of each content
    assert "replaced" not in anubis("baseline", "promote", str(edited), "--to=used").stdout
    path.write_text(path.read_text().replace('"alpha": 0.95', '"alpha": 0.9'))
    refused = anubis("baseline", "show", str(path))
    assert refused.returncode == 2
    assert "edited after it was sealed" in refused.stderr
    done = anubis("baseline", "promote", str(path))
    assert done.returncode == 0
    assert "what it was before cannot be shown" in done.stdout
    assert anubis("baseline", "show", str(path)).returncode == 0
    assert anubis("baseline", "expire", str(path)).returncode == 0
    assert not path.exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["learn", "nowhere"], "no such file or folder"),
        (["learn", "test_suite.py", "--rounds", "0"], "at least 3"),
        (["learn", "test_suite.py", "--alpha", "2"], "between 0 and 1"),
        (["report", "no-such-run"], "no such run"),
        (
            ["judge", "nowhere", "--baseline", "nowhere"],
            "--baseline nowhere: no such file or folder",
        ),
        (["report", "--baseline", "nowhere"], "--baseline nowhere: no such file or folder"),
        (["doctor", "--baseline", "nowhere"], "--baseline nowhere: no such file or folder"),
        (["baseline", "backtest", "x", "--baseline", "y"], "--new FILE: name the new baseline"),
        (["baseline", "backtest", "x", "--new", "y"], "y: cannot be read"),
        (["goals", "nowhere"], "not found"),
        (["import", "table", "nowhere.csv"], "nowhere.csv"),
        (["baseline", "show", "nowhere.json"], "nowhere.json"),
        (["doctor", "--inventory", "nowhere.json"], "nowhere.json"),
    ],
)
def test_wrong_input_is_one_line(
    here: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert words in error
    assert "Traceback" not in error


def test_doctor_names_an_unusable_baseline(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from pytest_anubis.hardware.inventory.hardware_classes import hardware_class
    from pytest_anubis.hardware.inventory.inventory_reading import read_inventory
    from pytest_anubis.store.baselines.baseline_files import baseline_file_name

    (here / "baselines").mkdir()
    name = baseline_file_name(hardware_class(read_inventory(), "smoke")[0])
    (here / "baselines" / name).write_text("{")
    assert main(["doctor"]) == 0
    printed = capsys.readouterr().out
    assert "hardware class:" in printed
    assert "the baseline cannot be used: " in printed


def test_every_command_starts_as_a_process() -> None:
    processes = {
        command: subprocess.Popen(
            [sys.executable, "-m", "pytest_anubis.cli.main", command, "--help"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for command in COMMANDS
    }
    for command, process in processes.items():
        said, complained = process.communicate(timeout=120)
        assert (process.returncode, complained) == (0, ""), command
        assert said.startswith(f"usage: anubis {command} ")


def test_unreadable_baselines_only_cost_plots(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from pytest_anubis.cli.commands import report_command

    assert pytest_here("--anubis", "test_suite.py").returncode == 20

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied", "baselines")

    monkeypatch.setattr(report_command, "find_baseline", refuse)
    assert main(["report", "--json", "run.json"]) == 0
    assert "plots without criteria" in capsys.readouterr().err
    assert (here / "run.json").is_file()


def test_a_baseline_that_cannot_be_used_is_counted(here: Path) -> None:
    (here / "baselines").mkdir()
    (here / "baselines" / "broken.json").write_text("{")
    (here / "baselines" / "folder.json").mkdir()
    done = anubis("baseline", "list")
    assert done.returncode == 2
    assert "2 of 2 baselines cannot be used" in done.stderr
    assert "Traceback" not in done.stderr
    refused = pytest_here("--anubis", "test_suite.py", "--anubis-baseline=baselines/folder.json")
    assert refused.returncode == 20  # an empty folder of baselines is none


def test_a_folder_in_place_of_the_baseline_is_one_line(learned: Path) -> None:
    path = learned
    path.unlink()
    path.mkdir()
    refused = pytest_here("--anubis", "test_suite.py")
    assert refused.returncode == 4
    (line,) = [line for line in refused.stderr.splitlines() if line.strip()]
    assert path.name in line


def test_an_early_skip_is_an_unanswered_question(here: Path) -> None:
    (here / "test_disk.py").write_text(
        "import pytest\n\n\n"
        "@pytest.mark.anubis(component='storage.disk', goal='disks', question='is it fast?', action='look')\n"
        "def test_disk():\n"
        "    pytest.skip('fio not found: apt install fio')\n"
    )
    pytest_here("--anubis", "-q", "test_disk.py")
    printed = anubis("goals", "test_disk.py").stdout
    assert "0 of 1 questions answered" in printed
    assert "test_disk.py::test_disk [storage.disk]" in printed
    assert "NOT_TESTED: fio not found" in printed


def test_a_proposed_learning_names_its_sources(here: Path) -> None:
    done = pytest_here("--anubis", "test_suite.py::test_speed")
    assert "'anubis learn test_suite.py::test_speed' on machines known to be good" in done.stdout
    assert "'anubis learn .' on machines" in pytest_here("--anubis").stdout
    (here / "baselines").mkdir(exist_ok=True)
    assert "'anubis suites && anubis learn suites/'" in anubis("baseline", "list").stdout
    (here / "suites").mkdir()
    assert "learn one with 'anubis learn suites/'" in anubis("baseline", "list").stdout
