"""``anubis_pairs``: every way is a unit with values, and a guilty part fails its own host's test only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import TracebackType
from typing import Self

import numpy as np
import numpy.typing as npt
import pytest

from pytest_anubis.benchmarking.children import ChildError
from pytest_anubis.benchmarking.hosts import pair_group
from pytest_anubis.benchmarking.hosts.pair_group import PairRates
from pytest_anubis.core.verdict import Outcome, Reason
from pytest_anubis.fleet.links.attribution import attribute
from pytest_anubis.fleet.links.fan_rates import fan_rates
from tests.run_journals import record_of
from tests.session.conftest import Learn

SUITE = """
import pytest

class Hosts:
    interface = ""

    def __len__(self):
        return 4

    def places(self):
        return ()

@pytest.fixture
def anubis_hosts():
    return Hosts()

@pytest.mark.anubis(component="network.pairs", metrics=["pair_rate"], action="look at the port")
def test_pairs(anubis_pairs):
    said = anubis_pairs.measure()
    assert len(anubis_pairs) == 4
    print(said)
"""

FAN = SUITE.replace('["pair_rate"]', '["fan_in_rate", "fan_out_rate"]').replace(
    "measure()", "fan_in()"
)


class FakeGroup:
    """Four hosts, of which the third sends (`turned`: receives) at a half of the rate."""

    own: tuple[int, ...] = (0, 1, 2, 3)
    wrong: tuple[tuple[int, int], ...] = ()
    ports: tuple[float, ...] = (0.0,) * 5
    differing_ports: tuple[float, ...] = ()
    turned = False
    error = ""
    names: tuple[str, ...] = ("n0", "n1", "n2", "n3")
    resent = 0.0
    kept = 0.5
    own_share = 1.0

    def __init__(self, _hosts: object, **_: object) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass

    def join(self) -> None:
        if self.error:
            raise ChildError(self.error)

    def size_for(self, rounds: Sequence[object], _seconds: float) -> int:
        assert len(rounds) in (3, 5)
        return 1000

    def find_guilty(self, _rounds: object, **_: object) -> tuple[PairRates, object]:
        count = len(self.names)
        rates = np.full((count, count), 100e9)
        rates[2] = 50e9
        np.fill_diagonal(rates, np.nan)
        if self.turned:
            rates = rates.T
        resent = np.zeros((count, count))
        resent[:, 2] = self.resent
        np.fill_diagonal(resent, np.nan)
        return self._results([rates] * 42, resent), attribute(rates)

    def find_guilty_hosts(self, **_: object) -> tuple[PairRates, object]:
        inward, outward = np.full((2, 4, 4), 10e9)
        inward[:, 2] *= self.kept
        inward[3, 0] *= 2
        outward[:, 2] = np.minimum(10e9, self.kept * 30e9)
        outward[0] *= self.own_share
        for table in (inward, outward):
            np.fill_diagonal(table, np.nan)
        found = self._results([inward, outward] * 21, np.full((4, 4), np.nan))
        whole = 3 * np.array([np.nanmin(inward, axis=0), np.nanmin(outward, axis=1)])
        results = replace(found, together=tuple(map(tuple, whole.tolist())) * 21)
        return results, fan_rates(results.rates, results.together).guilty()

    def _results(
        self, rates: list[npt.NDArray[np.float64]], resent: npt.NDArray[np.float64]
    ) -> PairRates:
        wrong = np.zeros((len(self.names),) * 2)
        for way in self.wrong:
            wrong[way] = 3
        tables = [tuple(map(tuple, table.tolist())) for table in (*rates, resent)]
        return PairRates(
            names=self.names,
            rates=tuple(tables[:-1]),
            wrong=tuple(map(tuple, wrong.tolist())),
            resent=(tables[-1],) * len(rates),
        )


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> type[FakeGroup]:
    class Group(FakeGroup):
        pass

    monkeypatch.setattr(pair_group, "PairGroup", Group)
    return Group


def run(
    pytester: pytest.Pytester, learn: Learn | None, text: str = SUITE, *options: str
) -> pytest.RunResult:
    pytester.makepyfile(test_suite=text)
    if learn is not None:
        metrics = ("fan_in_rate", "fan_out_rate") if text == FAN else ("pair_rate",)
        rates = dict.fromkeys(metrics, ("GB/s", "higher"))
        centre = {"centre": 30.0} if text == FAN else {}
        learn(rates, benchmark="test_suite.py::test_pairs", **centre)
    return pytester.runpytest_inprocess("--anubis", "--anubis-baseline=baselines", *options)


def test_guilty_part_fails_the_test(
    pytester: pytest.Pytester, group: type[FakeGroup], learn: Learn
) -> None:
    result = run(pytester, learn)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*sending of n2: 50 % slower than the others, confidence 1.00*"])
    result.stdout.fnmatch_lines(["pair_rate n2 -> n0 * FAIL"])  # each row says which way
    record = record_of(pytester)
    measured = {one.device for one in record.measurements}
    assert len(measured) == 12
    assert {"n2 -> n0", "n0 -> n2"} <= measured
    bad = {v.device for v in record.verdicts if v.outcome is Outcome.FAIL}
    assert bad == {"sending of n2", "n2 -> n0", "n2 -> n1", "n2 -> n3"}


@pytest.mark.usefixtures("group")
def test_disturbed_host_is_not_rejected(
    pytester: pytest.Pytester, learn: Learn, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy = "other processes used 1.0 of 2 cores"
    monkeypatch.setattr(
        "pytest_anubis.hardware.load.ambient_load.AmbientLoad.since", lambda *_: (busy,)
    )
    result = run(pytester, learn)
    result.assert_outcomes(skipped=1)
    assert result.ret == 20
    [accused] = [v for v in record_of(pytester).verdicts if v.device == "sending of n2"]
    assert (accused.outcome, accused.reason) == (Outcome.INCONCLUSIVE, Reason.DISTURBED)
    assert accused.text.endswith(f"; but the machine was disturbed ({busy}): measure again")


def test_another_hosts_fault_fails_nothing_here(
    pytester: pytest.Pytester, group: type[FakeGroup], learn: Learn
) -> None:
    group.own = (0,)
    run(pytester, learn).assert_outcomes(passed=1)
    record = record_of(pytester)
    assert {one.device for one in record.measurements} == {"n0 -> n1", "n0 -> n2", "n0 -> n3"}


def test_slow_way_whose_other_end_is_to_blame_is_told(
    pytester: pytest.Pytester, group: type[FakeGroup], learn: Learn
) -> None:
    group.own, group.turned = (0,), True
    run(pytester, learn).assert_outcomes(passed=1)
    record = record_of(pytester)
    (verdict,) = [v for v in record.verdicts if v.outcome is Outcome.MARGINAL]
    assert (verdict.device, verdict.reason) == ("n0 -> n2", Reason.UNUSUAL)
    assert "not this node's: receiving of n2: 50 % slower" in verdict.text


def test_way_to_a_slow_host_rejects_none_without_a_baseline(
    pytester: pytest.Pytester, group: type[FakeGroup]
) -> None:
    group.own, group.turned, group.names = (0,), True, ("n0", "n1", "n2", "n3", "n4")
    result = run(pytester, None, SUITE.replace("== 4", "== 5"))
    assert result.ret == 20
    found = {v.device: (v.outcome, v.text) for v in record_of(pytester).verdicts if v.metric}
    assert Outcome.FAIL not in {outcome for outcome, _ in found.values()}
    outcome, text = found["n0 -> n2"]
    assert outcome is Outcome.MARGINAL
    assert text.startswith("pair_rate has no criterion; not this node's: receiving of n2: 50 %")


@pytest.mark.usefixtures("group")
@pytest.mark.parametrize("ways", [SUITE, FAN], ids=["ways", "fans"])
def test_other_hosts_are_no_other_devices_of_this_node(
    pytester: pytest.Pytester, ways: str
) -> None:
    run(pytester, None, ways)
    bad = [v.device for v in record_of(pytester).verdicts if v.outcome is Outcome.FAIL]
    assert bad == ["sending of n2" if ways == SUITE else "receiving of n2"]


def test_way_has_the_nominal_rate_of_its_slower_port(
    pytester: pytest.Pytester, group: type[FakeGroup]
) -> None:
    group.ports = group.differing_ports = (3.125e9, 1.25e9, 12.5e9, 3.125e9)
    run(pytester, None, SUITE, "--junit-xml=report.xml")
    found = {m.device: m.metric.nominal for m in record_of(pytester).measurements}
    rates = {way: rate.value for way, rate in found.items() if rate}
    assert rates["n0 -> n1"] == rates["n1 -> n2"] == 1.25
    assert rates["n0 -> n2"] == rates["n2 -> n3"] == 3.125
    named = {rate.of for rate in found.values() if rate}
    assert named == {f"the port of {port} Gbit/s)" for port in ("n0 (25", "n1 (10", "n3 (25")}
    said = "n1's port: 10 Gbit/s, n2's port: 100 Gbit/s, the others 25"
    report = (pytester.path / "report.xml").read_text()
    assert f'name="port_speeds" value="{said}"' in report


def test_fan_has_the_nominal_rate_of_a_port_that_the_others_can_fill(
    pytester: pytest.Pytester, group: type[FakeGroup]
) -> None:
    group.ports = group.differing_ports = (3.125e9, 3.125e9, 3.125e9, 0.125e9)
    run(pytester, None, FAN)
    found = {(m.device, m.metric.nominal is None) for m in record_of(pytester).measurements}
    assert found == {("n0", True), ("n1", True), ("n2", True), ("n3", False)}


def test_changed_bytes_and_hosts_that_do_not_come(
    pytester: pytest.Pytester, group: type[FakeGroup]
) -> None:
    group.wrong = ((1, 0), (1, 2), (1, 3))
    result = run(pytester, None)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*bytes arrived changed from n1 -> n0, n1 -> n2, n1 -> n3*"])
    group.own = (0,)  # which only receives what n1 changes
    run(pytester, None).assert_outcomes(skipped=1)
    group.error = "host a is gone; it printed: Traceback ... no route to n1"
    result = run(pytester, None)
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(
        ["*4 hosts did not find each other: host a is gone*no route to n1*"]
    )


def test_one_host_alone_has_no_pairs(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = SUITE.replace("def anubis_hosts", "def other")
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    result = run(pytester, None, text)
    result.stdout.fnmatch_lines(["not run here: 1 test (1 one host*"])
    monkeypatch.setenv("WORLD_SIZE", "eight")
    result = run(pytester, None, text)
    result.stdout.fnmatch_lines(["*WORLD_SIZE is no number: 'eight'*"])


def test_port_that_loses_segments_is_evidence_and_decides_nothing(
    pytester: pytest.Pytester, group: type[FakeGroup], learn: Learn
) -> None:
    group.resent, group.own = 6.0, (0,)
    line = "receiving of n2: TCP sent 756 segments again on 3 of 3 ways to it"
    run(pytester, learn, SUITE, "--junit-xml=report.xml").assert_outcomes(passed=1)
    record = record_of(pytester)
    seen = {v.device: v.evidence for v in record.verdicts if v.evidence}
    assert seen == {"n0 -> n2": (line,)}
    assert {v.outcome for v in record.verdicts} == {Outcome.PASS}
    report = (pytester.path / "report.xml").read_text()
    assert f'name="resending_ports" value="{line}"' in report


def test_port_that_loses_segments_is_said_of_the_accused_host(
    pytester: pytest.Pytester, group: type[FakeGroup], learn: Learn
) -> None:
    group.resent = 6.0
    result = run(pytester, learn)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*evidence: receiving of n2: TCP sent 756 segments again on 3 of 3*"]
    )
    (accused,) = [v for v in record_of(pytester).verdicts if v.device == "sending of n2"]
    assert len(accused.evidence) == 1


def test_host_slow_with_all_others_at_once_fails_with_its_direction(
    pytester: pytest.Pytester, group: type[FakeGroup], learn: Learn
) -> None:
    result = run(pytester, learn, FAN, "--junit-xml=report.xml")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*receiving of n2: 50 % slower than the others, confidence *"])
    record = record_of(pytester)
    rates = {(one.device, one.metric.name): one.values for one in record.measurements}
    assert {len(values) for values in rates.values()} == {21}
    assert rates["n1", "fan_in_rate"][0] == rates["n2", "fan_out_rate"][0] == 30.0
    assert rates["n2", "fan_in_rate"][0] == 15.0
    bad = {(v.device, v.metric) for v in record.verdicts if v.outcome is Outcome.FAIL}
    assert bad >= {("receiving of n2", "fan_in_rate"), ("n2", "fan_in_rate")}
    assert "fan_out_rate" not in {metric for _, metric in bad}
    report = (pytester.path / "report.xml").read_text()
    # One sender of n0 at twice the others' rate: 4^2 / (3 (2 + 4)).
    assert 'name="fan_in_fairness" value="n0 0.89, n1 1.00, n2 1.00, n3 1.00"' in report


@pytest.mark.parametrize(
    ("kept", "own_share", "outcome"),
    [(0.5, 1.0, Outcome.PASS), (0.1, 1.0, Outcome.MARGINAL), (0.5, 0.94, Outcome.FAIL)],
    ids=["nothing", "waits for another", "slow itself"],
)
def test_host_that_others_wait_for_is_named_in_their_verdicts(
    pytester: pytest.Pytester,
    group: type[FakeGroup],
    learn: Learn,
    kept: float,
    own_share: float,
    outcome: Outcome,
) -> None:
    group.own, group.kept, group.own_share = (0,), kept, own_share
    run(pytester, learn, FAN)
    sending = [v for v in record_of(pytester).verdicts if v.metric == "fan_out_rate"]
    assert [(v.device, v.outcome) for v in sending] == [("n0", outcome)]
    excused = "not this node's: receiving of n2: " in sending[0].text
    assert excused is (outcome is Outcome.MARGINAL)


@pytest.mark.usefixtures("group")
def test_two_hosts_have_no_fan(pytester: pytest.Pytester, group: type[FakeGroup]) -> None:
    group.names = group.names[:2]
    result = run(pytester, None, FAN)
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*not run here: 1 test (1 two hosts*"])
