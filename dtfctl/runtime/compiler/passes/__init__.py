"""Rewrites of a step's graph, each in a module of its own. They change the graph they are given."""
