"""The agent: one a host; starts tasks and job processes, watches them, restarts them, keeps their logs."""
