"""Two slow cards on one PCIe switch: both are rejected, and the switch is named once on every page."""

from __future__ import annotations

import json
import re
import shutil
from typing import Any

import pytest

from pytest_anubis.cli.main import main
from pytest_anubis.codec import to_plain
from pytest_anubis.core.verdict import Outcome
from pytest_anubis.hardware.telemetry.recorded_node import replay
from pytest_anubis.report.export.run_json import run_json
from pytest_anubis.report.pages.dossier import run_page
from pytest_anubis.store.baselines.baseline_files import save_baseline
from tests.hardware.mapped_node import SWITCHES, mapped_recording
from tests.places import RECORDED
from tests.run_journals import record_of
from tests.session.conftest import baseline_of_copies

SUITE = """
import pytest

SLOW = {"cuda:2": 0.8, "cuda:3": 0.81}

@pytest.mark.anubis(component="accelerator.memory", scope="device")
def test_copy(anubis_metric, anubis_device):
    rate = 100.0 * SLOW.get(anubis_device.name, 1.0)
    anubis_metric.record("rate", [rate] * 5, unit="GB/s", better="higher")
"""


@pytest.fixture
def eight(pytester: pytest.Pytester) -> pytest.Pytester:
    """A suite of which two cards are slow, a node with a map, and the baseline of its class without one."""
    pytester.makepyfile(test_suite=SUITE)
    save_baseline(baseline_of_copies(replay(RECORDED).inventory), pytester.path / "baselines")
    (pytester.path / "node.json").write_text(mapped_recording())
    return pytester


def run(pytester: pytest.Pytester, *more: str) -> pytest.RunResult:
    return pytester.runpytest("--anubis", "--anubis-inventory=node.json", "-p", "no:xdist", *more)


def test_both_cards_fail_and_their_switch_is_named(eight: pytest.Pytester) -> None:
    result = run(eight, "--html=report.html", "--self-contained-html")
    assert result.ret == 1
    record = record_of(eight)
    failed = [v.device for v in record.verdicts if v.outcome is Outcome.FAIL]
    assert failed == ["cuda:2", "cuda:3"]
    assert record.node_verdict is not None
    (part,) = record.node_verdict.shared
    assert (part.kind, part.name, part.devices) == ("switch", SWITCHES[1], ("cuda:2", "cuda:3"))
    assert part.components == ("accelerator.memory",)
    assert part.alone
    assert part.loss == pytest.approx(0.195, abs=0.001)
    result.stdout.fnmatch_lines(
        [f"next step: check PCIe switch {SWITCHES[1]} *, which cuda:2, cuda:3 *"]
    )
    assert SWITCHES[1] in record.node_verdict.headline
    dossier = run_page(record)
    for page in (dossier, (eight.path / "report.html").read_text()):
        above = page[: page.index("class='card FAIL'")]
        assert above.count(f"share PCIe switch {SWITCHES[1]}") == 1
    (plain,) = json.loads(run_json(record))["node_verdict"]["shared"]
    assert (plain["kind"], plain["name"]) == ("switch", SWITCHES[1])


def judged(pytester: pytest.Pytester, *more: str) -> dict[str, Any]:
    """Return the node as ``anubis judge`` writes it."""
    main(["judge", ".anubis/runs", "--json=judged.json", *more])
    (node,) = json.loads((pytester.path / "judged.json").read_text())["nodes"]
    return dict(node)


def test_judge_finds_the_part_in_a_run_that_only_measured(
    eight: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    run(eight)
    decided = record_of(eight).node_verdict
    assert decided is not None
    of_run = to_plain(decided.shared, full=True)
    assert judged(eight)["shared"] == of_run
    shutil.rmtree(eight.path / ".anubis")
    run(eight, "--anubis-mode=measure")
    capsys.readouterr()
    found = judged(eight, "-v", "--html=fleet.html")
    assert found["shared"] == of_run
    assert found["next"].startswith(f"check PCIe switch {SWITCHES[1]} ")
    assert found["next"] in found["headline"]
    assert capsys.readouterr().out.count(f"share PCIe switch {SWITCHES[1]}") == 1
    assert f"PCIe switch {SWITCHES[1]}" in (eight.path / "fleet.html").read_text()


def test_judge_finds_no_part_in_a_healthy_run(eight: pytest.Pytester) -> None:
    eight.makepyfile(test_suite=SUITE.replace("0.8", "1.0"))
    run(eight, "--anubis-mode=measure")
    assert "shared" not in judged(eight)


def test_judge_names_no_part_of_devices_that_it_accepts(
    eight: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    run(eight)
    (path,) = (eight.path / "baselines").glob("*.json")
    path.write_text(re.sub(r'"alpha": [0-9.]+', '"alpha": 0.5', path.read_text()))
    assert main(["baseline", "promote", str(path), "--to=milder"]) == 0
    capsys.readouterr()
    main(["judge", ".anubis/runs", "-v", "--baseline=milder"])
    assert SWITCHES[1] not in capsys.readouterr().out


def test_without_a_map_no_part_is_named(eight: pytest.Pytester) -> None:
    (eight.path / "node.json").write_text(RECORDED.read_text())
    assert run(eight).ret == 1
    decided = record_of(eight).node_verdict
    assert decided is not None
    assert decided.components == ("accelerator.memory",)
    assert decided.shared == ()
