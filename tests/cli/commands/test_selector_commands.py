"""``anubis select``, ``risk``, ``simulate`` and the defects of ``history``, as their users type them."""

from __future__ import annotations

import json
import math
import re
import shutil
import sqlite3
import time
from pathlib import Path

import pytest

from pytest_anubis.cli.main import main
from pytest_anubis.selector.risk.choosing import model_choice
from pytest_anubis.store.history.database import History
from tests.postgres import new_database
from tests.session.selector_story import ALL, DAY, HERE, happened, names, write_history


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a fleet's past, written once."""
    store = tmp_path_factory.mktemp("past")
    write_history(store)
    return store


@pytest.fixture
def here(tmp_path: Path, past: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose store has that past."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(past, tmp_path / ".anubis")
    return tmp_path


def said(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().out


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run a command that must be refused with one line; return it."""
    assert main(arguments) == 2
    captured = capsys.readouterr()
    (line,) = captured.err.strip().splitlines()
    return line


def test_select_chooses_for_a_node(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    goal = ("select", "--node", "n05", "--horizon", "30d", "--risk", "0.2")
    assert main([*goal, "--explain"]) == 0
    text = said(capsys)
    assert "n05: exponential model of" in text  # a constant rate is what made this past
    assert "accepted 20 %" in text
    assert re.search(r"(\S+) % \(95 % within (\S+) % to (\S+) %\) after these pass", text)
    assert "note: exponential: no richer one predicted better" in text
    assert all(name in text for name in ALL)
    assert main([*goal, "--json", "-"]) == 0
    record = json.loads(said(capsys))
    assert sorted([*record["chosen"], *(item["benchmark"] for item in record["pruned"])]) == ALL
    low, high = record["residual_interval"]
    assert low < record["residual_risk"] < high
    assert record["residual_risk"] <= 0.2 < record["risk_before"] == record["nodes"]["n05"]
    assert main([*goal, "--ids"]) == 0
    assert said(capsys).split() == record["chosen"]


def test_select_keeps_what_exposed_an_open_defect(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    goal = ("select", "--node", "n05", "--by", "budget", "--budget", "1s", "--ids")
    assert main(goal) == 0
    left_out = next(name for name in ALL if name not in said(capsys).split())
    assert main(["history", "defect", "add", "--node", "n05", "--benchmark", left_out]) == 0
    said(capsys)
    change = "update defects set state = 'open' where id = (select max(id) from defects)"
    with sqlite3.connect(here / ".anubis" / "history.sqlite") as connection:
        connection.execute(change)  # as a rejected run leaves it
    assert main(goal) == 0
    assert left_out in said(capsys).split()


def test_select_follows_a_network_incident(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    goal = ("select", "--node", HERE, "--by", "budget", "--budget", "4m", "--ids")
    network = {*names("network.loopback"), *names("network.collective")}
    main(goal)
    before = set(said(capsys).split())
    with History(here / ".anubis") as history:
        happened(history, HERE, "nic", time.time() - 3 * 3600, 1.0)
    main(goal)
    after = set(said(capsys).split())
    assert len(after & network) > len(before & network)


def test_several_nodes_share_a_choice(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nodes = [argument for name in ("n01", "n02", "n20") for argument in ("--node", name)]
    assert main(["select", *nodes, "--risk", "0.1", "--json", "-"]) == 0
    record = json.loads(said(capsys))
    alone = [record["nodes"][name] for name in ("n01", "n02", "n20")]
    assert record["risk_before"] == pytest.approx(1 - math.prod(1 - p for p in alone))


def test_risk_shows_saves_and_draws(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    auto = ["risk", "--html", "risk.html", "--save", "--json", "risk.json"]
    assert main([*auto, "--model", "cox"]) == 0
    text = said(capsys)
    assert "60 nodes: " in text
    assert "model: cox, as named: compared with no other ('--model auto' compares)" in text
    assert "95 % within: how far the model's predictions were off at 4 earlier moments" in text
    assert "20 more nodes (--all shows them)" in text
    page = (here / "risk.html").read_text()
    assert page.count("<svg") == 3  # the named model's calibration as well
    document = json.loads((here / "risk.json").read_text())
    risks = [node["probability"] for node in document["nodes"]]
    assert risks == sorted(risks, reverse=True)
    assert document["expected_incidents"] == pytest.approx(sum(risks))
    # The ten nodes of the story that are ten times worse are given from the others.
    worst = {node["node"] for node in document["nodes"][:10]}
    assert len(worst & {f"n{number:02}" for number in range(1, 11)}) >= 8
    # What was saved says the same.
    assert main(["risk", "--load", ".anubis/risk-model.json", "--json", "-"]) == 0
    again = json.loads(said(capsys))
    for one, two in zip(document["nodes"], again["nodes"], strict=True):
        assert one["probability"] == pytest.approx(two["probability"], rel=0.01)


def test_auto_says_why_and_how_good_it_is(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_choice, "NETWORK_FROM", 10_000)  # no minute for a network
    assert main(["risk", "--horizon", "7d", "--save", "--html", "risk.html"]) == 0
    text = said(capsys)
    assert "model: exponential: no richer one predicted better over 4 earlier moments" in text
    assert re.search(r"exponential +0\.\d{3} .* chosen", text)
    assert re.search(r"cox-time +- .* needs 10000 incidents, there are \d+", text)
    assert "incidents predicted and seen within " in text
    assert "ranking (C): how often, of two nodes, the one that failed first" in text
    assert "models: exponential, an incident is as likely in every hour; weibull, " in text
    assert (here / "risk.html").read_text().count("<svg") == 3
    # The saved model agrees, and every risk has its interval.
    assert main(["risk", "--json", "-"]) == 0
    document = json.loads(said(capsys))
    assert document["backtest"]["reason"].startswith("exponential")
    assert all(node["low"] < node["probability"] < node["high"] for node in document["nodes"])


@pytest.mark.parametrize("model", ["exponential", "weibull", "cox"])
def test_every_model_survives_its_file(
    here: Path, capsys: pytest.CaptureFixture[str], model: str
) -> None:
    assert main(["risk", "--model", model, "--save", "m.json", "--json", "a.json"]) == 0
    assert main(["risk", "--load", "m.json", "--json", "b.json"]) == 0
    one, two = (json.loads((here / name).read_text()) for name in ("a.json", "b.json"))
    assert model in one["basis"]
    assert one["basis"] == two["basis"]
    pairs = zip(one["nodes"], two["nodes"], strict=True)
    for a, b in pairs:
        for name in ("low", "probability", "high"):
            assert a[name] == pytest.approx(b[name], rel=0.01)
        assert a["low"] < a["probability"] < a["high"]


@pytest.mark.parametrize("count", [2, 30])
@pytest.mark.parametrize("model", ["auto", "exponential", "weibull"])
def test_few_incidents_give_a_wide_interval(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    model: str,
    count: int,
) -> None:
    monkeypatch.chdir(tmp_path)
    now = time.time()
    with History(tmp_path / ".anubis") as history:
        for number in range(12):
            history.add_node(f"n{number:02}", since=now - (60 + number) * DAY)
        for number in range(count):
            happened(history, f"n{number * number % 7:02}", "nic", now - (2 + number) * DAY, 1.0)
    found = ("history", "defect", "add", "--node", "n03", "--benchmark", "a.py::test_a")
    assert main([*found, "--new-benchmark", "--component", "network.loopback"]) == 0
    assert main(["risk", "--model", model, "--save", "--json", "r.json"]) == 0
    text = said(capsys)
    assert f"95 % within: what {count} incidents leave open (exact)" in text
    document = json.loads(Path("r.json").read_text())
    for node in document["nodes"]:
        assert node["low"] < node["probability"] < node["high"]
    widest = max(node["high"] / node["probability"] for node in document["nodes"])
    assert widest > (3 if count == 2 else 1.3)
    if model == "auto":  # no facts about nodes: the rate's own evidence
        assert f"because, of every node: {count} incidents in " in text
        assert all("days of service of 12 nodes" in n["drivers"][-1] for n in document["nodes"])
    elif count == 30:
        assert any(node["drivers"] for node in document["nodes"])
    # The same where benchmarks are chosen, from the model that was kept.
    assert main(["select", "--node", "n03", "--explain", "--risk", "0.5"]) == 0
    text = said(capsys)
    (line,) = [line for line in text.splitlines() if line.startswith("n03: risk ")]
    assert re.search(r"n03: risk \S+ % \(95 % within <?\S+ % to \S+ %\): \w", line)
    assert re.search(r"risk of an incident in 24 h \S+ % \(95 % within \S+ % to \S+ %\)", text)


def test_simulate_compares_policies(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    goal = ("simulate", "--nodes", "64", "--time", "20d", "--seeds", "3", "--risk", "0.1,0.02")
    assert main([*goal, "--jobs", "1", "--html", "sim.html", "--json", "sim.json"]) == 0
    text = said(capsys)
    document = json.loads((here / "sim.json").read_text())
    by_name = {(row["policy"], row["knob"]): row for row in document["policies"]}
    none, full = by_name["none", ""], by_name["full set", ""]
    assert (none["validation"], none["gain"], full["share"]) == (0, 1, 1)
    careful = by_name["selector", "p0=0.02"]
    assert none["mtbi"] < careful["mtbi"]
    assert 0 < careful["validation"] < full["validation"] / 4
    assert careful["low"] <= careful["gain"] <= careful["high"]
    assert "p0=0.02" in text
    assert "22.61" in text
    assert (here / "sim.html").read_text().count("<svg") == 1
    assert main([*goal, "--jobs", "2", "--json", "-"]) == 0
    assert json.loads(said(capsys)) == document  # the same, however many processes


def test_defects_are_recorded_listed_and_closed(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = "history defect add --node n05 --benchmark a.py::test_a --new-benchmark"
    found += " --component storage.disk --on 2026-01-02"
    assert main(found.split()) == 0
    number = said(capsys).split()[1]
    assert main(["history", "defect", "close", number, "--as", "false-alarm"]) == 0
    said(capsys)
    assert main(["history", "--node", "n06", "defect", "list"]) == 0
    assert f"{number:>6}" not in said(capsys)
    assert main(["history", "defect", "list", "--node", "n05"]) == 0
    (line,) = [line for line in said(capsys).splitlines() if line.startswith(f"{number:>6}")]
    assert "false alarm" in line
    assert "a.py::test_a" in line
    assert main(found.split()) == 0
    sighting = said(capsys).split()[1]
    for one in (number, sighting):
        assert main(["history", "defect", "close", one, "--as", "open", "--json", "-"]) == 0
        assert json.loads(said(capsys)) == {"number": int(number), "state": "open"}


def test_incidents_are_listed_and_taken_out(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = "history incident add --node n05 --kind psu --started 2026-01-02"
    assert main(given.split()) == 0
    assert said(capsys) == "incident added\n"
    assert main([*given.split(), "--duration", "90m"]) == 0
    assert said(capsys) == "this incident was known already\n"
    assert main(["history", "incident", "list", "--node", "n05", "--limit", "1000"]) == 0
    (line,) = [line for line in said(capsys).splitlines() if " psu " in line]
    assert "1 h 30 min" in line
    assert main(["history", "incident", "withdraw", line.split()[0]]) == 0
    said(capsys)
    assert main(["history", "incident", "list", "--limit", "1000"]) == 0
    assert "psu" not in said(capsys)
    assert main(["history", "incident", "list", "--limit", "2"]) == 0
    assert len(said(capsys).splitlines()) == 4  # header, two of them, and how many more


def test_a_node_that_was_removed_has_no_risk(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def nodes() -> set[str]:
        assert main(["risk", "--model", "exponential", "--json", "-"]) == 0
        return {node["node"] for node in json.loads(said(capsys))["nodes"]}

    before = nodes()
    assert main(["history", "state", "--node", "n05", "--as", "removed", "--note", "sold"]) == 0
    said(capsys)
    assert nodes() == before - {"n05"}
    assert main(["history", "--node", "n05"]) == 0
    assert re.fullmatch(r"node n05, removed since 20\d\d-\S+ \S+, no runs yet\n", said(capsys))
    assert main(["history", "state", "--node", "n05", "--as", "in-service"]) == 0
    said(capsys)
    assert nodes() == before


def test_a_fleets_database_serves_all_commands(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    postgres_url: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    there = ("--store", new_database(postgres_url, "commands"))
    lines = [f"n{i % 3},nic,2026-0{1 + i % 9}-1{i % 7}T0{i % 8}:00:00Z,1" for i in range(40)]
    Path("i.csv").write_text("\n".join(["node,kind,started,duration", *dict.fromkeys(lines)]))
    assert main(["history", "incident", "import", "i.csv", "--add-nodes", *there]) == 0
    for name in ("a", "b", "a"):
        found = (
            f"history defect add --node=n1 --new-benchmark --benchmark=t.py::test_{name}".split()
        )
        assert main([*found, "--component", "network.loopback", "--kind", "nic", *there]) == 0
    assert main(["history", "defect", "close", "2", "--as", "false-alarm", *there]) == 0
    assert main(["history", "state", "--node", "n2", "--as", "removed", *there]) == 0
    assert main(["risk", *there, "--save", "model.json"]) == 0
    capsys.readouterr()
    assert main(["risk", *there, "--load", "model.json", "--json", "-"]) == 0
    assert [node["node"] for node in json.loads(said(capsys))["nodes"]] != []
    assert main(["select", "--node", "n1", *there, "--budget", "90s", "--ids"]) == 0
    assert said(capsys).split() == ["t.py::test_a"]
    assert not Path(".anubis").exists()


# What cannot be used is refused with one line that says how to fix it.


INCIDENT = "history incident add --kind nic --node"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("select --node n99", "as do 'anubis history nodes import' and"),
        ("select", "knows 60 nodes; name one"),
        ("select --node n05 --budget=5m --by=risk", "not for --by risk"),
        ("select --node n05 --store nowhere", "no history yet"),
        ("risk --node n99", "as do 'anubis history nodes import' and"),
        ("risk --store nowhere", "no history yet"),
        ("risk --load none.json", "none.json: cannot be read"),
        ("risk --load m --model cox", "give one of them"),
        ("simulate --nodes 10", "at least 64"),
        ("simulate --seeds 0", "at least 1"),
        ("history defect add --node n99 --benchmark x", "'n99' is unknown"),
        ("history defect add --node n05 --benchmark x --on 2099-01-01", "future"),
        ("history state --node n05 --as repair --on yesterday", "is not a date such"),
        (f"{INCIDENT} n05 --started 2099-01-01", "future"),
        (f"{INCIDENT} n99 --started 2026-01-01", "'n99' is unknown"),
        (f"{INCIDENT} n05 --started 2026-01-01 --duration=-2h", "negative"),
        ("history defect close 9999 --as confirmed", "no defect 9999"),
        ("history incident withdraw 9999", "no incident 9999"),
        ("history state --node n99 --as repair", "'n99' is unknown"),
        ("history state --node n05 --as repair --on 2099-01-01", "future"),
    ],
)
def test_wrong_input_is_one_line(
    here: Path, capsys: pytest.CaptureFixture[str], arguments: str, words: str
) -> None:
    assert words in refused(capsys, *arguments.split())


@pytest.mark.parametrize(
    "arguments",
    [
        "select --node n05 --risk 1",
        "select --node n05 --risk high",
        "select --node n05 --horizon -3h",
        "select --node n05 --horizon 0",
        "select --node n05 --by budget --budget soon",
        "risk --model oracle",
        "simulate --risk 0,2",
        "simulate --scenario D",
        "history defect close 0 --as open",
        "history defect close one --as open",
        "history incident withdraw -1",
        f"history incident withdraw {'9' * 30}",
    ],
)
def test_wrong_options_are_explained(
    here: Path, capsys: pytest.CaptureFixture[str], arguments: str
) -> None:
    with pytest.raises(SystemExit) as end:
        main(arguments.split())
    assert end.value.code == 2
    command = arguments.partition(" ")[0]
    assert capsys.readouterr().err.strip().splitlines()[-1].startswith(f"anubis {command}")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{}", "not a risk model"),
        ("[1]", "not a risk model"),
        ("{", "not valid JSON"),
        ('{"format": "anubis-risk-model", "schema": NaN}', "not valid JSON"),
        ('{"format": "anubis-risk-model", "schema": 1}', "schema '1', this version reads 2"),
        ('{"format": "anubis-risk-model", "schema": 2}', "are missing or of another type"),
        (
            '{"format": "anubis-risk-model", "schema": 2, "kinds": [], "nodes": 3, "incidents": 3, '
            '"hours": 9.0, "model": '
            '{"schema": 9}}',
            "schema '9', this version reads 1",
        ),
    ],
)
def test_a_model_of_another_kind_is_refused(
    here: Path, capsys: pytest.CaptureFixture[str], text: str, words: str
) -> None:
    (here / ".anubis" / "risk-model.json").write_text(text)
    for command in (("risk",), ("select", "--node", "n05")):
        line = refused(capsys, *command)
        assert words in line
        assert "risk-model.json" in line


def test_an_empty_history_means_the_full_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with History(tmp_path / ".anubis") as history:
        history.add_node("n1", since=time.time() - 9 * DAY)
    assert "knows no benchmark" in refused(capsys, "select", "--node", "n1")
    assert "no incident" in refused(capsys, "risk")
    write_history(tmp_path / ".anubis", incidents=False)
    assert main(["select", "--node", "n1", "--ids"]) == 0
    assert len(said(capsys).split()) == len(ALL)


def test_the_environment_says_where_the_history_is(
    tmp_path: Path, past: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTEST_ANUBIS_HISTORY", str(past))
    assert main(("history", "incident", "list")) == 0
    assert "nic" in said(capsys)
    assert "no history yet" in refused(capsys, "risk", "--store", "elsewhere")
