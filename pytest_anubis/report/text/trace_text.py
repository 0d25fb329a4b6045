"""What an execution trace holds, in lines for a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MOST = 8
"""Operations without a replay that are named."""


def info_lines(file: str, facts: Mapping[str, Any]) -> list[str]:
    """Return the lines of ``anubis trace info``.

    Args:
        file: The trace's name.
        facts: As the command's JSON has them.
    """
    kinds = ", ".join(f"{name} {count}" for name, count in facts["kinds"].items())
    lines = [
        f"{file}: {facts['operations']} operations in {facts['nodes']} nodes, schema {facts['schema']}, "
        f"digest {facts['digest']}",
        f"kinds: {kinds or 'none'}",
        f"recorded on {', '.join(facts['devices']) or 'no device'}; before the step there are "
        f"{facts['bytes'] / 1e6:.1f} MB",
    ]
    missing = facts["not_replayable"]
    if missing:
        named = ", ".join(f"{name} ({count} times)" for name, count in list(missing.items())[:MOST])
        more = f" and {len(missing) - MOST} more" if len(missing) > MOST else ""
        lines.append(f"no replay of {named}{more}: the test will be INCONCLUSIVE")
    return lines
