"""``anubis trace``: a script is recorded unchanged, and what a trace holds is shown."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from pytest_anubis.traces.chakra_writing import chakra_messages
from pytest_anubis.traces.trace_reading import read_trace
from tests.cli.command_line import anubis
from tests.forked import POPEN
from tests.traces.made_traces import node, tensor, two_products, write

SCRIPT = """
import sys, torch
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for number in range(int(sys.argv[1])):
    optimizer.zero_grad()
    model(torch.ones(3, 4)).sum().backward()
    optimizer.step()
open("steps", "w").write(str(number + 1))
"""

pytestmark = pytest.mark.usefixtures("quick_processes")


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return path


def test_a_script_is_recorded_and_ended_when_its_steps_are_there(script: Path) -> None:
    for steps in (1, 2):
        given = ("-o", f"{steps}.trace.json.gz", f"--steps={steps}", "--", str(script), "99")
        result = anubis("trace", "record", *given)
        assert result.returncode == 0, result.stderr
    assert not (script.parent / "steps").exists()
    once, twice = (read_trace(script.parent / f"{steps}.trace.json.gz") for steps in (1, 2))
    products = [
        sum(one.name == "aten::linear" for one in trace.operations) for trace in (once, twice)
    ]
    assert products == [1, 2]


def test_a_module_is_recorded(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "Popen", POPEN)  # as users start it
    (script.parent / "jobs").mkdir()
    script.rename(script.parent / "jobs" / "train.py")
    result = anubis("trace", "record", "-o", "a.trace.json", "--", "-m", "jobs.train", "99")
    assert result.returncode == 0, result.stderr
    assert read_trace(script.parent / "a.trace.json").operations


def test_an_earlier_file_is_no_recorded_trace(
    script: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    write(script.parent, two_products(), "a.trace.json")
    before = (script.parent / "a.trace.json").read_bytes()
    result = anubis("trace", "record", "-o", "a.trace.json", "--", str(script), "1")
    assert result.returncode == 2
    assert "3 are left out" in result.stderr + capfd.readouterr().err
    assert (script.parent / "a.trace.json").read_bytes() == before


@pytest.mark.parametrize(
    ("content", "module", "word"),
    [
        ("import no_such_dependency", "jobs.train", "no_such_dependency"),
        ("", "jobs", "no module jobs that can be run"),
        ("import sys; assert sys.argv[1:] == ['99'], sys.argv", "jobs.train", ""),
    ],
    ids=["a dependency is missing", "a package without main", "arguments of the job"],
)
def test_a_package_sees_what_python_shows_it(
    script: Path, content: str, module: str, word: str, capfd: pytest.CaptureFixture[str]
) -> None:
    (script.parent / "jobs").mkdir()
    script.rename(script.parent / "jobs" / "train.py")
    (script.parent / "jobs" / "__init__.py").write_text(content)
    result = anubis("trace", "record", "-o", "a.trace.json", "--", "-m", module, "99")
    assert result.returncode == (2 if word else 0)
    assert word in result.stderr + capfd.readouterr().err


@pytest.mark.parametrize(
    ("content", "arguments", "word"),
    [
        (SCRIPT, ["2"], "3 are left out"),
        ("print(1)", [], "no optimizer"),
        (SCRIPT + "sys.exit(0)", ["3"], "3 are left out"),
        ("1 / 0", [], "ZeroDivisionError"),
        (None, ["other_module"], "no module other_module"),
        (None, [], "give the module"),
    ],
    ids=["too few", "no optimizer", "ends early", "fails", "no module", "module not named"],
)
def test_without_enough_steps_there_is_no_file(
    script: Path,
    content: str | None,
    arguments: list[str],
    word: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    script.write_text(content or SCRIPT)
    what = str(script) if content else "-m"
    result = anubis("trace", "record", "-o", "a.trace.json", "--", what, *arguments)
    assert result.returncode == 2
    assert word in result.stderr + capfd.readouterr().err
    assert [
        one.name for one in script.parent.iterdir() if one.name not in ("train.py", "steps")
    ] == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["record", "-o", "a.json", "--", "train.py"],
        ["record", "-o", "a.trace.json", "--steps=0", "--", "train.py"],
        ["record", "-o", "a.trace.json", "--", "missing.py"],
        ["info", "missing.trace.json"],
        ["info", "train.py"],
        ["obfuscate", "train.py", "-o", "b.trace.json"],
        ["obfuscate", "missing.trace.json", "-o", "b.trace.json"],
        ["obfuscate", "train.py", "-o", "b.json"],
        ["export", "train.py", "-o", "b.et"],
        ["export", "missing.trace.json", "-o", "b.trace.json"],
    ],
)
def test_wrong_usage_is_one_line(script: Path, arguments: list[str]) -> None:
    result = anubis("trace", *arguments)
    assert (result.returncode, len(result.stderr.splitlines())) == (2, 1)
    assert [one.name for one in script.parent.iterdir()] == ["train.py"]


def test_info_counts_by_kind_and_names_what_cannot_be_replayed(tmp_path: Path) -> None:
    data = two_products()
    data["nodes"].append(node(5, "mine::op", "mine::op(Tensor a) -> Tensor", parent=2))
    result = anubis("trace", "info", str(write(tmp_path, data)), "--json=-")
    found = json.loads(result.stdout)
    assert found["kinds"] == {"matrix": 2}
    assert found["not_replayable"] == {"mine::op": 1}
    assert found["bytes"] == 2 * 8 * 8 * 4
    shown = anubis("trace", "info", str(tmp_path / "job.trace.json"))
    assert "mine::op" in shown.stdout


def test_info_tries_what_the_tables_allow(tmp_path: Path) -> None:
    data = two_products()
    inputs = data["nodes"][2]["inputs"]
    inputs["values"][0], inputs["shapes"][0], inputs["types"][0] = tensor(11, 8, 9)
    file = str(write(tmp_path, data))
    refused = json.loads(anubis("trace", "info", file, "--json=-").stdout)["refused"]
    assert "node 3" in refused
    assert refused in anubis("trace", "info", file).stdout


def test_a_trace_is_passed_on_without_labels_and_in_chakras_form(tmp_path: Path) -> None:
    path = write(tmp_path, two_products())
    for name in ("shared.trace.json", "shared.trace.json.gz"):
        assert anubis("trace", "obfuscate", str(path), "-o", str(tmp_path / name)).returncode == 0
        shared = read_trace(tmp_path / name)
        assert [one.id for one in shared.nodes if one.schema] == [3, 4]
        assert "my secret module" not in {one.name for one in shared.nodes}
    assert anubis("trace", "export", str(path), "-o", str(tmp_path / "job.et")).returncode == 0
    assert (tmp_path / "job.et").read_bytes() == b"".join(chakra_messages(read_trace(path)))


def test_a_profile_predicts_its_own_trace_and_says_what_it_scaled(tmp_path: Path) -> None:
    known = write(tmp_path, two_products(), "known.trace.json")
    larger = write(tmp_path, two_products(size=64), "larger.trace.json")
    profile = tmp_path / "ops.json"
    result = anubis("trace", "profile", str(known), "-o", str(profile))
    assert result.returncode == 0, result.stderr
    answers = {}
    for path in (known, larger):
        result = anubis("trace", "predict", str(path), f"--profile={profile}", "--json=-")
        answers[path] = json.loads(result.stdout)
    assert (answers[known]["known"], answers[larger]["scaled"]) == (2, 2)
    assert answers[larger]["seconds"] > answers[known]["seconds"] > 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["--profile=known.trace.json"],
        ["--profile=missing.json"],
        ["--profile=ops.json", "--ranks=2"],
        ["--profile=ops.json", "--ranks=0"],
    ],
)
def test_a_wrong_profile_is_one_line(here: Path, arguments: list[str]) -> None:
    write(here, two_products(), "known.trace.json")
    (here / "ops.json").write_text('{"format": "anubis-operations", "device": 3}')
    result = anubis("trace", "predict", "known.trace.json", *arguments)
    assert (result.returncode, len(result.stderr.splitlines())) == (2, 1)


def test_what_writes_a_file_says_where_it_is_in_json(script: Path) -> None:
    path = write(script.parent, two_products())
    record = ("record", "-o", "a.trace.json", "--json=-", "--", str(script), "9")
    outputs = {"obfuscate": "b.trace.json", "export": "b.et", "profile": "ops.json"}
    others = [(word, str(path), "-o", output, "--json=-") for word, output in outputs.items()]
    for arguments in (record, *others):
        found = json.loads(anubis("trace", *arguments).stdout)
        assert Path(found["file"]).exists()
        assert found.get("operations") or found["nodes"]
