"""Builds folders that look like /proc and /sys of machines that are not at hand."""

from __future__ import annotations

from pathlib import Path


def lay_out(root: Path, files: dict[str, str]) -> Path:
    """Write files below a root; ``a -> b`` as a key makes a link."""
    for name, text in files.items():
        link, arrow, target = name.partition(" -> ")
        path = root / link.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        if arrow:
            path.symlink_to(root / target.lstrip("/"))
        else:
            path.write_text(text, encoding="utf-8")
    return root
