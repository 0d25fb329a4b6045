"""The project's own figures: scripts that print a table, and what they share."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
"""The checkout's root."""
