"""The plugins that users have beside this one: does a run with them say what it says without them?

Each plugin stands alone beside ``--anubis`` and does what it is there for (its options are given, a test uses
its fixture). A healthy node, one with a metric that is 50 % slow, one of which a worker dies: decision, exit
code, outcomes of the tests and counts of the verdicts are compared with the same run without it. Beside what
repeats failures, a metric that is slow once leaves a healthy node with one MARGINAL more. Prints the
table of docs/neighbours.md; ends with 1 if a row is neither the same nor refused in one line.
Run: ``python benchmarks/sessions/neighbours.py --install DIR`` once, then
``python benchmarks/sessions/neighbours.py DIR``.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.metadata import Distribution, PackageNotFoundError, distribution, distributions
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout's packages

from benchmarks import ROOT
from benchmarks.reliability.chaos.toy_node import INI, copy_of, learned, run, suite

HEALTHY = "healthy"
SCENES = {
    HEALTHY: {},
    "slow": {"b": "record(anubis_metric, 'NAME', 0.5)"},
    "dead": {"b": "os._exit(9)"},
}
"""Scene -> the bodies of the tests that differ from a healthy node's."""

ONCE = {
    "b": "import pathlib\nfirst = not pathlib.Path('once').exists()\npathlib.Path('once').touch()\n"
    "record(anubis_metric, 'NAME', 0.5 if first else 1.0)"
}
"""Slow at the first attempt only: what repeats failures makes a healthy node of it."""

IN_PROCESS = "--anubis-in-process"
WHERE = r"^(.*test_toy.py::\w+(\[.*?\])?( node)?: (the benchmark is written wrongly: )?|ERROR: )"
"""What stands before the reason in a line that refuses, be it an error's or the verdict's headline."""
LONGEST = 300.0
"""Seconds after which a run is taken to hang: on a busy machine the usual five become a minute."""
REFUSED = 4
"""Exit code of pytest for a wrong usage."""


@dataclass(frozen=True)
class Neighbour:
    """What a plugin is there for.

    Attributes:
        options: Switch it on.
        own: A test that uses it, added to the healthy node's.
        refused: The run is to end with one line that holds this.
        again: It repeats what failed, which is MARGINAL besides; a test that died comes to its end twice.
        ways: The ways of running in which it is tried.
    """

    options: tuple[str, ...] = ()
    own: str = ""
    refused: str = ""
    again: bool = False
    ways: tuple[str, ...] = ("", IN_PROCESS)


NEIGHBOURS = {
    "pytest-cov": Neighbour(("--cov=.", "--cov-report=")),
    "pytest-asyncio": Neighbour(
        own="@pytest.mark.asyncio\nasync def test_own():\n    import asyncio\n    await asyncio.sleep(0)\n"
    ),
    "pytest-mock": Neighbour(own="def test_own(mocker):\n    assert mocker.Mock()(1)\n"),
    "pytest-timeout": Neighbour(("--timeout=60",)),
    "pytest-rerunfailures": Neighbour(("--reruns=1",), again=True),
    "pytest-randomly": Neighbour(("--randomly-seed=3",)),
    "pytest-sugar": Neighbour(),
    "pytest-benchmark": Neighbour(
        own="def test_own(benchmark):\n    benchmark(lambda: 1)\n    assert benchmark.stats is not None\n",
        ways=(IN_PROCESS,),
    ),
    "pytest-benchmark (in a worker)": Neighbour(
        own="def test_own(benchmark):\n    benchmark(lambda: 1)\n",
        refused="pytest-benchmark",
        ways=("",),
    ),
    "pytest-django": Neighbour(),
    "pytest-env": Neighbour(own="def test_own():\n    assert os.environ['NEIGHBOUR'] == 'yes'\n"),
    "pytest-order": Neighbour(own="@pytest.mark.order(1)\ndef test_own():\n    pass\n"),
    "pytest-split": Neighbour(("--splits=1", "--group=1")),
    "pytest-forked": Neighbour(),
    "pytest-subtests": Neighbour(
        own="def test_own(subtests):\n    with subtests.test('one'):\n        pass\n"
    ),
    "pytest-socket": Neighbour(("--allow-unix-socket",), own="def test_own(socket_enabled):\n    pass\n"),
    "pytest-check": Neighbour(own="def test_own(check):\n    check.equal(1, 1)\n"),
    "pytest-bdd": Neighbour(),
    "anyio": Neighbour(
        own="@pytest.mark.anyio\nasync def test_own(anyio_backend_name):\n    pass\n\n"
        "@pytest.fixture\ndef anyio_backend():\n    return 'asyncio'\n"
    ),
    "hypothesis": Neighbour(
        own="from hypothesis import given, strategies\n\n@given(strategies.integers())\n"
        "def test_own(number):\n    assert number == number\n"
    ),
    "syrupy": Neighbour(own="def test_own(snapshot):\n    assert snapshot is not None\n"),
    "pytest-repeat": Neighbour(("--count=2",), refused="pytest-repeat"),
    "pytest-flakefinder": Neighbour(("--flake-finder", "--flake-runs=2"), refused="pytest-flakefinder"),
    "pytest-instafail": Neighbour(("--instafail",)),
    "pytest-json-report": Neighbour(("--json-report", "--json-report-file=out.json")),
    "allure-pytest": Neighbour(("--alluredir=allure",)),
    "pytest-reportlog": Neighbour(("--report-log=log.jsonl",)),
    "pytest-random-order": Neighbour(("--random-order",)),
    "pytest-dependency": Neighbour(own="@pytest.mark.dependency()\ndef test_own():\n    pass\n"),
    "pytest-retry": Neighbour(("--retries=1",), again=True),
    "pytest-freezer": Neighbour(own="def test_own(freezer):\n    freezer.move_to('2020-01-01')\n"),
    "pytest-freezer (frozen measurement)": Neighbour(
        own="def test_own(anubis_metric, freezer):\n"
        "    anubis_metric.measure('frozen', lambda: 1, unit='s', better='lower')\n",
        refused="clock",
    ),
    "pytest-freezer (by its mark)": Neighbour(
        own="@pytest.mark.freeze_time('2020-01-01')\ndef test_own(anubis_metric):\n"
        "    anubis_metric.record('frozen', 1.0, unit='s', better='lower')\n",
        refused="clock",
    ),
    "freezegun (decorator)": Neighbour(
        own="import freezegun\n@freezegun.freeze_time('2020-01-01')\ndef test_own(anubis_metric):\n"
        "    anubis_metric.measure('frozen', lambda: 1, unit='s', better='lower')\n",
        refused="clock",
    ),
    "freezegun (in the body)": Neighbour(
        own="def test_own(anubis_metric):\n    import freezegun\n    with freezegun.freeze_time('2020'):\n"
        "        anubis_metric.measure('frozen', lambda: 1, unit='s', better='lower')\n",
        refused="clock",
    ),
    "pytest-testmon": Neighbour(("--testmon",)),
    "pytest-rich": Neighbour(("--rich",)),
}  # fmt: skip
"""Name of the distribution, maybe with what is tried of it in brackets -> what it is there for."""

EXTRA_INI = {
    "pytest-env": "env =\n    NEIGHBOUR=yes\n",
    "pytest-asyncio": "asyncio_default_fixture_loop_scope = function\n",
}


@dataclass(frozen=True)
class Said:
    """What a run says about a node, as far as plugins may not change it."""

    status: int | None
    decision: str
    tests: tuple[tuple[str, int], ...]
    verdicts: tuple[tuple[str, int], ...]

    def __str__(self) -> str:
        """Return it in a few words."""
        tests = ", ".join(f"{n} {word}" for word, n in self.tests)
        verdicts = ", ".join(f"{n} {word}" for word, n in self.verdicts)
        decision = self.decision or "no decision"
        return f"{decision} ({self.status}); tests {tests or '-'}; verdicts {verdicts or '-'}"


def project_of(name: str) -> str:
    """Return the distribution of a row."""
    return name.partition(" ")[0]


def view_of(name: str, pool: Path, folder: Path) -> str | None:
    """Make a folder that holds one distribution and what it needs beyond this environment.

    Returns:
        The distribution's version; None where it could not be installed.
    """
    there = {_plain(d.name): d for d in distributions(path=[str(pool)])}
    if _plain(name) not in there:
        return None
    folder.mkdir(parents=True)
    wanted, taken = [name], set[str]()
    while wanted:
        one = _plain(wanted.pop())
        if one in taken or one not in there or (one != _plain(name) and _here(one)):
            continue
        taken.add(one)
        _link(there[one], pool, folder)
        for line in there[one].requires or ():
            if "extra" not in line:
                wanted.append(re.split(r"[^A-Za-z0-9._-]", line, maxsplit=1)[0])
    return there[_plain(name)].version


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _here(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True


def _link(one: Distribution, pool: Path, folder: Path) -> None:
    tops = {file.parts[0] for file in one.files or () if file.parts[0] not in ("..", "__pycache__")}
    for top in tops:
        if (pool / top).exists() and not (folder / top).exists():
            (folder / top).symlink_to(pool / top)


def said_by(folder: Path, options: Sequence[str], view: Path | None) -> tuple[Said, str]:
    """Run once, and return what was said about the node, and all that was printed."""
    path = {} if view is None else {"PYTHONPATH": f"{view}{os.pathsep}{ROOT}"}
    ran = run(folder, options, path, seconds=LONGEST)
    if not ran.records:
        return Said(ran.status, "", (), ()), ran.said
    record = ran.records[-1]
    own = [r for r in record.results if "test_own" not in r.test]
    verdict = record.node_verdict
    tests = Counter(result.outcome for result in own)
    return Said(
        ran.status,
        verdict.decision.name if verdict is not None else "",
        tuple(sorted(tests.items())),
        tuple(sorted(pair for pair in (verdict.counts if verdict is not None else ()) if pair[1])),
    ), ran.said


def main() -> int:
    """Install, or try everything and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=Path, nargs="?", help="folder with the plugins")
    parser.add_argument("--install", type=Path, metavar="DIR", help="install the plugins there")
    parser.add_argument(
        "--only", action="append", default=[], help="only rows that begin like this"
    )
    parser.add_argument("--said", action="store_true", help="print what runs that differ print")
    options = parser.parse_args()
    if options.install is not None:
        names = sorted({project_of(name) for name in NEIGHBOURS})
        command = [sys.executable, "-m", "pip", "install", "--target", str(options.install), *names]
        return subprocess.run(command, check=False).returncode
    if options.folder is None:
        parser.error("name the folder of the plugins, or make one with --install DIR")
    with tempfile.TemporaryDirectory(prefix="neighbours-") as name:
        return _table(Path(name), options)


def _table(home: Path, options: argparse.Namespace) -> int:
    pool = options.folder.resolve()
    template = learned("host", home / "learned")
    plain = {
        (scene, way): said_by(
            copy_of(template, home / f"plain-{scene}{way}", suite("host", bodies, {})),
            [*filter(None, [way])], None,
        )[0]
        for scene, bodies in SCENES.items()
        for way in ("", IN_PROCESS)
        if (scene, way) != ("dead", IN_PROCESS)  # which ends pytest
    }  # fmt: skip
    for key, said in plain.items():
        print(f"without: {' '.join(filter(None, key))}: {said}", file=sys.stderr)
    print("| plugin | tried with | result |\n|---|---|---|", flush=True)
    wrong = 0
    for name, neighbour in NEIGHBOURS.items():
        if options.only and not name.startswith(tuple(options.only)):
            continue
        project = project_of(name)
        view = home / "views" / _plain(name.replace(" ", "-").strip("()"))
        version = view_of(project, pool, view)
        if version is None:
            result, bad = "not tried: it could not be installed", False
        else:
            result, bad = _row(name, neighbour, home, view, template, plain, options)
        wrong += bad
        how = " ".join(f"`{option}`" for option in neighbour.options)
        own = "a test that uses it" if neighbour.own else ""
        how = "; ".join(filter(None, (how, own))) or "installed"
        shown = name.replace(project, f"{project} {version or ''}".strip(), 1)
        print(f"| {shown} | {how} | {result} |", flush=True)
    return int(wrong > 0)


def _row(
    name: str,
    neighbour: Neighbour,
    home: Path,
    view: Path,
    template: Path,
    plain: dict[tuple[str, str], Said],
    options: argparse.Namespace,
) -> tuple[str, bool]:
    """Try one plugin; return the cell of the table, and whether something is wrong."""
    found, refusals = [], set[str]()
    for scene, way in plain:
        if way not in neighbour.ways or (neighbour.refused and scene != HEALTHY):
            continue
        for given in dict.fromkeys(((), neighbour.options)):
            if neighbour.refused and given != neighbour.options:
                continue
            folder = home / f"{view.name}-{scene}{way}{len(given)}"
            text = suite("host", SCENES[scene], {})
            copy_of(template, folder, text + (neighbour.own if scene == HEALTHY else ""))
            (folder / "pytest.ini").write_text(_ini(project_of(name)))
            said, printed = said_by(folder, [*filter(None, [way]), *given], view)
            shutil.rmtree(folder, ignore_errors=True)
            if neighbour.refused:
                # Of an option nothing is collected: the line names the plugin alone.
                lines = [x for x in printed.splitlines() if "test_toy.py::" in x or "ERROR: " in x]
                line = next((x for x in lines if neighbour.refused in x), "")
                if said.status == REFUSED and line and "Traceback" not in printed:
                    said_why = re.sub(WHERE, "", line)
                    refusals.add(said_why.partition(";")[0])
                    continue
            if given and neighbour.again:
                said = _without_marginal(said)
            if said != plain[scene, way] or (scene == HEALTHY and said.status):
                where = " ".join(filter(None, (scene, way, *given)))
                found.append(f"{where}: {said}, without it {plain[scene, way]}")
                if options.said:
                    print(printed[-6000:], file=sys.stderr)
    for way in neighbour.ways if neighbour.again else ():
        folder = copy_of(template, home / f"{view.name}-once{way}", suite("host", ONCE, {}))
        said, _ = said_by(folder, [*filter(None, [way]), *neighbour.options], view)
        if _without_marginal(said) != plain[HEALTHY, way] or said == plain[HEALTHY, way]:
            where = " ".join(filter(None, ("slow once", way, *neighbour.options)))
            found.append(f"{where}: {said}, not accepted with one MARGINAL more")
    if found:
        return "; ".join(found), True
    return (f"refused: {'; '.join(sorted(refusals))}", False) if refusals else ("same", False)


def _without_marginal(said: Said) -> Said:
    """Return what was said, but for attempts that failed and were repeated."""
    return replace(said, verdicts=tuple(pair for pair in said.verdicts if pair[0] != "MARGINAL"))


def _ini(project: str) -> str:
    base = "\n".join(line for line in INI.splitlines() if not (
        line.startswith("addopts") and project in ("hypothesis", "pytest-benchmark")
    ))  # fmt: skip
    return f"{base}\n{EXTRA_INI.get(project, '')}"


if __name__ == "__main__":
    sys.exit(main())
