"""The table of pytest's options in docs/options.md, written from the options themselves.

Run: ``python benchmarks/pages/options_table.py [--write]``. It prints the page as it should be, and with
``--write`` writes it.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout's packages

from benchmarks import ROOT
from pytest_anubis.options import OPTIONS, Option

PAGE = ROOT / "docs" / "options.md"
BEGIN, END = "<!-- options: python benchmarks/pages/options_table.py --write -->", "<!-- end -->"


def page() -> str:
    """Return the page with the table that the options give."""
    text = PAGE.read_text(encoding="utf-8")
    table = "\n".join([BEGIN, "", *rows(), "", END])
    return re.sub(f"{re.escape(BEGIN)}.*?{re.escape(END)}", lambda _: table, text, flags=re.DOTALL)


def rows() -> Iterator[str]:
    """Yield the lines of the table."""
    yield "| option | meaning | default | ini key | variable |"
    yield "|---|---|---|---|---|"
    for option in OPTIONS:
        ini = f"`{option.dest}`" if option.ini else ""
        variable = f"`{option.env}`" if option.env else ""
        default = f"`{option.default}`" if option.default else ""
        yield f"| `{_flag(option)}` | {option.help} | {default} | {ini} | {variable} |"


def _flag(option: Option) -> str:
    if option.switch:
        return option.flag
    value = r"\|".join(option.choices) or option.metavar or "VALUE"
    value = value.replace("|", r"\|") if not option.choices else value
    return f"{option.flag}[={value}]" if option.optional else f"{option.flag}={value}"


def main() -> None:
    """Print the page, or write it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write docs/options.md")
    if parser.parse_args().write:
        PAGE.write_text(page(), encoding="utf-8")
    else:
        print(page(), end="")


if __name__ == "__main__":
    main()
