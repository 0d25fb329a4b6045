"""Options, variables, marks and plugins that may hide a fault by accident.

``FAULTY`` is replaced by the name of the test with the fault.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from benchmarks.reliability.chaos.conftests import ACTIONS, CONFTESTS, HOOKS, OWN_RESULT


@dataclass(frozen=True)
class Evasion:
    """One thing that a user may do.

    Attributes:
        options: On the command line.
        environ: Variables.
        conftest: Lines at the end of the conftest.
        marks: Lines above the faulty test.
        leaves_out: The user leaves the faulty test out or expects its failure: a plain check's result is his.
        only_measures: Nothing is judged, so that 0 says only that everything was measured.
    """

    options: tuple[str, ...] = ()
    environ: Mapping[str, str] = field(default_factory=dict)
    conftest: str = ""
    marks: str = ""
    leaves_out: bool = False
    only_measures: bool = False


def _words(between: str | None, text: str) -> list[str]:
    return text.split(between)


PARTS = _words(
    None,
    "anubis-run anubis-judge anubis-terminal anubis-gate anubis-controller anubis-worker anubis-outgoing "
    "anubis-devices anubis-collection anubis-exit anubis-texts anubis-output anubis-timeouts "
    "anubis-leftovers anubis-hangs anubis-raised anubis-idle anubis-junit anubis-html "
    "anubis-pruning anubis "
    "xdist terminal logging capture faulthandler threadexception unraisableexception subtests skipping "
    "cacheprovider stepwise timeout html junitxml python runner main warnings tmpdir monkeypatch fixtures "
    "mark assertion debugging setuponly setupplan recwarn pastebin reports doctest unittest "
    "legacypath metadata",
)

_OPTIONS = _words(
    "|",
    "-n0|-n1|-n2|-n auto|--anubis-in-process|-s|-x|--maxfail=1|--lf|--ff|--nf|--sw|--sw --sw-skip|--exitfirst"
    "|--fixtures|--fixtures-per-test|--setup-plan|--setup-only|--setup-show|--markers|--help"
    "|--cache-show|--anubis-gate=off|--anubis-gate=continue|--anubis-select=risk|--anubis-select=all"
    "|--anubis-select=budget --anubis-budget=1ms|--anubis-select=cost|--anubis-select=risk --anubis-risk=0.99"
    "|--anubis-require-all|--anubis-fail-on=marginal|--anubis-redact|--anubis-timeout=30|--anubis-explain"
    "|--anubis-profile=standard|--anubis-baseline=nowhere|--anubis-store=elsewhere|--anubis-history=elsewhere"
    "|--anubis-run-id=mine|--anubis-duration=1s|--anubis-resume|--anubis-seed=1|--junitxml=out.xml"
    "|--html=out.html|--html=out.html --self-contained-html|-q|-qq|-v|-vvv|-W error|-W ignore|-W error -n2"
    "|--dist=each -n2|--dist=load -n2|--dist=loadgroup -n2|--dist=loadscope -n2|--dist=loadfile -n2"
    "|--dist=worksteal -n2|--dist=no|--dist=no -n2|--tx=2*popen|--maxprocesses=1 -n2|--max-worker-restart=0"
    "|--runxfail|--tb=no|--no-header --no-summary|-r N|--durations=3|--import-mode=importlib|--assert=plain"
    "|--noconftest|--keep-duplicates test_toy.py test_toy.py|-o addopts=|-c /dev/null|--rootdir=/"
    "|-o xfail_strict=true|--strict-markers|-p pytester|--basetemp=tmp|--show-capture=no|--capture=sys"
    "|--capture=tee-sys|--log-cli-level=DEBUG|--color=yes|--timeout=30|--timeout=30 --timeout-method=thread"
    "|--session-timeout=60|--last-failed-no-failures=none --lf|--continue-on-collection-errors|--trace-config"
    "|--debug|--full-trace|--disable-warnings|--xfail-tb|--anubis-scratch=tmp|--doctest-modules"
    "|--anubis-horizon=1h",
)

_LEAVING_OUT = _words(
    "|",
    "--collect-only|-k|not FAULTY|-k|test_b|--deselect|test_toy.py::FAULTY|--ignore|test_toy.py"
    "|--ignore-glob|*toy*|-m|not anubis|-m|nothing|-o|python_functions=check_*|-o|python_files=nothing.py",
)

_ENVIRONMENT = {
    "PYTEST_ADDOPTS": (
        "-n0",
        "-n2",
        "-p no:xdist",
        "-s",
        "-q -q",
        "--lf",
        "--anubis-in-process",
        "-x",
    ),
    "PYTEST_PLUGINS": ("pytester",),
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": ("1",),
    "PYTHONOPTIMIZE": ("1", "2"),
    "PYTHONWARNINGS": ("error", "ignore"),
    "PYTHONIOENCODING": ("ascii", "utf-16"),
    "PYTHONHASHSEED": ("0",),
    "PYTHONUTF8": ("0",),
    "PYTHONDONTWRITEBYTECODE": ("1",),
    "PYTHONFAULTHANDLER": ("1",),
    "PYTHONASYNCIODEBUG": ("1",),
    "PYTHONDEVMODE": ("1",),
    "LANG": ("C", "tr_TR.UTF-8"),
    "LC_ALL": ("C",),
    "TZ": ("Pacific/Kiritimati",),
    "CI": ("1",),
    "COLUMNS": ("1",),
    "TERM": ("dumb",),
    "FORCE_COLOR": ("1",),
    "HOME": ("/nowhere",),
    "TMPDIR": ("/nowhere",),
    "XDG_CACHE_HOME": ("/nowhere",),
    "OMP_NUM_THREADS": ("0",),
    "PYTEST_XDIST_AUTO_NUM_WORKERS": ("0", "2"),
    "PYTEST_XDIST_WORKER": ("gw0",),
    "PYTEST_ANUBIS_LANE": ("cpu", "cuda:0"),
    "PYTEST_ANUBIS_PROFILE": ("standard", "smoke"),
    "PYTEST_ANUBIS_STORE": ("elsewhere",),
    "PYTEST_ANUBIS_MAX_INPUT": ("1KiB",),
    "PYTEST_TIMEOUT": ("30",),
}

MARKS = {
    "xfail": ("@pytest.mark.xfail(reason='known')", True),
    "xfail strict": ("@pytest.mark.xfail(strict=True)", True),
    "xfail, not run": ("@pytest.mark.xfail(run=False)", True),
    "xfail if": ("@pytest.mark.xfail(True, reason='known')", True),
    "xfail of another error": ("@pytest.mark.xfail(raises=ZeroDivisionError)", False),
    "skip": ("@pytest.mark.skip(reason='odd')", True),
    "skip if": ("@pytest.mark.skipif(True, reason='odd')", True),
    "uses fixtures": ("@pytest.mark.usefixtures('tmp_path', 'capsys')", False),
    "timeout": ("@pytest.mark.timeout(20)", False),
    "timeout by thread": ("@pytest.mark.timeout(20, method='thread')", False),
    "filters warnings": ("@pytest.mark.filterwarnings('error')", False),
    "group": ("@pytest.mark.xdist_group('odd')", False),
    "no test": ("@(lambda f: setattr(f, '__test__', False) or f)", True),
    "wrapped": ("@(lambda f: __import__('functools').wraps(f)(lambda *a, **k: f(*a, **k)))", False),
}
"""Mark -> its line, and whether its user leaves the test out, or expects its failure."""


def evasions() -> dict[str, Evasion]:
    """Return all evasions by name."""
    found = {f"{text}": Evasion(options=tuple(text.split())) for text in _OPTIONS}
    found["--anubis-mode=measure"] = Evasion(("--anubis-mode=measure",), only_measures=True)
    for part in PARTS:
        found[f"-p no:{part}"] = Evasion(("-p", f"no:{part}"))
    found["--collect-only"] = Evasion(("--collect-only",), leaves_out=True)
    for option, value in zip(_LEAVING_OUT[1::2], _LEAVING_OUT[2::2], strict=True):
        found[f"{option} {value}"] = Evasion((option, value), leaves_out=True)
    found["id of another"] = Evasion(("test_toy.py::test_b",), leaves_out=True)
    found["id of one device"] = Evasion(
        ("test_toy.py::test_a", "test_toy.py::test_g[cuda:1]"), leaves_out=True
    )
    for name, values in _ENVIRONMENT.items():
        for value in values:
            found[f"{name}={value}"] = Evasion(environ={name: value})
    for value in ("0", "0,1,2", "", "NoDevFiles", "7,6"):
        found[f"CUDA_VISIBLE_DEVICES={value}"] = Evasion(environ={"CUDA_VISIBLE_DEVICES": value})
    for hook, arguments in HOOKS.items():
        for action, line in ACTIONS.items():
            text = f"@pytest.hookimpl(tryfirst=True)\ndef {hook}({arguments}):\n    {line}\n"
            leaves = action in ("True", "0", "empty list") and hook in OWN_RESULT
            found[f"{hook}: {action}"] = Evasion(conftest=text, leaves_out=leaves)
    for name, (text, leaves) in CONFTESTS.items():
        found[f"conftest: {name}"] = Evasion(conftest=text, leaves_out=leaves)
    for name, (line, leaves) in MARKS.items():
        found[f"mark: {name}"] = Evasion(marks=line, leaves_out=leaves)
    return found
