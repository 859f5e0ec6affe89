"""Hosts that a Ray cluster lends."""
