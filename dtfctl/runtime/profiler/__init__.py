"""A timeline over all tasks of a cluster: captured, written in formats that viewers read, and summed up."""
