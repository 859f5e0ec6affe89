"""Streaming metrics: sums kept in local variables, read by a value tensor and advanced by an update op."""
