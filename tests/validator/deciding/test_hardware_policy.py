"""What the hardware reports decides about a run whose tests passed: live, read back, judged and resumed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_anubis.core.baseline import Baseline, Criterion
from pytest_anubis.core.events import (
    Event,
    HardwareFound,
    Judged,
    Measured,
    Resumed,
    RunStarted,
    TestFinished,
    TestsPlanned,
    TestStarted,
)
from pytest_anubis.core.measurement import Measurement, PlannedTest, TestResult
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.node_map import ModuleErrors
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.run_state import RunState
from pytest_anubis.core.verdict import Decision, MetricVerdict, NodeVerdict, Outcome, Reason
from pytest_anubis.store.collected_runs import read_runs, refusal
from pytest_anubis.store.journal.journal_file import Journal
from pytest_anubis.store.journal.journal_reading import read_journal
from pytest_anubis.validator.deciding.hardware_policy import RULES, verdicts_of_hardware
from pytest_anubis.validator.deciding.node_decision import judge_node
from pytest_anubis.validator.deciding.run_decision import decide_run, evidence_of
from pytest_anubis.validator.judging.sample_judging import judge_sample

CARDS = tuple(f"cuda:{number}" for number in range(8))
METRIC = Metric(name="rate", unit="GB/s", better="higher")
CRITERION = Criterion(benchmark="b", metric=METRIC, centre=(100.0,), least=1)
BASELINE = Baseline(hardware_class="c", criteria=(CRITERION,), created="-", nodes=("x", "y", "z"))


def node_id(device: str) -> str:
    return f"b[{device}]"


def found(
    sort: str, card: int = 3, name: str = "", tests: tuple[str, ...] | None = None
) -> HardwareFound:
    device = f"cuda:{card}"
    return HardwareFound(
        sort=sort,
        name=name or sort,
        text=f"says {sort}",
        part=f"GPU {card} (0000:5{card}:00.0)",
        device=device,
        tests=(node_id(device),) if tests is None else tests,
        source="counters",
    )


def state(*reports: HardwareFound, slow: tuple[int, ...] = (), cards: int = 8) -> RunState:
    """A run whose tests passed, but for those of slow cards, and what the hardware reported meanwhile."""
    made = RunState()
    settings = {"mode": "judge"}
    made.apply(
        RunStarted(run="r", node="n", settings=settings, baseline="x", devices=CARDS[:cards])
    )
    for number, device in enumerate(CARDS[:cards]):
        value = 80.0 if number in slow else 100.0
        one = Measurement(
            test=node_id(device),
            benchmark="b",
            component="gpu",
            metric=METRIC,
            device=device,
            values=(value,) * 9,
        )
        made.apply(TestsPlanned(tests=(PlannedTest(test=one.test, benchmark="b", device=device),)))
        made.apply(TestStarted(test=one.test))
        made.apply(Measured(measurement=one))
        verdict = judge_sample(
            one.values, CRITERION, BASELINE, metric=METRIC, node="n", device=device
        )
        made.apply(Judged(verdict=replace(verdict, test=one.test)))
        outcome = "failed" if number in slow else "passed"
        made.apply(TestFinished(result=TestResult(test=one.test, benchmark="b", outcome=outcome)))
    for report in reports:
        made.apply(report)
    return made


def decided(made: RunState) -> NodeVerdict:
    return decide_run(made.record(), BASELINE).node_verdict


def test_a_healthy_run_is_accepted() -> None:
    assert decided(state()).decision is Decision.ACCEPTED


@pytest.mark.parametrize("sort", sorted(RULES))
def test_every_sort_decides_as_its_rule_says_although_all_tests_passed(sort: str) -> None:
    verdict = decided(state(found(sort)))
    expected = {
        Outcome.FAIL: Decision.REJECTED,
        Outcome.INCONCLUSIVE: Decision.UNDECIDED,
        Outcome.MARGINAL: Decision.ACCEPTED,
        None: Decision.ACCEPTED,
    }[RULES[sort].outcome]
    assert verdict.decision is expected
    if RULES[sort].outcome is not None:  # the card and the test, in the headline
        assert "GPU 3 (0000:53:00.0)" in verdict.headline
        assert "b[cuda:3]" in verdict.headline


@pytest.mark.parametrize(
    ("sort", "outcome"),
    [
        ("uncorrected-memory-error", Outcome.FAIL),
        ("uncorrected-error", Outcome.FAIL),
        ("xid-fault", Outcome.FAIL),
        ("remap-failed", Outcome.FAIL),
        ("card-lost", Outcome.FAIL),
        ("power-brake", Outcome.FAIL),
        ("hw-slowdown", Outcome.FAIL),
        ("thermal-slowdown", Outcome.FAIL),
        ("remap-pending", Outcome.INCONCLUSIVE),
        ("deferred-memory-error", Outcome.INCONCLUSIVE),
        ("deferred-error", Outcome.INCONCLUSIVE),
        ("card-silent", Outcome.INCONCLUSIVE),
        ("link-error", Outcome.MARGINAL),
    ],
)
def test_the_rules_that_matter_most(sort: str, outcome: Outcome) -> None:
    assert RULES[sort].outcome is outcome


def test_a_sort_of_a_later_version_is_not_overlooked() -> None:
    assert decided(state(found("brand-new"))).decision is Decision.UNDECIDED


@pytest.mark.parametrize("require_all", [False, True])
def test_where_memory_errors_are_is_kept_and_decides_nothing(
    tmp_path: Path, require_all: bool
) -> None:
    fewer = ModuleErrors(module="DIMM_A1", errors=12, spread="scattered")
    modules = (
        ModuleErrors(module="DIMM_B1", errors=30, spread="scattered"),
        replace(fewer, errors=40, spread="row"),
    )
    reports = [
        replace(found("evidence"), device="", part=one.module, module=one)
        for one in (*modules, fewer)
    ]
    with Journal.create(tmp_path, "r") as journal:
        journal.write(state().record().head)
        for report in (*reports, found("evidence")):
            journal.write(report)
    assert read_journal(journal.path).hardware == (*reports, found("evidence"))
    without = decide_run(state().record(), BASELINE, require_all=require_all).node_verdict
    verdict = decide_run(state(*reports).record(), BASELINE, require_all=require_all).node_verdict
    assert verdict is not None
    assert replace(verdict, modules=()) == without
    assert set(verdict.modules) == set(modules)  # of each module the report with the most errors
    collected = judged_anew(finished(state(*reports)))
    assert (collected.decision, set(collected.modules)) == (Decision.ACCEPTED, set(modules))


def test_the_next_step_of_a_pending_remap_is_a_reset_which_the_headline_tells() -> None:
    made = state(found("remap-pending"))
    (verdict,) = verdicts_of_hardware(made.record())
    assert verdict.action.startswith("reset the card")
    assert verdict.action.endswith("then test again")
    headline = decided(made).headline
    assert "; next step: reset the card" in headline
    assert headline.endswith("then test again")


def numbered(made: RunState, serial: str = "165000000{}") -> RunRecord:
    """Return what was recorded, on a node whose cards have slots and serial numbers."""
    cards = [{"pci": f"0000:5{card}:00.0", "serial": serial.format(card)} for card in range(8)]
    return replace(made.record(), inventory={"accelerators": cards})


def test_a_card_is_named_by_its_serial_number_where_it_is_known() -> None:
    record = numbered(state(found("xid-fault"), found("remap-pending", 5)))
    actions = [verdict.action for verdict in verdicts_of_hardware(record)]
    assert actions[0].endswith("replace it (serial number 1650000003)")
    assert actions[1].endswith("then test again (serial number 1650000005)")
    hidden = numbered(state(found("xid-fault")), serial="redacted")
    assert "serial" not in verdicts_of_hardware(hidden)[0].action


def test_a_hot_room_has_no_serial_number() -> None:
    record = numbered(state(*(found("thermal-slowdown", card) for card in range(8))))
    assert not [v.action for v in verdicts_of_hardware(record) if "serial" in v.action]


def test_a_slow_card_is_named_by_device_slot_and_serial_number() -> None:
    record, card = numbered(state(slow=(3,))), "slot 0000:53:00.0, serial number 1650000003"
    headline = decide_run(record, BASELINE).node_verdict.headline
    assert headline.startswith(f"node n rejected: b. cuda:3 ({card}): rate is 80")
    assert evidence_of(record).cards["cuda:3"] == card


def test_repeats_are_one_verdict_with_a_count_and_all_tests() -> None:
    twice = (found("xid-fault", name="XID 48"), found("xid-fault", name="XID 48", tests=("t",)))
    (verdict,) = verdicts_of_hardware(state(*twice).record())
    assert "2 times, while b[cuda:3], t ran" in verdict.text
    assert (verdict.benchmark, verdict.metric, verdict.device) == ("hardware", "XID 48", "cuda:3")


def test_what_two_sources_tell_of_is_counted_once() -> None:
    def answer(source: str, text: str) -> HardwareFound:
        return replace(found("xid-fault", name="XID 79"), source=source, text=text)

    line, event = answer("kernel log", "XID 79: lost"), answer("NVML event", "XID 79: lost")
    (verdict,) = verdicts_of_hardware(state(line, event).record())
    assert " times" not in verdict.text
    assert verdict.text.endswith("(kernel log and NVML event)")
    several = answer("kernel log", "XID 79: lost, 3 times")
    (verdict,) = verdicts_of_hardware(state(several, line, event).record())
    assert ": XID 79: lost, 4 times, while" in verdict.text


def test_hardware_comes_before_what_its_tests_found() -> None:
    verdict = decided(state(found("uncorrected-memory-error"), slow=(3,)))
    assert verdict.headline.startswith("node n rejected: accelerator.memory, ")


def test_one_hot_card_is_rejected_whether_or_not_it_is_slow_or_alone_in_its_room() -> None:
    assert decided(state(found("thermal-slowdown"))).decision is Decision.REJECTED
    assert decided(state(found("thermal-slowdown", 0), cards=1)).decision is Decision.REJECTED
    verdict = decided(state(found("thermal-slowdown"), slow=(3,)))
    assert verdict.decision is Decision.REJECTED
    assert verdict.components[0] == "accelerator.cooling"


def test_where_all_cards_are_hot_the_room_is_blamed_and_no_card() -> None:
    hot = [found("thermal-slowdown", card) for card in range(8)]
    made = state(*hot, slow=(2, 3))
    verdict = decided(made)
    assert verdict.decision is Decision.UNDECIDED
    assert "all 8 cards were slowed by heat" in verdict.headline
    assert "not of the card" in verdict.headline
    answer = [v for v in made.record().effective_verdicts if v.device == "cuda:2"]
    assert [(v.outcome, v.reason) for v in answer] == [(Outcome.INCONCLUSIVE, Reason.DISTURBED)]
    # Seven of eight: the eighth had the same air.
    assert decided(state(*hot[:7], slow=(2,))).decision is Decision.REJECTED


def test_hot_air_excuses_one_hot_card_too() -> None:
    air = replace(found("hot-air"), text="the air that comes in has 41 °C", part="", device="")
    verdict = decided(state(found("thermal-slowdown"), air, slow=(3,)))
    assert verdict.decision is Decision.UNDECIDED
    assert "41 °C" in verdict.headline
    assert decided(state(air)).decision is Decision.ACCEPTED


def test_heat_excuses_no_wrong_value_and_no_power_brake() -> None:
    hot = [found("thermal-slowdown", card) for card in range(8)]
    assert decided(state(*hot, found("power-brake"))).decision is Decision.REJECTED
    made = state(*hot)
    exact = MetricVerdict(
        outcome=Outcome.FAIL, reason=Reason.BEYOND, text="wrong", benchmark="b", metric="errors",
        better="equal", value=1.0, device="cuda:2", test=node_id("cuda:2"),
    )  # fmt: skip
    made.apply(Judged(verdict=exact))
    assert decided(made).decision is Decision.REJECTED


def judged_anew(record: RunRecord) -> NodeVerdict:
    evidence = evidence_of(record)
    return judge_node(
        [*record.verdicts, *evidence.verdicts], baseline=BASELINE, node="n", evidence=evidence
    )


def finished(made: RunState) -> RunRecord:
    """The record of a run whose end was reached: what was concluded then stands in it."""
    for verdict in decide_run(made.record(), BASELINE).added:
        made.apply(Judged(verdict=verdict))
    return replace(made.record(), ended="then", exit_status=1)


def test_judging_collected_runs_rejects_as_the_run_did() -> None:
    reported = found("uncorrected-memory-error")
    assert judged_anew(finished(state(reported))).decision is Decision.REJECTED
    # The same where the end was lost with the journal's last lines.
    lost = replace(state(reported).record(), ended="then", exit_status=1)
    assert judged_anew(lost).decision is Decision.REJECTED
    assert len(evidence_of(finished(state(reported))).verdicts) == 1


def test_what_the_hardware_reported_before_a_run_was_resumed_still_counts() -> None:
    made = state(found("xid-fault", name="XID 79"))
    finished(made)
    made.apply(Resumed(done=8))
    assert decided(made).decision is Decision.REJECTED


def test_collected_values_of_a_hot_room_reject_nobody(tmp_path: Path) -> None:
    made = state(slow=(2, 3))
    record = made.record()
    happened: list[Event] = [record.head, TestsPlanned(tests=record.planned)]
    happened += [Measured(measurement=one) for one in record.measurements]
    happened += [TestFinished(result=one) for one in record.results]
    happened += [Judged(verdict=one) for one in record.verdicts]
    happened += [found("thermal-slowdown", card) for card in range(8)]
    with Journal.create(tmp_path, "r") as journal:
        for event in happened:
            journal.write(event)
    (population,) = read_runs([journal.path]).populations
    assert {problem.kind for problem in population.problems.values()} == {"disturbed"}
    assert "all 8 cards were slowed by heat" in population.problems[2].text


def test_an_xfail_mark_waives_no_report_of_the_hardware() -> None:
    made = state(found("xid-fault"))
    marked = TestResult(test=node_id("cuda:3"), benchmark="b", outcome="xfailed")
    made.apply(TestFinished(result=marked))
    assert decided(made).decision is Decision.REJECTED


def test_nothing_is_learned_from_a_run_with_a_report_of_the_hardware() -> None:
    record = replace(state(found("xid-fault", name="XID 48")).record(), ended="then", exit_status=0)
    assert refusal(record) == "the hardware reported XID 48 meanwhile: learn from sound nodes"
