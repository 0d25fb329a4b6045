"""Words in tables: of success and failure, of summaries, and the cells that messages quote."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_anubis.cli.main import main
from pytest_anubis.store.importers.import_result import Imported
from tests.store.importers.tables import imported, summary, unread


def of(folder: Path, column: str, words: list[str]) -> Imported:
    rows = [f"n{row:02},b,m,GB/s,higher,{row + 1},{word}" for row, word in enumerate(words)]
    return imported(folder, *rows, more=column)


def outcome(found: Imported) -> str:
    """Return a letter for each node: failed, unknown or good."""
    (population,) = found.populations
    failed = {population.nodes[row] for row in population.problems}
    lost = unread(found)
    return "".join(
        "F" if node in failed else "?" if lost[node] else "." for node in population.nodes
    )


@pytest.mark.parametrize(
    ("column", "words", "right"),
    [
        ("p/f", "P F P P", ".F.."),
        ("Result (P/F)", "P P F", "..F"),
        ("P-F", "F P", "F."),
        ("#wrong", "0 0 8", "..?"),
        ("wrong", "0 3 0", ".?."),
        ("wrong", "no yes no", ".F."),
        ("out_of_bounds", "0 3 0", ".?."),
        ("OOB count", "0 3 0", ".?."),
        ("out-of-spec", "0 0 1", "..F"),
        ("err", "0 -5 0", ".?."),
        ("err", "-5 -5 0", "??."),
        ("errno", "11 11", "??"),
        ("err", "0.02 0.03", ".."),  # deviations
        ("err", "none", "."),
        ("verified", "yes no yes", ".F."),
        ("is_qualified", "True False", ".F"),
        ("unverified", "no yes", ".F"),
        ("hang", "no yes no", ".F."),
        ("bestanden", "ja nein ja", ".F."),
        ("nicht_bestanden", "nein ja", ".F"),
        ("passed", "WAHR FALSCH", ".F"),
        ("Fehler", "0 0 4", "..?"),
        ("state", "ok", "."),
        ("state", "FAILED", "F"),
        ("state", "hm", "?"),
        ("error", "~", "."),
        ("error", "0", "."),
        ("error", "0.02", "."),
        ("error", "true", "F"),
        ("error", "CUDA_error_719", "?"),
        ("error_message", "none", "."),
        ("status", "0 0.0 00", "..?"),
        ("status", "0 0 ~", "..?"),
        ("status", "0 0 FAIL", "..F"),
        ("status", "~ ~ FAIL", "..F"),  # only failures are named
        ("status", "PASS no False", ".FF"),
        ("status", "PASS 0 0.0 ok", ".??."),
        ("passed", "yes 0 1", ".F?"),
        ("result", "0 5 ~", "..."),  # values
        ("result", "5 7", ".."),
        ("result", "5 ~", ".."),
        ("result", "5 n/a", ".."),
        ("result", "5 FAIL", ".F"),
        ("passed", "1 1.0 0", "..F"),
        ("failed", "False True ~", ".F?"),
        ("error", "~ 0 none false", "?.?."),
        ("error", "~ 0 none", "..."),
        ("skipped", "no yes no", ".?."),
        ("cancelled", "yes True", "??"),
        ("pass_fail", "P F PASS FAIL ~ yes no", ".F.F?.F"),
        ("gpu_status", "PASS skipped skipped fail", ".??F"),
        ("link_state", "up down up", "..."),
        ("remarks", "ok ~ ~ ~", "...."),
        ("checksum_match", "true false", ".F"),
        ("mismatched", "0 0 1", "..F"),
        ("aer_fatal", "0 0 1", "..F"),
        ("fail_reason", "none segv none", ".?."),
    ],
)
def test_columns_of_outcomes(tmp_path: Path, column: str, words: str, right: str) -> None:
    """Each column has one word for each node, ~ for an empty cell."""
    cells = ["" if word == "~" else word for word in words.split()]
    assert outcome(of(tmp_path, column, cells)) == right


@pytest.mark.parametrize(
    "name", ["status", "State", "verdict", "result", "passed", "gpu_status", "valid"]
)
@pytest.mark.parametrize("usual", ["PASS", "ok", " Passed "])
def test_among_words_of_success_only_they_are_success(
    tmp_path: Path, name: str, usual: str
) -> None:
    for word in ("1", "7", "N/A", "-", "", " ", "null", "nan", "unknown", "skipped", "?"):
        words = [*[usual] * 12, word]
        assert outcome(of(tmp_path, name, words)) == "." * 12 + "?", word
    for word in ("FAIL", "Error", "abort", "invalid", "timed-out"):
        assert outcome(of(tmp_path, name, [word, *[usual] * 12])) == "F" + "." * 12


GOOD = "completed finished valid success succeeded is_valid has_passed run-complete didComplete not_failed"
BAD = "invalid aborted rejected failed failure crashed timed_out killed was_killed incomplete not_passed"


@pytest.mark.parametrize("name", [*GOOD.split(), *BAD.split()])
@pytest.mark.parametrize("words", ["yes no", "True False", "1 0", "1.0 0.0", "Y N", "t f"])
def test_a_name_says_which_answer_is_good(tmp_path: Path, name: str, words: str) -> None:
    good, bad = words.split() if name in GOOD.split() else reversed(words.split())
    assert outcome(of(tmp_path, name, [good, good, bad, good])) == "..F."
    assert outcome(of(tmp_path, name, [bad, bad])) == "FF"
    odd = outcome(
        of(tmp_path, name, [good, "partly", good, "perhaps", ""])
    )  # also if it is not rare
    assert odd == ".?.??" or words[0] == "1"


@pytest.mark.parametrize("name", ["completed", "valid_until", "timeout", "comment"])
@pytest.mark.parametrize("word", ["2026-11-01T10:00", "300", "by hand"])
def test_other_answers_below_such_a_name_are_not_used(tmp_path: Path, name: str, word: str) -> None:
    found = of(tmp_path, name, [word, word, "", "7"])
    assert (outcome(found), found.notes) == ("....", (f"column {name!r} is not used",))


FAULTS = (
    "mismatch_count wrong_elements uncorrectable_ecc crash_count timeouts hangs errors_total nan_count "
    "exit_signal error_code status_code oom_kills sdc failed_count"
)
OTHERS = (
    "corrected_errors correctable_ecc timeout_s error_rate wrong_pct not_failed lost_ratio retries"
)


@pytest.mark.parametrize("name", [*FAULTS.split(), *OTHERS.split()])
def test_columns_of_counted_faults(tmp_path: Path, name: str) -> None:
    found = of(tmp_path, name, ["0", "0", "3", "0"])
    unused = (f"column {name!r} is not used",)
    if name in FAULTS.split():
        assert outcome(found) in ("..F.", "..?.")
        assert found.notes == ()
    else:
        assert (outcome(found), found.notes) == ("....", unused)
    # Where most nodes have other numbers than 0, they are no faults.
    assert outcome(of(tmp_path, name, ["200", "200", "300", "0"])) == "...."


STATES = (
    "OUT_OF_MEMORY;BOOT_FAIL;DEADLINE;NODE_FAIL;FAIL*;[FAIL];FAIL (ECC);[FAIL] (GPU 3);FAILED [ECC];"
    "**Fail**;FAIL!;<error>;(Timeout);✗;nicht bestanden;Fehler"
)


@pytest.mark.parametrize("word", STATES.split(";"))
@pytest.mark.parametrize("usual", ["PASS", "[PASS]"])
def test_words_of_failure(tmp_path: Path, word: str, usual: str) -> None:
    assert outcome(of(tmp_path, "Status", [usual, usual, word])) == "..F"


@pytest.mark.parametrize(
    "word", ["[PASS]", "[  OK  ]", "**Pass**", "PASS (12.5 s)", "PASS (8/8)", "✓", "bestanden"]
)
def test_words_of_success(tmp_path: Path, word: str) -> None:
    assert outcome(of(tmp_path, "status", [word, "PASS", "PASS"])) == "..."


UNKNOWN = "PASS*;PASS (with errors);PASS (7/8);PASS* (3 s);RUNNING;[?];();CANCELLED;CANCELLED by 0;PREEMPTED"


@pytest.mark.parametrize("word", UNKNOWN.split(";"))
def test_a_remark_may_take_a_success_back(tmp_path: Path, word: str) -> None:
    assert outcome(of(tmp_path, "status", [word, "PASS", "PASS"])) == "?.."


@pytest.mark.parametrize(
    ("column", "words", "quoted"),
    [
        ("Status", ["PASS", "FAIL (ECC)", "FAIL"], "Status: 'FAIL (ECC)'"),
        ("ExitCode", ["0:0", "1:0", "0:9"], "ExitCode: '1:0'"),
        ("rc", ["0", "SIGKILL"], "rc: 'SIGKILL'"),
        ("rc", ["0", "0.5"], "rc: '0.5'"),
        ("exit_code", ["0", "137"], "exit_code: '137'"),
        ("passed", ["TRUE", "FALSE"], "passed: 'FALSE'"),
    ],
)
def test_a_failed_row_is_quoted_as_it_is(
    tmp_path: Path, column: str, words: list[str], quoted: str
) -> None:
    found = of(tmp_path, column, words)
    (lost,) = found.lost_cells
    assert (lost.kind, lost.example) == ("failed", f"line 3, node n01, column {quoted}")
    # So is the reason of the verdict; a number is a return code.
    (population,) = found.populations
    word = quoted.partition(": ")[2].strip("'")
    assert word in population.problems[1].text


def test_the_first_reason_of_a_row_counts(tmp_path: Path) -> None:
    said = {"a": "3,FAIL,no", "b": "0,FAIL,no", "c": "0,PASS,no", "d": "0,PASS,yes"}
    rows = [f"{node},b,m,s,lower,1,{words}" for node, words in said.items()]
    (population,) = imported(tmp_path, *rows, more="rc,status,passed").populations
    texts = [one.text for _, one in sorted(population.problems.items())]
    assert texts == ["return code 3", "status is 'FAIL'", "passed is 'no'"]


@pytest.mark.parametrize("cell", ["91.2%", "48k", "FAILED", "inf", "-3"])
def test_an_invalid_value_is_quoted_as_it_is(tmp_path: Path, cell: str) -> None:
    (lost,) = imported(tmp_path, "a,b,m,s,lower,1", f"b,b,m,s,lower,{cell}").lost_cells
    assert (lost.kind, lost.example) == ("invalid", f"line 3, node b, column value: {cell!r}")


@pytest.mark.parametrize(
    "name",
    ["Mean", "StdDev", "std. dev.", "Average", "AVG:", "Total", "median", "Min", "MAX", "Grand Total", "75%"],
)  # fmt: skip
def test_a_summary_is_no_node(tmp_path: Path, name: str) -> None:
    rows = [f"{node},b,m,GB/s,higher,{n}" for n, node in enumerate(("a1", "a2", name), start=1)]
    found = imported(tmp_path, *rows)
    assert (found.wrong_count, found.lost, found.values) == (1, 1, 2)
    assert unread(found) == {"a1": 0, "a2": 0}
    # A number that cannot be read is still one wrong line, and still of no node.
    found = imported(tmp_path, *rows[:2], f"{rows[2]}'500", mark=";")
    assert (found.wrong_count, unread(found)) == (1, {"a1": 0, "a2": 0})


@pytest.mark.parametrize("name", ["max", "total-01", "mean2", "summer"])
def test_a_node_may_have_such_a_name(tmp_path: Path, name: str) -> None:
    others = ("b1",) if name != "max" else ()
    found = imported(tmp_path, *(f"{node},b,m,s,lower,1" for node in (name, *others)))
    assert (found.wrong_count, {*unread(found)}) == (0, {name, *others})


def test_lines_under_any_name_are_of_the_one_node(tmp_path: Path) -> None:
    rows = ["A1,b,m,s,lower,1", "a1 ,b,m,s,lower,2", "a1.cluster.local,b,m,s,lower,x"]
    found = imported(tmp_path, *rows, "A1,b,m,s,lower", "b1,b,m,s,lower,3")
    assert unread(found) == {"a1": 2, "b1": 0}
    assert {node for p in found.populations for node in p.nodes} == {"a1", "b1"}
    assert [note.split()[0] for note in found.notes] == ["A1", "a1.cluster.local"]
    store = ["--class", "k", "--store", str(tmp_path / "s")]
    assert main(["import", "table", str(found.source), *store]) == 1


def test_a_summary_of_superbench_with_two_names_of_a_node(tmp_path: Path) -> None:
    rates = {"a1": 52.0, "b1": 52.0, "A1": "broken"}
    nodes = [
        {"node": node, "mem-bw/h2d_bw:0": 52.0, "mem-bw/d2h_bw:0": rate}
        for node, rate in rates.items()
    ]
    assert unread(summary(tmp_path, *nodes)) == {"a1": 1, "b1": 0}


def test_odd_names_of_columns_are_quoted_in_one_line(tmp_path: Path) -> None:
    column = "gpu\x1b[31m " + "x" * 60 + " status"
    found = of(tmp_path, column, ["PASS", "FAIL", "\x1b[0m"])
    (population,) = found.populations
    texts = [found.lost_cells[0].example, population.problems[1].text, found.wrong[0].text]
    assert all(text.isprintable() and len(text) < 200 for text in texts)
