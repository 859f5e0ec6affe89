"""Clusters on nodes of a real Ray."""
