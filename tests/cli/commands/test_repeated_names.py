"""A table of another tool that has one name for benchmark and metric: every line says it once."""

from __future__ import annotations

from pathlib import Path

from tests.cli.command_line import anubis

HEAD = "node,device,benchmark,metric,unit,better,value"


def rows(nodes: int, slow: int = -1) -> list[str]:
    """Two metrics of nodes: `disk_lat`, in which one node may be slow, and `noisy` without a majority."""
    found = []
    for n in range(nodes):
        lat = 100 + n % 3 * 0.1 + 60 * (n == slow)
        found.append(f"n{n:02d},node,disk_lat,disk_lat,us,lower,{lat}")
        found.append(f"n{n:02d},node,noisy,noisy,GB/s,higher,{100 * 1.3**n}")
    return found


def test_a_shared_name_is_said_once(here: Path) -> None:
    for name, slow in (("healthy", -1), ("new", 3)):
        (here / f"{name}.csv").write_text("\n".join([HEAD, *rows(9, slow)]) + "\n")
    learned = anubis("learn", "healthy.csv", "-o", "base", "--error-rate=none", "-v")
    judged = anubis("judge", "new.csv", "--baseline", "base", "-v", "--html", "judged.html")
    given = ("--baseline", "base", "--node", "n03", "--html", "n03.html", "-v")
    reported = anubis("report", "new.csv", *given)
    assert "finding: noisy: no criterion" in learned.stdout
    assert "n03: disk_lat 60 % longer" in judged.stdout
    assert "NOT_TESTED noisy node: no criterion" in judged.stdout
    assert "1 of 1 metrics (disk_lat)" in judged.stdout
    assert reported.returncode == 0, reported.stderr
    said = [learned.stdout, judged.stdout, reported.stdout]
    for text in [*said, *(page.read_text("utf-8") for page in here.glob("*.html"))]:
        assert "disk_lat disk_lat" not in text
        assert "noisy noisy" not in text
        assert "noisy: noisy" not in text
