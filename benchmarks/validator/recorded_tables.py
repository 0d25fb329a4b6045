"""Tables of recorded measurements, for scripts that take them by `--data`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any


def recorded(path: Path) -> Any:
    """Return a Parquet or CSV file as a table of pandas; say in one line what is missing, and end."""
    try:
        import pandas as pd

        return pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path)
    except ImportError:
        sys.exit(f"{path.name} is read with pandas and pyarrow: pip install pandas pyarrow")
    except FileNotFoundError:
        sys.exit(f"{path} is not there: --data names the folder that holds {path.parent.name}/")
