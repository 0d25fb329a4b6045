"""Tests of the rooms that `anubis learn` measures with."""
