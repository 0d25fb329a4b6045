"""The first hour on an accelerator, as one command; its parts are in this folder.

    python benchmarks/accelerators/first_hour --plan
    python benchmarks/accelerators/first_hour --json hour.json --html hour.html

With one card the steps for one are run, with several those for a node as well. Each prints its figures with
the expected ones and where these come from. No setting of a card is changed.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))  # this checkout's packages

from benchmarks.accelerators.first_hour.command import main

if __name__ == "__main__":
    raise SystemExit(main())
