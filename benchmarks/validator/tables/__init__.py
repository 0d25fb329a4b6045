"""Made-up tables of one fleet: what limits find in few metrics, beside noise of a known kind."""
