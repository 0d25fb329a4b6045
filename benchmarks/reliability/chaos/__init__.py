"""Everything that may go wrong around a run, area by area."""
