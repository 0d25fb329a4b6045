"""Every command that speaks of a fleet says the same of it: one word, one order, one number."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import numpy as np
import pytest

from tests.cli.command_line import anubis

NODES, CARDS = 40, 4
IMPORT = ".anubis/imports/new.csv.npz"
SICK = {"n17": "3", "n03": "60", "n09": "7.5"}
"""Node -> its bad value as every command has to show it; worst first."""


def write(path: str, week: int, *, sick: bool, rate_of_n03: float = 60) -> None:
    """Write a table of one week; of the sick fleet n25 has no launch times at all."""
    rng = np.random.default_rng(week)
    rows = ["node,device,benchmark,metric,unit,better,component,value,time"]
    for number in range(NODES):
        node = f"n{number:02d}"
        for card in range(CARDS):
            here = sick and (node, card) in (("n03", 2), ("n09", 1), ("n17", 0))
            rate, time = 100 * np.exp(rng.normal(0, 0.004)), 5 * np.exp(rng.normal(0, 0.004))
            values = {
                "gemm,rate,TFLOP/s,higher,compute": rate_of_n03 if here and node == "n03" else rate,
                "launch,time,us,lower,launch": 7.5 if here and node == "n09" else time,
                "gemm,errors,errors,equal,compute": 3 if here and node == "n17" else 0,
            }
            for metric, value in values.items():
                if sick and node == "n25" and "time" in metric:
                    continue
                when = f"2026-01-{week:02d}T00:00:00+00:00"
                rows.append(f"{node},cuda:{card},{metric},{value:.5g},{when}")
    Path(path).write_text("\n".join(rows) + "\n", encoding="utf-8")


def prepare() -> None:
    """Let every command speak of the same fleet."""
    write("old.csv", 1, sick=False)
    write("new.csv", 8, sick=True)
    assert anubis("import", "table", "old.csv", "new.csv").returncode == 0
    assert anubis("learn", ".anubis/imports/old.csv.npz").returncode == 0
    assert anubis("push", IMPORT, "--baseline", "baselines", "--history", "fleet").returncode == 0
    by = (IMPORT, "--baseline", "baselines")
    commands = {
        "prometheus": ("report", *by, "--node", "n03", "--prometheus", "-"),
        "judge": ("judge", *by, "--json", "judged.json", "--html", "page.html"),
        "status": ("fleet", "status", "--history", "fleet"),
        "drain-list": ("fleet", "drain-list", "--history", "fleet"),
        "node": ("report", *by, "--node", "n03"),
        **{f"health {node}": ("health", "--store", "fleet", "--node", node) for node in SICK},
    }
    found = {name: anubis(*words).stdout for name, words in commands.items()}
    page = re.sub(r"(?s)<(style|script).*?</\1>|<[^>]*>", " ", Path("page.html").read_text())
    Path("said.json").write_text(json.dumps({**found, "page": html.unescape(page)}))


@pytest.fixture
def said(here: Path) -> dict[str, str]:
    """Return what every command said, by its name."""
    found: dict[str, str] = json.loads((here / "said.json").read_text())
    return found


def line_of(node: str, text: str) -> str:
    """Return the first line that names a node with its value."""
    value = re.escape(SICK[node])
    found = re.search(rf"\b{node}\b[^\n]*?(?<![\d.]){value}(?!\.?\d)[^\n\[]*", text)
    assert found, (node, text)
    return found[0]


def test_the_worst_node_comes_first_everywhere(said: dict[str, str]) -> None:
    for name in ("judge", "status", "drain-list", "page"):
        places = [said[name].index(line_of(node, said[name])) for node in SICK]
        assert places == sorted(places), name
    judged = json.loads(Path("judged.json").read_text(encoding="utf-8"))["nodes"]
    assert [one["node"] for one in judged[: len(SICK)]] == list(SICK)


@pytest.mark.parametrize("node", SICK)
def test_values_and_expectations_agree_everywhere(said: dict[str, str], node: str) -> None:
    (row,) = (
        one
        for one in json.loads(Path("judged.json").read_text(encoding="utf-8"))["verdicts"]
        if one["node"] == node and one["verdict"] == "FAIL" and one["scope"] == "unit"
    )
    assert f"{row['value']:g}" == SICK[node]
    shown = [line_of(node, said[name]) for name in ("judge", "status", "drain-list", "page")]
    expected = {re.sub(r".*(expected|must be) (\d[\d.]*\d|\d).*", r"\2", one) for one in shown}
    assert len(expected) == 1, shown
    assert not any("normal" in line for line in shown)
    if node == "n03":
        place = r'anubis_metric_{}{{node="n03",device="cuda:2".*metric="rate",scope="unit".*}} (.*)'
        gauges = [re.search(place.format(what), said["prometheus"]) for what in ("value", "loss")]
        assert [float(one[1]) for one in gauges if one] == [row["value"], row["loss"]]
    if row["metric"] != "errors":
        loss = f"{100 * row['loss']:.0f} %"
        assert all(loss in line_of(node, said[name]) for name in ("judge", "page"))
        assert node != "n03" or loss in said["node"]


def test_cells_of_the_page_show_the_losses_of_judge(said: dict[str, str]) -> None:
    page = Path("page.html").read_text(encoding="utf-8")
    for node in ("n03", "n09"):
        (loss,) = re.findall(r"(\d+) % (?:slower|longer)", _near(node, said["judge"]))
        assert re.search(rf"FAIL, {loss} % (slower|longer)", page), node


def test_a_node_is_called_the_same_everywhere(said: dict[str, str]) -> None:
    undecided = [line for line in said["judge"].splitlines() if "UNDECIDED" in line]
    assert "n25" in undecided[0]
    assert re.search(r"n25 +UNDECIDED", said["status"])
    assert "n25" not in said["drain-list"]
    for name in ("judge", "status", "drain-list"):
        again = [node for node in SICK if "measure again first" in _near(node, said[name])]
        assert again == ["n03", "n09"], name
    assert re.search(r"measure again first, .*: gemm on n03; launch on n09\n", said["judge"])
    for name in ("judge", "status"):
        assert "40 nodes: 1 REJECTED, 2 RETEST, 1 UNDECIDED, 36 ACCEPTED" in said[name], name
    assert "REJECTED 1 RETEST 2 UNDECIDED 1 ACCEPTED 36" in " ".join(said["page"].split())
    assert said["node"].splitlines()[1].startswith("RETEST: node n03: compute")
    assert 'anubis_node_word{node="n03",word="RETEST"} 1.0' in said["prometheus"]


def _near(node: str, text: str) -> str:
    """Return the whole line with a node's value."""
    line = line_of(node, text)
    return next(one for one in text.splitlines() if line in one)


@pytest.mark.parametrize("node", SICK)
def test_a_node_has_the_same_next_step_everywhere(said: dict[str, str], node: str) -> None:
    steps = {_near(node, said[name]).rpartition(" -> ")[2] for name in ("judge", "status")}
    assert len(steps) == 1, steps


def test_status_has_the_words_order_causes_and_steps_of_judge(said: dict[str, str]) -> None:
    judged = json.loads(Path("judged.json").read_text(encoding="utf-8"))["nodes"]
    status = json.loads(anubis("fleet", "status", "--history", "fleet", "--json", "-").stdout)
    pairs = list(zip(judged, status["nodes"], strict=True))
    assert [(one["node"], one["is"]) for one, _ in pairs[:4]] == [
        (one["node"], one["is"]) for _, one in pairs[:4]
    ]
    assert pairs[4][0]["is"] == "ACCEPTED"
    # Of one import alone the history adds that another one may have what this one lacks.
    assert all(other["next"].endswith(one["next"]) for one, other in pairs)
    lines = {node: _near(node, said["judge"]) for node in SICK}
    for one in status["nodes"]:
        if one["node"] in lines:
            assert one["why"].rpartition("; run ")[0] in lines[one["node"]]


def test_health_has_the_value_and_the_word_of_judge(said: dict[str, str]) -> None:
    for node, value in SICK.items():
        line = said[f"health {node}"]
        assert re.search(rf"(?<![\d.]){re.escape(value)}(?!\.?\d)", line), line
        again = "RETEST" in _near(node, said["judge"])
        assert ("measure again first" in line) is again, line


def test_judge_knows_which_nodes_are_out_of_service_already(said: dict[str, str]) -> None:
    assert "take out of service" not in said["judge"]  # one node has a line of its own
    state = ("history", "state", "--history", "fleet", "--node", "n17", "--as", "drained")
    assert anubis(*state).returncode == 0
    done = anubis("judge", "--history", "fleet", "--baseline", "baselines")
    assert "out of service already: n17\n" in done.stdout
    assert "take out of service" not in done.stdout


SPEAKING = (
    ("fleet", "status", "--history", "fleet"),
    ("fleet", "drain-list", "--history", "fleet"),
)


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Go to a folder without the fleet of the other tests, where only old.csv is to learn from."""
    monkeypatch.chdir(tmp_path)
    write("old.csv", 1, sick=False)


def imported(*tables: str) -> list[str]:
    """Import tables, learn from old.csv, and return the files of the imports."""
    assert anubis("import", "table", "old.csv", *tables).returncode == 0
    assert anubis("learn", ".anubis/imports/old.csv.npz").returncode == 0
    return [f".anubis/imports/{name}.npz" for name in tables]


@pytest.mark.usefixtures("empty")
def test_the_latest_value_is_shown_everywhere() -> None:
    write("before.csv", 8, sick=True, rate_of_n03=60)
    write("new.csv", 15, sick=True, rate_of_n03=62)
    by = (*imported("before.csv", "new.csv"), "--baseline", "baselines")
    assert anubis("push", *by, "--history", "fleet").returncode == 0
    for words in (("judge", *by), *SPEAKING):
        said = anubis(*words).stdout
        (line,) = [one for one in said.splitlines() if "n03" in one and "expected" in one]
        assert re.search(r"\b62 ?TFLOP/s", line), line
        assert "measure again" not in line  # two runs agree


@pytest.mark.usefixtures("empty")
def test_a_look_survives_an_unrelated_run() -> None:
    write("before.csv", 8, sick=True, rate_of_n03=97)
    head, *rows = Path("before.csv").read_text(encoding="utf-8").splitlines()
    again = [one.replace("-08T", "-09T") for one in rows if one.startswith("n03,")]
    Path("new.csv").write_text("\n".join([head, *(o for o in again if ",launch," in o)]) + "\n")
    newer = [o.replace(",97,", ",100,").replace("-09T", "-10T") for o in again]
    Path("newer.csv").write_text("\n".join([head, *newer]) + "\n")
    files = imported("before.csv", "new.csv", "newer.csv")
    for count, word in ((2, "LOOK AT"), (3, "ACCEPTED")):
        by = (*files[:count], "--baseline", "baselines")
        assert anubis("push", *by, "--history", f"fleet{count}").returncode == 0
        status = anubis("fleet", "status", "--history", f"fleet{count}").stdout
        looked = f"{word == 'LOOK AT':d} LOOK AT".replace("0 LOOK AT", "UNDECIDED")
        for said in (anubis("judge", *by).stdout, status):
            assert looked in said, (count, said)
            assert ("LOOK AT" in said) == (word == "LOOK AT"), (count, said)


@pytest.mark.usefixtures("empty")
def test_no_command_names_what_passed_later() -> None:
    """The worst of a run was named, passed since or not: the wrong card was repaired."""
    write("good.csv", 15, sick=False)
    write("before.csv", 8, sick=True)
    text = Path("before.csv").read_text(encoding="utf-8")
    lines = [one for one in text.splitlines() if not one.startswith(("n17,", "n03,", "n25,"))]
    lines += [one.replace("n17,", "n03,") for one in text.splitlines() if one.startswith("n17,")]
    late = [one for one in lines if one.startswith("n03,cuda:1,launch")]
    lines[lines.index(late[0])] = re.sub(r",launch,([^0-9]*),[0-9.]+,", r",launch,\1,7.6,", late[0])
    Path("before.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    good = Path("good.csv").read_text(encoding="utf-8").splitlines()
    again = [one for one in good if one.startswith("n03,") and ",gemm," in one]
    Path("new.csv").write_text("\n".join([good[0], *again]) + "\n", encoding="utf-8")
    by = (*imported("before.csv", "new.csv"), "--baseline", "baselines")
    assert anubis("push", *by, "--history", "fleet").returncode == 0
    for words in (("judge", *by), *SPEAKING, ("health", "--node", "n03", "--store", "fleet")):
        said = anubis(*words).stdout
        line = next(one for one in said.splitlines() if "n03" in one or words[0] == "health")
        assert re.search(r"\b7\.6 us", line), line
        assert "errors" not in line.lower(), line
        assert words[0] == "health" or "RETEST" in line or "# measure again first" in line, line
