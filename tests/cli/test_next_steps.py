"""A refusal or a decision names the next command or option."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli.command_line import anubis
from tests.golden.runs import BASELINES, LEARNED, RECORDINGS, RUNS
from tests.places import RECORDED

TABLE = RECORDINGS / "fleet.csv"
KILLED, SKIPPED, CRASHED = (str(RUNS / name) for name in ("killed", "skipped", "crashed"))


@pytest.mark.parametrize(
    ("command", "code", "step"),
    [
        (("baseline", "show", "edited.json"), 2, "`anubis baseline promote edited.json`"),
        (("report",), 2, "no runs yet; run 'pytest --anubis suites/' first"),
        (("history",), 2, "no history yet; run 'pytest --anubis suites/' first"),
        (("health", "--node", "n"), 20, "judge it with pytest --anubis"),
        (("learn", "tests", str(LEARNED)), 2, "give either tests to run here or collected runs"),
        (("select", "--node", "n", "--by", "budget"), 2, "needs --budget, e.g. --budget 20m"),
        (("import", "fio", str(TABLE), "--node", "n"), 2, "run fio with --output-format=json"),
        (("doctor", "--inventory", str(RECORDED)), 0, "anubis learn suites/"),
        (("report", KILLED), 0, "with --anubis-resume=killed"),
        (("report", SKIPPED, "--baseline", str(BASELINES)), 0, "next: pytest --anubis host.py"),
        (
            ("report", CRASHED),
            0,
            "run it alone again: pytest --anubis 'cards.py::test_copy[cuda:1]'",
        ),
    ],
    ids=lambda given: " ".join(given[:2]) if isinstance(given, tuple) else "",
)
def test_the_next_step_is_named(here: Path, command: tuple[str, ...], code: int, step: str) -> None:
    (here / "tests").mkdir()
    text = (BASELINES / "fleet.json").read_text("utf-8").replace('"alpha": 0.95', '"alpha": 0.9')
    (here / "edited.json").write_text(text, encoding="utf-8")
    done = anubis(*command)
    assert done.returncode == code
    assert step in done.stdout + done.stderr


def test_judging_names_the_nodes_to_take_out(here: Path) -> None:
    shutil.copytree(RUNS, here / "runs")
    done = anubis("judge", "runs", "--baseline", str(BASELINES))
    lines = done.stdout.splitlines()
    words = [line.split()[0] for line in lines if line.startswith(("REJ", "UND", "LOOK", "ACC"))]
    assert words == ["REJECTED"] * 4 + ["UNDECIDED"] * 2 + ["LOOK", "ACCEPTED"]
    (counts,) = [line for line in lines if line.startswith("8 nodes: ")]
    assert "4 REJECTED, 2 UNDECIDED, 1 LOOK AT, 1 ACCEPTED" in counts
    (out,) = [line for line in lines if line.startswith("take out of service")]
    assert set(out.rpartition(" ")[2].split(",")) == {"gpu-a", "gpu-b", "gpu-c", "gpu-d"}
