"""``anubis judge`` on the runs of a whole fleet: peers, changes within runs, a class that moved together."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_anubis.core.events import BlockerFound, Event, TestRepeated, WorkerDied
from tests.cli.command_line import anubis

HEAD = "node,device,benchmark,metric,unit,better,value"


def write(
    path: Path, values: dict[tuple[str, str, str], list[float]], better: str = "higher"
) -> None:
    """Write a table from (node, device, metric) -> values."""
    rows = [HEAD]
    for (node, device, metric), sample in values.items():
        rows += [f"{node},{device},copy,{metric},GB/s,{better},{value:.6f}" for value in sample]
    path.write_text("\n".join(rows) + "\n")


def fleet(
    nodes: int, devices: int, count: int = 6, metrics: tuple[str, ...] = ("rate",)
) -> dict[tuple[str, str, str], list[float]]:
    rng = np.random.default_rng(0)
    return {
        (f"n{n:02d}", f"cuda:{d}", metric): (100 * np.exp(rng.normal(0, 0.003, count))).tolist()
        for n in range(nodes)
        for d in range(devices)
        for metric in metrics
    }


def judged(path: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(path.read_text())
    return data


def test_without_a_baseline_peers_only_reject(here: Path) -> None:
    values = fleet(3, 8)
    values["n01", "cuda:5", "rate"] = [0.85 * v for v in values["n01", "cuda:5", "rate"]]
    write(here / "runs.csv", values)
    done = anubis("judge", "runs.csv", "--json", "out.json")
    assert done.returncode == 1, done.stderr
    assert "no baselines in " in done.stdout
    assert "by 7 other devices of this node" in done.stdout
    data = judged(here / "out.json")
    assert {n["node"]: n["decision"] for n in data["nodes"]} == {
        "n00": "UNDECIDED",
        "n01": "REJECTED",
        "n02": "UNDECIDED",
    }
    bad = [v for v in data["verdicts"] if v["verdict"] == "FAIL"]
    assert [(v["node"], v["device"], v["reference"]) for v in bad] == [("n01", "cuda:5", "peers")]


def test_peers_judge_a_metric_without_criterion(here: Path) -> None:
    write(here / "old.csv", fleet(8, 8))
    assert anubis("learn", "old.csv", "--error-rate", "none").returncode == 0
    values = fleet(8, 8, metrics=("rate", "fresh"))
    values["n04", "cuda:1", "fresh"] = [0.8 * v for v in values["n04", "cuda:1", "fresh"]]
    write(here / "new.csv", values)
    asked = ("judge", "new.csv", "--json", "out.json", "--html", "out.html")
    assert anubis(*asked, "--allow-missing", "5%", "--since", "1970-01-02").returncode == 1
    data = judged(here / "out.json")
    digest = hashlib.sha256((here / "new.csv").read_bytes()).hexdigest()
    assert data["inputs"] == [{"path": "new.csv", "sha256": digest}]
    (learned,) = (here / "baselines").iterdir()
    digests = [digest, hashlib.sha256(learned.read_bytes()).hexdigest()]
    assert [one["sha256"] for one in data["baseline_files"]] == digests[1:]
    page = (here / "out.html").read_text(encoding="utf-8")
    assert all(one in page for one in digests)
    options = data["options"]
    assert (options["allow_missing"], options["since"], options["waivers"]) == (0.05, 86400, None)
    assert options["baseline"] == {"path": "baselines", "sha256": None}
    decisions = {n["node"]: n["decision"] for n in data["nodes"]}
    assert decisions.pop("n04") == "REJECTED"
    assert set(decisions.values()) == {"ACCEPTED"}
    assert {v["metric"]: v["reference"] for v in data["verdicts"]} == {
        "rate": "fleet",
        "fresh": "peers",
    }


@pytest.mark.parametrize("counts", [(2, 2, 2, 2), (3, 5, 2, 9), (2, 2, 2, 0)])
def test_cards_that_are_wrong_alike_excuse_nothing(here: Path, counts: tuple[int, ...]) -> None:
    write(here / "old.csv", fleet(8, 4))
    assert anubis("learn", "old.csv", "--error-rate", "none").returncode == 0
    write(here / "new.csv", fleet(3, 4))
    with (here / "new.csv").open("a") as table:
        for node in range(3):
            for card, wrong in enumerate(counts):
                count = wrong if node == 1 else 0
                table.write(f"n0{node},cuda:{card},memtest,wrong,errors,equal,{count}\n")
    assert anubis("judge", "new.csv", "--json", "out.json").returncode == 1
    data = judged(here / "out.json")
    assert [n["node"] for n in data["nodes"] if n["decision"] == "REJECTED"] == ["n01"]
    bad = {v["device"] for v in data["verdicts"] if v["verdict"] == "FAIL"}
    assert bad == {f"cuda:{card}" for card, count in enumerate(counts) if count}


def test_a_class_that_moved_together_is_one_finding(here: Path) -> None:
    names = ("rate", "other", "third")
    old = fleet(20, 1, metrics=names)
    write(here / "old.csv", old)
    assert anubis("learn", "old.csv", "--error-rate", "none").returncode == 0
    new = {key: [0.9 * v for v in sample] for key, sample in old.items()}
    new["n03", "cuda:0", "rate"] = [0.6 * v for v in new["n03", "cuda:0", "rate"]]
    write(here / "new.csv", new)
    done = anubis("judge", "new.csv", "--json", "out.json")
    assert done.returncode == 1
    data = judged(here / "out.json")
    (finding,) = data["findings"]
    assert finding["kind"] == "class-shift"
    assert "3 metrics of hardware class" in finding["text"]
    assert "20 of 20 nodes moved together" in finding["text"]
    assert done.stdout.startswith(f"finding: {finding['text'][:200]}")
    assert f"finding: {finding['text']}" in anubis("judge", "new.csv", "-v").stdout
    decisions = {n["node"]: n["decision"] for n in data["nodes"]}
    assert decisions.pop("n03") == "REJECTED"
    assert set(decisions.values()) == {"UNDECIDED"}
    (line,) = (one for one in done.stdout.splitlines() if one.startswith("UNDECIDED"))
    assert "19 nodes" in line


def test_a_change_within_a_run_is_marginal_and_named(here: Path) -> None:
    old = fleet(8, 1, count=60)
    write(here / "old.csv", old)
    assert anubis("learn", "old.csv", "--error-rate", "none", "--alpha", "0.9").returncode == 0
    sample = old["n02", "cuda:0", "rate"]
    old["n02", "cuda:0", "rate"] = [v * (0.88 if i >= 30 else 1) for i, v in enumerate(sample)]
    noisy = 100 * np.exp(np.random.default_rng(1).normal(0, 0.03, 60))
    old["n03", "cuda:0", "rate"] = sorted(noisy.tolist(), reverse=True)  # by somebody, not by time
    write(here / "new.csv", old)
    assert anubis("judge", "new.csv", "--json", "out.json").returncode == 0
    verdicts = {v["node"]: v for v in judged(here / "out.json")["verdicts"]}
    changed = verdicts.pop("n02")
    assert (changed["verdict"], changed["reason"]) == ("MARGINAL", "change-point")
    assert changed["change"]["onset"] == 30
    assert changed["change"]["size"] == pytest.approx(0.12, abs=0.01)
    assert changed["change"]["probability"] > 0.95
    assert "from value 31 of 60" in changed["text"]
    assert {v["verdict"] for v in verdicts.values()} == {"PASS"}


def journal(
    here: Path,
    node: str,
    speed: float,
    vbios: str = "",
    *,
    looks: int = 1,
    planned: str = "",
    more: Event | None = None,
) -> None:
    """Write the journal of one finished measuring run.

    Args:
        here: The store lies there.
        node: Name of the node.
        speed: Median of the three values.
        vbios: Of its only card.
        looks: How many looks the values come from.
        planned: A second test that never reports.
        more: A further event.
    """
    from pytest_anubis.core.events import Measured, RunFinished, RunStarted, TestsPlanned
    from pytest_anubis.core.inventory import Accelerator, Inventory
    from pytest_anubis.core.measurement import Measurement, PlannedTest
    from pytest_anubis.core.metric import Metric
    from pytest_anubis.hardware.inventory.inventory_reading import inventory_to_plain
    from pytest_anubis.store.journal.journal_file import Journal

    card = Accelerator(index=0, vendor="nvidia", name="H100", vbios=vbios, serial=node)
    inventory = Inventory(node=node, accelerators=(card,))
    run = f"run-{node}"
    writer = Journal.create(here / "store", run)
    writer.write(
        RunStarted(
            run=run,
            node=node,
            started="2026-01-01T00:00:00+00:00",
            hardware_class="c",
            attributes={"accelerator": "H100"},
            profile="smoke",
            inventory=inventory_to_plain(inventory),
        )
    )
    measurement = Measurement(
        test="t",
        benchmark="t",
        component="accelerator.compute",
        metric=Metric(name="rate", unit="GB/s", better="higher"),
        device="cuda:0",
        values=(speed, speed * 1.001, speed * 0.999),
        looks=looks,
    )
    if planned:
        writer.write(TestsPlanned(tests=(PlannedTest(test=planned, benchmark=planned),)))
    if more is not None:
        writer.write(more)
    writer.write(Measured(measurement=measurement))
    writer.write(RunFinished(exit_status=0, ended="2026-01-01T00:01:00+00:00"))
    writer.close()


def test_a_failed_check_counts_alike_everywhere(here: Path) -> None:
    from pytest_anubis.core.events import TestFinished
    from pytest_anubis.core.measurement import TestResult

    for i in range(8):
        how = "failed" if i == 3 else "passed"
        ended = TestFinished(
            result=TestResult(test="p.py::check", benchmark="p.py::check", outcome=how)
        )
        journal(here, f"n{i}", 100 + 0.01 * i, planned="p.py::check", more=ended)
    learned = anubis("learn", "store", "--error-rate", "none", "-o", "base")
    assert "1 of its 8 nodes is rejected" in learned.stdout, learned.stdout + learned.stderr
    assert "n3: p.py::check failed" in learned.stdout
    done = anubis("judge", "store", "--baseline", "base")
    assert "8 nodes: 1 REJECTED, 0 UNDECIDED, 7 ACCEPTED" in done.stdout
    past = anubis("baseline", "backtest", "store", "--new", "base", "--baseline", "base")
    assert "8 nodes in 8 runs: 1 rejected before, 1 now" in past.stdout


def test_learning_names_the_firmware_of_a_group(here: Path) -> None:
    for i in range(24):
        old = i % 3 == 0
        journal(here, f"n{i:02d}", (80 if old else 100) + 0.01 * i, "95.0" if old else "96.1")
    learned = anubis("learn", "store", "--error-rate", "none", "--html", "page.html")
    assert learned.returncode == 0, learned.stderr
    text = "accelerator vbios separates them: 95.0 against 96.1"
    assert "8 of 24 nodes form a second population" in learned.stdout
    assert text in learned.stdout
    assert text in (here / "page.html").read_text()


def test_a_class_is_split_by_firmware(here: Path) -> None:
    for i in range(24):
        old = i % 2 == 0
        journal(here, f"n{i:02d}", (80 if old else 100) + 0.01 * i, "95.0" if old else "96.1")
    assert anubis("learn", "store").returncode == 20
    shown = anubis("baseline", "populations", "baselines").stdout
    assert "12 of 24 have 80.11 GB/s" in shown
    assert "or learn the groups apart: anubis learn RUNS --split 'accelerator vbios'" in shown
    assert "with --anubis-split='accelerator vbios'" in shown
    learned = anubis("learn", "store", "-o", "apart", "--split", "accelerator vbios")
    assert learned.returncode == 0, learned.stderr
    names = sorted(path.name for path in (here / "apart").glob("*.json"))
    assert names == ["c_accelerator-vbios-95.0.json", "c_accelerator-vbios-96.1.json"]
    split = ("--split", "accelerator vbios")
    assert anubis("judge", "store", "--baseline", "apart", *split).returncode == 0
    assert anubis("judge", "store", "--baseline", "apart").returncode == 20
    journal(here, "m", 80.0, "96.1")
    assert anubis("judge", "store", "--baseline", "apart", *split).returncode == 1
    wrong = anubis("learn", "store", "--split", "vbios")
    assert wrong.returncode == 2
    assert "--split vbios: no run has this attribute; choose one of: " in wrong.stderr


def test_every_class_of_a_file_is_learned(here: Path) -> None:
    values = fleet(5, 1)
    write(here / "runs.csv", values)
    rows = (here / "runs.csv").read_text().splitlines()
    rows = [rows[0] + ",class", *(f"{row},A" for row in rows[1:])]
    rows += [f"m{i},cuda:0,copy,rate,GB/s,higher,{50 + 0.1 * i},B" for i in range(4)]
    rows += [
        "lonely,cuda:0,copy,rate,GB/s,higher,7,C",
        "other,cuda:0,copy,rate,MB/s,higher,100000,A",
        "nan,cuda:0,copy,rate,GB/s,higher,nan,A",
        "negative,cuda:0,copy,rate,GB/s,higher,-1,A",
        "infinite,cuda:0,copy,rate,GB/s,higher,inf,A",
        "empty,cuda:0,copy,rate,GB/s,higher,,A",
    ]
    (here / "runs.csv").write_text("\n".join(rows) + "\n")
    learned = anubis("learn", "runs.csv", "--error-rate", "none", "--html", "page.html")
    assert learned.returncode == 2
    assert "C: no criterion could be learned" in learned.stderr
    assert {path.name for path in (here / "baselines").glob("*.json")} == {"A.json", "B.json"}
    assert {path.name for path in here.glob("page*.html")} == {"page-A.html", "page-B.html"}
    assert anubis("judge", "runs.csv", "--json", "out.json").returncode == 20
    found = {v["node"]: (v["verdict"], v["reason"]) for v in judged(here / "out.json")["verdicts"]}
    assert found["n00"] == ("PASS", "within")
    assert found["m0"] == ("PASS", "within")
    assert found["lonely"] == ("INCONCLUSIVE", "no-baseline")
    assert found["other"] == ("INCONCLUSIVE", "wrong-unit")
    assert found["nan"] == ("INCONCLUSIVE", "invalid")
    assert found["negative"] == ("INCONCLUSIVE", "invalid")
    assert found["infinite"] == ("INCONCLUSIVE", "invalid")
    assert found["empty"] == ("NOT_TESTED", "not-reported")


def test_a_folder_of_one_baseline_stands_for_it(here: Path) -> None:
    for name, factor in (("old", 1.0), ("new", 1.02)):
        values = {key: [factor * v for v in sample] for key, sample in fleet(8, 1).items()}
        write(here / f"{name}.csv", values)
        assert anubis("learn", f"{name}.csv", "--error-rate", "none", "-o", name).returncode == 0
    assert "+2.0 %" in anubis("baseline", "diff", "old", "new").stdout
    past = anubis("baseline", "backtest", "old.csv", "--new", "new", "--baseline", "old")
    assert past.returncode == 0, past.stderr
    assert "8 nodes in 8 runs: 0 rejected before, 0 now" in past.stdout
    (here / "old" / "second.json").write_text("{}")
    refused = anubis("baseline", "show", "old")
    assert refused.returncode == 2
    assert "a folder of 2 baselines; name one of them" in refused.stderr


def test_a_nodes_earlier_runs_judge_its_latest(here: Path) -> None:
    rng = np.random.default_rng(5)
    rows = [HEAD + ",run"]
    for node, factor in (("a", 0.85), ("b", 1.0)):
        for day in range(1, 8):
            for _ in range(10):
                speed = 100 * (factor if day == 7 else 1.0) * np.exp(rng.normal(0, 0.003))
                rows.append(f"{node},cpu,copy,rate,GB/s,higher,{speed:.5f},day{day}")
    (here / "runs.csv").write_text("\n".join(rows) + "\n")
    done = anubis("judge", "runs.csv", "--json", "out.json")
    assert done.returncode == 1, done.stdout
    assert "by 6 earlier runs of this device" in done.stdout
    data = judged(here / "out.json")
    assert {n["node"]: n["decision"] for n in data["nodes"]} == {"a": "REJECTED", "b": "UNDECIDED"}
    own = [v for v in data["verdicts"] if v["reference"] == "self"]
    assert [(v["node"], v["verdict"]) for v in own] == [("a", "FAIL"), ("b", "PASS")]


def decisions(done: subprocess.CompletedProcess[str], out: Path) -> dict[str, str]:
    assert "Traceback" not in done.stderr
    return {node["node"]: node["decision"] for node in judged(out)["nodes"]}


@pytest.fixture
def learned(here: Path) -> Path:
    """Learn a baseline from eight healthy nodes."""
    for number in range(8):
        journal(here / "old", f"n{number}", 100 + 0.1 * number)
    assert anubis("learn", "old/store", "--error-rate", "none").returncode == 0
    return here


HIDDEN = "cuda:1 is hidden by CUDA_VISIBLE_DEVICES=0 and not tested"


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ({"planned": "suite.py::test_other"}, "suite.py::test_other"),
        (
            {"more": WorkerDied(lane="cuda:0", text="signal 11")},
            "lane cuda:0, while no test was running: signal 11",
        ),
        ({"more": BlockerFound(text=HIDDEN)}, HIDDEN),
    ],
    ids=["a test without a report", "a dead worker", "a hidden device"],
)
def test_what_a_run_did_not_measure_prevents_acceptance(
    learned: Path, found: dict[str, Any], words: str
) -> None:
    journal(learned, "whole", 100)
    journal(learned, "torn", 100, **found)
    done = anubis("judge", "store", "--json", "out.json")
    assert done.returncode == 20, done.stdout
    assert decisions(done, learned / "out.json") == {"whole": "ACCEPTED", "torn": "UNDECIDED"}
    assert words in done.stdout


def test_a_repeated_test_counts_where_all_is_required(learned: Path) -> None:
    repeated = TestRepeated(test="suite.py::test_flaky", text="assert 0")
    journal(learned, "flaky", 100, more=repeated)
    mild = anubis("judge", "store", "--json", "out.json")
    assert decisions(mild, learned / "out.json") == {"flaky": "ACCEPTED"}
    strict = anubis("judge", "store", "--json", "out.json", "--require-all")
    assert decisions(strict, learned / "out.json") == {"flaky": "UNDECIDED"}
    assert "suite.py::test_flaky: an attempt failed and was repeated: assert 0" in strict.stdout


def test_a_damaged_journal_is_no_acceptance(learned: Path) -> None:
    journal(learned, "whole", 100)
    (learned / "store" / "runs" / "bad").mkdir()
    (learned / "store" / "runs" / "bad" / "journal.jsonl").write_bytes(b"\x00\xff not a journal")
    done = anubis("judge", "store", "--json", "out.json")
    assert done.returncode == 20
    assert decisions(done, learned / "out.json") == {"whole": "ACCEPTED"}
    assert "not judged: 1 file that could not be read" in done.stdout


def test_a_confirmed_loss_is_rejected_as_in_the_run(learned: Path) -> None:
    (path,) = (learned / "baselines").glob("*.json")
    data = json.loads(path.read_text())
    for criterion in data["criteria"]:
        criterion.update(limit=0.95, hasty=0.6)
    path.write_text(json.dumps(data))
    assert anubis("baseline", "promote", str(path)).returncode == 0
    journal(learned, "single", 80)
    journal(learned, "confirmed", 80, looks=16)
    done = anubis("judge", "store", "--json", "out.json")
    assert done.returncode == 1, done.stdout + done.stderr
    found = decisions(done, learned / "out.json")
    assert found == {"single": "ACCEPTED", "confirmed": "REJECTED"}
    listed = {node["node"]: node["noted"] for node in judged(learned / "out.json")["nodes"]}
    assert "cannot show such a loss" in listed["single"][0]


def test_json_to_the_standard_output_is_json_alone(here: Path) -> None:
    write(here / "runs.csv", fleet(3, 8))
    to_file = anubis("judge", "runs.csv", "--json", "out.json")
    printed = anubis("judge", "runs.csv", "--json", "-")
    assert json.loads(printed.stdout) == judged(here / "out.json")
    assert "3 UNDECIDED" in printed.stderr
    assert printed.returncode == to_file.returncode == 20
    assert not (here / "-").exists()
    page = anubis("judge", "runs.csv", "--json", "-", "--html", "page.html")
    assert json.loads(page.stdout)
    assert "page.html" in page.stderr


def test_the_file_of_verdicts_follows_no_link(here: Path) -> None:
    write(here / "runs.csv", fleet(3, 8))
    (here / "precious").write_text("mine")
    for name in ("out.json.partial", ".out.json.new", "out.json"):
        (here / name).symlink_to(here / "precious")
    anubis("judge", "runs.csv", "--json", "out.json")
    assert judged(here / "out.json")["schema"] == 2
    assert (here / "precious").read_text() == "mine"


def test_what_to_act_on_first_stands_first(here: Path) -> None:
    old = fleet(30, 2)
    write(here / "old.csv", old)
    assert anubis("learn", "old.csv", "--error-rate", "none").returncode == 0
    new = fleet(10, 2)
    for node, factor, count in (
        ("n02", 0.94, 6),
        ("n04", 0.5, 1),
        ("n06", 0.7, 6),
        ("n08", 0.2, 6),
    ):
        key = (node, "cuda:1", "rate")
        new[key] = [factor * value for value in new[key][:count]]
    write(here / "new.csv", new)
    done = anubis("judge", "new.csv", "--json", "out.json")
    assert done.returncode == 1  # whether sure or not
    lines = done.stdout.splitlines()
    assert [line.split()[:3] for line in lines[:4]] == [
        ["REJECTED", "slow", "n08:"],
        ["REJECTED", "slow", "n06:"],
        ["RETEST", "single", "value"],
        ["RETEST", "borderline", "n02:"],
    ]
    assert "n08: copy rate on cuda:1 80 % slower: 19.97 GB/s, expected" in lines[0]
    assert lines[2].endswith(" -> measure again first")
    verbose = anubis("judge", "new.csv", "-v").stdout
    assert "note: hardware class unclassified: not searched for changes" in verbose
    assert "10 nodes: 2 REJECTED, 2 RETEST, 0 UNDECIDED" in done.stdout
    data = judged(here / "out.json")
    assert [n["node"] for n in data["nodes"][:4]] == ["n08", "n06", "n04", "n02"]
    headline = data["nodes"][2]["headline"]
    assert "(retest: a single value); also 1 borderline. Next step: measure again" in headline
    worst = [v for v in data["verdicts"] if v["scope"] == "unit" and "triage" in v]
    assert [(v["node"], v["triage"]) for v in worst] == [
        ("n08", "reject"),
        ("n06", "reject"),
        ("n04", "retest"),
        ("n02", "retest"),
    ]
    assert [round(v["loss"], 1) for v in worst] == [0.8, 0.3, 0.5, 0.1]
    assert worst[1]["certainty"] > 0.99
    assert "(retest: seen in one look only)" in worst[3]["text"]
    # Of single units, and of the whole node: one metric.
    assert "n00: 1 metric judged, none failed" in done.stdout


def test_whatever_is_rejected_has_a_page_and_a_dossier(here: Path) -> None:
    write(here / "old.csv", fleet(8, 2))
    assert anubis("learn", "old.csv", "--error-rate", "none").returncode == 0
    new = fleet(8, 2)
    new["n04", "cuda:1", "rate"] = [0.8 * value for value in new["n04", "cuda:1", "rate"]]
    write(here / "new.csv", new)
    done = anubis("judge", "new.csv", "--html", "all.html")
    assert done.returncode == 1
    assert "ACCEPTED       7 nodes (n00, n01, n02, n03, n05, n06, and 1 more)" in done.stdout
    page = (here / "all.html").read_text()
    assert "copy rate on cuda:1 20 % slower" in page
    assert "id='heat'" in page  # that of the fleet, in one file
    (card,) = re.findall(r"href='(#n\d+)'[^>]*>n04</a>: copy rate on cuda:1 20 % slower", page)
    assert f"id='{card[1:]}'" in page
    done = anubis("report", "new.csv", "--node", "n04", "--html", "n04.html", "--json", "n04.json")
    assert done.returncode == 0, done.stderr
    assert "REJECTED: node n04: copy (2 of " in done.stdout
    page = (here / "n04.html").read_text()
    assert "<h2>What is wrong</h2>" in page
    assert "<svg" in page
    assert "6 values;" in page  # without times
    assert "0 ms" not in page
    data = judged(here / "n04.json")
    assert data["node_verdict"]["decision"] == "REJECTED"
    assert {len(one["values"]) for one in data["measurements"]} == {6}
    done = anubis("report", "new.csv", "--html", "many.html")
    assert "8 nodes: 1 REJECTED, 0 UNDECIDED, 7 ACCEPTED" in done.stdout
    assert (here / "many.html").read_text() == (here / "all.html").read_text()
    (here / "nodes.csv").write_text("node,rack\n" + "".join(f"n0{i},r{i % 2}\n" for i in range(8)))
    racks = ("--nodes-file", "nodes.csv", "--html", "racks.html")
    for command in ("judge", "report"):
        (here / "racks.html").unlink(missing_ok=True)
        assert anubis(command, "new.csv", *racks).returncode in (0, 1)
        assert "rack r0 (4)" in (here / "racks.html").read_text()
    done = anubis("report", "new.csv", "--node", "n99")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "--node n99: not among these; there is n00" in done.stderr
    done = anubis("report", "new.csv", "--prometheus", "-")
    assert (done.returncode, done.stderr.count("add --node NAME")) == (2, 1)


def test_runs_of_one_node_are_reported_as_one(learned: Path) -> None:
    journal(learned, "first", 80)
    done = anubis("report", "store", "--html", "n.html")
    assert done.returncode == 0, done.stderr
    assert "run run-first of first, 2026-01-01T00:00:00+00:00" in done.stdout
    page = (learned / "n.html").read_text()
    assert "REJECTED</span> <b>accelerator.compute" in page
    assert "inventory" in page  # the journal's


def test_the_dossiers_command_names_the_class(here: Path) -> None:
    rows = [
        f"n1,copy,rate,GB/s,higher,{value},{key}" for key in "AB" for value in (100, 100, 100, 100)
    ]
    head = "node,benchmark,metric,unit,better,value,class"
    (here / "two.csv").write_text("\n".join([head, *rows]) + "\n")
    done = anubis("judge", "two.csv")
    (offered,) = [line for line in done.stdout.splitlines() if "worst node, n1: anubis " in line]
    offered = offered.partition(": anubis ")[2]
    assert "--node n1 --class A" in offered
    assert anubis(*shlex.split(offered)).returncode == 0
    assert "<h1>" in (page := (here / "node.html").read_text())
    assert "id='heat'" not in page
