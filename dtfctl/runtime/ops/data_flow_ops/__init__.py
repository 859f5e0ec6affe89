"""Queues, accumulators and staging areas: a module a concept, with TF1's names."""
