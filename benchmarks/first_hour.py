"""The first hour on an accelerator, as one command; the parts are in the folder ``first_hour``.

    python benchmarks/first_hour.py --plan
    python benchmarks/first_hour.py --json hour.json --html hour.html

With one card the steps for one are run, with several those for a node as well. Each prints its figures beside
the expected ones and where these come from. No setting of a card is changed.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "first_hour"))
sys.path.insert(1, str(Path(__file__).parents[1]))  # the package of this checkout

from hour_command import main  # found by the line above

if __name__ == "__main__":
    raise SystemExit(main())
