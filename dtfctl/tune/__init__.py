"""A search for good settings of a program: trials as jobs of a cluster."""
