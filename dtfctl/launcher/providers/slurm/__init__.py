"""Hosts that Slurm lends."""
