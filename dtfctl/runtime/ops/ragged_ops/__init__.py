"""Ragged tensors: a module a concept, from partitions of values into rows up to what functions make of them."""
