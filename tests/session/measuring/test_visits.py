"""A test that met too few clear moments is visited again, and reported once."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_anubis.core.measurement import HOST_SLOWER, ONE_VISIT
from pytest_anubis.hardware.load import clear_moments
from pytest_anubis.session.measuring import attempts
from pytest_anubis.session.measuring import visits as repeated
from pytest_anubis.session.measuring.conditions import ConditionsWatch
from pytest_anubis.store import best_probe
from tests.run_journals import events_of
from tests.session.conftest import Learn

# The probe of these runs reads what the tests say: the state of a host that everybody can see.
CONFTEST = """
import pathlib
from pytest_anubis.hardware.load import clear_moments
from pytest_anubis.hardware.load.kernel_counters import Counts
from pytest_anubis.session.measuring.conditions import ConditionsWatch

class KernelCounters:
    def __init__(self, *_):
        pass
    def renew(self):
        pass
    def read(self):
        return Counts()

class Probe:
    def __init__(self, *_):
        pass
    def read(self):
        return float(pathlib.Path("probe").read_text())

clear_moments.KernelCounters, clear_moments.Probe = KernelCounters, Probe
clear_moments.others_may_hide = lambda *_: True
if EARLIER:
    from pytest_anubis.store import best_probe
    during = {"test_suite.py::test_second rate": [EARLIER]}
    best_probe.known_best = lambda *_: best_probe.BestReadings(seconds=EARLIER, during=during)
from pytest_anubis.session.measuring import attempts, visits
visits.GAP = attempts.GAP = attempts.LOOK_PAUSE = 0.0
visits.MAX_VISITS = 4

def rounds(self, name="", own=ConditionsWatch.rounds):
    return own(self, name)

rounds.__name__ = "ours"
ConditionsWatch.rounds = rounds
"""

SUITE = """
import pathlib, time, pytest

def visited(name):
    with open("visits", "a") as file:
        print(name, file=file)
    return pathlib.Path("visits").read_text().split().count(name)

def host(seconds):
    pathlib.Path("probe").write_text(str(seconds))

@pytest.mark.anubis(component="cpu.compute", scope="node")
def test_first(anubis_metric):
    host(0.001)
    visited("first")
    anubis_metric.collect("time", lambda: time.sleep(0.001) or 1.0, unit="ms", better="lower")

@pytest.mark.anubis(component="cpu.compute", scope="device")
def test_second(anubis_metric, anubis_device):
    visit = visited("second")
    host(SLOW if visit < LAST else 0.001)
    rate = lambda: time.sleep(0.001) or (VALUES)
    kept = anubis_metric.collect("rate", rate, unit="GB/s", better="higher", rounds=12)
    anubis_metric.record("paired", [10 * one for one in kept], unit="GB/s", better="higher", rounds_of="rate")
    host(0.001)
"""


@pytest.fixture(autouse=True)
def exchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put back what the conftest of a run in this process exchanges."""
    for owner, names in (
        (clear_moments, ("KernelCounters", "Probe", "others_may_hide")),
        (best_probe, ("known_best",)),
        (repeated, ("GAP", "MAX_VISITS")),
        (attempts, ("GAP", "LOOK_PAUSE")),
        (ConditionsWatch, ("rounds",)),
    ):
        for name in names:
            monkeypatch.setattr(owner, name, getattr(owner, name))


def run(
    pytester: pytest.Pytester,
    *options: str,
    slow: float = 0.002,
    last: int = 2,
    values: str = "5.0 + visit",
    mode: str = "measure",
    shared: bool = True,
    earlier: float = 0.0,
    end: str = "",
    paired: str = "10",
    suite: str = SUITE,
) -> tuple[pytest.RunResult, list[dict[str, Any]]]:
    """Run the suite.

    Args:
        slow: Seconds that the probe takes during the second test until its last visit.
        last: The first visit of the second test that meets a quick host.
        values: What the second test measures.
        mode: Of ``--anubis-mode``.
        shared: Others may hide on this host.
        earlier: Seconds that the probe took during the second test in earlier runs; 0 where there are none.
        end: The last line of the second test.
        paired: Factor of the metric that is recorded for the same rounds.
        suite: The tests.
    """
    pytester.makeconftest(
        CONFTEST.replace("lambda *_: True", f"lambda *_: {shared}").replace("EARLIER", str(earlier))
    )
    suite = (
        suite.replace("[10 *", f"[{paired} *")
        .replace("SLOW", str(slow))
        .replace("LAST", str(last))
        .replace("VALUES", values)
    )
    pytester.makepyfile(test_suite=f"{suite}    {end}\n")
    (pytester.path / "probe").write_text("0.001")
    result = pytester.runpytest("--anubis", f"--anubis-mode={mode}", *options)
    return result, events_of(pytester)


def visits(pytester: pytest.Pytester) -> list[str]:
    return (pytester.path / "visits").read_text().split()


def last_measured(events: list[dict[str, Any]], metric: str) -> dict[str, Any]:
    found = [e for e in events if e["event"] == "measurement" and e["metric"]["name"] == metric]
    return found[-1]


def test_clear_moment_at_the_end_of_the_run(pytester: pytest.Pytester) -> None:
    result, events = run(pytester)
    result.assert_outcomes(passed=2)
    assert visits(pytester) == ["first", "second", "second"]
    assert [e["test"] for e in events if e["event"] == "test_put_off"] == [
        "test_suite.py::test_second[cpu]"
    ]
    assert [e["test"] for e in events if e["event"] == "test_finished"] == [
        "test_suite.py::test_first",
        "test_suite.py::test_second[cpu]",
    ]
    rate, paired = last_measured(events, "rate"), last_measured(events, "paired")
    assert set(rate["values"]) == {7.0}
    assert set(paired["values"]) == {70.0}
    assert "disturbance" not in rate


@pytest.mark.usefixtures("in_workers")
@pytest.mark.parametrize("where", ["--anubis-in-process", "-n1"])
def test_no_visit_goes_beyond_a_budget(pytester: pytest.Pytester, where: str) -> None:
    named = ("test_suite.py::test_first", "test_suite.py::test_second")  # run whatever they take
    budget = ("--anubis-select=budget", "--anubis-budget=1ms")
    result, events = run(pytester, *named, *budget, where, last=99)
    result.assert_outcomes(passed=2)
    assert visits(pytester) == ["first", "second"]
    assert not [e for e in events if e["event"] == "test_put_off"]


@pytest.mark.usefixtures("in_workers")
def test_visits_in_a_worker(pytester: pytest.Pytester) -> None:
    result, events = run(pytester, "-v")
    result.assert_outcomes(passed=2)
    assert visits(pytester) == ["first", "second", "second"]
    assert set(last_measured(events, "rate")["values"]) == {7.0}


def test_no_clear_moment_in_the_whole_run(pytester: pytest.Pytester) -> None:
    result, events = run(pytester, last=99)
    result.assert_outcomes(passed=2)
    assert (
        visits(pytester).count("second") == 2
    )  # half of the tests have no clear value: others have the host
    rate = last_measured(events, "rate")
    assert rate["disturbance"] == [HOST_SLOWER]
    assert "disturbance" in last_measured(events, "paired")


@pytest.mark.parametrize("clear", [4, 1])
def test_clear_values_of_several_visits_are_one_sample(
    pytester: pytest.Pytester, clear: int
) -> None:
    turn = f"""
count = 0
def turn(visit):
    global count
    count += 1
    if visit == 1 and count > {clear}:
        host(0.002)
    return 5.0 + visit
"""
    result, events = run(pytester, last=0, values="turn(visit)", suite=turn + SUITE)
    result.assert_outcomes(passed=2)
    rate = last_measured(events, "rate")
    # The last one of them still stood between two readings that were good.
    assert rate["values"][:clear] == [6.0] * clear
    assert set(rate["values"][clear:]) == {7.0}
    assert last_measured(events, "paired")["values"] == [10 * one for one in rate["values"]]


@pytest.mark.parametrize(
    ("first", "shared", "outcome"),
    [(70.0, True, "PASS"), (40.0, True, "INCONCLUSIVE"), (70.0, False, "INCONCLUSIVE")],
)
def test_a_loss_of_one_visit_only_rejects_nothing(
    pytester: pytest.Pytester, learn: Learn, first: float, shared: bool, outcome: str
) -> None:
    """It is excused where others may hide, and where it is no more than what they can take."""
    learn({"rate": ("GB/s", "higher")}, benchmark="test_suite.py::test_second")
    values = f"{first} if visit == 1 else 100.0"
    result, events = run(pytester, mode="judge", slow=0.001, values=values, shared=shared)
    passed = int(outcome == "PASS")
    result.assert_outcomes(passed=passed, skipped=2 - passed)  # the first test has no criterion
    assert visits(pytester) == ["first", "second", "second"]
    (verdict,) = [e for e in events if e["event"] == "verdict" and e["metric"] == "rate"]
    assert verdict["outcome"] == outcome
    assert ONE_VISIT in verdict["evidence" if outcome == "PASS" else "disturbance"]


@pytest.mark.parametrize(
    ("values", "seen", "outcome"),
    [
        ("100.0", 1, "PASS"),
        ("70.0 if host(0.001 if visit == 1 else 0.002) or visit == 1 else 100.0", 2, "PASS"),
        ("70.0 if host(0.001 if visit == 1 else 0.002) or visit == 1 else 90.0", 4, "INCONCLUSIVE"),
    ],
    ids=["at first", "after a slow visit", "still slow"],
)
def test_good_values_count_under_other_load(
    pytester: pytest.Pytester, learn: Learn, values: str, seen: int, outcome: str
) -> None:
    learn({"rate": ("GB/s", "higher")}, benchmark="test_suite.py::test_second")
    _, events = run(pytester, mode="judge", last=99, values=values)
    assert visits(pytester).count("second") == seen
    (verdict,) = [e for e in events if e["event"] == "verdict" and e["metric"] == "rate"]
    assert verdict["outcome"] == outcome


def test_load_that_spares_one_metric_rejects_by_none(
    pytester: pytest.Pytester, learn: Learn
) -> None:
    """Values of the same rounds are not rejected where the other metric did not suffer."""
    metrics = {"rate": ("GB/s", "higher"), "paired": ("GB/s", "higher")}
    learn(metrics, benchmark="test_suite.py::test_second")
    _, events = run(pytester, mode="judge", last=99, values="100.0", paired="0.5")
    found = {e["metric"]: e for e in events if e["event"] == "verdict"}
    assert found["rate"]["outcome"] == "PASS"
    assert found["paired"]["outcome"] == "INCONCLUSIVE"
    assert found["paired"]["disturbance"]


@pytest.mark.parametrize("end", ["", "pytest.skip('half of it')"])
def test_a_loss_of_both_visits_rejects(pytester: pytest.Pytester, learn: Learn, end: str) -> None:
    learn({"rate": ("GB/s", "higher")}, benchmark="test_suite.py::test_second")
    result, _ = run(pytester, mode="judge", slow=0.001, values="50.0 + visit", end=end)
    result.assert_outcomes(failed=1, skipped=1)
    assert visits(pytester) == ["first", "second", "second"]


@pytest.mark.parametrize(("value", "outcome"), [(93.0, "INCONCLUSIVE"), (80.0, "FAIL")])
def test_loss_within_the_probes_loss_blames_no_part(
    pytester: pytest.Pytester, learn: Learn, value: float, outcome: str
) -> None:
    learn({"rate": ("GB/s", "higher")}, benchmark="test_suite.py::test_second")
    _, events = run(pytester, mode="judge", slow=0.001, values=str(value), earlier=0.001 / 1.08)
    (verdict,) = [e for e in events if e["event"] == "verdict" and e["metric"] == "rate"]
    assert verdict["outcome"] == outcome
    assert (HOST_SLOWER in verdict.get("disturbance", ())) is (outcome == "INCONCLUSIVE")
    (node,) = [e for e in events if e["event"] == "node_verdict"]
    assert (HOST_SLOWER in node["headline"]) is (outcome == "INCONCLUSIVE")


def test_setup_that_is_only_shown_is_not_visited(pytester: pytest.Pytester) -> None:
    result, _ = run(pytester, "--setup-show")
    result.assert_outcomes(passed=2)
    assert visits(pytester) == ["first", "second"]


SURE_LOOKS = """
import pathlib, time, pytest

@pytest.fixture
def broken_end():
    yield
    if ENDS and not pathlib.Path("ended").exists():
        pathlib.Path("ended").touch()
        raise RuntimeError("the card fell off the bus")

@pytest.mark.anubis(component="cpu.compute", scope="device")
def test_first(anubis_metric, anubis_device, broken_end):
    visit = len(pathlib.Path("visits").read_text()) if pathlib.Path("visits").exists() else 0
    pathlib.Path("visits").write_text("x" * (visit + 1))
    pathlib.Path("probe").write_text("0.001" if visit else "0.002")
    anubis_metric.collect("rate", lambda: time.sleep(0.001) or 100.0, unit="GB/s", better="higher", rounds=12)
    anubis_metric.record("own", [100.0 if visit or ENDS else 20.0] * 20, unit="GB/s", better="higher")
"""
"""A test of which one metric lacks clear values in the first visit, and something else fails there."""


def sure(pytester: pytest.Pytester, learn: Learn, *, ends: bool) -> pytest.RunResult:
    learn(
        {"rate": ("GB/s", "higher"), "own": ("GB/s", "higher")},
        benchmark="test_suite.py::test_first",
    )
    pytester.makeconftest(CONFTEST.replace("EARLIER", "0"))
    pytester.makepyfile(test_suite=SURE_LOOKS.replace("ENDS", str(ends)))
    (pytester.path / "probe").write_text("0.001")
    (pytester.path / "test_before.py").write_text(
        "import pytest\n"
        "@pytest.mark.anubis(component='a')\n"
        "def test_host(anubis_metric):\n"
        "    anubis_metric.collect('time', lambda: 1.0, unit='ms', better='lower')\n"
    )
    return pytester.runpytest("--anubis", "test_before.py", "test_suite.py")


def test_final_failure_is_not_put_off(pytester: pytest.Pytester, learn: Learn) -> None:
    result = sure(pytester, learn, ends=False)
    assert (pytester.path / "visits").read_text() == "x"
    assert result.ret == 1
    result.stdout.fnmatch_lines(["REJECTED*"])


def test_teardown_error_of_a_visit_is_reported(pytester: pytest.Pytester, learn: Learn) -> None:
    result = sure(pytester, learn, ends=True)
    assert result.parseoutcomes()["errors"] == 1
    assert result.ret != 0


def test_a_strict_xfail_may_be_put_off(pytester: pytest.Pytester) -> None:
    marked = SUITE.replace("def test_second", "@pytest.mark.xfail(strict=True)\ndef test_second")
    result, _ = run(pytester, suite=marked)
    assert visits(pytester) == ["first", "second", "second"]
    assert result.parseoutcomes() == {"passed": 1, "failed": 1}
