"""What is asked of the recordings: scenes of commands, and how what they said is written down."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.golden.asking import NOW, ask, tidy
from tests.golden.toys import write_project

HERE = Path(__file__).parent
RECORDINGS = HERE / "recordings"
EXPECTED = HERE / "expected"
RUNS = RECORDINGS / "store" / "runs"

HOST = "no-accelerator_lab-f6m143-16c_64-gib_torch2_smoke.json"
CARDS = (
    "8x-nvidia-h100-80gb-hbm3_intel-xeon-platinum-8480-224c_2-tib_nvlink18-8xib-mt4129_"
    "nvidia550_torch2_smoke.json"
)


@dataclass(frozen=True, kw_only=True)
class Scene:
    """Commands that are run one after the other in one folder, a copy of the recordings.

    Attributes:
        name: Also that of the expected files.
        commands: Arguments of ``anubis``, in one text with spaces between.
        at: Folder below the copy in which they run.
        shows: Files that they write and whose content is compared, below that folder.
        prepare: Makes more in that folder first.
        only: What of the recordings is copied; empty: all.
        close: How far apart numbers of JSON documents may be, as a share: fits by iteration differ a little
            from one processor to another.
    """

    name: str
    commands: tuple[str, ...]
    at: str = "."
    shows: tuple[str, ...] = ()
    prepare: Callable[[Path], None] | None = None
    close: float = 1e-9
    only: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What a scene said: a transcript, and documents by name."""

    transcript: str
    documents: Mapping[str, str] = field(default_factory=dict)


def play(scene: Scene, folder: Path) -> Shown:
    """Run a scene in an empty folder."""
    for part in scene.only or (".",):
        shutil.copytree(RECORDINGS / part, folder / part, dirs_exist_ok=True)
    for number, journal in enumerate(sorted(folder.glob("store/runs/*/journal.jsonl"))):
        os.utime(journal, (number, number))  # the last by name is the latest
    for file in folder.glob("inputs/*"):
        os.utime(file, (NOW, NOW))  # an import without dates has its file's
    here = folder / scene.at
    here.mkdir(exist_ok=True)
    if scene.prepare is not None:
        scene.prepare(here)
    lines: list[str] = []
    documents: dict[str, str] = {}
    for number, command in enumerate(scene.commands, start=1):
        said = ask(command.split(), here)
        lines.append(f"$ anubis {command}")
        if said.code == 0 and command.endswith("--json -"):
            documents[f"{number}.json"] = said.out
            lines.append(f"(the document {number}.json)")
        else:
            lines += tidy(said.out, folder).splitlines() if said.out else []
        errors = tidy(said.err, folder).splitlines() if said.err else []
        if errors and errors[0].startswith("usage: "):  # each version of Python breaks it elsewhere
            errors = errors[-1:]
        lines += [f"! {line}" for line in errors]
        lines += [f"exit code {said.code}", ""]
    for name in scene.shows:
        text = (here / name).read_text()
        documents[Path(name).name] = text if name.endswith(".json") else tidy(text, folder)
    return Shown(transcript="\n".join(lines), documents=documents)


def plain(text: str) -> Any:
    """Return a JSON document as it is compared: an inventory, which passes through, is a short word."""

    def shortened(value: Any) -> Any:
        if isinstance(value, list):
            return [shortened(item) for item in value]
        if isinstance(value, dict):
            return {
                key: "<inventory>" if key == "inventory" and item else shortened(item)
                for key, item in value.items()
            }
        return value

    return shortened(json.loads(text))


def written(document: Any) -> str:
    """Return a JSON document as it is written down: lists of numbers and short objects on one line."""
    return "\n".join(_lines(document, "")) + "\n"


def _lines(value: Any, indent: str) -> Iterator[str]:
    flat = json.dumps(value, sort_keys=True, ensure_ascii=False)
    if len(flat) + len(indent) <= 160 or not isinstance(value, dict | list) or _numbers(value):
        yield indent + flat
        return
    opening, closing = ("{", "}") if isinstance(value, dict) else ("[", "]")
    yield indent + opening
    items = sorted(value.items()) if isinstance(value, dict) else [(None, item) for item in value]
    for place, (key, item) in enumerate(items, start=1):
        comma = "," if place < len(items) else ""
        inner = list(_lines(item, indent + " "))
        if key is not None:
            inner[0] = f"{indent} {json.dumps(key)}: {inner[0].lstrip()}"
        inner[-1] += comma
        yield from inner
    yield indent + closing


def _numbers(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, int | float) for item in value)


# Preparations


def with_history(folder: Path) -> None:
    """Give the folder's store the recorded history."""
    from tests.golden.record import loaded

    loaded(RECORDINGS / "history.sql", folder / ".anubis")


def with_runs(folder: Path) -> None:
    """Give the folder's store a history made anew from the recorded journals."""
    from pytest_anubis.store.history.run_filing import file_all

    shutil.copytree(RUNS, folder / ".anubis" / "runs")
    assert file_all(folder / ".anubis") == ()


def with_toys(folder: Path) -> None:
    """Write the toys beside their runs."""
    for toy in ("toy.py", "cards.py"):
        write_project(folder, toy=toy)
    (folder / "conftest.py").unlink()


def edited(folder: Path) -> None:
    """Edit a baseline after it was sealed."""
    path = folder / "baselines" / HOST
    path.write_text(path.read_text().replace('"alpha": 0.95', '"alpha": 0.9'))


def broken_baselines(folder: Path) -> None:
    """Spoil baselines in several ways."""
    good = (folder / "baselines" / HOST).read_text()
    bad = folder / "bad"
    bad.mkdir()
    (bad / "a.json").write_text("{")
    (bad / "b.json").write_text(good.replace('"alpha"', '"alhpa"', 1))
    (bad / "c.json").write_text(re.sub(r'(?m)^  "schema": 1', '  "schema": 2', good))
    (bad / "d.json").write_text("[]")
    (bad / "e.json").mkdir()


def broken_journals(folder: Path) -> None:
    """Write files that are no journals."""
    start = (RUNS / "accepted" / "journal.jsonl").read_text().splitlines()[0]
    texts = {
        "empty": "",
        "text": "hello\nworld\n",
        "other": start.replace('"schema":1', '"schema":99') + "\n",
        "torn": start[:200],
        "nodeless": start.replace('"node":"lab-a",', "", 1) + "\n",
    }
    for name, text in texts.items():
        path = folder / "bad" / "runs" / name / "journal.jsonl"
        path.parent.mkdir(parents=True)
        path.write_text(text)


# Scenes


PAGES = ("accepted-attempts", "cards-slow", "selected", "slow-many")
GAUGES = ("cards-slow", "killed", "odd-names", "not-a-number", "selected", "slow-many", "waived")
DOCUMENTS = (
    *("accepted", "accepted-attempts", "broken-decision", "cards-gate", "cards-hidden", "change"),
    *("crashed", "damaged", "hung", "infinite", "killed", "killed-twice", "learn-01", "marginal"),
    *("not-a-number", "odd-names", "repeated", "selected-explored", "selected-nothing", "skipped"),
    *("slow-many", "uncollected", "waived"),
)
"""Recorded runs whose whole page, gauges and JSON form are compared; all have their summaries compared."""


def _reports() -> Iterator[Scene]:
    """Yield a scene for every recorded run: its summary, and of some the documents."""
    for run in sorted(path.name for path in RUNS.iterdir()):
        known = "baselines-choices" if run.startswith(("selected", "choices")) else "baselines"
        base = f"report store/runs/{run} --baseline {known}"
        commands = [f"{base} -v"]
        commands += [f"{base} --prometheus -"] if run in GAUGES else []
        commands += [f"{base} --json -"] if run in DOCUMENTS else []
        commands += [f"{base} --html page.html"] if run in PAGES else []
        shows = ("page.html",) if run in PAGES else ()
        only = (f"store/runs/{run}", known)
        yield Scene(name=f"report/{run}", commands=tuple(commands), shows=shows, only=only)


def _judged(name: str, runs: str, *, at: str = ".", shown: bool = True) -> Scene:
    command = f"judge {runs} --json out.json" if shown else f"judge {runs}"
    shows = ("out.json",) if shown else ()
    return Scene(name=f"judge/{name}", commands=(command,), at=at, shows=shows)


def _learned(name: str, runs: str, *more: str, shows: tuple[str, ...]) -> Scene:
    command = " ".join(["learn", runs, *more, "-o", "out"])
    return Scene(
        name=f"learn/{name}", commands=(command,), shows=tuple(f"out/{one}" for one in shows)
    )


OTHERS = "imports/superbench.jsonl.npz imports/nccl_allreduce.log.npz imports/fio.json.npz"
LEARN = " ".join(f"store/runs/learn-0{number}" for number in range(1, 6))
GPUS = " ".join(f"store/runs/gpu-{number}" for number in range(1, 5))

SCENES: tuple[Scene, ...] = (
    *_reports(),
    Scene(
        name="report/by-name",
        commands=(
            "report",
            "report --store store",
            "report slow --store store",
            "report accepted-extra --store store -v",
            "report slow-many --store store --baseline nowhere",
            "report slow-many --store store --html page.html --json run.json --prometheus p.prom",
            "report no-such-run --store store",
            "report store/runs/slow/journal.jsonl",
        ),
    ),
    Scene(
        name="report/damaged-files",
        commands=(
            *(f"report bad/runs/{name}" for name in ("empty", "nodeless", "other", "text", "torn")),
            "judge bad --baseline baselines",
            "learn bad",
        ),
        prepare=broken_journals,
    ),
    # Judging without pytest.
    Scene(
        name="judge/all",
        commands=(
            "judge store --baseline baselines",
            "judge store --baseline baselines --fail-on marginal --require-all",
            "judge store/runs imports --baseline baselines-choices",
        ),
    ),
    Scene(name="judge/all-without", commands=("judge runs",), at="store"),
    Scene(
        name="judge/refused",
        commands=(
            "judge nowhere --baseline baselines",
            "judge store --baseline nowhere",
            "judge store --baseline inputs",
            "judge inventories --baseline baselines",
        ),
    ),
    *(
        _judged(run, f"store/runs/{run} --baseline baselines")
        for run in (
            "accepted",
            "slow-many",
            "waived",
            "killed",
            "killed-resumed",
            "killed-late",
            "broken-decision",
            "interrupted",
            "damaged",
            "cards",
            "cards-slow",
            "cards-hidden",
            "repeated",
            "uncollected",
            "not-a-number",
            "other-unit",
            "accepted-attempts",
            "measured-slow",
            "left",
            "change",
        )
    ),
    _judged("repeated-strict", "store/runs/repeated --baseline baselines --require-all"),
    _judged("change-strict", "store/runs/change --baseline baselines --fail-on marginal"),
    _judged(
        "choices", "store/runs/selected store/runs/selected-skipped --baseline baselines-choices"
    ),
    _judged("cards-without", "runs/cards-peers runs/cards-alike", at="store"),
    _judged("own-past", " ".join(f"runs/own-{number}" for number in range(1, 7)), at="store"),
    _judged("fleet", "imports/fleet-new.csv.npz --baseline baselines-fleet"),
    _judged(
        "fleet-table",
        "inputs/fleet-new.csv --baseline baselines-fleet/fleet.json --fail-on marginal",
        shown=False,
    ),
    _judged(
        "fleet-strict",
        "imports/fleet.csv.npz --baseline baselines-fleet --require-all",
        shown=False,
    ),
    _judged("fleet-without", "fleet-new.csv.npz", at="imports", shown=False),
    _judged("other-tools", f"{OTHERS} --baseline baselines", shown=False),
    # Learning.
    _learned("one-machine", LEARN, shows=(HOST,)),
    _learned("cards", f"{GPUS} --error-rate none", shows=(CARDS,)),
    _learned(
        "fleet", "imports/fleet.csv.npz --html out/page.html", shows=("fleet.json", "page.html")
    ),
    _learned(
        "fleet-medoid",
        "imports/fleet.csv.npz --method medoid --alpha 0.9 --error-rate none",
        shows=("fleet.json",),
    ),
    _learned("fleet-new", "imports/fleet-new.csv.npz --error-rate 0.05", shows=("fleet.json",)),
    _learned("store", "store --error-rate none", shows=()),
    Scene(
        name="learn/refused",
        commands=(
            "learn store/runs/slow store/runs/killed store/runs/no-baseline -o out",
            "learn store/runs/learn-01 -o out",
            "learn nowhere",
            "learn imports/fleet.csv.npz --alpha 2",
            "learn imports/fleet.csv.npz --error-rate 3",
            "learn store/runs/learn-01 inputs -o out",
            f"learn store/runs/repeated {LEARN} -o out",
            f"learn store/runs/killed-late {LEARN} -o out",
        ),
    ),
    # Baselines.
    Scene(
        name="baseline/show",
        commands=(
            "baseline list",
            "baseline list baselines-fleet",
            "baseline list nowhere",
            f"baseline show baselines/{HOST}",
            f"baseline show baselines/{CARDS}",
            "baseline show baselines-fleet",
            "baseline show baselines",
            "baseline show nowhere.json",
        ),
    ),
    Scene(
        name="baseline/broken",
        commands=("baseline list bad", *(f"baseline show bad/{name}.json" for name in "abcde")),
        prepare=broken_baselines,
    ),
    Scene(
        name="baseline/diff",
        commands=(
            "learn imports/fleet-new.csv.npz --error-rate none --alpha 0.9 -o out",
            "baseline diff baselines-fleet out",
            f"baseline diff baselines/{HOST} baselines-choices",
            f"baseline diff baselines/{HOST} baselines/{CARDS}",
        ),
    ),
    Scene(
        name="baseline/backtest",
        commands=(
            "learn imports/fleet-new.csv.npz --error-rate none --alpha 0.9 -o out",
            "baseline backtest imports --new out --baseline baselines-fleet",
            "baseline backtest imports/fleet-new.csv.npz --new baselines-fleet --baseline out",
            f"baseline backtest store --new baselines/{HOST}",
            "baseline backtest store --new baselines-fleet",
        ),
    ),
    Scene(
        name="baseline/promote",
        commands=(
            f"baseline show baselines/{HOST}",
            "judge store/runs/slow --baseline baselines",
            f"baseline promote baselines/{HOST} --to used",
            f"baseline promote baselines/{HOST}",
            "baseline list",
            f"baseline expire used/{HOST}",
            f"baseline expire used/{HOST}",
            "baseline list used",
        ),
        shows=(f"baselines/{HOST}",),
        prepare=edited,
    ),
    # Imports.
    Scene(
        name="import",
        commands=(
            "import table inputs/fleet.csv",
            "import table inputs/fleet.csv",
            "import table inputs/fleet-new.csv --run other",
            "import superbench inputs/superbench.jsonl --class a100",
            "import nccl inputs/nccl_allreduce.log --node n-nccl --class a100",
            "import fio inputs/fio.json --node n-fio --class disks",
            "import fio inputs/fleet.csv --node n-fio",
            "import nccl inputs/fleet.csv --node n",
            "import superbench inputs/fio.json",
            "import table inputs/incidents.csv",
            "import table nowhere.csv",
        ),
    ),
    # Goals and inventories.
    Scene(
        name="goals",
        commands=(
            "goals toy.py cards.py --store store",
            "goals cards.py --store nowhere",
            "goals nowhere.py",
        ),
        prepare=with_toys,
    ),
    Scene(
        name="doctor",
        commands=(
            "doctor --inventory inventories/eight.json",
            "doctor --inventory inventories/eight.json --redact --profile standard",
            "doctor --inventory inventories/lab-a.json",
            "doctor --inventory inventories/lab-a.json --baseline baselines-choices",
            "doctor --inventory inventories/two.json --json",
            "doctor --inventory inputs/fio.json",
            "doctor --inventory nowhere.json",
        ),
    ),
    # The history and what the Selector makes of it.
    Scene(
        name="history/filed",
        commands=(
            "history",
            "history --node lab-a",
            "history --node lab-b --limit 3",
            "history --node eight",
            "history defect list",
            "history incident list",
            "risk",
            "select --node lab-a",
        ),
        prepare=with_runs,
    ),
    Scene(
        name="history/recorded",
        commands=(
            "history",
            "history --node n01",
            "history incident list --limit 1000",
            "history incident list --node lab-a",
            "history defect list",
            "history defect list --node n03",
            "history incident import inputs/incidents.csv",
            "history incident add --node n05 --kind psu --started 2026-01-02",
            "history incident add --node n05 --kind psu --started 2026-01-02 --duration 90m",
            "history incident list --node n05 --limit 3",
            "history incident withdraw 2",
            "history incident withdraw 2",
            "history defect add --node n05 --benchmark a.py::test_a --component storage.disk --on 2026-01-02",
            "history defect close 4 --as false-alarm",
            "history defect close 9999 --as confirmed",
            "history state --node n05 --as removed --note sold",
            "history incident add --node n99 --kind nic --started 2026-01-01",
            "history incident add --node n05 --kind nic --started 2099-01-01",
            "history",
        ),
        prepare=with_history,
    ),
    Scene(
        name="history/imported",
        commands=(
            "history incident import inputs/incidents.csv",
            "history incident import inputs/incidents.csv --add-nodes",
            "history",
            "history --node nobody",
            "history --store nowhere",
        ),
    ),
    Scene(
        name="risk",
        commands=(
            "risk --all",
            "risk --json -",
            "risk --model exponential --horizon 30d --json -",
            "risk --model weibull --horizon 30d --json -",
            "risk --model cox --horizon 30d --json -",
            "risk --node n01 --node lab-a --horizon 7d",
            "risk --save --html risk.html",
            "risk --node n02",
            "risk --load .anubis/risk-model.json --json -",
            "risk --load none.json",
            "risk --node n99",
            "risk --store nowhere",
        ),
        shows=("risk.html", ".anubis/risk-model.json"),
        prepare=with_history,
        close=1e-3,
    ),
    Scene(
        name="select",
        commands=(
            "select --node lab-a --horizon 30d --risk 0.25 --explain",
            "select --node lab-a --horizon 30d --risk 0.25 --json -",
            "select --node lab-a --horizon 30d --risk 0.25 --ids",
            "select --node n01 --by budget --budget 2m --explain",
            "select --node n01 --by cost --json -",
            "select --node n01 --by all",
            "select --node n01 --node n02 --risk 0.2 --json -",
            "select --node n01 --risk 0.9",
            "select",
            "select --node n99",
            "select --node n01 --by budget",
            "select --node n01 --budget 5m",
        ),
        prepare=with_history,
        close=1e-3,
    ),
    Scene(
        name="simulate",
        commands=("simulate --nodes 64 --time 10d --seeds 1 --risk 0.1 --jobs 1 --json -",),
        close=1e-6,
    ),
)
