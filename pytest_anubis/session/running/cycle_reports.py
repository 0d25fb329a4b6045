"""The report files of a soak: one for the campaign, and one for each cycle next to it."""

from __future__ import annotations

import xml.etree.ElementTree as ET  # reads what pytest itself wrote a moment ago
from dataclasses import dataclass
from pathlib import Path

from pytest_anubis.store.atomic import write_atomically


@dataclass(frozen=True, slots=True)
class CycleFiles:
    """The report files of a campaign."""

    # The campaign's page; None without ``--html``. Cycle 7 has ``NAME-00007.html`` next to it.
    html: Path | None = None
    junit: Path | None = None  # the campaign's JUnit file; None without ``--junitxml``

    def of_cycle(self, number: int) -> list[str]:
        """Return the options that give a cycle its own files."""
        options = []
        if self.html is not None:
            options.append(f"--html={_numbered(self.html, number)}")
        if self.junit is not None:
            options.append(f"--junitxml={_numbered(self.junit, number)}")
        return options

    def keep(self, number: int, wanted: bool) -> str:
        """Keep the page of a cycle or remove it; return its name, empty if there is none.

        The caller removes pages of cycles that end like the one before, because a weekend has thousands of
        cycles. ``anubis report`` rebuilds any page from its journal.
        """
        if self.html is None:
            return ""
        page = _numbered(self.html, number)
        if not wanted:
            page.unlink(missing_ok=True)
        return page.name if page.exists() else ""

    def write_junit(self, number: int) -> None:
        """Add a cycle's file to the campaign's as one more test suite; a missing file is an error in it.

        Raises:
            OSError: The disk refuses; the old file is unchanged, and the file of the cycle remains.
        """
        if self.junit is None:
            return
        file = _numbered(self.junit, number)
        name = f"cycle {number:05d}"
        found = _suites(file) or [_missing(name)]
        for suite in found:
            suite.set("name", name)
        root = ET.Element("testsuites", name="anubis soak")
        root.extend([*(_suites(self.junit) if number > 1 else ()), *found])
        write_atomically(self.junit, ET.tostring(root, encoding="utf-8", xml_declaration=True))
        file.unlink(missing_ok=True)


def _missing(name: str) -> ET.Element:
    counts = {"tests": "1", "errors": "1", "failures": "0", "skipped": "0"}
    suite = ET.Element("testsuite", counts)
    case = ET.SubElement(suite, "testcase", name=name, classname="soak")
    ET.SubElement(case, "error", message="the cycle ended without a JUnit file")
    return suite


def _numbered(path: Path, number: int) -> Path:
    return path.with_name(f"{path.stem}-{number:05d}{path.suffix}")


def _suites(path: Path) -> list[ET.Element]:
    """Return the test suites of a JUnit file; none if it is missing or broken."""
    try:
        root = ET.parse(path).getroot()  # noqa: S314  # see above
    except (OSError, ET.ParseError):
        return []
    return [root] if root.tag == "testsuite" else root.findall("testsuite")
