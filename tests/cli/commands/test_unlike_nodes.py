"""An accepted node that learning found unlike the others: every form of a judgement says so."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

from pytest_anubis.core.baseline import SelfCheck, UnlikeNode
from pytest_anubis.report.pages.learned_page import learn_page
from pytest_anubis.store.baselines.baseline_files import load_baselines, save_baseline
from tests.cli.command_line import anubis
from tests.cli.commands.test_judge_command import fleet, write

WORDS = "sick or unlike the others"
LOSS = "copy rate on cuda:1 5.0 % slower"


def prepare() -> None:
    """Make runs of eight nodes, and their baseline, which names n03 as unlike the others."""
    values = fleet(8, 2)
    values["n03", "cuda:1", "rate"] = [0.965 * v for v in values["n03", "cuda:1", "rate"]]
    write(Path("runs.csv"), values)
    done = anubis("learn", "runs.csv", "--error-rate", "none", "-o", "base")
    assert done.returncode == 0, done.stderr
    (baseline,) = load_baselines(Path("base")).values()
    unlike = UnlikeNode(
        node="n03", benchmark="copy", metric="rate", device="cuda:1", similarity=0.95, better="higher",
        unit="GB/s", rejected=False,
    )  # fmt: skip
    check = SelfCheck(
        nodes=8, rejected=0, sick=1, rate=0.0, upper=0.3, holds=True, unlike=(unlike,)
    )
    save_baseline(replace(baseline, self_check=check), Path("base"))


def test_terminal_page_and_json_agree(here: Path) -> None:
    done = anubis("judge", "runs.csv", "--baseline", "base", "--html", "o.html", "--json", "o.json")
    assert done.returncode == 0, done.stderr
    assert f"note: 1 accepted node is {WORDS}" in done.stdout
    data = json.loads(Path("o.json").read_text())
    assert [WORDS in note for note in data["notes"]].count(True) == 1
    noted = {node["node"]: " ".join(node["noted"]) for node in data["nodes"]}
    assert f"{WORDS}: {LOSS}" in noted.pop("n03")
    assert WORDS not in "".join(noted.values())
    page = Path("o.html").read_text("utf-8")
    assert f"<a href='#n0'>n03</a>: {LOSS}" in page  # in the box of what is sick
    assert page.count(WORDS) >= 3  # with the notes, and with the node


def test_the_dossier_of_the_node_says_it(here: Path) -> None:
    one = ("report", "runs.csv", "--baseline", "base", "--html", "o.html", "--node")
    for node, named in (("n03", True), ("n04", False)):
        done = anubis(*one, node, "-v")
        assert done.returncode == 0, done.stderr
        assert (WORDS in done.stdout, WORDS in Path("o.html").read_text("utf-8")) == (named, named)


def test_fleet_pages_mark_a_node_worth_a_look(here: Path) -> None:
    done = anubis("report", "--fleet", "runs.csv", "--baseline", "base", "--html", "site")
    assert done.returncode == 0, done.stderr
    page = Path("site/index.html").read_text("utf-8")
    rows = re.findall(r"<tr><th scope='row'>[^(]*?<td><span class='verdict.*?</tr>", page)
    marked = [row for row in rows if f"<span class='mark'>{WORDS}</span>" in row]
    assert len(rows) == 8
    assert ["n03" in row for row in marked] == [True]
    (box,) = re.findall(r"<section class='card MARGINAL'><h2>Sick nodes</h2>.*?</section>", page)
    assert "no node is rejected" in box
    assert f"n03</a>: {LOSS}" in box
    nodes = json.loads(re.findall(r"id='fleet'>(.*?)</script>", page)[0])["nodes"]
    assert [node[0] for node in nodes if node[7] == WORDS] == ["n03"]  # what the script draws


def test_the_page_of_the_baseline_names_it(here: Path) -> None:
    (baseline,) = load_baselines(Path("base")).values()
    page = learn_page(baseline, ())
    assert f"n03: {LOSS}; not enough to reject it" in page
    assert "worst first" not in learn_page(replace(baseline, self_check=None), ())


def test_a_node_that_has_recovered_is_no_note(here: Path) -> None:
    write(here / "runs.csv", fleet(8, 2))
    done = anubis("judge", "runs.csv", "--baseline", "base")
    assert done.returncode == 0, done.stderr
    assert WORDS not in done.stdout
