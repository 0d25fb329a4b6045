from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_anubis.cli.main import main

Made = Callable[..., Path]


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Made:
    """Write a table of nodes with two devices and two metrics, and import it."""
    monkeypatch.chdir(tmp_path)

    def make(nodes: int, factor: Callable[[int, int], float], spread: float = 0.004) -> Path:
        rng = random.Random(7)
        rows = ["node,device,benchmark,metric,unit,better,value"]
        for node in range(nodes):
            for device in range(2):
                for metric in ("rate", "other"):
                    for _ in range(5):
                        worse = factor(node, device) if metric == "rate" else 1.0
                        value = 100 * worse * (1 + rng.gauss(0, spread))
                        rows.append(
                            f"n{node:03d},cuda:{device},copy,{metric},GB/s,higher,{value:.6g}"
                        )
        Path("fleet.csv").write_text("\n".join(rows) + "\n")
        assert main(["import", "table", "fleet.csv"]) == 0
        return Path(".anubis/imports")

    return make


def baseline() -> Path:
    [path] = Path("baselines").glob("*.json")
    return path


def test_a_tie_is_marginal_until_somebody_decides(
    fleet: Made, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = str(fleet(40, lambda node, _: 0.8 if node % 5 < 3 else 1.0))
    assert main(["learn", runs]) == 20  # written, and an operator must decide
    printed = capsys.readouterr().out
    path = str(baseline())
    assert "24 of 40 nodes have 80" in printed
    assert (
        "an operator must decide about slower groups of nodes in 1 metric (rate): "
        f"anubis baseline populations {path}"
    ) in printed
    assert main(["judge", runs, "--baseline", path]) == 0
    assert main(["baseline", "populations", path]) == 0
    shown = capsys.readouterr().out
    assert "undecided: the slower ones are MARGINAL" in shown
    assert "--both METRIC or --faster METRIC" in shown
    assert main(["baseline", "populations", path, "--faster", "rate"]) == 0
    assert "counted before this decision" in capsys.readouterr().out
    assert main(["judge", runs, "--baseline", path]) == 1
    capsys.readouterr()
    assert main(["learn", runs]) == 0
    printed = capsys.readouterr().out  # what judging says of the same nodes
    assert "judged each without itself, 24 of its 40 nodes are rejected" in printed
    assert "does not hold" not in printed
    assert "--without" not in printed
    assert main(["judge", runs, "--baseline", path]) == 1
    assert "24 rejected" in capsys.readouterr().out.lower()
    assert main(["baseline", "populations", path, "--both", "rate"]) == 0
    assert "both are accepted" in capsys.readouterr().out
    assert main(["judge", runs, "--baseline", path, "--json", "out.json"]) == 0
    verdicts = json.loads(Path("out.json").read_text())["verdicts"]
    assert {v["verdict"] for v in verdicts} == {"PASS"}
    assert main(["baseline", "populations", path, "--both", "all", "--faster", "all"]) == 2
    capsys.readouterr()
    assert main(["learn", runs]) == 0  # learning anew forgets no decision
    printed = capsys.readouterr().out
    assert (
        "kept from the baseline before, since rate splits at the same place: both groups" in printed
    )
    assert "an operator must decide" not in printed
    assert main(["judge", runs, "--baseline", path]) == 0
    moved = str(fleet(40, lambda node, _: 0.7 if node % 5 < 3 else 1.0))
    assert main(["learn", moved]) == 20  # they are others
    assert main(["baseline", "populations", path, "--both", "all"]) == 0
    assert main(["judge", moved, "--baseline", path]) == 0
    assert main(["baseline", "populations", path, "--both", "other"]) == 2
    assert "other: no undecided group of that name" in capsys.readouterr().err


def test_a_decision_may_name_one_benchmark(fleet: Made, capsys: pytest.CaptureFixture[str]) -> None:
    fleet(40, lambda node, _: 0.8 if node % 5 < 3 else 1.0)
    table = Path("fleet.csv")
    lines = table.read_text().splitlines()
    both = [*lines, *(line.replace(",copy,", ",scan,") for line in lines[1:])]
    table.write_text("\n".join(both) + "\n")
    assert main(["import", "table", "fleet.csv"]) == 0
    assert main(["learn", ".anubis/imports"]) == 20
    path = str(baseline())

    def decided(*options: str) -> dict[str, set[str]]:
        assert main(["baseline", "populations", path, *options, "--json", "out.json"]) == 0
        found: dict[str, set[str]] = {}
        for group in json.loads(Path("out.json").read_text())["groups"]:
            found.setdefault(group["benchmark"], set()).add(group["second"].get("decided", ""))
        return found

    assert decided("--both", "copy rate") == {"copy": {"both"}, "scan": {""}}
    assert decided("--faster", "all") == {"copy": {"both"}, "scan": {"faster"}}
    capsys.readouterr()
    assert main(["learn", ".anubis/imports"]) == 0  # which keeps each benchmark's decision
    printed = capsys.readouterr().out
    assert "since copy rate splits at the same place: both groups are accepted" in printed
    assert "since scan rate splits at the same place: only the faster group" in printed
    assert decided() == {"copy": {"both"}, "scan": {"faster"}}
    assert decided("--both", "rate") == {"copy": {"both"}, "scan": {"both"}}
    assert main(["baseline", "populations", path, "--both", "rate", "--faster", "scan rate"]) == 2
    assert "scan rate: named with --both and with --faster" in capsys.readouterr().err


def test_an_error_rate_that_is_missed_ends_with_20(
    fleet: Made, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = random.Random(1)
    lost = {(node, rng.randrange(2)): rng.uniform(0.4, 0.9) for node in range(24)}
    runs = str(fleet(40, lambda node, device: lost.get((node, device), 1.0)))
    assert main(["learn", runs]) == 20
    printed = capsys.readouterr().out
    assert (
        "the stated rate of 0.01 does not hold: 24 of its own 40 nodes would be rejected" in printed
    )
    assert "leave it out with --without rate" in printed
    assert f"without what breaks it alone: anubis learn {runs} --without 'copy rate'" in printed
    assert main(["baseline", "list"]) == 0
    assert (
        "error rate 0.01 a node stated, 60 % of its own nodes rejected" in capsys.readouterr().out
    )
    assert main(["learn", runs, "--accept-rate"]) == 0
    capsys.readouterr()
    assert main(["learn", runs, "--without", "rate"]) == 0
    assert "0 of its 40 nodes are rejected" in capsys.readouterr().out
    (benchmark,) = {
        item["benchmark"]
        for path in Path("baselines").glob("*.json")
        for item in json.loads(path.read_text())["criteria"]
    }
    assert main(["learn", runs, "--without", f"{benchmark} rate"]) == 0
    assert "0 of its 40 nodes are rejected" in capsys.readouterr().out
    assert main(["learn", runs, "--without", benchmark]) == 2  # the only one there is
    assert main(["learn", runs, "--for", "3m"]) == 2
    assert "has runs, and --for and --rounds measure here" in capsys.readouterr().err
    assert main(["learn", runs, "--without", "nothing"]) == 2
    assert main(["learn", runs, "--without", "rate", "--without", "other"]) == 2
    assert "--without: it names all 2 metrics of these runs; name fewer" in capsys.readouterr().err


def test_a_promise_is_printed_with_its_cost(
    fleet: Made, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = str(fleet(40, lambda *_: 1.0, spread=0.07))
    assert main(["learn", runs, "--promise", "other=10%"]) == 20  # its cost is counted
    printed = capsys.readouterr().out
    assert "a loss of 10 % is promised to fail" in printed
    assert "of the healthy nodes" in printed
    assert "does not hold" in printed
    assert main(["learn", runs, "--promise", "other=10%", "--accept-rate"]) == 0
    capsys.readouterr()
    main(["judge", runs, "--html", "all.html"])  # whose terminal did not say it
    doubt = "stated error rate does not hold: "
    assert f"note: hardware class unclassified: the baseline's {doubt}" in capsys.readouterr().out
    assert f"the baseline&#39;s {doubt}" in Path("all.html").read_text()
    assert main(["learn", runs, "--promise", "other=1%", "--accept-rate"]) == 0
    assert (
        "other: the promise of 1.0 % cannot be kept: losses are found from"
        in capsys.readouterr().out
    )
    assert main(["learn", runs, "--promise", "othr=10%"]) == 2
    assert "--promise othr: no such metric or component" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["learn", runs, "--promise", "other=0"])
    assert "must be a loss between 0 and 100 %" in capsys.readouterr().err


def test_a_smaller_baseline_names_what_is_lost(
    fleet: Made, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet(10, lambda node, device: 1.0)
    rows = Path("fleet.csv").read_text().splitlines(keepends=True)
    Path("both.csv").write_text("".join(rows) + "".join(rows[1:]).replace(",copy,", ",other one,"))
    assert main(["learn", "both.csv"]) == 0
    assert "not judged any longer" not in capsys.readouterr().out
    assert main(["learn", "fleet.csv"]) == 0
    printed = capsys.readouterr().out
    assert (
        "judged 1 benchmark more, not measured this time and not judged any longer: other one"
        in printed
    )
