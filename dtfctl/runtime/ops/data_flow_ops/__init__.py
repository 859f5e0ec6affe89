"""Queues, accumulators, staging areas and partitioning: a module a concept, with TF1's names."""
