"""Checkpoints whole on hosts that share no disk: every host of a job tells what it has, and takes what it lacks."""
