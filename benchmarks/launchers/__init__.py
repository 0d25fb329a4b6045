"""Launchers tried for real on one machine: Slurm, ssh, an image."""
