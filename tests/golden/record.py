"""Makes the recordings of this folder. Run it by hand only, from the root of the repository.

    python -m tests.golden.record            # recordings/: runs, baselines, imports, histories
    GOLDEN_WRITE=1 pytest tests/golden       # expected/: what this version says about them

Every number that a toy benchmark records comes from a seed. Times are set to fixed dates afterwards, and the
folder in which this runs is replaced by /recorded. What still differs from one making to the next is how
long tests took and the words of tracebacks.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import random
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.golden.asking import NOW, ask
from tests.golden.cases import ALONE, CASES, CHOSEN, MEASURE, TODAY, Case
from tests.golden.toys import PARTS, write_project

HERE = Path(__file__).parent
RECORDINGS = HERE / "recordings"
EIGHT = HERE.parent / "data" / "recorded_8gpu.json"
TOOLS = HERE.parent / "store" / "data"
ROOT = "/recorded"
FIRST = dt.datetime(2026, 5, 1, 8, 0, tzinfo=dt.UTC)
"""When the first run began; each further one begins an hour later."""


class Workshop:
    """A temporary folder in which runs are made.

    Args:
        folder: An empty folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.count = 0
        self.wrong: list[str] = []

    def pytest(self, project: Path, *arguments: str, env: Mapping[str, str] | None = None) -> int:
        """Run pytest in a project; return its exit code."""
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
        done = subprocess.run(
            command, cwd=project, env=_environment(env), capture_output=True, text=True, check=False
        )
        (project / "said.txt").write_text(done.stdout + done.stderr)
        return done.returncode

    def take(self, journal: Path, name: str, edit: Callable[[str], str] | None = None) -> None:
        """Put a journal among the recordings, with fixed times and without this machine's folders."""
        text = retimed(journal.read_text(), FIRST + dt.timedelta(hours=self.count))
        self.count += 1
        for folder, word in (
            (self.folder, ROOT),
            (HERE.parents[1], f"{ROOT}/pytest-anubis"),
            (Path(pytest.__file__).parents[1], f"{ROOT}/site-packages"),
        ):
            text = text.replace(str(folder), word)
        text = re.sub(r"/tmp/anubis-[a-z0-9_]+", f"{ROOT}/certify", text)  # noqa: S108
        assert f'"{os.uname().nodename}"' not in text, f"{name}: names this machine"
        target = RECORDINGS / "store" / "runs" / name / "journal.jsonl"
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("w", newline="") as out:
            out.write(edit(text) if edit else text)

    def check(self, case: Case, code: int, wanted: int, project: Path) -> None:
        """Say that a run ended otherwise than it should."""
        if code != wanted:
            said = (project / "said.txt").read_text()
            self.wrong.append(f"{case.name}: exit code {code}, not {wanted}\n{said}")
            sys.stdout.write(self.wrong[-1] + "\n")

    def record(self, case: Case) -> None:
        """Make one run."""
        project = self.folder / case.name
        write_project(project, toy=case.toy, plan=case.plan, conftest=case.conftest)
        shutil.copy(RECORDINGS / "inventories" / f"{case.node}.json", project / "node.json")
        if case.baselines:
            shutil.copytree(RECORDINGS / case.baselines, project / "baselines")
        if case.before is not None:
            case.before(project)
        usual = ("--anubis", "--anubis-inventory=node.json", case.toy)
        first = (*usual, *case.args, f"--anubis-run-id={case.name}")
        code = self.pytest(project, *first, env=case.env)
        self.check(case, code, case.code, project)
        for plan, arguments, wanted in case.again:
            (project / "plan.json").write_text(json.dumps(plan))
            code = self.pytest(project, *usual, *arguments, env=case.env)
            self.check(case, code, wanted, project)
        journal = project / ".anubis" / "runs" / case.name / "journal.jsonl"
        self.take(journal, case.name, case.after)
        sys.stdout.write(f"{case.name}: {code}\n")
        sys.stdout.flush()


def _environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    dropped = ("PYTEST_", "CUDA_VISIBLE", "HIP_VISIBLE", "ZE_AFFINITY")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(dropped)}
    root = str(Path(__file__).parents[2])
    return kept | {"PYTHONPATH": root, "COLUMNS": "120"} | dict(more or {})


def retimed(text: str, begin: dt.datetime) -> str:
    """Give every event of a journal a time counted from `begin`, a hundredth of a second apart."""
    lines = []
    for number, line in enumerate(text.splitlines(keepends=True)):
        if line.endswith("\n"):
            event = json.loads(line)
            now = begin + dt.timedelta(seconds=number / 100)
            event["at"] = round(now.timestamp(), 3)
            for key in ("started", "ended"):
                if key in event:
                    event[key] = now.isoformat(timespec="milliseconds")
            line = json.dumps(event, separators=(",", ":")) + "\n"
        lines.append(line)
    return "".join(lines)


# Inventories


def inventories() -> None:
    """Write the recorded nodes: two hosts without accelerators, one with eight, one with two."""
    folder = RECORDINGS / "inventories"
    folder.mkdir(parents=True, exist_ok=True)
    eight = json.loads(EIGHT.read_text())
    eight["readings"] = eight["readings"][:2]
    for reading in eight["readings"]:  # a counter for each of 144 links says nothing more than one
        for counters in reading["counters"].values():
            for name in [name for name in counters if re.search(r"NVLink [1-9]", name)]:
                del counters[name]
    eight["inventory"]["node"] = "eight"
    _write(folder / "eight.json", eight)
    two = json.loads(json.dumps(eight))
    two["inventory"]["node"] = "two"
    for key in ("accelerators", "on_bus"):
        two["inventory"][key] = two["inventory"][key][:2]
    _write(folder / "two.json", two)
    for name in ("lab-a", "lab-b"):
        host = json.loads(json.dumps(eight))
        host["inventory"] |= {"node": name, "accelerators": [], "on_bus": [], "nics": []}
        host["inventory"]["disks"] = host["inventory"]["disks"][:1]
        host["inventory"]["processor"] |= {"model": "Lab CPU", "vendor": "Lab", "cores": 8}
        host["inventory"]["processor"] |= {"threads": 16, "usable": 16, "sockets": 1}
        host["inventory"]["memory"]["total"] = 64 << 30
        host["inventory"]["drivers"] = {}
        host["readings"] = []
        _write(folder / f"{name}.json", host)


def _write(path: Path, data: Any) -> None:
    path.write_text(json.dumps(data, indent=1) + "\n")


# Baselines


def learned(shop: Workshop) -> None:
    """Run ``anubis learn`` on the toys, rename its runs, and learn from them again at a fixed time."""
    project = shop.folder / "learn"
    write_project(project, plan={"round": "count"})
    shutil.copy(RECORDINGS / "inventories" / "lab-a.json", project / "node.json")
    command = [sys.executable, "-m", "pytest_anubis.cli.main", "learn", "toy.py", "--rounds", "5"]
    command.append("--pytest-args=--anubis-inventory=node.json -p no:xdist")
    subprocess.run(command, cwd=project, env=_environment(), check=True, capture_output=True)
    for number, journal in enumerate(sorted(project.glob(".anubis/runs/*/journal.jsonl")), start=1):
        text = journal.read_text().replace(journal.parent.name, f"learn-{number:02d}")
        journal.write_text(text)
        shop.take(journal, f"learn-{number:02d}")
    runs = [f"store/runs/learn-{number:02d}" for number in range(1, 6)]
    said = ask(["learn", *runs, "-o", "baselines"], RECORDINGS)
    assert said.code == 0, said


def cards_learned(shop: Workshop) -> None:
    """Measure four nodes with eight cards each, and learn their class."""
    for number in range(1, 5):
        name = f"gpu-{number}"
        node = json.loads((RECORDINGS / "inventories" / "eight.json").read_text())
        node["inventory"]["node"] = name
        for card in node["inventory"]["accelerators"]:
            card["serial"] += f"-{number}"
        project = shop.folder / name
        write_project(project, toy="cards.py", plan={"round": number})
        _write(project / "node.json", node)
        arguments = ("--anubis", "--anubis-inventory=node.json", "cards.py", *MEASURE)
        assert shop.pytest(project, *arguments, f"--anubis-run-id={name}") == 0
        shop.take(project / ".anubis" / "runs" / name / "journal.jsonl", name)
    runs = [f"store/runs/gpu-{number}" for number in range(1, 5)]
    said = ask(["learn", *runs, "-o", "baselines", "--error-rate", "none"], RECORDINGS)
    assert said.code == 0, said


def choices_learned(shop: Workshop) -> None:
    """Measure the Selector's toys five times, and learn a baseline of their own."""
    for number in range(1, 6):
        name = f"choices-{number}"
        project = shop.folder / name
        write_project(project, toy="choices.py", plan={"round": number})
        shutil.copy(RECORDINGS / "inventories" / "lab-a.json", project / "node.json")
        arguments = ("--anubis", "--anubis-inventory=node.json", "choices.py", *MEASURE)
        assert shop.pytest(project, *arguments, f"--anubis-run-id={name}") == 0
        shop.take(project / ".anubis" / "runs" / name / "journal.jsonl", name)
    runs = [f"store/runs/choices-{number}" for number in range(1, 6)]
    said = ask(["learn", *runs, "-o", "baselines-choices", "--error-rate", "none"], RECORDINGS)
    assert said.code == 0, said


# The history


def history() -> None:
    """Make up 100 days of a small fleet, enter it as users do, and dump the database as SQL."""
    chance = random.Random(5)
    day = 86400.0
    begin = NOW - 100 * day
    rows = ["node,kind,started,duration,component,note"]
    rows.append(f"lab-a,nic,{_iso(NOW - 90 * day)},2h,network.loopback,flapping")
    for number in range(1, 21):
        when = begin
        while (when := when + chance.expovariate(1 / (8 if number <= 4 else 30)) * day) < NOW - day:
            kind = chance.choice(["nic", "nic", "gpu", "gpu-memory", "disk"])
            rows.append(f"n{number:02d},{kind},{_iso(when)},{chance.uniform(0.5, 4):.2f},,")
    wrong = [
        "n01,nic,2031-01-01T00:00:00+00:00,1,,in the future",
        "n01,nic,yesterday,1,,no date",
        "n02,nic,2026-04-01T00:00:00+00:00,-3h,,negative",
        "n03,,2026-04-01T00:00:00+00:00,1h,,no kind",
        "n04,nic,2026-04-02T00:00:00+00:00,90m,,with a unit",
    ]
    folder = RECORDINGS / "inputs"
    folder.mkdir(exist_ok=True)
    (folder / "incidents.csv").write_text("\n".join([*rows, *wrong]) + "\n")
    with tempfile.TemporaryDirectory() as place:
        work = Path(place)
        said = ask(["history", "import", str(folder / "incidents.csv"), "--add-nodes"], work)
        assert said.code == 0, said
        for _ in range(50):
            part = chance.choice(list(PARTS))
            count, kind = PARTS[part]
            stem = f"choices.py::test_{part.replace('.', '_')}"
            names = {f"{stem}_{chance.randrange(count)}" for _ in range(2)}
            given = ["history", "found", "--node", f"n{chance.randint(1, 20):02d}"]
            for name in sorted(names):
                given += ["--benchmark", name]
            found = _iso(NOW - chance.uniform(1, 95) * day)
            said = ask([*given, "--component", part, "--kind", kind, "--on", found], work)
            assert said.code == 0, said
        for given in (
            ["history", "close", "3", "--as", "false-alarm", "--note", "a loose cable"],
            ["history", "state", "--node", "n20", "--as", "removed", "--on", _iso(NOW - 5 * day)],
            ["history", "state", "--node", "n19", "--as", "drained", "--on", _iso(NOW - 5 * day)],
        ):
            assert ask(given, work).code == 0
        dump(work / ".anubis" / "history.sqlite", RECORDINGS / "history.sql")


def _iso(moment: float) -> str:
    return dt.datetime.fromtimestamp(moment, dt.UTC).isoformat(timespec="seconds")


def dump(database: Path, target: Path) -> None:
    """Write a database as SQL."""
    connection = sqlite3.connect(database)
    target.write_text("\n".join(connection.iterdump()) + "\n")
    connection.close()


def loaded(source: Path, store: Path) -> None:
    """Make a store's history from SQL."""
    store.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(store / "history.sqlite")
    connection.executescript(source.read_text())
    connection.close()


def chosen(shop: Workshop) -> None:
    """Make the runs in which the Selector chose."""
    for case in CHOSEN:
        _record_with(
            shop, case, lambda folder: loaded(RECORDINGS / "history.sql", folder / ".anubis")
        )
    _record_with(
        shop,
        Case(name="selected-all", code=0, toy="choices.py", args=("--anubis-select=risk", "-s")),
        lambda _: None,
    )


def _record_with(shop: Workshop, case: Case, before: Callable[[Path], None]) -> None:
    shop.record(
        Case(
            name=case.name,
            code=case.code,
            toy=case.toy,
            # With -s in this process, though costs are declared.
            args=case.args if "-n2" in case.args else (*case.args, "-s"),
            plan=case.plan,
            baselines="baselines-choices",
            conftest=TODAY,
            before=before,
        )
    )


# Runs that belong together


def earlier_runs(shop: Workshop) -> None:
    """Make a node's own history without a baseline: five good runs, and a slow one."""
    project = shop.folder / "own"
    write_project(project)
    shutil.copy(RECORDINGS / "inventories" / "lab-b.json", project / "node.json")
    for number in range(1, 7):
        plan: dict[str, Any] = {"round": number}
        if number == 6:
            plan |= {"speed": {"factor": 0.85}}
        (project / "plan.json").write_text(json.dumps(plan))
        given = ("--anubis", "--anubis-inventory=node.json", "toy.py", *ALONE)
        code = shop.pytest(project, *given, f"--anubis-run-id=own-{number}")
        assert code == (1 if number == 6 else 20), (project / "said.txt").read_text()
        shop.take(project / ".anubis" / "runs" / f"own-{number}" / "journal.jsonl", f"own-{number}")


def soaked(shop: Workshop) -> None:
    """Make a soak of a few cycles."""
    project = shop.folder / "soak"
    write_project(project)
    shutil.copy(RECORDINGS / "inventories" / "lab-a.json", project / "node.json")
    shutil.copytree(RECORDINGS / "baselines", project / "baselines")
    given = ("--anubis", "--anubis-inventory=node.json", "toy.py", *ALONE, "--anubis-duration=5s")
    code = shop.pytest(project, *given, "--anubis-run-id=soak")
    assert code == 0, (project / "said.txt").read_text()
    for number in (1, 2):
        name = f"soak-{number:05d}"
        shop.take(project / ".anubis" / "runs" / name / "journal.jsonl", name)


def certified(shop: Workshop) -> None:
    """Measure which of two toys may overlap; keep the certificates, and one run of each kind."""
    project = shop.folder / "certify"
    write_project(project, toy="pairs.py")
    shutil.copy(RECORDINGS / "inventories" / "lab-a.json", project / "node.json")
    command = [sys.executable, "-m", "pytest_anubis.cli.main", "certify", "pairs.py", "--rounds=3"]
    command.append("--pytest-args=--anubis-inventory=node.json")
    subprocess.run(command, cwd=project, env=_environment(), check=True, capture_output=True)
    (path,) = project.glob("baselines/certificates/*.json")
    target = RECORDINGS / "baselines" / "certificates" / path.name
    target.parent.mkdir(parents=True, exist_ok=True)
    text = re.sub(r"certify-\d+-\d+-", "certify-", path.read_text())
    target.write_text(re.sub(r'("created": ")[^"]*', r"\g<1>2026-05-01T08:00:00+00:00", text))
    for journal in sorted(project.glob(".anubis/runs/*-01-*/journal.jsonl")):
        name = re.sub(r"certify-\d+-\d+-", "certify-", journal.parent.name)
        journal.write_text(journal.read_text().replace(journal.parent.name, name))
        shop.take(journal, name)


# Imports


def imports() -> None:
    """Write tables of a made-up fleet, copy excerpts of other tools' output, and import all of it."""
    folder = RECORDINGS / "inputs"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "fleet.csv").write_text(fleet_table(seed=1))
    (folder / "fleet-new.csv").write_text(fleet_table(seed=2, bad=True))
    for name in ("superbench.jsonl", "nccl_allreduce.log", "fio.json"):
        shutil.copy(TOOLS / name, folder / name)
    shutil.copy(TOOLS / "README.md", folder / "TOOLS.md")
    for file in folder.iterdir():
        os.utime(file, (NOW, NOW))  # an import without dates has its file's
    for given in IMPORTS:
        said = ask(["import", *given, "--store", "imported"], RECORDINGS)
        assert said.code == 0, said
    for old in (RECORDINGS / "imported" / "imports").glob("*"):
        target = RECORDINGS / "imports" / old.name
        target.parent.mkdir(exist_ok=True)
        old.rename(target)
        with zipfile.ZipFile(target, "a") as archive:
            archive.comment = archive.comment.replace(str(RECORDINGS).encode(), ROOT.encode())
    shutil.rmtree(RECORDINGS / "imported")
    fleet = ["imports/fleet.csv.npz"]
    said = ask(["learn", *fleet, "-o", "baselines-fleet"], RECORDINGS)
    assert said.code == 0, said


IMPORTS: Sequence[Sequence[str]] = (
    ("table", "inputs/fleet.csv"),
    ("table", "inputs/fleet-new.csv"),
    ("superbench", "inputs/superbench.jsonl", "--class", "a100"),
    ("nccl", "inputs/nccl_allreduce.log", "--node", "n-nccl", "--class", "a100"),
    ("fio", "inputs/fio.json", "--node", "n-fio", "--class", "disks"),
)


def fleet_table(*, seed: int, bad: bool = False) -> str:
    """Return a table of 32 nodes with two cards and three metrics each.

    Args:
        seed: Of the noise; what belongs to a node is the same whatever the seed.
        bad: With slow units, failed and missing ones, and rows that cannot be read.
    """
    rows = ["node,device,benchmark,metric,unit,better,value,class,component,return_code"]
    chance = random.Random(seed)
    for node in range(32):
        own = 1 + 0.004 * random.Random(f"node {node}").gauss(0, 1)
        for device in range(2):
            for name, unit, better, centre in (
                ("copy", "GB/s", "higher", 400.0),
                ("launch", "us", "lower", 5.0),
            ):
                factor = own if better == "higher" else 1 / own
                if bad and (node, device, name) in ((7, 1, "copy"), (9, 0, "launch")):
                    factor *= 0.8 if better == "higher" else 1.25
                for _ in range(4):
                    value = centre * factor * (1 + 0.003 * chance.gauss(0, 1))
                    rows.append(
                        f"m{node:02d},cuda:{device},{name},rate,{unit},{better},{value:.4f},"
                        f"fleet,accelerator.{name},"
                    )
            errors = 3 if bad and (node, device) == (11, 0) else 0
            rows.append(
                f"m{node:02d},cuda:{device},ecc,errors,errors,equal,{errors},fleet,memory.ecc,"
            )
    if bad:
        rows = [row for row in rows if not row.startswith(("m13,cuda:1,copy", "m14,cuda:0,ecc"))]
        rows += [
            "m15,cuda:0,copy,rate,GB/s,higher,fast,fleet,accelerator.copy,",
            "m16,cuda:0,copy",
            "m17,cuda:0,copy,rate,GB/s,sideways,1,fleet,accelerator.copy,",
            "m18,cuda:1,launch,rate,us,lower,,fleet,accelerator.launch,139",
            "m19,cuda:1,launch,rate,us,lower,nan,fleet,accelerator.launch,",
            "m20,cuda:1,launch,rate,ms,lower,0.005,fleet,accelerator.launch,",
            "m21,cuda:0,copy,rate,GB/s,higher,-4,fleet,accelerator.copy,",
            "m22,cuda:0,copy,rate,GB/s,higher,,fleet,accelerator.copy,",
        ]
    return "\n".join(rows) + "\n"


def main() -> None:
    """Make everything."""
    shutil.rmtree(RECORDINGS, ignore_errors=True)
    RECORDINGS.mkdir()
    inventories()
    with tempfile.TemporaryDirectory(prefix="golden-") as place:
        shop = Workshop(Path(place).resolve())
        learned(shop)
        cards_learned(shop)
        choices_learned(shop)
        for case in CASES:
            shop.record(case)
        earlier_runs(shop)
        soaked(shop)
        certified(shop)
        imports()
        history()
        chosen(shop)
    if shop.wrong:
        raise SystemExit(f"{len(shop.wrong)} runs ended otherwise than they should, see above")


if __name__ == "__main__":
    main()
