"""Rounds of benchmarks that ``anubis learn`` runs on this machine."""
