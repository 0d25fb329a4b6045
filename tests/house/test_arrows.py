"""The house rules that a reader relies on: who may import whom, what is pure, what stays cheap.

Each rule is one test that lists every violation: a new engineer sees all of them at once.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest_anubis

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "pytest_anubis"

# Room -> rooms that it may import. Modules at the top level are rooms of their own.
MAY_IMPORT = {
    "core": set(),
    "codec": {"core"},
    "options": set(),
    "passwords": set(),
    "root_folder": {"options"},
    "durations": set(),
    "settings": {"options", "passwords", "durations", "root_folder"},
    "hookspecs": {"core"},
    "fixture_types": {"core"},
    "validator": {"core"},
    "selector": {"core"},
    "tool_outputs": {"core", "codec"},
    "traces": {"core", "codec"},
    "benchmarking": {"core", "codec", "hardware", "tool_outputs", "fleet", "traces"},
    "store": {"core", "codec", "passwords", "tool_outputs", "durations"},
    "report": {"core", "codec"},
    "hardware": {"core", "codec"},
    "fleet": {"core", "codec", "store", "report", "durations"},
    "session": {
        "core", "fixture_types", "validator", "selector", "store", "hardware", "report", "codec", "settings",
        "fleet", "benchmarking", "options", "durations", "traces",
    },
    "distributed": {
        "core", "validator", "selector", "store", "hardware", "report", "codec", "settings", "session",
    },
    "cli": {
        "core", "validator", "selector", "store", "hardware", "report", "codec", "settings",
        "distributed", "passwords", "fleet", "durations", "traces", "benchmarking",
    },
    "__main__": {"cli"},
    "run_context": {
        "core", "store", "hardware", "codec", "settings", "session", "distributed", "validator", "options",
    },
    "start": {"core", "hardware", "report", "run_context", "settings", "session", "distributed"},
    "start_worker": {"codec", "session", "distributed"},
    "plugin": {"start", "start_worker", "session", "distributed", "settings", "hookspecs"},
}  # fmt: skip

# Room -> its shelves in reading order: a shelf may import those before it, never those after it. Modules
# beside the shelves are named ``.`` and stand where they belong: most rooms keep what is shared first. A
# shelf that has shelves of its own is named like a room, by its path.
SHELVES = {
    "core": (
        "field_types",
        "nominal_rate",
        "metric",
        "measurement",
        "onset",
        "loss_shares",
        "blocker",
        "node_map",
        "verdict",
        ".",
        "standing",
        "asking",
    ),
    "validator": (
        "similarity",
        "changes",
        "limits",
        "learning",
        "judging",
        "surveying",
        "deciding",
    ),
    "selector": (".", "risk", "choice", "planning", "simulation"),
    "selector/risk": ("models", "choosing", "."),
    "fleet": ("links", "launching", "."),
    "benchmarking": (".", "hosts", "replay"),
    "hardware": (".", "inventory", "gate", "load", "telemetry"),
    "store": (
        "atomic",
        "scratch_folders",
        "namesakes",
        "journal",
        "baselines",
        "history",
        "samples",
        "importers",
        "sealing",
        ".",
        "fleet",
    ),
    "store/history": (*("tables", "connections", "node_rows", "database", "contents", "."),),
    "report": ("text", "plots", "pages", "fleet", "export", "."),
    "session": (".", "collecting", "measuring", "selecting", "running"),
    "distributed": ("dispatch", "containment", "workers"),
    "cli": ("shared", "site", "learning", "commands", "."),
}
# What authors of benchmarks import from besides the package itself, module by module.
PUBLIC_ROOMS = ("pytest_anubis.benchmarking", "pytest_anubis.tool_outputs")
PURE = (
    "core",
    "tool_outputs",
    "traces",
    "validator",
    "selector",
    "fleet/links",
    "benchmarking/tier_schedule.py",
    "distributed/dispatch/dispatcher.py",
)
PURE_BUT = {
    "selector/choice/solver_output.py"
}  # undoes what the solver's library does to standard output
IMPURE_MODULES = {
    "pytest", "os", "io", "pathlib", "time", "datetime", "random", "subprocess", "socket", "pynvml",
    "sqlalchemy", "xdist", "execnet", "threading", "tempfile", "shutil", "logging",
}  # fmt: skip
LONGEST = 460  # lines of a file that can be read without losing the place
FEW_USERS = 3  # modules that import another one, up to which its docstring names one of them
CLAIM = re.compile(r"((?:`[\w/]+`(?:, | and )?)+) uses? it")  # of a docstring: who uses its module
WORD = re.compile(r"\w+")


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def shelf_of(path: Path, room: str) -> str:
    """Return the shelf of a module, ``.`` beside the shelves unless it has a place of its own."""
    first = path.relative_to(PACKAGE / room).parts[0].removesuffix(".py")
    return first if first in SHELVES[room] else "."


def within(path: Path, room: str) -> bool:
    """Say whether a module stands in a room or in a shelf with shelves; its own ``__init__`` does not."""
    return path.is_relative_to(PACKAGE / room) and path != PACKAGE / room / "__init__.py"


@cache
def imports(path: Path) -> frozenset[str]:
    """Return the full names of all modules that a file imports anywhere, late imports included."""
    names: set[str] = set()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    typing_only = {
        node
        for branch in ast.walk(tree)
        if isinstance(branch, ast.If) and ast.unparse(branch.test) == "TYPE_CHECKING"
        for node in ast.walk(branch)
    }
    for node in ast.walk(tree):
        if node in typing_only:
            continue
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import; write the full name"
            module = node.module or ""
            names.add(module)
            names.update(f"{module}.{alias.name}" for alias in node.names)
    return frozenset(names)


@cache
def module_at(name: str) -> Path | None:
    """Return the file of a module of ours, None for another module or a name inside one."""
    place = ROOT / name.replace(".", "/")
    if place.with_suffix(".py").is_file():
        return place.with_suffix(".py")
    return place / "__init__.py" if (place / "__init__.py").is_file() else None


def ours(path: Path) -> set[Path]:
    """Return the files of ours that a file imports."""
    names = {name for name in imports(path) if name.startswith("pytest_anubis")}
    return {found for name in names if (found := module_at(name)) is not None} - {path}


def test_imports_follow_the_arrows() -> None:
    wrong = []
    for path in modules():
        room = room_of(path)
        if room == "__init__":
            continue
        reached = {room_of(other) for other in ours(path)} - {room, "__init__"}
        wrong += [
            f"{path.relative_to(PACKAGE)}: {room} may not import {name}"
            for name in sorted(reached - MAY_IMPORT[room])
        ]
    assert not wrong, "\n".join(wrong)


def test_shelves_of_a_room_stand_in_reading_order() -> None:
    wrong = []
    for room, order in SHELVES.items():
        for path in modules():
            if not within(path, room):
                continue
            mine = order.index(shelf_of(path, room))
            wrong += [
                f"{path.relative_to(PACKAGE)} -> {other.relative_to(PACKAGE)}"
                for other in ours(path)
                if within(other, room) and order.index(shelf_of(other, room)) > mine
            ]
    assert not wrong, "\n".join(sorted(wrong))


def test_no_module_imports_itself_by_a_detour() -> None:
    arrows = {path: ours(path) for path in modules() if path.name != "__init__.py"}
    while True:  # what leads nowhere is on no circle
        ends = {path for path, to in arrows.items() if not to & arrows.keys()}
        if not ends:
            break
        arrows = {path: to for path, to in arrows.items() if path not in ends}
    assert not arrows, "circle among: " + ", ".join(
        sorted(str(path.relative_to(PACKAGE)) for path in arrows)
    )


def test_every_shelf_says_what_is_here_and_what_is_not() -> None:
    wrong = []
    for room, shelves in SHELVES.items():
        found = {place.parent.name for place in (PACKAGE / room).glob("*/*.py")}
        wrong += [f"{room}/{name}: no shelf of that name in SHELVES" for name in found - {*shelves}]
        for name in found:
            text = (PACKAGE / room / name / "__init__.py").read_text(encoding="utf-8")
            summary, _, rest = (ast.get_docstring(ast.parse(text)) or "").partition("\n\n")
            if not summary or len(rest.split("PYTEST_DONT_REWRITE")[0].split()) < 5:
                wrong.append(
                    f"{room}/{name}: two sentences: what is here; what is not, what to open"
                )
    assert not wrong, "\n".join(wrong)


def test_docstrings_name_who_uses_a_module() -> None:
    users: dict[Path, set[Path]] = {}
    for path in (*modules(), *sorted((ROOT / "suites").rglob("*.py"))):
        for other in ours(path):
            users.setdefault(other, set()).add(path)
    wrong = []
    for path in modules():
        if path.name == "__init__.py":
            continue
        text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        places = [user.relative_to(ROOT).with_suffix("").parts for user in users.get(path, ())]
        names = {part for place in places for part in place} - {"pytest_anubis"}
        names |= {name.removesuffix("_command") for name in names}
        name = path.relative_to(PACKAGE).as_posix()
        if 0 < len({place[-1] for place in places}) <= FEW_USERS and not names & set(
            WORD.findall(text)
        ):
            wrong.append(f"{name}: used by {sorted(place[-1] for place in places)}")
        for claim in CLAIM.findall(" ".join(text.split())):
            said = {one.strip("`/").rpartition("/")[2] for one in re.findall(r"`[^`]+`", claim)}
            wrong += [
                f"{name}: {one} does not use it" for one in sorted(said - names - {"benchmarks"})
            ]
    assert not wrong, "\n".join(wrong)


def test_a_file_name_occurs_once() -> None:
    counts = Counter(path.name for path in modules() if path.name != "__init__.py")
    assert not {name for name, count in counts.items() if count > 1}


def pure_files() -> list[Path]:
    found: list[Path] = []
    for name in PURE:
        place = PACKAGE / name
        assert place.exists(), f"{name} is called pure and is not there"
        found += sorted(place.rglob("*.py")) if place.is_dir() else [place]
    return [path for path in found if path.relative_to(PACKAGE).as_posix() not in PURE_BUT]


def test_pure_rooms_touch_no_files_clocks_or_devices() -> None:
    wrong = []
    for path in pure_files():
        heads = {name.partition(".")[0] for name in imports(path)} & IMPURE_MODULES
        opens = "open(" in path.read_text(encoding="utf-8").replace("_open(", "")
        if heads or opens:
            wrong.append(f"{path.relative_to(PACKAGE)}: {sorted(heads)}{' open()' * opens}")
    assert not wrong, "\n".join(wrong)


def test_suites_use_the_public_api_only() -> None:
    public = {f"pytest_anubis.{name}" for name in pytest_anubis.__all__}
    wrong = {
        str(path.relative_to(ROOT)): inner
        for path in sorted((ROOT / "suites").rglob("*.py"))
        if (
            inner := {
                name
                for name in imports(path)
                if name.startswith("pytest_anubis.") and not name.startswith(PUBLIC_ROOMS)
            }
            - public
        )
    }
    assert not wrong


def test_nothing_imports_pytests_inside() -> None:
    wrong = {
        str(path.relative_to(PACKAGE))
        for path in modules()
        for name in imports(path)
        if name == "_pytest" or name.startswith("_pytest.")
    }
    # The phases of one test have no public way.
    assert wrong <= {"session/measuring/visits.py"}


def test_importing_the_plugin_loads_nothing_heavy() -> None:
    code = (
        "import sys, pytest_anubis.plugin; "
        "heavy = {'numpy','scipy','torch','pynvml','sqlalchemy','xdist','pytest_html','duckdb','jinja2'}; "
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_worker_loads_nothing_that_only_the_controller_needs() -> None:
    # Dozens of workers start in a run with accelerators.
    code = (
        "import sys, pytest_anubis.plugin, pytest_anubis.start_worker; "
        "rooms = ('start', 'selector', 'validator', 'report.pages', 'report.plots', 'store.history', "
        "'distributed.dispatch', 'distributed.workers.controller', 'session.running.live_run'); "
        "print([name for name in sys.modules "
        "if name.startswith(tuple('pytest_anubis.' + room for room in rooms)) "
        "and name != 'pytest_anubis.start_worker'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_no_file_needs_long_scrolling() -> None:
    long = {
        str(path.relative_to(ROOT)): count
        for path in modules()
        if (count := len(path.read_text(encoding="utf-8").splitlines())) > LONGEST
    }
    assert not long
