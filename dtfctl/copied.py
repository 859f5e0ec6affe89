"""Names in a checkpoint folder whose files the agents of a job's hosts bring to each other."""

from __future__ import annotations

OWN = ".dtfctl"
"""The agent's own folder in it; where it is, the folder is such a one."""
KNOWN_UNTIL = "known-until"
"""A file in there. What others wrote before it was changed last is here as well, or was lost with its host."""
