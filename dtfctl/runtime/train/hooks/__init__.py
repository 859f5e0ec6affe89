"""The standard hooks of monitored sessions: a module a purpose."""
