"""Hosts: the link to each one's agent, whether it is up, and what is sent to it."""
