"""What pytest refuses in fixtures and tests, and cleanups that fail after the last test that shared them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.run_journals import journal_of
from tests.session.conftest import run_kinds

HEAD = "import pytest\n\n"
TEST = (
    "\n@pytest.mark.anubis(component='cpu.odd', action='swap it')\ndef test_odd(odd):\n    pass\n"
)
REFUSED = {
    "async": TEST.replace("def test_odd(odd)", "async def test_odd()"),
    "scope": "@pytest.fixture(scope='session')\ndef odd(tmp_path):\n    pass\n" + TEST,
    "called": "@pytest.fixture\ndef odd():\n    return 1\n"
    + TEST.replace("(odd)", "()").replace("pass", "assert odd() == 1"),
    "no yield": "@pytest.fixture\ndef odd():\n    if 0:\n        yield\n" + TEST,
    "two yields": "@pytest.fixture\ndef odd():\n    yield 1\n    yield 2\n" + TEST,
    "no class": "@pytest.fixture(scope='module')\ndef odd(request):\n    request.cls\n" + TEST,
    "no reason": TEST.replace("@", "@pytest.mark.skipif(True)\n@").replace("(odd)", "()"),
}
COUNTS = {
    "own fail": "@pytest.fixture\ndef odd():\n    pytest.fail('bad')\n" + TEST,
    "own value error": "@pytest.fixture\ndef odd():\n    raise ValueError('bad')\n" + TEST,
    "no exception": TEST.replace("(odd)", "()").replace(
        "pass", "\n    with pytest.raises(ValueError): pass"
    ),
    "own cleanup": "@pytest.fixture\ndef odd():\n    yield\n    assert 0\n" + TEST,
    "finalizer": "@pytest.fixture\ndef odd(request):\n    request.addfinalizer(lambda: 1 / 0)\n"
    + TEST,
    "both cleanups": "@pytest.fixture(scope='module')\ndef shared():\n    yield\n    assert 0\n\n"
    "@pytest.fixture\ndef odd(shared):\n    yield\n    assert 0\n" + TEST,
}
CLEANUPS = {
    scope: f"@pytest.fixture(scope='{scope}')\ndef odd():\n    yield\n    raise RuntimeError('left')\n"
    + TEST
    for scope in ("session", "package", "module", "class")
} | {
    "two yields": "@pytest.fixture(scope='session')\ndef odd():\n    yield 1\n    yield 2\n" + TEST,
    "several": "@pytest.fixture(scope='module')\ndef odd(request):\n"
    "    request.addfinalizer(lambda: 1 / 0)\n    yield\n    assert 0\n" + TEST,
    "of the module": "def teardown_module():\n    assert 0\n" + TEST.replace("(odd)", "()"),
}


def decision(project: pytest.Pytester, text: str, *options: str) -> tuple[int, dict[str, Any], str]:
    """Return how a run with one more test ends, what it decides, and its journal."""
    project.makepyfile(test_zodd=HEAD + text)
    code = int(project.runpytest("--anubis", *options).ret)
    path = journal_of(project)
    events = [json.loads(line) for line in path.read_text().splitlines()]
    return code, [one for one in events if one["event"] == "node_verdict"][-1], path.read_text()


def headed(cases: dict[str, str]) -> dict[str, str]:
    return {case: HEAD + text for case, text in cases.items()}


def test_what_pytest_refuses_is_a_mistake_of_the_test(with_baseline: pytest.Pytester) -> None:
    ret, record, found = run_kinds(with_baseline, headed(REFUSED))
    assert ret == 20
    assert found == {case: {"INCONCLUSIVE"} for case in REFUSED}
    assert record.node_verdict is not None
    blocking = sorted(map(str, record.node_verdict.blocking))
    assert len(blocking) == len(REFUSED)
    for number, line in enumerate(blocking):
        assert "the benchmark is written wrongly: " in line
        assert f"test_{number:02}.py:" in line


def test_what_a_test_or_its_own_fixture_raises_counts(with_baseline: pytest.Pytester) -> None:
    ret, _, found = run_kinds(with_baseline, headed(COUNTS))
    assert ret == 1
    assert {case for case in COUNTS if "FAIL" not in found[case]} == set()


@pytest.mark.parametrize("case", CLEANUPS)
def test_failed_shared_cleanup_blames_no_component(
    with_baseline: pytest.Pytester, case: str
) -> None:
    code, verdict, journal = decision(with_baseline, CLEANUPS[case])
    assert code == 20
    (blocking,) = map(str, verdict["blocking"])
    assert "fixture odd (" in blocking or "module" in case
    assert not verdict["components"]
    ends = [json.loads(line) for line in journal.splitlines() if '"test_finished"' in line]
    assert {one["outcome"] for one in ends} == {"passed"}


@pytest.mark.usefixtures("in_workers")
def test_workers_tell_of_one_fixture_once(with_baseline: pytest.Pytester) -> None:
    code, verdict, _ = decision(with_baseline, CLEANUPS["session"], "-n2", "--anubis-profile=smoke")
    assert code == 20
    assert len([one for one in map(str, verdict["blocking"]) if "fixture odd (session" in one]) == 1


def test_cleanup_failing_in_next_setup_rejects_nothing(with_baseline: pytest.Pytester) -> None:
    given = CLEANUPS["session"].replace("scope='session'", "scope='session', params=[1, 2]")
    code, verdict, _ = decision(with_baseline, given)
    assert code == 20
    assert any("fixture odd (session" in str(one) for one in verdict["blocking"])
