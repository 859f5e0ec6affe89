"""Graphs for people: as given, after each pass, and as partitioned."""
