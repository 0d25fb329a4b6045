"""What ``anubis learn`` takes a folder for: tests to be run here, or runs that were collected."""

from __future__ import annotations

from pathlib import Path

from pytest_anubis.cli.shared.printing import say
from pytest_anubis.report.text.numbers import count_text


def holds_runs(path: Path, store: Path) -> bool:
    """Return whether runs are meant, not tests; of a folder that holds both it is said what is taken.

    What was measured here before lies in the store, below the tests: it is no reason not to measure again.
    Runs elsewhere were brought there to be learned from.

    Args:
        path: File or folder that was named.
        store: Folder of this machine's own runs.
    """
    if not path.is_dir():
        return path.suffix != ".py"
    runs = [*path.rglob("journal.jsonl"), *path.rglob("*.npz")]
    inside = path.resolve().is_relative_to(store.resolve())
    if not runs or inside or not any(path.rglob("test_*.py")):
        return bool(runs)
    own = (store.resolve(), (path / store.name).resolve())
    brought = [one for one in runs if not any(one.resolve().is_relative_to(place) for place in own)]
    if brought:
        say(
            f"{path}: holds {count_text(len(brought), 'run')} and tests: it is learned from the runs; to "
            "measure here, name the tests"
        )
        return True
    say(
        f"{path}: holds tests, and {count_text(len(runs), 'run')} of before: it is measured anew; to learn "
        f"from the runs: anubis learn {path / store.name / 'runs'}"
    )
    return False
