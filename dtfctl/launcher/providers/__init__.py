"""Where hosts come from: each provider starts, finds and ends the agent of a host."""
