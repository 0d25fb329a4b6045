"""``python -m pytest_anubis``: the command ``anubis``, also where its script is not on the path."""

from __future__ import annotations

import sys

from pytest_anubis.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
